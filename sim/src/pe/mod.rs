//! The protocol engine: the RDMA part of one function.
//!
//! [`ProtocolEngine`] is the device side of the CQP, the HMC, completion and event queues and queue
//! pairs. It owns no registers, no memory and no clock: it reaches all of these through [`Env`],
//! which the function implements. Drive it like this:
//!
//! 1. [`ProtocolEngine::doorbell`] for each write to one of its doorbell registers ([`Doorbell`]),
//! 2. [`ProtocolEngine::receive`] for each received packet,
//! 3. [`ProtocolEngine::step`] until it returns `false`, and again when
//!    [`ProtocolEngine::next_deadline`] has come,
//! 4. [`ProtocolEngine::reset`] when a reset reaches the PE.
//!
//! A call does a bounded piece of work and never blocks. The engine is deterministic: its only
//! choices come from [`Env::random`] and its only time from [`Env::now`].

mod aeq;
mod ah;
mod arp;
mod ceq;
mod config;
mod contexts;
mod cq;
mod cq_events;
mod cqp;
mod device;
mod engine;
mod env;
mod fpm;
mod grants;
mod hmc;
mod host_context;
mod in_flight;
mod inject;
mod mr;
mod multicast_group;
mod packet_lints;
mod pools;
mod qp;
mod qp_work;
mod rc_host;
mod ring;
mod schedule;
mod stag_wqe;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod touched;
mod ud;
mod ud_multicast;
mod ud_receive;
mod word;

pub use config::{Config, CqpErrors, TransportLimits};
pub use engine::ProtocolEngine;
pub use env::{DmaFault, Doorbell, Env, EventCount, OicrCause, PeReg, ResetKind};
pub(crate) use fpm::QUERY_BYTES;
pub use fpm::{FpmProfile, NoProfile};
pub use inject::{Breakage, Subject};
pub use tables::LeftBehind;
