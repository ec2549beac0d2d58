//! What programs read in sysfs through the library. A function without a kernel driver has nothing
//! there.

use core::ffi::{c_char, c_int};

use crate::errno::fail;

/// `ibv_get_sysfs_path`.
pub extern "C" fn get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// `ibv_read_sysfs_file`: there is no such file. `ibv_devinfo` asks for `board_id`, which Linux'
/// irdma has not got either.
pub extern "C" fn read_sysfs_file(
    _: *const c_char,
    _: *const c_char,
    _: *mut c_char,
    _: usize,
) -> c_int {
    fail(libc::ENOENT)
}
