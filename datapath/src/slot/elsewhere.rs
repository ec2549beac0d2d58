//! Two tables of slots for one device: its owner's, and that of a program in another process.
//!
//! The program's table has the queues: its producers and pollers work with it. The owner's has the
//! same QPs and CQs without queues: the device's events and the owner's commands go by it. The
//! two share no memory. Plain data passes between them, in order:
//!
//! | from the owner | in the program's table |
//! |---|---|
//! | the key of a CQ or QP that it has made | [`Registry::open_cq_as`], [`Registry::open_qp_as`] |
//! | the key of a QP's next life | [`Registry::reopen_as`]; it begins with the first change |
//! | [`QpChange`], what has changed about a QP ([`Registry::take_changed`]) | [`Registry::apply`] |
//! | a CQ's event, or its failure | [`Slots::signal_cq`](super::Slots::signal_cq), [`Slots::mark_cq_failed`](super::Slots::mark_cq_failed) |
//! | a QP is destroyed | [`Registry::hide_qp`], [`Registry::retire`] |
//!
//! Back comes the number of a QP that the program's table has forgotten
//! ([`Registry::reap`] there, [`Registry::forgotten`] here). So the owner never reads what a
//! program writes, and whatever a program does to its table, it does to its own queues alone.

use e810_types::{QpState, QpType, WorkQueue};

use super::cq::Listener;
use super::list;
use super::opening::{Opening, QueueOpening};
use super::qp::ELSEWHERE;
use super::registry::gone_qp;
use super::{
    Cause, ChannelKey, CqKey, Marked, Node, Pending, QpKey, QpShape, Registry, SlotMemory,
};
use crate::error::SlotError;

/// What the owner of a device knows about a QP whose queues are elsewhere. The latest says
/// everything: earlier ones may be left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QpChange {
    /// Which QP.
    pub qp: QpKey,
    /// Its state.
    pub state: QpState,
    /// The cause with which the device stopped it, if it did.
    pub failure: Option<Cause>,
    /// Its pollers complete everything in its queues from now on ([`Registry::sweep`]).
    pub is_swept: bool,
}

/// The owner's side.
impl<M: SlotMemory> Registry<M> {
    /// Opens CQ `id`, whose poller is elsewhere; otherwise as [`open_cq`](Self::open_cq). Each of
    /// its events counts as wanted ([`Slots::signal_cq`](super::Slots::signal_cq)).
    ///
    /// # Errors
    /// As there.
    pub fn open_cq_elsewhere(&mut self, id: u32) -> Result<CqKey, SlotError> {
        self.open_cq_with(id, Listener::Elsewhere)
    }

    /// Opens QP `id`, whose queues are elsewhere; otherwise as [`open_qp`](Self::open_qp). The
    /// sizes of its shape do not matter.
    ///
    /// # Errors
    /// As there, and [`SlotError::OtherTable`] for a CQ that is polled here.
    pub fn open_qp_elsewhere(&mut self, id: u32, shape: &QpShape) -> Result<QpKey, SlotError> {
        let slot = self.free_qp(id)?;
        for cq in self.cqs_of(shape, true)? {
            cq.refer();
        }
        let key = slot.next_key(id);
        let queue = |cq: CqKey| QueueOpening {
            cq: cq.id(),
            quanta: 1,
            trackers: 0,
        };
        slot.open(
            key,
            &Opening {
                qp_type: shape.qp_type,
                send: queue(shape.send_cq),
                recv: queue(shape.recv_cq),
                extent: ELSEWHERE,
                send_cq: shape.send_cq.bits(),
                recv_cq: shape.recv_cq.bits(),
            },
        );
        Ok(key)
    }

    /// What has changed about a QP since it was taken last. Every state that
    /// [`set_state`](Self::set_state) notes, every failure that
    /// [`take_attention`](Self::take_attention) returns and every [`sweep`](Self::sweep) is a
    /// change; several of one QP are one.
    pub fn take_changed(&mut self) -> Option<QpChange> {
        loop {
            let (id, _) = self.changed.get()?;
            let slot = self.slots.qp(id)?;
            let line = slot.queue(WorkQueue::Send);
            self.changed = list::next(line.link());
            let is_swept = line.take_listed() == SWEPT;
            if let Some(qp) = slot.key() {
                return Some(QpChange {
                    qp,
                    state: slot.state(),
                    failure: slot.failure(),
                    is_swept,
                });
            }
        }
    }

    /// The other table has forgotten a QP that was [retired](Self::retire): its id is free with
    /// the next [`reap`](Self::reap).
    ///
    /// # Errors
    /// [`SlotError::Gone`] for an id that no retired QP has.
    pub fn forgotten(&mut self, id: u32) -> Result<(), SlotError> {
        let slot = self.slots.qp(id).filter(|slot| slot.is_retired_elsewhere());
        slot.ok_or(SlotError::NoSuchId {
            object: "retired QP",
            id,
            limit: self.slots.layout.qps,
        })?
        .set_forgotten();
        Ok(())
    }

    /// The other table is to hear of a QP, if it has one.
    pub(super) fn changed(&mut self, key: QpKey, is_swept: bool) {
        let Some(slot) = self.slots.live_qp(key).filter(|slot| slot.is_elsewhere()) else {
            return;
        };
        let line = slot.queue(WorkQueue::Send);
        let how = if is_swept { SWEPT } else { CHANGED };
        if line.list_as(how) {
            list::set(line.link(), self.changed);
            self.changed = Node::qp(key.id());
        }
    }

    /// A QP leaves the list of those that have changed.
    pub(super) fn unlist_changed(&mut self, id: u32) {
        let mut before = None;
        let mut node = self.changed;
        while let Some((at, _)) = node.get() {
            let Some(slot) = self.slots.qp(at) else {
                return;
            };
            let line = slot.queue(WorkQueue::Send);
            let next = list::next(line.link());
            if at == id {
                line.take_listed();
                match before {
                    Some(link) => list::set(link, next),
                    None => self.changed = next,
                }
                return;
            }
            before = Some(line.link());
            node = next;
        }
    }
}

/// How a QP is on the list of those that have changed.
const CHANGED: u64 = 1;
const SWEPT: u64 = 2;

/// The program's side.
impl<M: SlotMemory> Registry<M> {
    /// Opens a CQ that another table has made, on `channel` if there is one.
    ///
    /// # Errors
    /// As [`open_cq`](Self::open_cq) and [`open_cq_on`](Self::open_cq_on).
    pub fn open_cq_as(&mut self, key: CqKey, channel: Option<ChannelKey>) -> Result<(), SlotError> {
        let listener = match channel {
            Some(channel) => self.join_channel(channel, key.id())?,
            None => Listener::None,
        };
        self.free_cq(key.id())?.open(key, listener);
        Ok(())
    }

    /// Opens a QP that another table has made, with queues.
    ///
    /// # Errors
    /// As [`open_qp`](Self::open_qp).
    pub fn open_qp_as(&mut self, key: QpKey, shape: &QpShape) -> Result<(), SlotError> {
        self.open_qp_with(key, shape)
    }

    /// Gives a hidden QP its next life, with the key that another table has chosen; otherwise as
    /// [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// As there.
    pub fn reopen_as(&mut self, next: QpKey, qp_type: QpType) -> Result<(), SlotError> {
        let id = next.id();
        let hidden = self.slots.qp(id).and_then(|slot| slot.hidden());
        let hidden = QpKey::new(id, hidden.ok_or(gone_qp(next))?);
        self.reopen_with(hidden, next, qp_type)
    }

    /// Notes what the owner knows about a QP. Returns which CQs have something to complete now,
    /// as [`sweep`](Self::sweep).
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn apply(&mut self, change: &QpChange) -> Result<Pending, SlotError> {
        let slot = self.live(change.qp)?;
        if !slot.has_begun(change.qp) {
            slot.begin(change.qp);
        }
        if let Some(cause) = change.failure
            && matches!(slot.mark(change.qp, cause), Marked::Now | Marked::Ended)
        {
            // It is on no list: the owner does what a failure asks for.
            slot.take_cause();
        }
        // A QP that has failed moves to ERR and RESET alone.
        slot.move_to(change.state);
        match change.is_swept {
            true => self.sweep(change.qp),
            false => Ok(Pending::default()),
        }
    }
}
