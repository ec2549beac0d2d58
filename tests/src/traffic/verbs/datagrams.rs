//! Datagrams: address handles, the GRH area, keys, groups.

use std::net::IpAddr;

use e810::{
    Data, Op, Path, Platform, QpAttr, Qpn, UdTarget, Unsupported, WcFlags, WcOpcode, WcStatus,
};
use e810_hal::Ns;

use super::super::scenarios::{A, B};
use super::super::{End, Pair, Setup, pattern};
use super::done;

/// The Q_Key of every datagram queue pair of [`Setup`].
pub const QKEY: u32 = 0x1357_9BDF & !(1 << 31);
/// Bytes before the message in a receive.
pub const GRH: usize = 40;

/// The path from one side to the other.
fn path(pair: &mut Pair<impl Platform>, from: usize, to: usize) -> Path {
    let there = pair.side(to);
    let (ip, mac) = (there.ip(), there.control.lan().mac);
    let priority = pair.setup().vlan.map_or(0, |vlan| vlan.priority);
    Path {
        priority,
        ..Path::new(pair.side(from).gid, ip, mac)
    }
}

/// Posts a receive of `room` bytes at an end.
pub fn receive(pair: &mut Pair<impl Platform>, at: End, wr_id: u64, room: usize) {
    let side = pair.side(at.side);
    let into = side.incoming();
    side.buffer.write(into, &vec![0xA5; room]);
    let sge = side.sge(into, room);
    side.post_recv(at.qp, wr_id, &[sge]).expect("posted");
}

/// Waits long enough for a message that must not come.
fn nothing_comes(pair: &mut Pair<impl Platform>, side: usize) {
    pair.during(Ns::from_ms(5));
    assert_eq!(pair.side(side).take(), []);
}

/// Messages of all sizes arrive with who sent them; immediate data and inline
/// data too.
pub fn messages(pair: &mut Pair<impl Platform>) {
    let path = path(pair, 0, 1);
    let (qpn, src) = (pair.number(B), pair.number(A));
    let side = pair.side(0);
    let ah = side.control.create_ah(&side.pd, &path).expect("a handle");
    assert_eq!(ah.path(), path);
    let to = ah.target(Qpn::new(qpn).expect("24 bits"), QKEY);
    // Up to the greatest packet of the interface, whatever connections use.
    let port = pair.side(0).control.query_port(1).expect("port 1");
    let mtu = port.active_mtu.expect("an MTU").bytes() as usize;
    for (serial, size) in (1..).zip([0, 1, 63, 101, 512, mtu]) {
        for imm in [None, Some(0x0A0B_0C0D)] {
            for inline in [false, true] {
                if inline && size > 101 {
                    continue;
                }
                let bytes = pattern(serial, size);
                pair.side(0).buffer.write(0, &bytes);
                receive(pair, B, serial, GRH + size);
                let sge = pair.side(0).sge(0, size);
                let (pieces, sges) = ([bytes.as_slice()], [sge]);
                let data = match inline {
                    true => Data::Inline(&pieces),
                    false => Data::Sges(&sges),
                };
                let wc = done(pair, A, Op::UdSend { data, imm, to });
                assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::Send));
                let wcs = pair.completions(1, 1);
                let wc = wcs.first().copied().unwrap_or_default();
                assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, serial));
                assert_eq!((wc.opcode, wc.src_qp), (WcOpcode::Recv, src));
                assert_eq!(wc.byte_len as usize, GRH + size);
                assert!(wc.flags.contains(WcFlags::GRH));
                assert_eq!(wc.flags.contains(WcFlags::WITH_IMM), imm.is_some());
                assert_eq!(wc.imm, imm.unwrap_or(0));
                check_grh(pair, wc.flags.contains(WcFlags::IPV4));
                let into = pair.side(1).incoming();
                assert!(pair.side(1).buffer.read(into + GRH, size) == bytes);
            }
        }
    }
    let side = pair.side(0);
    side.control.destroy_ah(ah).expect("destroyed");
}

/// The sender's and the receiver's address stand in the GRH area.
fn check_grh(pair: &mut Pair<impl Platform>, ipv4: bool) {
    let (from, to) = (pair.side(0).ip(), pair.side(1).ip());
    assert_eq!(ipv4, from.is_ipv4());
    let into = pair.side(1).incoming();
    let area = pair.side(1).buffer.read(into, GRH);
    let (at, wanted) = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (32, [from.octets(), to.octets()].concat()),
        (IpAddr::V6(from), IpAddr::V6(to)) => (8, [from.octets(), to.octets()].concat()),
        _ => panic!("two families"),
    };
    assert_eq!(area.get(at..), Some(wanted.as_slice()));
}

/// A server answers whom it knows nothing of but what came with the message: the GRH
/// area, and what the completion queue says of the sender.
pub fn an_unknown_sender(pair: &mut Pair<impl Platform>) {
    let to_server = path(pair, 0, 1);
    let qpn = Qpn::new(pair.number(B)).expect("24 bits");
    let side = pair.side(0);
    let ah = side
        .control
        .create_ah(&side.pd, &to_server)
        .expect("a handle");
    receive(pair, B, 1, GRH + 8);
    receive(pair, A, 2, GRH + 8);
    let question = Op::UdSend {
        data: Data::Inline(&[b"question"]),
        imm: None,
        to: ah.target(qpn, QKEY),
    };
    pair.side(1).polling = false;
    done(pair, A, question);
    let mut asked = None;
    pair.until("the question", |pair| {
        let cq = pair.side(1).cqs.last_mut().expect("a CQ");
        asked = cq.poll_with_sender();
        asked.is_some()
    });
    pair.side(1).polling = true;
    let (wc, Some(sender)) = asked.expect("a question") else {
        panic!("a datagram without a sender");
    };
    assert_eq!((wc.wr_id, wc.byte_len as usize), (1, GRH + 8));
    assert_eq!(sender.vlan(), pair.setup().vlan.map(|vlan| vlan.id));
    let server = pair.side(1);
    let area = server.buffer.read(server.incoming(), GRH);
    let back = Path::to_sender(server.gid, &area, wc.flags, &sender).expect("a path");
    let known = path(pair, 1, 0);
    assert_eq!(
        (back.destination, back.destination_mac, back.priority),
        (known.destination, known.destination_mac, known.priority)
    );
    let server = pair.side(1);
    let reply = server
        .control
        .create_ah(&server.pd, &back)
        .expect("a handle");
    let answer = Op::UdSend {
        data: Data::Inline(&[b"answered"]),
        imm: None,
        to: reply.target(Qpn::new(wc.src_qp).expect("24 bits"), QKEY),
    };
    done(pair, B, answer);
    let wc = pair.completions(0, 1)[0];
    assert_eq!((wc.wr_id, wc.src_qp), (2, qpn.get()));
    for (side, ah) in [(0, ah), (1, reply)] {
        let side = pair.side(side);
        side.control.destroy_ah(ah).expect("destroyed");
    }
}

/// A wrong Q_Key is dropped; one with the highest bit set stands for the sender's
/// own.
pub fn keys(pair: &mut Pair<impl Platform>) {
    let path = path(pair, 0, 1);
    let qpn = Qpn::new(pair.number(B)).expect("24 bits");
    let side = pair.side(0);
    let ah = side.control.create_ah(&side.pd, &path).expect("a handle");
    let op = |to| Op::UdSend {
        data: Data::Inline(&[b"datagram"]),
        imm: None,
        to,
    };
    receive(pair, B, 1, 64);
    let sent = done(pair, A, op(ah.target(qpn, QKEY ^ 1)));
    assert_eq!(sent.status, WcStatus::Success, "nobody tells the sender");
    nothing_comes(pair, 1);
    done(pair, A, op(ah.target(qpn, 1 << 31 | 77)));
    assert_eq!(pair.completions(1, 1)[0].byte_len, 48);
    // The receiver's key changes; the sender's own is still the old one.
    let rekey = QpAttr {
        qkey: Some(99),
        ..QpAttr::default()
    };
    for end in [B, A] {
        let side = pair.side(end.side);
        let qp = &mut side.qps[end.qp];
        side.control.modify_qp(qp, &rekey).expect("another key");
        receive(pair, B, 2, 64);
        done(pair, A, op(ah.target(qpn, 1 << 31)));
        match end {
            B => nothing_comes(pair, 1),
            _ => assert_eq!(pair.completions(1, 1)[0].byte_len, 48),
        }
    }
    let side = pair.side(0);
    side.control.destroy_ah(ah).expect("destroyed");
    // One receive is left: of the queue pair's end.
    assert_eq!(pair.renew_counted(B).receives, 1);
}

/// A message longer than its receive is dropped, and so is one without any.
pub fn too_long_for_the_receive(pair: &mut Pair<impl Platform>) {
    let path = path(pair, 0, 1);
    let qpn = Qpn::new(pair.number(B)).expect("24 bits");
    let side = pair.side(0);
    let ah = side.control.create_ah(&side.pd, &path).expect("a handle");
    let to = ah.target(qpn, QKEY);
    let op = |data| Op::UdSend {
        data,
        imm: None,
        to,
    };
    done(pair, A, op(Data::Inline(&[b"nobody waits"])));
    nothing_comes(pair, 1);
    receive(pair, B, 1, GRH + 11);
    done(pair, A, op(Data::Inline(&[b"twelve bytes"])));
    nothing_comes(pair, 1);
    done(pair, A, op(Data::Inline(&[b"eleven only"])));
    assert_eq!(pair.completions(1, 1)[0].byte_len as usize, GRH + 11);
    let side = pair.side(0);
    side.control.destroy_ah(ah).expect("destroyed");
}

/// What is sent to a group reaches its members, on the sender's function too, and
/// nobody else.
pub fn groups(pair: &mut Pair<impl Platform>) {
    let group: IpAddr = match pair.setup().ipv6 {
        true => "ff05::1:e810".parse().expect("an address"),
        false => "239.8.10.1".parse().expect("an address"),
    };
    let gids: Vec<u8> = pair.sides.iter().map(|side| side.gid).collect();
    let members = [B, End { side: 1, qp: 1 }, End { side: 0, qp: 1 }];
    for end in members {
        let side = pair.side(end.side);
        for _ in 0..2 {
            let attached = side
                .control
                .attach_mcast(&side.qps[end.qp], gids[end.side], group);
            attached.expect("attached; a second time changes nothing");
        }
    }
    let side = pair.side(0);
    let path = Path::to_group(gids[0], group);
    let ah = side.control.create_ah(&side.pd, &path).expect("a handle");
    let to = ah.target(Qpn::MULTICAST, QKEY);
    let everyone = [members.as_slice(), &[A]].concat();
    for (n, left) in (1..).zip([3, 2, 1, 0]) {
        for end in &everyone {
            receive(pair, *end, n, 64);
        }
        let op = Op::UdSend {
            data: Data::Inline(&[b"to all"]),
            imm: None,
            to,
        };
        // Completions of side 0 are the send's and, while it has a member, one
        // receive's.
        let request = super::signaled(0, op);
        pair.side(0).post_send(0, &[request]).expect("posted");
        pair.until("the send", |pair| {
            pair.side(0).done.iter().any(|done| done.wc.wr_id == 0)
        });
        // All that are to come, however slow the machine is; then time for more.
        pair.until("a receive of each member", |pair| {
            let done = pair.sides.iter().flat_map(|side| &side.done);
            done.filter(|done| done.wc.opcode == WcOpcode::Recv).count() >= left
        });
        pair.during(Ns::from_ms(5));
        let mut got = 0;
        for end in &everyone {
            let number = pair.number(*end);
            let wcs = pair.side(end.side).take_of(number);
            let received = wcs.iter().filter(|wc| wc.opcode == WcOpcode::Recv);
            got += received
                .inspect(|wc| assert_eq!((wc.status, wc.byte_len), (WcStatus::Success, 46)))
                .count();
        }
        assert_eq!(got, left, "members left");
        if let Some(end) = members.get(3 - left) {
            let side = pair.side(end.side);
            let detached = side
                .control
                .detach_mcast(&side.qps[end.qp], gids[end.side], group);
            detached.expect("detached");
        }
    }
    let side = pair.side(1);
    let again = side.control.detach_mcast(&side.qps[0], gids[1], group);
    assert!(matches!(again, Err(e810::Error::NoSuch { .. })));
    let side = pair.side(0);
    side.control.destroy_ah(ah).expect("destroyed");
    for end in everyone {
        pair.renew(end);
    }
}

/// A send that fails takes the queue pair to SQE: its sends are flushed, its
/// receives stay, and only ERR or RESET follow.
pub fn a_failed_send(pair: &mut Pair<impl Platform>) {
    let side = pair.side(0);
    let other = side.control.alloc_pd().expect("a PD");
    let path = Path::new(side.gid, side.ip(), side.control.lan().mac);
    // Another protection domain's handle.
    let ah = side.control.create_ah(&other, &path).expect("a handle");
    receive(pair, A, 7, 64);
    let to = UdTarget {
        ah: ah.number(),
        qpn: 1,
        qkey: QKEY,
    };
    let op = |data| Op::UdSend {
        data,
        imm: None,
        to,
    };
    let data = Data::Inline(&[b"from elsewhere"]);
    let list = [1, 2].map(|wr_id| super::signaled(wr_id, op(data)));
    pair.side(0).post_send(0, &list).expect("posted");
    ends(pair, WcStatus::LocQpOpErr);
    assert_eq!(pair.side(0).qps[0].state(), e810::QpState::Sqe);
    nothing_comes(pair, 0);
    let side = pair.side(0);
    let back = QpAttr {
        state: Some(e810::QpState::Rts),
        ..QpAttr::default()
    };
    let refused = side.control.modify_qp(&mut side.qps[0], &back);
    assert_eq!(refused, Err(Unsupported::SqeRecovery.into()));
    side.control
        .modify_qp(&mut side.qps[0], &QpAttr::to_error())
        .expect("to ERR");
    let wc = pair.completions(0, 1)[0];
    assert_eq!((wc.wr_id, wc.status), (7, WcStatus::WrFlushErr));
    let side = pair.side(0);
    side.control.destroy_ah(ah).expect("destroyed");
    side.control.dealloc_pd(other).expect("given back");
    side.reported.clear();
    pair.renew(A);
}

/// Both sends: the first with this status, the second flushed.
fn ends(pair: &mut Pair<impl Platform>, status: WcStatus) {
    let wcs = pair.completions(0, 2);
    let reported: Vec<_> = wcs.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(reported, [(1, status), (2, WcStatus::WrFlushErr)]);
}

/// A datagram is one packet: one that is longer fails where it is sent.
pub fn longer_than_a_packet(pair: &mut Pair<impl Platform>) {
    let path = path(pair, 0, 1);
    let qpn = Qpn::new(pair.number(B)).expect("24 bits");
    let side = pair.side(0);
    let port = side.control.query_port(1).expect("port 1");
    let mtu = port.active_mtu.expect("an MTU").bytes() as usize;
    let ah = side.control.create_ah(&side.pd, &path).expect("a handle");
    let to = ah.target(qpn, QKEY);
    let long = [side.sge(0, mtu + 1)];
    let data = Data::Sges(&long);
    let imm = None;
    let list = [1, 2].map(|wr_id| super::signaled(wr_id, Op::UdSend { data, imm, to }));
    side.post_send(0, &list).expect("posted");
    ends(pair, WcStatus::LocLenErr);
    nothing_comes(pair, 1);
    let side = pair.side(0);
    side.control.destroy_ah(ah).expect("destroyed");
    side.reported.clear();
    pair.renew(A);
}

/// Two queue pairs a side, for groups.
#[must_use]
pub fn setup() -> Setup {
    Setup {
        qp_type: e810::QpType::Ud,
        queue_pairs: 2,
        ..Setup::default()
    }
}
