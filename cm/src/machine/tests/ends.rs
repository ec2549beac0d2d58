//! Refusals and ends, by the tables of cm-path 3.11 and 4.3.

use super::super::*;
use super::bench::{
    ACTIVE_QP, Bench, Made, PASSIVE_QP, PEER, PEER_ID, PEER_QP, SLOTS, drep, dreq, mra, peer, rej,
    req, rtu,
};
use super::rig::{accept_with, connect_to};
use crate::ip::PortSpace;
use crate::{Dreq, Header, Message, Reason, Req};

/// What a REJ does in each state, and which connection it is of.
#[test]
fn rejections() {
    let other = Reason::CONSUMER_DEFINED;
    let stale = Reason::STALE_CONN;
    let all: [(Made, u8, Reason, State); 9] = [
        (Bench::req_sent, 0, other, State::Idle),
        (Bench::req_sent, 0, stale, State::TimeWait),
        (Bench::rep_received, 2, other, State::TimeWait),
        (Bench::active, 2, other, State::TimeWait),
        (Bench::requested, 2, other, State::Idle),
        (Bench::requested, 2, stale, State::TimeWait),
        (Bench::rep_sent, 1, other, State::Idle),
        (Bench::rep_sent, 1, stale, State::TimeWait),
        (Bench::passive, 2, other, State::TimeWait),
    ];
    for (make, about, reason, next) in all {
        let (mut bench, id) = make();
        let local = if about == 0 { 0 } else { PEER_ID };
        // Ids that do not belong together.
        bench.take(rej(local ^ 1, id.number() ^ 1, about, reason));
        assert_eq!(bench.events(), []);
        bench.take(rej(local, id.number(), about, reason));
        assert_eq!(bench.machine.state(id), Some(next), "{about} {reason}");
        assert_eq!(bench.events(), [Event::Rejected { id, reason }]);
        assert_eq!(bench.sent(), []);
        if next == State::TimeWait {
            bench.pass(512);
            assert_eq!(bench.events(), [Event::Over(id)]);
        }
        bench.release(id);
        assert_eq!(bench.machine.free_slots(), SLOTS);
    }
}

/// What was to be sent of a connection is not sent when the peer has refused it.
#[test]
fn nothing_is_sent_after_a_rejection() {
    let (mut bench, id) = Bench::requested();
    bench.machine.accept(id, &accept_with(PASSIVE_QP)).unwrap();
    let mut withdrawn = rej(PEER_ID, 0, 2, Reason::TIMEOUT);
    withdrawn.ari[..8].copy_from_slice(&PEER.to_be_bytes());
    bench.take(withdrawn);
    assert_eq!(bench.sent(), []);
    let reason = Reason::TIMEOUT;
    assert_eq!(bench.events(), [Event::Rejected { id, reason }]);
    bench.release(id);
    assert_eq!(bench.machine.free_slots(), SLOTS);
}

/// Both sides of a connection, with the queue pair of this one.
const SIDES: [(Made, u32); 2] = [(Bench::active, ACTIVE_QP), (Bench::passive, PASSIVE_QP)];

#[test]
fn an_end_of_ours() {
    for (make, qpn) in SIDES {
        let (mut bench, id) = make();
        bench.disconnect(id);
        let sent = bench.sent();
        assert!(
            matches!(sent[..], [Message::Dreq(dreq)] if dreq.remote_qpn_eecn == PEER_QP),
            "{sent:?}"
        );
        bench.take(drep(id));
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        // Its DREQ crossed ours.
        bench.take(dreq(id, qpn));
        let sent = bench.sent();
        assert!(matches!(sent[..], [Message::Drep(_)]), "{sent:?}");
        bench.pass(512);
        assert_eq!(bench.events(), [Event::Over(id)]);
        // A program that hears of the end only now.
        bench.disconnect(id);
        bench.assert_quiet();
    }
}

/// Both ask for the end, and neither has the other's answer: the queue pair is in ERROR already.
#[test]
fn ends_that_cross() {
    for (make, qpn) in SIDES {
        let (mut bench, id) = make();
        bench.disconnect(id);
        bench.sent();
        bench.take(dreq(id, qpn));
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        let sent = bench.sent();
        assert!(matches!(sent[..], [Message::Drep(_)]), "{sent:?}");
        assert_eq!(bench.pass(512), []);
        assert_eq!(bench.events(), [Event::Over(id)]);
    }
}

#[test]
fn an_end_of_the_peer() {
    for (make, qpn) in SIDES {
        let (mut bench, id) = make();
        bench.take(dreq(id, qpn + 1));
        bench.assert_quiet();
        bench.take(dreq(id, qpn));
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        assert_eq!(bench.machine.state(id), Some(State::DreqReceived));
        bench.take(dreq(id, qpn));
        bench.assert_quiet();
        bench.disconnect(id);
        let sent = bench.sent();
        assert!(matches!(sent[..], [Message::Drep(_)]), "{sent:?}");
        bench.take(dreq(id, qpn));
        assert!(matches!(bench.sent()[..], [Message::Drep(_)]));
        bench.pass(512);
        assert_eq!(bench.events(), [Event::Over(id)]);
        bench.take(dreq(id, qpn));
        assert!(
            matches!(bench.sent()[..], [Message::Drep(_)]),
            "until it is released"
        );
    }
}

#[test]
fn an_end_that_nobody_answers() {
    for (make, _) in SIDES {
        let (mut bench, id) = make();
        bench.disconnect(id);
        bench.sent();
        bench.pass(4608 * 17);
        assert_eq!(bench.events(), [Event::Disconnected(id), Event::Over(id)]);
    }
}

#[test]
fn a_program_that_goes() {
    for (make, qpn) in SIDES {
        let (mut bench, id) = make();
        bench.release(id);
        assert!(matches!(bench.sent()[..], [Message::Dreq(_)]));
        bench.take(dreq(id, qpn));
        assert!(matches!(bench.sent()[..], [Message::Drep(_)]));
        bench.pass(512);
        assert_eq!(bench.events(), []);
        assert_eq!(bench.machine.free_slots(), SLOTS);
    }
}

#[test]
fn who_has_gone_is_told_nothing() {
    let (mut bench, id) = Bench::rep_sent();
    bench.take(rtu(id));
    bench.release(id);
    assert_eq!(bench.events(), []);
    bench.sent();
    bench.take(drep(id));
    bench.pass(512);
    assert_eq!(
        (bench.events(), bench.machine.free_slots()),
        ([].into(), SLOTS)
    );
}

/// cm-path 4.2: the peer may end what its RTU has not completed.
#[test]
fn an_end_before_the_rtu() {
    for peer_takes_longer in [false, true] {
        let (mut bench, id) = Bench::rep_sent();
        if peer_takes_longer {
            bench.take(mra(id, 1));
        }
        bench.take(dreq(id, PASSIVE_QP));
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        assert_eq!(bench.pass(100_000), [], "no REP any more");
        bench.disconnect(id);
        assert!(matches!(bench.sent()[..], [Message::Drep(_)]));
    }
}

/// cm-path 5.1: each DREP has the tid of the DREQ that it answers.
#[test]
fn a_drep_has_the_tid_of_its_dreq() {
    let (mut bench, id) = Bench::passive();
    let mut answered = |tid, is_first: bool| {
        let header = Header { tid, attr_mod: 0 };
        let asked = dreq(id, PASSIVE_QP).encode(header);
        bench.machine.receive(&asked, &peer(), bench.now);
        if is_first {
            bench.disconnect(id);
        }
        let mut mad = [0; 256];
        let to = bench.machine.transmit(bench.now, &mut mad).unwrap();
        let (header, message) = Message::decode(&mad).unwrap();
        let Message::Drep(drep) = message else {
            panic!("{message:?}");
        };
        let ids = (drep.local_comm_id, drep.remote_comm_id);
        assert_eq!((ids, header.tid), ((id.number(), PEER_ID), tid));
        let found = to.connection.is_some();
        if is_first {
            bench.events();
            bench.release(id);
        }
        found
    };
    assert!(answered(5, true));
    assert!(answered(6, false), "in TIMEWAIT");
    bench.pass(512);
    assert_eq!(bench.machine.free_slots(), SLOTS);
    let asked = dreq(id, PASSIVE_QP).encode(Header {
        tid: 7,
        attr_mod: 0,
    });
    bench.machine.receive(&asked, &peer(), bench.now);
    let mut mad = [0; 256];
    let to = bench.machine.transmit(bench.now, &mut mad).unwrap();
    assert_eq!((to.connection, to.origin), (None, peer()));
    assert_eq!(Message::decode(&mad).unwrap().0.tid, 7);
}

/// cm-path 3.11: who gives a reply up says so, and waits.
#[test]
fn a_program_that_goes_before_the_rtu() {
    let (mut bench, id) = Bench::rep_sent();
    bench.release(id);
    let sent = bench.sent();
    let expected = rej(id.number(), PEER_ID, 2, Reason::CONSUMER_DEFINED);
    assert_eq!(sent, [Message::Rej(expected)]);
    assert_eq!(bench.machine.state(id), Some(State::TimeWait));
    bench.take(dreq(id, PASSIVE_QP));
    assert!(matches!(bench.sent()[..], [Message::Drep(_)]));
    assert_eq!(bench.pass(512), []);
    assert_eq!(bench.machine.free_slots(), SLOTS);
}

/// rdma_cm tells DISCONNECTED once for DREQ and DREP together.
#[test]
fn an_end_is_told_once() {
    let (mut bench, id) = Bench::passive();
    bench.take(dreq(id, PASSIVE_QP));
    assert_eq!(bench.events(), [Event::Disconnected(id)]);
    bench.take(drep(id));
    assert_eq!(bench.machine.state(id), Some(State::TimeWait));
    assert_eq!(bench.events(), [], "told before");
}

#[test]
fn an_end_of_what_is_not_known_is_answered() {
    let mut bench = Bench::new(SLOTS);
    bench.take(Dreq {
        local_comm_id: 5,
        remote_comm_id: 6,
        ..Dreq::default()
    });
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Drep(drep)] if (drep.local_comm_id, drep.remote_comm_id) == (6, 5)),
        "{sent:?}"
    );
    // While the reply waits for the program, nothing is answered.
    let (mut bench, id) = Bench::rep_received();
    bench.take(dreq(id, ACTIVE_QP));
    bench.assert_quiet();
}

/// The peer says how long a slot stays in TIMEWAIT, up to 2.3 hours, and how often the other side
/// repeats its DREQ: up to 16 times in 37 hours. Here the slots would run out, for everybody.
#[test]
fn a_peer_keeps_no_slots_for_hours() {
    let of_peer = |bench: &mut Bench, n: u32, id| {
        bench.take(Dreq {
            local_comm_id: PEER_ID + n,
            ..dreq(id, PASSIVE_QP)
        });
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        bench.disconnect(id);
        bench.sent();
        bench.release(id);
    };
    let of_ours = |bench: &mut Bench, _, id| {
        bench.release(id);
        bench.sent();
    };
    let ends: [fn(&mut Bench, u32, ConnectionId); 2] = [of_peer, of_ours];
    for end in ends {
        let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
        for n in 0..SLOTS as u32 {
            let id = bench.serve(Req {
                primary_local_ack_timeout: 31,
                local_cm_response_timeout: 31,
                ..req(n)
            });
            end(&mut bench, n, id);
        }
        bench.pass(3_600_000);
        assert_eq!(bench.machine.free_slots(), SLOTS, "an hour later");
    }
}

/// What has ended and is given up makes room when all slots are taken, what is owned does not.
#[test]
fn ended_connections_make_room() {
    let mut bench = Bench::new(4);
    let connect = |bench: &mut Bench, port| bench.machine.connect(&connect_to(0, 1, port));
    let all = [0, 1, 2, 3].map(|n| connect(&mut bench, n).unwrap());
    assert_eq!(bench.sent().len(), 4);
    assert_eq!(connect(&mut bench, 4), Err(Error::NoSlot { slots: 4 }));
    for (n, id) in all.iter().enumerate() {
        bench.take(rej(PEER_ID, id.number(), 0, Reason::STALE_CONN));
        assert_eq!(bench.machine.state(*id), Some(State::TimeWait), "{n}");
    }
    assert_eq!(bench.events().len(), 4);
    assert_eq!(connect(&mut bench, 4), Err(Error::NoSlot { slots: 4 }));
    for id in [all[1], all[3]] {
        bench.release(id);
    }
    let new = [4, 5].map(|n| connect(&mut bench, n).unwrap());
    assert_eq!(connect(&mut bench, 6), Err(Error::NoSlot { slots: 4 }));
    for id in [all[0], all[2], new[0], new[1]] {
        assert!(bench.machine.state(id).is_some());
    }
    bench.release(all[0]);
    connect(&mut bench, 6).unwrap();
}
