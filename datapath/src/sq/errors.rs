//! Reasons why a request is not posted; kept out of the path of those that are.

use e810_types::{QpState, QpType, WorkQueue};

use crate::error::PostError;
use crate::sizing::MAX_MESSAGE;
use crate::wr::{Op, Sge};

pub(super) fn state(state: QpState) -> PostError {
    PostError::WrongState {
        queue: WorkQueue::Send,
        state,
    }
}

#[cold]
pub(super) fn op(op: &Op<'_>, qp_type: QpType) -> PostError {
    PostError::WrongOp {
        op: op.name(),
        qp_type,
    }
}

#[cold]
pub(super) fn too_many(got: usize, limit: u32) -> PostError {
    PostError::TooManySges {
        queue: WorkQueue::Send,
        got,
        limit,
    }
}

#[cold]
pub(super) fn inline(got: usize, limit: u32) -> PostError {
    PostError::InlineTooLong { got, limit }
}

pub(super) fn field(field: &'static str, value: u32, limit: u32) -> Result<(), PostError> {
    if value <= limit {
        return Ok(());
    }
    Err(PostError::Field {
        field,
        value: value.into(),
        limit: limit.into(),
    })
}

/// Which limit a list of SGEs exceeds that is longer than a message.
#[cold]
pub(crate) fn too_long(sges: &[Sge], bytes: u64) -> PostError {
    let limit = MAX_MESSAGE;
    for (index, sge) in sges.iter().enumerate() {
        if sge.length > limit {
            return PostError::SgeTooLong {
                index: index as u32,
                length: sge.length,
                limit,
            };
        }
    }
    PostError::MessageTooLong { bytes, limit }
}
