//! What names answer behind which there is nothing: EOPNOTSUPP, in the form that a function has for
//! errors. Arguments are not looked at, so that one function serves any of its form.

use core::ffi::{c_int, c_void};
use core::ptr;

/// For functions that return the error.
pub extern "C" fn returns_error() -> c_int {
    libc::EOPNOTSUPP
}

/// For functions that return -1 and set `errno`, as a number of any width: a narrow one would leave the
/// rest of the register as it is.
pub extern "C" fn returns_minus_one() -> isize {
    set_errno(libc::EOPNOTSUPP);
    -1
}

/// For functions that make an object.
pub extern "C" fn returns_null() -> *mut c_void {
    set_errno(libc::EOPNOTSUPP);
    ptr::null_mut()
}

/// For functions that say whether something is so.
pub extern "C" fn returns_false() -> bool {
    false
}

/// For functions that return nothing.
pub extern "C" fn returns_nothing() {}

/// Sets the C library's `errno`.
pub fn set_errno(number: c_int) {
    // SAFETY: the C library's own place of this thread.
    unsafe { *libc::__errno_location() = number };
}
