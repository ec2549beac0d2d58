//! One machine whose peer is the test: single messages in, and all that comes out.

use core::net::IpAddr;
use std::vec::Vec;

use e810_types::Ns;

use super::super::*;
use super::rig::{PORT, accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, IpHeader, PortSpace};
use crate::{Drep, Dreq, Header, Message, Mra, Reason, Rej, Rep, Req, Rtu, SidrReq};

pub(super) const SLOTS: usize = 8;
pub(super) const GUID: u64 = 0xA;
pub(super) const PEER: u64 = 0xB;
pub(super) const PEER_ID: u32 = 0x5050_0001;
pub(super) const PEER_QP: u32 = 77;
/// The queue pair that the machine connects with, and the one that it accepts with.
pub(super) const ACTIVE_QP: u32 = 42;
pub(super) const PASSIVE_QP: u32 = 43;
pub(super) const TID: u64 = 0x1234;

/// A machine whose peer is the test.
pub(super) struct Bench {
    pub(super) machine: Machine<'static>,
    pub(super) now: Ns,
}

/// A bench with a connection in some state.
pub(super) type Made = fn() -> (Bench, ConnectionId);

/// A datagram from an address comes from here.
pub(super) fn from(address: [u8; 4]) -> Origin {
    Origin {
        remote: ip::gid(IpAddr::from(address)),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    }
}

/// Where the peer's datagrams come from.
pub(super) fn peer() -> Origin {
    from([10, 0, 0, 1])
}

/// Where those of the n-th of many senders come from.
pub(super) fn stranger(n: u32) -> Origin {
    from([11, 0, 0, n as u8])
}

impl Bench {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            machine: machine(slots, Config::new(GUID), 1),
            now: Ns::from_secs(1),
        }
    }

    pub(super) fn listening(slots: usize, space: PortSpace) -> (Self, ListenerId) {
        let mut bench = Self::new(slots);
        let listener = listen(&mut bench.machine, space);
        (bench, listener)
    }

    pub(super) fn take_from(&mut self, message: impl Into<Message>, origin: &Origin) {
        let header = Header {
            tid: TID,
            attr_mod: 0,
        };
        let mad = message.into().encode(header);
        self.machine.receive(&mad, origin, self.now);
    }

    pub(super) fn take(&mut self, message: impl Into<Message>) {
        self.take_from(message, &peer());
    }

    pub(super) fn sent(&mut self) -> Vec<Message> {
        let mut all = Vec::new();
        let mut mad = [0; 256];
        while self.machine.transmit(self.now, &mut mad).is_some() {
            all.push(Message::decode(&mad).unwrap().1);
        }
        all
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.machine.event()).collect()
    }

    /// Nothing is sent, and nothing is told.
    pub(super) fn assert_quiet(&mut self) {
        assert_eq!((self.sent(), self.events()), (Vec::new(), Vec::new()));
    }

    /// Time passes; what is sent meanwhile, with the milliseconds when.
    pub(super) fn pass(&mut self, ms: u64) -> Vec<(u64, Message)> {
        let (begin, end) = (self.now, self.now + Ns::from_ms(ms));
        let mut all = Vec::new();
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            while self.machine.poll(self.now) {}
            let ms = (self.now.0 - begin.0) / 1_000_000;
            all.extend(self.sent().into_iter().map(|message| (ms, message)));
        }
        self.now = end;
        all
    }

    pub(super) fn connect(&mut self, qpn: u32) -> ConnectionId {
        self.machine.connect(&connect_to(1, 0, qpn)).unwrap()
    }

    pub(super) fn disconnect(&mut self, id: ConnectionId) {
        self.machine.disconnect(id, self.now).unwrap();
    }

    pub(super) fn release(&mut self, id: ConnectionId) {
        self.machine.release(id, self.now).unwrap();
    }

    /// Of the tables of remote ids and of remote QPs.
    pub(super) fn longest_chains(&self) -> [usize; 2] {
        let machine = &self.machine;
        let length = |first: u32, next: fn(&Slot) -> u32| {
            let next = |at: &u32| machine.slot(*at).map(next);
            std::iter::successors(Some(first), next).count() - 1
        };
        let ids = machine.by_id.iter();
        let qps = machine.by_qp.iter();
        [
            ids.map(|first| length(*first, |slot| slot.next_by_id))
                .max(),
            qps.map(|first| length(*first, |slot| slot.next_by_qp))
                .max(),
        ]
        .map(Option::unwrap_or_default)
    }

    /// The first request of which nobody knows whether its sender answers: it does.
    pub(super) fn reached(&mut self) -> ConnectionId {
        let (id, _) = self.machine.unreached(0).unwrap();
        self.machine.reached(id, self.now).unwrap();
        id
    }

    /// The only request of the peer, told to the program.
    pub(super) fn told(&mut self) -> ConnectionId {
        assert_eq!(self.machine.unreached(0).unwrap().1, peer());
        let id = self.reached();
        let events = self.events();
        assert!(
            matches!(events[..], [Event::Requested { id: told, .. }] if told == id),
            "{events:?}"
        );
        id
    }

    fn accept(&mut self, id: ConnectionId, asked: &Req) {
        self.machine.accept(id, &accept_with(PASSIVE_QP)).unwrap();
        let sent = self.sent();
        let [Message::Rep(rep)] = sent[..] else {
            panic!("{sent:?}");
        };
        let ids = (rep.local_comm_id, rep.remote_comm_id);
        assert_eq!(ids, (id.number(), asked.local_comm_id));
    }

    /// The passive side of a request, connected.
    pub(super) fn serve(&mut self, asked: Req) -> ConnectionId {
        self.take(asked);
        let id = self.told();
        self.accept(id, &asked);
        self.take(Rtu {
            local_comm_id: asked.local_comm_id,
            ..rtu(id)
        });
        assert_eq!(self.events(), [Event::Established(id)]);
        id
    }

    /// The active side, and the REQ that it has sent.
    pub(super) fn asked() -> (Self, ConnectionId, Req) {
        let mut bench = Self::new(SLOTS);
        let id = bench.connect(ACTIVE_QP);
        let sent = bench.sent();
        let [Message::Req(req)] = sent[..] else {
            panic!("{sent:?}");
        };
        assert_eq!((req.local_comm_id, req.local_ca_guid), (id.number(), GUID));
        (bench, id, req)
    }

    pub(super) fn req_sent() -> (Self, ConnectionId) {
        let (bench, id, _) = Self::asked();
        (bench, id)
    }

    pub(super) fn rep_received() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::req_sent();
        bench.take(rep(id));
        assert_eq!(bench.events(), [Event::Accepted(id)]);
        (bench, id)
    }

    pub(super) fn active() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::rep_received();
        bench.machine.ready(id).unwrap();
        let sent = bench.sent();
        assert!(matches!(sent[..], [Message::Rtu(_)]), "{sent:?}");
        assert_eq!(bench.machine.state(id), Some(State::Established));
        (bench, id)
    }

    /// The passive side, with a request.
    pub(super) fn requested() -> (Self, ConnectionId) {
        let (mut bench, _) = Self::listening(SLOTS, PortSpace::Tcp);
        bench.take(req(0));
        assert_eq!(bench.events(), [], "nobody knows of its sender");
        let id = bench.told();
        (bench, id)
    }

    pub(super) fn rep_sent() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::requested();
        bench.accept(id, &req(0));
        (bench, id)
    }

    pub(super) fn passive() -> (Self, ConnectionId) {
        let (mut bench, id) = Self::rep_sent();
        bench.take(rtu(id));
        assert_eq!(bench.events(), [Event::Established(id)]);
        (bench, id)
    }
}

/// The n-th request of the peer, as Linux writes it.
pub(super) fn req(n: u32) -> Req {
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
pub(super) fn question(n: u32) -> SidrReq {
    let mut private_data = [0; 216];
    private_data[..ip::HEADER].copy_from_slice(&req(0).private_data[..ip::HEADER]);
    SidrReq {
        request_id: 0x6000 + n,
        partition_key: 0xFFFF,
        service_id: PortSpace::Udp.service_id(PORT),
        private_data,
    }
}

pub(super) fn rep(id: ConnectionId) -> Rep {
    Rep {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        local_qpn: PEER_QP,
        starting_psn: 9,
        local_ca_guid: PEER,
        ..Rep::default()
    }
}

/// An MRA of the REQ (0) or of the REP (1), with Linux' time.
pub(super) fn mra(id: ConnectionId, message_mraed: u8) -> Mra {
    Mra {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        message_mraed,
        service_timeout: 24,
        ..Mra::default()
    }
}

pub(super) fn rtu(id: ConnectionId) -> Rtu {
    Rtu {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        ..Rtu::default()
    }
}

pub(super) fn dreq(id: ConnectionId, qpn: u32) -> Dreq {
    Dreq {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        remote_qpn_eecn: qpn,
        ..Dreq::default()
    }
}

pub(super) fn drep(id: ConnectionId) -> Drep {
    Drep {
        local_comm_id: PEER_ID,
        remote_comm_id: id.number(),
        ..Drep::default()
    }
}

pub(super) fn rej(local: u32, remote: u32, about: u8, reason: Reason) -> Rej {
    Rej {
        local_comm_id: local,
        remote_comm_id: remote,
        message_rejected: about,
        reason: reason.0,
        ..Rej::default()
    }
}
