//! Tokens that the control path gives to the parts of an object that are kept elsewhere. They say
//! that the device no longer uses the parts' memory, or where the parts continue.

use e810_datapath::DroppedWrs;
use e810_datapath::slot::{CqKey, QpKey};
use e810_types::QpType;

/// A queue pair that is destroyed, so that its queues can be freed:
/// [`Control::destroy_qp_control`](crate::Control::destroy_qp_control).
///
/// Each has one token, which cannot be cloned:
///
/// ```compile_fail
/// fn two(token: e810::QpDestroyed) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use = "the queues are freed with QpSend::release and QpRecv::release"]
pub struct QpDestroyed {
    pub(crate) owner: u64,
    pub(crate) key: QpKey,
    pub(crate) discarded: DroppedWrs,
}

/// A queue pair that is being reset and does not exist in the device now:
/// [`Control::begin_reset_qp`](crate::Control::begin_reset_qp).
///
/// Each has one token, which cannot be cloned:
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
    /// Key of the life that is over.
    pub(crate) key: QpKey,
    pub(crate) discarded: DroppedWrs,
}

/// A queue pair in its next life, with the same number:
/// [`Control::reopen_qp`](crate::Control::reopen_qp).
///
/// It may be cloned, for queues that are kept apart from the control part: each queue restarts
/// once with it, and the reset is finished once.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use = "the reset goes on with Control::finish_reset_qp"]
pub struct QpReopened {
    pub(crate) owner: u64,
    pub(crate) key: QpKey,
    pub(crate) qp_type: QpType,
}

impl QpDestroyed {
    /// Requests that were not polled and whose completions never appear.
    pub const fn discarded(&self) -> DroppedWrs {
        self.discarded
    }
}

impl QpResetting {
    /// Requests that were not polled and whose completions never appear.
    pub const fn discarded(&self) -> DroppedWrs {
        self.discarded
    }
}

/// A completion queue that is destroyed, so that its ring can be freed:
/// [`Control::destroy_cq_control`](crate::Control::destroy_cq_control).
///
/// Each has one token, which cannot be cloned:
///
/// ```compile_fail
/// fn two(token: e810::CqDestroyed) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use = "the ring is freed with CqRing::release"]
pub struct CqDestroyed {
    pub(crate) owner: u64,
    pub(crate) key: CqKey,
}

/// A completion queue that continues in other memory:
/// [`Control::resize_cq_control`](crate::Control::resize_cq_control).
///
/// Each has one token, which cannot be cloned:
///
/// ```compile_fail
/// fn two(token: e810::CqResized) {
///     let _ = (token.clone(), token);
/// }
/// ```
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use = "the device writes there: give it to CqRing::resized, with the memory"]
pub struct CqResized {
    pub(crate) owner: u64,
    pub(crate) key: CqKey,
    pub(crate) entries: u32,
}

impl CqResized {
    /// Completions that there is room for.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }
}
