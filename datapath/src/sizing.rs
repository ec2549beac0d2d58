//! Sizes: from what a caller asks for to rings that the device supports.
//!
//! ```
//! use e810_datapath::sizing::{CqSize, RqSize, SqSize};
//!
//! // 100 sends of up to 3 SGEs, or 39 bytes inline.
//! let sq = SqSize::new(100, 3, 39).unwrap();
//! assert_eq!((sq.quanta, sq.shift, sq.max_wr), (1024, 2, 191));
//! let rq = RqSize::new(200, 3).unwrap();
//! assert_eq!((rq.slots, rq.shift, rq.max_wr), (256, 1, 255));
//! assert_eq!(CqSize::new(100).unwrap().entries, 202);
//!
//! let error = SqSize::new(100, 14, 0).unwrap_err();
//! assert_eq!((error.field, error.value), ("max_send_sge", 14));
//! ```

use crate::error::{Bound, SizeError};

/// Bytes of a quantum, the unit of the send and receive queues.
pub const QUANTUM_BYTES: u32 = 32;
/// 64-bit words of a quantum.
pub(crate) const QUANTUM_WORDS: usize = 4;
/// Bytes of a completion queue entry.
pub const CQE_BYTES: u32 = 32;
/// Bytes of the shadow area of a QP or CQ.
pub const SHADOW_BYTES: u32 = 64;
/// Quanta of a chunk; a WQE never crosses a chunk border (data-path 1.1).
pub(crate) const CHUNK_QUANTA: u32 = 8;
/// Quanta of the send queue that sizing sets apart (data-path 1.1): while it
/// runs, 257 always stay free, which covers what clearing ahead touches.
pub(crate) const SQ_RESERVE: u32 = 258;

/// Most SGEs of a request (data-path 5.1, `max_hw_wq_frags`).
pub const MAX_SGES: u32 = 13;
/// Most inline bytes of a request (data-path 5.1).
pub const MAX_INLINE: u32 = 101;
/// Most quanta of a send or receive queue (data-path 5.1).
pub const MAX_WQ_QUANTA: u32 = 32768;
/// Fewest slots of a work queue (data-path 5.1).
pub const MIN_WQ_SLOTS: u32 = 8;
/// Most bytes of a message, and of an SGE (data-path 5.1, 1.6).
pub const MAX_MESSAGE: u32 = 0x7FFF_FFFF;
/// Most completions a CQ can be asked for (data-path 5.3).
pub const MAX_CQE: u32 = 1_048_574;
/// Greatest shadow-read threshold of a CQ (data-path 5.3).
pub const MAX_SHADOW_READ_THRESHOLD: u32 = 0x3_FFFF;
/// Greatest number of outstanding reads a QP serves (data-path 5.1).
pub const MAX_IRD: u32 = 127;
/// Greatest number of outstanding reads a QP issues (data-path 5.1).
pub const MAX_ORD: u32 = 255;

const PAGE: u32 = 4096;

const fn at_most(field: &'static str, value: u32, limit: u32) -> Result<(), SizeError> {
    if value <= limit {
        return Ok(());
    }
    Err(SizeError {
        field,
        value: value as u64,
        bound: Bound::AtMost(limit as u64),
    })
}

/// Shift from slots to quanta (data-path 5.2). `fragments` is the number of
/// SGEs, for a send queue one more (room for immediate data).
#[must_use]
pub const fn wqe_shift(fragments: u32, inline: u32) -> u8 {
    if fragments <= 1 && inline <= 8 {
        0
    } else if fragments < 4 && inline <= 39 {
        1
    } else if fragments < 8 && inline <= 101 {
        2
    } else {
        3
    }
}

/// Quanta of a send WQE of `fragments` fragments: SGEs, and one for immediate
/// data (data-path 1.6). `None` from 16 on.
#[must_use]
pub const fn sq_quanta(fragments: u32) -> Option<u32> {
    if fragments < 16 {
        Some(fragments / 2 + 1)
    } else {
        None
    }
}

/// Bytes of the smallest receive slot that takes `fragments` SGEs (data-path
/// 2). `None` from 15 on.
#[must_use]
pub const fn rq_slot_bytes(fragments: u32) -> Option<u32> {
    match fragments {
        0..=1 => Some(32),
        2..=3 => Some(64),
        4..=7 => Some(128),
        8..=14 => Some(256),
        _ => None,
    }
}

/// Quanta of an inline WQE of `bytes` bytes (data-path 1.8).
#[must_use]
pub const fn inline_quanta(bytes: u32) -> u32 {
    // 8 bytes beside the header, then 31 a quantum. Compared up to the device's
    // limit: a division costs more than the rest of the sizing.
    match bytes {
        0..=8 => 1,
        9..=39 => 2,
        40..=70 => 3,
        71..=101 => 4,
        _ => 1 + (bytes - 8).div_ceil(31),
    }
}

/// Rounds up to a power of two of at least `MIN_WQ_SLOTS << shift`.
const fn depth(
    field: &'static str,
    wr: u32,
    shift: u8,
    reserve: u32,
) -> Result<(u32, u32), SizeError> {
    // Callers keep `shift` at or below 3.
    let most = (MAX_WQ_QUANTA - reserve) >> shift;
    if let Err(error) = at_most(field, wr, most) {
        return Err(error);
    }
    let needed = (wr << shift) + reserve;
    let least = MIN_WQ_SLOTS << shift;
    let quanta = if needed < least {
        least
    } else {
        needed.next_power_of_two()
    };
    Ok((quanta, quanta.saturating_sub(reserve) >> shift))
}

/// Size of a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SqSize {
    /// Ring size in quanta: a power of two, 512 to 32768.
    pub quanta: u32,
    /// log2 of the quanta of the largest request.
    pub shift: u8,
    /// Requests of the largest size that fit at once, at least as many as
    /// asked for.
    pub max_wr: u32,
}

impl SqSize {
    /// Room for `max_wr` requests of `max_sge` SGEs or `max_inline` bytes.
    ///
    /// # Errors
    /// [`SizeError`] naming the attribute that is beyond the device (data-path
    /// 5.1, 5.4).
    pub const fn new(max_wr: u32, max_sge: u32, max_inline: u32) -> Result<Self, SizeError> {
        if let Err(error) = at_most("max_inline_data", max_inline, MAX_INLINE) {
            return Err(error);
        }
        if let Err(error) = at_most("max_send_sge", max_sge, MAX_SGES) {
            return Err(error);
        }
        let shift = wqe_shift(max_sge + 1, max_inline);
        match depth("max_send_wr", max_wr, shift, SQ_RESERVE) {
            Ok((quanta, max_wr)) => Ok(Self {
                quanta,
                shift,
                max_wr,
            }),
            Err(error) => Err(error),
        }
    }

    /// Bytes of the ring.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.quanta * QUANTUM_BYTES
    }
}

/// Size of a receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RqSize {
    /// Slots of the ring: a power of two, at least 8.
    pub slots: u32,
    /// log2 of the quanta of a slot.
    pub shift: u8,
    /// Receives that fit at once: one less than slots.
    pub max_wr: u32,
}

impl RqSize {
    /// Room for `max_wr` receives of `max_sge` SGEs.
    ///
    /// # Errors
    /// [`SizeError`] naming the attribute that is beyond the device.
    pub const fn new(max_wr: u32, max_sge: u32) -> Result<Self, SizeError> {
        if let Err(error) = at_most("max_recv_sge", max_sge, MAX_SGES) {
            return Err(error);
        }
        let shift = wqe_shift(max_sge, 0);
        match depth("max_recv_wr", max_wr, shift, 1) {
            Ok((quanta, max_wr)) => Ok(Self {
                slots: quanta >> shift,
                shift,
                max_wr,
            }),
            Err(error) => Err(error),
        }
    }

    /// Ring size in quanta.
    #[must_use]
    pub const fn quanta(&self) -> u32 {
        self.slots << self.shift
    }

    /// Bytes of the ring.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.quanta() * QUANTUM_BYTES
    }
}

/// Size of a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CqSize {
    /// Entries of the ring; need not be a power of two.
    pub entries: u32,
}

impl CqSize {
    /// Room for `cqe` completions. Each may take two entries, because
    /// immediate data comes in an entry of its own (data-path 4.2, 5.3).
    ///
    /// # Errors
    /// [`SizeError`] unless `cqe` is 1 to [`MAX_CQE`].
    pub const fn new(cqe: u32) -> Result<Self, SizeError> {
        if cqe == 0 {
            return Err(SizeError {
                field: "cqe",
                value: 0,
                bound: Bound::AtLeast(1),
            });
        }
        if let Err(error) = at_most("cqe", cqe, MAX_CQE) {
            return Err(error);
        }
        // Even, and at least 4, for every cqe of 1 and more.
        Ok(Self {
            entries: (cqe + 1) * 2,
        })
    }

    /// Bytes of the ring.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.entries * CQE_BYTES
    }

    /// Shadow-read threshold for CREATE_CQ (data-path 5.3).
    #[must_use]
    pub const fn shadow_read_threshold(&self) -> u32 {
        let half = self.entries / 2;
        if half < MAX_SHADOW_READ_THRESHOLD {
            half
        } else {
            MAX_SHADOW_READ_THRESHOLD
        }
    }
}

/// Where the parts of a QP lie when they share one buffer (data-path 3): send
/// ring, receive ring, shadow area, the first two on page borders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QpLayout {
    /// Byte offset of the receive ring; the send ring is at 0.
    pub rq_offset: u32,
    /// Byte offset of the shadow area.
    pub shadow_offset: u32,
    /// Bytes in all.
    pub bytes: u32,
}

impl QpLayout {
    /// The layout for two rings.
    #[must_use]
    pub const fn new(sq: &SqSize, rq: &RqSize) -> Self {
        let rq_offset = sq.bytes().next_multiple_of(PAGE);
        let shadow_offset = rq_offset + rq.bytes().next_multiple_of(PAGE);
        Self {
            rq_offset,
            shadow_offset,
            bytes: shadow_offset + SHADOW_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_granted_size_holds_what_was_asked_for() {
        let step = if cfg!(miri) { 4999 } else { 61 };
        for max_sge in 0..=MAX_SGES {
            for wr in (0..=MAX_WQ_QUANTA).step_by(step) {
                if let Ok(sq) = SqSize::new(wr, max_sge, 0) {
                    assert!(sq.max_wr >= wr && sq.quanta.is_power_of_two());
                    assert!((sq.max_wr << sq.shift) + SQ_RESERVE <= sq.quanta);
                    let largest = sq_quanta(max_sge + 1).unwrap();
                    assert!(largest <= 1 << sq.shift, "{max_sge} SGEs and imm fit");
                }
                if let Ok(rq) = RqSize::new(wr, max_sge) {
                    assert!(rq.max_wr >= wr && rq.slots.is_power_of_two());
                    assert!(rq.quanta() <= MAX_WQ_QUANTA);
                }
            }
        }
    }

    #[test]
    fn an_error_names_a_limit_that_is_accepted() {
        for (sge, inline) in [(0, 0), (1, 0), (3, 39), (4, 64), (13, 101)] {
            let error = SqSize::new(100_000, sge, inline).unwrap_err();
            let Bound::AtMost(limit) = error.bound else {
                panic!("{error}");
            };
            assert!(SqSize::new(limit as u32, sge, inline).is_ok());
            assert!(SqSize::new(limit as u32 + 1, sge, inline).is_err());
        }
        for sge in [0, 2, 5, 13] {
            let Bound::AtMost(limit) = RqSize::new(100_000, sge).unwrap_err().bound else {
                panic!("not an upper bound");
            };
            assert!(RqSize::new(limit as u32, sge).is_ok());
            assert!(RqSize::new(limit as u32 + 1, sge).is_err());
        }
    }

    #[test]
    fn beyond_the_device_is_refused() {
        assert_eq!(SqSize::new(1, 1, 102).unwrap_err().field, "max_inline_data");
        assert_eq!(
            SqSize::new(u32::MAX, 1, 0).unwrap_err().field,
            "max_send_wr"
        );
        assert_eq!(RqSize::new(1, 14).unwrap_err().field, "max_recv_sge");
        assert_eq!(RqSize::new(u32::MAX, 1).unwrap_err().field, "max_recv_wr");
        assert!(CqSize::new(0).is_err());
        assert!(CqSize::new(MAX_CQE + 1).is_err());
        assert_eq!(CqSize::new(1).unwrap().entries, 4);
        assert_eq!(
            CqSize::new(MAX_CQE).unwrap().shadow_read_threshold(),
            MAX_SHADOW_READ_THRESHOLD
        );
    }

    #[test]
    fn inline_borders_are_those_of_the_table() {
        for (bytes, quanta) in [
            (0, 1),
            (8, 1),
            (9, 2),
            (39, 2),
            (40, 3),
            (70, 3),
            (71, 4),
            (101, 4),
            (102, 5),
            (132, 5),
            (163, 6),
            (194, 7),
            (195, 8),
        ] {
            assert_eq!(inline_quanta(bytes), quanta, "{bytes} bytes");
        }
    }
}
