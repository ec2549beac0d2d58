//! Single messages in single states, by the tables of cm-path 3.11 and 4.

use std::vec::Vec;

use super::super::*;
use super::rig::{accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, PortSpace};
use crate::{Drep, Dreq, Header, Lap, Message, Mra, Reason, Rej, Rep, Req, Rtu, SidrRep, SidrReq};

const GUID: u64 = 0xA;
const PEER: u64 = 0xB;
const PEER_ID: u32 = 0x5050_0001;

/// A machine whose peer is the test.
struct Bench {
    machine: Machine<'static>,
    now: Ns,
}

/// A bench in some state.
type Made = fn() -> (Bench, ConnectionId);

fn origin() -> Origin {
    Origin {
        remote: ip::gid(own_address(0)),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    }
}

impl Bench {
    fn new() -> Self {
        Self {
            machine: machine(8, Config::new(GUID), 1),
            now: Ns::from_secs(1),
        }
    }

    fn take(&mut self, message: impl Into<Message>) {
        let mad = message.into().encode(Header {
            tid: 0x1234,
            attr_mod: 0,
        });
        self.machine.receive(&mad, &origin(), self.now);
    }

    fn sent(&mut self) -> Vec<Message> {
        let mut all = Vec::new();
        let mut mad = [0; 256];
        while self.machine.transmit(self.now, &mut mad).is_some() {
            all.push(Message::decode(&mad).unwrap().1);
        }
        all
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.machine.event()).collect()
    }

    /// Time passes; what is sent meanwhile, with the milliseconds when.
    fn pass(&mut self, ms: u64) -> Vec<(u64, Message)> {
        let (begin, end) = (self.now, self.now + Ns::from_ms(ms));
        let mut all = Vec::new();
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = at;
            while self.machine.poll(at) {}
            let ms = (at.0 - begin.0) / 1_000_000;
            all.extend(self.sent().into_iter().map(|message| (ms, message)));
        }
        self.now = end;
        all
    }

    /// The active side, its REQ sent.
    fn req_sent() -> (Self, ConnectionId, Req) {
        let mut bench = Self::new();
        let id = bench.machine.connect(&connect_to(1, 0, 42)).unwrap();
        let sent = bench.sent();
        let [Message::Req(req)] = sent[..] else {
            panic!("{sent:?}");
        };
        assert_eq!((req.local_comm_id, req.local_ca_guid), (id.number(), GUID));
        (bench, id, req)
    }

    fn asking() -> (Self, ConnectionId) {
        let (bench, id, _) = Self::req_sent();
        (bench, id)
    }

    fn rep_received() -> (Self, ConnectionId) {
        let (mut bench, id, _) = Self::req_sent();
        bench.take(rep(id));
        assert_eq!(bench.events(), [Event::Accepted(id)]);
        (bench, id)
    }

    fn active() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::rep_received();
        bench.machine.ready(id).unwrap();
        let sent = bench.sent();
        assert!(matches!(sent[..], [Message::Rtu(_)]), "{sent:?}");
        assert_eq!(bench.machine.state(id), Some(State::Established));
        (bench, id)
    }

    /// The passive side, with a request.
    fn requested() -> (Self, ConnectionId) {
        let mut bench = Self::new();
        listen(&mut bench.machine, PortSpace::Tcp);
        bench.take(req());
        assert_eq!(bench.events(), []);
        let (id, from) = bench.machine.unreached(0).unwrap();
        assert_eq!(from, origin());
        bench.machine.reached(id, bench.now).unwrap();
        let events = bench.events();
        assert!(
            matches!(events[..], [Event::Requested { id: told, .. }] if told == id),
            "{events:?}"
        );
        (bench, id)
    }

    fn rep_sent() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::requested();
        bench.machine.accept(id, &accept_with(43)).unwrap();
        let sent = bench.sent();
        let [Message::Rep(rep)] = sent[..] else {
            panic!("{sent:?}");
        };
        assert_eq!(
            (rep.local_comm_id, rep.remote_comm_id),
            (id.number(), PEER_ID)
        );
        (bench, id)
    }

    fn passive() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::rep_sent();
        bench.take(rtu(id));
        assert_eq!(bench.events(), [Event::Established(id)]);
        (bench, id)
    }
}

fn req() -> Req {
    let mut bench = Bench::new();
    bench.machine.connect(&connect_to(0, 1, 77)).unwrap();
    let sent = bench.sent();
    let [Message::Req(req)] = sent[..] else {
        panic!("{sent:?}");
    };
    Req {
        local_comm_id: PEER_ID,
        local_ca_guid: PEER,
        ..req
    }
}

fn rep(id: ConnectionId) -> Rep {
    Rep {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        local_qpn: 77,
        starting_psn: 9,
        local_ca_guid: PEER,
        ..Rep::default()
    }
}

fn rtu(id: ConnectionId) -> Rtu {
    Rtu {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        ..Rtu::default()
    }
}

fn dreq(id: ConnectionId, qpn: u32) -> Dreq {
    Dreq {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        remote_qpn_eecn: qpn,
        ..Dreq::default()
    }
}

fn rej(local: u32, remote: u32, about: u8, reason: Reason) -> Rej {
    Rej {
        local_comm_id: local,
        remote_comm_id: remote,
        message_rejected: about,
        reason: reason.0,
        ..Rej::default()
    }
}

#[test]
fn a_req_is_repeated_sixteen_times_and_given_up() {
    let (mut bench, id, req) = Bench::req_sent();
    let sent = bench.pass(100_000);
    let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
    let expected: Vec<u64> = (1..=15).map(|n| n * 4608).collect();
    assert_eq!(times, expected);
    assert!(
        sent.iter()
            .all(|(_, message)| *message == Message::Req(req))
    );
    assert_eq!(bench.events(), [Event::Unreachable(id)]);
    assert_eq!(bench.machine.state(id), Some(State::Idle));
    bench.machine.release(id, bench.now).unwrap();
    assert_eq!((bench.sent(), bench.machine.free_slots()), (Vec::new(), 8));
}

#[test]
fn an_mra_lengthens_one_wait() {
    let (mut bench, id, _) = Bench::req_sent();
    let mra = Mra {
        remote_comm_id: id.number(),
        service_timeout: 24,
        ..Mra::default()
    };
    bench.take(Mra {
        message_mraed: 1,
        ..mra
    });
    assert_eq!(bench.machine.state(id), Some(State::ReqSent), "of a REP");
    bench.take(mra);
    assert_eq!(bench.machine.state(id), Some(State::MraReqReceived));
    let sent = bench.pass(65_536 + 512 + 4608);
    let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [65_536 + 512, 65_536 + 512 + 4608]);
    bench.take(rep(id));
    assert_eq!(bench.events(), [Event::Accepted(id)]);
}

#[test]
fn a_rep_again() {
    let (mut bench, id) = Bench::rep_received();
    bench.take(rep(id));
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Mra(mra)] if mra.message_mraed == 1),
        "{sent:?}"
    );
    bench.machine.ready(id).unwrap();
    bench.sent();
    bench.take(rep(id));
    let sent = bench.sent();
    assert!(matches!(sent[..], [Message::Rtu(_)]), "{sent:?}");
    // Of another peer.
    bench.take(Rep {
        local_comm_id: 1,
        ..rep(id)
    });
    assert_eq!((bench.sent(), bench.events()), (Vec::new(), Vec::new()));
}

#[test]
fn a_rep_of_a_queue_pair_that_is_connected_is_stale() {
    let (mut bench, id) = Bench::active();
    let next = bench.machine.connect(&connect_to(1, 0, 44)).unwrap();
    bench.sent();
    bench.take(Rep {
        local_comm_id: 2,
        ..rep(next)
    });
    let sent = bench.sent();
    let [Message::Rej(rej), Message::Dreq(dreq)] = sent[..] else {
        panic!("{sent:?}");
    };
    let found = (rej.local_comm_id, rej.remote_comm_id, rej.message_rejected);
    assert_eq!(found, (next.number(), 2, 1));
    assert_eq!(rej.reason, Reason::STALE_CONN.0);
    assert_eq!(dreq.local_comm_id, id.number());
    assert_eq!(bench.machine.state(next), Some(State::ReqSent));
}

/// What a REJ does in each state, and which connection it is of.
#[test]
fn rejections() {
    let other = Reason::CONSUMER_DEFINED;
    let stale = Reason::STALE_CONN;
    let all: [(Made, u8, Reason, State); 9] = [
        (Bench::asking, 0, other, State::Idle),
        (Bench::asking, 0, stale, State::TimeWait),
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
        bench.machine.release(id, bench.now).unwrap();
        assert_eq!(bench.machine.free_slots(), 8);
    }
}

/// Who gives up tells its GUID and id; who has a request of it finds it by these.
#[test]
fn a_peer_that_gives_up_is_found_by_its_guid() {
    let (mut bench, id, _) = Bench::req_sent();
    bench.machine.release(id, bench.now).unwrap();
    let sent = bench.sent();
    let [Message::Rej(sent)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(sent.reason, Reason::TIMEOUT.0);
    assert_eq!((sent.rejected_info_length, sent.message_rejected), (8, 2));
    assert_eq!(sent.ari[..8], GUID.to_be_bytes());
    assert_eq!(sent.local_comm_id, id.number());
    assert_eq!(bench.machine.free_slots(), 8);

    let (mut bench, id) = Bench::requested();
    let mut rej = rej(PEER_ID, 0, 2, Reason::TIMEOUT);
    rej.ari[..8].copy_from_slice(&GUID.to_be_bytes());
    bench.take(rej);
    assert_eq!(bench.events(), [], "of another node");
    rej.ari[..8].copy_from_slice(&PEER.to_be_bytes());
    bench.take(rej);
    let reason = Reason::TIMEOUT;
    assert_eq!(bench.events(), [Event::Rejected { id, reason }]);
}

#[test]
fn a_request_again() {
    let (mut bench, id) = Bench::requested();
    bench.take(req());
    let sent = bench.sent();
    let [Message::Mra(mra)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((mra.message_mraed, mra.service_timeout), (0, 24));
    assert_eq!(
        (mra.local_comm_id, mra.remote_comm_id),
        (id.number(), PEER_ID)
    );
    bench.machine.accept(id, &accept_with(43)).unwrap();
    bench.sent();
    bench.take(req());
    assert_eq!((bench.sent(), bench.events()), (Vec::new(), Vec::new()));
    // A second one of the same queue pair, whose sender answers at its address.
    let again = Req {
        local_comm_id: 3,
        ..req()
    };
    bench.take(again);
    assert_eq!(bench.sent(), []);
    let (second, _) = bench.machine.unreached(0).unwrap();
    bench.machine.reached(second, bench.now).unwrap();
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Rej(rej)] if rej.reason == 10 && rej.remote_comm_id == 3),
        "{sent:?}"
    );
    assert_eq!(bench.machine.state(second), None);
    // While it is connected, the older one ends.
    bench.take(rtu(id));
    bench.take(again);
    let (second, _) = bench.machine.unreached(0).unwrap();
    bench.machine.reached(second, bench.now).unwrap();
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Rej(_), Message::Dreq(_)]),
        "{sent:?}"
    );
    assert_eq!(bench.machine.state(id), Some(State::DreqSent));
}

#[test]
fn a_rep_is_repeated_until_something_comes() {
    let (mut bench, id) = Bench::rep_sent();
    let sent = bench.pass(4096 * 2);
    assert_eq!(sent.len(), 2);
    bench.take(Mra {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        message_mraed: 1,
        service_timeout: 24,
        ..Mra::default()
    });
    assert_eq!(bench.machine.state(id), Some(State::MraRepReceived));
    bench.machine.data_arrived(id);
    assert_eq!(bench.events(), [Event::Established(id)]);
    bench.machine.data_arrived(id);
    bench.take(rtu(id));
    assert_eq!(
        (bench.events(), bench.pass(600_000)),
        (Vec::new(), Vec::new())
    );

    let (mut bench, id) = Bench::rep_sent();
    assert_eq!(bench.pass(4096 * 17).len(), 15);
    assert_eq!(bench.events(), [Event::Unreachable(id)]);
}

#[test]
fn ends() {
    for make in [Bench::active, Bench::passive] {
        // Ours.
        let (mut bench, id) = make();
        let qpn = bench.machine.queue_pairs(id).unwrap()[0];
        bench.machine.disconnect(id, bench.now).unwrap();
        let sent = bench.sent();
        assert!(
            matches!(sent[..], [Message::Dreq(dreq)] if dreq.remote_qpn_eecn == 77),
            "{sent:?}"
        );
        bench.take(Drep {
            local_comm_id: PEER_ID,
            remote_comm_id: id.number(),
            ..Drep::default()
        });
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        // Its DREQ crossed ours.
        bench.take(dreq(id, qpn));
        let sent = bench.sent();
        assert!(matches!(sent[..], [Message::Drep(_)]), "{sent:?}");
        bench.pass(512);
        assert_eq!(bench.events(), [Event::Over(id)]);

        // The peer's.
        let (mut bench, id) = make();
        bench.take(dreq(id, qpn + 1));
        assert_eq!((bench.sent(), bench.events()), (Vec::new(), Vec::new()));
        bench.take(dreq(id, qpn));
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        assert_eq!(bench.machine.state(id), Some(State::DreqReceived));
        bench.take(dreq(id, qpn));
        assert_eq!((bench.sent(), bench.events()), (Vec::new(), Vec::new()));
        bench.machine.disconnect(id, bench.now).unwrap();
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

        // Nobody answers.
        let (mut bench, id) = make();
        bench.machine.disconnect(id, bench.now).unwrap();
        bench.sent();
        bench.pass(4608 * 17);
        assert_eq!(bench.events(), [Event::Disconnected(id), Event::Over(id)]);

        // The program has gone.
        let (mut bench, id) = make();
        bench.machine.release(id, bench.now).unwrap();
        assert!(matches!(bench.sent()[..], [Message::Dreq(_)]));
        bench.take(dreq(id, qpn));
        assert!(matches!(bench.sent()[..], [Message::Drep(_)]));
        bench.pass(512);
        assert_eq!(
            (bench.events(), bench.machine.free_slots()),
            (Vec::new(), 8)
        );
    }
}

#[test]
fn an_end_of_what_is_not_known_is_answered() {
    let mut bench = Bench::new();
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
    bench.take(dreq(id, 42));
    assert_eq!((bench.sent(), bench.events()), (Vec::new(), Vec::new()));
}

/// Who is refused, and with which reason.
#[test]
fn requests_that_nobody_takes() {
    let private = |change: fn(&mut [u8; 92])| {
        let mut data = req().private_data;
        change(&mut data);
        Req {
            private_data: data,
            ..req()
        }
    };
    let refused = [
        (
            Req {
                service_id: 5,
                ..req()
            },
            8,
        ),
        (
            Req {
                service_id: PortSpace::Tcp.service_id(9),
                ..req()
            },
            8,
        ),
        (
            Req {
                service_id: PortSpace::Udp.service_id(super::rig::PORT),
                ..req()
            },
            8,
        ),
        (
            Req {
                transport_service_type: 1,
                ..req()
            },
            28,
        ),
        (private(|data| data[0] = 1), 28),
        (private(|data| data[1] = 0x50), 28),
        (
            private(|data| data[16..20].copy_from_slice(&[127, 0, 0, 1])),
            28,
        ),
        (
            private(|data| data[32..36].copy_from_slice(&[224, 0, 0, 1])),
            28,
        ),
        (private(|data| data[32..36].fill(0)), 28),
    ];
    for (asked, reason) in refused {
        let mut bench = Bench::new();
        listen(&mut bench.machine, PortSpace::Tcp);
        bench.take(Req {
            vendor_id: 0x00AB_CDEF,
            ..asked
        });
        let sent = bench.sent();
        let [Message::Rej(rej)] = sent[..] else {
            panic!("{sent:?}");
        };
        assert_eq!((rej.reason, rej.message_rejected), (reason, 0));
        // Linux' id of a REJ without a connection.
        assert_eq!(
            (rej.local_comm_id, rej.remote_comm_id),
            (0x00AB_CDEF, PEER_ID)
        );
        assert_eq!(bench.machine.free_slots(), 8);
        assert_eq!(bench.machine.counters().rejected[usize::from(reason)], 1);
    }
}

#[test]
fn a_listener_has_its_address_family_and_backlog() {
    let mut bench = Bench::new();
    let listen = |address: &str, only_family| Listen {
        space: PortSpace::Tcp,
        port: super::rig::PORT,
        address: address.parse().unwrap(),
        only_family,
        backlog: 1,
        context: 0,
    };
    let other = bench.machine.listen(listen("10.0.0.9", false)).unwrap();
    bench.take(req());
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 28));
    let v6 = bench.machine.listen(listen("::", true)).unwrap();
    bench.take(req());
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 28));
    let in_use = Err(Error::InUse {
        port: super::rig::PORT,
    });
    assert_eq!(bench.machine.listen(listen("0.0.0.0", false)), in_use);
    bench.machine.unlisten(other);
    assert_eq!(bench.machine.listen(listen("0.0.0.0", false)), in_use);
    bench.machine.unlisten(v6);
    let any = bench.machine.listen(listen("::", false)).unwrap();
    for qpn in [77, 78] {
        bench.take(Req {
            local_qpn: qpn,
            local_comm_id: PEER_ID + qpn,
            ..req()
        });
    }
    let [a, b] = [0, 1].map(|place| bench.machine.unreached(place).unwrap().0);
    bench.machine.reached(a, bench.now).unwrap();
    let events = bench.events();
    let told = Event::Requested {
        id: a,
        listener: any,
    };
    assert_eq!(events, [told]);
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
        ..req()
    });
    let (b, _) = bench.machine.unreached(0).unwrap();
    bench.machine.reached(b, bench.now).unwrap();
    // Who ends the listener refuses what waits.
    bench.machine.unlisten(any);
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 28));
    bench.take(Req {
        local_qpn: 79,
        ..req()
    });
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 8));
}

#[test]
fn questions_about_datagram_queue_pairs() {
    let mut bench = Bench::new();
    listen(&mut bench.machine, PortSpace::Udp);
    let mut asking = Bench::new();
    let connect = Connect {
        space: PortSpace::Udp,
        ..connect_to(0, 1, 0)
    };
    let id = asking.machine.connect(&connect).unwrap();
    let Message::SidrReq(question) = asking.sent()[0] else {
        panic!();
    };
    bench.take(question);
    let (there, _) = bench.machine.unreached(0).unwrap();
    bench.take(question);
    assert_eq!(
        (bench.sent(), bench.events()),
        (Vec::new(), Vec::new()),
        "again"
    );
    assert!(
        bench
            .machine
            .request(there)
            .unwrap()
            .private_data
            .starts_with(b"request")
    );
    bench.machine.reached(there, bench.now).unwrap();
    assert_eq!(bench.events().len(), 1);
    bench
        .machine
        .answer(there, Ok((99, 0x0123_4567)), b"yes")
        .unwrap();
    let Message::SidrRep(answer) = bench.sent()[0] else {
        panic!();
    };
    assert_eq!(
        (answer.status, answer.qpn, answer.q_key),
        (0, 99, 0x0123_4567)
    );
    bench.machine.release(there, bench.now).unwrap();
    assert_eq!(bench.machine.free_slots(), 8);
    asking.take(answer);
    assert_eq!(asking.events(), [Event::Accepted(id)]);
    let Some(Reply::Sidr(rep)) = asking.machine.reply(id) else {
        panic!();
    };
    assert!(rep.private_data.starts_with(b"yes"));

    // Nobody listens, and a program that refuses by going.
    bench.take(SidrReq {
        service_id: 7,
        ..question
    });
    assert!(matches!(
        bench.sent()[..],
        [Message::SidrRep(SidrRep { status: 1, .. })]
    ));
    bench.take(question);
    let (there, _) = bench.machine.unreached(0).unwrap();
    bench.machine.release(there, bench.now).unwrap();
    assert!(matches!(
        bench.sent()[..],
        [Message::SidrRep(SidrRep { status: 2, .. })]
    ));
    assert_eq!(bench.machine.free_slots(), 8);
    // Nobody answers.
    let mut asking = Bench::new();
    let id = asking.machine.connect(&connect).unwrap();
    asking.sent();
    assert_eq!(asking.pass(100_000).len(), 15);
    assert_eq!(asking.events(), [Event::Unreachable(id)]);
}

#[test]
fn alternate_paths_are_not_answered() {
    let (mut bench, id) = Bench::active();
    bench.take(Lap {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        ..Lap::default()
    });
    assert_eq!((bench.sent(), bench.events()), (Vec::new(), Vec::new()));
    assert_eq!(bench.machine.state(id), Some(State::Established));
}

#[test]
fn a_program_that_refuses() {
    let (mut bench, id) = Bench::requested();
    bench
        .machine
        .reject(id, Reason::CONSUMER_DEFINED, b"no")
        .unwrap();
    let sent = bench.sent();
    let [Message::Rej(rej)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((rej.reason, rej.message_rejected), (28, 0));
    assert_eq!(
        (rej.local_comm_id, rej.remote_comm_id),
        (id.number(), PEER_ID)
    );
    assert!(rej.private_data.starts_with(b"no"));
    bench.machine.release(id, bench.now).unwrap();
    assert_eq!(bench.machine.free_slots(), 8);
    let too_long = [0; 149];
    let (mut bench, id) = Bench::rep_received();
    let wrong = Error::PrivateData {
        given: 149,
        most: 148,
    };
    assert_eq!(
        bench.machine.reject(id, Reason::NO_RESOURCES, &too_long),
        Err(wrong)
    );
    bench.machine.reject(id, Reason::NO_RESOURCES, &[]).unwrap();
    assert!(matches!(bench.sent()[..], [Message::Rej(rej)] if rej.message_rejected == 1));
}

/// Both ends of a connection are of one function.
#[test]
fn a_function_connects_with_itself() {
    let mut machine = machine(8, Config::new(GUID), 5);
    listen(&mut machine, PortSpace::Tcp);
    let connect = Connect {
        destination: own_address(1),
        ..connect_to(1, 0, 10)
    };
    let id = machine.connect(&connect).unwrap();
    let own = Origin {
        remote: ip::gid(own_address(1)),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    };
    let (mut mad, mut peer, mut established) = ([0; 256], None, 0);
    loop {
        if let Some((id, _)) = machine.unreached(0) {
            machine.reached(id, Ns::ZERO).unwrap();
        }
        while let Some(event) = machine.event() {
            match event {
                Event::Requested { id, .. } => {
                    peer = Some(id);
                    machine.accept(id, &accept_with(11)).unwrap();
                }
                Event::Accepted(which) => {
                    assert_eq!(which, id);
                    machine.ready(id).unwrap();
                    established += 1;
                }
                Event::Established(which) => {
                    assert_eq!(Some(which), peer);
                    established += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        if machine.transmit(Ns::ZERO, &mut mad).is_none() {
            break;
        }
        machine.receive(&mad, &own, Ns::ZERO);
    }
    assert_eq!(established, 2);
    assert_eq!(machine.queue_pairs(id), Some([10, 11]));
    assert_eq!(machine.queue_pairs(peer.unwrap()), Some([11, 10]));
}
