//! The receive queue.

mod context;
mod control;
mod descriptor;
mod memory;
mod ring;

pub use context::RxQueueContext;
pub use memory::{RX_BUFFER, RxMemory};
pub use ring::{NotEnabled, RxCounts, RxLeft, RxRing};
