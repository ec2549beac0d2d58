//! Rings to other ends of a segment: the writing sides.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use e810_shared::memory::MappedMemory;
use e810_shared::ring::{Refused, Writer};
use e810_shared::seqpacket::Seqpacket;
use e810_sim::link::Mac;
use vmm_sys_util::eventfd::EventFd;

use super::handshake::{Answer, MOST, STARTED, WAKE};
use super::{MOST_RINGS, Outcome};
use crate::ends::Ends;

/// How long an end that takes no ring is not asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Ends of which it is remembered that they take no ring.
const MOST_PAUSED: usize = 256;

/// A ring to another end.
#[derive(Debug)]
struct Ring {
    at: SocketAddr,
    socket: Seqpacket,
    writer: Writer<MappedMemory>,
    state: State,
    /// Something was written that was not published.
    is_written: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The other end has not answered: frames are still datagrams.
    Offered,
    /// Frames are in the ring. The other end has to be told this number.
    Live { number: u64 },
    /// The other end reads.
    Started,
}

/// A destination, and the ring to it.
#[derive(Clone, Copy, Debug)]
struct Cached {
    mac: Mac,
    /// [`Ends::generation`] when it was looked up.
    generation: u64,
    ring: usize,
}

/// The rings to other ends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    known: Arc<Ends>,
    rings: Vec<Ring>,
    cached: Option<Cached>,
    /// Ends to which there could be a ring.
    wanted: Vec<SocketAddr>,
    /// Those to which the wire's thread makes one now.
    asked: Vec<SocketAddr>,
    /// Those that take none, and until when they are not asked.
    paused: Vec<(SocketAddr, Instant)>,
    /// Wakes the wire's thread, which makes rings.
    nudge: Arc<EventFd>,
}

impl Outgoing {
    pub(crate) fn new(known: Arc<Ends>, nudge: Arc<EventFd>) -> Self {
        Self {
            known,
            rings: Vec::new(),
            cached: None,
            wanted: Vec::new(),
            asked: Vec::new(),
            paused: Vec::new(),
            nudge,
        }
    }

    /// Writes a frame into the ring to its destination; `None` if there is no ring.
    pub(crate) fn write(&mut self, frame: &[u8]) -> Option<Outcome> {
        let ring = self.ring_to(frame)?;
        let ring = self.rings.get_mut(ring)?;
        match ring.writer.write(frame) {
            Ok(()) => {
                ring.is_written = true;
                Some(Outcome::Written)
            }
            Err(Refused::Full) => Some(Outcome::Full),
            Err(Refused::Broken) => {
                // The wire's thread sees it closed, and takes it away.
                ring.socket.shut_down();
                Some(Outcome::Full)
            }
        }
    }

    fn ring_to(&mut self, frame: &[u8]) -> Option<usize> {
        let mac = *frame.first_chunk::<6>()?;
        let generation = self.known.generation();
        if let Some(cached) = self.cached
            && (cached.mac, cached.generation) == (mac, generation)
        {
            return Some(cached.ring);
        }
        let at = self.known.linked(&mac)?;
        let is_ready = |ring: &Ring| ring.at == at && ring.state != State::Offered;
        let ring = self.rings.iter().position(is_ready)?;
        self.cached = Some(Cached {
            mac,
            generation,
            ring,
        });
        Some(ring)
    }

    /// A frame went to `at` as a datagram: a ring is wanted there.
    pub(crate) fn want(&mut self, at: SocketAddr, now: Instant) {
        let is_asked = self.rings.iter().any(|ring| ring.at == at)
            || self.wanted.contains(&at)
            || self.asked.contains(&at)
            || self.rings.len() + self.wanted.len() + self.asked.len() >= MOST_RINGS;
        let pauses = |paused: &(SocketAddr, Instant)| paused.0 == at && paused.1 > now;
        if !is_asked && !self.paused.iter().any(pauses) {
            self.wanted.push(at);
            // It is only full if the thread is to wake anyway.
            let _ = self.nudge.write(1);
        }
    }

    /// Lets readers know of what was written, and wakes those that sleep.
    pub(crate) fn publish(&mut self) {
        for ring in &mut self.rings {
            if std::mem::take(&mut ring.is_written) && ring.writer.publish() {
                // A socket that is full has wakes in it already.
                let _ = ring.socket.send(WAKE, None);
            }
        }
    }

    /// Ends to which rings are to be made. Each is [offered](Self::offered) one then, or is
    /// [paused](Self::pause).
    pub(super) fn take_wanted(&mut self) -> Vec<SocketAddr> {
        self.asked = std::mem::take(&mut self.wanted);
        self.asked.clone()
    }

    /// A ring was offered to the end at `at`.
    pub(super) fn offered(
        &mut self,
        at: SocketAddr,
        socket: Seqpacket,
        writer: Writer<MappedMemory>,
    ) {
        self.asked.retain(|asked| *asked != at);
        self.rings.push(Ring {
            at,
            socket,
            writer,
            state: State::Offered,
            is_written: false,
        });
    }

    /// The end at `at` takes no ring.
    pub(super) fn pause(&mut self, at: SocketAddr, now: Instant) {
        self.asked.retain(|asked| *asked != at);
        self.paused
            .retain(|paused| paused.0 != at && paused.1 > now);
        if self.paused.len() < MOST_PAUSED {
            self.paused.push((at, now + PAUSE));
        }
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.rings.iter().map(|ring| ring.socket.as_raw_fd())
    }

    /// Reads what ends have said; of `is_ready` in the order of [`Self::fds`]. Returns those that now
    /// have to be told a number, from which on their frames are in rings.
    pub(super) fn hear(&mut self, is_ready: impl Iterator<Item = bool>, now: Instant) {
        let ready: Vec<bool> = is_ready.collect();
        let mut gone = Vec::new();
        for (ring, _) in self.rings.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if !ring.hear(&self.known, now) {
                gone.push(ring.at);
            }
        }
        self.cached = None;
        for at in gone {
            log::debug!("no ring to the end {at} of the wire any more");
            self.rings.retain(|ring| ring.at != at);
            self.known.forget(at);
            self.pause(at, now);
        }
    }

    /// The ends that have to be told a number, again until they say that they have read it.
    pub(super) fn to_tell(&self) -> impl Iterator<Item = (SocketAddr, u64)> {
        self.rings.iter().filter_map(|ring| match ring.state {
            State::Live { number } => Some((ring.at, number)),
            State::Offered | State::Started => None,
        })
    }

    pub(crate) fn count(&self) -> usize {
        let live = |ring: &&Ring| ring.state != State::Offered;
        self.rings.iter().filter(live).count()
    }
}

impl Ring {
    /// Reads what the other end has said; false if it is gone, or says what it should not.
    fn hear(&mut self, known: &Ends, now: Instant) -> bool {
        let mut bytes = [0; MOST];
        // No end says more.
        for _ in 0..2 {
            let length = match self.socket.receive(&mut bytes) {
                Ok((0, _)) => return false,
                Ok((length, _)) => length,
                Err(error) => {
                    let kind = error.kind();
                    return matches!(
                        kind,
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    );
                }
            };
            let said = bytes.get(..length).unwrap_or_default();
            self.state = match self.state {
                State::Offered => match Answer::of_bytes(said) {
                    Some(answer) => {
                        known.link(self.at, answer.macs, now);
                        State::Live {
                            number: answer.number,
                        }
                    }
                    None => return false,
                },
                State::Live { .. } if said == STARTED => State::Started,
                State::Live { .. } | State::Started => return false,
            };
        }
        true
    }
}
