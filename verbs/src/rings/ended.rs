//! The data path of a function that is gone. Completions that it had written are still polled; then
//! each poll and each post is EIO.

use core::ffi::c_int;

use e810::Platform;

use super::{PlatformCqRings, PlatformQpRings};
use crate::abi::extended::{CqEx, QpEx};
use crate::abi::make::PollCqAttr;
use crate::abi::objects::{Cq, Qp};
use crate::abi::work::{RecvWr, SendWr, Wc};
use crate::cancel::NotNow;

/// The functions that replace those of [`DataPathOps`](super::DataPathOps) with the same names.
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    reason = "each is the function of libibverbs of that name"
)]
pub struct EndedOps {
    pub post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    pub post_recv: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    pub poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    pub start_poll: unsafe extern "C" fn(*mut CqEx, *mut PollCqAttr) -> c_int,
    pub wr_complete: unsafe extern "C" fn(*mut QpEx) -> c_int,
}

impl EndedOps {
    /// The functions for rings on a platform.
    pub(super) const fn of<P: Platform>() -> Self {
        Self {
            post_send,
            post_recv,
            poll_cq: poll_cq::<P>,
            start_poll: start_poll::<P>,
            wr_complete: wr_complete::<P>,
        }
    }
}

/// EIO, for the first request of the list.
///
/// # Safety
/// `bad` is null or can be written.
unsafe fn refuse<T>(wr: *mut T, bad: *mut *mut T) -> c_int {
    // SAFETY: the caller's.
    if let Some(bad) = unsafe { bad.as_mut() } {
        *bad = wr;
    }
    libc::EIO
}

/// # Safety
/// `bad` is null or can be written.
unsafe extern "C" fn post_send(_: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
    // SAFETY: the caller's.
    unsafe { refuse(wr, bad) }
}

/// # Safety
/// `bad` is null or can be written.
unsafe extern "C" fn post_recv(_: *mut Qp, wr: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int {
    // SAFETY: the caller's.
    unsafe { refuse(wr, bad) }
}

/// # Safety
/// As [`PlatformCqRings::poll_cq`].
unsafe extern "C" fn poll_cq<P: Platform>(cq: *mut Cq, count: c_int, into: *mut Wc) -> c_int {
    let cancellation = NotNow::begin();
    // SAFETY: the caller's.
    let done = unsafe { PlatformCqRings::<P>::poll_cq(cq, count, into) };
    cancellation.end();
    match done {
        0 => -libc::EIO,
        done => done,
    }
}

/// # Safety
/// As [`PlatformCqRings::start_poll`].
unsafe extern "C" fn start_poll<P: Platform>(cq: *mut CqEx, attr: *mut PollCqAttr) -> c_int {
    let cancellation = NotNow::begin();
    // SAFETY: the caller's.
    let found = unsafe { PlatformCqRings::<P>::start_poll(cq, attr) };
    cancellation.end();
    match found {
        libc::ENOENT => libc::EIO,
        found => found,
    }
}

/// # Safety
/// As [`PlatformQpRings::wr_complete`].
unsafe extern "C" fn wr_complete<P: Platform>(qp: *mut QpEx) -> c_int {
    let cancellation = NotNow::begin();
    // SAFETY: the caller's: nothing is posted.
    unsafe { PlatformQpRings::<P>::wr_abort(qp) };
    cancellation.end();
    libc::EIO
}
