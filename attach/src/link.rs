//! What carries messages between an owner and a program: bytes and perhaps a file, in their order,
//! each message whole.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::lock;

/// The other end is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other end is gone")]
pub struct Ended;

/// A message.
#[derive(Debug)]
pub struct Message {
    pub bytes: Vec<u8>,
    /// A file that the receiver gets a descriptor of.
    pub file: Option<OwnedFd>,
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, file: None }
    }
}

/// One end of a link.
pub trait Link: Debug + Send + Sync {
    /// Sends a message; does not wait for the other end.
    ///
    /// # Errors
    /// [`Ended`].
    fn send(&self, message: Message) -> Result<(), Ended>;

    /// The next message; `None` if none comes within `limit`.
    ///
    /// # Errors
    /// [`Ended`], after all messages.
    fn receive(&self, limit: Duration) -> Result<Option<Message>, Ended>;

    /// Messages for the other end that wait here because it does not read, as far as that is known.
    fn unread(&self) -> usize {
        0
    }

    /// Whether this end has ended the link because too many waited.
    fn is_cut_off(&self) -> bool {
        false
    }
}

/// One end of a link within a process, for tests: nothing but messages passes.
#[derive(Debug)]
pub struct ChannelEnd {
    to: Mutex<Sender<Message>>,
    from: Mutex<Receiver<Message>>,
}

impl ChannelEnd {
    /// Both ends.
    #[must_use]
    pub fn pair() -> [Self; 2] {
        let ((to_first, first), (to_second, second)) = (channel(), channel());
        let end = |to, from| Self {
            to: Mutex::new(to),
            from: Mutex::new(from),
        };
        [end(to_second, first), end(to_first, second)]
    }
}

impl Link for ChannelEnd {
    fn send(&self, message: Message) -> Result<(), Ended> {
        lock(&self.to).send(message).map_err(|_| Ended)
    }

    fn receive(&self, limit: Duration) -> Result<Option<Message>, Ended> {
        match lock(&self.from).recv_timeout(limit) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }
}
