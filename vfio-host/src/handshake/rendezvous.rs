//! Setting up the connection: which side listens, which connects, time limits; and TCP.

use std::io::{self, ErrorKind, IsTerminal as _, stderr};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::host_port::HostPort;
use super::{HandshakeError, Lines, Link, Program};
use crate::output::terminal::say;
use crate::stop::watched;

/// How often a listener polls, and how often a refused connection is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// Time that a connection has for its first line.
const FIRST_LINE: Duration = Duration::from_secs(5);
/// Maximum connections without a first line.
const UNHEARD: usize = 16;
/// Strangers that are logged; others are only counted.
const LOGGED: u64 = 8;

/// Which side this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The one that connects; it sends first.
    Client,
    /// The one that listens.
    Server,
}

/// A side that is not connected yet.
#[derive(Debug)]
pub struct Rendezvous {
    /// Which side this is.
    pub role: Role,
    at: SocketAddr,
    listener: Option<TcpListener>,
    with: Program,
    wait: Duration,
    is_by_cm: bool,
}

impl Rendezvous {
    /// Listens from here on for the program `with`, which has `wait` to connect and for each
    /// answer; `port` is the default port.
    ///
    /// # Errors
    /// A host that is not found, or a port that cannot be listened on.
    pub fn listen(
        at: &HostPort,
        port: u16,
        with: Program,
        wait: Duration,
    ) -> Result<Self, HandshakeError> {
        let mut why = HandshakeError::Host {
            host: at.to_string(),
            error: io::Error::other("it has no address"),
        };
        for at in at.listening(port)? {
            let bound = TcpListener::bind(at).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            });
            match bound {
                Ok((at, listener)) => {
                    return Ok(Self {
                        role: Role::Server,
                        at,
                        listener: Some(listener),
                        with,
                        wait,
                        is_by_cm: false,
                    });
                }
                Err(error) => why = HandshakeError::Listen { at, error },
            }
        }
        Err(why)
    }

    /// Prepares to connect to the program `with`; the parameters are those of
    /// [`Rendezvous::listen`].
    ///
    /// # Errors
    /// A host that is not found.
    pub fn connect(
        at: &HostPort,
        port: u16,
        with: Program,
        wait: Duration,
    ) -> Result<Self, HandshakeError> {
        Ok(Self {
            role: Role::Client,
            at: at.connecting(port)?,
            listener: None,
            with,
            wait,
            is_by_cm: false,
        })
    }

    /// Prepares to listen or connect by the connection manager of the function that is used. `at`
    /// is an RDMA address; of a listener, an unspecified one for the function's own.
    #[must_use]
    pub const fn by_cm(role: Role, at: SocketAddr, wait: Duration) -> Self {
        Self {
            role,
            at,
            listener: None,
            with: Program::E810,
            wait,
            is_by_cm: true,
        }
    }

    /// Whether the connection manager makes the connection.
    #[must_use]
    pub const fn is_by_cm(&self) -> bool {
        self.is_by_cm
    }

    /// How long to wait for the peer, and for each of its answers.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// The address.
    #[must_use]
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Waits for the other process. `watch` is called meanwhile, and its error ends the wait.
    ///
    /// # Errors
    /// Nobody connected, nobody listens, or the error of `watch`.
    pub fn establish(self, watch: &dyn Fn() -> Result<()>) -> Result<Link> {
        let end = Instant::now() + self.wait;
        match &self.listener {
            Some(listener) => self.accept(listener, end, watch),
            None => {
                let stream = self.reach(end, watch)?;
                let lines = Lines::new(stream, self.at)?;
                Ok(Link::with(self.with, self.role, lines, self.wait))
            }
        }
    }

    /// Waits for a peer that speaks this protocol. Closes other connections, such as those of port
    /// scanners.
    fn accept(
        &self,
        listener: &TcpListener,
        end: Instant,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Link> {
        let at = self.at;
        let mut unheard: Vec<(Link, Instant)> = Vec::new();
        let mut strangers = 0;
        loop {
            watch()?;
            match listener.accept() {
                // Beyond the limit, the connection is closed; its process may try again.
                Ok((stream, peer)) if unheard.len() < UNHEARD => {
                    let lines = Lines::new(stream, peer)?;
                    let link = Link::with(self.with, self.role, lines, self.wait);
                    unheard.push((link, Instant::now()));
                    continue;
                }
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if is_of_one(error.kind()) => continue,
                Err(error) => return Err(HandshakeError::Accept { at, error }.into()),
            }
            let mut next = 0;
            while let Some((link, since)) = unheard.get_mut(next) {
                let why = match link.has_offer() {
                    Ok(true) => return Ok(unheard.swap_remove(next).0),
                    Ok(false) if since.elapsed() < FIRST_LINE.min(self.wait) => {
                        next += 1;
                        continue;
                    }
                    Ok(false) => HandshakeError::Silent {
                        peer: link.peer(),
                        limit: FIRST_LINE.min(self.wait),
                    },
                    // This is an e810 that says why it fails.
                    Err(
                        error @ (HandshakeError::Version { .. } | HandshakeError::Failed { .. }),
                    ) => {
                        link.give_up(&error);
                        return Err(error.into());
                    }
                    Err(error) => error,
                };
                strangers += 1;
                match strangers {
                    ..=LOGGED => log::warn!("still listening; {why}"),
                    _ => log::debug!("still listening; {why}"),
                }
                unheard.swap_remove(next);
            }
            if Instant::now() >= end {
                let limit = self.wait;
                return Err(HandshakeError::Nobody {
                    at,
                    limit,
                    strangers,
                }
                .into());
            }
            sleep(AGAIN);
        }
    }

    /// Connects; the listener may be started later.
    fn reach(&self, end: Instant, watch: &dyn Fn() -> Result<()>) -> Result<TcpStream> {
        let at = self.at;
        let mut is_said = !stderr().is_terminal();
        loop {
            watch()?;
            let left = end.saturating_duration_since(Instant::now());
            // The address may not answer for that long.
            let connect = move || TcpStream::connect_timeout(&at, left.max(AGAIN));
            match watched("connecting", connect, watch)? {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && !left.is_zero() => {
                    if !is_said {
                        say(&format!(
                            "nobody listens on {at} yet: trying for {:?}",
                            self.wait
                        ));
                        is_said = true;
                    }
                }
                Err(error) => return Err(HandshakeError::Connect { at, error }.into()),
            }
            sleep(AGAIN);
        }
    }
}

/// Whether an error of `accept` concerns one connection, not the listener.
const fn is_of_one(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
