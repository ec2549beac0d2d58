//! The handshake of two processes before and after their messages.
//!
//! A TCP connection, one JSON object a line. Each side sends its [`Offer`]: the
//! version, what it was asked to do, and where its queue pairs are. Both have to
//! have been asked for the same. Then each says that it is ready, and at the end
//! that it is done, so that neither takes down what the other still needs. A
//! side that fails says why.
//!
//! Nothing is authenticated or encrypted: any process that reaches the port learns the
//! keys of the memory that the command has registered for its messages, and
//! nothing else. What arrives is believed only after it was checked.
//!
//! The other side may be another program, with a handshake of its own ([`Program`]).

mod host_port;
mod ibv_rc_pingpong;
mod lines;
mod offer;
mod program;
mod rendezvous;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use e810::{Gid, Mtu};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use host_port::{HostPort, PORT};
pub use lines::{Lines, MAX_LINE};
pub(crate) use offer::SIZES;
pub use offer::{Offer, Peer, QpRecord};
pub use program::Program;
pub use rendezvous::{Rendezvous, RendezvousArgs, Role};

/// Version of the exchange; the first thing that is compared.
pub const VERSION: u32 = 2;

/// Characters of a peer's complaint that are shown.
const SHOWN: usize = 300;

/// Why two processes did not come together. Each is one line.
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
    /// The host is not known.
    #[error("{host}: {error}; name an address, or a host that this machine finds")]
    Host {
        /// As it was named.
        host: String,
        /// Why.
        error: io::Error,
    },
    /// Nobody came.
    #[error(
        "nobody connected to {at} within {limit:?}{}: start the peer with --connect {at}, or wait longer with --wait", others(*strangers)
    )]
    Nobody {
        /// Where.
        at: SocketAddr,
        /// How long.
        limit: Duration,
        /// Connections of something else.
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
    /// The peer says nothing.
    #[error(
        "{peer} said nothing for {limit:?}: see whether the other e810 is still there, or wait longer with --wait"
    )]
    Silent {
        /// Who.
        peer: SocketAddr,
        /// How long.
        limit: Duration,
    },
    /// The peer has ended.
    #[error("{peer} ended the connection: see what the program there printed")]
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
        "a line with {peer} is longer than {limit} bytes: if that is another e810, use fewer queue pairs"
    )]
    TooLong {
        /// Who.
        peer: SocketAddr,
        /// Bytes.
        limit: usize,
    },
    /// Not what this protocol has.
    #[error("{peer} does not speak this protocol ({why}): check that the address is its --listen")]
    Malformed {
        /// Who.
        peer: SocketAddr,
        /// What is wrong.
        why: String,
    },
    /// Another version.
    #[error(
        "{peer} speaks version {theirs} of the exchange and this is {VERSION}: use the same e810 on both sides"
    )]
    Version {
        /// Who.
        peer: SocketAddr,
        /// Its version.
        theirs: u64,
    },
    /// A peer that does not say where packets for it go.
    #[error(
        "{peer} does not say its Ethernet address, and {} is not link-local: give it with --peer-mac", gid.ip()
    )]
    NoMac {
        /// Who.
        peer: SocketAddr,
        /// Its address.
        gid: Gid,
    },
    /// The two were asked for different things.
    #[error("{peer} was started with {theirs} and this side with {ours}: give both the same")]
    Differs {
        /// Who.
        peer: SocketAddr,
        /// What was asked for there.
        theirs: String,
        /// And here.
        ours: String,
    },
    /// The peer has failed and said so.
    #[error("{peer} gave up: {why}")]
    Failed {
        /// Who.
        peer: SocketAddr,
        /// In its words.
        why: String,
    },
}

fn others(strangers: u64) -> String {
    match strangers {
        0 => String::new(),
        1 => " but one that does not speak this protocol".to_owned(),
        many => format!(" but {many} that do not speak this protocol"),
    }
}

/// How a side ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Messages whose every byte was as expected.
    pub verified: u64,
    /// Messages that were not.
    pub errors: u64,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "lowercase")]
enum Message {
    /// Its name in the protocol is `hello`.
    #[serde(rename = "hello")]
    Offer(Offer),
    Ready {},
    Stop {
        posted: Vec<u64>,
    },
    Done(Done),
    Failed {
        why: String,
    },
}

/// The connection with a peer.
#[derive(Debug)]
pub struct Link {
    lines: Lines,
    /// Which program the peer is.
    program: Program,
    /// Which side this is.
    role: Role,
    /// How long a peer may be silent.
    wait: Duration,
    /// What a peer of another program is told when our queue pair is ready.
    unsent: Option<Vec<u8>>,
    /// What such a peer has said first.
    first: Option<Vec<u8>>,
    /// What the peer has said that nobody waited for yet.
    pending: Option<Message>,
}

impl Link {
    /// A connection with another e810 on which nothing was said yet; each answer may take `wait`.
    #[must_use]
    pub const fn new(lines: Lines, wait: Duration) -> Self {
        Self::with(Program::E810, Role::Client, lines, wait)
    }

    /// The same with the program `program`, on the side `role`.
    pub(super) const fn with(program: Program, role: Role, lines: Lines, wait: Duration) -> Self {
        Self {
            lines,
            program,
            role,
            wait,
            unsent: None,
            first: None,
            pending: None,
        }
    }

    /// Which program the peer is.
    #[must_use]
    pub const fn program(&self) -> Program {
        self.program
    }

    /// Who the peer is.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.lines.peer()
    }

    /// Tells who this is, and learns who the peer is.
    ///
    /// # Errors
    /// What the peer is not, or what it was not asked for, which is also sent to it.
    pub fn exchange_params(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        if self.program == Program::IbvRcPingpong {
            return self.exchange_texts(offer);
        }
        self.lines.send(&Message::Offer(offer.clone()), self.wait)?;
        let received = match self.pending.take() {
            Some(pending) => Ok(pending),
            None => {
                let line = self.lines.receive(self.wait)?;
                self.parse(&line)
            }
        };
        let peer = self.lines.peer();
        let received = match received {
            Ok(Message::Offer(theirs)) => offer.check(theirs, peer),
            Ok(_) => Err(self.malformed("no hello")),
            Err(error) => Err(error),
        };
        if let Err(error) = &received {
            self.give_up(error);
        }
        received
    }

    /// The same with `ibv_rc_pingpong`.
    fn exchange_texts(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        let peer = self.lines.peer();
        let [qp] = offer.places.as_slice() else {
            return Err(self.malformed("it has one queue pair, and here are more"));
        };
        let qp = qp
            .remote()
            .ok_or_else(|| self.malformed("our own queue pair"))?;
        let ours = ibv_rc_pingpong::text(&qp, offer.gid.into());
        if self.role == Role::Client {
            self.lines.send_bytes(&ours, self.wait)?;
        }
        let text = match self.first.take() {
            Some(text) => text,
            None => self.lines.receive_bytes(ibv_rc_pingpong::TEXT, self.wait)?,
        };
        let (theirs, gid) =
            ibv_rc_pingpong::parse(&text).map_err(|why| HandshakeError::Malformed { peer, why })?;
        match self.role {
            Role::Client => self.lines.send_bytes(ibv_rc_pingpong::DONE, self.wait)?,
            // It sends as soon as it has this.
            Role::Server => self.unsent = Some(ours),
        }
        let mtu = Mtu::of_bytes(offer.mtu);
        Ok(Peer {
            mac: ibv_rc_pingpong::mac_of(gid),
            gid,
            mtu: mtu.ok_or_else(|| self.malformed("our own path MTU"))?,
            endpoints: vec![theirs],
        })
    }

    /// Says that this side is ready, and waits until the peer is: before
    /// messages, and as often as both like between them.
    ///
    /// # Errors
    /// A peer that is gone, silent or failed.
    pub fn ready(&mut self) -> Result<(), HandshakeError> {
        if self.program == Program::IbvRcPingpong {
            if let Some(text) = self.unsent.take() {
                self.lines.send_bytes(&text, self.wait)?;
                let done = self
                    .lines
                    .receive_bytes(ibv_rc_pingpong::DONE.len(), self.wait)?;
                if done != ibv_rc_pingpong::DONE {
                    return Err(self.malformed("not done"));
                }
            }
            return Ok(());
        }
        self.lines.send(&Message::Ready {}, self.wait)?;
        match self.next()? {
            Message::Ready {} => Ok(()),
            _ => Err(self.malformed("not ready")),
        }
    }

    /// Tells the peer that no more messages come than have been `posted` on each
    /// queue pair; all of them have arrived.
    ///
    /// # Errors
    /// A peer that is gone.
    pub fn stop(&mut self, posted: Vec<u64>) -> Result<(), HandshakeError> {
        if self.program != Program::E810 {
            return Ok(());
        }
        self.lines.send(&Message::Stop { posted }, self.wait)
    }

    /// What the peer has posted on each queue pair, if it said last that there
    /// will be no more; returned once.
    pub fn stopped(&mut self) -> Option<Vec<u64>> {
        match self.pending.take() {
            Some(Message::Stop { posted }) => Some(posted),
            other => {
                self.pending = other;
                None
            }
        }
    }

    /// Whether the first line of the peer is there, which an e810 sends at once.
    /// Does not wait.
    ///
    /// # Errors
    /// A peer that does not speak this protocol, or is gone.
    pub(crate) fn has_offer(&mut self) -> Result<bool, HandshakeError> {
        if self.program == Program::IbvRcPingpong {
            self.first = self.lines.try_receive_bytes(ibv_rc_pingpong::TEXT)?;
            let peer = self.lines.peer();
            if let Some(text) = &self.first {
                ibv_rc_pingpong::parse(text)
                    .map_err(|why| HandshakeError::Malformed { peer, why })?;
            }
            return Ok(self.first.is_some());
        }
        match (self.try_receive()?, &self.pending) {
            (false, _) => Ok(false),
            (true, Some(Message::Offer(_))) => Ok(true),
            (true, _) => Err(self.malformed("no hello")),
        }
    }

    /// Whether the peer has sent something: that it is done, or ready for
    /// what comes next. Does not wait.
    ///
    /// # Errors
    /// A peer that is gone or failed.
    pub fn try_receive(&mut self) -> Result<bool, HandshakeError> {
        if self.program != Program::E810 {
            // Nothing comes, and the connection may be closed.
            return Ok(false);
        }
        if self.pending.is_none()
            && let Some(line) = self.lines.try_receive()?
        {
            self.pending = Some(self.parse(&line)?);
        }
        Ok(self.pending.is_some())
    }

    /// Says that this side is done. It goes on to serve the peer until
    /// [`Link::finish`].
    ///
    /// # Errors
    /// A peer that is gone.
    pub fn done(&mut self, mine: Done) -> Result<(), HandshakeError> {
        if self.program != Program::E810 {
            return Ok(());
        }
        self.lines.send(&Message::Done(mine), self.wait)
    }

    /// Waits until the peer is done too.
    ///
    /// # Errors
    /// A peer that is gone, silent or failed.
    pub fn finish(&mut self) -> Result<Done, HandshakeError> {
        if self.program != Program::E810 {
            // It does not say.
            return Ok(Done {
                verified: 0,
                errors: 0,
            });
        }
        match self.next()? {
            Message::Done(done) => Ok(done),
            _ => Err(self.malformed("not done")),
        }
    }

    /// What the peer says next.
    fn next(&mut self) -> Result<Message, HandshakeError> {
        if let Some(pending) = self.pending.take() {
            return Ok(pending);
        }
        let line = self.lines.receive(self.wait)?;
        self.parse(&line)
    }

    /// Tells the peer why there will be nothing more. Whether it hears it makes
    /// no difference.
    pub fn give_up(&mut self, why: &dyn std::fmt::Display) {
        if self.program != Program::E810 {
            return;
        }
        let why = shown(&why.to_string());
        let _ = self.lines.send(&Message::Failed { why }, self.wait);
    }

    fn parse(&self, line: &[u8]) -> Result<Message, HandshakeError> {
        let peer = self.lines.peer();
        let malformed = |error: serde_json::Error| HandshakeError::Malformed {
            peer,
            why: shown(&error.to_string()),
        };
        let value: Value = serde_json::from_slice(line).map_err(malformed)?;
        // Before the rest, which another version may have changed.
        if let Some(theirs) = value.get("e810").and_then(Value::as_u64)
            && theirs != u64::from(VERSION)
        {
            return Err(HandshakeError::Version { peer, theirs });
        }
        match serde_json::from_value(value).map_err(malformed)? {
            Message::Failed { why } => Err(HandshakeError::Failed {
                peer,
                why: shown(&why),
            }),
            message => Ok(message),
        }
    }

    fn malformed(&self, why: &str) -> HandshakeError {
        HandshakeError::Malformed {
            peer: self.lines.peer(),
            why: why.to_owned(),
        }
    }
}

/// Whether a character moves the cursor, ends a line, is not seen, or changes the
/// direction of the text after it: the controls, and Unicode's format characters
/// of these kinds (Bidi_Control, separators, zero width).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

/// Text from a peer, for a terminal: short, and without what moves its
/// cursor or hides or reorders text.
fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if is_unsafe(c) { ' ' } else { c })
        .take(SHOWN)
        .collect()
}

#[cfg(test)]
mod tests;
