//! What arrives (cm-path 4; 3.11 for who is refused, and how).

use e810_types::Ns;

use super::config::LONGEST_MRA;
use super::outgoing::attribute;
use super::slot::{due, news};
use super::{Machine, Origin, State, time};
use crate::ip::{self, PortSpace};
use crate::{Drep, GID, Header, Mad, Message, Reason, Rej, Rep, Req, SidrRep, SidrReq};

/// The words of REJ and MRA for what they are about.
pub(super) const ABOUT_REQ: u8 = 0;
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
            Message::Req(req) => self.take_req(mad, &req, header, origin),
            Message::Mra(mra) => {
                let ids = [mra.local_comm_id, mra.remote_comm_id];
                self.take_mra(ids, mra.message_mraed, mra.service_timeout, now);
            }
            Message::Rej(rej) => self.take_rej(mad, &rej, origin, now),
            Message::Rep(rep) => self.take_rep(mad, &rep, (header, origin), now),
            Message::Rtu(rtu) => self.take_rtu(rtu.local_comm_id, rtu.remote_comm_id),
            Message::Dreq(dreq) => {
                let ids = [dreq.local_comm_id, dreq.remote_comm_id];
                self.take_dreq(ids, dreq.remote_qpn_eecn, (header, origin), now);
            }
            Message::Drep(drep) => self.take_drep(drep.local_comm_id, drep.remote_comm_id, now),
            Message::SidrReq(req) => self.take_sidr_req(mad, &req, header, origin),
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

    fn take_req(&mut self, mad: &Mad, req: &Req, header: Header, origin: &Origin) {
        if let Some(index) = self.by_remote_id(req.local_ca_guid, req.local_comm_id) {
            self.duplicate();
            let (state, news) = self
                .slot(index)
                .map_or((State::Idle, 0), |slot| (slot.state, slot.news));
            match state {
                // Only of one that the program has been told of: another may yet be forgotten.
                State::ReqReceived if news & news::REQUEST == 0 => self.send(index, due::MRA),
                State::TimeWait => self.refuse_req(mad, header, origin, Reason::STALE_CONN),
                _ => {}
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
        let spaces: &[_] = match is_rc {
            true => &[PortSpace::Tcp, PortSpace::Ib],
            false => &[],
        };
        let wanted = self.wanted(req.service_id, data, spaces);
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
        let wait = time(service_timeout) + time(slot.ack_timeout);
        self.set_timer(index, now + wait.min(LONGEST_MRA));
    }

    fn take_rep(&mut self, mad: &Mad, rep: &Rep, (header, origin): (Header, &Origin), now: Ns) {
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

    /// The slot that a REJ is about (cm-path 3.11). An unreached request is given up by its own
    /// sender only.
    fn rejected(&self, rej: &Rej, sender: &[u8; GID]) -> Option<u32> {
        if rej.reason == Reason::TIMEOUT.0 {
            let guid = u64::from_be_bytes(*rej.ari.first_chunk()?);
            return self
                .by_remote_id(guid, rej.local_comm_id)
                .or_else(|| self.unreached_twin(guid, rej.local_comm_id, sender));
        }
        if rej.message_rejected != ABOUT_REQ {
            return self.pair(rej.local_comm_id, rej.remote_comm_id);
        }
        let index = self.find(rej.remote_comm_id)?;
        let slot = self.slot(index)?;
        (slot.remote_comm_id == 0).then_some(index)
    }

    fn take_rej(&mut self, mad: &Mad, rej: &Rej, origin: &Origin, now: Ns) {
        let Some(index) = self.rejected(rej, &origin.remote) else {
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

    fn take_sidr_req(&mut self, mad: &Mad, req: &SidrReq, header: Header, origin: &Origin) {
        let source = self.source(&origin.remote);
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
        let spaces = [PortSpace::Udp, PortSpace::Ipoib, PortSpace::Ib];
        let wanted = self.wanted(req.service_id, &req.private_data, &spaces);
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
