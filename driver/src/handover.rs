//! What the control path hands to the parts of an object that are kept elsewhere: that
//! the device has let go of their memory, or where they go on.

use e810_datapath::DroppedWrs;
use e810_datapath::slot::{CqKey, QpKey, Slots};
use e810_hal::{DmaBuf, HostBuf, Platform};

/// A queue pair that is destroyed, whose queues can be freed:
/// [`Control::destroy_qp_control`](crate::Control::destroy_qp_control).
///
/// There is one for each:
///
/// ```compile_fail
/// fn two(token: e810::QpDestroyed) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[must_use = "the queues are freed with QpSend::release and QpRecv::release"]
pub struct QpDestroyed {
    pub(crate) owner: u64,
    pub(crate) key: QpKey,
    pub(crate) discarded: DroppedWrs,
}

/// A queue pair that is being reset and does not exist in the device now:
/// [`Control::begin_reset_qp`](crate::Control::begin_reset_qp).
///
/// There is one for each:
///
/// ```compile_fail
/// fn two(token: e810::QpResetting) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[must_use = "the reset goes on with Control::reopen_qp"]
pub struct QpResetting {
    pub(crate) owner: u64,
    /// That of the life that is over.
    pub(crate) key: QpKey,
    pub(crate) discarded: DroppedWrs,
}

/// A queue pair in its next life, with the same number:
/// [`Control::reopen_qp`](crate::Control::reopen_qp).
///
/// It may be cloned, for queues that are kept elsewhere than the control part: each queue
/// restarts once with it, and the reset is finished once.
#[derive(Clone, Debug)]
#[must_use = "the reset goes on with Control::finish_reset_qp"]
pub struct QpReopened<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) key: QpKey,
    pub(crate) slots: Slots<HostBuf<P>>,
}

impl QpDestroyed {
    /// Requests that were not polled and never appear.
    pub const fn discarded(&self) -> DroppedWrs {
        self.discarded
    }
}

impl QpResetting {
    /// Requests that were not polled and never appear.
    pub const fn discarded(&self) -> DroppedWrs {
        self.discarded
    }
}

/// A completion queue that is destroyed, whose ring can be freed:
/// [`Control::destroy_cq_control`](crate::Control::destroy_cq_control).
///
/// There is one for each:
///
/// ```compile_fail
/// fn two(token: e810::CqDestroyed) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[must_use = "the ring is freed with CqRing::release"]
pub struct CqDestroyed {
    pub(crate) owner: u64,
    pub(crate) key: CqKey,
}

/// Memory that a completion queue goes on in after a resize:
/// [`Control::resize_cq_control`](crate::Control::resize_cq_control).
///
/// There is one for each:
///
/// ```compile_fail
/// fn two<P: e810::Platform>(token: e810::CqResized<P>) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[must_use = "the device writes there: give it to CqRing::resized"]
pub struct CqResized<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) key: CqKey,
    pub(crate) memory: DmaBuf<P>,
    pub(crate) entries: u32,
}
