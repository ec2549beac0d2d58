//! Everything a bare x86_64 machine needs beside the driver, one concern a file.
//!
//! A loader enters through [`boot`]; [`Machine`] is what the program then has:
//! memory, time, interrupts and the functions on the PCI bus. [`Metal`] is the
//! driver's platform on one of those functions.

#![cfg_attr(not(test), no_std)]

pub mod apic;
pub mod boot;
pub mod clock;
pub mod console;
pub mod exit;
#[cfg(feature = "defmt")]
mod frames;
pub mod interrupts;
pub mod machine;
pub mod pages;
pub mod pci;
pub mod platform;
pub mod pool;
mod ports;
mod serial;
pub mod stack;

pub use machine::{Machine, MachineError};
pub use platform::Metal;
