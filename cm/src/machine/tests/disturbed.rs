//! Who sends what it likes: slots come back, and connections of others stay.

use core::net::IpAddr;
use std::vec::Vec;

use super::super::*;
use super::rig::{PORT, accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, IpHeader, PortSpace};
use crate::{Drep, Dreq, Header, Message, Mra, Rep, Req, Rtu, SidrReq};

const PEER: u64 = 0xB;
const PEER_ID: u32 = 0x5050_0001;
const PEER_QP: u32 = 77;

fn from(address: [u8; 4]) -> Origin {
    Origin {
        remote: ip::gid(IpAddr::from(address)),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    }
}

/// Where the peer's datagrams come from.
fn peer() -> Origin {
    from([10, 0, 0, 1])
}

struct Bench {
    machine: Machine<'static>,
    now: Ns,
}

impl Bench {
    fn new(slots: usize) -> Self {
        Self {
            machine: machine(slots, Config::new(0xA), 1),
            now: Ns::from_secs(1),
        }
    }

    fn listening(slots: usize, space: PortSpace) -> (Self, ListenerId) {
        let mut bench = Self::new(slots);
        let listener = listen(&mut bench.machine, space);
        (bench, listener)
    }

    fn take_from(&mut self, message: impl Into<Message>, origin: &Origin) {
        let header = Header {
            tid: 0x1234,
            attr_mod: 0,
        };
        let mad = message.into().encode(header);
        self.machine.receive(&mad, origin, self.now);
    }

    fn take(&mut self, message: impl Into<Message>) {
        self.take_from(message, &peer());
    }

    fn sent(&mut self) -> Vec<Message> {
        let mut mad = [0; 256];
        let mut all = Vec::new();
        while self.machine.transmit(self.now, &mut mad).is_some() {
            all.push(Message::decode(&mad).unwrap().1);
        }
        all
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.machine.event()).collect()
    }

    /// Time passes, and what is due is sent.
    fn pass(&mut self, time: Ns) {
        let end = self.now + time;
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            while self.machine.poll(self.now) {}
            self.sent();
        }
        self.now = end;
    }

    /// The last request of the peer, told to the program.
    fn told(&mut self) -> ConnectionId {
        let (id, _) = self.machine.unreached(0).unwrap();
        self.machine.reached(id, self.now).unwrap();
        let events = self.events();
        assert!(
            matches!(events[..], [Event::Requested { id: told, .. }] if told == id),
            "{events:?}"
        );
        id
    }

    /// The passive side, connected.
    fn passive(&mut self, asked: Req) -> ConnectionId {
        self.take(asked);
        let id = self.told();
        self.machine.accept(id, &accept_with(43)).unwrap();
        assert!(matches!(self.sent()[..], [Message::Rep(_)]));
        self.take(Rtu {
            local_comm_id: asked.local_comm_id,
            remote_comm_id: id.number(),
            ..Rtu::default()
        });
        assert_eq!(self.events(), [Event::Established(id)]);
        id
    }
}

/// The n-th request of the peer, as Linux writes it.
fn req(n: u32) -> Req {
    let mut private_data = [0; 92];
    let header = IpHeader {
        port: 40_000,
        source: own_address(0),
        destination: own_address(1),
    };
    private_data[..ip::HEADER].copy_from_slice(&header.encode());
    Req {
        local_comm_id: PEER_ID + n,
        service_id: PortSpace::Tcp.service_id(PORT),
        local_ca_guid: PEER,
        local_qpn: PEER_QP + n,
        remote_cm_response_timeout: 20,
        local_cm_response_timeout: 20,
        retry_count: 7,
        partition_key: 0xFFFF,
        path_packet_payload_mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        primary_local_port_lid: 0xFFFF,
        primary_remote_port_lid: 0xFFFF,
        primary_local_port_gid: ip::gid(own_address(0)),
        primary_remote_port_gid: ip::gid(own_address(1)),
        primary_hop_limit: 64,
        primary_local_ack_timeout: 17,
        private_data,
        ..Req::default()
    }
}

/// The n-th question of the peer.
fn question(n: u32) -> SidrReq {
    let mut private_data = [0; 216];
    private_data[..ip::HEADER].copy_from_slice(&req(0).private_data[..ip::HEADER]);
    SidrReq {
        request_id: 0x6000 + n,
        partition_key: 0xFFFF,
        service_id: PortSpace::Udp.service_id(PORT),
        private_data,
    }
}

/// `unlisten` refuses requests that no program has heard of. Nobody has their names (they are not
/// unreached any more, and no event tells them), so nobody can release them.
#[test]
fn an_end_of_a_listener_gives_unreached_requests_back() {
    let (mut bench, listener) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    assert_eq!(bench.machine.unreached_len(), 1);
    bench.machine.unlisten(listener);
    let sent = bench.sent();
    assert!(matches!(sent[..], [Message::Rej(rej)] if rej.reason == 28));
    assert_eq!(bench.machine.unreached_len(), 0);
    bench.pass(Ns::from_secs(3600));
    assert_eq!(bench.events(), []);
    assert_eq!(bench.machine.free_slots(), 8, "never given back");
}

/// The same with questions about UD QPs.
#[test]
fn an_end_of_a_listener_gives_unreached_questions_back() {
    let (mut bench, listener) = Bench::listening(8, PortSpace::Udp);
    bench.take(question(0));
    bench.machine.unlisten(listener);
    assert!(matches!(bench.sent()[..], [Message::SidrRep(rep)] if rep.status == 2));
    assert_eq!(
        (bench.events(), bench.machine.free_slots()),
        (Vec::new(), 8)
    );
}

/// A request waits in the events; its listener ends, and another begins in the same place. The
/// request is refused already, and was never one of the new listener.
#[test]
fn a_request_is_not_told_of_another_listener() {
    let (mut bench, listener) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    let (id, _) = bench.machine.unreached(0).unwrap();
    bench.machine.reached(id, bench.now).unwrap();
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
    let (mut bench, listener) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    let id = bench.told();
    bench.machine.unlisten(listener);
    assert_eq!(bench.machine.accept(id, &accept_with(43)), Ok(()));
}

/// cm-path 6.3 row 7: a REQ is for RC, and the listener of a UDP port is for UD.
#[test]
fn a_connection_with_a_listener_of_datagrams_is_refused() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Udp);
    bench.take(Req {
        service_id: PortSpace::Udp.service_id(PORT),
        ..req(0)
    });
    let sent = bench.sent();
    assert!(
        matches!(sent[..], [Message::Rej(rej)] if rej.reason == 28),
        "{sent:?}"
    );
    assert_eq!(bench.machine.free_slots(), 8);
}

/// cm-path 4.2: a duplicate REQ in REQ_RCVD is answered with nothing; the MRA is for a request that
/// the program was told of. Here a request that may give way, or be ignored "as if it had not
/// arrived: its sender repeats it", silences its sender for 66 s.
#[test]
fn an_unreached_request_again_is_not_answered() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    bench.take(req(0));
    assert_eq!(bench.sent(), [], "an MRA, with a wait of 65.5 s");
}

/// The same as a sender of the other side sees it: it asks again after 4.6 s, its request gives way
/// to an invented one, and then it waits for a minute, while Linux' listener hears of it each 4.6 s.
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
    server.take_from(req(9), &from([11, 1, 2, 3]));
    assert_eq!(server.machine.counters().gave_way, 1);
    let next = client
        .machine
        .deadline()
        .map_or(Ns::ZERO, |at| at - client.now);
    assert!(next <= Ns::from_ms(4608), "the next REQ comes in {next:?}");
}

/// Linux finds the connection of an MRA about a REP by both ids (`cm_acquire_mraed_id`), as cm-path
/// 2.3 says: "the CM matches by communication ids". Only one about a REQ has the own id alone.
#[test]
fn an_mra_of_a_rep_has_both_ids() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    let id = bench.told();
    bench.machine.accept(id, &accept_with(43)).unwrap();
    bench.sent();
    bench.take(Mra {
        local_comm_id: 0xBAD,
        remote_comm_id: id.number(),
        message_mraed: 1,
        service_timeout: 24,
        ..Mra::default()
    });
    assert_eq!(bench.machine.state(id), Some(State::RepSent));
}

/// cm-path 4.1: an MRA counts in REQ_SENT only, so one lengthens the wait once. Here each begins the
/// wait anew, and no repeat is used up: the program is never told.
#[test]
fn mras_do_not_keep_a_request_for_ever() {
    let mut bench = Bench::new(8);
    let id = bench.machine.connect(&connect_to(1, 0, 42)).unwrap();
    bench.sent();
    for _ in 0..24 * 60 {
        bench.take(Mra {
            local_comm_id: PEER_ID,
            remote_comm_id: id.number(),
            service_timeout: 24,
            ..Mra::default()
        });
        bench.pass(Ns::from_secs(60));
    }
    assert_eq!(bench.events(), [Event::Unreachable(id)], "after a day");
}

/// The same with a reply, whose slot and queue pair the peer keeps.
#[test]
fn mras_do_not_keep_a_reply_for_ever() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    let id = bench.told();
    bench.machine.accept(id, &accept_with(43)).unwrap();
    bench.sent();
    for _ in 0..24 * 60 {
        bench.take(Mra {
            local_comm_id: PEER_ID,
            remote_comm_id: id.number(),
            message_mraed: 1,
            service_timeout: 24,
            ..Mra::default()
        });
        bench.pass(Ns::from_secs(60));
    }
    assert_eq!(bench.events(), [Event::Unreachable(id)], "after a day");
}

/// `news`: "each happens once at most". rdma_cm tells DISCONNECTED once for DREQ and DREP together.
#[test]
fn an_end_is_told_once() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    let id = bench.passive(req(0));
    bench.take(Dreq {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        remote_qpn_eecn: 43,
        ..Dreq::default()
    });
    assert_eq!(bench.events(), [Event::Disconnected(id)]);
    bench.take(Drep {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        ..Drep::default()
    });
    assert_eq!(bench.machine.state(id), Some(State::TimeWait));
    assert_eq!(bench.events(), [], "told before");
}

/// Answers to strangers go before everything else, so who sends one datagram for each that is sent
/// holds all messages of connections back.
#[test]
fn answers_to_strangers_hold_no_connection_back() {
    let mut bench = Bench::new(8);
    bench.machine.connect(&connect_to(1, 0, 42)).unwrap();
    let mut mad = [0; 256];
    for n in 0..1000 {
        // Nobody listens: each is answered with a REJ.
        bench.take_from(req(n), &from([11, 0, 0, 1]));
        bench.machine.transmit(bench.now, &mut mad).unwrap();
        if matches!(Message::decode(&mad), Ok((_, Message::Req(_)))) {
            return;
        }
    }
    panic!("1000 datagrams were sent, and the REQ is none of them");
}

/// A quarter of all slots is for invented requests; when the other slots are in use, a program's
/// own connection does not get one of them, though each of them gives way to a stranger.
#[test]
fn unreached_requests_give_way_to_a_connection_of_our_own() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    for qpn in 0..6 {
        bench.machine.connect(&connect_to(1, 0, qpn)).unwrap();
    }
    for n in 0..2 {
        bench.take_from(req(n), &from([11, 0, 0, n as u8]));
    }
    assert_eq!(bench.machine.unreached_len(), 2);
    let made = bench.machine.connect(&connect_to(1, 0, 6));
    assert!(made.is_ok(), "{made:?}");
}

/// The request that gives way has an MRA to send, so its slot is not free yet: the new request is
/// dropped as well.
#[test]
fn of_two_requests_one_stays() {
    let (mut bench, _) = Bench::listening(1, PortSpace::Tcp);
    bench.take(req(0));
    bench.take(req(0));
    bench.take_from(req(1), &from([11, 0, 0, 1]));
    let counters = bench.machine.counters();
    let found = (bench.machine.unreached_len(), counters.no_slot);
    assert_eq!(found, (1, 0), "{} gave way", counters.gave_way);
}

/// The peer says how long a slot stays in TIMEWAIT, up to 2.3 hours; in Linux this costs memory,
/// here the slots run out, for everybody. (The wait after an MRA is at most an hour.)
#[test]
fn a_peer_does_not_keep_slots_for_hours() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    for n in 0..8 {
        let asked = Req {
            primary_local_ack_timeout: 31,
            ..req(n)
        };
        let id = bench.passive(asked);
        bench.take(Dreq {
            local_comm_id: asked.local_comm_id,
            remote_comm_id: id.number(),
            remote_qpn_eecn: 43,
            ..Dreq::default()
        });
        assert_eq!(bench.events(), [Event::Disconnected(id)]);
        bench.machine.disconnect(id, bench.now).unwrap();
        bench.sent();
        bench.machine.release(id, bench.now).unwrap();
    }
    bench.pass(Ns::from_secs(3600));
    let made = bench.machine.connect(&connect_to(1, 0, 6));
    assert!(made.is_ok(), "an hour later: {made:?}");
}

/// cm-path 1.3 row 4: a REQ whose sender's neighbour does not answer never reaches the tables. Here
/// an invented one, of which nobody knows anything yet, has the peer's GUID and queue pair, and
/// the peer's own request is refused as stale.
#[test]
fn an_invented_request_does_not_make_the_peers_stale() {
    let (mut bench, _) = Bench::listening(64, PortSpace::Tcp);
    let invented = Req {
        local_comm_id: 0xBAD,
        ..req(0)
    };
    bench.take_from(invented, &from([11, 0, 0, 1]));
    bench.take(req(0));
    let sent = bench.sent();
    assert!(
        !sent
            .iter()
            .any(|message| matches!(message, Message::Rej(rej) if rej.reason == 10)),
        "REJ 10 to the peer"
    );
    let mut places = 0..bench.machine.unreached_len();
    assert!(places.any(|place| bench.machine.unreached(place).unwrap().1 == peer()));
}

/// The same with the peer's GUID and id: the peer's own request is taken for a duplicate.
#[test]
fn an_invented_request_does_not_make_the_peers_a_duplicate() {
    let (mut bench, _) = Bench::listening(64, PortSpace::Tcp);
    let invented = Req {
        local_qpn: 0xBAD,
        ..req(0)
    };
    bench.take_from(invented, &from([11, 0, 0, 1]));
    bench.take(req(0));
    let mut places = 0..bench.machine.unreached_len();
    assert!(places.any(|place| bench.machine.unreached(place).unwrap().1 == peer()));
}

/// The same against a connection of our own: the reply of the peer is refused as stale.
#[test]
fn an_invented_request_does_not_make_a_reply_stale() {
    let (mut bench, _) = Bench::listening(64, PortSpace::Tcp);
    let id = bench.machine.connect(&connect_to(1, 0, 42)).unwrap();
    bench.sent();
    let invented = Req {
        local_comm_id: 0xBAD,
        ..req(0)
    };
    bench.take_from(invented, &from([11, 0, 0, 1]));
    bench.take(Rep {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        local_qpn: PEER_QP,
        local_ca_guid: PEER,
        ..Rep::default()
    });
    assert_eq!(bench.events(), [Event::Accepted(id)]);
}

/// The same against a connection that stands: it ends before anybody knows of the sender.
#[test]
fn an_invented_request_ends_no_connection() {
    let (mut bench, _) = Bench::listening(64, PortSpace::Tcp);
    let id = bench.passive(req(0));
    let invented = Req {
        local_comm_id: 0xBAD,
        ..req(0)
    };
    bench.take_from(invented, &from([11, 0, 0, 1]));
    assert_eq!(bench.machine.state(id), Some(State::Established));
}

/// cm-path 1.3: the REP, the DREQ and all later messages go to the REQ's PRIMARY_LOCAL_PORT_GID,
/// not to the packet's source, with the REQ's flow label and traffic class.
#[test]
fn the_messages_of_a_connection_take_the_path_of_the_req() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    let there = ip::gid(IpAddr::from([10, 0, 0, 77]));
    bench.take(Req {
        primary_local_port_gid: there,
        primary_flow_label: 0x1_2345,
        primary_traffic_class: 0x20,
        ..req(0)
    });
    let id = bench.told();
    bench.machine.accept(id, &accept_with(43)).unwrap();
    let mut mad = [0; 256];
    let to = bench.machine.transmit(bench.now, &mut mad).unwrap().origin;
    let found = (to.remote, to.flow_label, to.traffic_class);
    assert_eq!(found, (there, 0x1_2345, 0x20));
}

/// cm-path 1.3: PARTITION_KEY is in the port's table (0xFFFF alone), the GIDs are of one family;
/// else REJ 12.
#[test]
fn a_path_that_cannot_be_used_is_refused() {
    let partition = Req {
        partition_key: 0x1234,
        ..req(0)
    };
    let family = Req {
        primary_local_port_gid: ip::gid("fd00::1".parse().unwrap()),
        ..req(0)
    };
    let refused = [partition, family].map(|asked| {
        let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
        bench.take(asked);
        matches!(bench.sent()[..], [Message::Rej(rej)] if rej.reason == 12)
    });
    assert_eq!(refused, [true, true]);
}

/// cm-path 6.3 row 4, "zero": Linux' check (`ipv4_is_zeronet`) is for all of 0.0.0.0/8.
#[test]
fn an_address_of_network_zero_is_refused() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    let mut asked = req(0);
    asked.private_data[16..20].copy_from_slice(&[0, 1, 2, 3]);
    bench.take(asked);
    let sent = bench.sent();
    assert!(matches!(sent[..], [Message::Rej(rej)] if rej.reason == 28));
}

/// All questions of a source are known by queue pair 0: one chain, as long as the backlog.
#[test]
fn chains_are_short() {
    let (mut bench, _) = Bench::listening(2048, PortSpace::Udp);
    for n in 0..900 {
        bench.take(question(n));
        bench.told();
    }
    let machine = &bench.machine;
    let length = |first: u32| {
        let next = |at: &u32| machine.slot(*at).map(|slot| slot.next_by_qp);
        std::iter::successors(Some(first), next).count() - 1
    };
    let longest = machine.by_qp.iter().map(|first| length(*first)).max();
    assert!(longest < Some(32), "{longest:?} in a chain");
}

/// cm-path 5.1: the RTU has the tid of the own REQ. A DREQ that comes before the RTU is sent leaves
/// its own.
#[test]
fn an_rtu_has_the_tid_of_its_req() {
    let mut bench = Bench::new(8);
    let id = bench.machine.connect(&connect_to(1, 0, 42)).unwrap();
    bench.sent();
    bench.take(Rep {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        local_qpn: PEER_QP,
        local_ca_guid: PEER,
        ..Rep::default()
    });
    bench.machine.ready(id).unwrap();
    bench.take(Dreq {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        remote_qpn_eecn: 42,
        ..Dreq::default()
    });
    let mut mad = [0; 256];
    while bench.machine.transmit(bench.now, &mut mad).is_some() {
        let (header, message) = Message::decode(&mad).unwrap();
        if let Message::Rtu(_) = message {
            assert_eq!(header.tid, u64::from(id.number()));
        }
    }
}

/// "Those without a name count as 0".
#[test]
fn a_reason_without_a_name_counts_as_0() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    bench.take(req(0));
    let id = bench.told();
    bench.machine.reject(id, crate::Reason(34), &[]).unwrap();
    assert_eq!(bench.machine.counters().rejected[0], 1);
}

/// Invented requests have a quarter of the slots. One that came twice has an MRA to send: when it
/// gives way, its slot stays in use until something is sent (queue pair 1 has no room meanwhile, or
/// answers to strangers go before), and the next one takes another slot: in the end all.
#[test]
fn invented_requests_have_a_quarter_of_the_slots() {
    const SLOTS: usize = 64;
    let (mut bench, _) = Bench::listening(SLOTS, PortSpace::Tcp);
    for n in 0..200 {
        let origin = from([11, 0, 0, n as u8]);
        bench.take_from(req(n), &origin);
        bench.take_from(req(n), &origin);
    }
    let used = SLOTS - bench.machine.free_slots();
    let unreached = bench.machine.unreached_len();
    assert!(used <= SLOTS / 4, "{used} slots for {unreached} requests");
}

/// The peer says how often the other side repeats its DREQ: 16 times in 37 hours, for which the
/// program's slot is in use though the program has gone.
#[test]
fn a_peer_that_does_not_answer_keeps_no_slots_for_hours() {
    let (mut bench, _) = Bench::listening(8, PortSpace::Tcp);
    for n in 0..8 {
        let id = bench.passive(Req {
            local_cm_response_timeout: 31,
            ..req(n)
        });
        bench.machine.release(id, bench.now).unwrap();
        bench.sent();
    }
    bench.pass(Ns::from_secs(24 * 3600));
    assert_eq!(bench.machine.free_slots(), 8, "a day later");
}
