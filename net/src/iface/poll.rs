//! The interface on its port: frames in and out, and time.

use heapless::Vec;

use super::Interface;
use crate::counters::DropReason;
use crate::port::Port;
use crate::time::{Ns, earliest};

/// Frames that one call of [`Interface::poll`] receives, and sends of its own accord, at most.
pub const FRAMES_PER_POLL: usize = 32;

/// A frame that found no room is given to the port again after this time, or with the next poll.
const HELD_TIME: Ns = Ns::from_ms(1);

impl<const N: usize, const FRAME: usize> Interface<N, FRAME> {
    /// Receives what has come in, answers it, and sends what is due. Whether the next call, at
    /// once, may find more to do.
    pub fn poll(&mut self, now: Ns, port: &mut impl Port) -> bool {
        if let Some((frame, _)) = self.held.take()
            && !self.send(&frame, now, port)
        {
            return false;
        }
        let (mut frame, mut out) = ([0; FRAME], [0; FRAME]);
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
            if let Some(reply) = reply
                && !self.send(reply, now, port)
            {
                return false;
            }
        }
        let mut sent = 0;
        while sent < FRAMES_PER_POLL
            && let Some(length) = self.next_frame(now, &mut out)
        {
            sent += 1;
            if let Some(frame) = out.get(..length)
                && !self.send(frame, now, port)
            {
                return false;
            }
        }
        received == FRAMES_PER_POLL || sent == FRAMES_PER_POLL
    }

    /// Sends a frame, or keeps it for the next poll.
    fn send(&mut self, frame: &[u8], now: Ns, port: &mut impl Port) -> bool {
        if port.transmit(frame).is_ok() {
            self.counters.sent = self.counters.sent.saturating_add(1);
            return true;
        }
        self.counters.port_full = self.counters.port_full.saturating_add(1);
        self.held = Vec::from_slice(frame)
            .ok()
            .map(|frame| (frame, now.plus(HELD_TIME)));
        false
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
        let deadlines = [
            self.held.as_ref().map(|(_, at)| *at),
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
