//! [`Cq`]: a completion queue, as a program holds it.

use e810_cqp::op::CqAttributes;
use e810_datapath::slot::CqKey;
use e810_datapath::{CompletionQueue, Counters, Notify, Sender, Wc};
use e810_hal::{DmaBuf, HostBuf, Platform};

use crate::channel::Channel;
use crate::moderation::{Moderated, Pacer};
use crate::monitoring::Depth;

/// User handle to a completion queue: polls completions and arms events.
///
/// Made by [`Control::create_cq`](crate::Control::create_cq). It is `Send`, so the
/// thread that polls can own it.
#[derive(Debug)]
#[must_use = "a completion queue is destroyed with Control::destroy_cq"]
#[doc(alias = "ibv_cq")]
pub struct Cq<P: Platform> {
    pub(crate) owner: u64,
    /// As it is now.
    pub(crate) attributes: CqAttributes,
    /// As it was created.
    pub(crate) made: CqAttributes,
    pub(crate) key: CqKey,
    pub(crate) queue: CompletionQueue<P, DmaBuf<P>, HostBuf<P>>,
    /// Rings of before a resize may have to be freed.
    pub(crate) resizing: bool,
    pub(crate) pacer: Pacer<P>,
    pub(crate) user_context: u64,
}

/// Parameters of a new completion queue.
#[derive(Debug)]
#[doc(alias("ibv_cq_init_attr_ex", "fi_cq_attr"))]
pub struct CqInit<'a, P: Platform> {
    /// Completions it has room for at least, 1..=1048574.
    pub entries: u32,
    /// The completion vector that its events go to, below
    /// [`Control::completion_vectors`](crate::Control::completion_vectors).
    pub vector: u16,
    /// The channel that its events go to as well.
    pub channel: Option<&'a Channel<P>>,
    /// A word of the program's own (`cq_context`), which [`Cq::user_context`] and
    /// the events of its channel give back. The driver does not interpret it.
    pub user_context: u64,
}

impl<P: Platform> CqInit<'_, P> {
    /// A queue without a channel; its user context is 0.
    #[must_use]
    pub const fn new(entries: u32, vector: u16) -> Self {
        Self {
            entries,
            vector,
            channel: None,
            user_context: 0,
        }
    }
}

impl<P: Platform> Cq<P> {
    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.key.id()
    }

    /// Its name in events of its channel.
    #[must_use]
    pub const fn key(&self) -> CqKey {
        self.key
    }

    /// What it was made with ([`CqInit::user_context`]).
    #[must_use]
    pub const fn user_context(&self) -> u64 {
        self.user_context
    }

    /// The completion vector that its events go to.
    #[must_use]
    pub fn completion_vector(&self) -> u16 {
        // Completion vectors are CEQ ids, of ten bits; every CQ names one.
        self.attributes.ceq.map_or(0, |ceq| ceq.get() as u16)
    }

    /// Polls up to `into.len()` completions into `into` and returns their number;
    /// 0 if there is none.
    ///
    /// A failing queue pair completes its requests only after
    /// [`Control::progress`](crate::Control::progress) has run, on whatever
    /// thread: a program that only polls calls it in its loop.
    #[inline]
    #[doc(alias("ibv_poll_cq", "ib_poll_cq"))]
    pub fn poll(&mut self, into: &mut [Wc]) -> usize {
        let done = self.queue.poll(into);
        self.pacer.polled(done as u32);
        if self.resizing {
            self.free_drained();
        }
        done
    }

    /// Takes one completion; for a received datagram also the sender's Ethernet
    /// address and VLAN, which with the first 40 bytes of the receive make the
    /// [path back](crate::Path::to_sender). `None`: no completion was there.
    /// Otherwise as [`poll`](Self::poll).
    pub fn poll_with_sender(&mut self) -> Option<(Wc, Option<Sender>)> {
        let taken = self.queue.poll_with_sender();
        self.pacer.polled(taken.is_some().into());
        if self.resizing {
            self.free_drained();
        }
        taken
    }

    /// Frees rings that a resize has replaced and that are polled empty.
    #[cold]
    pub(crate) fn free_drained(&mut self) {
        while let Some(ring) = self.queue.take_drained() {
            ring.release();
        }
        self.resizing = self.queue.is_resizing();
    }

    /// Completions it has room for. One with immediate data takes two places.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.attributes.entries
    }

    /// Asks for an event with the next completion that was not polled yet (or the
    /// next solicited one, or error), and says whether there is something to poll
    /// now: after `true`, poll again before waiting.
    ///
    /// ```
    /// use e810::{Cq, Notify, Platform, Wc};
    ///
    /// fn serve<P: Platform>(cq: &mut Cq<P>, sleep_until_its_event: impl Fn()) -> ! {
    ///     loop {
    ///         while cq.poll(&mut [Wc::default(); 16]) > 0 { /* use them */ }
    ///         if !cq.arm(Notify::Any) {
    ///             sleep_until_its_event();
    ///         }
    ///     }
    /// }
    /// ```
    #[must_use = "when there is something to poll, poll before waiting"]
    #[doc(alias("ibv_req_notify_cq", "ib_req_notify_cq"))]
    pub fn arm(&mut self, notify: Notify) -> bool {
        let more = self.queue.arm(notify);
        self.pacer.requested();
        more
    }

    /// Polling goes on without a request for an event: a round of it counts as one,
    /// as the kernel's does, or a load that keeps the poller busy would never be
    /// measured.
    pub(crate) fn polled_on(&mut self) {
        self.pacer.requested();
    }

    /// Whether an event came since the last call.
    pub fn take_event(&mut self) -> bool {
        self.queue.take_event()
    }

    /// Whether the device reported the queue as failed: it overflowed. What
    /// is in it can still be polled; later completions are lost, and the
    /// queue pairs on it have to be destroyed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.queue.has_failed()
    }

    /// Frees its memory without a word to the device, after the function was
    /// reset: see [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self) {
        self.queue.into_memory(DmaBuf::release);
    }

    /// How full it is; reads each entry that waits. Entries without a completion
    /// count as well, and one with immediate data counts twice.
    #[must_use]
    pub fn depth(&self) -> Depth {
        Depth {
            entries: self.entries(),
            waiting: self.queue.waiting(),
        }
    }

    /// How it is moderated.
    #[must_use]
    pub fn moderation(&self) -> Moderated {
        self.pacer.moderated()
    }

    /// Counters of entries that were skipped because they are not completions.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }
}
