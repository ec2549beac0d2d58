//! How connections end: by their owners, by peers that have forgotten them, and by refusals.

use e810_types::Ns;

use super::slot::due;
use super::{ConnectionId, Error, Machine, State};
use crate::{Dreq, Header, Reason, Rej};

impl Machine<'_> {
    /// Ends a connection, or answers the peer's end. Before this the queue pair goes to ERROR.
    /// A request that was accepted, and whose peer is not known to be ready, is refused instead.
    /// Nothing happens where the machine is ending it already, or has ended it: a peer that asks for
    /// another connection of the same queue pair has forgotten this one (cm-path 3.11), and a program
    /// may hear of an end when all of it is over.
    ///
    /// # Errors
    /// [`Error::NoSuch`], [`Error::State`].
    pub fn disconnect(&mut self, id: ConnectionId, now: Ns) -> Result<(), Error> {
        let ends = [State::DreqSent, State::TimeWait, State::Idle];
        let index = match self.owned(id, &ends) {
            Ok(_) => return Ok(()),
            Err(_) => self.owned(
                id,
                &[
                    State::Established,
                    State::DreqReceived,
                    State::RepSent,
                    State::MraRepReceived,
                ],
            )?,
        };
        self.end_connection(index, now);
        Ok(())
    }

    /// Gives a connection up, in any state: the machine tells the peer what it has to know, and
    /// nothing more is told of the connection.
    ///
    /// # Errors
    /// [`Error::NoSuch`].
    pub fn release(&mut self, id: ConnectionId, now: Ns) -> Result<(), Error> {
        let index = self.owned(id, &[])?;
        self.none_waits = false;
        if let Some(slot) = self.slot_mut(index) {
            slot.is_owned = false;
            slot.news = 0;
        }
        match self.slot(index).map_or(State::Idle, |slot| slot.state) {
            State::Established | State::DreqReceived | State::RepSent | State::MraRepReceived => {
                self.end_connection(index, now);
            }
            State::ReqSent
            | State::MraReqReceived
            | State::ReqReceived
            | State::RepReceived
            | State::SidrReqSent
            | State::SidrReqReceived => self.release_slot(index),
            State::DreqSent | State::TimeWait => {}
            State::Idle => self.free_if_unused(index),
        }
        Ok(())
    }

    /// Ends what has a queue pair in RTS.
    fn end_connection(&mut self, index: u32, now: Ns) {
        let accepted = [State::RepSent, State::MraRepReceived];
        if !self
            .slot(index)
            .is_some_and(|slot| accepted.contains(&slot.state))
        {
            self.disconnect_slot(index, now);
            return;
        }
        self.refuse_accepted(index, Reason::CONSUMER_DEFINED, &[0; 148], now);
    }

    /// Refuses what was accepted, and whose peer is not known to be ready.
    pub(super) fn refuse_accepted(
        &mut self,
        index: u32,
        reason: Reason,
        private_data: &[u8; 148],
        now: Ns,
    ) {
        self.refuse(index, reason, private_data);
        self.wait(index, now);
        self.send(index, due::KEPT);
    }

    /// Forgets a request without an answer, as if it had not arrived: its sender repeats it.
    ///
    /// # Errors
    /// [`Error::NoSuch`], [`Error::State`].
    pub fn ignore(&mut self, id: ConnectionId) -> Result<(), Error> {
        let index = self.owned(id, &[State::ReqReceived, State::SidrReqReceived])?;
        self.drop_slot(index);
        Ok(())
    }

    pub(super) fn disconnect_slot(&mut self, index: u32, now: Ns) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if slot.state == State::DreqReceived {
            self.wait(index, now);
            self.send(index, due::DREP);
            return;
        }
        slot.state = State::DreqSent;
        slot.retries_left = slot.retries;
        slot.kept = Dreq {
            local_comm_id: slot.comm_id,
            remote_comm_id: slot.remote_comm_id,
            remote_qpn_eecn: slot.remote_qpn,
            ..Dreq::default()
        }
        .encode(Header {
            tid: slot.comm_id.into(),
            attr_mod: 0,
        });
        self.send(index, due::KEPT);
    }

    /// Ends what is no connection yet, as if its owner had gone.
    pub(super) fn release_slot(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else {
            return;
        };
        match slot.state {
            State::ReqSent | State::MraReqReceived => {
                self.end_with(index, Reason::TIMEOUT, &[0; 148]);
            }
            State::SidrReqReceived => {
                // Refused (cm-path 6.3).
                self.answer_slot(index, (2, 0, 0), &[0; 136]);
            }
            State::SidrReqSent => {
                self.end(index);
                if let Some(slot) = self.slot_mut(index) {
                    slot.due = 0;
                }
            }
            _ => self.end_with(index, Reason::CONSUMER_DEFINED, &[0; 148]),
        }
        self.free_if_unused(index);
    }

    /// Ends it with a REJ.
    pub(super) fn end_with(&mut self, index: u32, reason: Reason, private_data: &[u8; 148]) {
        self.refuse(index, reason, private_data);
        self.end(index);
        self.send(index, due::KEPT);
    }

    /// Writes the REJ of a connection (cm-path 3.11).
    fn refuse(&mut self, index: u32, reason: Reason, private_data: &[u8; 148]) {
        let guid = self.config.guid;
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        // A REP that was never sent: the peer does not know our id.
        let is_unsent = !slot.timer.is_set() && slot.retries_left == slot.retries;
        let message_rejected = match slot.state {
            State::ReqReceived => 0,
            State::RepSent if is_unsent => 0,
            State::RepReceived => 1,
            _ => 2,
        };
        let mut rej = Rej {
            local_comm_id: slot.comm_id,
            remote_comm_id: slot.remote_comm_id,
            message_rejected,
            reason: reason.0,
            private_data: *private_data,
            ..Rej::default()
        };
        if reason == Reason::TIMEOUT {
            // The peer may know nothing but our GUID and id.
            rej.rejected_info_length = 8;
            if let Some(ari) = rej.ari.first_chunk_mut() {
                *ari = guid.to_be_bytes();
            }
        }
        slot.kept = rej.encode(Header {
            tid: slot.tid,
            attr_mod: 0,
        });
        slot.due = 0;
        self.count_rejected(reason.0);
    }

    pub(super) fn count_rejected(&mut self, reason: u16) {
        let named = Reason(reason).text().is_some();
        let at = if named { usize::from(reason) } else { 0 };
        if let Some(count) = self.counters.rejected.get_mut(at) {
            *count = count.wrapping_add(1);
        }
    }

    /// Forgets a request; nobody is told.
    pub(super) fn drop_slot(&mut self, index: u32) {
        self.end(index);
        if let Some(slot) = self.slot_mut(index) {
            slot.is_owned = false;
            slot.news = 0;
            slot.due = 0;
        }
        self.free_if_unused(index);
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
}
