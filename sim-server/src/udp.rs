//! The simulated wire over UDP: one Ethernet frame a datagram, as the engine
//! sent it, with nothing of ours around it.
//!
//! It is a wire: what the sockets cannot take is lost, and the engines repair
//! it. A sender is a frame's hook and does not block; a thread of its own
//! receives, in batches, so that a flood cannot hold the simulator. Only
//! datagrams from the peer's address and port are accepted.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use e810_sim::Sim;
use e810_sim::udp::UdpEnds;
use e810_sim::udp::frame::{self, Reject};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::report::UdpReport;
use crate::socket_buffers::{self, Buffers};

/// Datagrams that are received before the simulator gets them.
const BATCH: usize = 32;
/// Longest wait after an error of the socket, in ms, so that one that stays
/// does not occupy a CPU.
const BACK_OFF: libc::c_int = 10;

/// What passed, and what did not.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    not_sent: AtomicU64,
    received: AtomicU64,
    not_ours: AtomicU64,
    strangers: AtomicU64,
    no_frame: AtomicU64,
    too_long: AtomicU64,
    truncated: AtomicU64,
    receive_errors: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A wire to another server; the simulator loses it with this.
#[derive(Debug)]
pub(crate) struct UdpWire {
    sim: Sim,
    ends: UdpEnds,
    socket: Arc<UdpSocket>,
    buffers: Buffers,
    counts: Arc<Counts>,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl UdpWire {
    /// Joins the wire of `sim` to the peer's.
    ///
    /// # Errors
    /// The local address cannot be had, or no thread.
    pub(crate) fn join(sim: &Sim, ends: UdpEnds) -> Result<Self> {
        let socket = UdpSocket::bind(ends.local)
            .with_context(|| format!("receiving frames at {}", ends.local))?;
        socket.set_nonblocking(true)?;
        let buffers = socket_buffers::enlarge(&socket).context("sizing the wire's buffers")?;
        let socket = Arc::new(socket);
        let counts = Arc::<Counts>::default();
        let stop = Arc::new(EventFd::new(EFD_NONBLOCK)?);
        let receiver = Receiver {
            sim: sim.clone(),
            socket: Arc::clone(&socket),
            peer: ends.peer,
            counts: Arc::clone(&counts),
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .name("e810-udp".to_owned())
            .spawn(move || receiver.run())?;
        let mut sender = Sender {
            socket: Arc::clone(&socket),
            peer: ends.peer,
            counts: Arc::clone(&counts),
            warned: false,
        };
        sim.set_uplink(Some(Box::new(move |frame| sender.send(frame))));
        Ok(Self {
            sim: sim.clone(),
            ends,
            socket,
            buffers,
            counts,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn report(&self) -> UdpReport {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        UdpReport {
            local: self.ends.local.to_string(),
            peer: self.ends.peer.to_string(),
            sent: get(&counts.sent),
            not_sent: get(&counts.not_sent),
            received: get(&counts.received),
            not_ours: get(&counts.not_ours),
            strangers: get(&counts.strangers),
            no_frame: get(&counts.no_frame),
            too_long: get(&counts.too_long),
            truncated: get(&counts.truncated),
            receive_errors: get(&counts.receive_errors),
            receive_overflows: socket_buffers::dropped(&self.socket),
            receive_buffer: self.buffers.receive,
            send_buffer: self.buffers.send,
        }
    }
}

impl Drop for UdpWire {
    fn drop(&mut self) {
        self.sim.set_uplink(None);
        if let Err(error) = self.stop.write(1) {
            log::error!("the UDP thread cannot be stopped: {error}");
            return;
        }
        // A panic of the thread was already printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Sender {
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    counts: Arc<Counts>,
    warned: bool,
}

impl Sender {
    fn send(&mut self, frame: &[u8]) {
        match self.socket.send_to(frame, self.peer) {
            Ok(_) => count(&self.counts.sent),
            Err(error) => {
                count(&self.counts.not_sent);
                if !std::mem::replace(&mut self.warned, true) {
                    log::warn!(
                        "a frame for {} was not sent: {error}; further ones are only counted",
                        self.peer
                    );
                }
            }
        }
    }
}

struct Receiver {
    sim: Sim,
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    counts: Arc<Counts>,
    stop: Arc<EventFd>,
}

impl Receiver {
    fn run(&self) {
        let warned = AtomicBool::new(false);
        // One byte more than a frame has: a longer datagram is known by it.
        let mut buffers = vec![[0; frame::LONGEST + 1]; BATCH];
        loop {
            match self.ready() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    log::error!("no further frames from {}: {error}", self.peer);
                    return;
                }
            }
            if let Err(error) = self.batch(&mut buffers) {
                count(&self.counts.receive_errors);
                if !warned.swap(true, Ordering::Relaxed) {
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
        let mut polls = [self.stop.as_raw_fd(), self.socket.as_raw_fd()].map(wanted);
        // SAFETY: two entries, alive for the call.
        while unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(polls[0].revents == 0)
    }

    fn stopped_within(&self, limit: libc::c_int) -> bool {
        let mut poll = wanted(self.stop.as_raw_fd());
        // SAFETY: one entry, alive for the call.
        unsafe { libc::poll(&raw mut poll, 1, limit) == 1 }
    }

    /// Takes what is there, at most as much as there are buffers, and gives it
    /// to the simulator. An error does not keep what came before it.
    fn batch(&self, buffers: &mut [[u8; frame::LONGEST + 1]]) -> io::Result<()> {
        let mut lengths = [0; BATCH];
        let mut outcome = Ok(());
        for (buffer, length) in buffers.iter_mut().zip(&mut lengths) {
            match self.socket.recv_from(buffer) {
                Ok((bytes, from)) => {
                    let datagram = buffer.get(..bytes).unwrap_or_default();
                    if self.is_good(datagram, from) {
                        *length = bytes;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let frames = buffers.iter().zip(lengths);
        let frames = frames.filter_map(|(buffer, length)| buffer.get(..length));
        let good: Vec<&[u8]> = frames.filter(|frame| !frame.is_empty()).collect();
        if !good.is_empty() {
            let all = good.len();
            let found = self.sim.receive_frames(good);
            let counts = &self.counts;
            counts.received.fetch_add(found as u64, Ordering::Relaxed);
            let rest = (all - found) as u64;
            counts.not_ours.fetch_add(rest, Ordering::Relaxed);
        }
        outcome
    }

    fn is_good(&self, datagram: &[u8], from: SocketAddr) -> bool {
        let counts = &self.counts;
        // Not the flow and the scope of an IPv6 address.
        if (from.ip(), from.port()) != (self.peer.ip(), self.peer.port()) {
            count(&counts.strangers);
            return false;
        }
        match frame::check(datagram) {
            Ok(()) => return true,
            Err(Reject::NoFrame) => count(&counts.no_frame),
            Err(Reject::TooLong) => count(&counts.too_long),
            Err(Reject::Truncated) => count(&counts.truncated),
        }
        false
    }
}

fn wanted(fd: libc::c_int) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_socket_does_not_take_is_lost_and_counted() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sender = Sender {
            socket: Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()),
            peer: there.local_addr().unwrap(),
            counts: Arc::default(),
            warned: false,
        };
        // No datagram is that long.
        sender.send(&[0; 70_000]);
        assert!(sender.warned);
        sender.send(&[0; 70_000]);
        sender.send(&[7; 60]);
        let counts = &sender.counts;
        assert_eq!(counts.not_sent.load(Ordering::Relaxed), 2);
        assert_eq!(counts.sent.load(Ordering::Relaxed), 1);
        let mut buffer = [0; 100];
        assert_eq!(there.recv(&mut buffer).unwrap(), 60);
        assert_eq!(buffer[..60], [7; 60]);
    }
}
