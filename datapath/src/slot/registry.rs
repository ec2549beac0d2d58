//! The control path's side of the slot table: opening, failing, destroying.

use e810_types::{QpState, QpType, WorkQueue};

use super::cq::Listener;
use super::list::{self, Node};
use super::opening::{Opening, QueueOpening};
use super::space::{self, Space};
use super::{Cause, CqKey, CqSlot, Layout, MAX_IDS, QpKey, QpSlot, SlotMemory, Slots};
use crate::error::SlotError;
use crate::track;

/// A QP about to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QpShape {
    /// Quanta of the send ring, a power of two
    /// ([`SqSize`](crate::sizing::SqSize)).
    pub sq_quanta: u32,
    /// Quanta of the receive ring, a power of two
    /// ([`RqSize::quanta`](crate::sizing::RqSize::quanta)).
    pub rq_quanta: u32,
    /// Kind of service.
    pub qp_type: QpType,
    /// Where sends complete.
    pub send_cq: CqKey,
    /// Where receives complete; may be the same.
    pub recv_cq: CqKey,
}

impl QpShape {
    /// 64-bit words of tracker space that such a QP takes: whole blocks of 96.
    #[must_use]
    pub const fn tracker_words(sq_quanta: u32, rq_quanta: u32) -> u32 {
        sq_quanta
            .saturating_add(rq_quanta)
            .div_ceil(space::TRACKERS)
            .saturating_mul(space::BLOCK)
    }
}

/// A QP that an event marked as failed: control moves the device's side to ERR
/// and posts FLUSH_WQES with the code (control-path 7.6, data-path 8.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Attention {
    /// Which QP.
    pub qp: QpKey,
    /// Why.
    pub cause: Cause,
}

/// Which CQs have completions that only their poller can make.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pending {
    /// The send CQ, if sends are outstanding.
    pub send_cq: Option<CqKey>,
    /// The receive CQ, if receives are outstanding.
    pub recv_cq: Option<CqKey>,
}

/// Owner of a slot table. One exists per table; it lives with the control path.
#[derive(Debug)]
pub struct Registry<M: SlotMemory> {
    pub(super) slots: Slots<M>,
    pub(super) space: Space,
    /// QPs taken from the attention list, not yet handed out.
    marked: Node,
    /// QPs retired, not yet reaped.
    pub(super) retired: Node,
    /// QPs with their queues elsewhere, of which the other table of slots has something to hear.
    pub(super) changed: Node,
}

impl<M: SlotMemory> Registry<M> {
    /// A table in `memory`, which is zeroed and has at least
    /// [`Layout::words`] words.
    ///
    /// # Errors
    /// [`SlotError::Memory`], [`SlotError::NoSuchId`] for a layout with more
    /// than 2^24 ids of a kind.
    pub fn new(memory: M, layout: Layout) -> Result<Self, SlotError> {
        for (object, ids) in [("CQ", layout.cqs), ("QP", layout.qps)] {
            if ids > MAX_IDS {
                return Err(SlotError::NoSuchId {
                    object,
                    id: ids,
                    limit: MAX_IDS,
                });
            }
        }
        let (needed, given) = (layout.words(), memory.atoms().len());
        // Tracker indexes have 32 bits.
        if given < needed || needed > u32::MAX as usize {
            return Err(SlotError::Memory { needed, given });
        }
        let slots = Slots { memory, layout };
        for id in 0..layout.cqs {
            if let Some(slot) = slots.cq(id) {
                slot.clear();
            }
        }
        for id in 0..layout.qps {
            if let Some(slot) = slots.qp(id) {
                slot.clear();
            }
        }
        let space = Space::new(layout.space_base(), layout.tracker_words);
        Ok(Self {
            slots,
            space,
            marked: Node::END,
            retired: Node::END,
            changed: Node::END,
        })
    }

    /// A handle for the other parts.
    #[must_use]
    pub fn slots(&self) -> &Slots<M> {
        &self.slots
    }

    /// Opens CQ `id`; before CREATE_CQ, which is given the key.
    ///
    /// # Errors
    /// [`SlotError::NoSuchId`], [`SlotError::Busy`].
    pub fn open_cq(&mut self, id: u32) -> Result<CqKey, SlotError> {
        self.open_cq_with(id, Listener::None)
    }

    pub(super) fn open_cq_with(&mut self, id: u32, listener: Listener) -> Result<CqKey, SlotError> {
        let slot = self.free_cq(id)?;
        let key = slot.next_key(id);
        slot.open(key, listener);
        Ok(key)
    }

    /// The slot of a CQ id that no CQ has.
    pub(super) fn free_cq(&self, id: u32) -> Result<CqSlot<'_, M::Atom>, SlotError> {
        let slot = self.slots.cq(id).ok_or(SlotError::NoSuchId {
            object: "CQ",
            id,
            limit: self.slots.layout.cqs,
        })?;
        if !slot.is_free() {
            return Err(SlotError::Busy { object: "CQ", id });
        }
        Ok(slot)
    }

    /// Closes a CQ, after DESTROY_CQ; its poller no longer exists.
    ///
    /// # Errors
    /// [`SlotError::Gone`], [`SlotError::InUse`] while QPs complete into it.
    pub fn close_cq(&mut self, key: CqKey) -> Result<(), SlotError> {
        let slot = self.slots.live_cq(key).ok_or(gone_cq(key))?;
        let queues = slot.references();
        if queues > 0 {
            return Err(SlotError::InUse {
                id: key.id(),
                queues,
            });
        }
        slot.close();
        if let Some(channel) = slot.channel() {
            self.leave_channel(channel, key.id());
        }
        Ok(())
    }

    /// Opens QP `id` in RESET; before CREATE_QP, which is given the key as
    /// completion context.
    ///
    /// # Errors
    /// [`SlotError::NoSuchId`], [`SlotError::Busy`], [`SlotError::Gone`] for a
    /// CQ, [`SlotError::NoSpace`].
    pub fn open_qp(&mut self, id: u32, shape: &QpShape) -> Result<QpKey, SlotError> {
        let key = self.free_qp(id)?.next_key(id);
        self.open_qp_with(key, shape)?;
        Ok(key)
    }

    /// The slot of a QP id that no QP has.
    pub(super) fn free_qp(&self, id: u32) -> Result<QpSlot<'_, M::Atom>, SlotError> {
        let slot = self.slots.qp(id).ok_or(SlotError::NoSuchId {
            object: "QP",
            id,
            limit: self.slots.layout.qps,
        })?;
        if !slot.is_free() {
            return Err(SlotError::Busy { object: "QP", id });
        }
        Ok(slot)
    }

    /// Opens a QP, whose slot is free, with trackers of its own.
    pub(super) fn open_qp_with(&mut self, key: QpKey, shape: &QpShape) -> Result<(), SlotError> {
        let slot = self.free_qp(key.id())?;
        let (send, recv) = (shape.send_cq, shape.recv_cq);
        let cqs = self.cqs_of(shape, false)?;
        let quanta = u64::from(shape.sq_quanta) + u64::from(shape.rq_quanta);
        let words = quanta * track::WORDS as u64;
        let no_space = SlotError::NoSpace { words };
        if !shape.sq_quanta.is_power_of_two() || !shape.rq_quanta.is_power_of_two() {
            return Err(no_space);
        }
        let extent = self
            .space
            .alloc(self.slots.atoms(), words)
            .ok_or(no_space)?;
        let trackers = Space::first_tracker(extent);
        for cq in cqs {
            cq.refer();
        }
        slot.open(
            key,
            &Opening {
                qp_type: shape.qp_type,
                send: QueueOpening {
                    cq: send.id(),
                    quanta: shape.sq_quanta,
                    trackers,
                },
                recv: QueueOpening {
                    cq: recv.id(),
                    quanta: shape.rq_quanta,
                    trackers: trackers.wrapping_add(shape.sq_quanta),
                },
                extent: extent.bits(),
                send_cq: send.bits(),
                recv_cq: recv.bits(),
            },
        );
        Ok(())
    }

    /// The CQs of a QP that is about to be opened, which all have their pollers where it has its
    /// queues.
    pub(super) fn cqs_of(
        &self,
        shape: &QpShape,
        is_elsewhere: bool,
    ) -> Result<[CqSlot<'_, M::Atom>; 2], SlotError> {
        let cq = |key: CqKey| {
            let cq = self.slots.live_cq(key).ok_or(gone_cq(key))?;
            match cq.is_elsewhere() == is_elsewhere {
                true => Ok(cq),
                false => Err(SlotError::OtherTable { cq: key.id() }),
            }
        };
        Ok([cq(shape.send_cq)?, cq(shape.recv_cq)?])
    }

    /// Notes a new state, after MODIFY_QP.
    ///
    /// # Errors
    /// [`SlotError::Gone`]; [`SlotError::Failed`] when the device failed the QP
    /// meanwhile: it stays in ERR.
    pub fn set_state(&mut self, key: QpKey, state: QpState) -> Result<(), SlotError> {
        if self.live(key)?.move_to(state) {
            self.changed(key, false);
            Ok(())
        } else {
            Err(SlotError::Failed { id: key.id() })
        }
    }

    /// The QP's own Q_Key, after MODIFY_QP. Datagrams carry it if their request names a Q_Key
    /// with the highest bit set (the rule of IB; the device does not apply it, data-path 7.2). 0
    /// until it is set.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn set_qkey(&mut self, key: QpKey, qkey: u32) -> Result<(), SlotError> {
        self.live(key)?.set_qkey(qkey);
        Ok(())
    }

    /// Notes that the device is about to drain the send queue, before MODIFY_QP to SQD; `notify`
    /// asks for an event when it has drained it ([`Slots::mark_drained`]).
    ///
    /// # Errors
    /// As [`set_state`](Self::set_state).
    pub fn begin_drain(&mut self, key: QpKey, notify: bool) -> Result<(), SlotError> {
        if self.live(key)?.begin_drain(notify) {
            self.changed(key, false);
            Ok(())
        } else {
            Err(SlotError::Failed { id: key.id() })
        }
    }

    /// The next QP that an event marked as failed.
    pub fn take_attention(&mut self) -> Option<Attention> {
        loop {
            if self.marked == Node::END {
                self.marked = list::take(self.slots.attention()?);
            }
            let (id, _) = self.marked.get()?;
            let slot = self.slots.qp(id)?;
            // The link is read first: once attended, the slot can be enlisted
            // again.
            self.marked = list::next(slot.attention_link());
            let cause = slot.take_cause();
            if let Some(qp) = slot.key() {
                self.changed(qp, false);
                return Some(Attention { qp, cause });
            }
        }
    }

    /// From now on the pollers complete everything in the QP's queues, including requests posted
    /// later, each poller as soon as it finds its CQ empty. Call this for a QP in ERR, some time
    /// (existing drivers take 20 ms, data-path 4.10) after FLUSH_WQES is done, so that the
    /// device's own flush CQEs come first.
    ///
    /// In SQE only the send queue is concerned.
    ///
    /// Returns which CQs have something to complete now: wake their owners, because the device
    /// will not.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn sweep(&mut self, key: QpKey) -> Result<Pending, SlotError> {
        let slot = self.live(key)?;
        if slot.is_elsewhere() {
            self.changed(key, true);
            return Ok(Pending::default());
        }
        let [send, recv] = slot.awaited().map(|(cq, _)| CqKey::from_bits(cq));
        let pending = |queue, cq: Option<CqKey>| {
            let cq_slot = self.slots.live_cq(cq?)?;
            let line = slot.queue(queue);
            if line.enlist() {
                cq_slot.enlist(line.link(), Node::queue(key.id(), queue));
            }
            cq_slot.raise();
            if slot.head(queue) == line.tail() {
                return None;
            }
            cq
        };
        let send_cq = pending(WorkQueue::Send, send);
        let recv_cq = if slot.state() == QpState::Sqe {
            None
        } else {
            pending(WorkQueue::Recv, recv)
        };
        Ok(Pending { send_cq, recv_cq })
    }

    pub(super) fn live(&self, key: QpKey) -> Result<QpSlot<'_, M::Atom>, SlotError> {
        self.slots.live_qp(key).ok_or(gone_qp(key))
    }
}

pub(super) const fn gone_qp(key: QpKey) -> SlotError {
    SlotError::Gone {
        object: "QP",
        id: key.id(),
        generation: key.generation(),
    }
}

pub(super) const fn gone_cq(key: CqKey) -> SlotError {
    SlotError::Gone {
        object: "CQ",
        id: key.id(),
        generation: key.generation(),
    }
}
