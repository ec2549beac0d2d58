//! What a driver had written before the recording has it.

use std::mem::take;

use e810_card::record::{words_from_hex, words_to_hex};
use e810_trace::Event;
use e810_trace::record::{ShadowOf, WorkQueue};

use crate::lines::{is_access, is_posted};
use crate::replay::{DOORBELLS, Replay, register};

/// So few receive requests are left that the next ones come before their turn.
const FEW: usize = 16;
/// Lines among which the completion of a request is looked for.
const FAR: usize = 4_096;

/// Whether this is a doorbell of a send queue. Those of a virtual machine come late: its processor does
/// not wait for them.
fn is_doorbell(event: &Event) -> bool {
    let Event::Write { offset, .. } = event else {
        return false;
    };
    register(*offset).is_some_and(|offset| DOORBELLS.contains(&offset))
}

impl Replay<'_> {
    /// Writes what a driver had written before its next access and what the device needs in time; nothing
    /// says when it was written. That is: receive requests, as far as their places are free here, too, and
    /// few are left, because a datagram that finds none is lost; and how far the driver is in completion
    /// queues, as far as the device is here, because they overflow otherwise.
    pub(crate) fn post_in_time(&mut self, number: usize) {
        let mut is_blocked = false;
        for at in self.states[number].at.. {
            let Some(index) = self.states[number].lines.get(at).copied() else {
                break;
            };
            let event = self.lines[index].event;
            if is_access(event) {
                break;
            }
            if self.done[index] {
                continue;
            }
            match event {
                Event::Wqe {
                    qp,
                    queue: WorkQueue::Receive,
                    index: place,
                    ..
                } if !is_blocked => {
                    let key = (*qp, WorkQueue::Receive);
                    is_blocked =
                        self.left(number, key) >= FEW || !self.is_free(number, key, *place);
                    self.done[index] = !is_blocked && self.functions[number].post(event);
                }
                Event::Shadow { .. } => {
                    self.take_entries(number, event);
                }
                _ => {}
            }
        }
    }

    /// Tells the device which entries the driver has taken from a completion queue, as its shadow area
    /// says, if the device has written them here, too. The other words of the area say how the queue is
    /// armed, and stay until their turn. Whether that is news.
    pub(crate) fn take_entries(&mut self, number: usize, event: &Event) -> bool {
        /// Bytes of the word with the index.
        const INDEX: usize = 8;
        let Event::Shadow {
            of: ShadowOf::Cq,
            number: cq,
            bytes,
        } = event
        else {
            return false;
        };
        let now = self.sim.now();
        let function = &mut self.functions[number];
        function.look(now);
        let Some(entries @ 1..) = function.entries(*cq) else {
            return false;
        };
        // CQEIDX (data-path 3).
        let words = words_from_hex(bytes).unwrap_or_default();
        let index = words.first().map_or(0, |word| (word & 0xF_FFFF) as u32) % entries;
        let (before, taken) = self.states[number].taken(*cq);
        let more = (index + entries - before % entries) % entries;
        let taken = taken + u64::from(more);
        if more == 0 || taken > function.completions(*cq) {
            return false;
        }
        self.states[number].taken.insert(*cq, (index, taken));
        function.post_start(event, INDEX)
    }

    /// The same, where no line has said it yet: a driver that takes a whole lap between two looks is at the
    /// index where it was. If the recorded device has written the completion of the next request, too, the
    /// driver had taken so many entries that it had room.
    fn take_for_one_more(&mut self, number: usize, cq: u32) -> bool {
        let owed = self.owed(number, cq);
        let (function, state) = (&mut self.functions[number], &mut self.states[number]);
        let Some(entries @ 1..) = function.entries(cq) else {
            return false;
        };
        let completions = function.completions(cq);
        let (index, taken) = state.taken(cq);
        let needed = (completions + owed + 2).saturating_sub(entries.into());
        if needed <= taken || needed > completions {
            return false;
        }
        let lines = state.lines.get(state.at..).unwrap_or_default().iter();
        let written = lines.take(FAR).filter(|index| {
            matches!(self.lines[**index].event, Event::Cqe { cq: other, .. } if *other == cq)
        });
        let missing = function.completions_ahead(cq) + owed + 1;
        if (written.count() as u64) < missing {
            return false;
        }
        let index = (u64::from(index) + needed - taken) % u64::from(entries);
        state.taken.insert(cq, (index as u32, needed));
        function.post(&Event::Shadow {
            of: ShadowOf::Cq,
            number: cq,
            bytes: words_to_hex(&[index]),
        })
    }

    /// Writes what drivers had written before their next access, and the proxy had not seen yet. An engine
    /// that is at work on a send queue takes such a request before its doorbell. Here it may have gone to
    /// rest, so it gets a doorbell now, which changes nothing else. Whether there was anything.
    pub(crate) fn post_ahead(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.functions.len() {
            let (mut is_rung, mut is_answered, mut is_full) = (false, false, false);
            for at in self.states[number].at.. {
                let Some(index) = self.states[number].lines.get(at).copied() else {
                    break;
                };
                let event = self.lines[index].event;
                // What comes behind a doorbell may be there, too, unless the driver has waited for an answer
                // before.
                is_rung |= is_doorbell(event);
                is_answered |= event.answer().is_some();
                if is_access(event) && !is_doorbell(event) || is_rung && is_answered {
                    break;
                }
                if !is_posted(event) || self.done[index] {
                    continue;
                }
                match event {
                    // The driver has taken entries before it posted this, as a line behind tells.
                    Event::Wqe {
                        qp,
                        queue: WorkQueue::Send,
                        ..
                    } if is_full || !self.has_room(number, *qp) => {
                        is_full = true;
                        continue;
                    }
                    Event::Wqe {
                        qp,
                        queue,
                        index: place,
                        ..
                    } if !self.is_free(number, (*qp, *queue), *place) => break,
                    Event::Shadow { .. } => {
                        any |= self.take_entries(number, event);
                        continue;
                    }
                    _ => {}
                }
                if self.functions[number].post(event) {
                    self.done[index] = true;
                    self.states[number].sent(event);
                    any = true;
                }
            }
            for qp in take(&mut self.states[number].not_rung) {
                self.functions[number].ring(qp);
                any = true;
            }
        }
        any
    }

    /// Whether the completion queue of a send queue has room for one more request's completion, by what the
    /// recording has told so far of the entries that the driver has taken. A queue has one entry fewer than
    /// its ring (data-path 4.1).
    fn has_room(&mut self, number: usize, qp: u32) -> bool {
        let now = self.sim.now();
        let (function, state) = (&mut self.functions[number], &self.states[number]);
        let Some(cq) = state.send_cqs.get(&qp).copied() else {
            return true;
        };
        let Some(entries) = function.entries(cq) else {
            return true;
        };
        function.look(now);
        let (_, taken) = state.taken(cq);
        let used = function.completions(cq).saturating_sub(taken);
        used + self.owed(number, cq) + 1 < entries.into()
    }

    /// How many completions of send requests the device owes a completion queue.
    fn owed(&mut self, number: usize, cq: u32) -> u64 {
        let (function, state) = (&mut self.functions[number], &mut self.states[number]);
        let of_cq = state.send_cqs.iter().filter(|(_, other)| **other == cq);
        of_cq
            .map(|(qp, _)| {
                let owed = state.owed.entry(*qp).or_default();
                *owed = owed.saturating_sub(function.sent(*qp));
                *owed
            })
            .sum()
    }

    /// Lets the device complete what it has, and tells it which entries the driver has taken, before the
    /// driver posts one more request for whose completion there is no room yet. Drivers post no more than
    /// there is room for, and recordings tell late what they have taken.
    pub(crate) fn make_room(&mut self, number: usize, qp: u32) {
        while !self.has_room(number, qp) {
            self.settle();
            let cq = self.states[number].send_cqs.get(&qp).copied();
            if !self.post_ahead() && !cq.is_some_and(|cq| self.take_for_one_more(number, cq)) {
                break;
            }
        }
    }

    /// Requests of a queue that the device is not known to be done with.
    fn left(&mut self, number: usize, key: (u32, WorkQueue)) -> usize {
        let now = self.sim.now();
        self.functions[number].look(now);
        let posted = self.states[number].posted.entry(key).or_default();
        if key.1 == WorkQueue::Receive {
            let received = self.functions[number].received(key.0);
            posted.drain(..received.min(posted.len()));
        }
        posted.len()
    }

    /// Whether the device is done with what stands at a place of a queue, as far as that is known; then it
    /// has the next request from here on.
    pub(crate) fn is_free(&mut self, number: usize, key: (u32, WorkQueue), place: u32) -> bool {
        self.left(number, key);
        let posted = self.states[number].posted.entry(key).or_default();
        let is_free = !posted.contains(&place);
        if is_free {
            posted.push_back(place);
        }
        is_free
    }
}
