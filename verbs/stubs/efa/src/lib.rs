//! A libefa that knows no device. Programs are linked with the real one, which wants private names
//! of the real libibverbs (verbs-abi 4.1); of this one every function says that the device is not
//! its own. A device for which `efadv_query_device` succeeded, libfabric would take for Amazon's.

// UNSAFETY: sets `errno`, and has functions that C calls; none looks at what it is given.

use core::ffi::{c_int, c_void};
use core::ptr;

use e810_verbs_names::exports;

exports! {
    "efadv_cq_from_ibv_cq_ex" => object,
    "efadv_create_cq" => object,
    "efadv_create_qp_ex" => object,
    "efadv_query_ah" => refused,
    "efadv_query_device" => refused,
}

/// Makes no object.
extern "C" fn object() -> *mut c_void {
    set_errno();
    ptr::null_mut()
}

/// Returns the error.
extern "C" fn refused() -> c_int {
    libc::EOPNOTSUPP
}

fn set_errno() {
    // SAFETY: the C library's own place of this thread.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
}
