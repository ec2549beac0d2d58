//! Properties of the link: latency, rate, and impairments.

use e810_hal::Ns;

use super::Rate;
use crate::runtime::Mode;

/// Latency and rate of the link, and its impairments. The shares are parts per million of all
/// frames. A frame can have several faults; each copy of a duplicated frame has its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quality {
    /// Frames lost.
    pub loss: u32,
    /// Frames delivered twice.
    pub duplicate: u32,
    /// Frames held back until later ones have overtaken them.
    pub reorder: u32,
    /// Frames with one bit flipped behind the Ethernet addresses. The frame check counts as
    /// recomputed after the damage: the receiver has only its own checks to detect it.
    pub corrupt: u32,
    /// Time on the wire of each frame.
    pub latency: Ns,
    /// Rate of each function's port; `None` is not limited. A port is busy for as long as a frame
    /// takes, with the 24 bytes of preamble, FCS and gap that it has on the wire and padded to 64
    /// bytes with FCS; frames queue behind it, and an engine waits while its port has more than
    /// 100 µs queued. A frame that the function's own switch loops back does not use the port, and
    /// what a wire between processes brings has used another one.
    pub rate: Option<Rate>,
    /// Maximum additional latency, drawn for each frame: frames that are sent closer together than
    /// this can overtake each other.
    pub jitter: Ns,
}

impl Quality {
    /// A link without faults, with a latency of 1 µs and no limit of its rate.
    pub const PERFECT: Self = Self {
        loss: 0,
        duplicate: 0,
        reorder: 0,
        corrupt: 0,
        latency: Ns(1_000),
        rate: None,
        jitter: Ns(0),
    };

    /// What a link has unless something else is asked for: no faults, and in real time no latency
    /// either, so that what is measured is the driver and the simulator.
    #[must_use]
    pub const fn default_in(mode: Mode) -> Self {
        match mode {
            Mode::Virtual => Self::PERFECT,
            Mode::Real => Self {
                latency: Ns(0),
                ..Self::PERFECT
            },
        }
    }

    /// Whether no random fault is configured.
    pub(super) const fn is_faultless(&self) -> bool {
        let shares = self.loss | self.duplicate | self.reorder | self.corrupt;
        shares == 0 && self.jitter.0 == 0
    }
}

impl Default for Quality {
    fn default() -> Self {
        Self::PERFECT
    }
}
