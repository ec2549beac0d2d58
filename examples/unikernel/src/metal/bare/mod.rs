//! A machine that belongs to the program: it is entered from the loader, and
//! everything is set up here.

pub mod apic;
pub mod boot;
pub mod clock;
pub mod console;
pub(crate) mod exit;
#[cfg(feature = "defmt")]
pub(crate) mod frames;
pub(crate) mod idt;
pub(crate) mod serial;
pub(crate) mod sleep;
pub mod stack;
