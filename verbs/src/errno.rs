//! Errors as C has them: the driver's as numbers, and `errno`.

use core::ffi::c_int;
use core::ptr;
use std::io;

use e810_host::functions::station::Unresolved;
use e810_verbs_names::refusals::set_errno;

use crate::control::Refused;

/// Sets `errno` and gives what functions that return it that way return.
pub(crate) fn fail(number: c_int) -> c_int {
    set_errno(number);
    -1
}

/// The same, for functions that make an object.
pub(crate) fn no_object<T>(number: c_int) -> *mut T {
    set_errno(number);
    ptr::null_mut()
}

/// The same, for an error of the system.
pub(crate) fn fail_io(error: &io::Error) -> c_int {
    fail(error.raw_os_error().unwrap_or(libc::EIO))
}

/// The number of an error of the control path, as the driver has it (`docs/verbs-map.md`).
#[must_use]
pub const fn of(refused: &Refused) -> c_int {
    match refused {
        Refused::Gone(_) | Refused::Unexpected(_) => libc::EIO,
        Refused::NoSuch { .. } => libc::EINVAL,
        Refused::Unresolved(unresolved) => of_unresolved(unresolved),
        Refused::Driver(error) | Refused::MrLost(error) => error.errno(),
    }
}

/// As the kernel's resolver, but for a full table: that leaves programs to find out why a peer that
/// is there does not answer.
const fn of_unresolved(unresolved: &Unresolved) -> c_int {
    match unresolved {
        Unresolved::NoAnswer { .. } | Unresolved::NoSource { .. } => libc::ETIMEDOUT,
        Unresolved::NoRoute { .. }
        | Unresolved::NoKernelRoute { .. }
        | Unresolved::NoStation { .. } => libc::ENETUNREACH,
        Unresolved::NoRoom { .. } | Unresolved::KernelTableFull { .. } => libc::ENOBUFS,
        Unresolved::Ended { .. } => libc::EIO,
    }
}
