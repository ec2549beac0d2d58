//! The start: what the kernel has to be like, and the package.

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
/// Called once, by [`entry!`](crate::entry).
pub unsafe fn run<E: Display>(program: fn(&Machine) -> Result<(), E>) -> i32 {
    let arguments: Vec<String> = std::env::args().collect();
    // SAFETY: called once, so there is one machine.
    let machine = unsafe { Machine::start(package::read(), arguments.join(" ").leak()) };
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
        extern "C" fn unikernel_entry(_: isize, _: *const *const core::ffi::c_char) -> i32 {
            // SAFETY: only std calls this, once.
            unsafe { $crate::boot::run($program) }
        }
    };
}
