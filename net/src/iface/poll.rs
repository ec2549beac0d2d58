//! The interface on its port: frames in and out, and time.

use heapless::Vec;

use super::Interface;
use crate::counters::DropReason;
use crate::neighbour::Places;
use crate::port::Port;
use crate::time::{Ns, earliest};

/// Frames that one call of [`Interface::poll`] receives, and sends of its own accord, at most.
pub const FRAMES_PER_POLL: usize = 32;

/// A frame that found no room is given to the port again after this time, or with the next poll.
const HELD_TIME: Ns = Ns::from_ms(1);
/// A port that has taken no frame for this long takes none for now: its link is down, or its queue
/// hangs. Others do not wait for it then.
const STUCK_TIME: Ns = Ns::from_ms(100);

/// A frame that the port had no room for.
#[derive(Clone, Debug)]
pub(super) struct Held<const FRAME: usize> {
    frame: Vec<u8, FRAME>,
    /// When it is given to the port again.
    again: Ns,
    /// When it was given to it first.
    since: Ns,
}

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// Receives what has come in, answers it, and sends what is due. Whether the next call, at
    /// once, may find more to do.
    ///
    /// Where the port takes no frame, the one is kept for the next call, and what comes in waits
    /// in the port. After a tenth of a second without room, frames are received all the same, and
    /// time passes for neighbours, pings and lifetimes; what should be sent is counted
    /// ([`Counters::port_full`](crate::Counters::port_full)) and lost. Own addresses are probed for
    /// and announced, and groups reported, when there is room again.
    pub fn poll(&mut self, now: Ns, port: &mut impl Port) -> bool {
        if let Some(held) = self.held.take()
            && !self.send(&held.frame, held.since, now, port)
            && now - held.since < STUCK_TIME
        {
            return false;
        }
        let (mut frame, mut out) = ([0; FRAME], [0; FRAME]);
        let was_stuck = self.held.is_some();
        let mut received = 0;
        while received < FRAMES_PER_POLL
            && let Some(length) = port.receive(&mut frame)
        {
            received += 1;
            let reply = match frame.get(..length) {
                Some(frame) => self.handle(now, frame, &mut out),
                None => {
                    self.counters.received = self.counters.received.saturating_add(1);
                    self.counters.drop(DropReason::Oversize);
                    None
                }
            };
            let reply = reply.and_then(|length| out.get(..length));
            if let Some(reply) = reply {
                match was_stuck {
                    true => self.lose(),
                    false if !self.send(reply, now, now, port) => return false,
                    false => {}
                }
            }
        }
        if was_stuck {
            self.expire(now);
            while self.neighbours.due(now, &mut self.events).is_some() {
                self.lose();
            }
            return received == FRAMES_PER_POLL;
        }
        let mut sent = 0;
        while sent < FRAMES_PER_POLL
            && let Some(length) = self.next_frame(now, &mut out)
        {
            sent += 1;
            if let Some(frame) = out.get(..length)
                && !self.send(frame, now, now, port)
            {
                return false;
            }
        }
        received == FRAMES_PER_POLL || sent == FRAMES_PER_POLL
    }

    /// Sends a frame that was there at `since`, or keeps it for the next poll.
    fn send(&mut self, frame: &[u8], since: Ns, now: Ns, port: &mut impl Port) -> bool {
        if port.transmit(frame).is_ok() {
            self.counters.sent = self.counters.sent.saturating_add(1);
            return true;
        }
        self.lose();
        let frame = Vec::from_slice(frame).ok();
        self.held = frame.map(|frame| Held {
            frame,
            again: now + HELD_TIME,
            since,
        });
        false
    }

    /// Counts a frame that the port did not take.
    const fn lose(&mut self) {
        self.counters.port_full = self.counters.port_full.saturating_add(1);
    }

    /// Takes one frame; the length of the reply that it wrote to `out`, if there is one.
    ///
    /// [`poll`](Self::poll) is made of this and of [`next_frame`](Self::next_frame), for a
    /// caller that has frames but no port.
    pub fn handle(&mut self, now: Ns, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        self.counters.received = self.counters.received.saturating_add(1);
        match self.receive(now, frame, out) {
            Ok(reply) => reply,
            Err(reason) => {
                self.counters.drop(reason);
                None
            }
        }
    }

    /// The length of the next frame that is due, written to `out`. Nothing more is due now when
    /// there is none.
    pub fn next_frame(&mut self, now: Ns, out: &mut [u8]) -> Option<usize> {
        self.expire(now);
        if let Some(length) = self.address_frame(now, out) {
            return Some(length);
        }
        if let Some(length) = self.report_frame(now, out) {
            return Some(length);
        }
        if let Some(length) = self.neighbour_frame(now, out) {
            return Some(length);
        }
        if let Some(length) = self.router_frame(now, out) {
            return Some(length);
        }
        if let Some(length) = self.ping_frame(now, out) {
            return Some(length);
        }
        // What a ping has just asked for.
        self.neighbour_frame(now, out)
    }

    /// When [`poll`](Self::poll) next has something to do, if no frame comes in before and
    /// nothing is asked of the interface.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Ns> {
        if let Some(held) = &self.held {
            // What else is due waits, or passes with the next try.
            return Some(held.again);
        }
        let deadlines = [
            self.addresses.deadline(),
            self.groups.deadline(),
            self.neighbours.deadline(),
            self.routers.next,
            self.routers.defaults.deadline(),
            self.routers.on_link.deadline(),
            self.paths.deadline(),
            self.pings.deadline(),
        ];
        deadlines.into_iter().fold(None, earliest)
    }
}
