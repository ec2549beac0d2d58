//! A completion channel with a descriptor, to block on, or to pass to `poll` with others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use e810::{Channel, ChannelClosed, CqEvent, Platform};
use thiserror::Error;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Why there is no event.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// No further events come.
    #[error(transparent)]
    Closed(#[from] ChannelClosed),
    /// None came in time.
    #[error("no completion event came in {0:?}")]
    Timeout(Duration),
    /// Waiting for the descriptor failed.
    #[error("waiting for completion events: {0}")]
    System(#[from] io::Error),
}

/// Wakes a waiter: a descriptor that becomes readable.
#[derive(Debug)]
struct Bell(EventFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        Self::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It is full only after 2^64 rings, and is readable even then.
        let _ = self.0.write(1);
    }
}

/// A completion channel that is waited for by its descriptor. The descriptor is readable while the
/// channel has events, and once it is closed. Several threads may use it: each event goes to one of
/// them.
#[derive(Debug)]
pub struct HostChannel<P: Platform> {
    channel: Channel<P>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<P: Platform> HostChannel<P> {
    /// Gives `channel` a descriptor. Make only one of these for a channel: only the last one is
    /// notified.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(channel: Channel<P>) -> io::Result<Self> {
        let bell = Arc::new(Bell(EventFd::new(EFD_NONBLOCK | libc::EFD_CLOEXEC)?));
        let waker = Waker::from(Arc::clone(&bell));
        channel.watch(&waker);
        Ok(Self {
            channel,
            bell,
            waker,
        })
    }

    /// The channel, to acknowledge events and to make completion queues on.
    #[must_use]
    pub const fn channel(&self) -> &Channel<P> {
        &self.channel
    }

    /// Takes an event, if there is one; never waits. The descriptor may have been readable and yet
    /// there is no event, if another thread was faster.
    ///
    /// # Errors
    /// [`ChannelClosed`].
    pub fn try_next(&self) -> Result<Option<CqEvent>, ChannelClosed> {
        // Cleared first: an event that comes after this rings again.
        let _ = self.bell.0.read();
        let found = self.channel.try_next();
        self.channel.watch(&self.waker);
        found
    }

    /// Waits for an event, for `limit` at most; for ever if the clock cannot reach `limit`, as with
    /// [`Duration::MAX`].
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn next(&self, limit: Duration) -> Result<CqEvent, ChannelError> {
        let start = Instant::now();
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(ChannelError::Timeout(limit));
            }
            self.sleep(left)?;
        }
    }

    /// Sleeps until the descriptor is readable, a signal comes, or `left` is over.
    fn sleep(&self, left: Duration) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.bell.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = left.as_micros().div_ceil(1000);
        let timeout = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
        // SAFETY: one entry, alive for the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, timeout) };
        match ready {
            0.. => Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }
}

impl<P: Platform> AsFd for HostChannel<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `self.bell`, which the borrow keeps alive.
        unsafe { BorrowedFd::borrow_raw(self.bell.0.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests;
