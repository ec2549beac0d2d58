//! States of a QP, and which change needs which attributes.
//!
//! The device can move a QP to ERR at any time, so the state is a value, not a type. Changes are
//! checked against one table, [`TRANSITIONS`] (data-path 8.2); an error names the two states, and
//! which attributes are missing or out of place.
//!
//! ```
//! use e810_datapath::state::{AttrMask, TransitionError, check};
//! use e810_types::{QpState, QpType};
//!
//! let error = check(QpType::Rc, QpState::Init, QpState::Rts, AttrMask::STATE).unwrap_err();
//! assert!(matches!(error, TransitionError::NotPossible { .. }));
//!
//! let given = AttrMask::STATE | AttrMask::TIMEOUT | AttrMask::SQ_PSN;
//! let Err(TransitionError::Missing { missing, .. }) =
//!     check(QpType::Rc, QpState::Rtr, QpState::Rts, given) else { panic!() };
//! assert_eq!(
//!     missing,
//!     AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC
//! );
//! ```

use core::fmt;

use bitflags::bitflags;
use e810_types::{QpState, QpType};

/// The state of a number; 7, which no state has, counts as ERR.
#[inline(always)]
pub(crate) const fn state_from_bits(bits: u64) -> QpState {
    match bits & 7 {
        0 => QpState::Reset,
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        4 => QpState::Sqd,
        5 => QpState::Sqe,
        _ => QpState::Err,
    }
}

/// Attributes of a QP; bit numbers are those of `ib_qp_attr_mask`
/// (data-path 8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "ibv_qp_attr_mask")]
pub struct AttrMask(u32);

bitflags! {
    impl AttrMask: u32 {
        /// The new state.
        #[doc(alias = "IBV_QP_STATE")]
        const STATE = 1 << 0;
        /// The state the caller believes the QP in.
        #[doc(alias = "IBV_QP_CUR_STATE")]
        const CUR_STATE = 1 << 1;
        /// Notify when the send queue is drained.
        #[doc(alias = "IBV_QP_EN_SQD_ASYNC_NOTIFY")]
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// What peers may do.
        #[doc(alias = "IBV_QP_ACCESS_FLAGS")]
        const ACCESS_FLAGS = 1 << 3;
        /// Index of the partition key.
        #[doc(alias = "IBV_QP_PKEY_INDEX")]
        const PKEY_INDEX = 1 << 4;
        /// Port.
        #[doc(alias = "IBV_QP_PORT")]
        const PORT = 1 << 5;
        /// Q_Key.
        #[doc(alias = "IBV_QP_QKEY")]
        const QKEY = 1 << 6;
        /// Address vector.
        #[doc(alias = "IBV_QP_AV")]
        const AV = 1 << 7;
        /// Path MTU.
        #[doc(alias = "IBV_QP_PATH_MTU")]
        const PATH_MTU = 1 << 8;
        /// Acknowledge timeout.
        #[doc(alias = "IBV_QP_TIMEOUT")]
        const TIMEOUT = 1 << 9;
        /// Retries.
        #[doc(alias = "IBV_QP_RETRY_CNT")]
        const RETRY_CNT = 1 << 10;
        /// Retries after RNR.
        #[doc(alias = "IBV_QP_RNR_RETRY")]
        const RNR_RETRY = 1 << 11;
        /// First expected PSN.
        #[doc(alias = "IBV_QP_RQ_PSN")]
        const RQ_PSN = 1 << 12;
        /// Reads outstanding as requester.
        #[doc(alias = "IBV_QP_MAX_QP_RD_ATOMIC")]
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// Alternate path.
        #[doc(alias = "IBV_QP_ALT_PATH")]
        const ALT_PATH = 1 << 14;
        /// RNR timer.
        #[doc(alias = "IBV_QP_MIN_RNR_TIMER")]
        const MIN_RNR_TIMER = 1 << 15;
        /// First PSN sent.
        #[doc(alias = "IBV_QP_SQ_PSN")]
        const SQ_PSN = 1 << 16;
        /// Reads outstanding as responder.
        #[doc(alias = "IBV_QP_MAX_DEST_RD_ATOMIC")]
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// Path migration state.
        #[doc(alias = "IBV_QP_PATH_MIG_STATE")]
        const PATH_MIG_STATE = 1 << 18;
        /// Capabilities.
        #[doc(alias = "IBV_QP_CAP")]
        const CAP = 1 << 19;
        /// Destination QP.
        #[doc(alias = "IBV_QP_DEST_QPN")]
        const DEST_QPN = 1 << 20;
        /// Rate limit.
        #[doc(alias = "IBV_QP_RATE_LIMIT")]
        const RATE_LIMIT = 1 << 25;
    }
}

e810_types::serde_flags!(AttrMask: u32);

impl fmt::Display for AttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bitflags::parser::to_writer(self, f)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for AttrMask {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=u32:#x}", self.bits());
    }
}

/// Why a state change is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TransitionError {
    /// No such change.
    #[error("a {qp_type} QP cannot go from {from} to {to}")]
    NotPossible {
        /// Kind of QP.
        qp_type: QpType,
        /// Its state.
        from: QpState,
        /// The state wanted.
        to: QpState,
    },
    /// Attributes that the change needs were not given.
    #[error("{from} to {to} of a {qp_type} QP also needs {missing}")]
    Missing {
        /// Kind of QP.
        qp_type: QpType,
        /// Its state.
        from: QpState,
        /// The state wanted.
        to: QpState,
        /// What is missing.
        missing: AttrMask,
    },
    /// Attributes that may not be changed with it were given.
    #[error("{from} to {to} of a {qp_type} QP does not take {forbidden}")]
    Forbidden {
        /// Kind of QP.
        qp_type: QpType,
        /// Its state.
        from: QpState,
        /// The state wanted.
        to: QpState,
        /// What is out of place.
        forbidden: AttrMask,
    },
    /// CUR_STATE was given, and the QP is in a state that cannot be named so.
    #[error("CUR_STATE cannot be given in state {from}")]
    CurState {
        /// State of the QP.
        from: QpState,
    },
    /// CUR_STATE names another state than the QP is in.
    #[error("the QP is in {from}, not in {given} as CUR_STATE says")]
    OtherState {
        /// State of the QP.
        from: QpState,
        /// What was given.
        given: QpState,
    },
    /// The send queue is still being drained.
    #[error(
        "the send queue is still being drained: wait until sq_draining is false, or go to ERR or RESET"
    )]
    Draining,
}

/// Attributes of one change for one kind of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Masks {
    /// Have to be given.
    pub required: AttrMask,
    /// May be given.
    pub optional: AttrMask,
}

/// One change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// From.
    pub from: QpState,
    /// To.
    pub to: QpState,
    /// Attributes by kind of service, in the order of [`QpType`].
    pub masks: [Masks; 7],
}

/// Every change of state there is (data-path 8.2).
pub const TRANSITIONS: &[Transition] = table::TRANSITIONS;

pub mod query;
mod table;
pub mod timing;

/// Checks a change of state with the attributes `given` (STATE may be among
/// them or not).
///
/// # Errors
/// [`TransitionError`].
pub fn check(
    qp_type: QpType,
    from: QpState,
    to: QpState,
    given: AttrMask,
) -> Result<(), TransitionError> {
    use QpState::{Rtr, Rts, Sqd, Sqe};
    if given.contains(AttrMask::CUR_STATE) && !matches!(from, Rtr | Rts | Sqd | Sqe) {
        return Err(TransitionError::CurState { from });
    }
    let masks = TRANSITIONS
        .iter()
        .find(|transition| transition.from == from && transition.to == to)
        .and_then(|transition| transition.masks.get(qp_type as usize))
        .ok_or(TransitionError::NotPossible { qp_type, from, to })?;
    let missing = masks.required.difference(given);
    if !missing.is_empty() {
        return Err(TransitionError::Missing {
            qp_type,
            from,
            to,
            missing,
        });
    }
    let always = AttrMask::STATE.union(AttrMask::RATE_LIMIT);
    let allowed = masks.required.union(masks.optional).union(always);
    let forbidden = given.difference(allowed);
    if !forbidden.is_empty() {
        return Err(TransitionError::Forbidden {
            qp_type,
            from,
            to,
            forbidden,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
