//! Control QP, CCQ and host memory cache of the Intel E810 RDMA engine.
//!
//! The driver configures the engine through the control QP (CQP), with 64-byte requests. This
//! crate has
//!
//! * [`op`]: every GEN_2 command as a struct with a pure [`op::Command::encode`];
//! * [`qpc`]: the QP host context that CREATE_QP and MODIFY_QP refer to;
//! * [`Cqp`]: the ring, with its completions by registers or through the CCQ;
//! * [`hmc`]: the device's object memory: limits, counts, backing, PBLE lists;
//! * [`code`]: names of error codes, [`limits`]: sizes and time limits.
//!
//! # Bring-up
//!
//! In the order of control-path 3.1, with `P:`
//! [`Platform`](e810_hal::Platform):
//!
//! ```
//! use e810_cqp::hmc::{Backing, Capacity, FpmQuery, Hmc, Object, Plan, query_features};
//! use e810_cqp::{CcqConfig, Config, Cqp, Result};
//! use e810_hal::Platform;
//! use e810_hal::bus::{CeqId, PfId, VsiId};
//!
//! fn bring_up<P: Platform>(platform: P, pf: PfId, vsi: VsiId) -> Result<(Cqp<P>, Hmc<P>)> {
//!     let mut cqp = Cqp::create(platform, Config::new(pf))?;
//!     let hmc = objects(&mut cqp).and_then(|mut hmc| match first_queue(&mut cqp, &mut hmc, vsi) {
//!         Ok(()) => Ok(hmc),
//!         Err(error) => hmc.destroy(&mut cqp).and(Err(error)),
//!     });
//!     match hmc {
//!         Ok(hmc) => Ok((cqp, hmc)),
//!         Err(error) => cqp.destroy().and(Err(error)),
//!     }
//! }
//!
//! fn objects<P: Platform>(cqp: &mut Cqp<P>) -> Result<Hmc<P>> {
//!     let _features = query_features(cqp)?;
//!     let query = FpmQuery::ask(cqp)?;
//!     let plan = Plan::new(&query, &Capacity::DEFAULT, Backing::Full)?;
//!     Hmc::create(cqp, &query, &plan)
//! }
//!
//! fn first_queue<P: Platform>(cqp: &mut Cqp<P>, hmc: &mut Hmc<P>, vsi: VsiId) -> Result<()> {
//!     hmc.ensure(cqp, Object::Cq, 0)?;
//!     let ceq = CeqId::new(0).unwrap();
//!     cqp.attach_ccq(CcqConfig { ceq, vsi, context: 0 })
//! }
//! ```
//!
//! Teardown runs in the opposite order: [`Cqp::detach_ccq`], [`hmc::Hmc::destroy`],
//! [`Cqp::destroy`]. After a reset of the function, `release_after_reset` of both frees the
//! memory without touching the device.
//!
//! # Commands
//!
//! [`Cqp::execute`] posts and waits. [`Cqp::submit`] only posts and returns a [`Ticket`], whose
//! [`Completion`] comes from [`Cqp::wait`] or, in the order of completion, from [`Cqp::poll`].
//! Waiting polls the CCQ itself and needs no interrupt; [`Cqp::arm_ccq`] asks for one.
//!
//! Memory that the device may still use is never freed: the memory of a command that timed out is
//! leaked, and this is logged.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod ccq;
pub mod code;
mod cqp;
mod errno;
mod error;
mod field;
pub mod hmc;
pub mod host_context;
pub mod limits;
pub mod op;
mod opcode;
pub mod qpc;
pub mod ring;
mod slots;
mod ticket;

pub use cqp::{CcqConfig, Config, Cqp, dma_bytes};
pub use error::{Error, Result};
pub use opcode::Opcode;
pub use ticket::{Completion, Counters, Ticket};
