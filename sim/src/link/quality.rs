//! Link impairments: loss, duplication, reordering, corruption, latency.

use e810_hal::Ns;

/// Impairments of the link. The rates are parts per million of all frames. A frame can have several
/// faults; each copy of a duplicated frame has its own.
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
    /// Time on the wire of each frame. The bandwidth is not limited.
    pub latency: Ns,
    /// Maximum additional latency, drawn for each frame: frames that are sent closer together than
    /// this can overtake each other.
    pub jitter: Ns,
}

impl Quality {
    /// A link without faults.
    pub const PERFECT: Self = Self {
        loss: 0,
        duplicate: 0,
        reorder: 0,
        corrupt: 0,
        latency: Ns(1_000),
        jitter: Ns(0),
    };

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
