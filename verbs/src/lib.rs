//! libibverbs on the e810 driver, as a Rust crate. Only the exported names are elsewhere, in
//! `e810-verbs-so`.
//!
//! * [`abi`], the structures of the application interface;
//! * [`control`], the one seam: everything that concerns the device's control path, its events and
//!   its addresses is a command to a [`control::ControlPlane`];
//! * [`device`], the devices of the process, and contexts of them;
//! * [`query`], [`async_events`], [`fork`], [`sysfs`], [`strings`], [`rates`]: functions of
//!   libibverbs, a module a subject; [`errno`], errors as numbers.
//!
//! Each function that a program calls catches panics: nothing unwinds into C.

// UNSAFETY: it is a C library: programs pass it pointers, and it follows them as the manual pages
// of libibverbs say.

pub mod abi;
pub mod acknowledged;
pub mod ah;
pub mod async_events;
mod cancel;
pub mod channel;
pub mod control;
pub mod cq;
pub mod device;
pub mod errno;
pub mod event_queue;
pub mod fork;
pub mod import;
mod limits;
mod memory;
pub mod mr;
pub mod multicast;
pub mod panics;
pub mod parent_domain;
pub mod pd;
pub mod qp;
pub mod query;
pub mod rates;
pub mod resolve;
pub mod rings;
mod shown;
pub mod strings;
pub mod sysfs;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wait;
