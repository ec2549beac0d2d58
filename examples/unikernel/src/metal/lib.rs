//! Everything an x86_64 machine needs beside the driver, one concern a file.
//!
//! [`Machine`] is what a program has: memory, time, interrupts and the functions
//! on the PCI bus. [`Metal`] is the driver's platform on one of those functions.
//! What is below them comes twice: `bare`, with nothing else on the machine, and
//! `hermit`, in the unikernel of that name.

#![cfg_attr(not(any(test, target_os = "hermit")), no_std)]

pub mod interrupts;
pub mod machine;
mod memory;
mod msr;
pub mod pages;
pub mod pci;
pub mod platform;
pub mod pool;
mod ports;
pub mod random;
#[cfg_attr(not(target_os = "hermit"), path = "bare/mod.rs")]
#[cfg_attr(target_os = "hermit", path = "hermit/mod.rs")]
mod system;

pub use machine::{Machine, MachineError};
pub use memory::Boxed;
pub use platform::Metal;
pub use system::{apic, boot, clock, console, stack};

/// Prints a line. Nobody reads the result: a console has nowhere to complain.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use core::fmt::Write as _;
        let _ = writeln!($crate::console::Console::open(), $($text)*);
    }};
}
