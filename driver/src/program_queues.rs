//! The queues of a program whose control path is in another process.
//!
//! That process, the owner of the device, makes the objects with [`CqInit::elsewhere`] and answers
//! with plain data. The program opens them here, in slots that no other process sees:
//!
//! | what the program gets from the owner | what it does with it |
//! |---|---|
//! | [`CqGrant`], [`QpGrant`] | [`ProgramQueues::open_cq`], [`ProgramQueues::open_qp`], then [`Rings::cq`], [`Rings::qp`] |
//! | [`QpChange`] | [`ProgramQueues::apply`], in the order in which they came, and before the answer that came after them |
//! | a completion queue's event, its failure | [`ProgramQueues::cq_event`], [`ProgramQueues::cq_failed`] |
//! | that a reset has begun | [`ProgramQueues::hide_qp`], then [`CqRing::forget_gone`](crate::CqRing::forget_gone) |
//! | [`QpReopened`] | [`ProgramQueues::reopen_qp`], then [`QpSend::restart`](crate::QpSend::restart) and the same for receives |
//! | [`QpDestroyed`], [`CqDestroyed`] | [`ProgramQueues::end_qp`], [`ProgramQueues::end_cq`] |
//!
//! It tells the owner which queue pairs it has forgotten ([`ProgramQueues::reap`]).
//!
//! [`CqInit::elsewhere`]: crate::CqInit::elsewhere

use core::fmt;

use e810_datapath::DroppedWrs;
use e810_datapath::error::SlotError;
use e810_datapath::slot::{CqKey, Layout, NotifyResult, Pending, QpChange, QpKey, Registry};
use e810_hal::{HostBuf, Platform};

use crate::attr::Qpn;
use crate::channel::{CHANNELS, Channel, Wakers};
use crate::error::{Error, Object, Result};
use crate::handover::{CqDestroyed, QpDestroyed, QpReopened};
use crate::ids::next_tag;
use crate::moderation::Shared;
use crate::rings::{CqGrant, QpGrant, Rings};

/// How many objects a program may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProgramLimits {
    /// Completion queues have numbers below this, because the owner's have.
    pub cqs: u32,
    /// Queue pairs have numbers below this.
    pub qps: u32,
    /// 64-bit words that track requests, of all queue pairs together
    /// ([`Config::tracker_words_per_qp`](crate::Config::tracker_words_per_qp)).
    pub tracker_words: u32,
}

/// Slots of a program's queues. See the [module documentation](self).
pub struct ProgramQueues<P: Platform> {
    tag: u64,
    platform: P,
    registry: Registry<HostBuf<P>>,
    wakers: Wakers<P>,
    moderation: Shared<P>,
}

impl<P: Platform> fmt::Debug for ProgramQueues<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramQueues")
    }
}

impl<P: Platform> ProgramQueues<P> {
    /// Slots for so many objects.
    ///
    /// # Errors
    /// No memory, or more than 2^24 of a kind.
    pub fn new(platform: P, limits: ProgramLimits) -> Result<Self> {
        let ProgramLimits {
            cqs,
            qps,
            tracker_words,
        } = limits;
        let layout = Layout {
            cqs,
            qps,
            channels: CHANNELS,
            tracker_words,
        };
        let memory = HostBuf::new(platform.clone(), layout.words())?;
        Ok(Self {
            tag: next_tag(),
            registry: Registry::new(memory, layout).map_err(of_slot)?,
            wakers: Wakers::new(platform.clone())?,
            moderation: Shared::new(platform.clone(), cqs)?,
            platform,
        })
    }

    /// Makes rings of what was opened.
    #[must_use]
    pub fn rings(&self) -> Rings<P> {
        Rings {
            platform: self.platform.clone(),
            slots: self.registry.slots().clone(),
            moderation: self.moderation.clone(),
        }
    }

    /// Opens a completion channel. It is closed when nobody has it any more.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    pub fn create_channel(&mut self) -> Result<Channel<P>> {
        let key = self.registry.open_channel().ok_or(Error::Exhausted {
            object: Object::Channel,
            limit: CHANNELS,
        })?;
        Ok(Channel {
            owner: self.tag,
            key,
            slots: self.registry.slots().clone(),
            wakers: self.wakers.clone(),
        })
    }

    /// Opens a completion queue that the owner has made, on a channel if there is one; its events
    /// carry `user_context`.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a channel of others; [`Error::Datapath`] for a number beyond the
    /// limits, or one that is in use.
    pub fn open_cq(
        &mut self,
        granted: &CqGrant,
        channel: Option<&Channel<P>>,
        user_context: u64,
    ) -> Result<()> {
        if let Some(channel) = channel.filter(|channel| channel.owner != self.tag) {
            return Err(Error::Foreign {
                object: Object::Channel,
                id: channel.key.index(),
            });
        }
        let channel = channel.map(|channel| channel.key);
        let opened = self.registry.open_cq_as(granted.key, channel);
        opened.map_err(of_slot)?;
        let named = self.registry.set_cq_user_context(granted.key, user_context);
        named.map_err(of_slot)
    }

    /// Opens a queue pair that the owner has made.
    ///
    /// # Errors
    /// [`Error::Datapath`] for a number beyond the limits, one that is in use or not forgotten
    /// yet, and for completion queues that are not open.
    pub fn open_qp(&mut self, granted: &QpGrant) -> Result<()> {
        let opened = self.registry.open_qp_as(granted.key, &granted.shape());
        opened.map_err(|error| match (error, self.registry.retired()) {
            (SlotError::NoSpace { .. }, destroyed @ 1..) => Error::NotForgotten { destroyed },
            (error, _) => of_slot(error),
        })
    }

    /// A queue pair has another Q_Key of its own, which datagrams carry if their request asks for
    /// it ([`QpAttr::qkey`](crate::QpAttr::qkey)).
    ///
    /// # Errors
    /// [`Error::NoSuch`].
    pub fn set_qkey(&mut self, number: Qpn, qkey: u32) -> Result<()> {
        let key = self.key_of(number)?;
        self.registry.set_qkey(key, qkey).map_err(of_slot)
    }

    fn key_of(&self, number: Qpn) -> Result<QpKey> {
        let id = number.get();
        let key = self.registry.slots().qp_key(id);
        key.ok_or(Error::NoSuch {
            object: Object::Qp,
            id,
        })
    }

    /// Takes note of a change; one of a queue pair that is gone is ignored.
    pub fn apply(&mut self, change: &QpChange) {
        let Ok(Pending { send_cq, recv_cq }) = self.registry.apply(change) else {
            return;
        };
        for cq in [send_cq, recv_cq].into_iter().flatten() {
            let notified = self.registry.slots().signal_by_software(cq);
            self.wake(notified);
        }
    }

    /// The device has completed something for a completion queue that asked for an event. Returns
    /// whether its program had asked.
    pub fn cq_event(&self, cq: CqKey) -> bool {
        let notified = self.registry.slots().signal_cq(cq);
        self.wake(notified);
        notified.is_delivered()
    }

    /// A completion queue has failed: it overflowed.
    pub fn cq_failed(&self, cq: CqKey) {
        self.registry.slots().mark_cq_failed(cq);
    }

    fn wake(&self, notified: NotifyResult) {
        if let NotifyResult::Delivered { channel } = notified {
            self.wakers.wake(channel);
        }
    }

    /// Wakes those who wait for what was posted to queues in error. A program that waits for
    /// events calls this now and then, because no event of the owner says so.
    pub fn progress(&mut self) {
        let wakers = &self.wakers;
        self.registry
            .take_waiting(|channel| wakers.wake(Some(channel)));
    }

    /// The owner has begun to reset a queue pair: it is hidden until it is
    /// [reopened](Self::reopen_qp). Returns the requests that were outstanding, which never
    /// complete.
    ///
    /// # Errors
    /// [`Error::NoSuch`].
    pub fn hide_qp(&mut self, number: Qpn) -> Result<DroppedWrs> {
        let key = self.key_of(number)?;
        self.registry.hide_qp(key).map_err(of_slot)
    }

    /// The next life of a queue pair that was hidden. It is in ERR until a [`QpChange`] says
    /// that the device has it.
    ///
    /// # Errors
    /// [`Error::Datapath`] if it was not hidden.
    pub fn reopen_qp(&mut self, reopened: &QpReopened) -> Result<()> {
        let reopened = self.registry.reopen_as(reopened.key, reopened.qp_type);
        reopened.map_err(of_slot)
    }

    /// The owner has destroyed a queue pair. Returns the requests that were outstanding.
    pub fn end_qp(&mut self, destroyed: &QpDestroyed) -> DroppedWrs {
        // One whose reset has failed is hidden already.
        let outstanding = self.registry.hide_qp(destroyed.key).unwrap_or_default();
        let _ = self.registry.retire(destroyed.key);
        outstanding
    }

    /// No more events of a completion queue are handed out: it is about to be destroyed. Returns
    /// the number of those that were handed out and not acknowledged.
    ///
    /// # Errors
    /// [`Error::Datapath`] if there is none.
    pub fn begin_end_cq(&mut self, cq: CqKey) -> Result<u32> {
        let left = self.registry.begin_close_cq(cq).map_err(of_slot)?;
        Ok(left.unacknowledged)
    }

    /// It was not destroyed.
    pub fn keep_cq(&mut self, cq: CqKey) {
        self.registry.keep_cq(cq);
    }

    /// The owner has destroyed a completion queue.
    pub fn end_cq(&mut self, destroyed: &CqDestroyed) {
        // The owner does not destroy one with queue pairs.
        let _ = self.registry.close_cq(destroyed.key);
    }

    /// The number of a destroyed queue pair that is forgotten here: its completion queues have
    /// been polled since, or are gone. The owner is to hear of it
    /// ([`Control::forgotten`](crate::Control::forgotten)).
    pub fn reap(&mut self) -> Option<Qpn> {
        self.registry.reap().map(Qpn)
    }
}

fn of_slot(error: SlotError) -> Error {
    e810_datapath::Error::from(error).into()
}
