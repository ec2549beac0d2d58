//! Properties of the link: latency, rate, and impairments.

use e810_hal::Ns;

use super::Rate;
use crate::runtime::Mode;

/// Latency, rate and impairments of the link. The shares are parts per million of all frames. A
/// frame can have several faults, and each copy of a duplicated frame has its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quality {
    /// Frames lost.
    pub loss: u32,
    /// Frames delivered twice.
    pub duplicate: u32,
    /// Frames held back until later ones have overtaken them.
    pub reorder: u32,
    /// Frames with one bit flipped behind the Ethernet addresses. The frame check counts as
    /// recomputed after the damage, so the receiver has only its own checks to detect it.
    pub corrupt: u32,
    /// Time on the wire of each frame.
    pub latency: Ns,
    /// Rate of each function's port; `None`: not limited. A frame keeps the port busy for its time
    /// on the wire: padded to 64 bytes with FCS, and with its 24 bytes of preamble, FCS and gap.
    /// Further frames queue behind it, and an engine waits while its port has more than 100 µs
    /// queued. A frame that the function's own switch loops back does not use the port. Neither
    /// does a frame that a wire between processes brings: it has used another port.
    pub rate: Option<Rate>,
    /// Maximum additional latency, drawn for each frame: frames that are sent closer together than
    /// this can overtake each other.
    pub jitter: Ns,
}

impl Quality {
    /// A link without faults, with a latency of 1 µs and no rate limit.
    pub const PERFECT: Self = Self {
        loss: 0,
        duplicate: 0,
        reorder: 0,
        corrupt: 0,
        latency: Ns(1_000),
        rate: None,
        jitter: Ns(0),
    };

    /// The default link: no faults, and in real time no latency either, so that measurements show
    /// the driver and the simulator.
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
