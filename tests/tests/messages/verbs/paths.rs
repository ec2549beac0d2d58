//! What a program says of a path and of signaling, seen from the wire and the
//! completion queue.

use std::sync::{Arc, Mutex};

use e810::{AttrMask, Data, Op, Path, QpAttr, QpInit, QpType, SendFlags, SendWr, WcStatus};
use e810_sim::Sim;
use e810_sim::wire::Packet;
use e810_tests::traffic::verbs::datagrams::QKEY;
use e810_tests::traffic::{Kind, Pair, Setup, Transfer};

use crate::verbs::{A, B, sim};

/// TOS or traffic class, TTL or hop limit, flow label.
type Header = (u8, u8, u32);

/// The headers of the packets that the first function sends from now on.
fn watch(sim: &Sim) -> Arc<Mutex<Vec<Header>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    sim.set_capture(Some(Box::new(move |frame| {
        if let Ok(packet) = Packet::parse(frame.bytes)
            && frame.from == Some(0)
        {
            let path = packet.path;
            into.lock()
                .unwrap()
                .push((path.tos, path.ttl, path.flow_label));
        }
    })));
    seen
}

/// The same path, and what its packets must carry. IPv4 has no flow label.
fn said(path: Path, hop_limit: u8, ipv6: bool) -> (Path, Header) {
    let path = Path {
        hop_limit,
        traffic_class: 0xB8,
        flow_label: 0xB_CDEF,
        ..path
    };
    // 0, which no packet can have on its way, is sent as 1: both stay in the subnet.
    let sent = hop_limit.max(1);
    let label = if ipv6 { path.flow_label } else { 0 };
    (path, (path.traffic_class, sent, label))
}

#[test]
fn what_a_path_says_is_on_the_wire() {
    for ipv6 in [false, true] {
        for hop_limit in [0, 1, 2, 255] {
            of_a_connection(ipv6, hop_limit);
            of_a_datagram(ipv6, hop_limit);
        }
    }
}

fn all_are(seen: &Mutex<Vec<Header>>, expected: Header) {
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|header| *header == expected),
        "{seen:x?}, not {expected:x?}"
    );
}

fn of_a_connection(ipv6: bool, hop_limit: u8) {
    let sim = sim(40);
    let setup = Setup {
        ipv6,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    pair.renew(A);
    pair.renew(B);
    let [to_init, to_rtr, to_rts] = pair.steps(A);
    let (path, expected) = said(to_rtr.path.unwrap(), hop_limit, ipv6);
    let to_rtr = QpAttr {
        path: Some(path),
        ..to_rtr
    };
    let side = &mut pair.sides[0];
    for step in [to_init, to_rtr, to_rts] {
        side.control.modify_qp(&mut side.qps[0], &step).unwrap();
    }
    let reported = side.control.query_qp(&side.qps[0], AttrMask::AV).unwrap();
    assert_eq!(reported.attr.path, Some(path), "as it was given");
    pair.connect(B);
    let seen = watch(&sim);
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    all_are(&seen, expected);
    pair.finish(&sim);
}

fn of_a_datagram(ipv6: bool, hop_limit: u8) {
    let sim = sim(41);
    let setup = Setup {
        qp_type: QpType::Ud,
        ipv6,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let there = &pair.sides[1];
    let (ip, mac) = (there.ip(), there.control.lan().mac);
    let to = there.qps[0].number();
    let side = &mut pair.sides[0];
    let (path, expected) = said(Path::new(side.gid, ip, mac), hop_limit, ipv6);
    let ah = side.control.create_ah(&side.pd, &path).unwrap();
    let seen = watch(&sim);
    let request = SendWr {
        wr_id: 1,
        op: Op::UdSend {
            data: Data::Inline(&[b"datagram"]),
            imm: None,
            to: ah.target(to, QKEY),
        },
        flags: SendFlags::SIGNALED,
    };
    side.post_send(0, &[request]).unwrap();
    assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
    all_are(&seen, expected);
    let side = &mut pair.sides[0];
    side.control.destroy_ah(ah).unwrap();
    pair.finish(&sim);
}

/// sq_sig_all: a request need not say so.
#[test]
fn every_request_of_a_queue_pair_can_be_signaled() {
    for signal_all in [false, true] {
        let sim = sim(42);
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = &mut pair.sides[0];
        let old = side.qps.remove(0);
        side.control.destroy_qp(old).map_err(|(_, e)| e).unwrap();
        let init = QpInit {
            signal_all,
            ..QpInit::rc(&side.cqs[0], &side.cqs[0], Setup::default().caps)
        };
        let qp = side.control.create_qp(&side.pd, &init).unwrap();
        let said = side.control.query_qp(&qp, AttrMask::all()).unwrap();
        assert_eq!(said.init.signal_all, signal_all);
        side.qps.insert(0, qp);
        pair.renew(B);
        pair.connect(A);
        pair.connect(B);
        for n in 0..3 {
            pair.sides[1].post_recv(0, n, &[]).unwrap();
            let request = SendWr {
                wr_id: n,
                op: Op::Send {
                    data: Data::Inline(&[]),
                    imm: None,
                },
                flags: SendFlags::empty(),
            };
            pair.sides[0].post_send(0, &[request]).unwrap();
        }
        assert_eq!(pair.completions(1, 3).len(), 3);
        pair.during(e810_hal::Ns::from_ms(1));
        let reported: Vec<u64> = pair.sides[0].take().iter().map(|wc| wc.wr_id).collect();
        let expected: &[u64] = if signal_all { &[0, 1, 2] } else { &[] };
        assert_eq!(reported, expected);
        pair.close();
    }
}
