//! Two processes meet by the RDMA connection manager: the connection of a queue pair of its own,
//! which carries the handshake in place of TCP.
//!
//! * [`Meeting`]: the connection manager of the function, and the connection on its way;
//! * `carrier`: the queue pair with its memory, and the thread that moves bytes between it and the
//!   handshake.

mod carrier;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e810::{AsyncEvent, AsyncObject, Control, Cq, Mr, Pd, Qp, QpAttr, QpControl};
use e810_backends::buffer::Buffer;
use e810_backends::interrupts::HostPlatform;
use e810_cm::Reason;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Connect, Listen, ListenerId};
use e810_connect::{Answer, Call, Grant, News, Phase, Refused, Requested, Service, Told};
use e810_hal::Ns;

use crate::handshake::{HandshakeError, Lines, Link, Rendezvous, Role};
use crate::monitor::ConnectionsSnapshot;
use crate::output::terminal::say;
use crate::usage::refuse;
use carrier::{Carrier, carry};
use e810_node::connections::{Connections, Program};
use e810_node::neighbours::NeighbourTracker;

/// The only program.
const PROGRAM: Program = Program(0);
/// The private data of a request for this connection; a request without it is another program's.
const GREETING: &[u8] = b"e810 handshake";
/// Pause between two looks at the connection manager.
const LOOK: Ns = Ns::from_ms(1);
/// How long the first request waits for its answer before another one is sent. The time doubles
/// with each request that is not answered,
const FIRST_REQUEST: Duration = Duration::from_secs(2);
/// up to this.
const LAST_REQUEST: Duration = Duration::from_secs(64);
/// Pause after a request that was refused.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the end of the connection waits for the peer's answer.
const END: Duration = Duration::from_millis(300);

/// A function's own address, and the VLAN that it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnEnd {
    pub(crate) ip: IpAddr,
    pub(crate) vlan: Option<u16>,
}

/// The connection manager of a function, and its connection to the peer.
#[derive(Debug)]
pub(crate) struct Meeting<P: HostPlatform> {
    platform: P,
    connections: Connections<P>,
    carrier: Arc<Mutex<Carrier<P>>>,
    thread: Option<JoinHandle<()>>,
    own: OwnEnd,
    role: Role,
    /// The peer's address; of a side that listens, its own.
    at: SocketAddr,
    wait: Duration,
    listener: Option<ListenerId>,
    /// When the request under way is given up, or the next one is sent.
    until: Instant,
    patience: Duration,
    /// Why the last request had no success.
    why: String,
    strangers: u64,
    /// When to look at the connection manager again.
    next: Ns,
    /// The connection that was just made.
    link: Option<Link>,
}

/// The connection manager, as the connection reaches it.
struct Reach<'a, P: HostPlatform> {
    control: &'a mut Control<P>,
    connections: &'a mut Connections<P>,
    tracker: Option<&'a NeighbourTracker<P>>,
}

impl<P: HostPlatform> Service<P> for Reach<'_, P> {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Refused> {
        self.connections
            .call(self.control, self.tracker, PROGRAM, call)
    }

    fn modify(&mut self, qp: &mut QpControl<P>, attr: &QpAttr) -> e810::Result<()> {
        self.control.modify_qp(qp, attr)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Between two of its calls the state is consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: HostPlatform> Meeting<P> {
    /// Makes the connection manager. The rest is made by [`begin`](Self::begin).
    ///
    /// # Errors
    /// No memory, or the device's refusal; nothing is left behind.
    pub(super) fn open(
        platform: &P,
        control: &mut Control<P>,
        rendezvous: &Rendezvous,
        own: OwnEnd,
    ) -> Result<Self> {
        let carrier = Carrier::new(platform.payload(Carrier::<P>::BYTES)?);
        let (role, wait, at) = (rendezvous.role, rendezvous.wait(), rendezvous.at());
        Ok(Self {
            connections: Connections::open(platform, control, 0)?,
            platform: platform.clone(),
            carrier: Arc::new(Mutex::new(carrier)),
            thread: None,
            own,
            role,
            at,
            wait,
            listener: None,
            until: Instant::now(),
            patience: FIRST_REQUEST,
            why: "there was no answer".to_owned(),
            strangers: 0,
            next: Ns::ZERO,
            link: None,
        })
    }

    /// Makes the queue pair, and listens or asks from here on.
    ///
    /// # Errors
    /// The device's refusal, or an address that the function does not have.
    pub(super) fn begin(
        &mut self,
        control: &mut Control<P>,
        tracker: Option<&NeighbourTracker<P>>,
        pd: &Pd,
    ) -> Result<()> {
        let own = self.own.ip;
        let mut carrier = lock(&self.carrier);
        let made = carrier.make(control, pd);
        made.context("a queue pair for the handshake")?;
        let mut reach = Reach {
            control: &mut *control,
            connections: &mut self.connections,
            tracker,
        };
        let made = carrier.renew(&mut reach);
        made.context("a queue pair for the handshake")?;
        if self.role == Role::Client {
            if own.is_ipv4() != self.at.is_ipv4() {
                refuse!(
                    "--cm --connect {}: the address of this side is {own}; give it one of the same family with --ip",
                    self.at.ip()
                );
            }
            return Ok(());
        }
        let mut gids = (0..e810::GIDS as u8).filter_map(|index| control.query_gid(index));
        let address = match self.at.ip() {
            any if any.is_unspecified() => own,
            given if gids.any(|entry| entry.gid.ip() == given) => given,
            given => refuse!(
                "--cm --listen {given}: this function does not have the address; its address is {own}, and --ip gives it another"
            ),
        };
        let listen = Listen {
            space: PortSpace::Tcp,
            port: self.at.port(),
            address,
            only_family: true,
            backlog: 16,
            context: 0,
        };
        let mut reach = Reach {
            control,
            connections: &mut self.connections,
            tracker,
        };
        match reach.call(&Call::Listen(listen))? {
            Answer::Listener(id, port) => {
                self.listener = Some(id);
                self.at = (address, port).into();
            }
            other => bail!("the connection manager answers {other:?} to a listener"),
        }
        // On standard error: a program that reads the report does not need it.
        say(&format!("listening on {}", self.at));
        Ok(())
    }

    /// The connection, once there is one.
    ///
    /// # Errors
    /// There is none after the time of `--wait`, which began at `began`.
    pub(super) fn link(&mut self, began: Instant) -> Result<Option<Link>> {
        if let Some(link) = self.link.take() {
            return Ok(Some(link));
        }
        let (at, limit) = (self.at, self.wait);
        if began.elapsed() < limit {
            return Ok(None);
        }
        let error = match self.role {
            Role::Client => HandshakeError::Ask {
                at,
                why: self.why.clone(),
            },
            Role::Server => HandshakeError::Unasked {
                at,
                limit,
                strangers: self.strangers,
            },
        };
        Err(error.into())
    }

    /// The state of the connection manager.
    pub(super) fn snapshot(&mut self, now: Ns) -> ConnectionsSnapshot {
        ConnectionsSnapshot::of(&mut self.connections, now)
    }

    /// Whether an event is about the connection's queue pair. Whoever waits for the peer finds out.
    pub(super) fn is_about(&self, event: &AsyncEvent) -> bool {
        matches!(event.object, AsyncObject::Qp(number) if Some(number) == lock(&self.carrier).number())
    }

    /// Takes and sends datagrams, and does what follows from what they say.
    ///
    /// # Errors
    /// The connection manager's queue pair has failed, or the device refuses to make the
    /// connection's queue pair ready again.
    pub(super) fn progress(
        &mut self,
        control: &mut Control<P>,
        tracker: Option<&NeighbourTracker<P>>,
    ) -> Result<()> {
        let now = self.platform.now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + LOOK;
        self.connections.progress(control, tracker)?;
        let shared = Arc::clone(&self.carrier);
        let mut carrier = lock(&shared);
        while let Some(told) = self.connections.next(PROGRAM) {
            let mut reach = Reach {
                control: &mut *control,
                connections: &mut self.connections,
                tracker,
            };
            if let News::Requested(request) = &told.news {
                let taken = take(&mut carrier, &mut reach, &told, (request, self.at));
                match taken? {
                    Some(peer) => self.at = peer,
                    None => self.strangers += 1,
                }
            } else if let Some(connection) = carrier.connection()
                && let Err(error) = connection.hear(&mut reach, &told)
            {
                // Its phase says the same.
                log::debug!("the connection that carries the handshake: {error}");
            }
        }
        if self.thread.is_some() {
            return Ok(());
        }
        let mut reach = Reach {
            control,
            connections: &mut self.connections,
            tracker,
        };
        if matches!(carrier.phase(), Phase::Accepted | Phase::Established) {
            carrier.poll();
            if carrier.has_received
                && let Some(connection) = carrier.connection()
            {
                connection.arrived(&mut reach);
            }
        }
        match (carrier.phase(), self.role) {
            // As over TCP, one that has not said anything is a stranger: the client speaks first.
            (Phase::Established, Role::Server) if !carrier.has_received => Ok(()),
            (Phase::Established, _) => {
                drop(carrier);
                self.start(control, tracker)
            }
            (Phase::New | Phase::Accepted | Phase::Ending, Role::Server) => Ok(()),
            (ended, Role::Server) => {
                log::warn!("still listening; {} has left: {}", self.at, why(ended));
                self.strangers += 1;
                carrier.renew(&mut reach)
            }
            (phase, Role::Client) => {
                let is_due = Instant::now() >= self.until;
                match phase {
                    Phase::Asked if !is_due => return Ok(()),
                    Phase::Asked => {
                        self.why = "it does not answer".to_owned();
                        carrier.renew(&mut reach)?;
                    }
                    Phase::New if !is_due => return Ok(()),
                    Phase::New => {}
                    ended => {
                        self.why = why(ended);
                        self.patience = FIRST_REQUEST;
                        carrier.renew(&mut reach)?;
                        self.until = Instant::now() + AGAIN;
                        return Ok(());
                    }
                }
                let ask = Connect {
                    vlan: self.own.vlan,
                    private_data: GREETING,
                    ..Connect::new(self.own.ip, self.at)
                };
                self.until = Instant::now() + self.patience;
                self.patience = longer(self.patience);
                match carrier.connection() {
                    Some(connection) => Ok(connection.connect(&mut reach, &ask)?),
                    None => Ok(()),
                }
            }
        }
    }

    /// Lets the handshake begin on a connection that is made.
    fn start(&mut self, control: &Control<P>, tracker: Option<&NeighbourTracker<P>>) -> Result<()> {
        if let Some(listener) = self.listener.take() {
            // Who has asked meanwhile is refused.
            let _ = self
                .connections
                .call(control, tracker, PROGRAM, &Call::Unlisten(listener));
        }
        let (ours, theirs) = UnixStream::pair().context("a socket for the handshake")?;
        let carrier = Arc::clone(&self.carrier);
        let thread = thread::Builder::new().name("handshake".to_owned());
        let thread = thread.spawn(move || carry(theirs, &carrier));
        self.thread = Some(thread.context("a thread for the handshake")?);
        self.link = Some(Link::new(Lines::over(ours, self.at), self.wait));
        Ok(())
    }

    /// Says that the [`Link`] is gone. What it has said last is still sent
    /// ([`is_carrying`](Self::is_carrying)).
    pub(super) fn ends(&mut self) {
        self.link = None;
        lock(&self.carrier).is_ending = true;
    }

    /// Whether the connection still carries something, or waits for something to carry.
    pub(super) fn is_carrying(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the connection and the connection manager. Returns what has to be destroyed, and the
    /// memory, which has to stay until then.
    pub(super) fn close(
        mut self,
        control: &mut Control<P>,
        tracker: Option<&NeighbourTracker<P>>,
    ) -> (Left<P>, Result<()>) {
        if let Some(thread) = self.thread.take() {
            // A panic was reported.
            let _ = thread.join();
        }
        let shared = Arc::clone(&self.carrier);
        let end = Instant::now() + END;
        let mut is_told = false;
        loop {
            let mut carrier = lock(&shared);
            let phase = carrier.phase();
            if matches!(phase, Phase::Accepted | Phase::Established) && !is_told {
                is_told = true;
                let mut reach = Reach {
                    control: &mut *control,
                    connections: &mut self.connections,
                    tracker,
                };
                if let Some(connection) = carrier.connection()
                    && let Err(error) = connection.disconnect(&mut reach)
                {
                    log::debug!("ending the connection that carries the handshake: {error}");
                }
            }
            drop(carrier);
            let progressed = self.connections.progress(control, tracker);
            let mut has_answer = progressed.is_err();
            while let Some(told) = self.connections.next(PROGRAM) {
                has_answer |= matches!(told.news, News::Disconnected | News::Over);
            }
            if !is_told || has_answer || Instant::now() >= end {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let mut carrier = lock(&shared);
        let mut reach = Reach {
            control: &mut *control,
            connections: &mut self.connections,
            tracker,
        };
        let left = carrier.end(&mut reach);
        drop(carrier);
        (left, self.connections.close(control))
    }
}

/// How long the request after one that was not answered waits.
fn longer(patience: Duration) -> Duration {
    LAST_REQUEST.min(patience * 2)
}

/// What a meeting leaves to be destroyed, and the memory that it uses.
#[derive(Debug)]
pub(super) struct Left<P: HostPlatform> {
    pub(super) qp: Option<Qp<P>>,
    pub(super) cq: Option<Cq<P>>,
    pub(super) mr: Option<Mr<P>>,
    pub(super) buffer: Option<Buffer>,
}

impl<P: HostPlatform> Left<P> {
    /// What there is without a meeting.
    pub(super) const NOTHING: Self = Self {
        qp: None,
        cq: None,
        mr: None,
        buffer: None,
    };
}

/// Takes a request of another e810, and refuses those of other programs. The latest request counts:
/// its sender has given up the ones before. Returns the peer.
fn take<P: HostPlatform>(
    carrier: &mut Carrier<P>,
    reach: &mut Reach<'_, P>,
    told: &Told,
    (request, at): (&Requested, SocketAddr),
) -> Result<Option<SocketAddr>> {
    let peer = SocketAddr::from((request.source, request.source_port));
    let is_stranger = !request.private_data.starts_with(GREETING);
    // Another one is connected. This one asks again, and has its turn if that one leaves.
    let is_late = carrier.phase() == Phase::Established && peer.ip() != at.ip();
    if is_stranger || is_late {
        if is_stranger {
            log::warn!("still listening; {peer} asks for a connection, but is no e810 with --cm");
        }
        let reason = Reason::CONSUMER_DEFINED;
        // One that has given up needs no answer.
        let _ = reach.call(&Call::Reject(told.id, reason, &[]));
        let _ = reach.call(&Call::Release(told.id));
        return Ok(None);
    }
    if carrier.phase() != Phase::New {
        carrier.renew(reach)?;
    }
    if let Some(connection) = carrier.connection()
        && let Err(error) = connection.accept(reach, told, &Grant::default())
    {
        log::warn!("still listening; the connection of {peer} fails: {error}");
    }
    Ok(Some(peer))
}

/// Why a request had no success.
fn why(phase: Phase) -> String {
    match phase {
        Phase::Refused(reason) => match reason.text() {
            Some(text) => text.to_owned(),
            None => format!("it refuses (reason {})", reason.0),
        },
        Phase::Unreachable => "it does not answer".to_owned(),
        _ => "the connection ended at once".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_requests_wait_for_a_time_that_can_be() {
        let last = (0..1000).fold(FIRST_REQUEST, |patience, _| longer(patience));
        assert_eq!(last, LAST_REQUEST);
    }
}
