//! The handshake of two e810: one JSON object per line.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::offer::DURATION;
use super::{HandshakeError, Lines, Offer, Peer, VERSION, shown};
use crate::stop::{Interrupted, StopView, StoppedBy};

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
pub(super) enum Message {
    /// Its name in the protocol is `hello`.
    #[serde(rename = "hello")]
    Offer(Offer),
    Ready {},
    Stop {
        posted: Vec<u64>,
        by: StoppedBy,
    },
    Done(Done),
    /// This signal ended the sender.
    Interrupted {
        signal: i32,
    },
    Failed {
        why: String,
    },
}

impl Message {
    /// The sender gives up, and why.
    pub(super) fn failed(why: &dyn Display) -> Self {
        Self::Failed {
            why: shown(&why.to_string()),
        }
    }

    /// Parses a line of `peer`.
    ///
    /// # Errors
    /// Another version, another protocol, or a peer that has failed or was interrupted.
    fn parse(line: &[u8], peer: SocketAddr) -> Result<Self, HandshakeError> {
        let malformed =
            |error: serde_json::Error| HandshakeError::malformed(peer, shown(&error.to_string()));
        let value: Value = serde_json::from_slice(line).map_err(malformed)?;
        // Before the rest, which another version may have changed.
        if let Some(theirs) = value.get("e810").and_then(Value::as_u64)
            && theirs != u64::from(VERSION)
        {
            return Err(HandshakeError::Version { peer, theirs });
        }
        match serde_json::from_value(value).map_err(malformed)? {
            Self::Failed { why } => Err(HandshakeError::Failed {
                peer,
                why: shown(&why),
            }),
            Self::Interrupted { signal } => Err(HandshakeError::Interrupted {
                peer,
                by: Interrupted(signal),
            }),
            message => Ok(message),
        }
    }
}

/// A side of this handshake.
#[derive(Debug)]
pub(super) struct Messages {
    lines: Lines,
    /// How long the peer may be silent.
    wait: Duration,
    /// A message of the peer that was not handled yet.
    pending: Option<Message>,
    /// Queue pairs of each side, once they are agreed on.
    qps: usize,
    /// Whether both run for a given time.
    is_timed: bool,
    /// What stopped the peer before it was done.
    stopped_by: Option<StoppedBy>,
}

impl Messages {
    /// This side of a new connection.
    pub(super) const fn new(lines: Lines, wait: Duration) -> Self {
        Self {
            lines,
            wait,
            pending: None,
            qps: 0,
            is_timed: false,
            stopped_by: None,
        }
    }

    /// The peer's address.
    pub(super) const fn peer(&self) -> SocketAddr {
        self.lines.peer()
    }

    /// Makes waits end when the run is asked to end.
    pub(super) fn hear(&mut self, stop: StopView) {
        self.lines.hear(stop);
    }

    /// Sends `message`.
    pub(super) fn say(&mut self, message: &Message) -> Result<(), HandshakeError> {
        if let Message::Stop { .. } | Message::Done(_) = message {
            self.lines.ends();
        }
        self.lines.send(message, self.wait)
    }

    /// Exchanges offers. A peer whose offer is refused is told why.
    pub(super) fn exchange(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        self.say(&Message::Offer(offer.clone()))?;
        let peer = self.peer();
        // A peer that sent no line is not told.
        let received = match self.pending.take() {
            Some(pending) => Ok(pending),
            None => Message::parse(&self.lines.receive(self.wait)?, peer),
        };
        self.qps = offer.places.len();
        self.is_timed = offer
            .terms
            .get(DURATION)
            .is_some_and(|time| !time.is_null());
        let received = match received {
            Ok(Message::Offer(theirs)) => offer.check(theirs, peer),
            Ok(_) => Err(HandshakeError::malformed(peer, "no hello")),
            Err(error) => Err(error),
        };
        if let Err(error) = &received {
            let _ = self.say(&Message::failed(error));
        }
        received
    }

    /// Whether the peer's offer has arrived. Does not wait.
    pub(super) fn has_offer(&mut self) -> Result<bool, HandshakeError> {
        match (self.try_receive()?, &self.pending) {
            (false, _) => Ok(false),
            (true, Some(Message::Offer(_))) => Ok(true),
            (true, _) => Err(HandshakeError::malformed(self.peer(), "no hello")),
        }
    }

    /// Says that this side is ready, and waits until the peer is.
    pub(super) fn ready(&mut self) -> Result<(), HandshakeError> {
        self.say(&Message::Ready {})?;
        match self.next()? {
            Message::Ready {} => Ok(()),
            _ => Err(HandshakeError::malformed(self.peer(), "not ready")),
        }
    }

    /// Whether a message of the peer has arrived. Does not wait.
    pub(super) fn try_receive(&mut self) -> Result<bool, HandshakeError> {
        if self.pending.is_none()
            && let Some(line) = self.lines.try_receive()?
        {
            self.pending = Some(Message::parse(&line, self.peer())?);
        }
        Ok(self.pending.is_some())
    }

    /// The number of messages that the peer has posted on each queue pair, if its last message says
    /// so.
    ///
    /// # Errors
    /// A wrong number of queue pairs, or an end by time in a run without a time.
    pub(super) fn stopped(&mut self) -> Result<Option<Vec<u64>>, HandshakeError> {
        match self.pending.take() {
            Some(Message::Stop {
                by: StoppedBy::Duration,
                ..
            }) if !self.is_timed => {
                let why = "stop after a time that nobody asked for";
                Err(HandshakeError::malformed(self.peer(), why))
            }
            Some(Message::Stop { posted, by }) if posted.len() == self.qps => {
                self.stopped_by = Some(by);
                Ok(Some(posted))
            }
            Some(Message::Stop { posted, .. }) => {
                let why = format!("stop of {} queue pairs", posted.len());
                Err(HandshakeError::malformed(self.peer(), why))
            }
            other => {
                self.pending = other;
                Ok(None)
            }
        }
    }

    /// Fails if a signal stopped the peer before it was done.
    pub(super) fn check_complete(&self) -> Result<(), HandshakeError> {
        match self.stopped_by {
            Some(StoppedBy::Signal(signal)) => Err(HandshakeError::Interrupted {
                peer: self.peer(),
                by: Interrupted(signal),
            }),
            Some(StoppedBy::Duration) | None => Ok(()),
        }
    }

    /// How the peer ended.
    pub(super) fn finish(&mut self) -> Result<Done, HandshakeError> {
        match self.next()? {
            Message::Done(done) => Ok(done),
            _ => Err(HandshakeError::malformed(self.peer(), "not done")),
        }
    }

    /// The peer's next message.
    fn next(&mut self) -> Result<Message, HandshakeError> {
        match self.pending.take() {
            Some(pending) => Ok(pending),
            None => Message::parse(&self.lines.receive(self.wait)?, self.peer()),
        }
    }
}
