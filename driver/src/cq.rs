//! [`Cq`]: a completion queue, as a program holds it.

use core::ops::{Deref, DerefMut};

use e810_cqp::op::CqAttributes;
use e810_datapath::slot::CqKey;
use e810_datapath::{CompletionQueue, Counters, Notify, Sender, Wc};
use e810_hal::{DmaBuf, HostBuf, Platform};

use crate::channel::Channel;
use crate::cq_memory::CqRingMemory;
use crate::error::{Error, Result};
use crate::handover::{CqDestroyed, CqResized};
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
    pub(crate) control: CqControl,
    pub(crate) ring: CqRing<P>,
}

/// The control path's part of a completion queue. Calls of [`Control`](crate::Control) that take
/// it accept a [`Cq`] as well.
#[derive(Debug)]
#[must_use = "a completion queue is destroyed with Control::destroy_cq"]
pub struct CqControl {
    pub(crate) owner: u64,
    /// As it is now.
    pub(crate) attributes: CqAttributes,
    /// As it was created.
    pub(crate) made: CqAttributes,
    pub(crate) key: CqKey,
    pub(crate) user_context: u64,
    /// Its destruction was not answered: the device may no longer have it.
    pub(crate) is_ending: bool,
    /// It is polled with slots of the program's own ([`CqInit::elsewhere`]).
    pub(crate) elsewhere: bool,
}

/// The part of a completion queue that is polled: [`Cq::into_parts`].
#[derive(Debug)]
#[must_use = "the ring is freed when its completion queue is destroyed"]
pub struct CqRing<P: Platform> {
    owner: u64,
    pub(crate) queue: CompletionQueue<P, DmaBuf<P>, HostBuf<P>>,
    /// Rings from before a resize may have to be freed.
    resizing: bool,
    /// The memory of a resize that the device did not answer: the device may write there until
    /// the queue is destroyed.
    unanswered: Option<CqRingMemory<P>>,
    pub(crate) pacer: Pacer<P>,
}

/// Parameters of a new completion queue.
#[derive(Debug)]
#[doc(alias("ibv_cq_init_attr_ex", "fi_cq_attr"))]
pub struct CqInit<'a, P: Platform> {
    /// Room for at least this many completions, 1..=1048574.
    pub entries: u32,
    /// The completion vector that its events go to, below
    /// [`Control::completion_vectors`](crate::Control::completion_vectors).
    pub vector: u16,
    /// The channel that its events also go to.
    pub channel: Option<&'a Channel<P>>,
    /// A word of the program's own (`cq_context`), which [`CqControl::user_context`] and
    /// the events of its channel give back. The driver does not interpret it.
    pub user_context: u64,
    /// It is polled in another process, with slots of that program's own
    /// ([`ProgramQueues`](crate::ProgramQueues)), and so are its queue pairs. Each of its events is
    /// an [`Event::Completion`](crate::Event::Completion) to pass on; no channel hears of them.
    pub elsewhere: bool,
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
            elsewhere: false,
        }
    }
}

impl<P: Platform> Deref for Cq<P> {
    type Target = CqControl;

    fn deref(&self) -> &CqControl {
        &self.control
    }
}

impl<P: Platform> DerefMut for Cq<P> {
    fn deref_mut(&mut self) -> &mut CqControl {
        &mut self.control
    }
}

impl CqControl {
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

    /// The word that it was made with ([`CqInit::user_context`]).
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

    /// Completions it has room for. One with immediate data takes two places.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.attributes.entries
    }
}

impl<P: Platform> Cq<P> {
    /// Its parts, for a program that keeps the control path elsewhere.
    pub fn into_parts(self) -> (CqControl, CqRing<P>) {
        (self.control, self.ring)
    }

    /// As [`CqRing::poll`].
    #[inline]
    #[doc(alias("ibv_poll_cq", "ib_poll_cq"))]
    pub fn poll<C: From<Wc>>(&mut self, into: &mut [C]) -> usize {
        self.ring.poll(into)
    }

    /// As [`CqRing::poll_with_sender`].
    pub fn poll_with_sender(&mut self) -> Option<(Wc, Option<Sender>)> {
        self.ring.poll_with_sender()
    }

    /// As [`CqRing::arm`].
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
        self.ring.arm(notify)
    }

    /// Polling continues without a request for an event. One round of polling counts as a
    /// request, as in the kernel's soft interrupts; otherwise a load that keeps the poller busy
    /// would never be measured.
    pub(crate) fn polled_on(&mut self) {
        self.ring.requested();
    }

    /// As [`CqRing::take_event`].
    pub fn take_event(&mut self) -> bool {
        self.ring.take_event()
    }

    /// As [`CqRing::has_failed`].
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.ring.has_failed()
    }

    /// As [`CqRing::forget_gone`].
    pub fn forget_gone(&mut self) {
        self.ring.forget_gone();
    }

    /// Frees its memory without a command to the device, after the function was reset: see
    /// [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self) {
        self.ring.free();
    }

    /// As [`CqRing::depth`].
    #[must_use]
    pub fn depth(&self) -> Depth {
        self.ring.depth()
    }

    /// As [`CqRing::moderation`].
    #[must_use]
    pub fn moderation(&self) -> Moderated {
        self.ring.moderation()
    }

    /// As [`CqRing::counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.ring.counters()
    }
}

impl<P: Platform> CqRing<P> {
    /// A queue that no control path has made, for benches.
    ///
    /// # Errors
    /// No memory.
    #[cfg(feature = "testing")]
    pub fn over(platform: &P, queue: CompletionQueue<P, DmaBuf<P>, HostBuf<P>>) -> Result<Self> {
        use crate::moderation::Shared;
        let (cq, ceq) = (queue.key().id(), e810_hal::CeqId::ZERO);
        let shared = Shared::new(platform.clone(), cq.saturating_add(1))?;
        let pacer = Pacer::new(platform.clone(), shared, cq, ceq);
        Ok(Self::new(0, queue, pacer))
    }

    pub(crate) const fn new(
        owner: u64,
        queue: CompletionQueue<P, DmaBuf<P>, HostBuf<P>>,
        pacer: Pacer<P>,
    ) -> Self {
        Self {
            owner,
            queue,
            resizing: false,
            unanswered: None,
            pacer,
        }
    }

    /// Polls up to `into.len()` completions into `into` and returns their number; 0 if there is
    /// none. A program's own type for completions ([`From<Wc>`](Wc)) is written in place.
    ///
    /// A failing queue pair completes its requests only after
    /// [`Control::progress`](crate::Control::progress) has run, on any thread: a program that
    /// only polls calls it in its loop.
    #[inline]
    #[doc(alias("ibv_poll_cq", "ib_poll_cq"))]
    pub fn poll<C: From<Wc>>(&mut self, into: &mut [C]) -> usize {
        let done = self.queue.poll(into);
        self.pacer.polled(done as u32);
        if self.resizing {
            self.free_drained();
        }
        done
    }

    /// Whether there is nothing to poll; an idle ring need not be polled. May return `false`
    /// although a poll then finds nothing.
    #[inline(always)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Takes one completion, or `None` if there is none. For a received datagram it also gives
    /// the sender's Ethernet address and VLAN; with the first 40 bytes of the receive they make
    /// the [path back](crate::Path::to_sender). Otherwise as [`poll`](Self::poll).
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
    #[inline(never)]
    fn free_drained(&mut self) {
        while let Some(ring) = self.queue.take_drained() {
            ring.release();
        }
        self.resizing = self.queue.is_resizing();
    }

    /// Whether it can be resized: at most four resizes with unpolled completions may be under
    /// way. Frees the rings that earlier resizes have left.
    pub fn can_resize(&mut self) -> bool {
        self.free_drained();
        self.queue.pass_over_replaced();
        self.free_drained();
        self.queue.can_resize()
    }

    /// Memory for a resize to at least `cqe` completions.
    ///
    /// # Errors
    /// A size outside 1..=1048574, no memory.
    pub fn memory_for(&self, cqe: u32) -> Result<CqRingMemory<P>> {
        CqRingMemory::new(self.pacer.platform(), cqe)
    }

    /// Keeps the memory of a resize that the device did not answer until the queue is destroyed.
    /// Nothing else can be done with it.
    pub fn keep(&mut self, memory: CqRingMemory<P>) {
        // Another resize is refused, so there is one.
        self.unanswered = Some(memory);
    }

    /// Continues in the memory of a resize. Nobody polls between the command and this call.
    ///
    /// # Errors
    /// The token belongs to another completion queue, the memory is not the memory that the
    /// control path was told of, or [`can_resize`](Self::can_resize) is false. The memory is then
    /// leaked, because the device has it.
    pub fn resized(&mut self, memory: CqRingMemory<P>, resized: CqResized) -> Result<()> {
        let (ring, entries) = memory.into_ring();
        let told = (resized.owner, resized.key, resized.entries);
        if (self.owner, self.queue.key(), entries) != told {
            return Err(Error::Invalid {
                what: "this resize was another completion queue's",
            });
        }
        self.resizing = true;
        match self.queue.resized(ring, entries) {
            Ok(()) => Ok(()),
            // The device has the ring: it is dropped, which leaks it, and not given back.
            Err((ring, error)) => {
                drop(ring);
                Err(e810_datapath::Error::from(error).into())
            }
        }
    }

    /// Forgets queue pairs that were destroyed or are being reset: drops their completions that
    /// nobody polled, which frees the places, and completions that were still to be given out.
    ///
    /// A poll that finds nothing does enough of this for their numbers to be used again. A
    /// program that waits for events may not poll a queue for a long time; it calls this after
    /// [`Control::destroy_qp`](crate::Control::destroy_qp), or the device runs out of queue
    /// pairs.
    pub fn forget_gone(&mut self) {
        self.queue.forget_gone();
    }

    /// Frees its memory, once its completion queue is destroyed. If `destroyed` is of another
    /// queue, the memory is kept: the device may still use it.
    pub fn release(self, destroyed: &CqDestroyed) {
        if (self.owner, self.queue.key()) == (destroyed.owner, destroyed.key) {
            self.free();
        }
    }

    fn free(self) {
        self.queue.into_memory(DmaBuf::release);
        if let Some(memory) = self.unanswered {
            memory.release();
        }
    }

    /// Asks for an event with the next completion that was not polled yet (or the next solicited
    /// one, or error). Returns whether there is something to poll now: after `true`, poll again
    /// before waiting.
    #[must_use = "when there is something to poll, poll before waiting"]
    #[doc(alias("ibv_req_notify_cq", "ib_req_notify_cq"))]
    pub fn arm(&mut self, notify: Notify) -> bool {
        let more = self.queue.arm(notify);
        self.requested();
        more
    }

    #[inline(always)]
    fn requested(&mut self) {
        let queue = &self.queue;
        self.pacer.requested(|| queue.lives());
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

    /// How full it is; reads every waiting entry. Entries without a completion count as well, and
    /// a completion with immediate data counts twice.
    #[must_use]
    pub fn depth(&self) -> Depth {
        Depth {
            entries: self.queue.entries(),
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
