//! Rings of queue pairs and completion queues: what posts and polls work on, without a command.
//!
//! A [`RingMaker`] makes them on memory of its own, of what the control path has granted. The rest of the
//! library has them as [`QpRings`] and [`CqRings`]; the functions that a program calls for each
//! message ([`DataPathOps`]) know the platform that they are on, and reach them directly.

use core::ffi::c_int;
use core::fmt::Debug;

use e810::{CqDestroyed, CqResized, CqRingPlace, Platform, QpDestroyed, QpReopened};

use crate::abi::extended::{CqEx, QpEx};
use crate::abi::make::PollCqAttr;
use crate::abi::objects::{Cq, Qp};
use crate::abi::work::{RecvWr, SendWr, Wc};
use crate::control::Refused;

mod completion;
mod cq;
mod extended;
mod lock;
mod maker;
mod qp;
mod request;
mod uncancelled;

pub use cq::PlatformCqRings;
pub use maker::{Ask, PlatformRings, RingMaker};
pub use qp::PlatformQpRings;
pub(crate) use request::{MAX_SGES, QPN, flags as send_flags};

/// The functions that `verbs.h` calls through the context for each message. They take objects
/// whose rings the same control plane has made.
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    reason = "each is the function of libibverbs of that name"
)]
pub struct DataPathOps {
    pub post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    pub post_recv: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    pub poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    pub req_notify_cq: unsafe extern "C" fn(*mut Cq, c_int) -> c_int,
    pub start_poll: unsafe extern "C" fn(*mut CqEx, *mut PollCqAttr) -> c_int,
    pub next_poll: unsafe extern "C" fn(*mut CqEx) -> c_int,
    pub end_poll: unsafe extern "C" fn(*mut CqEx),
    pub wr_start: unsafe extern "C" fn(*mut QpEx),
    pub wr_complete: unsafe extern "C" fn(*mut QpEx) -> c_int,
    pub wr_abort: unsafe extern "C" fn(*mut QpEx),
}

impl DataPathOps {
    /// Those for rings on a platform.
    #[must_use]
    pub const fn of<P: Platform>() -> &'static Self {
        const {
            &Self {
                post_send: PlatformQpRings::<P>::post_send,
                post_recv: PlatformQpRings::<P>::post_recv,
                poll_cq: PlatformCqRings::<P>::poll_cq,
                req_notify_cq: PlatformCqRings::<P>::req_notify_cq,
                start_poll: PlatformCqRings::<P>::start_poll,
                next_poll: PlatformCqRings::<P>::next_poll,
                end_poll: PlatformCqRings::<P>::end_poll,
                wr_start: PlatformQpRings::<P>::wr_start,
                wr_complete: PlatformQpRings::<P>::wr_complete,
                wr_abort: PlatformQpRings::<P>::wr_abort,
            }
        }
    }
}

/// The queues of a queue pair. Each has a lock of its own: threads that post sends do not wait
/// for those that post receives.
pub trait QpRings: Debug + Send + Sync {
    /// Keeps everybody from posting; `None` while somebody posts. Who waits for that must not have
    /// a completion queue, for which who posts may wait.
    fn try_lock(&self) -> Option<Box<dyn LockedQp + '_>>;

    /// Frees their memory, once the queue pair is destroyed, as the command's answer says.
    fn release(self: Box<Self>, destroyed: &QpDestroyed);
}

/// The queues of a queue pair to which nobody posts just now.
pub trait LockedQp {
    /// Restarts them, in the course of a reset, with the command's answer.
    ///
    /// # Errors
    /// It is another queue pair's.
    fn restart(&mut self, reopened: &QpReopened) -> e810::Result<()>;
}

pub trait CqRings: Debug + Send + Sync {
    /// Gives a device that is a program of this machine some time for what was posted before, which
    /// a card would have done.
    fn let_device_end(&self);

    /// Keeps everybody from polling.
    fn lock(&self) -> Box<dyn LockedCq + '_>;

    /// Frees its memory, once the completion queue is destroyed, as the command's answer says.
    fn release(self: Box<Self>, destroyed: &CqDestroyed);
}

/// The ring of a completion queue that nobody polls just now.
pub trait LockedCq {
    /// Completions that wait to be polled, at least.
    fn waiting(&mut self) -> u32;

    /// Whether it can be resized: a few resizes may be under way at a time.
    fn can_resize(&mut self) -> bool;

    /// Goes on elsewhere, with room for at least so many completions, for which it asks the control
    /// path; `None` is its answer where that is the size already.
    ///
    /// # Errors
    /// No memory, or what the control path has refused.
    fn resize(
        &mut self,
        entries: u32,
        ask: Ask<'_, CqRingPlace, Option<CqResized>>,
    ) -> Result<(), Refused>;

    /// Forgets queue pairs that were destroyed, or are being reset, and their completions.
    fn forget_gone(&mut self);
}
