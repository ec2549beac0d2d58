//! The registers, one file a family.
//!
//! A register consists of two items with the same name: a constant, which knows its place and the
//! allowed accesses, and a module, which holds its fields.
//!
//! ```
//! use e810_hal::bus::{Bus, Vector};
//! use e810_hal::regs::{GLINT_ITR, PFPE_CCQPSTATUS};
//! use e810_hal::bus::ItrIndex;
//!
//! fn cqp_is_up(bus: &impl Bus) -> bool {
//!     PFPE_CCQPSTATUS.read(bus).is_set(PFPE_CCQPSTATUS::CCQP_DONE)
//! }
//!
//! fn throttle(bus: &impl Bus, v: Vector) {
//!     let timer = ItrIndex::new(0).unwrap();
//!     GLINT_ITR.at(timer, v).write(bus, GLINT_ITR::INTERVAL.val(62));
//! }
//! ```
//!
//! Offsets count from the start of the PF's BAR0, except in [`msix`] and [`vf`],
//! whose registers are elsewhere and have no access methods. Access classes are
//! the narrowest that allow what existing drivers do ([`Access`]).
//!
//! [`ALL`] holds the same facts as data; [`find`] names the register at an offset. The GLPES
//! statistics registers (control-path 2.8) are not defined here: this driver reads counters with
//! a CQP command.
//!
//! [`Access`]: crate::reg::Access

#[macro_use]
mod define;
mod foreign;
mod info;
mod table;

pub mod adminq;
pub mod doorbell;
pub mod gl_reset;
pub mod glhmc;
pub mod glhmc_objects;
pub mod glint;
pub mod glpe;
pub mod lan_queue;
pub mod msix;
pub mod pe_filter;
pub mod pfgen;
pub mod pfhmc;
pub mod pfint;
pub mod pfpe;
pub mod prtmac;
pub mod switch;
pub mod vf;

pub use foreign::{ForeignArray, ForeignReg, MsixBar, VfBar0};
pub use info::{Element, FieldInfo, RegInfo, Reset, Space};
pub use table::{ALL, find};

pub use adminq::*;
pub use doorbell::*;
pub use gl_reset::*;
pub use glhmc::*;
pub use glhmc_objects::*;
pub use glint::*;
pub use glpe::*;
pub use lan_queue::*;
pub use msix::*;
pub use pe_filter::*;
pub use pfgen::*;
pub use pfhmc::*;
pub use pfint::*;
pub use pfpe::*;
pub use prtmac::*;
pub use switch::*;
pub use vf::*;

#[cfg(test)]
mod tests;
