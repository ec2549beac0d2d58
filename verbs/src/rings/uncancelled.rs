//! The data path of a device that is a program: accesses to it make system calls, some of which are
//! cancellation points. Accesses to a card make none.

use core::ffi::c_int;

use e810::Platform;

use super::{DataPathOps, EndedOps, PlatformCqRings, PlatformQpRings};
use crate::abi::extended::{CqEx, QpEx};
use crate::abi::make::PollCqAttr;
use crate::abi::objects::{Cq, Qp};
use crate::abi::work::{RecvWr, SendWr, Wc};
use crate::cancel::NotNow;

/// Functions of a platform's rings, during which no thread is cancelled.
macro_rules! uncancelled {
    ($($name:ident($($argument:ident: $kind:ty),+) $(-> $ret:ty)? = $rings:ident;)+) => {$(
        /// # Safety
        /// As that function of the rings.
        unsafe extern "C" fn $name<P: Platform>($($argument: $kind),+) $(-> $ret)? {
            let cancellation = NotNow::begin();
            // SAFETY: the caller's.
            let answer = unsafe { $rings::<P>::$name($($argument),+) };
            cancellation.end();
            answer
        }
    )+};
}

uncancelled! {
    post_send(qp: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int = PlatformQpRings;
    post_recv(qp: *mut Qp, wr: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int = PlatformQpRings;
    poll_cq(cq: *mut Cq, count: c_int, into: *mut Wc) -> c_int = PlatformCqRings;
    req_notify_cq(cq: *mut Cq, solicited_only: c_int) -> c_int = PlatformCqRings;
    start_poll(cq: *mut CqEx, attr: *mut PollCqAttr) -> c_int = PlatformCqRings;
    next_poll(cq: *mut CqEx) -> c_int = PlatformCqRings;
    end_poll(cq: *mut CqEx) = PlatformCqRings;
    wr_start(qp: *mut QpEx) = PlatformQpRings;
    wr_complete(qp: *mut QpEx) -> c_int = PlatformQpRings;
    wr_abort(qp: *mut QpEx) = PlatformQpRings;
}

impl DataPathOps {
    /// The functions for rings on a platform that is a program.
    #[must_use]
    pub const fn uncancelled<P: Platform>() -> &'static Self {
        const {
            &Self {
                post_send: post_send::<P>,
                post_recv: post_recv::<P>,
                poll_cq: poll_cq::<P>,
                req_notify_cq: req_notify_cq::<P>,
                start_poll: start_poll::<P>,
                next_poll: next_poll::<P>,
                end_poll: end_poll::<P>,
                wr_start: wr_start::<P>,
                wr_complete: wr_complete::<P>,
                wr_abort: wr_abort::<P>,
                ended: EndedOps::of::<P>(),
            }
        }
    }
}
