//! What is to be sent.

use e810_types::Ns;

use super::slot::{due, news};
use super::{ANSWERS, ConnectionId, Destination, Machine, Origin, State};
use crate::{Drep, Header, Mad, Mra, Rtu};

impl Machine<'_> {
    /// The next datagram to be sent, and to whom. A datagram that could not be sent is as one that
    /// was lost.
    pub fn transmit(&mut self, now: Ns, mad: &mut Mad) -> Option<Destination> {
        // In turn: answers to strangers hold nothing of a connection back.
        let turn = !core::mem::replace(&mut self.was_answer, false);
        if turn && let Some(destination) = self.transmit_answer(mad) {
            return Some(destination);
        }
        self.transmit_own(now, mad)
            .or_else(|| self.transmit_answer(mad))
    }

    fn transmit_answer(&mut self, mad: &mut Mad) -> Option<Destination> {
        let origin = self.next_answer(mad)?;
        self.was_answer = true;
        Some(Destination {
            connection: None,
            origin,
            via: origin.remote,
            message: 0,
            kind: self.count_sent(mad),
        })
    }

    fn transmit_own(&mut self, now: Ns, mad: &mut Mad) -> Option<Destination> {
        while let Some(index) = self.sends.pop() {
            let service_timeout = self.config.service_timeout;
            let Some(slot) = self.slots.get_mut(index) else {
                continue;
            };
            if slot.since == Ns::ZERO {
                slot.since = now;
            }
            let first = slot.due & slot.due.wrapping_neg();
            slot.due &= !first;
            slot.is_in_sends = slot.due != 0;
            let (origin, via) = (slot.origin, slot.via);
            let header = Header {
                tid: slot.tid,
                attr_mod: 0,
            };
            let dreq = Header {
                tid: slot.dreq_tid,
                attr_mod: 0,
            };
            let (local_comm_id, remote_comm_id) = (slot.comm_id, slot.remote_comm_id);
            *mad = match first {
                due::MRA => Mra {
                    local_comm_id,
                    remote_comm_id,
                    message_mraed: slot.is_active.into(),
                    service_timeout,
                    ..Mra::default()
                }
                .encode(header),
                due::RTU => Rtu {
                    local_comm_id,
                    remote_comm_id,
                    ..Rtu::default()
                }
                .encode(header),
                due::KEPT => slot.kept,
                due::DREP => Drep {
                    local_comm_id,
                    remote_comm_id,
                    ..Drep::default()
                }
                .encode(dreq),
                _ => {
                    self.free_if_unused(index);
                    continue;
                }
            };
            let waits = matches!(
                slot.state,
                State::ReqSent | State::RepSent | State::DreqSent | State::SidrReqSent
            );
            let at = now + slot.interval.min(super::LONGEST);
            // One that is given again has its time already: else a wait for its way had no end.
            let is_timed = slot.timer.is_set();
            if slot.is_in_sends {
                self.sends.push(index);
            }
            if first == due::KEPT && waits && !is_timed {
                self.set_timer(index, at);
            }
            self.free_if_unused(index);
            return Some(Destination {
                connection: Some(ConnectionId(local_comm_id)),
                origin,
                via,
                message: first,
                kind: self.count_sent(mad),
            });
        }
        None
    }

    /// A datagram was not sent, because the way to its destination is not known yet:
    /// [`transmit`](Self::transmit) gives it again, unless its connection has ended. That it is not
    /// sent counts as one of its repeats once its time is over, so the wait has an end.
    pub fn again(&mut self, destination: &Destination) {
        let count = self.counters.sent.get_mut(destination.kind);
        if let Some(count) = count {
            *count = count.wrapping_sub(1);
        }
        let index = destination.connection.and_then(|id| self.find(id.0));
        if let Some(index) = index {
            self.send(index, destination.message);
        }
    }

    /// Nobody answers at the address that a connection is asked for: it ends like one whose request
    /// was repeated often enough ([`Event::Unreachable`](super::Event::Unreachable)). Nothing
    /// happens in other states, where the peer has answered before.
    pub fn unreachable(&mut self, id: ConnectionId) {
        let asks = [State::ReqSent, State::SidrReqSent];
        if let Ok(index) = self.owned(id, &asks) {
            if let Some(slot) = self.slot_mut(index) {
                slot.due = 0;
            }
            self.end(index);
            self.tell(index, news::UNREACHABLE);
            self.free_if_unused(index);
        }
    }

    /// Counts a message as sent; its place among the counters.
    fn count_sent(&mut self, mad: &Mad) -> usize {
        let kind = attribute(mad).unwrap_or(usize::MAX);
        if let Some(count) = self.counters.sent.get_mut(kind) {
            *count = count.wrapping_add(1);
        }
        kind
    }

    /// Answers a datagram that is of no connection.
    pub(super) fn answer_to(&mut self, origin: &Origin, mad: Mad) {
        let at = self.answer.wrapping_add(self.answers_waiting) % ANSWERS;
        let free = self.answers_waiting < ANSWERS;
        match self.answers.get_mut(at).filter(|_| free) {
            Some(place) => {
                *place = (*origin, mad);
                self.answers_waiting = self.answers_waiting.saturating_add(1);
            }
            None => {
                self.counters.answers_dropped = self.counters.answers_dropped.wrapping_add(1);
            }
        }
    }

    fn next_answer(&mut self, mad: &mut Mad) -> Option<Origin> {
        self.answers_waiting = self.answers_waiting.checked_sub(1)?;
        let (origin, bytes) = self.answers.get(self.answer)?;
        *mad = *bytes;
        let origin = *origin;
        self.answer = self.answer.wrapping_add(1) % ANSWERS;
        Some(origin)
    }
}

/// Index of a message among the counters.
pub(super) fn attribute(mad: &Mad) -> Option<usize> {
    let [high, low] = *mad.get(16..)?.first_chunk()?;
    usize::from(u16::from_be_bytes([high, low])).checked_sub(0x10)
}
