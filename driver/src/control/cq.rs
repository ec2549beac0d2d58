//! Creating and destroying completion queues.

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{CqAttributes, CreateCq, DestroyCq};
use e810_datapath::SlotError;
use e810_datapath::slot::CqKey;
use e810_hal::{CeqId, Platform};

use super::{Control, run_again};
use crate::channel::Channel;
use crate::cq::{Cq, CqControl, CqInit};
use crate::cq_memory::{CqMemory, CqPlace, CqRingPlace};
use crate::error::{Error, Object, Result};
use crate::handover::CqDestroyed;
use crate::rings::{CqGrant, NotMade};

impl<P: Platform> Control<P> {
    /// Makes a completion queue with room for at least `cqe` completions,
    /// whose events go to completion vector `vector`, below
    /// [`Control::completion_vectors`].
    ///
    /// # Errors
    /// A size outside 1..=1048574, [`Error::NoSuch`] for a vector that does not
    /// exist (verbs give EINVAL), no id or memory left, or the device's refusal.
    /// Nothing is left behind, unless the device did not answer.
    #[doc(alias("ibv_create_cq", "ib_create_cq", "ib_alloc_cq"))]
    pub fn create_cq(&mut self, cqe: u32, vector: u16) -> Result<Cq<P>> {
        self.create_cq_with(&CqInit::new(cqe, vector))
    }

    /// Makes a completion queue whose events go to `channel`; otherwise as
    /// [`Control::create_cq`].
    ///
    /// # Errors
    /// As there, and [`Error::Foreign`] or [`Error::Datapath`] for a channel of
    /// another device, or one that is closed.
    pub fn create_cq_on(&mut self, channel: &Channel<P>, cqe: u32, vector: u16) -> Result<Cq<P>> {
        self.create_cq_with(&CqInit {
            channel: Some(channel),
            ..CqInit::new(cqe, vector)
        })
    }

    /// Makes a completion queue with all parameters; otherwise as [`Control::create_cq_on`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias("ibv_create_cq_ex", "fi_cq_open"))]
    pub fn create_cq_with(&mut self, init: &CqInit<'_, P>) -> Result<Cq<P>> {
        let memory = CqMemory::new(&self.platform, init.entries)?;
        match self.create_cq_on_memory(init, memory.place()) {
            Ok((control, granted)) => Ok(Cq {
                control,
                ring: self.rings().cq(memory, &granted)?,
            }),
            Err(failed) => {
                if !failed.may_use_memory {
                    memory.release();
                }
                Err(failed.error)
            }
        }
    }

    /// As [`create_cq_with`](Self::create_cq_with), for a program that keeps the ring elsewhere,
    /// in memory of its own. The program makes the ring from the grant that this returns
    /// ([`Rings::cq`](crate::Rings::cq)).
    ///
    /// # Errors
    /// As there.
    pub fn create_cq_on_memory(
        &mut self,
        init: &CqInit<'_, P>,
        place: CqPlace,
    ) -> Result<(CqControl, CqGrant), NotMade> {
        place.ring.check()?;
        if let Some(channel) = init.channel {
            self.own(channel.owner, Object::Channel, channel.key.index())?;
        }
        // Existing drivers take CEQ 0 for a vector that does not exist (control-path 4.8), but
        // the kernel above them rejects such vectors.
        let ceq = self.vectors.named(init.vector)?;
        let id = self.cqs.take().ok_or(Error::Exhausted {
            object: Object::Cq,
            limit: self.cqs.capacity(),
        })?;
        let made = self.create_cq_as(id, ceq, init, place);
        match &made {
            Err(failed) if failed.may_use_memory => {
                self.cqs.give_unless_open(id, &failed.error);
            }
            Err(_) => drop(self.cqs.give(id)),
            Ok(_) => {}
        }
        made
    }

    fn create_cq_as(
        &mut self,
        id: u32,
        ceq: CeqId,
        init: &CqInit<'_, P>,
        place: CqPlace,
    ) -> Result<(CqControl, CqGrant), NotMade> {
        self.ensure(HmcObject::Cq, id)?;
        let wrong = |error: SlotError| Error::from(e810_datapath::Error::from(error));
        let opened = match init.channel {
            _ if init.elsewhere => self.registry.open_cq_elsewhere(id),
            Some(channel) => self.registry.open_cq_on(id, channel.key),
            None => self.registry.open_cq(id),
        };
        let key = opened.map_err(wrong)?;
        let named = self.registry.set_cq_user_context(key, init.user_context);
        named.map_err(wrong)?;
        let CqRingPlace { entries, ring } = place.ring;
        let mut attributes = CqAttributes::new(id, entries, ring, place.shadow, ceq);
        attributes.context = key.bits();
        if let Err(error) = self
            .cqp
            .execute(&CreateCq::new(attributes, self.lan.vsi))
            .map_err(Error::from)
        {
            self.forget_cq(key);
            let may_use_memory = error.leaves_command_open();
            if may_use_memory {
                // It may yet come into being, on this event queue.
                self.vectors.join(ceq);
            }
            return Err(NotMade {
                error,
                may_use_memory,
            });
        }
        self.vectors.join(ceq);
        self.with_interval(ceq, |shared| shared.join(id, ceq));
        let owner = self.tag();
        let control = CqControl {
            owner,
            attributes,
            made: attributes,
            key,
            user_context: init.user_context,
            is_ending: false,
            elsewhere: init.elsewhere,
        };
        let granted = CqGrant {
            owner,
            key,
            entries,
            ceq,
        };
        Ok((control, granted))
    }

    /// Destroys a completion queue and frees its memory.
    ///
    /// # Errors
    /// [`Error::InUse`] while queue pairs complete into it, [`Error::Foreign`],
    /// [`Error::Unacknowledged`] if events taken from its channel stay unacknowledged for a
    /// second, or the device's refusal; the queue is returned. If the device did not answer, the
    /// queue can only be destroyed again.
    #[doc(alias = "ibv_destroy_cq")]
    pub fn destroy_cq(&mut self, cq: Cq<P>) -> Result<(), (Cq<P>, Error)> {
        let Cq { control, ring } = cq;
        match self.destroy_cq_control(control) {
            Ok(destroyed) => {
                ring.release(&destroyed);
                Ok(())
            }
            Err((control, error)) => Err((Cq { control, ring }, error)),
        }
    }

    /// As [`destroy_cq`](Self::destroy_cq), for a program that keeps the ring elsewhere. Free the
    /// ring afterwards with the token that this returns.
    ///
    /// # Errors
    /// As there; the control part is returned.
    pub fn destroy_cq_control(&mut self, cq: CqControl) -> Result<CqDestroyed, (CqControl, Error)> {
        if let Err(error) = self.own(cq.owner, Object::Cq, cq.key.id()) {
            return Err((cq, error));
        }
        let id = cq.key.id();
        if let Err(error) = self.end_orphans_of(|orphan| orphan.cqs.contains(&id)) {
            return Err((cq, error));
        }
        // Checked before the command: a CQ that is in use stays usable.
        let queues = self.cq_users.get(cq.key.id());
        if queues > 0 {
            let error = Error::InUse {
                object: Object::Cq,
                id: cq.key.id(),
                users: queues,
            };
            return Err((cq, error));
        }
        if let Err(error) = self.quiesce_cq(cq.key) {
            return Err((cq, error));
        }
        let mut cq = cq;
        if let Err(error) = self.await_resize(&mut cq) {
            self.registry.keep_cq(cq.key);
            return Err((cq, error));
        }
        let command = DestroyCq { cq: cq.attributes };
        if let Err(error) = run_again(&mut self.cqp, &command, cq.key.id().into()) {
            self.registry.keep_cq(cq.key);
            let is_ending = error.leaves_command_open();
            return Err((CqControl { is_ending, ..cq }, error));
        }
        self.forget_cq(cq.key);
        let id = cq.key.id();
        if let Some(ceq) = cq.attributes.ceq {
            self.vectors.leave(ceq);
            self.with_interval(ceq, |shared| shared.leave(id, ceq));
        }
        self.end_resize(cq.key);
        self.cqs.give(id);
        self.reap();
        Ok(CqDestroyed {
            owner: cq.owner,
            key: cq.key,
        })
    }

    /// Whether it can be used.
    pub(super) fn usable_cq(&self, cq: &CqControl) -> Result<()> {
        self.own(cq.owner, Object::Cq, cq.key.id())?;
        if cq.is_ending {
            return Err(Error::Invalid {
                what: "the device did not answer the destruction of this completion queue, and may have it no more: destroy it again",
            });
        }
        if self.has_unanswered_resize(cq.key) {
            return Err(Error::Invalid {
                what: "the device did not answer a resize of this completion queue, and may go on in a ring that nobody polls: destroy it",
            });
        }
        Ok(())
    }

    fn forget_cq(&mut self, key: CqKey) {
        // Only a CQ with users is refused, and this one has none.
        let _ = self.registry.close_cq(key);
    }

    /// Frees the numbers of queue pairs that no completion can name any more.
    pub(super) fn reap(&mut self) {
        self.end_orphans();
        while let Some(id) = self.registry.reap() {
            self.give_qp_number(id);
        }
    }
}
