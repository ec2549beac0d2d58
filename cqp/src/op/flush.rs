//! FLUSH_WQES (control-path 4.12).

use e810_types::FlushCode;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::{Error, Result};
use crate::field::{bit, fit};
use crate::opcode::Opcode;

register_bitfields![u64,
    Q8 [
        AECODE OFFSET(0) NUMBITS(16) [],
        AESOURCE OFFSET(16) NUMBITS(4) []
    ],
    Q16 [
        RQMINERR OFFSET(0) NUMBITS(16) [],
        RQMAJERR OFFSET(16) NUMBITS(16) [],
        SQMINERR OFFSET(32) NUMBITS(16) [],
        SQMAJERR OFFSET(48) NUMBITS(16) []
    ],
    Q24 [
        QPID OFFSET(0) NUMBITS(24) [],
        GENERATE_AE OFFSET(59) NUMBITS(1) [],
        USERFLCODE OFFSET(60) NUMBITS(1) [],
        FLUSHSQ OFFSET(61) NUMBITS(1) [],
        FLUSHRQ OFFSET(62) NUMBITS(1) []
    ]
];

/// The codes a flushed request completes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlushStatus {
    /// Major code; 1 in existing drivers.
    pub major: u16,
    /// Minor code: general, or the one derived from the AE (control-path 7.6).
    pub minor: FlushCode,
}

impl FlushStatus {
    /// Major 1, minor 1: no particular reason.
    pub const GENERAL: Self = Self {
        major: 1,
        minor: FlushCode::GENERAL,
    };
}

/// An asynchronous event to generate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AsyncEvent {
    /// AE code (control-path 7.5).
    pub code: u16,
    /// AE source, 4 bits (control-path 7.4).
    pub source: u8,
}

impl AsyncEvent {
    fn word(self) -> Result<u64> {
        Ok(
            (Q8::AECODE.val(u64::from(self.code)) + fit("AE source", Q8::AESOURCE, self.source)?)
                .value,
        )
    }
}

/// FLUSH_WQES: completes what is outstanding on a QP in error.
///
/// The completion's minor code says which sides were flushed: [`Flushed`](crate::code::Flushed).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushWqes {
    /// QP id.
    pub qp: u32,
    /// Flush the send queue.
    pub sq: bool,
    /// Flush the receive queue.
    pub rq: bool,
    /// Codes for the send and the receive queue (USERFLCODE); `None` leaves
    /// them to the device.
    pub codes: Option<(FlushStatus, FlushStatus)>,
    /// Also generate this AE.
    pub event: Option<AsyncEvent>,
}

impl FlushWqes {
    /// Flushes both sides with `sq` and `rq` codes.
    #[must_use]
    pub const fn both(qp: u32, sq: FlushStatus, rq: FlushStatus) -> Self {
        Self {
            qp,
            sq: true,
            rq: true,
            codes: Some((sq, rq)),
            event: None,
        }
    }
}

impl Command for FlushWqes {
    fn encode(&self) -> Result<Wqe> {
        if !self.sq && !self.rq {
            return Err(Error::Invalid {
                what: "a flush names the send queue, the receive queue or both",
            });
        }
        let mut wqe = Wqe::default();
        let [_, q8, q16, ..] = &mut wqe;
        if let Some(event) = self.event {
            *q8 = event.word()?;
        }
        if let Some((sq, rq)) = self.codes {
            if self.sq {
                *q16 |= (Q16::SQMAJERR.val(u64::from(sq.major))
                    + Q16::SQMINERR.val(u64::from(sq.minor.0)))
                .value;
            }
            if self.rq {
                *q16 |= (Q16::RQMAJERR.val(u64::from(rq.major))
                    + Q16::RQMINERR.val(u64::from(rq.minor.0)))
                .value;
            }
        }
        let fields = fit("QP id", Q24::QPID, self.qp)?
            + bit(Q24::GENERATE_AE, self.event.is_some())
            + bit(Q24::USERFLCODE, self.codes.is_some())
            + bit(Q24::FLUSHSQ, self.sq)
            + bit(Q24::FLUSHRQ, self.rq);
        wqe[HEADER] = header(Opcode::FlushWqes, fields.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_flushed_side_carries_a_code() {
        let code = FlushStatus {
            major: 1,
            minor: FlushCode::REM_ACCESS,
        };
        let both = FlushWqes::both(5, code, FlushStatus::GENERAL);
        let sq = FlushWqes { rq: false, ..both };
        assert_eq!(sq.encode().unwrap()[2], 0x0001_0003_0000_0000);
        let rq = FlushWqes { sq: false, ..both };
        assert_eq!(rq.encode().unwrap()[2], 0x0001_0001);
        let device = FlushWqes {
            codes: None,
            ..both
        };
        assert_eq!(device.encode().unwrap()[2], 0);
        assert!(!Q24::USERFLCODE.is_set(device.encode().unwrap()[3]));
    }

    #[test]
    fn bad_flushes_are_refused() {
        let both = FlushWqes::both(5, FlushStatus::GENERAL, FlushStatus::GENERAL);
        let none = FlushWqes {
            sq: false,
            rq: false,
            ..both
        };
        assert!(matches!(none.encode(), Err(Error::Invalid { .. })));
        let event = Some(AsyncEvent {
            code: 0x201,
            source: 16,
        });
        assert!(FlushWqes { event, ..both }.encode().is_err());
        assert!(
            FlushWqes {
                qp: 1 << 24,
                ..both
            }
            .encode()
            .is_err()
        );
    }
}
