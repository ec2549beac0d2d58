//! Completion queue entries, decoded by value (data-path 4.1, 4.2, 4.4).

use e810_hal::DmaWord;
use e810_types::{FlushCode, WorkQueue};
use tock_registers::register_bitfields;

use crate::slot::id_in;
use crate::status::flush_code_of_event;
use crate::wc::{Sender, WcFlags};

register_bitfields! { u64,
    /// q0.
    Q0 [
        /// Bytes received.
        PAYLDLEN OFFSET(0) NUMBITS(32) []
    ],
    /// q2.
    Q2 [
        /// Key that the peer's send invalidated.
        INVSTAG OFFSET(0) NUMBITS(32) [],
        /// Sender of a datagram; QP numbers have 24 bits. QPID, above it, is not
        /// looked at: existing drivers find the QP by its context alone.
        UDSRCQPN OFFSET(0) NUMBITS(24) []
    ],
    /// q3.
    pub(super) Q3 [
        MINERR OFFSET(0) NUMBITS(16) [],
        MAJERR OFFSET(16) NUMBITS(16) [],
        /// First quantum of the WQE.
        WQEIDX OFFSET(32) NUMBITS(15) [],
        /// An extension entry follows.
        EXTCQE OFFSET(50) NUMBITS(1) [],
        /// RC: INVSTAG is valid; UD: came over IPv4.
        STAG OFFSET(53) NUMBITS(1) [],
        /// Solicited.
        SOEVENT OFFSET(54) NUMBITS(1) [],
        ERROR OFFSET(55) NUMBITS(1) [],
        /// WQE opcode, or wire opcode of what was received.
        OP OFFSET(56) NUMBITS(6) [],
        /// Of the send queue.
        SQ OFFSET(62) NUMBITS(1) [],
        VALID OFFSET(63) NUMBITS(1) []
    ],
    /// q0 of an extension.
    EXT0 [
        IMMDATALOW32 OFFSET(0) NUMBITS(32) []
    ],
    /// q2 of an extension.
    EXT2 [
        /// Sender of a datagram, first byte in [47:40].
        UDSMAC OFFSET(0) NUMBITS(48) [],
        UDVLAN OFFSET(48) NUMBITS(16) []
    ],
    /// q3 of an extension.
    EXT3 [
        UDVLANVALID OFFSET(60) NUMBITS(1) [],
        UDSMACVALID OFFSET(61) NUMBITS(1) [],
        IMMVALID OFFSET(62) NUMBITS(1) []
    ]
}

/// The valid bit of an entry and of an extension.
pub(super) const VALID: u64 = 1 << 63;

/// Of the send queue.
pub(super) const SEND: u64 = 1 << 62;

/// Bits that send an entry to the slow path: EXTCQE, STAG, SOEVENT, ERROR.
pub(super) const UNUSUAL: u64 = (1 << 50) | (1 << 53) | (1 << 54) | (1 << 55);

/// For receives also the bit of the opcode that tells writes with immediate data
/// from sends, which have it clear (data-path 4.5).
pub(super) const UNUSUAL_RECEIVE: u64 = UNUSUAL | 1 << 59;

/// An entry, copied out of the ring.
#[derive(Clone, Copy)]
pub(super) struct Cqe {
    pub(super) q0: u64,
    pub(super) q1: u64,
    pub(super) q2: u64,
    pub(super) q3: u64,
}

/// What the error fields say (data-path 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Success,
    /// Everything outstanding is flushed.
    Flush {
        major: u16,
        code: FlushCode,
    },
    /// This request failed in a way that has no name.
    Failed {
        major: u16,
        minor: u16,
    },
}

const MAJOR_FLUSH: u16 = 1;
/// The minor code is an asynchronous event.
const MAJOR_EVENT: u16 = 0xFFFE;
/// Upper four bits of a major code that is no failure for a datagram send.
const DATAGRAM_SIGNATURE: u16 = 0xE;

/// Of the send queue.
#[inline(always)]
pub(super) fn is_send(q3: u64) -> bool {
    Q3::SQ.is_set(q3)
}

/// Which work queue it is of.
#[inline(always)]
pub(super) fn queue(q3: u64) -> WorkQueue {
    if is_send(q3) {
        WorkQueue::Send
    } else {
        WorkQueue::Recv
    }
}

/// An extension entry follows.
#[inline(always)]
pub(super) fn has_extension(q3: u64) -> bool {
    Q3::EXTCQE.is_set(q3)
}

/// First quantum of the WQE.
#[inline(always)]
pub(super) fn wqe_index(q3: u64) -> u64 {
    Q3::WQEIDX.read(q3)
}

/// Opcode of the WQE, or of what was received.
#[inline(always)]
pub(super) fn op(q3: u64) -> u8 {
    Q3::OP.read(q3) as u8
}

/// The byte of the opcode, with SQ and valid bit above it.
#[inline(always)]
pub(super) fn op_byte(q3: u64) -> u8 {
    (q3 >> 56) as u8
}

/// Bytes received.
#[inline(always)]
pub(super) fn payload_bytes(q0: u64) -> u32 {
    Q0::PAYLDLEN.read(q0) as u32
}

impl Cqe {
    /// Copies an entry whose valid bit was seen in `q3`, after the barrier.
    pub(super) fn read<C: DmaWord>([q0, q1, q2, _]: &[C; 4], q3: u64) -> Self {
        Self {
            q0: q0.get(),
            q1: q1.get(),
            q2: q2.get(),
            q3,
        }
    }

    pub(super) fn qp_id(&self) -> u32 {
        id_in(self.q1)
    }

    pub(super) fn queue(&self) -> WorkQueue {
        queue(self.q3)
    }

    pub(super) fn has_extension(&self) -> bool {
        has_extension(self.q3)
    }

    pub(super) fn op(&self) -> u8 {
        op(self.q3)
    }

    /// Flags, source QP, and the invalidated key.
    pub(super) fn extras(&self, datagram: bool) -> (WcFlags, u32, u32) {
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::SOLICITED, Q3::SOEVENT.is_set(self.q3));
        let marked = Q3::STAG.is_set(self.q3);
        if datagram {
            flags |= WcFlags::GRH;
            flags.set(WcFlags::IPV4, marked);
            (flags, Q2::UDSRCQPN.read(self.q2) as u32, 0)
        } else if marked {
            flags |= WcFlags::WITH_INV;
            (flags, self.qp_id(), Q2::INVSTAG.read(self.q2) as u32)
        } else {
            (flags, self.qp_id(), 0)
        }
    }

    pub(super) fn verdict(&self, datagram: bool) -> Verdict {
        if !Q3::ERROR.is_set(self.q3) {
            return Verdict::Success;
        }
        let (major, minor) = (
            Q3::MAJERR.read(self.q3) as u16,
            Q3::MINERR.read(self.q3) as u16,
        );
        match major {
            MAJOR_FLUSH => Verdict::Flush {
                major,
                code: FlushCode(minor),
            },
            MAJOR_EVENT => Verdict::Flush {
                major,
                code: flush_code_of_event(minor),
            },
            _ if major >> 12 == DATAGRAM_SIGNATURE && is_send(self.q3) && datagram => {
                Verdict::Success
            }
            _ => Verdict::Failed { major, minor },
        }
    }
}

/// Who sent a datagram, by its extension entry.
pub(super) fn sender<C: DmaWord>([_, _, q2, _]: &[C; 4], q3: u64) -> Option<Sender> {
    let q2 = q2.get();
    let [_, _, mac @ ..] = EXT2::UDSMAC.read(q2).to_be_bytes();
    EXT3::UDSMACVALID.is_set(q3).then(|| Sender {
        mac,
        vlan_tag: EXT3::UDVLANVALID
            .is_set(q3)
            .then(|| EXT2::UDVLAN.read(q2) as u16),
    })
}

/// Immediate data of an extension entry.
pub(super) fn immediate<C: DmaWord>([q0, ..]: &[C; 4], q3: u64) -> Option<u32> {
    EXT3::IMMVALID
        .is_set(q3)
        .then(|| EXT0::IMMDATALOW32.read(q0.get()) as u32)
}

/// Major and minor code as a vendor error.
pub(super) fn vendor_error(major: u16, minor: u16) -> u32 {
    u32::from(major) << 16 | u32::from(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_bits_are_those_of_the_fields() {
        let fields = Q3::EXTCQE::SET + Q3::STAG::SET + Q3::SOEVENT::SET + Q3::ERROR::SET;
        assert_eq!(UNUSUAL, fields.value);
        assert_eq!(VALID, Q3::VALID::SET.value);
        assert_eq!(SEND, Q3::SQ::SET.value);
    }
}
