//! The handshake of two e810: one JSON object a line.

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
    /// A side that this signal came to ends where it stands.
    Interrupted {
        signal: i32,
    },
    Failed {
        why: String,
    },
}

impl Message {
    /// That there will be nothing more, and why.
    pub(super) fn failed(why: &dyn Display) -> Self {
        Self::Failed {
            why: shown(&why.to_string()),
        }
    }

    /// What a line of `peer` says.
    ///
    /// # Errors
    /// Another version, nothing of this protocol, or that the peer has failed or was interrupted.
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
    /// How long a peer may be silent.
    wait: Duration,
    /// What the peer has said that nobody waited for yet.
    pending: Option<Message>,
    /// Queue pairs of each side, once it is agreed on.
    qps: usize,
    /// Whether both were asked to end after some time.
    is_timed: bool,
    /// What stopped the peer before it was through.
    stopped_by: Option<StoppedBy>,
}

impl Messages {
    /// The side at this end of a connection on which nothing was said yet.
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

    /// Who the peer is.
    pub(super) const fn peer(&self) -> SocketAddr {
        self.lines.peer()
    }

    /// Has waits end when the run is asked to.
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

    /// Both sides say their offers; a peer whose offer is not taken learns why.
    pub(super) fn exchange(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        self.say(&Message::Offer(offer.clone()))?;
        let peer = self.peer();
        // Without a line there is nothing to refuse.
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

    /// Whether the peer's offer is there. Does not wait.
    pub(super) fn has_offer(&mut self) -> Result<bool, HandshakeError> {
        match (self.try_receive()?, &self.pending) {
            (false, _) => Ok(false),
            (true, Some(Message::Offer(_))) => Ok(true),
            (true, _) => Err(HandshakeError::malformed(self.peer(), "no hello")),
        }
    }

    /// Both sides say that they are ready.
    pub(super) fn ready(&mut self) -> Result<(), HandshakeError> {
        self.say(&Message::Ready {})?;
        match self.next()? {
            Message::Ready {} => Ok(()),
            _ => Err(HandshakeError::malformed(self.peer(), "not ready")),
        }
    }

    /// Whether the peer has said something. Does not wait.
    pub(super) fn try_receive(&mut self) -> Result<bool, HandshakeError> {
        if self.pending.is_none()
            && let Some(line) = self.lines.try_receive()?
        {
            self.pending = Some(Message::parse(&line, self.peer())?);
        }
        Ok(self.pending.is_some())
    }

    /// What the peer has posted on each queue pair, if that is what it said last.
    ///
    /// # Errors
    /// Another number of queue pairs than both have, or an end by a time that neither was given.
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

    /// Fails where a signal stopped the peer before it was through.
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

    /// What the peer says next.
    fn next(&mut self) -> Result<Message, HandshakeError> {
        match self.pending.take() {
            Some(pending) => Ok(pending),
            None => Message::parse(&self.lines.receive(self.wait)?, self.peer()),
        }
    }
}
