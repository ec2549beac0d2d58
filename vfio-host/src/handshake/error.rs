//! Errors of the handshake.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::VERSION;
use crate::stop::Interrupted;

/// Why two processes could not run together. Each text is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The port cannot be listened on.
    #[error("listening on {at}: {error}; give another ADDR:PORT with --listen")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A connection cannot be accepted.
    #[error("accepting a connection at {at}: {error}; check the limit on open files (ulimit -n)")]
    Accept {
        /// Where.
        at: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The host is not known.
    #[error("{host}: {error}; give an address, or a host name that this machine resolves")]
    Host {
        /// As it was named.
        host: String,
        /// Why.
        error: io::Error,
    },
    /// Nobody came.
    #[error(
        "nobody connected to {at} within {limit:?}{}: start the peer with --connect {}, or wait longer with --wait", others(*strangers), Reached(*at)
    )]
    Nobody {
        /// Where.
        at: SocketAddr,
        /// How long.
        limit: Duration,
        /// Connections of other programs.
        strangers: u64,
    },
    /// There is no listener.
    #[error(
        "connecting to {at}: {error}; start the peer with --listen {at}, or wait longer with --wait"
    )]
    Connect {
        /// Where.
        at: SocketAddr,
        /// Why, at the last attempt.
        error: io::Error,
    },
    /// Nobody came by the connection manager.
    #[error(
        "nobody connected to {at} within {limit:?}{}: start the peer with --cm --connect {at}, or wait longer with --wait", others(*strangers)
    )]
    Unasked {
        /// Where.
        at: SocketAddr,
        /// How long.
        limit: Duration,
        /// Requests of other programs.
        strangers: u64,
    },
    /// The connection manager makes no connection.
    #[error(
        "connecting to {at} by the connection manager: {why}; start the peer with --cm --listen :{}, or wait longer with --wait", at.port()
    )]
    Ask {
        /// Where.
        at: SocketAddr,
        /// Why, at the last attempt.
        why: String,
    },
    /// The peer sends nothing.
    #[error(
        "{peer} sent nothing for {limit:?}: check whether the other e810 still runs, or wait longer with --wait"
    )]
    Silent {
        /// Who.
        peer: SocketAddr,
        /// How long.
        limit: Duration,
    },
    /// The peer has ended.
    #[error("{peer} closed the connection: see what the program there printed")]
    Gone {
        /// Who.
        peer: SocketAddr,
    },
    /// The socket failed.
    #[error("the connection with {peer} failed: {error}; check the network and start both again")]
    Socket {
        /// Who.
        peer: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A line that does not end.
    #[error(
        "a line to or from {peer} is longer than {limit} bytes: if that is another e810, use fewer queue pairs"
    )]
    TooLong {
        /// Who.
        peer: SocketAddr,
        /// Bytes.
        limit: usize,
    },
    /// A message that this protocol does not have.
    #[error("{peer} does not speak this protocol ({why}): check that the address is its --listen")]
    Malformed {
        /// Who.
        peer: SocketAddr,
        /// What is wrong.
        why: String,
    },
    /// The peer sent back what this side sent.
    #[error(
        "{peer} sends back what it receives: check that the address is the --listen of another e810"
    )]
    Echo {
        /// Who.
        peer: SocketAddr,
    },
    /// Another version.
    #[error(
        "{peer} has version {theirs} of the protocol and this side {VERSION}: use the same e810 on both sides"
    )]
    Version {
        /// Who.
        peer: SocketAddr,
        /// Its version.
        theirs: u64,
    },
    /// The two sides have different parameters.
    #[error("{peer} was started with {theirs} and this side with {ours}: give both the same")]
    Differs {
        /// Who.
        peer: SocketAddr,
        /// The peer's parameter.
        theirs: String,
        /// This side's parameter.
        ours: String,
    },
    /// The peer has failed and said so.
    #[error("{peer} gave up: {why}")]
    Failed {
        /// Who.
        peer: SocketAddr,
        /// Why, in the peer's words.
        why: String,
    },
    /// A signal came while this side waited for the peer.
    #[error("{0}")]
    Asked(Interrupted),
    /// A signal ended the peer before it was done.
    #[error("the peer {peer} was {by} before it was done; start both again")]
    Interrupted {
        /// Who.
        peer: SocketAddr,
        /// By which signal.
        by: Interrupted,
    },
}

impl HandshakeError {
    /// `peer` does not speak this protocol.
    pub(super) fn malformed(peer: SocketAddr, why: impl Into<String>) -> Self {
        Self::Malformed {
            peer,
            why: why.into(),
        }
    }
}

/// Where a peer can reach a listener: one on all addresses has no address to connect to.
struct Reached(SocketAddr);

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip().is_unspecified() {
            true => write!(
                f,
                "HOST:{} (HOST: a name or an address of this machine)",
                self.0.port()
            ),
            false => self.0.fmt(f),
        }
    }
}

fn others(strangers: u64) -> String {
    match strangers {
        0 => String::new(),
        1 => " except one that does not speak this protocol".to_owned(),
        many => format!(" except {many} that do not speak this protocol"),
    }
}
