//! Ways to take completions: directly, after events with a budget, or spinning for a while before
//! sleeping; by callback; and from queues that several users share.
//!
//! A queue can be taken in three contexts, all with a [`CqPoller`]:
//!
//! - **directly**: its user calls [`CqPoller::process_direct`] at any time. The queue is on no
//!   channel, its mode is [`PollMode::Direct`], and it raises no event.
//! - **in an event handler**, beside others: call [`CqPoller::process`] with
//!   [`PollMode::event`] when the queue's [`Event::Completion`](crate::Event::Completion) was
//!   delivered, and again after [`Processed::Again`] once the others had their turn. One turn
//!   takes at most [`BUDGET`] completions.
//! - **in a worker**, a thread of its own that may block while it handles a completion: with
//!   [`PollMode::worker`], asleep on the queue's [`Channel`](crate::Channel). The interrupt
//!   handler only runs [`VectorEvents::on_vector`](crate::VectorEvents::on_vector), which wakes
//!   the worker.
//!
//! Each context takes [`BATCH`] completions from the ring at a time.
//!
//! ```
//! use e810::polling::{CqPoller, PollMode, Processed};
//! use e810::{Channel, Cq, CqEvent, Platform};
//!
//! /// `cq` is on `channel`. `next` sleeps until the channel has an event: on a
//! /// descriptor (`e810_backends::channel::HostChannel::next`), or with
//! /// [`Channel::poll_next`] and a waker of whatever the threads here are. It gives
//! /// none when the worker is to end.
//! fn worker<P: Platform>(
//!     platform: &P,
//!     channel: &Channel<P>,
//!     cq: Cq<P>,
//!     next: impl Fn() -> Option<CqEvent>,
//! ) -> e810::Result<Cq<P>> {
//!     let mut poller = CqPoller::new(cq, PollMode::worker());
//!     loop {
//!         match poller.process(platform.now(), &mut |wc| { let _ = wc.wr_id; }) {
//!             Processed::Again => {}
//!             Processed::Sleep => match next() {
//!                 Some(event) => channel.acknowledge(event, 1)?,
//!                 None => return Ok(poller.into_cq()),
//!             },
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
