//! Creating and destroying queue pairs.

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{CreateQp, DestroyQp};
use e810_cqp::qpc::RoceContext;
use e810_datapath::error::SlotError;
use e810_datapath::slot::{DroppedWrs, QpKey, QpShape};
use e810_datapath::{ExtraOps, SendLimits};
use e810_hal::{Ns, Platform};
use e810_types::QpType;

use super::orphans::Orphan;
use super::qp_context::{hardware_type, queue_contexts};
use super::qp_stop_states::StopState;
use super::{Control, run_again};
use crate::attr::{QpAttr, QpCaps, QpInit};
use crate::error::{Error, Object, Result};
use crate::handover::QpDestroyed;
use crate::pd::Pd;
use crate::qp::{Made, Presence, Qp, QpControl};
use crate::rings::{NotMade, QpGrant, QpMemory, QpPlace, Sizes};
use crate::route::{TxPath, TxPaths};
use crate::unsupported::Unsupported;

/// The queue pair of management datagrams.
const GSI_QP: u32 = 1;

impl<P: Platform> Control<P> {
    /// Makes a queue pair in RESET.
    ///
    /// # Errors
    /// [`Error::NotOffered`] for a service that the device does not have, sizes beyond the
    /// device, no number or memory left ([`Error::NotForgotten`] if destroyed queue pairs still
    /// hold them), or the device's refusal. Nothing is left behind, unless the device did not
    /// answer.
    #[doc(alias = "ibv_create_qp")]
    pub fn create_qp(&mut self, pd: &Pd, init: &QpInit<'_>) -> Result<Qp<P>> {
        let memory = QpMemory::new(&self.platform, &init.caps)?;
        match self.create_qp_on_memory(pd, init, memory.place()) {
            Ok((control, granted)) => {
                let (send, recv) = self.rings().qp(memory, &granted)?;
                Ok(Qp {
                    control,
                    send,
                    recv,
                })
            }
            Err(failed) => {
                match self.unanswered.orphans.last_mut() {
                    // The orphan of this call.
                    Some(orphan) if failed.may_use_memory => orphan.memory = Some(memory),
                    _ => memory.release(),
                }
                Err(failed.error)
            }
        }
    }

    /// As [`create_qp`](Self::create_qp), for a program that keeps the queues elsewhere, in
    /// memory of its own. The program makes the queues from the grant that this returns
    /// ([`Rings::qp`](crate::Rings::qp)).
    ///
    /// # Errors
    /// As there.
    pub fn create_qp_on_memory(
        &mut self,
        pd: &Pd,
        init: &QpInit<'_>,
        place: QpPlace,
    ) -> Result<(QpControl<P>, QpGrant), NotMade> {
        offered(init.qp_type)?;
        self.own(pd.owner, Object::Pd, pd.id)?;
        for cq in [init.send_cq, init.recv_cq] {
            self.usable_cq(cq)?;
        }
        let sizes = Sizes::of(&init.caps)?;
        if let Some(tuning) = &init.tuning {
            tuning.check()?;
        }
        self.reap();
        self.room_for_orphan()?;
        let id = self.take_qp_number(init.qp_type)?;
        let made = self.create_qp_as(id, pd, init, (sizes, place));
        match &made {
            Ok(_) => {
                self.pd_users.inc(pd.id);
                self.cq_users.inc(init.send_cq.key.id());
                self.cq_users.inc(init.recv_cq.key.id());
            }
            // The device may yet make it.
            Err(failed) if failed.may_use_memory => {}
            Err(_) => self.give_qp_number(id),
        }
        made
    }

    /// A number that no queue pair has. Management datagrams go to number 1 (cm-path 1.2).
    fn take_qp_number(&mut self, qp_type: QpType) -> Result<u32> {
        if qp_type != QpType::Gsi {
            let none = Error::Exhausted {
                object: Object::Qp,
                limit: self.qps.capacity(),
            };
            return self.qps.take().ok_or_else(|| self.or_not_forgotten(none));
        }
        if core::mem::replace(&mut self.has_gsi, true) {
            return Err(self.or_not_forgotten(Error::Exhausted {
                object: Object::Qp,
                limit: 1,
            }));
        }
        Ok(GSI_QP)
    }

    pub(super) fn give_qp_number(&mut self, id: u32) {
        if id == GSI_QP {
            self.has_gsi = false;
        } else {
            self.qps.give(id);
        }
    }

    fn create_qp_as(
        &mut self,
        id: u32,
        pd: &Pd,
        init: &QpInit<'_>,
        rings: (Sizes, QpPlace),
    ) -> Result<(QpControl<P>, QpGrant), NotMade> {
        self.ensure(HmcObject::Qp, id)?;
        // No path yet, so no priority.
        let class = self.class_of(0);
        let lan = &mut self.lan_side;
        let qs_handle = self.scheduler.join(&mut self.cqp, lan, class)?;
        let made = self.create_qp_in(id, pd, init, rings, (class, qs_handle));
        // An orphan keeps using its traffic class.
        if matches!(&made, Err(failed) if !failed.may_use_memory) {
            // The first error says more than one that undoing may add.
            let _ = self
                .scheduler
                .leave(&mut self.cqp, &mut self.lan_side, class);
        }
        made
    }

    fn create_qp_in(
        &mut self,
        id: u32,
        pd: &Pd,
        init: &QpInit<'_>,
        (sizes, place): (Sizes, QpPlace),
        (class, qs_handle): (u8, u16),
    ) -> Result<(QpControl<P>, QpGrant), NotMade> {
        let shape = QpShape {
            sq_quanta: sizes.sq.quanta,
            rq_quanta: sizes.rq.quanta(),
            qp_type: init.qp_type,
            send_cq: init.send_cq.key,
            recv_cq: init.recv_cq.key,
        };
        let opened = match init.send_cq.elsewhere {
            true => self.registry.open_qp_elsewhere(id, &shape),
            false => self.registry.open_qp(id, &shape),
        };
        let key = match opened {
            Ok(key) => key,
            Err(error) => {
                let no_room = matches!(error, SlotError::NoSpace { .. });
                let error = e810_datapath::Error::from(error).into();
                return Err(NotMade::from(if no_room {
                    self.or_not_forgotten(error)
                } else {
                    error
                }));
            }
        };
        let counters = match self.count(init.counters) {
            Ok(counters) => counters,
            Err(error) => {
                self.unopen(key);
                return Err(error.into());
            }
        };
        let made = Made {
            qp_type: init.qp_type,
            caps: QpCaps {
                max_send_wr: sizes.sq.max_wr,
                max_recv_wr: sizes.rq.max_wr,
                ..init.caps
            },
            signal_all: init.signal_all,
            fast_register: init.fast_register,
            counters,
            tuning: init.tuning.unwrap_or(self.tuning),
            user_context: init.user_context,
            presence: Presence::Made,
            is_open: false,
        };
        let queues = queue_contexts(init, sizes, place);
        let context = self.first_context(queues, qs_handle, key, pd.id, &made);
        if let Err(error) = self.create_in_device(key, &made, &context) {
            let may_use_memory = error.leaves_command_open();
            if may_use_memory {
                // From here on no CQE and no event finds it.
                let _ = self.registry.hide_qp(key);
                self.keep_orphan(Orphan {
                    key,
                    qp_type: init.qp_type,
                    pd: pd.id,
                    cqs: [init.send_cq, init.recv_cq].map(|cq| cq.key.id()),
                    class,
                    counters,
                    place,
                    memory: None,
                    exists: false,
                });
            } else {
                self.uncount(counters);
                self.unopen(key);
            }
            return Err(NotMade {
                error,
                may_use_memory,
            });
        }
        let limits = SendLimits {
            qp_type: init.qp_type,
            max_sge: init.caps.max_send_sge,
            max_inline: init.caps.max_inline,
            address_handles: self.hmc.count(HmcObject::FsiAv),
            signal_all: init.signal_all,
            // As kernel drivers do (data-path 1.7).
            local_fence: true,
            read_fence_rate: made.tuning.read_fence_rate,
            extra: self.extra_ops(init.fast_register),
        };
        let owner = self.tag();
        let control = QpControl {
            owner,
            key,
            pd: pd.id,
            context,
            made,
            last_attr: QpAttr::default(),
            tx_paths: TxPaths::first(class),
            draining_since: Ns(0),
            slots: self.slots(),
        };
        let granted = QpGrant {
            owner,
            key,
            limits,
            sq_quanta: sizes.sq.quanta,
            rq: sizes.rq,
            max_recv_sge: init.caps.max_recv_sge,
            send_cq: init.send_cq.key,
            recv_cq: init.recv_cq.key,
        };
        Ok((control, granted))
    }

    /// The error if no number, or no room for requests, is left. If destroyed queue pairs that
    /// are not forgotten hold some, that is reported instead of `error`.
    fn or_not_forgotten(&self, error: Error) -> Error {
        match self.registry.retired() {
            0 => error,
            destroyed => Error::NotForgotten { destroyed },
        }
    }

    /// Undoes the opening of a queue pair that the device does not know.
    fn unopen(&mut self, key: QpKey) {
        // It was opened just now, so neither can refuse.
        let _ = self.registry.hide_qp(key);
        self.retire_unheard(key);
        self.reap();
    }

    /// Retires a queue pair that no program has heard of.
    pub(super) fn retire_unheard(&mut self, key: QpKey) {
        let _ = self.registry.retire(key);
        // Refused for one whose queues are here.
        let _ = self.registry.forgotten(key.id());
    }

    /// Operations beyond the plain ones that a send queue takes.
    fn extra_ops(&self, fast_register: bool) -> ExtraOps {
        let mut extra = ExtraOps::empty();
        extra.set(ExtraOps::FAST_REGISTER, fast_register);
        extra.set(ExtraOps::BIND_MW, self.quirks.memory_windows);
        extra.set(ExtraOps::READ_INV, self.quirks.read_with_invalidate);
        extra
    }

    /// CREATE_QP with a context.
    pub(super) fn create_in_device(
        &mut self,
        key: QpKey,
        made: &Made,
        context: &RoceContext,
    ) -> Result<()> {
        let id = key.id();
        self.stops.renew(id);
        self.clear_shadow(id);
        self.write_context(id, context)?;
        let address = self.context_of(id);
        let kind = hardware_type(made.qp_type);
        let command = CreateQp::new(id, kind, address, self.shadow_of(id));
        let created = run_again(&mut self.cqp, &command, key.bits());
        if created
            .as_ref()
            .is_err_and(|error| !error.leaves_command_open())
        {
            self.stops.add_state(id, StopState::IDLE);
        }
        created
    }

    /// Shared receive queues: there are none.
    ///
    /// # Errors
    /// [`Unsupported::Srq`], always.
    #[doc(alias("ibv_create_srq", "ibv_post_srq_recv"))]
    pub fn create_srq(&mut self, _: &Pd) -> Result<core::convert::Infallible> {
        Err(Unsupported::Srq.into())
    }

    /// Destroys a queue pair and frees its memory. Completions that were not polled yet never
    /// appear, and no completions come for what is discarded. Returns the number of requests that
    /// this concerns; 0 if an earlier try that failed has discarded them.
    ///
    /// Its number is free again once its completion queues were polled, each until nothing was
    /// found, or have forgotten it ([`Cq::forget_gone`](crate::Cq::forget_gone)).
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal; the queue pair is returned, and can only be
    /// destroyed.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn destroy_qp(&mut self, qp: Qp<P>) -> Result<DroppedWrs, (Qp<P>, Error)> {
        let Qp {
            control,
            send,
            recv,
        } = qp;
        match self.destroy_qp_control(control) {
            Ok(destroyed) => {
                send.release(&destroyed);
                recv.release(&destroyed);
                Ok(destroyed.discarded)
            }
            Err((control, error)) => Err((
                Qp {
                    control,
                    send,
                    recv,
                },
                error,
            )),
        }
    }

    /// As [`destroy_qp`](Self::destroy_qp), for a program that keeps the queues elsewhere. Free
    /// them afterwards with the token that this returns.
    ///
    /// # Errors
    /// As there; the control part is returned.
    pub fn destroy_qp_control(
        &mut self,
        mut qp: QpControl<P>,
    ) -> Result<QpDestroyed, (QpControl<P>, Error)> {
        let discarded = match self.end_qp(&mut qp) {
            Ok(discarded) => discarded,
            Err(error) => return Err((qp, error)),
        };
        // While its number still means something to the device.
        self.leave_groups(qp.key.id());
        if let Err(error) = self.destroy_in_device(&qp) {
            self.rejoin_groups(qp.key.id(), qp.context.qs_handle, &error);
            return Err((qp, error));
        }
        let _ = self.registry.retire(qp.key);
        self.pd_users.dec(qp.pd);
        self.cq_users.dec(qp.context.sq.cq);
        self.cq_users.dec(qp.context.rq.cq);
        self.uncount(qp.made.counters);
        for tx_path in qp.tx_paths.all() {
            self.leave_tables(qp.key.id(), tx_path);
        }
        self.reap();
        Ok(QpDestroyed {
            owner: qp.owner,
            key: qp.key,
            discarded,
        })
    }

    /// DESTROY_QP.
    pub(super) fn destroy_in_device(&mut self, qp: &QpControl<P>) -> Result<()> {
        if qp.made.presence != Presence::Made {
            return Ok(());
        }
        let id = qp.key.id();
        let (context, shadow) = (self.context_of(id), self.shadow_of(id));
        let kind = hardware_type(qp.made.qp_type);
        let command = DestroyQp {
            remove_hash_entry: true,
            ..DestroyQp::new(id, kind, context, shadow)
        };
        run_again(&mut self.cqp, &command, id.into())?;
        // There is nothing left to stop or to flush, whatever an event says.
        self.stops.renew(id);
        self.stops.add_state(id, StopState::IDLE);
        Ok(())
    }

    /// Gives back a queue pair's entries of shared tables, which the device no longer uses for
    /// it. An error leaves a table entry behind.
    pub(super) fn leave_tables(&mut self, id: u32, tx_path: TxPath) {
        let mut leftover = self
            .scheduler
            .leave(&mut self.cqp, &mut self.lan_side, tx_path.class);
        if let Some(route) = tx_path.route {
            leftover = leftover.and(self.give_route(route));
        }
        if let Err(error) = leftover {
            e810_hal::log_warn!("queue pair {} left a table entry behind: {}", id, error);
        }
    }
}

/// Which services the device has, and why it has no others.
fn offered(qp_type: QpType) -> Result<()> {
    Err(Error::NotOffered(match qp_type {
        QpType::Rc | QpType::Ud | QpType::Gsi => return Ok(()),
        QpType::Uc => Unsupported::Uc,
        QpType::RawPacket => Unsupported::RawPacket,
        QpType::XrcIni | QpType::XrcTgt => Unsupported::Xrc,
    }))
}
