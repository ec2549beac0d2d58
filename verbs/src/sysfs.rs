//! What programs read in sysfs beside the library, of which a function without a kernel driver has
//! nothing.

use core::ffi::{CStr, c_char, c_int};

use crate::errno::fail;
use crate::panics::catch_panics;

/// The identification of the board, as Linux' irdma has it in `board_id`.
const BOARD: &[u8] = b"unknown";

/// `ibv_get_sysfs_path`.
pub extern "C" fn get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// `ibv_read_sysfs_file`: only `board_id`, for `ibv_devinfo`; the bytes of it, or -1.
///
/// # Safety
/// `file` is a string, and `size` bytes can be written at `buffer`.
pub unsafe extern "C" fn read_sysfs_file(
    _: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    catch_panics(fail(libc::EIO), || {
        // SAFETY: the caller's.
        let file = unsafe { CStr::from_ptr(file) };
        if file != c"board_id" || size == 0 {
            return fail(libc::ENOENT);
        }
        let length = BOARD.len().min(size - 1);
        // SAFETY: the caller's: there is room for `length` bytes and one more.
        unsafe {
            buffer.copy_from_nonoverlapping(BOARD.as_ptr().cast(), length);
            buffer.add(length).write(0);
        }
        length as c_int
    })
}
