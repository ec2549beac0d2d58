//! The transmit queue.

mod memory;
mod ring;

pub use memory::TxMemory;
pub use ring::{MIN_FRAME, STALLED_AFTER, TxCounts, TxRing};
