//! The connection to a peer, in the handshake of its program.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use super::ibv_rc_pingpong::Texts;
use super::messages::{Done, Message, Messages};
use super::{HandshakeError, Lines, Offer, Peer, Program, Role};
use crate::stop::{Interrupted, StopView, StoppedBy};

/// The connection to a peer.
#[derive(Debug)]
pub struct Link(Dialogue);

/// The handshake, by the peer's program.
#[derive(Debug)]
enum Dialogue {
    E810(Messages),
    IbvRcPingpong(Texts),
}

impl Link {
    /// A new connection to another e810; each answer may take `wait`.
    #[must_use]
    pub const fn new(lines: Lines, wait: Duration) -> Self {
        Self(Dialogue::E810(Messages::new(lines, wait)))
    }

    /// The same to the program `program`, on the side `role`.
    pub(super) const fn with(program: Program, role: Role, lines: Lines, wait: Duration) -> Self {
        match program {
            Program::E810 => Self::new(lines, wait),
            Program::IbvRcPingpong => Self(Dialogue::IbvRcPingpong(Texts::new(role, lines, wait))),
        }
    }

    /// The peer's program.
    #[must_use]
    pub const fn program(&self) -> Program {
        match self.0 {
            Dialogue::E810(_) => Program::E810,
            Dialogue::IbvRcPingpong(_) => Program::IbvRcPingpong,
        }
    }

    /// The peer's address.
    pub(crate) const fn peer(&self) -> SocketAddr {
        match &self.0 {
            Dialogue::E810(messages) => messages.peer(),
            Dialogue::IbvRcPingpong(texts) => texts.peer(),
        }
    }

    /// From here on, waits for the peer end when the run is asked to end. A signal that came before
    /// this side said [`stop`](Self::stop) or [`done`](Self::done) does not end the waits after
    /// that.
    pub(crate) fn hear(&mut self, stop: StopView) {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.hear(stop),
            Dialogue::IbvRcPingpong(texts) => texts.hear(stop),
        }
    }

    /// Exchanges parameters with the peer.
    ///
    /// # Errors
    /// A wrong peer, or parameters that differ; the peer is told.
    pub fn exchange_params(&mut self, offer: &Offer) -> Result<Peer, HandshakeError> {
        let peer = match &mut self.0 {
            Dialogue::E810(messages) => messages.exchange(offer),
            Dialogue::IbvRcPingpong(texts) => texts.exchange(offer),
        }?;
        // A queue pair that is connected to itself would carry messages, but to the wrong side.
        match offer.is_of(&peer) {
            true => Err(HandshakeError::Echo { peer: self.peer() }),
            false => Ok(peer),
        }
    }

    /// Whether the peer's first line has arrived; an e810 sends it at once. Does not wait.
    ///
    /// # Errors
    /// A peer that does not speak this protocol, or is gone.
    pub(crate) fn has_offer(&mut self) -> Result<bool, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.has_offer(),
            Dialogue::IbvRcPingpong(texts) => texts.has_text(),
        }
    }

    /// Says that this side is ready, and waits until the peer is. Both sides do this before the
    /// messages, and between them as often as they agree to.
    ///
    /// # Errors
    /// A peer that is gone, silent or failed.
    pub fn ready(&mut self) -> Result<(), HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.ready(),
            Dialogue::IbvRcPingpong(texts) => texts.ready(),
        }
    }

    /// Tells the peer how many messages were `posted` on each queue pair, that no more come, and
    /// why. All of them have arrived.
    ///
    /// # Errors
    /// A peer that is gone.
    pub fn stop(&mut self, posted: Vec<u64>, by: StoppedBy) -> Result<(), HandshakeError> {
        self.say(&Message::Stop { posted, by })
    }

    /// The number of messages that the peer has posted on each queue pair, if its last message says
    /// that no more come; returned once.
    ///
    /// # Errors
    /// The number of queue pairs is wrong.
    pub fn stopped(&mut self) -> Result<Option<Vec<u64>>, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.stopped(),
            Dialogue::IbvRcPingpong(_) => Ok(None),
        }
    }

    /// Fails if the peer has said that a signal stopped it before it was done.
    ///
    /// # Errors
    /// [`HandshakeError::Interrupted`].
    pub fn check_complete(&self) -> Result<(), HandshakeError> {
        match &self.0 {
            Dialogue::E810(messages) => messages.check_complete(),
            Dialogue::IbvRcPingpong(_) => Ok(()),
        }
    }

    /// Whether a message of the peer has arrived: that it is done, or ready for the next step. Does
    /// not wait.
    ///
    /// # Errors
    /// A peer that is gone or failed.
    pub fn try_receive(&mut self) -> Result<bool, HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.try_receive(),
            // No message comes, and the connection may be closed.
            Dialogue::IbvRcPingpong(_) => Ok(false),
        }
    }

    /// Says that this side is done. It continues to serve the peer until [`Link::finish`].
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
            // The program does not say.
            Dialogue::IbvRcPingpong(_) => Ok(Done {
                verified: 0,
                errors: 0,
            }),
        }
    }

    /// Tells the peer why this side gives up. It does not matter whether the peer gets it.
    pub fn give_up(&mut self, why: &dyn Display) {
        let _ = self.say(&Message::failed(why));
    }

    /// Tells the peer that a signal ends this side. It does not matter whether the peer gets it.
    pub fn interrupted(&mut self, Interrupted(signal): Interrupted) {
        let _ = self.say(&Message::Interrupted { signal });
    }

    /// Sends `message` to another e810; sends nothing to another program.
    fn say(&mut self, message: &Message) -> Result<(), HandshakeError> {
        match &mut self.0 {
            Dialogue::E810(messages) => messages.say(message),
            Dialogue::IbvRcPingpong(_) => Ok(()),
        }
    }
}
