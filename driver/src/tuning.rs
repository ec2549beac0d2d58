//! How connections pace themselves: what the contexts of a queue pair and of the CQP say about
//! windows, time-outs, READs in flight and congestion.
//!
//! The defaults are what Linux' irdma always writes. Intel's own driver checks whether the port
//! has flow control and writes the values of [`Tuning::WITHOUT_FLOW_CONTROL`] or
//! [`Tuning::WITH_FLOW_CONTROL`]; this driver leaves the choice to the program.
//! docs/performance.md has the table.

pub use e810_cqp::host_context::Dcqcn;
pub use e810_cqp::qpc::{CongestionControl, Timely};

use e810_cqp::limits::{MAX_IRD, MAX_ORD};

use crate::error::{Error, Result};

/// Greatest value of a context field of `bits` bits.
const fn most(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// How a queue pair paces itself: fields of its context (control-path 5.2), except for the rate
/// of fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Congestion window (CWNDROCE), 1 to 2^24 - 1; its unit is in no source.
    pub window: u32,
    /// ACK credits (ACKCREDITS), 0 to 31.
    pub ack_credits: u8,
    /// Least retransmission time-out (RTOMIN), 0 to 127; its unit is in no
    /// source.
    pub rto_min: u8,
    /// Inbound READs in flight at most (IRD), 1 to 127: what
    /// [`QpAttr::max_dest_rd_atomic`](crate::QpAttr) can ask for.
    pub max_dest_rd_atomic: u8,
    /// Outbound READs in flight at most (ORD), 1 to 255: what
    /// [`QpAttr::max_rd_atomic`](crate::QpAttr) can ask for.
    pub max_rd_atomic: u8,
    /// READs posted without FENCE before one that carries it, whatever its flags say; 0 for none.
    /// It belongs to the send queue, not to the context.
    pub read_fence_rate: u8,
    /// Congestion control; all off by default, as in existing drivers.
    /// [`Config::congestion`](crate::Config) sets the parameters of DCQCN, DCTCP and TIMELY.
    pub congestion: CongestionControl,
}

impl Tuning {
    /// What Linux' irdma writes, with flow control or without.
    pub const LINUX: Self = Self {
        window: 0x400,
        ack_credits: 0x1E,
        rto_min: 5,
        max_dest_rd_atomic: MAX_IRD as u8,
        max_rd_atomic: MAX_ORD as u8,
        read_fence_rate: 0,
        congestion: CongestionControl {
            dcqcn: false,
            dctcp: false,
            firmware: false,
            timely: None,
        },
    };
    /// What Intel's out-of-tree irdma writes on a port without link-level or
    /// priority flow control.
    pub const WITHOUT_FLOW_CONTROL: Self = Self {
        window: 0x20,
        ack_credits: 2,
        read_fence_rate: 4,
        ..Self::LINUX
    };
    /// What Intel's out-of-tree irdma writes on a port with flow control.
    pub const WITH_FLOW_CONTROL: Self = Self {
        rto_min: 0x32,
        ..Self::LINUX
    };

    /// Whether all values fit their fields.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], naming the field.
    pub fn check(&self) -> Result<()> {
        let timely = self.congestion.timely.unwrap_or_default();
        let ranges = [
            ("congestion window", self.window, 1, most(24)),
            ("ACK credits", self.ack_credits.into(), 0, most(5)),
            (
                "least retransmission time-out",
                self.rto_min.into(),
                0,
                most(7),
            ),
            (
                "inbound READs in flight",
                self.max_dest_rd_atomic.into(),
                1,
                MAX_IRD,
            ),
            (
                "outbound READs in flight",
                self.max_rd_atomic.into(),
                1,
                MAX_ORD,
            ),
            ("TIMELY high threshold", timely.high.into(), 0, most(12)),
        ];
        for (what, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(Error::OutOfRange {
                    what,
                    value: value.into(),
                    min: min.into(),
                    max: max.into(),
                });
            }
        }
        Ok(())
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self::LINUX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_existing_drivers_fit() {
        for tuning in [
            Tuning::default(),
            Tuning::WITHOUT_FLOW_CONTROL,
            Tuning::WITH_FLOW_CONTROL,
        ] {
            assert_eq!(tuning.check(), Ok(()));
        }
    }

    #[test]
    fn every_value_has_its_range() {
        let good = Tuning::default();
        let timely = |high| CongestionControl {
            timely: Some(Timely { high, low: 255 }),
            ..good.congestion
        };
        let edges = Tuning {
            window: 0xFF_FFFF,
            ack_credits: 31,
            rto_min: 127,
            max_dest_rd_atomic: 1,
            max_rd_atomic: 1,
            read_fence_rate: 255,
            congestion: timely(0xFFF),
        };
        assert_eq!(edges.check(), Ok(()));
        let bad = [
            Tuning { window: 0, ..good },
            Tuning {
                window: 1 << 24,
                ..good
            },
            Tuning {
                ack_credits: 32,
                ..good
            },
            Tuning {
                rto_min: 128,
                ..good
            },
            Tuning {
                max_dest_rd_atomic: 0,
                ..good
            },
            Tuning {
                max_dest_rd_atomic: 128,
                ..good
            },
            Tuning {
                max_rd_atomic: 0,
                ..good
            },
            Tuning {
                congestion: timely(0x1000),
                ..good
            },
        ];
        for tuning in bad {
            assert!(
                matches!(tuning.check(), Err(Error::OutOfRange { .. })),
                "{tuning:?}"
            );
        }
    }
}
