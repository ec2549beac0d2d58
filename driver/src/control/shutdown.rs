//! Shutdown: all queues are destroyed in order and all memory is freed.

use e810_cqp::hmc::Object as HmcObject;
use e810_hal::{Platform, log_warn};

use super::consumers::take_queues;
use super::{Control, Engine};
use crate::ah::Ah;
use crate::cq::Cq;
use crate::error::{Error, Object, Result};
use crate::events::EventSet;
use crate::lan::LanSide;
use crate::mr::Mr;
use crate::pd::Pd;
use crate::qp::Qp;

/// A shutdown that did not happen, or did not finish.
#[derive(Debug)]
pub struct ShutdownError<P: Platform> {
    /// What went wrong.
    pub error: Error,
    /// The parts, if nothing was undone yet: objects are still alive, or a consumer of events is
    /// missing. Otherwise what the device may still use was leaked, and only a reset of the
    /// function helps.
    pub parts: Option<(Control<P>, EventSet<P>)>,
}

impl<P: Platform> core::fmt::Display for ShutdownError<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}

impl<P: Platform + core::fmt::Debug> core::error::Error for ShutdownError<P> {}

/// The objects that a program has left, for [`Control::shutdown_with`]. Each field is any
/// iterable of such objects: an array (`[qp]`, `[]`), an `Option`, a vector.
#[derive(Clone, Copy, Debug)]
pub struct Remaining<Q, A, C, M, D> {
    /// Queue pairs.
    pub qps: Q,
    /// Address handles.
    pub ahs: A,
    /// Completion queues.
    pub cqs: C,
    /// Memory regions.
    pub mrs: M,
    /// Protection domains.
    pub pds: D,
}

impl<P: Platform> Control<P> {
    /// Destroys `objects` in an order in which none is still used by another, then shuts down
    /// ([`Control::shutdown`]). Give back windows, fast registrations, multicast groups and
    /// channels before.
    ///
    /// # Errors
    /// The first object that could not be destroyed, or the first step that failed. What was not
    /// destroyed until then is leaked, because the device may still use it. To continue instead,
    /// a program destroys its objects one by one, and gets each back in the error.
    pub fn shutdown_with<Q, A, C, M, D>(
        mut self,
        events: EventSet<P>,
        objects: Remaining<Q, A, C, M, D>,
    ) -> Result<()>
    where
        Q: IntoIterator<Item = Qp<P>>,
        A: IntoIterator<Item = Ah>,
        C: IntoIterator<Item = Cq<P>>,
        M: IntoIterator<Item = Mr<P>>,
        D: IntoIterator<Item = Pd>,
    {
        for qp in objects.qps {
            self.destroy_qp(qp).map_err(|(_, error)| error)?;
        }
        for ah in objects.ahs {
            self.destroy_ah(ah).map_err(|(_, error)| error)?;
        }
        for cq in objects.cqs {
            self.destroy_cq(cq).map_err(|(_, error)| error)?;
        }
        for mr in objects.mrs {
            self.dereg_mr(mr).map_err(|(_, error)| error)?;
        }
        for pd in objects.pds {
            self.dealloc_pd(pd).map_err(|(_, error)| error)?;
        }
        self.shutdown(events).map_err(|failed| failed.error)
    }

    /// Undoes the bring-up in order (control-path 3.4). Give back all objects before.
    ///
    /// # Errors
    /// [`Error::Alive`] while objects are alive, [`Error::Foreign`] if `events` has a part of
    /// another device and [`Error::Invalid`] if it is not the whole set; these return the parts.
    /// Otherwise the first step that failed. The whole set is what
    /// [`Device::split`](crate::Device::split) gave, with what [`Control::add_completion_vector`]
    /// gave since and without what [`Control::remove_completion_vector`] took, in any order.
    #[doc(alias = "ibv_close_device")]
    pub fn shutdown(mut self, events: EventSet<P>) -> Result<(), ShutdownError<P>> {
        // An orphan that stays keeps nothing of what follows.
        let _ = self.end_orphans_of(|_| true);
        self.end_groups();
        self.end_late_counters();
        self.uncount_again();
        self.end_unanswered_ceqs(true);
        if let Err(error) = self.scheduler.prune(&mut self.cqp, &mut self.lan_side) {
            log_warn!("the transmit scheduler keeps a node: {}", error);
        }
        self.reap();
        if let Err(error) = self.ready_to_end(&events) {
            let parts = Some((self, events));
            return Err(ShutdownError { error, parts });
        }
        let may_be_made = !self.unanswered.orphans.is_empty();
        let Self {
            platform,
            cqp,
            hmc,
            pool,
            groups,
            wiring,
            mut ceqs,
            aeq_entries,
            mut lan_side,
            unanswered,
            ..
        } = self;
        // Before anything else: nothing new reaches the engine (control-path 9.9).
        if let Some(lan) = lan_side.owned_mut() {
            lan.refuse_rdma();
        }
        // No queue pair is left that could use the pool, except for one that may yet be made: its
        // shadow area is there.
        if !may_be_made {
            pool.release();
        }
        groups.end();
        let Some(aeq) = take_queues(events, &mut ceqs) else {
            return Err(ShutdownError {
                error: Error::Invalid {
                    what: "the asynchronous event queue is missing: pass all parts that split() gave",
                },
                parts: None,
            });
        };
        let engine = Engine {
            cqp,
            hmc,
            wiring,
            ceqs,
            aeq_entries,
            aeq,
        };
        let undone = engine.undo(&platform, &lan_side);
        if undone.is_ok() {
            unanswered.into_inner().counters.release();
        }
        // Whatever became of the engine. The first error counts.
        undone
            .and(lan_side.undo(&platform))
            .map_err(|error| ShutdownError { error, parts: None })
    }

    /// Gives all memory back without a command to the device, after the function was reset from
    /// outside (a function level reset, PFR or wider). Use it when the device has stopped
    /// answering and [`Control::shutdown`] cannot do its work. Objects have a
    /// `release_after_reset` of their own; call those first.
    ///
    /// Memory that was given up earlier because a command had not ended stays leaked. Parts of
    /// another device in `events` are returned.
    pub fn release_after_reset(mut self, mut events: EventSet<P>) -> EventSet<P> {
        while let Some(place) = events.iter().position(|part| part.tag == self.tag())
            && let Some(part) = events.swap_remove(place)
        {
            self.platform.vector_free(part.vector);
            if let Some((_, queue)) = part.ceq {
                queue.into_memory().release();
            }
            if let Some(queue) = part.aeq {
                queue.into_memory().release();
            }
        }
        self.wiring.give_spare(&self.platform);
        self.failures.clear();
        while let Some(orphan) = self.unanswered.orphans.pop() {
            if let Some(memory) = orphan.memory {
                memory.release();
            }
        }
        while let Some(ceq) = self.unanswered.ceqs.pop() {
            ceq.release();
        }
        self.unanswered.into_inner().counters.release();
        self.pool.release();
        self.groups.release();
        self.hmc.into_inner().hmc.release_after_reset();
        self.cqp.release_after_reset();
        self.lan_side.release_after_reset();
        events
    }

    fn ready_to_end(&self, events: &EventSet<P>) -> Result<()> {
        for (object, count) in [
            (Object::Qp, self.live_qps()),
            (Object::Cq, self.cqs.taken()),
            (Object::Mr, self.mrs.taken()),
            (Object::Ah, self.ahs.taken()),
            (Object::LanPort, self.open_ports()),
        ] {
            if count > 0 {
                return Err(Error::Alive { object, count });
            }
        }
        if let Some(foreign) = events.iter().find(|part| part.tag != self.tag()) {
            let id = foreign.completion_vector().map_or(0, u32::from);
            let object = Object::CompletionVector;
            return Err(Error::Foreign { object, id });
        }
        if events.len() != usize::from(self.wiring.in_use()) {
            return Err(Error::Invalid {
                what: "these are not all of this device's events: pass all parts that split() and add_completion_vector() gave",
            });
        }
        Ok(())
    }

    fn open_ports(&self) -> u32 {
        let lan = self.lan_side.owned();
        lan.is_some_and(LanSide::has_port).into()
    }

    /// Queue pairs that were not given back. Their numbers do not tell: the number of a destroyed
    /// one stays taken while a completion queue may still name it. But each uses two places in
    /// completion queues.
    fn live_qps(&self) -> u32 {
        let users = (0..self.hmc.count(HmcObject::Cq)).map(|cq| self.cq_users.get(cq));
        let orphans = self.unanswered.orphans.len() as u32;
        (users.fold(0, u32::saturating_add) / 2).saturating_sub(orphans)
    }
}
