//! Slot of a QP.

use core::sync::atomic::Ordering;

use e810_types::{FlushCode, QpState, WorkQueue};

use super::queue::{LINE, QueueLine};
use super::{Atom, FREE, QpKey};
use crate::state::state_from_bits;

/// Lines of a slot, by who writes them: control (and events), the producer, the
/// pollers of the send and of the receive queue.
pub(super) const LINES: usize = 4;
/// Words of a slot.
pub(super) const WORDS: usize = LINES * LINE;
/// EXTENT of a QP whose queues are in another table of slots: it has no trackers here.
pub(super) const ELSEWHERE: u64 = u64::MAX;

// Control's line; events write STATE.
/// The key, or [`FREE`].
pub(super) const IDENTITY: usize = 0;
/// [2:0] state, [3] takes sends, [4] takes receives, [5] drained, [6] wants to be notified of
/// that, [8] on the attention list, [9] failed, [11:10] queue that caused it, [31:16] its flush
/// code, [63:33] generation (0: hidden).
pub(super) const STATE: usize = 1;
const ATTENTION_LINK: usize = 2;
const RETIRE_LINK: usize = 3;
pub(super) const GENERATION: usize = 4;
pub(super) const EXTENT: usize = 5;
pub(super) const RETIRED: usize = 6;
/// The QP's own Q_Key, which control writes and the producer reads.
pub(super) const QKEY: usize = 7;
// The producer's line; what control alone uses is at its end.
pub(super) const SQ_HEAD: usize = 0;
pub(super) const RQ_HEAD: usize = 1;
pub(super) const SEND_CQ: usize = 2;
pub(super) const RECV_CQ: usize = 3;
const SEND_EPOCH: usize = 4;
const RECV_EPOCH: usize = 5;
/// Handlers that are telling something about the QP just now.
const HOLDS: usize = 6;

// Values of RETIRED. The device no longer knows the QP, and only its CQs here have to pass it.
const FORGOTTEN: u64 = 1;
/// The device no longer knows it; another table of slots still does.
const RETIRED_ELSEWHERE: u64 = 2;

const SENDS: u64 = 1 << 3;
const RECEIVES: u64 = 1 << 4;
/// In SQD: the device has said that the send queue is drained.
const DRAINED: u64 = 1 << 5;
/// In SQD: an event was asked for.
const NOTIFY: u64 = 1 << 6;
const STATE_MASK: u64 = 0x7F;
const ATTENTION_BIT: u64 = 1 << 8;
const FAILED_BIT: u64 = 1 << 9;
const CAUSE_SHIFT: u32 = 10;
const CODE_SHIFT: u32 = 16;
const GENERATION_SHIFT: u32 = 33;

/// A state and what it takes: sends from RTS on, receives from INIT on (IB). A queue in error (in
/// SQE only the send queue) takes requests too, but not in the usual way: see [`QpSlot::takes`].
pub(super) const fn state_bits(state: QpState) -> u64 {
    let taken = match state {
        QpState::Reset | QpState::Err => 0,
        QpState::Init | QpState::Rtr | QpState::Sqe => RECEIVES,
        QpState::Rts | QpState::Sqd => SENDS | RECEIVES,
    };
    state as u64 | taken
}

pub(super) const fn generation_bits(key: QpKey) -> u64 {
    (key.generation() as u64) << GENERATION_SHIFT
}

/// Whether a STATE word is that of `key`'s life.
pub(super) const fn is_of(state: u64, key: QpKey) -> bool {
    state >> GENERATION_SHIFT << GENERATION_SHIFT == generation_bits(key)
}

/// No STATE word.
pub(crate) const NEVER_OPEN: u64 = u64::MAX;

/// Whether a STATE word belongs to `key`'s life, and `queue` takes requests in it and the device
/// looks at them. A queue in error takes requests as well; software completes them.
pub(crate) const fn takes(state: u64, key: QpKey, queue: WorkQueue) -> bool {
    let taken = match queue {
        WorkQueue::Send => state & SENDS,
        WorkQueue::Recv => state & RECEIVES,
    };
    taken != 0 && is_of(state, key)
}

/// Why the device stopped a QP, as its asynchronous event says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cause {
    /// The work queue whose request failed, where the event names one.
    pub queue: Option<WorkQueue>,
    /// The flush code that the event stands for (data-path 8.8).
    pub code: FlushCode,
}

/// What marking a QP as failed did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Marked {
    /// The QP is in ERR now; control has to move the device's side there.
    Now,
    /// Its program had taken it to ERR; control has to do what the device refused before.
    Ended,
    /// It had been marked before.
    Before,
    /// No such QP (any more).
    Unknown,
}

const fn queue_code(queue: Option<WorkQueue>) -> u64 {
    match queue {
        None => 0,
        Some(WorkQueue::Send) => 1,
        Some(WorkQueue::Recv) => 2,
    }
}

/// The cause in a STATE word.
pub(super) const fn cause_of(state: u64) -> Cause {
    Cause {
        queue: match state >> CAUSE_SHIFT & 3 {
            1 => Some(WorkQueue::Send),
            2 => Some(WorkQueue::Recv),
            _ => None,
        },
        code: FlushCode((state >> CODE_SHIFT) as u16),
    }
}

/// View of a slot.
#[derive(Debug)]
pub(crate) struct QpSlot<'a, A>(&'a [[A; LINE]; LINES]);

impl<A> Clone for QpSlot<'_, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for QpSlot<'_, A> {}

impl<'a, A: Atom> QpSlot<'a, A> {
    #[inline(always)]
    pub(crate) const fn new(lines: &'a [[A; LINE]; LINES]) -> Self {
        Self(lines)
    }

    #[inline(always)]
    pub(super) fn control(&self) -> &'a [A; LINE] {
        let [control, ..] = self.0;
        control
    }

    #[inline(always)]
    pub(super) fn producer(&self) -> &'a [A; LINE] {
        let [_, producer, ..] = self.0;
        producer
    }

    /// A work queue's line.
    #[inline(always)]
    pub(crate) fn queue(&self, queue: WorkQueue) -> QueueLine<'a, A> {
        let [.., send, recv] = self.0;
        QueueLine::new(match queue {
            WorkQueue::Send => send,
            WorkQueue::Recv => recv,
        })
    }

    /// Whether this is the slot of the context in a CQE.
    pub(crate) fn has_context(&self, context: u64) -> bool {
        self.control()[IDENTITY].load(Ordering::Acquire) == context && context != FREE
    }

    pub(crate) fn is(&self, key: QpKey) -> bool {
        self.has_context(key.bits())
    }

    /// Whether any QP lives here.
    pub(crate) fn is_live(&self) -> bool {
        self.control()[IDENTITY].load(Ordering::Acquire) != FREE
    }

    /// The live QP's key.
    pub(super) fn key(&self) -> Option<QpKey> {
        QpKey::from_bits(self.control()[IDENTITY].load(Ordering::Acquire))
    }

    /// Makes a slot of zeroed memory a free one.
    pub(super) fn clear(&self) {
        self.control()[IDENTITY].store(FREE, Ordering::Relaxed);
        for queue in [WorkQueue::Send, WorkQueue::Recv] {
            self.queue(queue).hide();
        }
    }

    /// The QP's state.
    #[inline(always)]
    pub(crate) fn state(&self) -> QpState {
        state_from_bits(self.control()[STATE].load(Ordering::Acquire))
    }

    /// For [`takes`].
    #[inline(always)]
    pub(crate) fn state_word(&self) -> u64 {
        self.control()[STATE].load(Ordering::Acquire)
    }

    /// The flush code of the request of `queue` that the device stopped at, if
    /// an event named one.
    pub(crate) fn cause(&self, queue: WorkQueue) -> Option<FlushCode> {
        let state = self.control()[STATE].load(Ordering::Acquire);
        let cause = cause_of(state);
        (state & FAILED_BIT != 0 && cause.queue == Some(queue)).then_some(cause.code)
    }

    /// What the device stopped the QP with, if an event said so.
    pub(super) fn failure(&self) -> Option<Cause> {
        let state = self.control()[STATE].load(Ordering::Acquire);
        (state & FAILED_BIT != 0).then(|| cause_of(state))
    }

    /// Replaces STATE by what `next` makes of it, unless that is `None`; returns the previous
    /// value.
    fn update(&self, next: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let word = &self.control()[STATE];
        let mut state = word.load(Ordering::Acquire);
        while let Some(new) = next(state) {
            match word.compare_exchange(state, new) {
                Ok(_) => return Ok(state),
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    /// Marks the QP failed. After [`Marked::Now`] and [`Marked::Ended`] the caller puts it on the
    /// attention list. A datagram QP whose send failed is in SQE, any other in
    /// ERR.
    pub(super) fn mark(&self, key: QpKey, cause: Cause) -> Marked {
        let sends_only = cause.queue == Some(WorkQueue::Send) && self.is_datagram();
        // One that its program has ended stays in ERR.
        let to = |state: u64| match state_from_bits(state) {
            QpState::Err => QpState::Err,
            _ if sends_only => QpState::Sqe,
            _ => QpState::Err,
        };
        let is_ours = |state: u64| is_of(state, key);
        let marked = self.update(|state| {
            (is_ours(state) && state & FAILED_BIT == 0).then_some(
                generation_bits(key)
                    | state_bits(to(state))
                    | ATTENTION_BIT
                    | FAILED_BIT
                    | queue_code(cause.queue) << CAUSE_SHIFT
                    | u64::from(cause.code.0) << CODE_SHIFT,
            )
        });
        match marked {
            Ok(state) if state_from_bits(state) == QpState::Err => Marked::Ended,
            Ok(_) => Marked::Now,
            Err(state) if is_ours(state) => Marked::Before,
            Err(_) => Marked::Unknown,
        }
    }

    /// Whether its messages are datagrams.
    pub(super) fn is_datagram(&self) -> bool {
        self.queue(WorkQueue::Send).guard().is_datagram()
    }

    /// Event: the device has drained the send queue. Gives whether the owner
    /// wants to be told; `None` when nothing was being drained.
    pub(super) fn drained(&self, key: QpKey) -> Option<bool> {
        let draining = |state: u64| {
            is_of(state, key) && state_from_bits(state) == QpState::Sqd && state & DRAINED == 0
        };
        let before = self.update(|state| draining(state).then_some(state | DRAINED));
        before.ok().map(|state| state & NOTIFY != 0)
    }

    /// Whether the send queue is being drained.
    pub(super) fn is_draining(&self) -> bool {
        let state = self.control()[STATE].load(Ordering::Acquire);
        state_from_bits(state) == QpState::Sqd && state & DRAINED == 0
    }

    /// Control: the device is about to drain the send queue; `notify` asks for
    /// an event. `false` when the device has failed the QP.
    pub(super) fn begin_drain(&self, notify: bool) -> bool {
        let bits = state_bits(QpState::Sqd) | if notify { NOTIFY } else { 0 };
        self.update(|state| (state & FAILED_BIT == 0).then_some(state & !STATE_MASK | bits))
            .is_ok()
    }

    /// Control: moves the QP to `to`; `false` when the device has failed it and
    /// `to` is a working state.
    pub(super) fn move_to(&self, to: QpState) -> bool {
        let stays = matches!(to, QpState::Err | QpState::Reset);
        self.update(|state| {
            (stays || state & FAILED_BIT == 0).then_some(state & !STATE_MASK | state_bits(to))
        })
        .is_ok()
    }

    /// Control: the QP was taken from the attention list; gives its cause.
    pub(super) fn take_cause(&self) -> Cause {
        match self.update(|state| Some(state & !ATTENTION_BIT)) {
            Ok(state) | Err(state) => cause_of(state),
        }
    }

    /// Control: whether the slot is still on the attention list, or about to be.
    pub(super) fn needs_attention(&self) -> bool {
        self.control()[STATE].load(Ordering::Acquire) & ATTENTION_BIT != 0
    }

    pub(super) fn attention_link(&self) -> &'a A {
        &self.control()[ATTENTION_LINK]
    }

    pub(super) fn retire_link(&self) -> &'a A {
        &self.control()[RETIRE_LINK]
    }

    #[inline(always)]
    fn head_word(&self, queue: WorkQueue) -> &'a A {
        match queue {
            WorkQueue::Send => &self.producer()[SQ_HEAD],
            WorkQueue::Recv => &self.producer()[RQ_HEAD],
        }
    }

    /// Poller: quanta up to here have trackers.
    pub(crate) fn head(&self, queue: WorkQueue) -> u64 {
        self.head_word(queue).load(Ordering::Acquire)
    }

    /// Producer: entries before `head` are in the ring, their trackers written
    /// (release).
    #[inline(always)]
    pub(crate) fn set_head(&self, queue: WorkQueue, head: u64) {
        self.head_word(queue).store(head, Ordering::Release);
    }

    /// The QP's own Q_Key.
    pub(crate) fn qkey(&self) -> u32 {
        self.control()[QKEY].load(Ordering::Relaxed) as u32
    }

    /// Control: sets it.
    pub(super) fn set_qkey(&self, qkey: u32) {
        self.control()[QKEY].store(qkey.into(), Ordering::Relaxed);
    }

    pub(super) fn is_free(&self) -> bool {
        !self.is_live() && self.extent() == 0
    }

    pub(super) fn extent(&self) -> u64 {
        self.control()[EXTENT].load(Ordering::Relaxed)
    }

    /// A handler is about to report something about the QP: false when it is hidden or gone.
    ///
    /// Here the count is exchanged before the identity is read; control exchanges it after the
    /// identity was cleared. Either this call finds the identity cleared, or control finds the
    /// count.
    pub(super) fn hold(&self, key: QpKey) -> bool {
        self.producer()[HOLDS].fetch_add(1);
        let held = self.is(key);
        if !held {
            self.release_hold();
        }
        held
    }

    pub(super) fn release_hold(&self) {
        self.producer()[HOLDS].fetch_add(u64::MAX);
    }

    /// Control, after `hide`: handlers that still tell something.
    pub(super) fn holds(&self) -> u64 {
        self.producer()[HOLDS].fetch_add(0)
    }

    /// Control: from now on no CQE and no event finds the QP.
    pub(super) fn hide(&self) {
        self.clear();
        let generation = u64::MAX << GENERATION_SHIFT;
        // Never refused, so there is nothing to look at.
        let _ =
            self.update(|state| Some(state & !generation & !STATE_MASK | state_bits(QpState::Err)));
    }

    /// Control: the generation of the QP that was hidden here and not retired yet.
    pub(super) fn hidden(&self) -> Option<u32> {
        let control = self.control();
        let hidden =
            !self.is_live() && self.extent() != 0 && control[RETIRED].load(Ordering::Relaxed) == 0;
        hidden.then(|| control[GENERATION].load(Ordering::Relaxed) as u32)
    }

    /// Whether its queues are in another table of slots.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.extent() == ELSEWHERE
    }

    /// Whether the device no longer knows it, and another table of slots still does.
    pub(super) fn is_retired_elsewhere(&self) -> bool {
        self.control()[RETIRED].load(Ordering::Relaxed) == RETIRED_ELSEWHERE
    }

    /// Control: its number may be used again as soon as its CQs have passed it.
    pub(super) fn set_forgotten(&self) {
        self.control()[RETIRED].store(FORGOTTEN, Ordering::Relaxed);
    }

    /// Control: whether the other table of slots, if it has one, has forgotten it.
    pub(super) fn is_forgotten(&self) -> bool {
        self.control()[RETIRED].load(Ordering::Relaxed) == FORGOTTEN
    }

    /// Control: the device no longer knows the QP.
    pub(super) fn retire(&self, send_epoch: u64, recv_epoch: u64) {
        let retired = match self.is_elsewhere() {
            true => RETIRED_ELSEWHERE,
            false => FORGOTTEN,
        };
        self.control()[RETIRED].store(retired, Ordering::Relaxed);
        let producer = self.producer();
        producer[SEND_EPOCH].store(send_epoch, Ordering::Relaxed);
        producer[RECV_EPOCH].store(recv_epoch, Ordering::Relaxed);
    }

    /// Key bits of the CQ of each queue, and the epoch each has to pass.
    pub(super) fn awaited(&self) -> [(u64, u64); 2] {
        let word = |word: &A| word.load(Ordering::Relaxed);
        let producer = self.producer();
        [
            (word(&producer[SEND_CQ]), word(&producer[SEND_EPOCH])),
            (word(&producer[RECV_CQ]), word(&producer[RECV_EPOCH])),
        ]
    }

    /// Control: the slot may be opened again.
    pub(super) fn release(&self) {
        self.control()[EXTENT].store(0, Ordering::Relaxed);
    }
}
