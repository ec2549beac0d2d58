//! What arrives (cm-path 4; 3.11 for who is refused, and how).

use core::net::{IpAddr, Ipv4Addr};

use e810_types::Ns;

use super::outgoing::attribute;
use super::secret::{SOURCE, VICTIM};
use super::slot::{due, news};
use super::{Machine, Origin, State, time};
use crate::ip::{self, IpHeader, PortSpace};
use crate::{Drep, Header, Mad, Message, Reason, Rej, SidrRep};

/// The words of REJ and MRA for what they are about.
const ABOUT_REQ: u8 = 0;
const ABOUT_REP: u8 = 1;

impl Machine<'_> {
    /// Takes a datagram that has come to QP 1. What is no message is counted and dropped.
    pub fn receive(&mut self, bytes: &[u8], origin: &Origin, now: Ns) {
        let Ok(mad) = <&Mad>::try_from(bytes) else {
            self.counters.no_message = self.counters.no_message.wrapping_add(1);
            return;
        };
        let Ok((header, message)) = Message::decode(mad) else {
            self.counters.no_message = self.counters.no_message.wrapping_add(1);
            return;
        };
        let count = attribute(mad).and_then(|at| self.counters.received.get_mut(at));
        if let Some(count) = count {
            *count = count.wrapping_add(1);
        }
        match message {
            Message::Req(_) => self.take_req(mad, header, origin),
            Message::Mra(mra) => {
                let ids = [mra.local_comm_id, mra.remote_comm_id];
                self.take_mra(ids, mra.message_mraed, mra.service_timeout, now);
            }
            Message::Rej(rej) => self.take_rej(mad, &rej, now),
            Message::Rep(_) => self.take_rep(mad, header, origin, now),
            Message::Rtu(rtu) => self.take_rtu(rtu.local_comm_id, rtu.remote_comm_id),
            Message::Dreq(dreq) => {
                let ids = [dreq.local_comm_id, dreq.remote_comm_id];
                self.take_dreq(ids, dreq.remote_qpn_eecn, (header, origin), now);
            }
            Message::Drep(drep) => self.take_drep(drep.local_comm_id, drep.remote_comm_id, now),
            Message::SidrReq(_) => self.take_sidr_req(mad, header, origin),
            Message::SidrRep(rep) => self.take_sidr_rep(mad, &rep),
            // RoCE has no alternate paths: nobody answers.
            Message::Lap(_) | Message::Apr(_) => self.stray(),
        }
    }

    fn stray(&mut self) {
        self.counters.stray = self.counters.stray.wrapping_add(1);
    }

    pub(super) fn duplicate(&mut self) {
        self.counters.duplicates = self.counters.duplicates.wrapping_add(1);
    }

    /// The slot with both ids.
    fn pair(&self, remote: u32, own: u32) -> Option<u32> {
        let index = self.find(own)?;
        let slot = self.slot(index)?;
        (slot.remote_comm_id == remote).then_some(index)
    }

    fn take_req(&mut self, mad: &Mad, header: Header, origin: &Origin) {
        let Ok((_, Message::Req(req))) = Message::decode(mad) else {
            return;
        };
        if let Some(index) = self.by_remote_id(req.local_ca_guid, req.local_comm_id) {
            self.duplicate();
            // Only of one that the program has been told of: another may yet be forgotten.
            let is_told = |slot: &super::Slot| {
                slot.state == State::ReqReceived && slot.news & news::REQUEST == 0
            };
            if self.slot(index).is_some_and(is_told) {
                self.send(index, due::MRA);
            }
            return;
        }
        let (guid, id) = (req.local_ca_guid, req.local_comm_id);
        if self.unreached_twin(guid, id, &origin.remote).is_some() {
            self.duplicate();
            return;
        }
        let data = &req.private_data;
        let is_rc = req.transport_service_type == 0;
        let wanted = self.wanted(req.service_id, data, |space| {
            is_rc && space != PortSpace::Udp
        });
        let gids = [req.primary_local_port_gid, req.primary_remote_port_gid];
        let families = gids.map(|gid| ip::address(gid).is_ipv4());
        // The only partition is the default one, in full or limited (cm-path 1.1).
        let has_path = req.partition_key & 0x7FFF == 0x7FFF && families[0] == families[1];
        let listener = match wanted {
            Ok(listener) if has_path => listener,
            Ok(_) => {
                self.refuse_req(mad, header, origin, Reason::INVALID_GID);
                return;
            }
            Err(reason) => {
                self.refuse_req(mad, header, origin, reason);
                return;
            }
        };
        let Some(index) = self.take_slot(mad, header, origin, listener) else {
            return;
        };
        let local_psn = self.random_psn();
        if let Some(slot) = self.slot_mut(index) {
            slot.state = State::ReqReceived;
            slot.remote_comm_id = req.local_comm_id;
            slot.remote_guid = req.local_ca_guid;
            slot.remote_qpn = req.local_qpn;
            slot.local_psn = local_psn;
            slot.retries = req.max_cm_retries;
            slot.retries_left = req.max_cm_retries;
            slot.interval = time(req.local_cm_response_timeout);
            slot.ack_timeout = req.primary_local_ack_timeout.max(1);
        }
        self.know(index);
    }

    /// The listener for a request, or why there is none (cm-path 6.3).
    fn wanted(
        &self,
        service_id: u64,
        private_data: &[u8],
        is_type: impl Fn(PortSpace) -> bool,
    ) -> Result<(u32, PortSpace), Reason> {
        let (space, port) =
            PortSpace::of_service_id(service_id).ok_or(Reason::INVALID_SERVICE_ID)?;
        if !matches!(self.listener_for(space, port, None), Ok(_) | Err(true)) {
            return Err(Reason::INVALID_SERVICE_ID);
        }
        let destination = match space {
            PortSpace::Ib => None,
            PortSpace::Tcp | PortSpace::Udp => {
                let ip = IpHeader::decode(private_data).ok_or(Reason::CONSUMER_DEFINED)?;
                if !is_peer(ip.source) || !is_own(ip.destination) {
                    return Err(Reason::CONSUMER_DEFINED);
                }
                Some(ip.destination)
            }
        };
        let listener = self.listener_for(space, port, destination);
        let listener = listener.map_err(|_| Reason::CONSUMER_DEFINED)?;
        if is_type(space) {
            Ok((listener, space))
        } else {
            Err(Reason::CONSUMER_DEFINED)
        }
    }

    /// A slot for a request: a free one, or that of another request of which nobody knows whether
    /// its sender answers.
    fn take_slot(
        &mut self,
        mad: &Mad,
        header: Header,
        origin: &Origin,
        (listener, space): (u32, PortSpace),
    ) -> Option<u32> {
        // Four times the mean at least, or many sources would fill the count of another one.
        let room = super::unreached(self.slots.0.len());
        let most = room.div_ceil(super::SOURCES / 4).min(usize::from(u16::MAX)) as u16;
        let most = most.max(self.config.requests_of_a_source);
        let is_full = self
            .count_of(&origin.remote)
            .is_none_or(|count| *count >= most);
        if is_full {
            self.counters.source_full = self.counters.source_full.wrapping_add(1);
            return None;
        }
        if self.free.len() == 0 || self.unreached.len() >= super::unreached(self.slots.0.len()) {
            self.make_room();
        }
        let Some(index) = self.allocate() else {
            self.counters.no_slot = self.counters.no_slot.wrapping_add(1);
            return None;
        };
        let place = self.unreached.add(index);
        if place.is_some()
            && let Some(count) = self.count_of(&origin.remote)
        {
            *count = count.saturating_add(1);
        }
        let slot = self.slot_mut(index)?;
        slot.unreached = place.unwrap_or(super::NONE);
        slot.is_owned = true;
        slot.listener = listener;
        slot.space = space;
        slot.tid = header.tid;
        slot.origin = *origin;
        slot.received = *mad;
        Some(index)
    }

    /// One of the unreached requests gives way, whichever it is: who sends many loses most.
    pub(super) fn make_room(&mut self) {
        let count = self.unreached.len();
        self.serial = self.serial.wrapping_add(1);
        let random = self.secret.number(VICTIM, [self.serial, 0]) as usize;
        let Some(victim) = random
            .checked_rem(count)
            .and_then(|place| self.unreached.get(place))
        else {
            return;
        };
        self.counters.gave_way = self.counters.gave_way.wrapping_add(1);
        self.drop_slot(victim);
    }

    /// Refuses a REQ that has no slot. The id of the REJ is what Linux takes for it: the four bytes
    /// behind the REQ's own.
    pub(super) fn refuse_req(
        &mut self,
        mad: &Mad,
        header: Header,
        origin: &Origin,
        reason: Reason,
    ) {
        let word = |at: usize| {
            let bytes = mad.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let rej = Rej {
            local_comm_id: word(28),
            remote_comm_id: word(24),
            message_rejected: ABOUT_REQ,
            reason: reason.0,
            ..Rej::default()
        };
        self.count_rejected(reason.0);
        self.answer_to(
            origin,
            rej.encode(Header {
                tid: header.tid,
                attr_mod: 0,
            }),
        );
    }

    /// A peer uses the queue pair of a connection for another one: so it has forgotten this one.
    pub(super) fn end_stale(&mut self, index: u32, now: Ns) {
        if self
            .slot(index)
            .is_some_and(|slot| slot.state == State::Established)
        {
            self.disconnect_slot(index, now);
        }
    }

    fn take_mra(&mut self, [remote, own]: [u32; 2], about: u8, service_timeout: u8, now: Ns) {
        let found = if about == ABOUT_REQ {
            self.find(own)
        } else {
            self.pair(remote, own)
        };
        let Some(index) = found else {
            self.stray();
            return;
        };
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        let next = match slot.state {
            // One for each time that the message was sent.
            State::ReqSent if about == ABOUT_REQ => State::MraReqReceived,
            State::RepSent if about == ABOUT_REP => State::MraRepReceived,
            _ => {
                self.stray();
                return;
            }
        };
        slot.state = next;
        slot.due &= !due::KEPT;
        // An hour, whatever the peer says.
        let longest = Ns::from_secs(3600);
        let wait = time(service_timeout) + time(slot.ack_timeout);
        self.set_timer(index, now + wait.min(longest));
    }

    fn take_rep(&mut self, mad: &Mad, header: Header, origin: &Origin, now: Ns) {
        let Ok((_, Message::Rep(rep))) = Message::decode(mad) else {
            return;
        };
        let Some(index) = self.find(rep.remote_comm_id) else {
            self.stray();
            return;
        };
        let Some(slot) = self.slot(index) else {
            return;
        };
        let waits = matches!(slot.state, State::ReqSent | State::MraReqReceived);
        if !waits {
            if slot.remote_comm_id != rep.local_comm_id {
                self.stray();
                return;
            }
            let again = match slot.state {
                State::Established if slot.is_active => due::RTU,
                State::RepReceived => due::MRA,
                _ => 0,
            };
            self.duplicate();
            if again != 0 {
                self.send(index, again);
            }
            return;
        }
        if self
            .by_remote_id(rep.local_ca_guid, rep.local_comm_id)
            .is_some()
        {
            self.duplicate();
            return;
        }
        if let Some(other) = self.by_remote_qp(rep.local_ca_guid, rep.local_qpn) {
            let rej = Rej {
                local_comm_id: rep.remote_comm_id,
                remote_comm_id: rep.local_comm_id,
                message_rejected: ABOUT_REP,
                reason: Reason::STALE_CONN.0,
                ..Rej::default()
            };
            self.count_rejected(Reason::STALE_CONN.0);
            self.answer_to(
                origin,
                rej.encode(Header {
                    tid: header.tid,
                    attr_mod: 0,
                }),
            );
            self.end_stale(other, now);
            return;
        }
        self.clear_timer(index);
        let config = self.config;
        if let Some(slot) = self.slot_mut(index) {
            slot.state = State::RepReceived;
            slot.due &= !due::KEPT;
            slot.remote_comm_id = rep.local_comm_id;
            slot.remote_guid = rep.local_ca_guid;
            slot.remote_qpn = rep.local_qpn;
            slot.ack_timeout = super::ack_timeout(rep.target_ack_delay, config.packet_life);
            slot.received = *mad;
        }
        self.know(index);
        self.tell(index, news::ACCEPTED);
    }

    fn take_rtu(&mut self, remote: u32, own: u32) {
        let Some(index) = self.pair(remote, own) else {
            self.stray();
            return;
        };
        match self.slot(index).map(|slot| slot.state) {
            Some(State::RepSent | State::MraRepReceived) => self.established(index),
            _ => self.duplicate(),
        }
    }

    /// The slot that a REJ is about (cm-path 3.11).
    fn rejected(&self, rej: &Rej) -> Option<u32> {
        if rej.reason == Reason::TIMEOUT.0 {
            let guid = u64::from_be_bytes(*rej.ari.first_chunk()?);
            return self.by_remote_id(guid, rej.local_comm_id);
        }
        if rej.message_rejected != ABOUT_REQ {
            return self.pair(rej.local_comm_id, rej.remote_comm_id);
        }
        let index = self.find(rej.remote_comm_id)?;
        let slot = self.slot(index)?;
        (slot.remote_comm_id == 0).then_some(index)
    }

    fn take_rej(&mut self, mad: &Mad, rej: &Rej, now: Ns) {
        let Some(index) = self.rejected(rej) else {
            self.stray();
            return;
        };
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        let is_stale = rej.reason == Reason::STALE_CONN.0;
        let waits = match slot.state {
            State::Idle | State::TimeWait | State::DreqReceived => {
                self.stray();
                return;
            }
            // A question about a UD QP is not refused so.
            State::SidrReqSent | State::SidrReqReceived => {
                self.stray();
                return;
            }
            State::RepReceived | State::DreqSent | State::Established => true,
            State::ReqSent
            | State::MraReqReceived
            | State::ReqReceived
            | State::RepSent
            | State::MraRepReceived => is_stale,
        };
        slot.due = 0;
        slot.reason = rej.reason;
        // A request that the program never heard of is gone without a word.
        let is_unheard = slot.news & news::REQUEST != 0 || slot.unreached != super::NONE;
        slot.news &= !(news::REQUEST | news::ACCEPTED);
        slot.received = *mad;
        if is_unheard {
            self.drop_slot(index);
            return;
        }
        if waits {
            self.wait(index, now);
        } else {
            self.end(index);
        }
        self.tell_last(index, news::REJECTED);
        self.free_if_unused(index);
    }

    fn take_dreq(
        &mut self,
        [remote, own]: [u32; 2],
        qpn: u32,
        (header, origin): (Header, &Origin),
        now: Ns,
    ) {
        let Some(index) = self.pair(remote, own) else {
            let drep = Drep {
                local_comm_id: own,
                remote_comm_id: remote,
                ..Drep::default()
            };
            self.stray();
            self.answer_to(
                origin,
                drep.encode(Header {
                    tid: header.tid,
                    attr_mod: 0,
                }),
            );
            return;
        };
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if slot.local_qpn != qpn {
            self.stray();
            return;
        }
        match slot.state {
            State::Established | State::RepSent | State::MraRepReceived | State::DreqSent => {
                let asked_too = slot.state == State::DreqSent;
                slot.state = State::DreqReceived;
                slot.dreq_tid = header.tid;
                slot.due &= !due::KEPT;
                let is_owned = slot.is_owned;
                self.clear_timer(index);
                self.tell_last(index, news::DISCONNECTED);
                // Who asked for the end as well has its queue pair in ERROR already, and who has
                // gone needs none.
                if asked_too || !is_owned {
                    self.disconnect_slot(index, now);
                }
            }
            // Over here, while the peer still repeats its end.
            State::TimeWait | State::Idle => {
                slot.dreq_tid = header.tid;
                self.send(index, due::DREP);
            }
            _ => self.duplicate(),
        }
    }

    fn take_drep(&mut self, remote: u32, own: u32, now: Ns) {
        let Some(index) = self.pair(remote, own) else {
            self.stray();
            return;
        };
        match self.slot(index).map(|slot| slot.state) {
            Some(State::DreqSent | State::DreqReceived) => {
                self.wait(index, now);
                self.tell_last(index, news::DISCONNECTED);
            }
            _ => self.duplicate(),
        }
    }

    fn take_sidr_req(&mut self, mad: &Mad, header: Header, origin: &Origin) {
        let Ok((_, Message::SidrReq(req))) = Message::decode(mad) else {
            return;
        };
        let number = u128::from_be_bytes(origin.remote);
        let words = [number as u64, (number >> 64) as u64];
        let source = self.secret.number(SOURCE, words);
        if self.by_remote_id(source, req.request_id).is_some() {
            self.duplicate();
            return;
        }
        if self
            .unreached_twin(source, req.request_id, &origin.remote)
            .is_some()
        {
            self.duplicate();
            return;
        }
        let wanted = self.wanted(req.service_id, &req.private_data, |_| true);
        let wanted = wanted.and_then(|(listener, space)| match space {
            PortSpace::Tcp => Err(Reason::CONSUMER_DEFINED),
            PortSpace::Udp | PortSpace::Ib => Ok((listener, space)),
        });
        let listener = match wanted {
            Ok(listener) => listener,
            Err(reason) => {
                let status = if reason == Reason::INVALID_SERVICE_ID {
                    1
                } else {
                    2
                };
                let rep = SidrRep {
                    request_id: req.request_id,
                    status,
                    service_id: req.service_id,
                    ..SidrRep::default()
                };
                self.answer_to(
                    origin,
                    rep.encode(Header {
                        tid: header.tid,
                        attr_mod: 0,
                    }),
                );
                return;
            }
        };
        let Some(index) = self.take_slot(mad, header, origin, listener) else {
            return;
        };
        if let Some(slot) = self.slot_mut(index) {
            slot.state = State::SidrReqReceived;
            slot.remote_comm_id = req.request_id;
            slot.remote_guid = source;
            // So that they are in unlike chains.
            slot.remote_qpn = req.request_id;
        }
        self.know(index);
    }

    fn take_sidr_rep(&mut self, mad: &Mad, rep: &SidrRep) {
        let index = self.find(rep.request_id);
        let Some(index) = index.filter(|index| {
            self.slot(*index)
                .is_some_and(|slot| slot.state == State::SidrReqSent)
        }) else {
            self.stray();
            return;
        };
        if let Some(slot) = self.slot_mut(index) {
            slot.due = 0;
            slot.received = *mad;
            slot.remote_qpn = rep.qpn;
            slot.reason = rep.status.into();
        }
        self.end(index);
        let what = if rep.status == 0 {
            news::ACCEPTED
        } else {
            news::REJECTED
        };
        self.tell(index, what);
        self.free_if_unused(index);
    }

    /// Tells the last thing of a connection, unless that was told.
    pub(super) fn tell_last(&mut self, index: u32, what: u8) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if !core::mem::replace(&mut slot.is_end_told, true) {
            self.tell(index, what);
        }
    }
}

/// A listener may have this address.
fn is_own(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_multicast() || v4.is_broadcast() || is_nowhere(v4)),
        IpAddr::V6(_) => true,
    }
}

/// A peer may have this address.
fn is_peer(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_broadcast() || is_nowhere(v4)),
        IpAddr::V6(_) => true,
    }
}

/// Network 0 and the machine itself.
fn is_nowhere(v4: Ipv4Addr) -> bool {
    v4.octets().first() == Some(&0) || v4.is_loopback()
}
