use super::*;
use std::collections::BTreeSet;
use std::string::ToString;

const SERVICES: [QpType; 7] = [
    QpType::Rc,
    QpType::Uc,
    QpType::Ud,
    QpType::Gsi,
    QpType::RawPacket,
    QpType::XrcIni,
    QpType::XrcTgt,
];

#[test]
fn each_change_is_listed_once() {
    let pairs: BTreeSet<(QpState, QpState)> = TRANSITIONS.iter().map(|t| (t.from, t.to)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
    assert_eq!(pairs.len(), 22);
    for (index, qp_type) in SERVICES.iter().enumerate() {
        assert_eq!(*qp_type as usize, index, "columns are in the enum's order");
    }
}

/// Those that data-path 8.2 names as invalid, and every other one not listed.
#[test]
fn what_is_not_listed_is_refused() {
    use QpState as S;
    for (from, to) in [
        (S::Reset, S::Rtr),
        (S::Init, S::Rts),
        (S::Rtr, S::Rtr),
        (S::Rtr, S::Init),
        (S::Rts, S::Init),
        (S::Err, S::Init),
        (S::Reset, S::Err),
        (S::Sqe, S::Sqe),
        (S::Sqd, S::Rtr),
        (S::Err, S::Rts),
    ] {
        for qp_type in SERVICES {
            assert_eq!(
                check(qp_type, from, to, AttrMask::STATE),
                Err(TransitionError::NotPossible { qp_type, from, to })
            );
        }
    }
}

#[test]
fn required_and_optional_decide_every_single_bit() {
    for transition in TRANSITIONS {
        for (qp_type, masks) in SERVICES.iter().zip(transition.masks) {
            let (from, to) = (transition.from, transition.to);
            assert!(masks.required.intersection(masks.optional).is_empty());
            let check = |given| check(*qp_type, from, to, given);
            assert_eq!(check(masks.required), Ok(()));
            assert_eq!(check(masks.required | AttrMask::STATE), Ok(()));
            assert_eq!(check(masks.required | masks.optional), Ok(()));
            for bit in AttrMask::all().iter() {
                let with = check(masks.required | bit);
                if (masks.required | masks.optional | AttrMask::STATE | AttrMask::RATE_LIMIT)
                    .contains(bit)
                {
                    assert_eq!(with, Ok(()));
                } else {
                    assert!(with.is_err(), "{qp_type} {from} {to} {bit}");
                }
                if masks.required.contains(bit) {
                    assert_eq!(
                        check(masks.required - bit),
                        Err(TransitionError::Missing {
                            qp_type: *qp_type,
                            from,
                            to,
                            missing: bit
                        })
                    );
                }
            }
        }
    }
}

#[test]
fn cur_state_is_for_the_middle_states() {
    let given = AttrMask::STATE | AttrMask::CUR_STATE;
    assert_eq!(
        check(QpType::Ud, QpState::Init, QpState::Rtr, given),
        Err(TransitionError::CurState {
            from: QpState::Init
        })
    );
    assert_eq!(check(QpType::Ud, QpState::Sqe, QpState::Rts, given), Ok(()));
    assert!(matches!(
        check(QpType::Rc, QpState::Sqe, QpState::Rts, given),
        Err(TransitionError::Forbidden { .. })
    ));
}

#[test]
fn the_way_of_an_rc_qp() {
    let init = AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    assert_eq!(
        check(QpType::Rc, QpState::Reset, QpState::Init, init),
        Ok(())
    );
    let rtr = AttrMask::AV
        | AttrMask::PATH_MTU
        | AttrMask::DEST_QPN
        | AttrMask::RQ_PSN
        | AttrMask::MAX_DEST_RD_ATOMIC
        | AttrMask::MIN_RNR_TIMER;
    assert_eq!(check(QpType::Rc, QpState::Init, QpState::Rtr, rtr), Ok(()));
    assert_eq!(
        check(
            QpType::Rc,
            QpState::Init,
            QpState::Rtr,
            rtr | AttrMask::QKEY
        )
        .unwrap_err()
        .to_string(),
        "INIT to RTR of a RC QP does not take QKEY"
    );
}

#[test]
fn states_keep_their_numbers() {
    for (number, state) in QpState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, number);
        assert_eq!(state_from_bits(number as u64), state);
    }
    assert_eq!(state_from_bits(7), QpState::Err);
}
