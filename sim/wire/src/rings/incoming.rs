//! Rings from other ends of a segment: the reading sides.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use e810_shared::memory::MappedMemory;
use e810_shared::ring::{Copied, Reader};
use e810_shared::seqpacket::Seqpacket;
use e810_sim::link::Mac;

use super::handshake::{MOST, STARTED};
use crate::hearing::Hearing;

/// Frames that one call takes from a ring before it looks at the others.
const TURN: usize = 32;
/// Messages of a writer that are read at once.
const MESSAGES: usize = 8;

/// A ring from another end.
#[derive(Debug)]
struct Ring {
    /// Where the writer sends datagrams from.
    at: SocketAddr,
    socket: Seqpacket,
    reader: Reader<MappedMemory>,
    /// What the writer has to say from its port.
    number: u64,
    state: State,
    /// The source of the last frame, and [`Ends::generation`](crate::ends::Ends::generation) when it
    /// was learned.
    heard: Option<(Mac, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// There may be datagrams before the frames in it.
    Offered,
    /// The writer has told the number.
    Told,
    /// It is read.
    Started,
    /// The writer is gone; what it has written is read.
    Ended,
    /// Nothing of it is read any more.
    Broken,
}

/// The rings from other ends.
#[derive(Debug)]
pub(crate) struct Incoming {
    hearing: Arc<Hearing>,
    rings: Vec<Ring>,
    /// Which is read first the next time.
    first: usize,
    copied: Box<Copied>,
}

impl Incoming {
    pub(crate) fn new(hearing: Arc<Hearing>) -> Self {
        Self {
            hearing,
            rings: Vec::new(),
            first: 0,
            copied: Box::new([0; size_of::<Copied>()]),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.rings.len()
    }

    pub(super) fn has_ring(&self, at: SocketAddr) -> bool {
        self.rings.iter().any(|ring| ring.at == at)
    }

    /// A ring of the end at `at`, which has to tell `number` from there.
    pub(super) fn offered(
        &mut self,
        at: SocketAddr,
        socket: Seqpacket,
        reader: Reader<MappedMemory>,
        number: u64,
    ) {
        self.rings.push(Ring {
            at,
            socket,
            reader,
            number,
            state: State::Offered,
            heard: None,
        });
    }

    /// The end at `at` has told a number.
    pub(crate) fn told(&mut self, at: SocketAddr, number: u64) {
        let ring = self.rings.iter_mut().find(|ring| ring.at == at);
        let offered = ring.filter(|ring| ring.state == State::Offered && ring.number == number);
        if let Some(ring) = offered {
            ring.state = State::Told;
        }
    }

    /// The datagrams that came before the numbers were told have been given to functions: rings are
    /// read from now on.
    pub(crate) fn start(&mut self) {
        for ring in &mut self.rings {
            if ring.state == State::Told {
                ring.state = State::Started;
                // If the writer is gone, its socket says so.
                let _ = ring.socket.send(STARTED, None);
            }
        }
    }

    /// Whether a ring waits for [`Self::start`].
    pub(crate) fn is_told(&self) -> bool {
        self.rings.iter().any(|ring| ring.state == State::Told)
    }

    /// Gives frames to `each` until it returns false, `most` at most.
    pub(crate) fn take(&mut self, most: usize, each: &mut dyn FnMut(&[u8]) -> bool) {
        let mut left = most;
        let count = self.rings.len();
        let first = std::mem::take(&mut self.first);
        for index in 0..count {
            let index = (first + index) % count;
            let Some(ring) = self.rings.get_mut(index) else {
                continue;
            };
            if !matches!(ring.state, State::Started | State::Ended) || !ring.reader.has_frames() {
                continue;
            }
            if left == 0 {
                self.first = index;
                return;
            }
            let (hearing, at) = (&*self.hearing, ring.at);
            // An end that is gone has no addresses any more.
            let mut heard = (ring.state == State::Started).then_some(&mut ring.heard);
            let taken = ring.reader.take(left.min(TURN), &mut self.copied, |frame| {
                let is_heard = hearing.hear_by_ring(frame, at, heard.as_deref_mut());
                if !is_heard {
                    return true;
                }
                let is_taken = each(frame);
                if is_taken {
                    hearing.count_by_ring(frame);
                }
                is_taken
            });
            match taken {
                Ok(taken) => left = left.saturating_sub(taken),
                Err(_) => {
                    log::warn!(
                        "the end {at} of the wire has written into its ring what cannot be: it is not read any more"
                    );
                    ring.state = State::Broken;
                    // The wire's thread sees it closed, and takes it away.
                    ring.socket.shut_down();
                }
            }
        }
        if count > 1 {
            self.first = (first + 1) % count;
        }
    }

    /// The wire's thread is about to sleep: returns whether there is nothing to read. From then on it
    /// is woken.
    pub(crate) fn begin_sleep(&self) -> bool {
        for ring in self.read() {
            ring.reader.begin_sleep();
        }
        let is_idle = !self.read().any(|ring| ring.reader.has_frames());
        if !is_idle {
            self.end_sleep();
        }
        is_idle
    }

    pub(crate) fn end_sleep(&self) {
        for ring in self.read() {
            ring.reader.end_sleep();
        }
    }

    fn read(&self) -> impl Iterator<Item = &Ring> {
        let is_read = |ring: &&Ring| matches!(ring.state, State::Started | State::Ended);
        self.rings.iter().filter(is_read)
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.rings.iter().map(|ring| ring.socket.as_raw_fd())
    }

    /// Reads what writers have said; of `is_ready` in the order of [`Self::fds`]. `is_drained`: all
    /// datagrams that came before were received, and numbers were told if they were sent.
    pub(super) fn hear(&mut self, is_ready: impl Iterator<Item = bool>, is_drained: bool) {
        for (ring, _) in self
            .rings
            .iter_mut()
            .zip(is_ready)
            .filter(|(_, ready)| *ready)
        {
            if ring.is_gone() {
                match ring.state {
                    // A writer may have ended before it told its number: all its datagrams are here,
                    // so what it has written comes next.
                    State::Offered if !is_drained => {}
                    State::Started | State::Offered => {
                        ring.reader.end();
                        ring.state = State::Ended;
                    }
                    // It is started first.
                    State::Told => {}
                    State::Ended | State::Broken => {}
                }
            }
        }
    }

    /// Takes away rings of which nothing is to be read any more.
    pub(super) fn clean(&mut self) {
        let known = &self.hearing.known;
        self.rings.retain(|ring| {
            let stays = match ring.state {
                State::Ended => ring.reader.has_frames(),
                State::Broken => false,
                _ => true,
            };
            if !stays {
                known.forget(ring.at);
            }
            stays
        });
    }
}

impl Ring {
    /// Reads wakes; whether the writer is gone.
    fn is_gone(&self) -> bool {
        let mut bytes = [0; MOST];
        for _ in 0..MESSAGES {
            match self.socket.receive(&mut bytes) {
                Ok((0, _)) => return true,
                // All are wakes.
                Ok(_) => {}
                Err(error) => {
                    let kind = error.kind();
                    return !matches!(
                        kind,
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    );
                }
            }
        }
        false
    }
}
