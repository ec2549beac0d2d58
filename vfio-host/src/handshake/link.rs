//! The connection with a peer, in the handshake of its program.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use super::ibv_rc_pingpong::Texts;
use super::messages::{Done, Message, Messages};
use super::{HandshakeError, Lines, Offer, Peer, Program, Role};
use crate::stop::{Interrupted, StopView, StoppedBy};

/// The connection with a peer.
#[derive(Debug)]
pub struct Link(Dialogue);

/// What is said on it, by the peer's program.
#[derive(Debug)]
enum Dialogue {
    E810(Messages),
    IbvRcPingpong(Texts),
}

impl Link {
    /// A connection with another e810 on which nothing was said yet; each answer may take `wait`.
    #[must_use]
    pub const fn new(lines: Lines, wait: Duration) -> Self {
        Self(Dialogue::E810(Messages::new(lines, wait)))
    }

    /// The same with the program `program`, on the side `role`.
    pub(super) const fn with(program: Program, role: Role, lines: Lines, wait: Duration) -> Self {
        match program {
            Program::E810 => Self::new(lines, wait),
            Program::IbvRcPingpong => Self(Dialogue::IbvRcPingpong(Texts::new(role, lines, wait))),
        }
    }

    /// Which program the peer is.
    #[must_use]
    pub const fn program(&self) -> Program {
        match self.0 {
            Dialogue::E810(_) => Program::E810,
            Dialogue::IbvRcPingpong(_) => Program::IbvRcPingpong,
        }
    }

    /// Who the peer is.
    pub(crate) const fn peer(&self) -> SocketAddr {
        match &self.0 {
            Dialogue::E810(messages) => messages.peer(),
            Dialogue::IbvRcPingpong(texts) => texts.peer(),
        }
    }

    /// Has the waits for the peer from here on end when the run is asked to. A signal that came
    /// before this side said [`stop`](Self::stop) or [`done`](Self::done) does not end what it
    /// waits for after that.
    pub(crate) fn hear(&mut self, stop: StopView) {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.hear(stop),
            Dialogue::IbvRcPingpong(texts) => texts.hear(stop),
        }
    }

    /// Tells who this is, and learns who the peer is.
    ///
    /// # Errors
    /// What the peer is not, or what it was not asked for, which is also sent to it.
    pub fn exchange_params(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        let peer = match &mut self.0 {
            Dialogue::E810(messages) => messages.exchange(offer),
            Dialogue::IbvRcPingpong(texts) => texts.exchange(offer),
        }?;
        // A queue pair that is connected to itself carries messages, to the wrong side.
        match offer.is_of(&peer) {
            true => Err(HandshakeError::Echo { peer: self.peer() }),
            false => Ok(peer),
        }
    }

    /// Whether the first line of the peer is there, which an e810 sends at once.
    /// Does not wait.
    ///
    /// # Errors
    /// A peer that does not speak this protocol, or is gone.
    pub(crate) fn has_offer(&mut self) -> Result<bool, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.has_offer(),
            Dialogue::IbvRcPingpong(texts) => texts.has_text(),
        }
    }

    /// Says that this side is ready, and waits until the peer is: before
    /// messages, and as often as both like between them.
    ///
    /// # Errors
    /// A peer that is gone, silent or failed.
    pub fn ready(&mut self) -> Result<(), HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.ready(),
            Dialogue::IbvRcPingpong(texts) => texts.ready(),
        }
    }

    /// Tells the peer that no more messages come than have been `posted` on each
    /// queue pair, and why; all of them have arrived.
    ///
    /// # Errors
    /// A peer that is gone.
    pub fn stop(&mut self, posted: Vec<u64>, by: StoppedBy) -> Result<(), HandshakeError> {
        self.say(&Message::Stop { posted, by })
    }

    /// What the peer has posted on each queue pair, if it said last that there
    /// will be no more; returned once.
    ///
    /// # Errors
    /// A peer that says it of other queue pairs than both have.
    pub fn stopped(&mut self) -> Result<Option<Vec<u64>>, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.stopped(),
            Dialogue::IbvRcPingpong(_) => Ok(None),
        }
    }

    /// Fails where the peer has said that a signal stopped it before it was through.
    ///
    /// # Errors
    /// [`HandshakeError::Interrupted`].
    pub fn check_complete(&self) -> Result<(), HandshakeError> {
        match &self.0 {
            Dialogue::E810(messages) => messages.check_complete(),
            Dialogue::IbvRcPingpong(_) => Ok(()),
        }
    }

    /// Whether the peer has sent something: that it is done, or ready for
    /// what comes next. Does not wait.
    ///
    /// # Errors
    /// A peer that is gone or failed.
    pub fn try_receive(&mut self) -> Result<bool, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.try_receive(),
            // Nothing comes, and the connection may be closed.
            Dialogue::IbvRcPingpong(_) => Ok(false),
        }
    }

    /// Says that this side is done. It goes on to serve the peer until
    /// [`Link::finish`].
    ///
    /// # Errors
    /// A peer that is gone.
    pub fn done(&mut self, mine: Done) -> Result<(), HandshakeError> {
        self.say(&Message::Done(mine))
    }

    /// Waits until the peer is done too.
    ///
    /// # Errors
    /// A peer that is gone, silent or failed.
    pub fn finish(&mut self) -> Result<Done, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.finish(),
            // It does not say.
            Dialogue::IbvRcPingpong(_) => Ok(Done {
                verified: 0,
                errors: 0,
            }),
        }
    }

    /// Tells the peer why there will be nothing more. Whether it hears it makes
    /// no difference.
    pub fn give_up(&mut self, why: &dyn Display) {
        let _ = self.say(&Message::failed(why));
    }

    /// Tells the peer that a signal ends this side where it stands. Whether it hears it makes no
    /// difference.
    pub fn interrupted(&mut self, Interrupted(signal): Interrupted) {
        let _ = self.say(&Message::Interrupted { signal });
    }

    /// Sends `message`, which only another e810 expects; another program is sent nothing.
    fn say(&mut self, message: &Message) -> Result<(), HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.say(message),
            Dialogue::IbvRcPingpong(_) => Ok(()),
        }
    }
}
