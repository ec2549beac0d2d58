//! What a driver had written before the recording has it.

use std::mem::take;

use e810_trace::Event;
use e810_trace::record::WorkQueue;

use crate::lines::{is_access, is_posted};
use crate::replay::Replay;

impl Replay<'_> {
    /// Writes the receive requests that a driver had posted before its next access, as far as their places
    /// are free here, too. Nothing says when it posted them, and a datagram that finds none is lost.
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
            let posted = self.states[number].posted.entry(key).or_default();
            if posted.contains(place) || !self.functions[number].post(event) {
                break;
            }
            posted.push_back(*place);
            self.done[index] = true;
        }
    }

    /// Writes what drivers had written before their next access, and the proxy had not seen yet. An engine
    /// that is at work on a send queue takes such a request before its doorbell. Here it may have gone to
    /// rest, so it gets a doorbell now, which changes nothing else. Whether there was anything.
    pub(crate) fn post_ahead(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.functions.len() {
            for at in self.states[number].at.. {
                let Some(index) = self.states[number].lines.get(at).copied() else {
                    break;
                };
                let event = self.lines[index].event;
                if is_access(event) {
                    break;
                }
                if is_posted(event) && !self.done[index] && self.functions[number].post(event) {
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
}
