//! Ways to take completions: directly, after events with a budget, or spinning
//! for a while before sleeping; by callback; and queues that several users share.
//!
//! ```
//! use e810::polling::{CqPoller, PollMode, Processed};
//! use e810::{Cq, Platform};
//!
//! fn serve<P: Platform>(platform: &P, cq: Cq<P>, wait_for_its_event: impl Fn()) -> ! {
//!     let mut poller = CqPoller::new(cq, PollMode::event());
//!     loop {
//!         match poller.process(platform.now(), &mut |wc| { let _ = wc.wr_id; }) {
//!             // Others get their turn, then again.
//!             Processed::Again => {}
//!             Processed::Sleep => wait_for_its_event(),
//!         }
//!     }
//! }
//! ```

mod callbacks;
mod poller;
mod pool;

pub use callbacks::Callbacks;
pub use poller::{BATCH, BUDGET, CqPoller, PollMode, Processed, WORK_BUDGET};
pub use pool::{CqLease, CqPool};
