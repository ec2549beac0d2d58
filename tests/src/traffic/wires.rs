//! Wires with one fault, at a rate in parts per million, and what faults did.

use e810_hal::Ns;
use e810_sim::{Quality, Sim};

/// One in a hundred, as a rate of [`Quality`].
pub const PERCENT: u32 = 10_000;

const PERFECT: Quality = Quality::PERFECT;

/// Three in a hundred of every fault, and delays of up to 5 µs.
pub const OF_EACH: Quality = Quality {
    loss: 3 * PERCENT,
    duplicate: 3 * PERCENT,
    reorder: 3 * PERCENT,
    corrupt: 3 * PERCENT,
    jitter: Ns::from_us(5),
    ..PERFECT
};

/// Loses this share of the frames.
#[must_use]
pub const fn losing(loss: u32) -> Quality {
    Quality { loss, ..PERFECT }
}

/// Delivers this share twice.
#[must_use]
pub const fn duplicating(duplicate: u32) -> Quality {
    Quality {
        duplicate,
        ..PERFECT
    }
}

/// Holds this share back until others have overtaken it.
#[must_use]
pub const fn reordering(reorder: u32) -> Quality {
    Quality { reorder, ..PERFECT }
}

/// Flips a bit in this share.
#[must_use]
pub const fn corrupting(corrupt: u32) -> Quality {
    Quality { corrupt, ..PERFECT }
}

/// Delays each frame by up to this time.
#[must_use]
pub const fn delaying(jitter: Ns) -> Quality {
    Quality { jitter, ..PERFECT }
}

/// How often a fault has met a frame; delays do not count.
#[must_use]
pub fn hurt(sim: &Sim) -> u64 {
    let link = sim.link();
    link.lost + link.duplicated + link.reordered + link.corrupted
}
