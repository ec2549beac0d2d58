//! A neighbour that moves: what follows it, and what stays.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use e810::{Data, Error, GidEntry, MacAddr, Op, Path, QpAttr, QpType, SendFlags, SendWr, WcStatus};
use e810_hal::Ns;
use e810_sim::Sim;
use e810_tests::traffic::verbs::datagrams::QKEY;
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};

use crate::verbs::{A, B, sim};

/// Where nobody is.
const ELSEWHERE: MacAddr = MacAddr([2, 0xAB, 0, 0, 0, 7]);
/// Another address of the second function.
const OTHER_IP: [u8; 4] = [192, 0, 2, 77];
/// Queue pairs that know it by that one.
const OTHER_A: End = End { side: 0, qp: 1 };
const OTHER_B: End = End { side: 1, qp: 1 };

/// Where the frames of the first function go, one after the other.
fn watch(sim: &Sim) -> Arc<Mutex<Vec<MacAddr>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    sim.set_capture(Some(Box::new(move |frame| {
        if frame.from == Some(0) {
            let to = *frame.bytes.first_chunk::<6>().unwrap();
            into.lock().unwrap().push(MacAddr(to));
        }
    })));
    seen
}

fn taken(seen: &Mutex<Vec<MacAddr>>) -> Vec<MacAddr> {
    let mut all = std::mem::take(&mut *seen.lock().unwrap());
    all.dedup();
    all
}

fn message(pair: &mut Pair<impl e810::Platform>, end: End) {
    let peer = pair.peer(end);
    pair.side(peer.side).post_recv(peer.qp, 1, &[]).unwrap();
    let request = SendWr {
        wr_id: 2,
        op: Op::Send {
            data: Data::Inline(&[]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    pair.side(end.side).post_send(end.qp, &[request]).unwrap();
}

/// Connects an end to an address of the peer, from one of its own.
fn connect(pair: &mut Pair<impl e810::Platform>, end: End, own: u8, ip: IpAddr) {
    let [to_init, to_rtr, to_rts] = pair.steps(end);
    let path = Path {
        sgid_index: own,
        destination: ip,
        ..to_rtr.path.unwrap()
    };
    let to_rtr = QpAttr {
        path: Some(path),
        ..to_rtr
    };
    let side = pair.side(end.side);
    for step in [to_init, to_rtr, to_rts] {
        side.control
            .modify_qp(&mut side.qps[end.qp], &step)
            .unwrap();
    }
}

#[test]
fn a_connection_follows_its_peer_and_others_stay() {
    let sim = sim(43);
    let setup = Setup {
        queue_pairs: 2,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let there = &mut pair.sides[1];
    let (ip, mac) = (there.ip(), there.control.lan().mac);
    let other = there
        .control
        .add_gid(GidEntry::untagged(OTHER_IP.into()))
        .unwrap();
    assert_eq!(there.control.find_gid(OTHER_IP.into(), None), Some(other));
    assert_eq!(there.control.find_gid(OTHER_IP.into(), Some(7)), None);
    for end in [OTHER_A, OTHER_B] {
        pair.renew(end);
    }
    let (here, own) = (pair.sides[0].ip(), pair.sides[0].gid);
    connect(&mut pair, OTHER_A, own, OTHER_IP.into());
    connect(&mut pair, OTHER_B, other, here);
    let seen = watch(&sim);
    for end in [A, OTHER_A] {
        pair.transfer(end, &Transfer::new(Kind::Send, 3000));
    }
    assert_eq!(taken(&seen), [mac]);

    // It is elsewhere, and back before the connection is given up.
    let control = &mut pair.sides[0].control;
    assert_eq!(control.move_neighbour(ip, ELSEWHERE, mac), Ok(0));
    assert_eq!(control.move_neighbour(ip, mac, ELSEWHERE), Ok(1));
    assert_eq!(control.move_neighbour(ip, mac, ELSEWHERE), Ok(0));
    message(&mut pair, A);
    pair.during(Ns::from_us(50));
    assert_eq!(taken(&seen), [ELSEWHERE]);
    assert!(pair.sides[0].done.is_empty());
    pair.transfer(OTHER_A, &Transfer::new(Kind::Write, 3000));
    assert!(taken(&seen).contains(&mac), "the other stays where it was");
    assert!(pair.sides[0].done.is_empty());
    let control = &mut pair.sides[0].control;
    assert_eq!(control.move_neighbour(ip, ELSEWHERE, mac), Ok(1));
    assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
    assert_eq!(pair.completions(1, 1)[0].status, WcStatus::Success);
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.transfer(B, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

#[test]
fn an_address_handle_follows_too() {
    let sim = sim(44);
    let setup = Setup {
        qp_type: QpType::Ud,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let there = &pair.sides[1];
    let (ip, mac) = (there.ip(), there.control.lan().mac);
    let to = there.qps[0].number();
    let side = &mut pair.sides[0];
    let path = Path::new(side.gid, ip, mac);
    let handles = [0, 1].map(|_| side.control.create_ah(&side.pd, &path).unwrap());
    let seen = watch(&sim);
    assert_eq!(side.control.move_neighbour(ip, mac, ELSEWHERE), Ok(2));
    // What is made from now on is as it is said.
    let late = side.control.create_ah(&side.pd, &path).unwrap();
    for (ah, expected) in handles.iter().zip([ELSEWHERE; 2]).chain([(&late, mac)]) {
        let request = SendWr {
            wr_id: 1,
            op: Op::UdSend {
                data: Data::Inline(&[b"datagram"]),
                imm: None,
                to: ah.target(to, QKEY),
            },
            flags: SendFlags::SIGNALED,
        };
        pair.sides[0].post_send(0, &[request]).unwrap();
        assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
        assert_eq!(taken(&seen), [expected]);
    }
    for ah in handles.into_iter().chain([late]) {
        let destroyed = pair.sides[0].control.destroy_ah(ah);
        destroyed.map_err(|(_, error)| error).unwrap();
    }
    pair.finish(&sim);
}

#[test]
fn what_is_no_station_is_refused() {
    let sim = sim(45);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let there = &pair.sides[1];
    let (ip, mac) = (there.ip(), there.control.lan().mac);
    let control = &mut pair.sides[0].control;
    for to in [
        MacAddr([0; 6]),
        MacAddr([0xFF; 6]),
        MacAddr([1, 0, 0x5E, 0, 0, 1]),
    ] {
        let refused = control.move_neighbour(ip, mac, to);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let group = "239.1.2.3".parse().unwrap();
    let refused = control.move_neighbour(group, mac, ELSEWHERE);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    pair.finish(&sim);
}
