//! The functions that the library takes for those of libibverbs.
//!
//! They are in the dynamic symbol table of the program (see `build.rs`), where
//! the loader looks before it looks into libibverbs; a definition without a
//! version satisfies a reference with one. None of them unwinds.

// UNSAFETY: C calls these functions with pointers to its own structures.

mod context;
mod memory;
mod queues;

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use e810_verbs::abi::device::Context;

use crate::device::Device;
use crate::kernel::{Answer, Errno, Kernel, Made};

pub(crate) use context::{context_ops, driver};

/// The driver's part at the end of a request of `bytes` bytes.
///
/// # Safety
/// `request` points to `bytes` readable bytes, and any bytes make a `T`.
unsafe fn request_tail<T: Copy>(request: *const c_void, bytes: usize) -> Answer<T> {
    let offset = bytes.checked_sub(size_of::<T>()).ok_or(Errno::INVALID)?;
    if request.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the last `size_of::<T>()` of the readable bytes (contract).
    Ok(unsafe {
        request
            .cast::<u8>()
            .add(offset)
            .cast::<T>()
            .read_unaligned()
    })
}

/// Writes the driver's part, `offset` bytes into an answer of `bytes` bytes.
///
/// # Safety
/// `answer` points to `bytes` writable bytes.
unsafe fn fill_answer<T>(answer: *mut c_void, bytes: usize, offset: usize, part: T) -> Answer<()> {
    if answer.is_null() || bytes < offset + size_of::<T>() {
        return Err(Errno::INVALID);
    }
    // SAFETY: inside the writable bytes (contract, and checked).
    unsafe {
        answer
            .cast::<u8>()
            .add(offset)
            .cast::<T>()
            .write_unaligned(part);
    }
    Ok(())
}

/// Asks the kernel behind a context.
///
/// # Safety
/// As [`Device::of`].
unsafe fn ask<T>(
    context: *const Context,
    command: impl FnOnce(&mut dyn Kernel, &mut Made) -> Answer<T>,
) -> Answer<T> {
    // SAFETY: passed on.
    let device = unsafe { Device::of(context) }.ok_or(Errno::INVALID)?;
    device.ask(command)
}

/// What C gets: 0 or an `errno` value.
fn code<T>(answer: Answer<T>) -> c_int {
    match answer {
        Ok(_) => 0,
        Err(Errno(code)) => code,
    }
}

/// Names every exported function, so that a linker keeps them all.
pub(crate) fn keep() {
    black_box(context::EXPORTED);
    black_box(memory::EXPORTED);
    black_box(queues::EXPORTED);
}

/// Commands that no test gives: refused.
macro_rules! unsupported {
    ($($name:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            crate::kernel::Errno::UNSUPPORTED.0
        }
    )+ };
}
pub(crate) use unsupported;
