//! Listeners, and what becomes of requests when they end.

use core::net::IpAddr;

use super::super::*;
use super::bench::{Bench, PASSIVE_QP, PEER_ID, SLOTS, peer, question, req};
use super::rig::{PORT, accept_with};
use crate::ip::PortSpace;
use crate::{Message, Req};

#[test]
fn a_listener_has_its_address_family_and_backlog() {
    let mut bench = Bench::new(SLOTS);
    let listen = |address: &str, only_family| Listen {
        space: PortSpace::Tcp,
        port: PORT,
        address: address.parse().unwrap(),
        only_family,
        backlog: 1,
        context: 0,
    };
    let other = bench.machine.listen(listen("10.0.0.9", false)).unwrap();
    bench.take(req(0));
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 28));
    let v6 = bench.machine.listen(listen("::", true)).unwrap();
    bench.take(req(0));
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 28));
    let in_use = Err(Error::InUse { port: PORT });
    assert_eq!(bench.machine.listen(listen("0.0.0.0", false)), in_use);
    bench.machine.unlisten(other);
    assert_eq!(bench.machine.listen(listen("0.0.0.0", false)), in_use);
    bench.machine.unlisten(v6);
    let any = bench.machine.listen(listen("::", false)).unwrap();
    for qpn in [77, 78] {
        bench.take(Req {
            local_qpn: qpn,
            local_comm_id: PEER_ID + qpn,
            ..req(0)
        });
    }
    let [a, b] = [0, 1].map(|place| bench.machine.unreached(place).unwrap().0);
    let waiting = |bench: &Bench| {
        let mut shown = bench.machine.listeners();
        let only = shown.next().map(|shown| (shown.listen.port, shown.waiting));
        assert_eq!(shown.next(), None);
        only
    };
    assert_eq!(waiting(&bench), Some((PORT, 0)));
    bench.machine.reached(a, bench.now).unwrap();
    assert_eq!(waiting(&bench), Some((PORT, 1)));
    let of_request = bench.machine.request(a).and_then(|request| request.ip);
    assert_eq!(bench.machine.peer_port(a), Some(of_request.unwrap().port));
    let told = Event::Requested {
        id: a,
        listener: any,
    };
    assert_eq!(bench.events(), [told]);
    assert_eq!(
        bench.machine.reached(b, bench.now),
        Err(Error::Backlog { backlog: 1 })
    );
    assert_eq!(bench.machine.state(b), None, "its sender repeats it");
    bench.machine.accept(a, &accept_with(1)).unwrap();
    bench.sent();
    bench.take(Req {
        local_qpn: 78,
        local_comm_id: PEER_ID + 78,
        ..req(0)
    });
    bench.reached();
    // Who ends the listener refuses what waits.
    bench.machine.unlisten(any);
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 28));
    bench.take(Req {
        local_qpn: 79,
        ..req(0)
    });
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 8));
}

/// Nobody has the names of requests that no program has heard of, so nobody can release them: the
/// end of their listener refuses them and gives their slots back.
#[test]
fn an_end_of_a_listener_gives_unreached_requests_back() {
    for space in [PortSpace::Tcp, PortSpace::Udp] {
        let (mut bench, listener) = Bench::listening(SLOTS, space);
        match space {
            PortSpace::Udp => bench.take(question(0)),
            _ => bench.take(req(0)),
        }
        assert_eq!(bench.machine.unreached_len(), 1);
        bench.machine.unlisten(listener);
        match (space, &bench.sent()[..]) {
            (PortSpace::Udp, [Message::SidrRep(rep)]) => assert_eq!(rep.status, 2),
            (PortSpace::Tcp, [Message::Rej(rej)]) => assert_eq!(rej.reason, 28),
            (_, sent) => panic!("{sent:?}"),
        }
        let found = (bench.machine.unreached_len(), bench.machine.free_slots());
        assert_eq!(found, (0, SLOTS));
        assert_eq!(
            (bench.events(), bench.machine.deadline()),
            ([].into(), None)
        );
    }
}

/// A request waits in the events; its listener ends, and another begins in the same place. The
/// request is refused already, and was never one of the new listener.
#[test]
fn a_request_is_not_told_of_another_listener() {
    let (mut bench, listener) = Bench::listening(SLOTS, PortSpace::Tcp);
    bench.take(req(0));
    let id = bench.reached();
    bench.machine.unlisten(listener);
    let other = bench
        .machine
        .listen(Listen {
            space: PortSpace::Tcp,
            port: 99,
            address: IpAddr::from([0; 4]),
            only_family: false,
            backlog: 1,
            context: 0xDEAD,
        })
        .unwrap();
    for event in bench.events() {
        assert_ne!(
            event,
            Event::Requested {
                id,
                listener: other
            },
            "it asked for port 7174"
        );
    }
    let listen = bench.machine.request(id).and_then(|request| request.listen);
    assert_eq!(listen, None, "\"`None` when the listener is gone\"");
}

/// What a program has been told of is its own: in Linux the end of the listener does not touch a
/// request that the program has taken (the id of a request is no part of the listener).
#[test]
fn a_request_that_was_told_outlives_its_listener() {
    let (mut bench, listener) = Bench::listening(SLOTS, PortSpace::Tcp);
    bench.take(req(0));
    let id = bench.told();
    bench.machine.unlisten(listener);
    let accepted = bench.machine.accept(id, &accept_with(PASSIVE_QP));
    assert_eq!(accepted, Ok(()));
}

/// A refusal goes back to the sender of its request, whose neighbour is its way.
#[test]
fn an_unreached_request_is_refused_at_its_sender() {
    for space in [PortSpace::Tcp, PortSpace::Udp] {
        let (mut bench, listener) = Bench::listening(SLOTS, space);
        match space {
            PortSpace::Udp => bench.take(question(0)),
            _ => bench.take(req(0)),
        }
        bench.machine.unlisten(listener);
        let to = bench.machine.transmit(bench.now, &mut [0; 256]).unwrap();
        assert_eq!((to.origin, to.via), (peer(), peer().remote));
    }
}
