//! What the owner of a connection asks for.

use core::net::{IpAddr, SocketAddr};

use e810_types::Ns;

use super::slot::{due, news};
use super::tables::NONE;
use super::{ConnectionId, Error, Machine, Origin, State, ack_timeout, time};
use crate::ip::{self, IpHeader, PortSpace};
use crate::{Header, Mad, Message, Reason, Rep, Req, SidrRep, SidrReq};

/// The way to the peer, as a request tells it (cm-path 6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Path {
    /// Path MTU as `enum ibv_mtu`: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// TOS.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
    /// Service level.
    pub service_level: u8,
    /// Flow label; for IPv4 what the UDP port is made of.
    pub flow_label: u32,
}

/// A connection that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Connect<'a> {
    /// Whose ports these are.
    pub space: PortSpace,
    /// Own address.
    pub source: IpAddr,
    /// The VLAN that it is on.
    pub vlan: Option<u16>,
    /// Own port: [`Machine::port`] has one.
    pub source_port: u16,
    /// The peer's address, of the same family.
    pub destination: IpAddr,
    /// The peer's port.
    pub port: u16,
    /// The queue pair; nothing for a question about a UD QP.
    pub qpn: u32,
    /// READs that this side answers at once.
    pub responder_resources: u8,
    /// READs that this side wants to have outstanding.
    pub initiator_depth: u8,
    /// The peer's `retry_cnt`; 7 for more.
    pub retry_count: u8,
    /// The peer's `rnr_retry`; 7 for more.
    pub rnr_retry_count: u8,
    /// What the program wishes; no transport here has it.
    pub flow_control: bool,
    /// The queue pair has an SRQ.
    pub srq: bool,
    /// The way.
    pub path: Path,
    /// The program's, at most 56 bytes; 180 for a question about a UD QP, 92 in port space IB.
    pub private_data: &'a [u8],
    /// The program's word.
    pub context: u64,
}

impl Connect<'_> {
    /// A reliable connection from an own address to a peer's port: as many READs as most devices
    /// have, the greatest packets, Linux' retries (cm-path 6.5), no private data. The queue pair
    /// and the own port are missing still.
    #[must_use]
    pub const fn new(source: IpAddr, destination: SocketAddr) -> Self {
        Self {
            space: PortSpace::Tcp,
            source,
            vlan: None,
            source_port: 0,
            destination: destination.ip(),
            port: destination.port(),
            qpn: 0,
            responder_resources: 16,
            initiator_depth: 16,
            retry_count: 7,
            rnr_retry_count: 7,
            flow_control: false,
            srq: false,
            path: Path {
                mtu: 5,
                traffic_class: 0,
                hop_limit: 64,
                service_level: 0,
                flow_label: 0,
            },
            private_data: &[],
            context: 0,
        }
    }
}

/// What the passive side grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Accept<'a> {
    /// The queue pair, in RTS.
    pub qpn: u32,
    /// READs that this side answers at once.
    pub responder_resources: u8,
    /// READs that this side will have outstanding.
    pub initiator_depth: u8,
    /// The peer's `rnr_retry`; 7 for more.
    pub rnr_retry_count: u8,
    /// What the program wishes; no transport here has it.
    pub flow_control: bool,
    /// The queue pair has an SRQ.
    pub srq: bool,
    /// The program's, at most 196 bytes.
    pub private_data: &'a [u8],
    /// The program's word.
    pub context: u64,
}

/// Copies private data behind a header, into a field that is empty.
fn private(into: &mut [u8], header: &[u8], data: &[u8]) -> Result<(), Error> {
    let most = into.len().saturating_sub(header.len());
    let wrong = Error::PrivateData {
        given: data.len(),
        most,
    };
    if data.len() > most {
        return Err(wrong);
    }
    let (start, rest) = into.split_at_mut_checked(header.len()).ok_or(wrong)?;
    ip::copy(start, header);
    ip::copy(rest, data);
    Ok(())
}

fn qpn(value: u32) -> Result<u32, Error> {
    match value >> 24 {
        0 => Ok(value),
        _ => Err(Error::QueuePair(value)),
    }
}

impl Machine<'_> {
    /// A port that no connection of the last 28,000 had.
    pub fn port(&mut self) -> u16 {
        // The range of Linux.
        const FIRST: u16 = 32_768;
        const COUNT: u16 = 28_232;
        self.port = self.port.wrapping_add(1) % COUNT;
        FIRST.wrapping_add(self.port)
    }

    /// Asks a peer for a connection, or in port space UDP for its queue pair.
    ///
    /// # Errors
    /// [`Error::NoSlot`], [`Error::Families`], [`Error::PrivateData`], [`Error::QueuePair`].
    pub fn connect(&mut self, connect: &Connect<'_>) -> Result<ConnectionId, Error> {
        if connect.source.is_ipv4() != connect.destination.is_ipv4() {
            return Err(Error::Families);
        }
        let local_qpn = qpn(connect.qpn)?;
        let header = IpHeader {
            port: connect.source_port,
            source: connect.source,
            destination: connect.destination,
        };
        let header = header.encode();
        let header = header.get(..connect.space.header()).unwrap_or_default();
        let is_question = connect.space.is_datagrams();
        let (mut of_question, mut of_request) = ([0; 216], [0; 92]);
        let into: &mut [u8] = match is_question {
            true => &mut of_question,
            false => &mut of_request,
        };
        private(into, header, connect.private_data)?;
        let slots = self.slots.0.len();
        let local_psn = self.random_psn();
        let config = self.config;
        if self.free.len() == 0 {
            self.end_a_wait();
        }
        if self.free.len() == 0 {
            self.make_room();
        }
        let index = self.allocate().ok_or(Error::NoSlot { slots })?;
        let Some(slot) = self.slot_mut(index) else {
            return Err(Error::NoSlot { slots });
        };
        let comm_id = slot.comm_id;
        let [local, remote] = [connect.source, connect.destination].map(ip::gid);
        slot.state = if is_question {
            State::SidrReqSent
        } else {
            State::ReqSent
        };
        slot.is_active = true;
        slot.is_owned = true;
        slot.context = connect.context;
        slot.space = connect.space;
        slot.port = connect.port;
        slot.tid = comm_id.into();
        slot.local_qpn = local_qpn;
        slot.local_psn = local_psn;
        slot.origin = Origin {
            remote,
            local,
            vlan: connect.vlan,
            flow_label: connect.path.flow_label,
            traffic_class: connect.path.traffic_class,
            ..Origin::NOWHERE
        };
        slot.via = remote;
        slot.retries = config.retries.min(15);
        slot.retries_left = slot.retries;
        slot.ack_timeout = ack_timeout(config.ack_delay, config.packet_life);
        slot.interval = time(config.response_timeout);
        let service_id = connect.space.service_id(connect.port);
        let header = Header {
            tid: slot.tid,
            attr_mod: 0,
        };
        slot.kept = match is_question {
            true => SidrReq {
                request_id: comm_id,
                partition_key: 0xFFFF,
                service_id,
                private_data: of_question,
            }
            .encode(header),
            false => {
                // There and back.
                let life = time(config.packet_life);
                slot.interval = slot.interval + life + life;
                let path = &connect.path;
                let is_local = path.hop_limit <= 1;
                let lid = if is_local { 0 } else { 0xFFFF };
                Req {
                    local_comm_id: comm_id,
                    service_id,
                    local_ca_guid: config.guid,
                    local_qpn,
                    responder_resources: connect.responder_resources,
                    initiator_depth: connect.initiator_depth,
                    remote_cm_response_timeout: config.response_timeout,
                    end_to_end_flow_control: connect.flow_control,
                    starting_psn: local_psn,
                    local_cm_response_timeout: config.response_timeout,
                    retry_count: connect.retry_count.min(7),
                    partition_key: 0xFFFF,
                    path_packet_payload_mtu: path.mtu,
                    rnr_retry_count: connect.rnr_retry_count.min(7),
                    max_cm_retries: slot.retries,
                    srq: connect.srq,
                    primary_local_port_lid: lid,
                    primary_remote_port_lid: lid,
                    primary_local_port_gid: local,
                    primary_remote_port_gid: remote,
                    primary_flow_label: path.flow_label,
                    primary_traffic_class: path.traffic_class,
                    primary_hop_limit: path.hop_limit,
                    primary_sl: path.service_level,
                    primary_subnet_local: is_local,
                    primary_local_ack_timeout: slot.ack_timeout,
                    private_data: of_request,
                    ..Req::default()
                }
                .encode(header)
            }
        };
        self.send(index, due::KEPT);
        Ok(ConnectionId(comm_id))
    }

    /// A request of whose sender nobody knows yet whether it answers, and where it came from:
    /// there are as many as [`unreached_len`](Self::unreached_len) says, in no order that lasts.
    /// Whoever finds out calls [`reached`](Self::reached), or [`ignore`](Self::ignore) for one
    /// that does not answer.
    #[must_use]
    pub fn unreached(&self, place: usize) -> Option<(ConnectionId, Origin)> {
        let slot = self.slot(self.unreached.get(place)?)?;
        Some((ConnectionId(slot.comm_id), slot.origin))
    }

    /// How many [`unreached`](Self::unreached) requests there are.
    #[must_use]
    pub const fn unreached_len(&self) -> usize {
        self.unreached.len()
    }

    /// The sender of a request answers at its address: the request is told now
    /// ([`Event::Requested`](super::Event::Requested)), and waits for the program in the backlog
    /// of its listener. Nothing is told of one that has meanwhile come another way, or whose queue
    /// pair the peer has connected already: that one is refused (cm-path 3.11).
    ///
    /// # Errors
    /// [`Error::Backlog`], after which the request is gone; [`Error::NoSuch`] for one that is
    /// reached already, or gone.
    pub fn reached(&mut self, id: ConnectionId, now: Ns) -> Result<(), Error> {
        let index = self.owned(id, &[State::ReqReceived, State::SidrReqReceived])?;
        let Some(slot) = self.slot(index).filter(|slot| slot.unreached != NONE) else {
            return Err(Error::NoSuch(id));
        };
        let listener = slot.listener;
        let (guid, comm_id, qpn) = (slot.remote_guid, slot.remote_comm_id, slot.remote_qpn);
        let (origin, mad, tid) = (slot.origin, slot.received, slot.tid);
        let is_question = slot.state == State::SidrReqReceived;
        if self.by_remote_id(guid, comm_id).is_some() {
            self.duplicate();
            self.drop_slot(index);
            return Ok(());
        }
        if !is_question && let Some(older) = self.by_remote_qp(guid, qpn) {
            let header = Header { tid, attr_mod: 0 };
            self.refuse_req(&mad, header, &origin, Reason::STALE_CONN);
            self.drop_slot(index);
            self.end_stale(older, now);
            return Ok(());
        }
        self.leave_queues(index);
        self.take_path(index);
        let place = self.listeners.get_mut(listener as usize);
        let Some(place) = place else {
            return Err(Error::NoSuch(id));
        };
        let backlog = place.listen.map_or(0, |listen| listen.backlog);
        if place.waiting >= backlog {
            self.counters.backlog_full = self.counters.backlog_full.wrapping_add(1);
            self.drop_slot(index);
            return Err(Error::Backlog { backlog });
        }
        place.waiting = place.waiting.saturating_add(1);
        let port = place.listen.map_or(0, |listen| listen.port);
        if let Some(slot) = self.slot_mut(index) {
            slot.is_in_backlog = true;
            slot.port = port;
            slot.since = now;
        }
        self.tell(index, news::REQUEST);
        Ok(())
    }

    /// From here on the messages of a request's connection go where the request says, by the
    /// neighbour of its packet's source (cm-path 1.3).
    fn take_path(&mut self, index: u32) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if let Ok((_, Message::Req(req))) = Message::decode(&slot.received) {
            slot.origin.remote = req.primary_local_port_gid;
            slot.origin.flow_label = req.primary_flow_label;
            slot.origin.traffic_class = req.primary_traffic_class;
        }
    }

    /// Accepts a request, whose queue pair is in RTS.
    ///
    /// # Errors
    /// [`Error::NoSuch`], [`Error::PrivateData`], [`Error::QueuePair`]; [`Error::State`] also for a
    /// request that is unreached.
    pub fn accept(&mut self, id: ConnectionId, accept: &Accept<'_>) -> Result<(), Error> {
        let state = State::ReqReceived;
        let index = self.owned(id, &[state])?;
        if self.slot(index).is_none_or(|slot| slot.unreached != NONE) {
            return Err(Error::State { id, state });
        }
        let local_qpn = qpn(accept.qpn)?;
        let mut private_data = [0; 196];
        private(&mut private_data, &[], accept.private_data)?;
        let config = self.config;
        self.leave_queues(index);
        let Some(slot) = self.slot_mut(index) else {
            return Err(Error::NoSuch(id));
        };
        slot.local_qpn = local_qpn;
        slot.context = accept.context;
        slot.state = State::RepSent;
        slot.kept = Rep {
            local_comm_id: slot.comm_id,
            remote_comm_id: slot.remote_comm_id,
            local_qpn,
            starting_psn: slot.local_psn,
            responder_resources: accept.responder_resources,
            initiator_depth: accept.initiator_depth,
            target_ack_delay: config.ack_delay,
            end_to_end_flow_control: accept.flow_control,
            rnr_retry_count: accept.rnr_retry_count.min(7),
            srq: accept.srq,
            local_ca_guid: config.guid,
            private_data,
            ..Rep::default()
        }
        .encode(Header {
            tid: slot.tid,
            attr_mod: 0,
        });
        slot.due &= !due::MRA;
        self.send(index, due::KEPT);
        Ok(())
    }

    /// Answers a question about a UD QP: with its number and Q_Key, or `Err` with a status
    /// (cm-path 3.9).
    ///
    /// # Errors
    /// [`Error::NoSuch`], [`Error::State`], [`Error::PrivateData`], [`Error::QueuePair`].
    pub fn answer(
        &mut self,
        id: ConnectionId,
        answer: Result<(u32, u32), u8>,
        private_data: &[u8],
    ) -> Result<(), Error> {
        let index = self.owned(id, &[State::SidrReqReceived])?;
        let (status, number, q_key) = match answer {
            Ok((number, q_key)) => (0, qpn(number)?, q_key),
            Err(status) => (status, 0, 0),
        };
        let mut data = [0; 136];
        private(&mut data, &[], private_data)?;
        self.answer_slot(index, (status, number, q_key), &data);
        Ok(())
    }

    /// Writes the SIDR_REP, with status, QP and Q_Key, and ends the question.
    pub(super) fn answer_slot(
        &mut self,
        index: u32,
        (status, qpn, q_key): (u8, u32, u32),
        private_data: &[u8; 136],
    ) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        let service_id = match Message::decode(&slot.received) {
            Ok((_, Message::SidrReq(req))) => req.service_id,
            _ => 0,
        };
        slot.kept = SidrRep {
            request_id: slot.remote_comm_id,
            status,
            qpn,
            service_id,
            q_key,
            private_data: *private_data,
            ..SidrRep::default()
        }
        .encode(Header {
            tid: slot.tid,
            attr_mod: 0,
        });
        self.end(index);
        self.send(index, due::KEPT);
    }

    /// Refuses a request, or the reply to one, with private data of at most 148 bytes; also one's own
    /// request, or one that was accepted, as long as there is no connection.
    ///
    /// # Errors
    /// [`Error::NoSuch`], [`Error::State`], [`Error::PrivateData`].
    pub fn reject(
        &mut self,
        id: ConnectionId,
        reason: Reason,
        private_data: &[u8],
        now: Ns,
    ) -> Result<(), Error> {
        let accepted = [State::RepSent, State::MraRepReceived];
        let asked = [
            State::ReqReceived,
            State::RepReceived,
            State::ReqSent,
            State::MraReqReceived,
        ];
        let is_accepted = self.owned(id, &accepted);
        let index = is_accepted.or_else(|_| self.owned(id, &asked))?;
        let mut data = [0; 148];
        private(&mut data, &[], private_data)?;
        match is_accepted {
            // The peer may be in RTS by now (cm-path 3.11).
            Ok(_) => self.refuse_accepted(index, reason, &data, now),
            Err(_) => self.end_with(index, reason, &data),
        }
        Ok(())
    }

    /// The queue pair is in RTS: tells a peer that has accepted.
    ///
    /// # Errors
    /// [`Error::NoSuch`], [`Error::State`].
    pub fn ready(&mut self, id: ConnectionId) -> Result<(), Error> {
        let index = self.owned(id, &[State::RepReceived])?;
        if let Some(slot) = self.slot_mut(index) {
            slot.state = State::Established;
            slot.due &= !due::MRA;
        }
        self.send(index, due::RTU);
        Ok(())
    }

    /// A message of the peer has come to the queue pair: so the peer is ready, whatever has become
    /// of its RTU. Nothing happens where this is known.
    pub fn data_arrived(&mut self, id: ConnectionId) {
        let waits = [State::RepSent, State::MraRepReceived];
        if let Ok(index) = self.owned(id, &waits) {
            self.established(index);
        }
    }

    pub(super) fn established(&mut self, index: u32) {
        self.clear_timer(index);
        if let Some(slot) = self.slot_mut(index) {
            slot.state = State::Established;
            slot.due &= !due::KEPT;
        }
        self.tell(index, news::ESTABLISHED);
    }

    /// The slot of a connection that has an owner, in one of the states, if any are named.
    pub(super) fn owned(&self, id: ConnectionId, states: &[State]) -> Result<u32, Error> {
        let index = self.find(id.0).ok_or(Error::NoSuch(id))?;
        let slot = self.slot(index).filter(|slot| slot.is_owned);
        let state = slot.ok_or(Error::NoSuch(id))?.state;
        if states.is_empty() || states.contains(&state) {
            Ok(index)
        } else {
            Err(Error::State { id, state })
        }
    }
}

/// The greatest datagram is the only size.
const _: () = assert!(size_of::<Mad>() == 256);
