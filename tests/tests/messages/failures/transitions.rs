//! Changes of state that do not exist, and paths that do not fit.

use e810::{MacAddr, Mtu, Path, QpAttr, QpState, VsiId};
use e810_datapath::state::{AttrMask, TransitionError};
use e810_tests::traffic::{End, Kind, Pair, Setup, Side, Transfer, Watched};

use crate::failures::requests::{A, B, sim};

#[test]
fn transitions_outside_the_table() {
    let sim = sim(5);
    let setup = Setup {
        queue_pairs: 1,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    pair.sides[0].add_qp();
    pair.sides[1].add_qp();
    let end = End { side: 0, qp: 1 };
    let steps = pair.steps(end);
    let Pair { sides, .. } = &mut pair;
    let side = &mut sides[0];
    for (number, good) in steps.iter().enumerate() {
        let before = side.qps[1].state();
        let commands = side.control.commands();
        let mut bad = Vec::new();
        // Missing, one attribute at a time.
        let missing: [fn(&mut QpAttr); 13] = [
            |attr| attr.access = None,
            |attr| attr.pkey_index = None,
            |attr| attr.port = None,
            |attr| attr.path = None,
            |attr| attr.path_mtu = None,
            |attr| attr.dest_qpn = None,
            |attr| attr.rq_psn = None,
            |attr| attr.sq_psn = None,
            |attr| attr.max_dest_rd_atomic = None,
            |attr| attr.max_rd_atomic = None,
            |attr| attr.min_rnr_timer = None,
            |attr| attr.timeout = None,
            |attr| attr.rnr_retry = None,
        ];
        for take in missing {
            let mut attr = *good;
            take(&mut attr);
            if attr != *good {
                bad.push((attr, "missing"));
            }
        }
        // Out of range, where the attribute belongs to the step.
        let out_of_range: [fn(&mut QpAttr); 10] = [
            |attr| attr.pkey_index = attr.pkey_index.and(Some(1)),
            |attr| attr.port = attr.port.and(Some(2)),
            |attr| attr.port = attr.port.and(Some(0)),
            |attr| attr.rq_psn = attr.rq_psn.and(Some(1 << 24)),
            |attr| attr.sq_psn = attr.sq_psn.and(Some(1 << 24)),
            |attr| attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.and(Some(128)),
            |attr| attr.min_rnr_timer = attr.min_rnr_timer.and(Some(32)),
            |attr| attr.timeout = attr.timeout.and(Some(32)),
            |attr| attr.retry_cnt = attr.retry_cnt.and(Some(8)),
            |attr| attr.rnr_retry = attr.rnr_retry.and(Some(8)),
        ];
        for change in out_of_range {
            let mut attr = *good;
            change(&mut attr);
            if attr != *good {
                bad.push((attr, "range"));
            }
        }
        // What belongs to another step.
        let mut attr = *good;
        match number {
            0 => attr.sq_psn = Some(1),
            1 => attr.timeout = Some(1),
            _ => attr.path_mtu = Some(Mtu::Mtu512),
        }
        bad.push((attr, "forbidden"));
        for state in [QpState::Rts, QpState::Rtr, QpState::Sqd, QpState::Sqe] {
            if Some(state) != good.state && state != before {
                let attr = QpAttr {
                    state: Some(state),
                    ..*good
                };
                bad.push((attr, "state"));
            }
        }
        for (attr, why) in bad {
            let error = side.control.modify_qp(&mut side.qps[1], &attr).unwrap_err();
            let fits = match error {
                e810::Error::Datapath(e810_datapath::Error::Transition(error)) => match error {
                    TransitionError::Missing { missing, .. } => {
                        why == "missing" && missing != AttrMask::empty()
                    }
                    TransitionError::Forbidden { .. } => why == "forbidden",
                    TransitionError::NotPossible { .. } => why == "state",
                    _ => false,
                },
                e810::Error::OutOfRange { .. } => why == "range",
                _ => false,
            };
            assert!(fits, "{why}: {error} for {attr:?}");
            assert_eq!(side.qps[1].state(), before);
        }
        assert_eq!(side.control.commands(), commands, "{number}");
        side.control.modify_qp(&mut side.qps[1], good).unwrap();
    }
    let other = End { side: 1, qp: 1 };
    pair.connect(other);
    pair.transfer(end, &Transfer::new(Kind::Write, 3000));
    pair.transfer(other, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

#[test]
fn a_path_that_does_not_fit() {
    let sim = sim(6);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.renew(A);
    pair.renew(B);
    let [to_init, to_rtr, to_rts] = pair.steps(A);
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
    let path = to_rtr.path.unwrap();
    for bad in [
        // The link-local address: another family than the destination's.
        Path {
            sgid_index: 0,
            ..path
        },
        Path {
            priority: 8,
            ..path
        },
        Path {
            flow_label: 1 << 20,
            ..path
        },
    ] {
        let attr = QpAttr {
            path: Some(bad),
            ..to_rtr
        };
        let commands = side.control.commands();
        let error = side.control.modify_qp(&mut side.qps[0], &attr).unwrap_err();
        assert!(
            matches!(
                error,
                e810::Error::Invalid { .. } | e810::Error::OutOfRange { .. }
            ),
            "{error}"
        );
        assert_eq!(side.control.commands(), commands);
        assert_eq!(side.qps[0].state(), QpState::Init);
    }
    for attr in [to_rtr, to_rts] {
        side.control.modify_qp(&mut side.qps[0], &attr).unwrap();
    }
    pair.connect(B);
    pair.transfer(A, &Transfer::new(Kind::Read, 3000));
    pair.finish(&sim);
}

/// A packet has headers besides its payload.
#[test]
fn a_path_mtu_leaves_room_for_headers() {
    let sim = sim(22);
    let platform = sim.function(0);
    for (interface, most) in [
        (1500, Mtu::Mtu1024),
        (1107, Mtu::Mtu512),
        (1108, Mtu::Mtu1024),
    ] {
        let lan = e810::Lan {
            vsi: VsiId::new(platform.vsi()).unwrap(),
            mac: MacAddr(platform.mac()),
            mtu: interface,
        };
        let setup = Setup::default();
        let mut side = Side::new(Watched::new(platform.clone()), lan, &setup);
        let peer = MacAddr([2, 0, 0, 0, 0, 9]);
        let path = Path::new(side.gid, side.ip(), peer);
        let number = side.qps[0].number();
        let to_init = QpAttr::to_init(Setup::ACCESS);
        side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
        for mtu in Mtu::ALL.into_iter().rev() {
            let to_rtr = QpAttr::to_rtr(path, mtu, number, 0);
            let commands = side.control.commands();
            let result = side.control.modify_qp(&mut side.qps[0], &to_rtr);
            if mtu.bytes() > most.bytes() {
                let limit = matches!(
                    result,
                    Err(e810::Error::OutOfRange { max, .. }) if max == u64::from(most.bytes())
                );
                assert!(limit, "{interface}, {mtu:?}: {result:?}");
                assert_eq!(side.control.commands(), commands);
            } else {
                assert_eq!((result, mtu), (Ok(()), most), "{interface}");
                break;
            }
        }
        side.close();
    }
    assert_eq!(sim.findings(), []);
}
