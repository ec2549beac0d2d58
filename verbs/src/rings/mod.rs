//! Rings of queue pairs and completion queues: posts and polls work on them without a command.
//!
//! A [`RingMaker`] makes them on memory of its own, from what the control path has granted. The
//! rest of the library sees them as [`QpRings`] and [`CqRings`]. The functions that a program calls
//! for each message ([`DataPathOps`]) know their platform, and access the rings directly.

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
mod ended;
mod extended;
mod lock;
mod maker;
mod qp;
mod request;
mod uncancelled;

pub use cq::PlatformCqRings;
pub use ended::EndedOps;
pub use maker::{Ask, PlatformRings, RingMaker};
pub use qp::PlatformQpRings;
pub(crate) use request::{MAX_SGES, QPN, flags as send_flags};

/// The functions that `verbs.h` calls through the context for each message. They take objects whose
/// rings the same control plane has made.
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    reason = "each is the function of libibverbs of that name; `ended` has those of a function that is gone"
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
    pub ended: EndedOps,
}

impl DataPathOps {
    /// The functions for rings on a platform.
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
                ended: EndedOps::of::<P>(),
            }
        }
    }
}

/// The queues of a queue pair. Each has its own lock: threads that post sends do not wait for those
/// that post receives.
pub trait QpRings: Debug + Send + Sync {
    /// Stops everybody from posting; `None` while somebody posts. The caller must not hold a
    /// completion queue while it waits, because the poster may be waiting for that.
    fn try_lock(&self) -> Option<Box<dyn LockedQp + '_>>;

    /// Frees their memory after the queue pair was destroyed, as the command's answer shows.
    fn release(self: Box<Self>, destroyed: &QpDestroyed);
}

/// The queues of a queue pair to which nobody is posting.
pub trait LockedQp {
    /// Restarts them during a reset, with the command's answer.
    ///
    /// # Errors
    /// The answer is for another queue pair.
    fn restart(&mut self, reopened: &QpReopened) -> e810::Result<()>;
}

pub trait CqRings: Debug + Send + Sync {
    /// Gives a device that is a program of this machine some time to finish what was posted before;
    /// a card would have finished.
    fn let_device_end(&self);

    /// Stops everybody from polling.
    fn lock(&self) -> Box<dyn LockedCq + '_>;

    /// Frees its memory after the completion queue was destroyed, as the command's answer shows.
    fn release(self: Box<Self>, destroyed: &CqDestroyed);
}

/// The ring of a completion queue that nobody is polling.
pub trait LockedCq {
    /// A lower bound of the completions that wait to be polled.
    fn waiting(&mut self) -> u32;

    /// Whether it can be resized now: only a few resizes may be under way at a time.
    fn can_resize(&mut self) -> bool;

    /// Moves to another ring with room for at least `entries` completions; `ask` asks the control
    /// path for it, which answers `None` if the ring has that size already.
    ///
    /// # Errors
    /// No memory, or a refusal of the control path.
    fn resize(
        &mut self,
        entries: u32,
        ask: Ask<'_, CqRingPlace, Option<CqResized>>,
    ) -> Result<(), Refused>;

    /// Drops queue pairs that were destroyed or are being reset, and their completions.
    fn forget_gone(&mut self);
}
