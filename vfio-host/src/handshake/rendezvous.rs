//! Setting up the TCP connection: which side listens, which connects, time limits.

use std::io::{ErrorKind, IsTerminal as _, stderr};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{ArgGroup, Args};

use super::host_port::HostPort;
use super::{HandshakeError, Lines, Link, Program};
use crate::cli::number::number;
use crate::output::terminal::say;

/// How often a listener polls, and a connection that was refused is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a connection may take for a first line.
const FIRST_LINE: Duration = Duration::from_secs(5);
/// Connections that have said nothing yet, at most.
const UNHEARD: usize = 16;
/// Strangers that are logged; the others are counted.
const LOGGED: u64 = 8;

/// Where the other process is.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Another process", group(ArgGroup::new("has_peer_process").args(["listen", "connect"]).multiple(true)))]
pub struct RendezvousArgs {
    /// Wait here for another e810 that has `--connect`: ADDR:PORT, ADDR or :PORT.
    ///
    /// Without ADDR at all addresses of this machine, with port 0 at a free port, which is
    /// printed. Then there is one function in this process, and the other one in that. What
    /// they have to know of each other goes over this TCP connection, neither encrypted nor
    /// authenticated.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["connect", "peer"])]
    pub listen: Option<HostPort>,
    /// Go to another e810 that has `--listen`: HOST:PORT or HOST. This side begins.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "peer")]
    pub connect: Option<HostPort>,
    /// Port where `--listen` or `--connect` names none.
    #[arg(short = 'p', long, value_name = "PORT", default_value = "18515", requires = "has_peer_process", value_parser = number::<u16>(0, u16::MAX.into()))]
    pub port: u16,
    /// The program at the other end: another e810, or libibverbs' `ibv_rc_pingpong`, unmodified, on
    /// any RDMA host.
    ///
    /// With `ibv_rc_pingpong` messages are SENDs of a reliable connection; --size, --iters and
    /// --path-mtu are then 4096, 1000 and 1024, as that program has them, unless they are given
    /// (there: -s, -n and -m). It does not say its Ethernet address, which is resolved.
    #[arg(long, value_enum, value_name = "PROGRAM", default_value_t = Program::E810, requires = "has_peer_process")]
    pub with: Program,
    /// How long to wait for the other process, and for each of its answers.
    #[arg(long, value_name = "SECONDS", default_value = "60", requires = "has_peer_process", value_parser = number::<u32>(1, 3600))]
    pub wait: u32,
}

/// Which side this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The one that connects; it sends first.
    Client,
    /// The one that listens.
    Server,
}

/// A side that has not met the other yet.
#[derive(Debug)]
pub struct Rendezvous {
    /// Which side this is.
    pub role: Role,
    at: SocketAddr,
    listener: Option<TcpListener>,
    with: Program,
    wait: Duration,
}

impl RendezvousArgs {
    /// Whether the peer is in another process.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.listen.is_some() || self.connect.is_some()
    }

    /// The meeting that was asked for, if any. A listener listens from here on.
    ///
    /// # Errors
    /// A host that is not found, or a port that cannot be listened on.
    pub fn open(&self) -> Result<Option<Rendezvous>, HandshakeError> {
        let wait = Duration::from_secs(self.wait.into());
        if let Some(at) = &self.listen {
            let mut last = None;
            for at in at.listening(self.port)? {
                let bound = TcpListener::bind(at).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    Ok((listener.local_addr()?, listener))
                });
                match bound {
                    Ok((at, listener)) => {
                        return Ok(Some(Rendezvous {
                            role: Role::Server,
                            at,
                            listener: Some(listener),
                            with: self.with,
                            wait,
                        }));
                    }
                    Err(error) => last = Some(HandshakeError::Listen { at, error }),
                }
            }
            return last.map_or(Ok(None), Err);
        }
        let Some(at) = &self.connect else {
            return Ok(None);
        };
        Ok(Some(Rendezvous {
            role: Role::Client,
            at: at.connecting(self.port)?,
            listener: None,
            with: self.with,
            wait,
        }))
    }
}

impl Rendezvous {
    /// Where.
    #[must_use]
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Waits for the other process; `watch` is asked meanwhile, and its error ends
    /// the waiting.
    ///
    /// # Errors
    /// Nobody came, nobody was there, or what `watch` said.
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

    /// Waits for a peer that speaks this protocol; other connections are closed, such as
    /// those of port scanners.
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
                // Beyond the limit a connection is closed; its process may try again.
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
                    // These are an e810, and have a reason.
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
            match TcpStream::connect_timeout(&at, left.max(AGAIN)) {
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

/// Whether an error of `accept` is of one connection, and not of the listener.
const fn is_of_one(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
