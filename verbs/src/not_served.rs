//! What programs are linked with and this library does not serve yet: protection domains, memory,
//! queues, address handles, channels, imports. The answer is EOPNOTSUPP, in the form that the
//! function has for errors; arguments are not looked at.

use core::ffi::{c_int, c_void};

use crate::errno::{fail, no_object};

/// For functions that return the error.
pub extern "C" fn refused() -> c_int {
    libc::EOPNOTSUPP
}

/// For functions that return -1 and set errno.
pub extern "C" fn minus_one() -> c_int {
    fail(libc::EOPNOTSUPP)
}

/// For functions that make an object.
pub extern "C" fn no_such() -> *mut c_void {
    no_object(libc::EOPNOTSUPP)
}

/// For functions that return nothing.
pub extern "C" fn nothing() {}
