//! What the card, or this library, has not got.

use core::ffi::{c_int, c_void};

use e810_cm::Reason;
use e810_verbs::errno::fail;
use e810_verbs::panics::catch_panics;

use crate::abi::CmId;
use crate::calls::reject_with;

/// That the options of a vendor are not supported.
const OPTIONS: Reason = Reason(35);

/// `ibv_ece`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Ece {
    vendor: u32,
    options: u32,
    comp_mask: u32,
}

/// `rdma_set_local_ece`: 0; the peer does not hear of it, as with a device that has no such options.
pub extern "C" fn set_local_ece(id: *mut CmId, _: *mut Ece) -> c_int {
    match id.is_null() {
        true => fail(libc::EINVAL),
        false => 0,
    }
}

/// `rdma_get_remote_ece`: 0; none.
///
/// # Safety
/// `ece` can be written.
pub unsafe extern "C" fn get_remote_ece(id: *mut CmId, ece: *mut Ece) -> c_int {
    if id.is_null() || ece.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller's.
    unsafe { ece.write(Ece::default()) };
    0
}

/// `rdma_reject_ece`: refuses, because the peer's options of a vendor do not suit.
///
/// # Safety
/// As [`reject`](crate::calls::reject).
pub unsafe extern "C" fn reject_ece(id: *mut CmId, data: *const c_void, length: u8) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        unsafe { reject_with(id, data, length, OPTIONS) }
    })
}

/// `rpoll`, of descriptors that are no rsockets, of which there are none.
///
/// # Safety
/// As `poll`.
pub unsafe extern "C-unwind" fn poll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { libc::poll(fds, count, timeout) }
}

/// `rselect`, as [`poll`].
///
/// # Safety
/// As `select`.
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { libc::select(count, read, write, except, timeout) }
}
