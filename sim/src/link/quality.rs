//! What a bad cable does.

use e810_hal::Ns;

/// How good the wire is. The rates are parts per million of all frames; a frame can meet with several faults, and of
/// one that is delivered twice each copy has its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quality {
    /// Frames lost.
    pub loss: u32,
    /// Frames delivered twice.
    pub duplicate: u32,
    /// Frames held back until later ones have overtaken them.
    pub reorder: u32,
    /// Frames with one bit flipped behind the Ethernet addresses. As if the frame check had been redone after the
    /// damage: the receiver finds it, or not, by its own checks.
    pub corrupt: u32,
    /// Time on the wire of each frame. The bandwidth is not limited.
    pub latency: Ns,
    /// Most time that a frame may take on top, drawn anew for each: frames that are sent closer together than this can
    /// overtake each other.
    pub jitter: Ns,
}

impl Quality {
    /// A wire that loses nothing.
    pub const PERFECT: Self = Self {
        loss: 0,
        duplicate: 0,
        reorder: 0,
        corrupt: 0,
        latency: Ns(1_000),
        jitter: Ns(0),
    };

    /// Whether chance has nothing to decide.
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
