//! Completion channels: where a program waits for the events of its completion
//! queues.
//!
//! ```
//! use e810::{Channel, Cq, Notify, Platform, Wc};
//!
//! /// `cq` was made on `channel` ([`Control::create_cq_on`](crate::Control::create_cq_on)).
//! async fn completions<P: Platform>(channel: &Channel<P>, cq: &mut Cq<P>) -> e810::Result<()> {
//!     loop {
//!         while cq.poll(&mut [Wc::default(); 16]) > 0 { /* use them */ }
//!         if cq.arm(Notify::Any) {
//!             continue;
//!         }
//!         // Or try_next, wait, poll_next: whatever waits here.
//!         let Ok(event) = channel.next().await else {
//!             return Ok(());
//!         };
//!         channel.acknowledge(event, 1)?;
//!         // More than one queue on the channel: event.cq() says which it was.
//!         let _ = cq.take_event();
//!     }
//! }
//! ```
//!
//! A channel is a handle: it may be cloned and waited on from several threads, and each event
//! goes to one of them. An event of a destroyed queue is never delivered, even if the queue's
//! number is in use again.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use e810_datapath::slot::{ChannelKey, CqKey, NextEvent, Slots};
use e810_hal::clock::poll_until;
use e810_hal::{HostBuf, HostShared, NoHostMemory, Ns, Platform, WaitError};

use crate::error::{Error, Object, Result};

/// Channels a device has at most.
pub const CHANNELS: u32 = 64;

/// The wakers of each channel's waiters; shared by control, events and channels.
#[derive(Clone, Debug)]
pub(crate) struct Wakers<P: Platform>(HostShared<P, [AtomicWaker; CHANNELS as usize]>);

impl<P: Platform> Wakers<P> {
    pub(crate) fn new(platform: P) -> Result<Self, NoHostMemory> {
        let none = [const { AtomicWaker::new() }; CHANNELS as usize];
        HostShared::new(platform, none).map(Self)
    }

    /// Wakes the waiter of a channel.
    pub(crate) fn wake(&self, channel: Option<u32>) {
        if let Some(waker) = channel.and_then(|channel| self.0.get(channel as usize)) {
            waker.wake();
        }
    }

    fn register(&self, channel: u32, waker: &Waker) {
        if let Some(slot) = self.0.get(channel as usize) {
            slot.register(waker);
        }
    }
}

/// The channel was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error("the completion channel is closed: nothing will come")]
pub struct ChannelClosed;

/// A completion queue of a channel has something to poll, or had until another thread
/// polled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "an event is acknowledged: the destruction of its queue waits for that"]
pub struct CqEvent {
    owner: u64,
    cq: CqKey,
    user_context: u64,
}

impl CqEvent {
    /// Which queue: compare with [`Cq::key`](crate::CqControl::key).
    #[must_use]
    pub const fn cq(self) -> CqKey {
        self.cq
    }

    /// The word that the queue was made with ([`CqInit::user_context`](crate::CqInit)).
    #[must_use]
    pub const fn user_context(self) -> u64 {
        self.user_context
    }
}

/// A completion channel. See the [module documentation](self).
#[derive(Clone, Debug)]
#[doc(alias = "ibv_comp_channel")]
pub struct Channel<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) key: ChannelKey,
    pub(crate) slots: Slots<HostBuf<P>>,
    pub(crate) wakers: Wakers<P>,
}

impl<P: Platform> Channel<P> {
    /// Takes an event, if there is one. Never waits; may be called from any thread.
    ///
    /// # Errors
    /// [`ChannelClosed`].
    #[doc(alias = "ibv_get_cq_event")]
    pub fn try_next(&self) -> Result<Option<CqEvent>, ChannelClosed> {
        match self.slots.take_event(self.key) {
            NextEvent::Event(cq) => Ok(Some(CqEvent {
                owner: self.owner,
                cq,
                // The queue lives until the event is acknowledged.
                user_context: self.slots.cq_user_context(cq).unwrap_or(0),
            })),
            NextEvent::Nothing => Ok(None),
            NextEvent::Closed => Err(ChannelClosed),
        }
    }

    /// Whether there is something for a waiter: an event, or that the channel is closed. May be
    /// true for an event that another thread takes first.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.slots.has_event(self.key)
    }

    /// Takes an event, or registers `waker` to be woken when one comes or the channel is closed.
    /// Only the last registered waker is woken: several waiting threads register the same one, or
    /// have a channel each.
    pub fn poll_next(&self, waker: &Waker) -> Poll<Result<CqEvent, ChannelClosed>> {
        if let Some(done) = self.try_next().transpose() {
            return Poll::Ready(done);
        }
        self.wakers.register(self.key.index(), waker);
        // An event that came before the waker was registered wakes nobody.
        match self.try_next().transpose() {
            Some(done) => Poll::Ready(done),
            None => Poll::Pending,
        }
    }

    /// Registers `waker` to be woken when an event comes or the channel is closed; wakes it at
    /// once if there is something now. For callers that keep a waker of their own, for example
    /// one behind a descriptor, and take events with [`Channel::try_next`].
    pub fn watch(&self, waker: &Waker) {
        self.wakers.register(self.key.index(), waker);
        if self.is_ready() {
            waker.wake_by_ref();
        }
    }

    /// The next event, for a task. It needs no executor other than the one that polls it.
    pub const fn next(&self) -> Next<'_, P> {
        Next { channel: self }
    }

    /// Waits for an event in a loop, for `limit` at most, and calls `turn` each time. `turn`
    /// finds the events where no interrupt handler does, for example
    /// [`VectorEvents::poll`](crate::VectorEvents::poll).
    ///
    /// # Errors
    /// [`Error::Wait`] with the label "an event of a completion channel",
    /// [`Error::ChannelClosed`].
    #[doc(alias = "ibv_get_cq_event")]
    pub fn wait(&self, platform: &P, limit: Ns, mut turn: impl FnMut()) -> Result<CqEvent> {
        let label = "an event of a completion channel";
        poll_until(platform, label, limit, Ns(0), || {
            turn();
            let found = self.try_next();
            found.map_err(|ChannelClosed| Failed::Closed)
        })
        .map_err(|failed| match failed {
            Failed::Closed => Error::ChannelClosed,
            Failed::Wait(error) => error.into(),
        })
    }

    /// Acknowledges `events` events of one completion queue: `event` and others that were taken.
    /// May be called from any thread; acknowledging several at once is cheaper. Until then the
    /// queue is not destroyed.
    ///
    /// # Errors
    /// [`Error::Datapath`] if fewer were taken, or the queue is gone; [`Error::Foreign`] for an
    /// event of another device.
    #[doc(alias = "ibv_ack_cq_events")]
    pub fn acknowledge(&self, event: CqEvent, events: u32) -> Result<()> {
        if event.owner != self.owner {
            let id = event.cq.id();
            let object = Object::Cq;
            return Err(Error::Foreign { object, id });
        }
        let done = self.slots.acknowledge_events(event.cq, events);
        done.map_err(|error| e810_datapath::Error::from(error).into())
    }
}

/// How a wait failed.
enum Failed {
    Closed,
    Wait(WaitError),
}

impl From<WaitError> for Failed {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

/// The next event of a channel.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Next<'a, P: Platform> {
    channel: &'a Channel<P>,
}

impl<P: Platform> Future for Next<'_, P> {
    type Output = Result<CqEvent, ChannelClosed>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.channel.poll_next(cx.waker())
    }
}
