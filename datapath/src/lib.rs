//! Work queues and completion queues of the Intel E810 RDMA engine.
//!
//! Requests go from a caller's list straight into the ring ([`SendQueue::post_send`],
//! [`RecvQueue::post_recv`]); completions are returned by value ([`CompletionQueue::poll`]). This
//! path has no lock, no allocation, no clearing of structures and no copy of a list of SGEs.
//!
//! # How the parts are put together
//! 1. [`Registry::new`] lays a slot table into memory the device cannot see.
//! 2. [`Registry::open_cq`] and [`Registry::open_qp`] give keys; a key's bits are the completion
//!    context that CREATE_CQ and CREATE_QP are given.
//! 3. [`CompletionQueue::new`]`(platform, ring, shadow, slots, key, entries)`,
//!    [`SendQueue::new`]`(platform, ring, slots, key, limits)`, [`RecvQueue::new`]`(platform, ring,
//!    slots, key, size, max_sge)`. Rings are any [`DmaWords`](e810_hal::DmaWords): a `DmaBuf` of
//!    the sizes in [`sizing`], zeroed. The three may live on different threads.
//! 4. [`Registry::set_state`] after each MODIFY_QP; requests are refused in states that do not take
//!    them.
//! 5. Event handlers call [`Slots::signal_cq`], [`Slots::mark_failed`] and
//!    [`Slots::mark_cq_failed`]; the control path then finds failed QPs with
//!    [`Registry::take_attention`], flushes them, and calls [`Registry::sweep`].
//! 6. To destroy a QP: [`Registry::hide_qp`], DESTROY_QP, [`Registry::retire`]; [`Registry::reap`]
//!    says when its id may be used again.
//!
//! # A QP that fails
//! The device reports it by an asynchronous event and stops; it writes no flush CQEs until
//! software moves the QP to ERR and posts FLUSH_WQES (data-path 8.4). This crate does not do
//! that: a program that only polls has to let its control path work, or its requests never
//! complete.
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use e810_datapath::sizing::{CqSize, RqSize, SqSize};
//! use e810_datapath::slot::{Layout, QpShape, Registry};
//! use e810_datapath::{CompletionQueue, Data, Op, SendFlags, SendLimits, SendQueue, SendWr, Sge, Wc};
//! use e810_hal::{Barrier, Bus, RegOffset};
//! use e810_types::{QpState, QpType};
//!
//! /// A platform that has no device behind it.
//! struct NoDevice;
//! impl Bus for NoDevice {
//!     fn read32(&self, _: RegOffset) -> u32 { 0 }
//!     fn write32(&self, _: RegOffset, _: u32) {}
//! }
//! impl Barrier for NoDevice {}
//! # fn main() -> Result<(), e810_datapath::Error> {
//! # fn zeroed(words: u32) -> &'static [AtomicU64] {
//! #     Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect())
//! # }
//!
//! let (sq, rq, cq) = (SqSize::new(64, 1, 0)?, RqSize::new(64, 1)?, CqSize::new(64)?);
//! let layout = Layout { cqs: 4, qps: 4, channels: 0, tracker_words: QpShape::tracker_words(sq.quanta, rq.quanta()) };
//! let mut registry = Registry::new(zeroed(layout.words() as u32), layout)?;
//! let cq_key = registry.open_cq(3)?;
//! let qp_key = registry.open_qp(3, &QpShape {
//!     sq_quanta: sq.quanta,
//!     rq_quanta: rq.quanta(),
//!     qp_type: QpType::Rc,
//!     send_cq: cq_key,
//!     recv_cq: cq_key,
//! })?;
//! let slots = registry.slots().clone();
//! let ring = zeroed(cq.bytes() / 8);
//! let mut completions =
//!     CompletionQueue::new(NoDevice, ring, zeroed(8), slots.clone(), cq_key, cq.entries)?;
//! let limits = SendLimits {
//!     qp_type: QpType::Rc,
//!     max_sge: 1,
//!     max_inline: 0,
//!     address_handles: 1 << 17,
//!     signal_all: false,
//!     local_fence: true,
//!     read_fence_rate: 0,
//!     extra: Default::default(),
//! };
//! let mut sends = SendQueue::new(NoDevice, zeroed(sq.bytes() / 8), slots, qp_key, limits)?;
//!
//! for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
//!     registry.set_state(qp_key, state)?;
//! }
//! let sge = Sge { addr: 0x1000, length: 64, lkey: 5 };
//! sends.post_send(&[SendWr {
//!     wr_id: 1,
//!     op: Op::Send { data: Data::Sges(&[sge]), imm: None },
//!     flags: SendFlags::SIGNALED,
//! }])?;
//! assert_eq!(completions.poll(&mut [Wc::default(); 4]), 0, "no device, no completion");
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arm;
pub mod cq;
mod errno;
pub mod error;
mod producer;
pub mod rq;
pub mod sizing;
pub mod slot;
pub mod sq;
pub mod state;
pub mod status;
mod track;
pub mod wc;
mod wqe;
pub mod wr;

pub use arm::Notify;
pub use cq::{CompletionQueue, Counters};
pub use e810_types::{FlushCode, QpState, QpType, WorkQueue};
pub use error::{Error, PostError, Refused, SizeError, SlotError};
pub use rq::{RecvList, RecvQueue};
pub use slot::{CqKey, DroppedWrs, QpKey, Registry, Slots};
pub use sq::{OneSge, SendLimits, SendList, SendPlan, SendQueue};
pub use status::{WcOpcode, WcStatus};
pub use wc::{Sender, Wc, WcFlags};
pub use wr::{
    Atomic, Data, ExtraOps, FastRegister, FastRegisterParts, MwBind, Op, RecvWr, Remote, SendFlags,
    SendWr, Sge, UdTarget,
};
