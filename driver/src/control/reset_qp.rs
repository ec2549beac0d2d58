//! RESET of a queue pair: it is destroyed and created again under the same number.
//!
//! The device has no way back from ERROR (data-path 8.3; existing drivers leave a queue pair dead
//! after RESET). So its queue pair is destroyed and created anew. For the program it stays the
//! same queue pair, empty, with the number that its peers know.

use e810_cqp::limits::NO_PROGRESS_LIMIT;
use e810_datapath::error::SlotError;
use e810_datapath::slot::DroppedWrs;
use e810_hal::clock::poll_until;
use e810_hal::{Ns, Platform};

use super::Control;
use crate::attr::QpAttr;
use crate::cq::Cq;
use crate::error::{Error, Object, Result};
use crate::handover::{QpReopened, QpResetting};
use crate::qp::{Presence, Qp, QpControl};
use crate::route::TxPaths;

impl<P: Platform> Control<P> {
    /// Takes a queue pair to RESET from any state and discards everything it had: completions
    /// that were not polled yet never appear, and the number of their requests is returned. The
    /// queue pair can be taken to INIT and connected again.
    ///
    /// `cqs` has the completion queues that it was made with (one, if both are the same): nobody
    /// polls them meanwhile.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Invalid`] if a completion queue is missing (nothing is
    /// changed then), or the device's refusal. A queue pair that the device did not make again
    /// stays in ERR; it can only be destroyed.
    #[doc(alias = "ibv_modify_qp")]
    pub fn reset_qp(&mut self, qp: &mut Qp<P>, cqs: &mut [&mut Cq<P>]) -> Result<DroppedWrs> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        for id in [qp.context.sq.cq, qp.context.rq.cq] {
            let found = cqs.iter().find(|cq| cq.number() == id);
            let found = found.ok_or(Error::Invalid {
                what: "RESET discards completions: pass the completion queues that the queue pair was made with",
            })?;
            self.own(found.owner, Object::Cq, id)?;
        }
        let resetting = self.begin_reset_qp(qp)?;
        for cq in cqs {
            cq.forget_gone();
        }
        let reopened = self.reopen_qp(qp, &resetting)?;
        qp.send.restart(&reopened)?;
        qp.recv.restart(&reopened)?;
        self.finish_reset_qp(qp, reopened)?;
        Ok(resetting.discarded)
    }

    /// Begins what [`reset_qp`](Self::reset_qp) does, for a program that keeps the queues
    /// elsewhere. After this call the device no longer has the queue pair. The next steps are:
    ///
    /// 1. Its completion queues forget it ([`Cq::forget_gone`]).
    /// 2. It is opened again ([`reopen_qp`](Self::reopen_qp)).
    /// 3. Its queues restart ([`QpSend::restart`](crate::QpSend::restart)).
    /// 4. The device gets it back ([`finish_reset_qp`](Self::finish_reset_qp)).
    ///
    /// From this call until the end of the last step, nobody posts to it or polls those queues.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal. After a step that failed it can only be
    /// destroyed.
    pub fn begin_reset_qp(&mut self, qp: &mut QpControl<P>) -> Result<QpResetting> {
        let discarded = self.end_qp(qp)?;
        let id = qp.key.id();
        self.leave_groups(id);
        if let Err(error) = self.destroy_in_device(qp) {
            self.rejoin_groups(id, qp.context.qs_handle, &error);
            return Err(error);
        }
        qp.made.presence = Presence::Gone;
        self.await_marks(qp)?;
        Ok(QpResetting {
            owner: qp.owner,
            key: qp.key,
            discarded,
        })
    }

    /// Opens a queue pair that is being reset again, under its number; see
    /// [`begin_reset_qp`](Self::begin_reset_qp).
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Invalid`] for the reset of another one.
    pub fn reopen_qp(
        &mut self,
        qp: &mut QpControl<P>,
        resetting: &QpResetting,
    ) -> Result<QpReopened> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        if (resetting.owner, resetting.key) != (qp.owner, qp.key) {
            return Err(Error::Invalid {
                what: "this reset was begun for another queue pair",
            });
        }
        if qp.made.presence != Presence::Gone {
            return Err(Error::Invalid {
                what: "the queue pair is not destroyed in the device: begin another reset",
            });
        }
        let wrong = |error: SlotError| e810_datapath::Error::from(error);
        let reopened = self.registry.reopen(qp.key, qp.made.qp_type);
        qp.key = reopened.map_err(wrong)?;
        qp.made.presence = Presence::Reopened;
        Ok(QpReopened {
            owner: qp.owner,
            key: qp.key,
            qp_type: qp.made.qp_type,
        })
    }

    /// Gives the device back a queue pair that was reopened and whose queues have restarted; see
    /// [`begin_reset_qp`](Self::begin_reset_qp).
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Invalid`] for the reset of another queue pair and for a reset
    /// that is over, or the device's refusal.
    pub fn finish_reset_qp(&mut self, qp: &mut QpControl<P>, reopened: QpReopened) -> Result<()> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        if (reopened.owner, reopened.key) != (qp.owner, qp.key) {
            return Err(Error::Invalid {
                what: "this reset was begun for another queue pair",
            });
        }
        if qp.made.presence != Presence::Reopened {
            return Err(Error::Invalid {
                what: "this reset is over, or another was begun",
            });
        }
        qp.last_attr = QpAttr::default();
        self.remake(qp)?;
        let reset = self.registry.begin(qp.key);
        reset.map_err(|error| e810_datapath::Error::from(error).into())
    }

    /// Makes the queue pair in the device again, without a path.
    fn remake(&mut self, qp: &mut QpControl<P>) -> Result<()> {
        let class = self.class_of(0);
        let lan = &mut self.lan_side;
        let qs_handle = self.scheduler.join(&mut self.cqp, lan, class)?;
        let before = core::mem::replace(&mut qp.tx_paths, TxPaths::first(class));
        for tx_path in before.all() {
            self.leave_tables(qp.key.id(), tx_path);
        }
        let queues = (qp.context.sq, qp.context.rq);
        let context = self.first_context(queues, qs_handle, qp.key, qp.pd, &qp.made);
        let created = self.create_in_device(qp.key, &qp.made, &context);
        qp.made.presence = match &created {
            Ok(()) => Presence::Made,
            Err(error) if error.leaves_command_open() => Presence::Unanswered,
            Err(_) => Presence::Gone,
        };
        created?;
        qp.made.is_open = false;
        qp.context = context;
        Ok(())
    }

    /// Takes marked queue pairs until this one is no longer on the list.
    fn await_marks(&mut self, qp: &QpControl<P>) -> Result<()> {
        /// An event handler is between two stores, unless it was interrupted; other failed queue
        /// pairs leave the list when the device is found not to answer.
        const LIMIT: Ns = Ns(NO_PROGRESS_LIMIT.0 + 1_000_000_000);
        let platform = self.platform.clone();
        poll_until(&platform, "events of a queue pair", LIMIT, Ns(0), || {
            let _ = self.progress();
            Ok(if self.registry.is_marked(qp.key) {
                None
            } else {
                Some(())
            })
        })
    }
}
