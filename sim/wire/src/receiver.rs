//! Frames that come from a wire: a thread that checks them and gives them to the simulator.
//!
//! It takes them in batches, so that a flood cannot hold the simulator.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e810_sim::Sim;
use e810_sim::link::{Mac, mac_option};
use vmm_sys_util::eventfd::EventFd;

use crate::announcement;
use crate::counts::Counts;
use crate::ends::Ends;
use crate::frame::{self, Reject};
use crate::sender::{forget_refused, is_refused};
use crate::socket::{Ready, wait};

/// Datagrams that are received from a socket before the simulator gets them.
const BATCH: usize = 32;
/// Wait after an error of a socket, so that one that stays does not occupy a CPU.
const BACK_OFF: Duration = Duration::from_millis(10);

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
    pub(crate) known: Arc<Ends>,
    /// What goes to all comes here. The other socket has what is for this end alone.
    pub(crate) to_all: Arc<UdpSocket>,
    /// Where this end sends from.
    pub(crate) own: SocketAddr,
    /// Programs that send from the group's port share it, so that no answer reaches one alone.
    pub(crate) shared_port: u16,
    /// Addresses of the functions here.
    pub(crate) macs: Vec<Mac>,
}

/// The receiving side of a wire.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) sim: Sim,
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) source: Source,
    pub(crate) counts: Arc<Counts>,
    pub(crate) stop: Arc<EventFd>,
}

impl Receiver {
    /// Receives until `stop` says so.
    pub(crate) fn run(&self) {
        let mut buffers = vec![[0; frame::LONGEST + 1]; BATCH * 2];
        loop {
            match self.ready() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    log::error!("no further frames from the wire: {error}");
                    return;
                }
            }
            if let Err(error) = self.batch(&mut buffers) {
                if self.counts.receive_errors.one() == 0 {
                    log::warn!("receiving frames: {error}; further errors are only counted");
                }
                if self.stopped_within(BACK_OFF) {
                    return;
                }
            }
        }
    }

    /// Waits for a datagram; false when it is time to stop.
    fn ready(&self) -> io::Result<bool> {
        let (stop, own) = (self.stop.as_raw_fd(), self.socket.as_raw_fd());
        let (stop, own) = match &self.source {
            Source::Peer(_) => wait([stop, own], None).map(|[stop, own]| (stop, own))?,
            Source::Ends(segment) => {
                let fds = [stop, own, segment.to_all.as_raw_fd()];
                wait(fds, None).map(|[stop, own, _]| (stop, own))?
            }
        };
        if own.error {
            self.forget_refused();
        }
        Ok(!stop.any)
    }

    fn forget_refused(&self) {
        if let Source::Ends(segment) = &self.source {
            forget_refused(&self.socket, &segment.known);
        }
    }

    fn stopped_within(&self, limit: Duration) -> bool {
        let ready = wait([self.stop.as_raw_fd()], Some(limit));
        ready.is_ok_and(|[Ready { any, .. }]| any)
    }

    /// Takes what is there, at most as much as there are buffers, and gives it
    /// to the simulator. An error does not keep what came before it.
    fn batch(&self, buffers: &mut [Buffer]) -> io::Result<()> {
        let now = Instant::now();
        let (first, second) = buffers.split_at_mut(BATCH);
        let mut lengths = [[0; BATCH]; 2];
        let [to_all, to_us] = &mut lengths;
        // An end that learns where we are sends to us what it has sent to all before. So that the
        // simulator gets it in this order, what came to all is taken last and given first.
        let mut outcome = self.take(&self.socket, second, to_us, now);
        if let Source::Ends(segment) = &self.source {
            outcome = outcome.and(self.take(&segment.to_all, first, to_all, now));
        }
        let frames = buffers.iter().zip(lengths.as_flattened());
        let frames = frames.filter_map(|(buffer, length)| buffer.get(..*length));
        let good: Vec<&[u8]> = frames.filter(|frame| !frame.is_empty()).collect();
        if !good.is_empty() {
            let found = self.sim.receive_frames(good.iter().copied());
            self.counts.received.many(found);
            self.counts.not_ours.many(good.len() - found);
        }
        outcome
    }

    /// Takes datagrams from one socket; of those that are no good the length stays 0.
    fn take(
        &self,
        socket: &UdpSocket,
        buffers: &mut [Buffer],
        lengths: &mut [usize],
        now: Instant,
    ) -> io::Result<()> {
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
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
        let rejected = match frame::check(datagram) {
            Ok(()) => return self.is_for_functions(datagram, from, now),
            Err(Reject::NoFrame) => &counts.no_frame,
            Err(Reject::TooLong) => &counts.too_long,
            Err(Reject::Truncated) => &counts.truncated,
        };
        rejected.one();
        false
    }

    /// Learns from a frame of a segment; false if it is for the ends themselves.
    fn is_for_functions(&self, frame: &[u8], from: SocketAddr, now: Instant) -> bool {
        let Source::Ends(segment) = &self.source else {
            return true;
        };
        let source = frame.get(6..).and_then(|rest| rest.first_chunk::<6>());
        let Some(source) = source else {
            return false;
        };
        if segment.macs.contains(source) {
            if self.counts.own_addresses.one() == 0 {
                log::warn!(
                    "a frame from {from} has the source address {} of a function here: two ends of the wire have one Ethernet address (give one of them another, with --mac or mac=), or something returns frames; further ones are only counted",
                    mac_option(*source)
                );
            }
        } else if from.port() != segment.shared_port {
            segment.known.learn(*source, from, now);
        }
        !announcement::is(frame)
    }
}
