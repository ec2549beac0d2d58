//! The part of the wire's thread that makes rings and takes them away.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use e810_shared::memory::SharedMemory;
use e810_shared::ring::{Reader, Writer};
use e810_shared::seqpacket::{Acceptor, Address, Seqpacket, own_uid};
use e810_sim::link::Mac;
use vmm_sys_util::eventfd::EventFd;

use super::handshake::{Answer, MOST, Offer, name};
use super::{FILE, Incoming, MOST_RINGS};
use crate::mac::drawn;
use crate::name::WireName;
use crate::sender::Sender;
use crate::socket::polled;

/// Ends that have connected and offered nothing yet. A further one takes the place of the first.
const GREETING: usize = MOST_RINGS;
/// Connections that are accepted at once.
const ACCEPTED: usize = 8;
/// How often an end is told the number of a ring.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// What the wire's thread knows of rings.
#[derive(Debug)]
pub(crate) struct Rings {
    wire: WireName,
    /// Where this end sends from.
    own: SocketAddr,
    macs: Vec<Mac>,
    acceptor: Acceptor,
    greeting: Vec<Seqpacket>,
    nudge: Arc<EventFd>,
    incoming: Arc<Mutex<Incoming>>,
    sender: Arc<Mutex<Sender>>,
    /// When ends were last told numbers.
    told: Option<Instant>,
    /// Rings each way when the descriptors were listed.
    listed: (usize, usize, usize),
}

/// Where other ends connect to the end at `own`, to offer rings.
///
/// # Errors
/// The system's; [`io::ErrorKind::AddrInUse`] if a program has taken the name of this end.
pub(crate) fn listen(wire: &WireName, own: SocketAddr) -> io::Result<Acceptor> {
    let acceptor = Acceptor::bind(&Address::of_name(&name(wire, own))?)?;
    acceptor.listen()?;
    Ok(acceptor)
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rings {
    /// Takes rings of other ends, which connect to `acceptor`.
    pub(crate) fn new(
        acceptor: Acceptor,
        (wire, own, macs): (&WireName, SocketAddr, Vec<Mac>),
        nudge: Arc<EventFd>,
        incoming: Arc<Mutex<Incoming>>,
        sender: Arc<Mutex<Sender>>,
    ) -> Self {
        Self {
            wire: wire.clone(),
            own,
            macs,
            acceptor,
            greeting: Vec::new(),
            nudge,
            incoming,
            sender,
            told: None,
            listed: (0, 0, 0),
        }
    }

    pub(crate) fn incoming(&self) -> MutexGuard<'_, Incoming> {
        locked(&self.incoming)
    }

    /// Adds what is to be waited for.
    pub(crate) fn list(&mut self, polls: &mut Vec<libc::pollfd>) {
        polls.push(polled(self.nudge.as_raw_fd()));
        polls.push(polled(self.acceptor.as_raw_fd()));
        let start = polls.len();
        polls.extend(self.greeting.iter().map(|one| polled(one.as_raw_fd())));
        let greeting = polls.len() - start;
        polls.extend(locked(&self.incoming).fds().map(polled));
        let incoming = polls.len() - start - greeting;
        if let Some(outgoing) = &locked(&self.sender).outgoing {
            polls.extend(outgoing.fds().map(polled));
        }
        let outgoing = polls.len() - start - greeting - incoming;
        self.listed = (greeting, incoming, outgoing);
    }

    /// Does what there is to do at the descriptors that were listed. `is_drained`: this end has
    /// received all datagrams that others had sent to it before.
    pub(crate) fn handle(&mut self, ready: &[bool], is_drained: bool, now: Instant) {
        let [nudge, acceptor, rest @ ..] = ready else {
            return;
        };
        if *nudge {
            // Before it is looked what is wanted; only this thread reads it.
            let _ = self.nudge.read();
        }
        let (greeting, incoming, outgoing) = self.listed;
        let part = |from: usize, count: usize| {
            let part = rest.get(from..from + count).unwrap_or_default();
            part.iter().copied()
        };
        let incoming_ready = part(greeting, incoming);
        let mut rings = locked(&self.incoming);
        rings.hear(incoming_ready, is_drained);
        rings.clean();
        drop(rings);
        let heard = part(greeting + incoming, outgoing).any(|ready| ready);
        let mut sender = locked(&self.sender);
        let mut wanted = Vec::new();
        if let Some(outgoing_rings) = &mut sender.outgoing {
            if heard {
                outgoing_rings.hear(part(greeting + incoming, outgoing), now);
            }
            wanted = outgoing_rings.take_wanted();
        }
        drop(sender);
        let greeting_ready: Vec<bool> = part(0, greeting).collect();
        self.greet(&greeting_ready);
        if *acceptor {
            self.accept();
        }
        for at in wanted {
            self.offer(at, now);
        }
        self.tell(heard, now);
    }

    /// How long the thread may wait.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.told.map(|_| TELL_EVERY)
    }

    /// Tells numbers until they were heard: at once if there are new ones.
    fn tell(&mut self, is_new: bool, now: Instant) {
        let sender = locked(&self.sender);
        let Some(outgoing) = &sender.outgoing else {
            return;
        };
        let to_tell: Vec<_> = outgoing.to_tell().collect();
        if to_tell.is_empty() {
            self.told = None;
            return;
        }
        let is_due = self.told.is_none_or(|told| now - told >= TELL_EVERY);
        if is_new || is_due {
            for (at, number) in to_tell {
                sender.tell(at, number);
            }
            self.told = Some(now);
        }
    }

    /// Connects to the end at `at`, and offers it a ring.
    fn offer(&self, at: SocketAddr, now: Instant) {
        let made = self.make(at);
        let mut sender = locked(&self.sender);
        let Some(outgoing) = &mut sender.outgoing else {
            return;
        };
        match made {
            Ok((socket, writer)) => outgoing.offered(at, socket, writer),
            Err(error) => {
                log::debug!("no ring to the end {at} of the wire: {error}");
                outgoing.pause(at, now);
            }
        }
    }

    fn make(
        &self,
        at: SocketAddr,
    ) -> io::Result<(Seqpacket, Writer<e810_shared::memory::MappedMemory>)> {
        let address = Address::of_name(&name(&self.wire, at))?;
        let socket = Seqpacket::connect_nonblocking(&address)?;
        check_user(&socket)?;
        let memory = SharedMemory::new(FILE, false)?;
        let offer = Offer(self.own.port()).to_bytes();
        socket.send(&offer, Some(memory.file()))?;
        Ok((socket, Writer::new(memory.without_file())))
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            let Ok(socket) = self.acceptor.accept_nonblocking() else {
                return;
            };
            if let Err(error) = check_user(&socket) {
                log::debug!("no ring from an end of the wire: {error}");
                continue;
            }
            if self.greeting.len() >= GREETING {
                self.greeting.remove(0);
            }
            self.greeting.push(socket);
        }
    }

    /// Takes rings that are offered.
    fn greet(&mut self, ready: &[bool]) {
        for index in (0..ready.len()).rev() {
            if ready.get(index) != Some(&true) || index >= self.greeting.len() {
                continue;
            }
            let socket = self.greeting.remove(index);
            if let Err(error) = self.take(socket) {
                log::debug!("no ring from an end of the wire: {error}");
            }
        }
    }

    /// Takes the ring that is offered; whatever is wrong closes the socket.
    fn take(&self, socket: Seqpacket) -> io::Result<()> {
        let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut bytes = [0; MOST];
        let (length, file) = socket.receive(&mut bytes)?;
        let offer = Offer::of_bytes(bytes.get(..length).unwrap_or_default());
        let (Some(offer), Some(file)) = (offer, file) else {
            return Err(wrong("it offers none of this version"));
        };
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, offer.0));
        let mut incoming = locked(&self.incoming);
        if incoming.count() >= MOST_RINGS || incoming.has_ring(at) {
            return Err(wrong("there are as many as there may be"));
        }
        let memory = SharedMemory::of_file(file, FILE)?.without_file();
        let number = drawn();
        let macs = self.macs.clone();
        socket.send(&Answer { number, macs }.to_bytes(), None)?;
        incoming.offered(at, socket, Reader::new(memory), number);
        Ok(())
    }
}

/// Rings are for ends of one user.
fn check_user(socket: &Seqpacket) -> io::Result<()> {
    let why = "it is another user's";
    match socket.peer()?.uid == own_uid() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
    }
}
