//! The control path's side of the slot table: opening, failing, destroying.

use super::list::{self, Node};
use super::qp::{Opening, QueueOpening};
use super::space::{Extent, Space};
use super::{Atom, Cause, CqKey, Layout, MAX_IDS, QpKey, QpSlot, QueueLine, SlotMemory, Slots};
use crate::error::{Queue, SlotError};
use crate::state::{QpState, Service};
use crate::track::{self, Tracker};

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
    pub service: Service,
    /// Where sends complete.
    pub send_cq: CqKey,
    /// Where receives complete; may be the same.
    pub recv_cq: CqKey,
}

impl QpShape {
    /// 64-bit words of tracker space that such a QP takes, up to a block (96
    /// words) more.
    #[must_use]
    pub const fn tracker_words(sq_quanta: u32, rq_quanta: u32) -> u32 {
        sq_quanta
            .saturating_add(rq_quanta)
            .saturating_mul(track::WORDS as u32)
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

/// Requests that were outstanding, or done and not polled, when their QP was
/// taken out of use: they never complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Discarded {
    /// Send requests, signaled or not.
    pub sends: u32,
    /// Receives.
    pub receives: u32,
}

/// Which CQs have completions that only their poller can make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    slots: Slots<M>,
    space: Space,
    /// QPs taken from the attention list, not yet handed out.
    marked: Node,
    /// QPs retired, not yet reaped.
    retired: Node,
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
        let slot = self.slots.cq(id).ok_or(SlotError::NoSuchId {
            object: "CQ",
            id,
            limit: self.slots.layout.cqs,
        })?;
        if !slot.is_free() {
            return Err(SlotError::Busy { object: "CQ", id });
        }
        Ok(slot.open(id))
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
        Ok(())
    }

    /// Opens QP `id` in RESET; before CREATE_QP, which is given the key as
    /// completion context.
    ///
    /// # Errors
    /// [`SlotError::NoSuchId`], [`SlotError::Busy`], [`SlotError::Gone`] for a
    /// CQ, [`SlotError::NoSpace`].
    pub fn open_qp(&mut self, id: u32, shape: &QpShape) -> Result<QpKey, SlotError> {
        let no_such = SlotError::NoSuchId {
            object: "QP",
            id,
            limit: self.slots.layout.qps,
        };
        if id >= self.slots.layout.qps {
            return Err(no_such);
        }
        let slot = self.slots.qp(id).ok_or(no_such)?;
        if !slot.is_free() {
            return Err(SlotError::Busy { object: "QP", id });
        }
        let (send, recv) = (shape.send_cq, shape.recv_cq);
        let send_cq = self.slots.live_cq(send).ok_or(gone_cq(send))?;
        let recv_cq = self.slots.live_cq(recv).ok_or(gone_cq(recv))?;
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
        send_cq.refer();
        recv_cq.refer();
        Ok(slot.open(
            id,
            &Opening {
                service: shape.service,
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
        ))
    }

    /// Notes a new state, after MODIFY_QP.
    ///
    /// # Errors
    /// [`SlotError::Gone`]; [`SlotError::Failed`] when the device failed the QP
    /// meanwhile: it stays in ERR.
    pub fn set_state(&mut self, key: QpKey, state: QpState) -> Result<(), SlotError> {
        if self.live(key)?.move_to(state) {
            Ok(())
        } else {
            Err(SlotError::Failed { id: key.id() })
        }
    }

    /// Notes that the device is about to drain the send queue, before MODIFY_QP
    /// to SQD; `notify` asks for an event when it has
    /// ([`Slots::mark_drained`]).
    ///
    /// # Errors
    /// As [`set_state`](Self::set_state).
    pub fn begin_drain(&mut self, key: QpKey, notify: bool) -> Result<(), SlotError> {
        if self.live(key)?.begin_drain(notify) {
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
            let cause = slot.attended();
            if let Some(qp) = slot.key() {
                return Some(Attention { qp, cause });
            }
        }
    }

    /// From now on the pollers complete whatever is in the QP's queues, each as
    /// soon as it finds its CQ empty, including requests posted later. Call it
    /// for a QP in ERR, some time (existing drivers take 20 ms, data-path 4.10)
    /// after FLUSH_WQES is done: the device's own flush CQEs come first then.
    ///
    /// In SQE only the send queue is concerned.
    ///
    /// Says which CQs have something to complete now: their owners should be
    /// woken, because the device will not.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn sweep(&mut self, key: QpKey) -> Result<Pending, SlotError> {
        let slot = self.live(key)?;
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
        let send_cq = pending(Queue::Send, send);
        let recv_cq = if slot.state() == QpState::Sqe {
            None
        } else {
            pending(Queue::Recv, recv)
        };
        Ok(Pending { send_cq, recv_cq })
    }

    /// Takes a QP out of use, before DESTROY_QP: its CQEs are skipped from now
    /// on, events do not find it, and its poster no longer exists or is at rest.
    /// When the command is done, [`Registry::retire`] or [`Registry::reopen`]
    /// follows. Gives the requests that will never complete.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn hide_qp(&mut self, key: QpKey) -> Result<Discarded, SlotError> {
        let slot = self.live(key)?;
        slot.hide();
        let count = |queue| {
            let line = slot.queue(queue);
            let trackers = self.slots.queue_trackers(line);
            outstanding(trackers.as_deref(), line, slot.head(queue))
        };
        Ok(Discarded {
            sends: count(Queue::Send),
            receives: count(Queue::Recv),
        })
    }

    /// Whether an event handler has put a QP, hidden or not, on the list of
    /// marked ones, or is about to.
    #[must_use]
    pub fn is_marked(&self, key: QpKey) -> bool {
        self.slots
            .qp(key.id())
            .is_some_and(|slot| slot.needs_attention())
    }

    /// Gives a hidden QP that the device knows no more a new life under the same
    /// number, with the same queues and CQs, empty and in RESET; before
    /// CREATE_QP, which is given the new key. Its posters are restarted with it.
    ///
    /// The caller holds both CQs meanwhile and has made them let go of the QP
    /// ([`CompletionQueue::let_go`](crate::CompletionQueue::let_go)), so that no
    /// poller is in the middle of its old life.
    ///
    /// # Errors
    /// [`SlotError::Gone`] for a QP that is not hidden; [`SlotError::Busy`]
    /// while an event handler is just putting it on the list of marked ones:
    /// take what is marked, and try again.
    pub fn reopen(&mut self, key: QpKey, service: Service) -> Result<QpKey, SlotError> {
        let id = key.id();
        let slot = self
            .slots
            .qp(id)
            .filter(|slot| slot.is_hidden(key))
            .ok_or(gone_qp(key))?;
        if slot.needs_attention() {
            return Err(SlotError::Busy { object: "QP", id });
        }
        Ok(slot.reopen(id, service))
    }

    /// The device knows a hidden QP no more: the id becomes free when both CQs
    /// have passed its last CQE ([`Registry::reap`]).
    ///
    /// # Errors
    /// [`SlotError::Gone`] for a QP that is not hidden, or already retired.
    pub fn retire(&mut self, key: QpKey) -> Result<(), SlotError> {
        let id = key.id();
        let slot = self
            .slots
            .qp(id)
            .filter(|slot| slot.is_hidden(key))
            .ok_or(gone_qp(key))?;
        let [send, recv] = slot.awaited().map(|(cq, _)| {
            let cq = self.slots.live_cq(CqKey::from_bits(cq)?)?;
            let epoch = cq.raise();
            cq.unrefer();
            Some(epoch)
        });
        slot.retire(send.unwrap_or(0), recv.unwrap_or(0));
        list::set(slot.retire_link(), self.retired);
        self.retired = Node::qp(id);
        Ok(())
    }

    /// The id of a retired QP that can be opened again; its tracker space is
    /// free. `None` when there is none: a CQ has to be polled first.
    pub fn reap(&mut self) -> Option<u32> {
        let mut before: Option<QpSlot<'_, M::Atom>> = None;
        let mut node = self.retired;
        while let Some((id, _)) = node.get() {
            let slot = self.slots.qp(id)?;
            let next = list::next(slot.retire_link());
            if self.is_passed(slot) {
                match before {
                    Some(before) => list::set(before.retire_link(), next),
                    None => self.retired = next,
                }
                let extent = Extent::from_bits(slot.extent());
                self.space.free(self.slots.atoms(), extent);
                slot.release();
                return Some(id);
            }
            before = Some(slot);
            node = next;
        }
        None
    }

    fn is_passed(&self, slot: QpSlot<'_, M::Atom>) -> bool {
        let passed = slot.awaited().into_iter().all(|(cq, epoch)| {
            // A CQ that was closed meanwhile has no poller any more.
            CqKey::from_bits(cq)
                .and_then(|cq| self.slots.live_cq(cq))
                .is_none_or(|cq| cq.has_passed(epoch))
        });
        passed && !slot.needs_attention()
    }

    fn live(&self, key: QpKey) -> Result<QpSlot<'_, M::Atom>, SlotError> {
        self.slots.live_qp(key).ok_or(gone_qp(key))
    }
}

/// Requests between tail and head, padding not counted.
fn outstanding<A: Atom>(
    trackers: Option<&[[A; track::WORDS]]>,
    line: QueueLine<'_, A>,
    head: u64,
) -> u32 {
    let (mut at, mut count) = (line.own_tail(), 0u32);
    while at < head
        && let Some(tracker) = trackers.and_then(|all| all.get((at & line.mask()) as usize))
    {
        let tag = Tracker(tracker).tag();
        count = count.saturating_add(u32::from(!tag.is_pad()));
        at = at.wrapping_add(tag.quanta());
    }
    count
}

const fn gone_qp(key: QpKey) -> SlotError {
    SlotError::Gone {
        object: "QP",
        id: key.id(),
        generation: key.generation(),
    }
}

const fn gone_cq(key: CqKey) -> SlotError {
    SlotError::Gone {
        object: "CQ",
        id: key.id(),
        generation: key.generation(),
    }
}
