//! What a device, a port and a queue pair say of themselves.

use e810::{
    AccessFlags, AttrMask, Error, GIDS, GidEntry, Mtu, Object, PortState, QpAttr, QpInit, QpState,
    QpType, QueriedInit, addr, query, v4,
};
use e810_sim::PortLink;
use e810_tests::traffic::{Pair, Setup};

use crate::verbs::{A, sim};

#[test]
fn a_device_says_what_it_was_brought_up_with() {
    let sim = sim(1);
    let pair = Pair::simulated(&sim, Setup::default());
    let side = &pair.sides[0];
    let said = side.control.query_device();
    // The capacity asked for, rounded up to a power of two where the device
    // wants that, less what is reserved.
    assert_eq!((said.max_qp, said.max_cq, said.max_mr), (61, 125, 1023));
    assert_eq!((said.max_ah, said.max_mcast_groups), (63, 15));
    assert_eq!((said.max_sge, said.max_inline), (13, 101));
    assert_eq!((said.max_cqe, said.max_mr_size), (1_048_574, 1 << 45));
    assert_eq!((said.max_dest_rd_atomic, said.max_rd_atomic), (127, 255));
    assert_eq!((said.max_srq, said.atomics, said.ports), (0, false, 1));
    let mac = side.control.lan().mac;
    let guid = u128::from(addr::link_local(mac)) as u64;
    assert_eq!(said.node_guid, guid);
    pair.finish(&sim);
}

/// Paths may be as large as fits the interface's MTU, which can be changed.
#[test]
fn a_port_has_the_mtu_of_its_interface() {
    let sim = e810_sim::Sim::builder().functions(2).seed(2).cold().build();
    let mut pair = Pair::cold(&sim, Setup::default());
    let control = &mut pair.sides[0].control;
    for (mtu, active) in [
        (1500, Some(Mtu::Mtu1024)),
        (9702, Some(Mtu::Mtu4096)),
        (68, None),
        (9000, Some(Mtu::Mtu4096)),
    ] {
        control.set_mtu(mtu).unwrap();
        assert_eq!(control.query_port(1).unwrap().active_mtu, active, "{mtu}");
        assert_eq!(control.lan().mtu, mtu);
    }
    for mtu in [67, 9703] {
        let refused = control.set_mtu(mtu).unwrap_err();
        assert!(matches!(refused, Error::OutOfRange { max: 9702, .. }));
    }
    assert_eq!(control.lan().mtu, 9000);
    pair.finish(&sim);
}

#[test]
fn a_port_and_its_tables() {
    let sim = e810_sim::Sim::builder().functions(2).seed(2).cold().build();
    let mut pair = Pair::cold(&sim, Setup::default());
    let control = &mut pair.sides[0].control;
    let port = control.query_port(1).unwrap();
    assert_eq!(port.state, PortState::Active);
    assert_eq!(
        (port.max_mtu, port.active_mtu),
        (Mtu::Mtu4096, Some(Mtu::Mtu4096))
    );
    assert_eq!((port.max_msg_sz, port.lid, port.pkeys), (0x7FFF_FFFF, 0, 1));
    assert!(port.mbps > 0);
    assert_eq!(usize::from(port.gids), GIDS);
    for port in [0, 2] {
        assert!(matches!(
            control.query_port(port),
            Err(Error::OutOfRange { .. })
        ));
        assert!(control.query_pkey(port, 0).is_err());
    }
    assert_eq!(control.query_pkey(1, 0), Ok(0xFFFF));
    assert!(control.query_pkey(1, 1).is_err());
    let mac = control.lan().mac;
    let own = control.query_gid(0).unwrap();
    assert_eq!(own.gid.ip(), addr::link_local(mac));
    assert_eq!(
        control.query_gid(1),
        Some(GidEntry::untagged(v4(10, 8, 10, 1)))
    );
    assert_eq!(control.query_gid(2), None);
    // The queue pair's path holds it.
    let in_use = Error::InUse {
        object: Object::Gid,
        id: 1,
        users: 1,
    };
    assert_eq!(control.remove_gid(1), Err(in_use));
    pair.renew(A);
    let control = &mut pair.sides[0].control;
    assert_eq!(control.remove_gid(1), Ok(()));
    // The link goes down, as a program hears by an event.
    sim.configure_firmware(0, |firmware| firmware.link = PortLink::Down);
    pair.until("a port that is down", |pair| {
        let control = &mut pair.sides[0].control;
        control.query_port(1).unwrap().state == PortState::Down
    });
    sim.configure_firmware(0, |firmware| firmware.link = PortLink::Up);
    pair.until("a port that is up", |pair| {
        let control = &mut pair.sides[0].control;
        control.query_port(1).unwrap().state == PortState::Active
    });
    while pair.sides[0].control.take_lan_event().is_some() {}
    pair.finish(&sim);
}

/// Every attribute that means something in a state is given, each as it was last
/// set; with a smaller mask only what was asked for.
#[test]
fn a_query_returns_the_attributes_that_were_set() {
    for qp_type in [QpType::Rc, QpType::Ud] {
        let sim = sim(3);
        let setup = Setup {
            qp_type,
            separate_cqs: true,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        pair.renew(A);
        let steps = pair.steps(A);
        let check = |pair: &mut Pair<_>, reported: &QpAttr| {
            let side = &mut pair.sides[0];
            let qp = &side.qps[0];
            let state = qp.state();
            let said = side.control.query_qp(qp, AttrMask::all()).unwrap();
            let valid = query::valid(qp_type, state);
            // Nothing was said about an alternate path or a drain.
            let never = AttrMask::ALT_PATH | AttrMask::PATH_MIG_STATE;
            assert_eq!(said.attr.mask(), valid - never, "{qp_type} {state}");
            let expected = QpAttr {
                state: Some(state),
                cur_state: Some(state),
                caps: Some(qp.caps()),
                ..*reported
            };
            assert_eq!(said.attr, expected);
            assert_eq!((said.init.qp_type, said.sq_draining), (qp_type, false));
            assert_eq!(said.init.caps, qp.caps());
            let (send, receive) = (&side.cqs[0], &side.cqs[1]);
            let numbers = (send.number(), receive.number());
            assert_eq!((said.init.send_cq, said.init.recv_cq), numbers);
            assert_eq!((said.init.pd, said.init.signal_all), (side.pd.id(), false));
            let only = side.control.query_qp(qp, AttrMask::STATE).unwrap();
            assert_eq!(only.attr.mask(), AttrMask::STATE);
        };
        check(&mut pair, &QpAttr::default());
        let mut reported = QpAttr::default();
        for step in steps {
            let side = &mut pair.sides[0];
            side.control.modify_qp(&mut side.qps[0], &step).unwrap();
            reported = over(&step, &reported);
            check(&mut pair, &reported);
        }
        // In ERR nothing but the state means anything.
        let side = &mut pair.sides[0];
        side.control
            .modify_qp(&mut side.qps[0], &QpAttr::to_error())
            .unwrap();
        check(&mut pair, &QpAttr::default());
        pair.finish(&sim);
    }
}

/// Every field of it, each once as it is by default and once otherwise.
#[test]
fn a_queue_pair_says_what_it_was_made_with() {
    let sim = sim(5);
    let setup = Setup {
        separate_cqs: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[0];
    let services = [QpType::Rc, QpType::Ud, QpType::Rc, QpType::Ud];
    for (place, qp_type) in services.into_iter().enumerate() {
        let (send, receive) = (&side.cqs[place % 2], &side.cqs[1 - place % 2]);
        let pd = side.control.alloc_pd().unwrap();
        let init = QpInit {
            signal_all: place == 1,
            fast_register: place == 2,
            user_context: u64::MAX << place,
            ..QpInit::new(qp_type, send, receive, setup.caps)
        };
        let qp = side.control.create_qp(&pd, &init).unwrap();
        let said = side.control.query_qp(&qp, AttrMask::empty()).unwrap();
        let expected = QueriedInit {
            qp_type,
            send_cq: send.number(),
            recv_cq: receive.number(),
            caps: qp.caps(),
            signal_all: place == 1,
            fast_register: place == 2,
            pd: pd.id(),
            user_context: u64::MAX << place,
        };
        assert_eq!(said.init, expected);
        assert_eq!(said.attr, QpAttr::default(), "nothing was asked for");
        let caps = (qp.caps().max_send_wr, qp.caps().max_recv_wr);
        assert!(caps.0 >= setup.caps.max_send_wr && caps.1 >= setup.caps.max_recv_wr);
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        side.control.dealloc_pd(pd).map_err(|(_, e)| e).unwrap();
    }
    pair.finish(&sim);
}

/// What is set later counts.
fn over(later: &QpAttr, earlier: &QpAttr) -> QpAttr {
    QpAttr {
        state: None,
        qkey: later.qkey.or(earlier.qkey),
        access: later.access.or(earlier.access),
        pkey_index: later.pkey_index.or(earlier.pkey_index),
        port: later.port.or(earlier.port),
        path: later.path.or(earlier.path),
        path_mtu: later.path_mtu.or(earlier.path_mtu),
        dest_qpn: later.dest_qpn.or(earlier.dest_qpn),
        rq_psn: later.rq_psn.or(earlier.rq_psn),
        sq_psn: later.sq_psn.or(earlier.sq_psn),
        max_dest_rd_atomic: later.max_dest_rd_atomic.or(earlier.max_dest_rd_atomic),
        max_rd_atomic: later.max_rd_atomic.or(earlier.max_rd_atomic),
        min_rnr_timer: later.min_rnr_timer.or(earlier.min_rnr_timer),
        timeout: later.timeout.or(earlier.timeout),
        retry_cnt: later.retry_cnt.or(earlier.retry_cnt),
        rnr_retry: later.rnr_retry.or(earlier.rnr_retry),
        ..QpAttr::default()
    }
}

/// 0 READs keep the number before; what is not programmed is kept all the same.
#[test]
fn attributes_that_keep_or_are_only_kept() {
    let sim = sim(4);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.renew(A);
    let [to_init, to_rtr, to_rts] = pair.steps(A);
    let steps = [
        to_init,
        QpAttr {
            max_dest_rd_atomic: Some(9),
            min_rnr_timer: Some(31),
            ..to_rtr
        },
        QpAttr {
            max_rd_atomic: Some(0),
            timeout: Some(31),
            ..to_rts
        },
    ];
    let side = &mut pair.sides[0];
    for step in steps {
        side.control.modify_qp(&mut side.qps[0], &step).unwrap();
    }
    let said = side
        .control
        .query_qp(&side.qps[0], AttrMask::all())
        .unwrap();
    assert_eq!(
        (said.attr.min_rnr_timer, said.attr.timeout),
        (Some(31), Some(31))
    );
    assert_eq!(said.attr.max_dest_rd_atomic, Some(9));
    assert_eq!(
        said.attr.max_rd_atomic, None,
        "never set: the device's default"
    );
    let access = QpAttr {
        access: Some(AccessFlags::REMOTE_READ),
        ..QpAttr::default()
    };
    side.control.modify_qp(&mut side.qps[0], &access).unwrap();
    let said = side
        .control
        .query_qp(&side.qps[0], AttrMask::ACCESS_FLAGS)
        .unwrap();
    assert_eq!(said.attr, access);
    assert_eq!(side.qps[0].state(), QpState::Rts);
    pair.finish(&sim);
}
