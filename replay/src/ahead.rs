//! What a driver had written before the recording has it.

use std::mem::take;

use e810_trace::Event;
use e810_trace::record::WorkQueue;

use crate::lines::{is_access, is_posted};
use crate::replay::{DOORBELLS, Replay, register};

/// So few receive requests are left that the next ones come before their turn.
const FEW: usize = 16;

/// Whether this is a doorbell of a send queue. Those of a virtual machine come late: its processor does
/// not wait for them.
fn is_doorbell(event: &Event) -> bool {
    let Event::Write { offset, .. } = event else {
        return false;
    };
    register(*offset).is_some_and(|offset| DOORBELLS.contains(&offset))
}

impl Replay<'_> {
    /// Writes the receive requests that a driver had posted before its next access, as far as their places
    /// are free here, too, and few are left. Nothing says when it posted them, and a datagram that finds
    /// none is lost. With many, a completion queue would overflow whose entries the driver has taken.
    pub(crate) fn post_receives(&mut self, number: usize) {
        for at in self.states[number].at.. {
            let Some(index) = self.states[number].lines.get(at).copied() else {
                break;
            };
            let event = self.lines[index].event;
            if is_access(event) {
                break;
            }
            let Event::Wqe {
                qp,
                queue: WorkQueue::Receive,
                index: place,
                ..
            } = event
            else {
                continue;
            };
            if self.done[index] {
                continue;
            }
            let key = (*qp, WorkQueue::Receive);
            if self.left(number, key) >= FEW
                || !self.is_free(number, key, *place)
                || !self.functions[number].post(event)
            {
                break;
            }
            self.done[index] = true;
        }
    }

    /// Writes what drivers had written before their next access, and the proxy had not seen yet. An engine
    /// that is at work on a send queue takes such a request before its doorbell. Here it may have gone to
    /// rest, so it gets a doorbell now, which changes nothing else. Whether there was anything.
    pub(crate) fn post_ahead(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.functions.len() {
            let mut is_rung = false;
            for at in self.states[number].at.. {
                let Some(index) = self.states[number].lines.get(at).copied() else {
                    break;
                };
                let event = self.lines[index].event;
                // What comes behind a doorbell may be there, too, unless the driver has waited for it.
                is_rung |= is_doorbell(event);
                let is_waited_for = is_rung && event.answer().is_some();
                if is_access(event) && !is_doorbell(event) || is_waited_for {
                    break;
                }
                if !is_posted(event) || self.done[index] {
                    continue;
                }
                if let Event::Wqe {
                    qp,
                    queue,
                    index: place,
                    ..
                } = event
                    && !self.is_free(number, (*qp, *queue), *place)
                {
                    break;
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
