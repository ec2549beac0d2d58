//! A machine that runs the Hermit unikernel: program and kernel are one image in
//! one address space, and both run in ring 0.
//!
//! Threads, time and the console are the kernel's, through std. The kernel has no
//! call for what a driver in a program needs: its registers mapped, memory whose
//! physical address is known, an interrupt handler of its own. Those are done
//! here, each in one file, in the kernel's own tables.

pub mod apic;
pub mod boot;
pub mod clock;
pub mod console;
pub(crate) mod idt;
mod package;
mod paging;
pub(crate) mod sleep;
pub mod stack;
