//! Cancellation of threads (`pthread_cancel`): only the two waits for events act on it, as `read`
//! in libibverbs does. The library also reads, writes and sleeps elsewhere, and these are
//! cancellation points too; a thread that ended there would still hold locks of the library.

use core::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE`, of glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// A time in which this thread is not cancelled.
#[derive(Debug)]
pub(crate) struct NotNow {
    before: c_int,
}

impl NotNow {
    #[inline]
    pub(crate) fn begin() -> Self {
        let mut before = 0;
        // SAFETY: a place for the state.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self { before }
    }

    /// Restores the previous state. If a cancellation has come meanwhile, the thread ends at its
    /// next cancellation point.
    #[inline]
    pub(crate) fn end(self) {
        let mut unused = 0;
        // SAFETY: a state that the C library returned, and a place for the current one.
        unsafe { pthread_setcancelstate(self.before, &raw mut unused) };
    }
}
