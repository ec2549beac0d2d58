//! Who sends what it likes: slots come back, and connections of others stay.

use e810_types::Ns;

use super::super::*;
use super::bench::{
    ACTIVE_QP, Bench, PASSIVE_QP, PEER, PEER_ID, SLOTS, from, peer, rej, rep, req, stranger,
};
use super::rig::{accept_with, connect_to};
use crate::ip::PortSpace;
use crate::{Message, Reason, Req};

/// An unreached request may give way, or be ignored, as if it had not arrived. So a repeated one
/// is not answered with an MRA, for which its sender would wait 66 s.
#[test]
fn an_unreached_request_again_is_not_answered() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    bench.take(req(0));
    bench.take(req(0));
    assert_eq!(bench.sent(), [], "an MRA, with a wait of 65.5 s");
}

/// The same as a sender of the other side sees it: it asks again after 4.6 s, its request gives way
/// to an invented one, and it asks again after 4.6 s.
#[test]
fn a_sender_whose_request_gave_way_repeats_it() {
    let (mut server, _) = Bench::listening(1, PortSpace::Tcp);
    let mut client = Bench::new(1);
    client.machine.connect(&connect_to(0, 1, 5)).unwrap();
    for _ in 0..2 {
        let Some(Message::Req(asked)) = client.sent().pop() else {
            panic!("no REQ");
        };
        server.take(asked);
        client.now = client.now + Ns::from_ms(4608);
        while client.machine.poll(client.now) {}
    }
    for message in server.sent() {
        client.take(message);
    }
    server.take_from(req(9), &stranger(1));
    assert_eq!(server.machine.counters().gave_way, 1);
    let next = client
        .machine
        .deadline()
        .map_or(Ns::ZERO, |at| at - client.now);
    assert!(next <= Ns::from_ms(4608), "the next REQ comes in {next:?}");
}

/// A request that came twice gives way to another one at once.
#[test]
fn of_two_requests_one_stays() {
    let (mut bench, _) = Bench::listening(1, PortSpace::Tcp);
    bench.take(req(0));
    bench.take(req(0));
    bench.take_from(req(1), &stranger(1));
    let counters = bench.machine.counters();
    let found = (bench.machine.unreached_len(), counters.no_slot);
    assert_eq!(found, (1, 0), "{} gave way", counters.gave_way);
}

/// Invented requests have a quarter of the slots, those that came twice too, also while nothing is
/// sent.
#[test]
fn invented_requests_have_a_quarter_of_the_slots() {
    const SLOTS: usize = 64;
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    for n in 0..200 {
        bench.take_from(req(n), &stranger(n));
        bench.take_from(req(n), &stranger(n));
    }
    let used = SLOTS - bench.machine.free_slots();
    let unreached = bench.machine.unreached_len();
    assert!(used <= SLOTS / 4, "{used} slots for {unreached} requests");
}

/// Answers to strangers and messages of connections are sent in turn.
#[test]
fn answers_to_strangers_hold_no_connection_back() {
    let mut bench = Bench::new(SLOTS);
    bench.connect(ACTIVE_QP);
    let mut mad = [0; 256];
    for n in 0..1000 {
        // Nobody listens: each is answered with a REJ.
        bench.take_from(req(n), &stranger(1));
        bench.machine.transmit(bench.now, &mut mad).unwrap();
        if matches!(Message::decode(&mad), Ok((_, Message::Req(_)))) {
            return;
        }
    }
    panic!("1000 datagrams were sent, and the REQ is none of them");
}

/// Of answers to strangers there is room for 32; the others are dropped, and counted.
#[test]
fn answers_to_strangers_have_a_bound() {
    let mut bench = Bench::new(SLOTS);
    for round in 0..3 {
        for n in 0..40 {
            bench.take_from(req(n), &stranger(n));
        }
        let sent = bench.sent();
        let ids = sent.iter().map(|message| match message {
            Message::Rej(rej) => rej.remote_comm_id - PEER_ID,
            other => panic!("{other:?}"),
        });
        assert!(ids.eq(0..32), "{sent:?}");
        assert_eq!(bench.machine.counters().answers_dropped, 8 * (round + 1));
    }
}

/// When all other slots are in use, an invented request gives way to a connection of our own.
#[test]
fn unreached_requests_give_way_to_a_connection_of_our_own() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    for qpn in 0..6 {
        bench.connect(qpn);
    }
    for n in 0..2 {
        bench.take_from(req(n), &stranger(n));
    }
    assert_eq!(bench.machine.unreached_len(), 2);
    let made = bench.machine.connect(&connect_to(1, 0, 6));
    assert!(made.is_ok(), "{made:?}");
}

/// An invented request, of whose sender nobody knows anything, has the peer's GUID and its queue
/// pair or its id: the peer's own request is neither stale nor a duplicate.
#[test]
fn an_invented_request_does_not_hide_the_peers() {
    let other_id = Req {
        local_comm_id: 0xBAD,
        ..req(0)
    };
    let other_qp = Req {
        local_qpn: 0xBAD,
        ..req(0)
    };
    for invented in [other_id, other_qp] {
        let (mut bench, _) = Bench::listening(64, PortSpace::Tcp);
        bench.take_from(invented, &stranger(1));
        bench.take(req(0));
        assert_eq!(bench.sent(), []);
        let mut places = 0..bench.machine.unreached_len();
        assert!(places.any(|place| bench.machine.unreached(place).unwrap().1 == peer()));
    }
}

/// The same against a connection of our own, whose reply is not stale.
#[test]
fn an_invented_request_does_not_make_a_reply_stale() {
    let (mut bench, _) = Bench::listening(64, PortSpace::Tcp);
    let id = bench.connect(ACTIVE_QP);
    bench.sent();
    let invented = Req {
        local_comm_id: 0xBAD,
        ..req(0)
    };
    bench.take_from(invented, &stranger(1));
    bench.take(rep(id));
    assert_eq!(bench.events(), [Event::Accepted(id)]);
}

/// The same against a connection that stands, and does not end.
#[test]
fn an_invented_request_ends_no_connection() {
    let (mut bench, id) = Bench::passive();
    let invented = Req {
        local_comm_id: 0xBAD,
        ..req(0)
    };
    bench.take_from(invented, &stranger(1));
    assert_eq!(bench.machine.state(id), Some(State::Established));
}

/// Invented requests all have one GUID and one queue pair, or one GUID and one id: they are not in
/// one chain, or each datagram would be compared with all of them.
#[test]
fn invented_requests_are_in_short_chains() {
    const SLOTS: usize = 4096;
    let one_qp = |n| Req {
        local_qpn: 0xBAD,
        ..req(n)
    };
    let one_id = |n| Req {
        local_comm_id: 0xBAD,
        ..req(n)
    };
    let all: [fn(u32) -> Req; 2] = [one_qp, one_id];
    for invented in all {
        let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
        for n in 0..2000_u32 {
            let [_, _, high, low] = n.to_be_bytes();
            bench.take_from(invented(n), &from([11, 0, high, low]));
        }
        assert_eq!(bench.machine.unreached_len(), SLOTS / 4);
        let longest = bench.longest_chains();
        assert!(longest.iter().all(|length| *length < 32), "{longest:?}");
    }
}

/// Who gives up an unreached request of its own withdraws it; nobody else does. Otherwise its next
/// request of the same queue pair would be refused, once both are reached.
#[test]
fn an_unreached_request_is_withdrawn_by_its_sender() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    bench.take(req(0));
    let mut rej = rej(PEER_ID, 0, 2, Reason::TIMEOUT);
    rej.ari[..8].copy_from_slice(&PEER.to_be_bytes());
    bench.take_from(rej, &stranger(1));
    assert_eq!(bench.machine.unreached_len(), 1);
    bench.take(rej);
    bench.take(Req {
        local_comm_id: PEER_ID + 1,
        ..req(0)
    });
    bench.told();
    bench.assert_quiet();
    assert_eq!(bench.machine.free_slots(), SLOTS - 1);
}

/// One request came from two addresses that answer: it is told once.
#[test]
fn a_request_of_two_senders_is_told_once() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    bench.take(req(0));
    bench.take_from(req(0), &stranger(1));
    let [first, second] = [0, 1].map(|place| bench.machine.unreached(place).unwrap().0);
    assert_eq!(bench.told(), first);
    assert_eq!(bench.machine.reached(second, bench.now), Ok(()));
    bench.assert_quiet();
    assert_eq!(bench.machine.free_slots(), SLOTS - 1);
}

/// Nobody has looked whether it is a duplicate or its queue pair is in use.
#[test]
fn an_unreached_request_is_not_accepted() {
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    bench.take(req(0));
    let (id, _) = bench.machine.unreached(0).unwrap();
    let state = State::ReqReceived;
    let accepted = bench.machine.accept(id, &accept_with(PASSIVE_QP));
    assert_eq!(accepted, Err(Error::State { id, state }));
    assert_eq!(bench.told(), id);
}
