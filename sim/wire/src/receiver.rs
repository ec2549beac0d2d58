//! Frames that come from a wire: a thread that checks them and gives them to the simulator.
//!
//! It takes them in batches, so that a flood cannot hold the simulator.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e810_sim::Sim;
use vmm_sys_util::eventfd::EventFd;

use crate::announcement;
use crate::counts::Counts;
use crate::frame;
use crate::hearing::{Hearing, is_frame};
use crate::pace::Pace;
use crate::rings::Rings;
use crate::sender::{forget_refused, is_refused};
use crate::socket::{Ready, polled, wait, wait_all};

/// Datagrams that are received from a socket before the simulator gets them.
const BATCH: usize = 32;
/// Wait after an error of a socket, so that one that stays does not occupy a CPU.
const BACK_OFF: Duration = Duration::from_millis(10);
/// Descriptors that are no rings', and the place of this end's own among them.
const OTHERS: usize = 3;
const OWN: usize = 1;

/// One byte more than a frame has: a longer datagram is known by it.
type Buffer = [u8; frame::LONGEST + 1];

/// Whose frames are taken.
#[derive(Debug)]
pub(crate) enum Source {
    /// Those of the other end of a pair.
    Peer(SocketAddr),
    /// Those of all other ends of a segment.
    Ends(Segment),
}

/// What the receiver of a segment knows of it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) hearing: Arc<Hearing>,
    /// What goes to all comes here. The other socket has what is for this end alone.
    pub(crate) to_all: Arc<UdpSocket>,
    /// Where this end sends from.
    pub(crate) own: SocketAddr,
}

/// The receiving side of a wire.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) sim: Sim,
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) source: Source,
    pub(crate) counts: Arc<Counts>,
    pub(crate) stop: Arc<EventFd>,
    /// Rings of a segment.
    pub(crate) rings: Option<Rings>,
}

/// Which sockets had no more datagrams.
#[derive(Clone, Copy, Debug)]
struct Drained {
    own: bool,
    to_all: bool,
}

impl Receiver {
    /// Receives until `stop` says so.
    pub(crate) fn run(mut self) {
        let mut buffers = vec![[0; frame::LONGEST + 1]; BATCH * 2];
        let mut pace = Pace::default();
        let mut polls = Vec::new();
        let mut ready = Vec::new();
        loop {
            match self.wait(pace.limit(), &mut polls, &mut ready) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    log::error!("no further frames from the wire: {error}");
                    return;
                }
            }
            let drained = match self.batch(&mut buffers) {
                Ok(drained) => drained,
                Err(error) => {
                    if self.counts.receive_errors.one() == 0 {
                        log::warn!("receiving frames: {error}; further errors are only counted");
                    }
                    if self.stopped_within(BACK_OFF) {
                        return;
                    }
                    continue;
                }
            };
            if let Some(rings) = &mut self.rings {
                if drained.to_all {
                    rings.incoming().start();
                }
                let ready = ready.get(OTHERS..).unwrap_or_default();
                rings.handle(ready, drained.own, Instant::now());
                let found = self.sim.take_from_uplink();
                let looks_again = pace.follow(found, &rings.incoming(), Instant::now());
                pace.at_most(rings.limit());
                if looks_again {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Waits until there is something to do; false when it is time to stop.
    fn wait(
        &mut self,
        limit: Option<Duration>,
        polls: &mut Vec<libc::pollfd>,
        ready: &mut Vec<bool>,
    ) -> io::Result<bool> {
        polls.clear();
        let to_all = match &self.source {
            // A negative descriptor is passed over.
            Source::Peer(_) => -1,
            Source::Ends(segment) => segment.to_all.as_raw_fd(),
        };
        let others: [_; OTHERS] = [self.stop.as_raw_fd(), self.socket.as_raw_fd(), to_all];
        polls.extend(others.map(polled));
        if let Some(rings) = &mut self.rings {
            rings.list(polls);
        }
        ready.clear();
        ready.resize(polls.len(), false);
        let mut has_error = false;
        wait_all(polls, limit, |at, one: Ready| {
            has_error |= at == OWN && one.error;
            if let Some(place) = ready.get_mut(at) {
                *place = one.any;
            }
        })?;
        if has_error {
            self.forget_refused();
        }
        Ok(ready.first() != Some(&true))
    }

    fn forget_refused(&self) {
        if let Source::Ends(segment) = &self.source {
            forget_refused(&self.socket, &segment.hearing.known);
        }
    }

    fn stopped_within(&self, limit: Duration) -> bool {
        let ready = wait([self.stop.as_raw_fd()], Some(limit));
        ready.is_ok_and(|[Ready { any, .. }]| any)
    }

    /// Takes what is there, at most as much as there are buffers, and gives it
    /// to the simulator. An error does not keep what came before it.
    fn batch(&self, buffers: &mut [Buffer]) -> io::Result<Drained> {
        let now = Instant::now();
        let (first, second) = buffers.split_at_mut(BATCH);
        let mut lengths = [[0; BATCH]; 2];
        let [to_all, to_us] = &mut lengths;
        // An end that learns where we are sends to us what it has sent to all before. So that the
        // simulator gets it in this order, what came to all is taken last and given first.
        let own = self.take(&self.socket, second, to_us, now);
        let all = match &self.source {
            Source::Ends(segment) => self.take(&segment.to_all, first, to_all, now),
            Source::Peer(_) => Ok(true),
        };
        let frames = buffers.iter().zip(lengths.as_flattened());
        let frames = frames.filter_map(|(buffer, length)| buffer.get(..*length));
        let good: Vec<&[u8]> = frames.filter(|frame| !frame.is_empty()).collect();
        if !good.is_empty() {
            let found = self.sim.receive_frames(good.iter().copied());
            self.counts.received.many(found);
            self.counts.not_ours.many(good.len() - found);
        }
        Ok(Drained {
            own: own?,
            to_all: all?,
        })
    }

    /// Takes datagrams from one socket; of those that are no good the length stays 0. Returns
    /// whether there are no more.
    fn take(
        &self,
        socket: &UdpSocket,
        buffers: &mut [Buffer],
        lengths: &mut [usize],
        now: Instant,
    ) -> io::Result<bool> {
        for (buffer, length) in buffers.iter_mut().zip(lengths) {
            let received = socket.recv_from(buffer);
            if is_refused(&received) {
                self.forget_refused();
                continue;
            }
            match received {
                Ok((bytes, from)) => {
                    let datagram = buffer.get(..bytes).unwrap_or_default();
                    if self.is_good(datagram, from, now) {
                        *length = bytes;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether a datagram is a frame for the simulator.
    pub(crate) fn is_good(&self, datagram: &[u8], from: SocketAddr, now: Instant) -> bool {
        let counts = &self.counts;
        let is_known = match &self.source {
            // Not the flow and the scope of an IPv6 address.
            Source::Peer(peer) => (from.ip(), from.port()) == (peer.ip(), peer.port()),
            // What this end sends to all it gets as well.
            Source::Ends(segment) if from == segment.own => return false,
            Source::Ends(_) => from.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        if !is_known {
            counts.strangers.one();
            return false;
        }
        if !is_frame(datagram, counts) {
            return false;
        }
        let Source::Ends(segment) = &self.source else {
            return true;
        };
        if let (Some(number), Some(rings)) = (announcement::ring(datagram), &self.rings) {
            rings.incoming().told(from, number);
        }
        segment.hearing.hear(datagram, from, now)
    }
}
