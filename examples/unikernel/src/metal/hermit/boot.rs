//! The start: what the kernel has to be like, and the package.

use core::ffi::{CStr, c_char};
use core::fmt::Display;
use core::ptr::NonNull;

use super::{package, paging};
use crate::machine::{Machine, MachineError};
use crate::pci::Window;
use crate::pool::Pool;
use crate::say;

/// The pool ends below this.
pub const MEMORY_END: u64 = 2 << 30;
/// Registers end below this: what the kernel uses of the address space for
/// itself begins behind it.
pub const MAPPED_END: u64 = 2 << 40;

/// Runs `program` on the machine, and says how it ended.
///
/// # Safety
/// Called once, by [`entry!`](crate::entry), with what std gave it.
pub unsafe fn run<E: Display>(
    (count, words): (isize, *const *const c_char),
    program: fn(&Machine) -> Result<(), E>,
) -> i32 {
    // SAFETY: the caller's promise.
    let arguments = unsafe { arguments(count, words) };
    // SAFETY: called once, so there is one machine.
    let machine = unsafe { Machine::start(package::read(), arguments.leak()) };
    let ended = machine
        .map_err(|error| say!("FAILED {error}"))
        .and_then(|machine| {
            let ended = begin(&machine).map_err(|error| say!("FAILED {error}"));
            let ended =
                ended.and_then(|()| program(&machine).map_err(|error| say!("FAILED {error}")));
            machine.silence();
            ended
        });
    i32::from(ended.is_err())
}

/// The program's command line. std keeps it only for a `main` of its own.
///
/// # Safety
/// There are `count` C strings at `words`.
unsafe fn arguments(count: isize, words: *const *const c_char) -> String {
    let words = (0..count.unsigned_abs()).map(|at| {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(*words.add(at)) }.to_string_lossy()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Sees that the pool is where the device will look for it.
fn begin(machine: &Machine) -> Result<(), MachineError> {
    let (start, bytes) = machine.pool.extent();
    let low = start.addr().get() as u64 + bytes as u64 <= MEMORY_END;
    match low && paging::is_identity(start, bytes) {
        true => Ok(()),
        false => Err(MachineError::PoolMapped),
    }
}

/// Where a window on registers is reached.
pub(crate) fn map(pool: &Pool, window: Window) -> Option<NonNull<u8>> {
    paging::map(pool, window)
}

/// Makes `program`, a `fn(&Machine) -> Result<(), impl Display>`, what the
/// machine runs.
#[macro_export]
macro_rules! entry {
    ($program:path) => {
        /// Called by std, which the kernel has called.
        // SAFETY: no other symbol has this name.
        #[unsafe(export_name = "main")]
        extern "C" fn unikernel_entry(count: isize, words: *const *const core::ffi::c_char) -> i32 {
            // SAFETY: only std calls this, once, with the C strings of the command line.
            unsafe { $crate::boot::run((count, words), $program) }
        }
    };
}
