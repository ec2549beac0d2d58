//! Errors as C has them: the driver's as numbers, and `errno`.

use core::ffi::c_int;
use core::ptr;
use std::io;

use crate::control::Refused;

/// Sets `errno` and gives what functions that return it that way return.
pub(crate) fn fail(number: c_int) -> c_int {
    set(number);
    -1
}

/// The same, for functions that make an object.
pub(crate) fn no_object<T>(number: c_int) -> *mut T {
    set(number);
    ptr::null_mut()
}

/// The same, for an error of the system.
pub(crate) fn fail_io(error: &io::Error) -> c_int {
    fail(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Sets `errno`.
pub(crate) fn set(number: c_int) {
    // SAFETY: the C library's own place of this thread.
    unsafe { *libc::__errno_location() = number };
}

/// The number of an error of the control path, as the driver has it (`docs/verbs-map.md`).
#[must_use]
pub const fn of(refused: &Refused) -> c_int {
    match refused {
        Refused::Gone(_) => libc::EIO,
        Refused::Driver(error) => error.errno(),
    }
}
