//! Cancellation of threads (`pthread_cancel`): two waits act on it, those for events, as `read` in
//! libibverbs does. Nothing else of the library does, although it reads, writes and sleeps, which
//! are cancellation points too: a thread would end there with locks of the library in its hands.

use core::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE`, of glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// A time in which this thread acts on no cancellation.
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

    /// As before. A cancellation that has come meanwhile ends the thread at its next cancellation
    /// point.
    #[inline]
    pub(crate) fn end(self) {
        let mut unused = 0;
        // SAFETY: a state that the C library has given, and a place for the one of now.
        unsafe { pthread_setcancelstate(self.before, &raw mut unused) };
    }
}
