//! Which attributes of a QP have a meaning in which state.
//!
//! This is what verbs say about `query_qp`. The tables for UC are here for completeness; the
//! device has no UC.

use e810_types::{QpState, QpType};

use super::AttrMask;

/// One row: what is valid in a state for UD, UC and RC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Valid {
    /// The state.
    pub state: QpState,
    /// Unreliable datagram.
    pub ud: AttrMask,
    /// Unreliable connection.
    pub uc: AttrMask,
    /// Reliable connection.
    pub rc: AttrMask,
}

const S: AttrMask = AttrMask::STATE;
/// Of every service from INIT on.
const PLACE: AttrMask = S.union(AttrMask::PKEY_INDEX).union(AttrMask::PORT);
const UD: AttrMask = PLACE.union(AttrMask::QKEY);
const UD_SENDS: AttrMask = UD.union(AttrMask::SQ_PSN);
const CONNECTED: AttrMask = PLACE.union(AttrMask::ACCESS_FLAGS);
const UC_RECEIVES: AttrMask = CONNECTED
    .union(AttrMask::AV)
    .union(AttrMask::PATH_MTU)
    .union(AttrMask::DEST_QPN)
    .union(AttrMask::RQ_PSN)
    .union(AttrMask::ALT_PATH);
const UC_SENDS: AttrMask = UC_RECEIVES
    .union(AttrMask::SQ_PSN)
    .union(AttrMask::PATH_MIG_STATE);
const RC_RECEIVES: AttrMask = UC_RECEIVES
    .union(AttrMask::MAX_DEST_RD_ATOMIC)
    .union(AttrMask::MIN_RNR_TIMER);
const RC_SENDS: AttrMask = RC_RECEIVES
    .union(UC_SENDS)
    .union(AttrMask::TIMEOUT)
    .union(AttrMask::RETRY_CNT)
    .union(AttrMask::RNR_RETRY)
    .union(AttrMask::MAX_QP_RD_ATOMIC);

/// The table, a row a state.
pub const VALID: [Valid; 7] = [
    row(QpState::Reset, S, S, S),
    row(QpState::Init, UD, CONNECTED, CONNECTED),
    row(QpState::Rtr, UD, UC_RECEIVES, RC_RECEIVES),
    row(QpState::Rts, UD_SENDS, UC_SENDS, RC_SENDS),
    row(QpState::Sqd, UD_SENDS, UC_SENDS, RC_SENDS),
    // RC has no such state.
    row(QpState::Sqe, UD_SENDS, UC_SENDS, S),
    row(QpState::Err, S, S, S),
];

const fn row(state: QpState, ud: AttrMask, uc: AttrMask, rc: AttrMask) -> Valid {
    Valid { state, ud, uc, rc }
}

/// What is valid of a QP of a service in a state. Services that are neither UD
/// nor UC count as RC; capabilities are always valid.
#[must_use]
pub fn valid(qp_type: QpType, state: QpState) -> AttrMask {
    let row = VALID.iter().find(|row| row.state == state);
    let of = row.map_or(S, |row| match qp_type {
        QpType::Ud | QpType::Gsi => row.ud,
        QpType::Uc => row.uc,
        _ => row.rc,
    });
    of | AttrMask::CAP | AttrMask::CUR_STATE
}

/// Attributes that can change without the program's doing: the device moves a QP to ERR (UD: SQE)
/// by itself. Also, `sq_draining`, for which verbs have no mask bit, ends when the device has
/// drained the send queue. All others are what the program last set; this device reports nothing
/// else about a QP (data-path 8.10).
pub const CHANGED_BY_DEVICE: AttrMask = AttrMask::STATE.union(AttrMask::CUR_STATE);

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the query_qp text, written out once more by hand: bit
    /// numbers of `ib_qp_attr_mask`.
    #[test]
    fn the_table_is_that_of_the_text() {
        let mask = |bits: &[u32]| bits.iter().fold(0u32, |mask, bit| mask | 1 << bit);
        let ud = mask(&[0, 4, 5, 6]);
        let ud_sends = ud | mask(&[16]);
        let init = mask(&[0, 4, 5, 3]);
        let uc_rtr = init | mask(&[7, 8, 20, 12, 14]);
        let uc_rts = uc_rtr | mask(&[16, 18]);
        let rc_rtr = uc_rtr | mask(&[17, 15]);
        let rc_rts = rc_rtr | mask(&[16, 9, 10, 11, 13, 18]);
        let expected = [
            (QpState::Reset, [1, 1, 1]),
            (QpState::Init, [ud, init, init]),
            (QpState::Rtr, [ud, uc_rtr, rc_rtr]),
            (QpState::Rts, [ud_sends, uc_rts, rc_rts]),
            (QpState::Sqd, [ud_sends, uc_rts, rc_rts]),
            (QpState::Sqe, [ud_sends, uc_rts, 1]),
            (QpState::Err, [1, 1, 1]),
        ];
        for (row, (state, [ud, uc, rc])) in VALID.iter().zip(expected) {
            assert_eq!(row.state, state);
            let bits = [row.ud.bits(), row.uc.bits(), row.rc.bits()];
            assert_eq!(bits, [ud, uc, rc], "{state}");
        }
    }

    #[test]
    fn what_is_set_on_the_way_to_a_state_can_be_asked_for_there() {
        use crate::state::TRANSITIONS;
        for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
            for change in TRANSITIONS {
                let required = change.masks[qp_type as usize].required;
                let there = valid(qp_type, change.to);
                assert!(there.contains(required), "{qp_type} {}", change.to);
            }
        }
    }

    #[test]
    fn every_state_has_a_row_of_its_own() {
        for (row, state) in VALID.iter().zip(QpState::ALL) {
            assert_eq!(row.state, state);
            assert!(valid(QpType::Rc, state).contains(AttrMask::STATE | AttrMask::CAP));
        }
    }
}
