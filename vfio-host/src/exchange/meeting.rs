//! Coming together: who listens, who connects, and for how long.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;

use super::{ExchangeError, Lines, Link};

/// How often a listener looks, and a connection that was refused is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Where the other process is.
#[derive(Args, Debug, Clone, Default)]
pub struct MeetingArgs {
    /// Wait here for another e810 that has `--connect`; with port 0, at a port that is told.
    ///
    /// Then there is one function in this process, and the other one in that. What they have to know of each other
    /// goes over this TCP connection, neither encrypted nor authenticated.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["connect", "peer"])]
    pub listen: Option<SocketAddr>,
    /// Go to another e810 that has `--listen`. This side begins.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "peer")]
    pub connect: Option<SocketAddr>,
    /// How long to wait for the other process, and for each of its answers.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub wait: u32,
}

/// Which side this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It asks: the one that connects.
    Ask,
    /// It answers: the one that listens.
    Answer,
}

/// A side that has not met the other yet.
#[derive(Debug)]
pub struct Meeting {
    /// Which side this is.
    pub role: Role,
    at: SocketAddr,
    listener: Option<TcpListener>,
    wait: Duration,
}

impl MeetingArgs {
    /// The meeting that was asked for, if any. A listener listens from here on.
    ///
    /// # Errors
    /// A port that cannot be listened on.
    pub fn open(&self) -> Result<Option<Meeting>, ExchangeError> {
        let wait = Duration::from_secs(self.wait.into());
        if let Some(at) = self.listen {
            let failed = |error| ExchangeError::Listen { at, error };
            let listener = TcpListener::bind(at).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            let at = listener.local_addr().map_err(failed)?;
            return Ok(Some(Meeting {
                role: Role::Answer,
                at,
                listener: Some(listener),
                wait,
            }));
        }
        Ok(self.connect.map(|at| Meeting {
            role: Role::Ask,
            at,
            listener: None,
            wait,
        }))
    }
}

impl Meeting {
    /// Where.
    #[must_use]
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Waits for the other process.
    ///
    /// # Errors
    /// Nobody came, or nobody was there.
    pub fn meet(self) -> Result<Link, ExchangeError> {
        let end = Instant::now() + self.wait;
        let (stream, peer) = match &self.listener {
            Some(listener) => self.accept(listener, end)?,
            None => (self.reach(end)?, self.at),
        };
        Ok(Link::new(Lines::new(stream, peer)?, self.wait))
    }

    fn accept(
        &self,
        listener: &TcpListener,
        end: Instant,
    ) -> Result<(TcpStream, SocketAddr), ExchangeError> {
        let at = self.at;
        loop {
            match listener.accept() {
                Ok(met) => return Ok(met),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(ExchangeError::Listen { at, error }),
            }
            if Instant::now() >= end {
                let limit = self.wait;
                return Err(ExchangeError::Nobody { at, limit });
            }
            sleep(AGAIN);
        }
    }

    /// Connects; the listener may be started later.
    fn reach(&self, end: Instant) -> Result<TcpStream, ExchangeError> {
        let at = self.at;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match TcpStream::connect_timeout(&at, left.max(AGAIN)) {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && !left.is_zero() => {}
                Err(error) => return Err(ExchangeError::Connect { at, error }),
            }
            sleep(AGAIN);
        }
    }
}
