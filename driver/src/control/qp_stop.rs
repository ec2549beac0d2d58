//! Stopping a queue pair at its program's request: MODIFY_QP to ERROR and FLUSH_WQES, each posted
//! once; and ending one, without a flush.

use e810_cqp::Opcode;
use e810_cqp::op::ModifyQp;
use e810_datapath::slot::{Cause, DroppedWrs, QpKey};
use e810_hal::Platform;
use e810_types::{FlushCode, HwQpState, QpState, QpType};

use super::Control;
use super::qp_context::hardware_type;
use super::qp_recovery::flush_for;
use super::qp_stop_states::StopState;
use crate::error::{Error, Object, Result};
use crate::qp::{Presence, QpControl};

impl<P: Platform> Control<P> {
    /// Moves the device's side of a queue pair to ERROR and flushes what is not flushed yet, for
    /// a change to ERR that its program asked for. `from` is the state before.
    ///
    /// A refusal that says that there is nothing to do counts as done, and so does any refusal of
    /// the flush. Existing drivers flush no queue pair that could not be moved (data-path 8.3).
    pub(super) fn stop_qp(&mut self, key: QpKey, qp_type: QpType, from: QpState) -> Result<()> {
        let id = key.id();
        self.take_over(key)?;
        if !self.stops.is_stopped(id) {
            let command = self.to_error(id, qp_type);
            let moved = self.cqp.execute_again(&command, key.bits());
            let refused = moved.is_err();
            self.done_or_already(moved)?;
            // It is idle and stays so: no driver flushes such a queue pair. Software completes
            // its receives.
            let how = match refused && from == QpState::Init {
                true => StopState::IDLE,
                false => StopState::STOPPED,
            };
            self.stops.stopped(id, how);
        }
        let sides = self.unflushed(key);
        if sides.is_empty() {
            return Ok(());
        }
        // One that failed before keeps its cause (control-path 4.12).
        let cause = self.slots().failure(key).unwrap_or(NO_CAUSE);
        let ticket = self.cqp.submit(&flush_for(id, cause, sides))?;
        self.stops.add_state(id, sides);
        match self.cqp.wait(ticket) {
            // Existing drivers ignore it: the queue pair is stopped, and software completes what
            // the device leaves, as for a completion queue that overflowed (control-path 4.12).
            Err(error @ e810_cqp::Error::Cqp { .. }) if !error.needs_reset() => {
                self.cqp.pass_over(&error);
                Ok(())
            }
            flushed => Ok(flushed.map(drop)?),
        }
    }

    /// Ends a queue pair, up to DESTROY_QP: from now on no completion and no event finds it, and
    /// the device is told to stop it, unless it has. Nothing is flushed, because what is
    /// outstanding belongs to nobody any more (control-path 5.5, row destroy). Returns what was
    /// outstanding.
    ///
    /// In RESET the device has it idle, and there is nothing to stop. Existing drivers ignore the
    /// device's refusals here: they end with the queue pair. A second attempt finds it hidden.
    ///
    /// # Errors
    /// [`Error::Foreign`]; a command that has not ended.
    pub(super) fn end_qp(&mut self, qp: &mut QpControl<P>) -> Result<DroppedWrs> {
        let id = qp.key.id();
        self.own(qp.owner, Object::Qp, id)?;
        let from = qp.state();
        let discarded = self.registry.hide_qp(qp.key).unwrap_or_default();
        self.await_handlers(qp)?;
        // What is in flight for it ends first; an event that marked it no longer matters.
        self.take_over(qp.key)?;
        self.learn_presence(qp)?;
        if qp.made.presence != Presence::Made {
            return Ok(discarded);
        }
        // Takes it off the list of marked ones. Another queue pair's failure is no reason to keep
        // this one; if the device is gone, the command below fails too.
        let _ = self.progress();
        if from == QpState::Reset {
            // A second attempt finds another state.
            self.stops.add_state(id, StopState::IDLE);
        }
        if self.stops.is_stopped(id) {
            return Ok(discarded);
        }
        let command = self.to_error(id, qp.made.qp_type);
        let moved = self.cqp.execute_again(&command, qp.key.bits());
        match self.done_or_already(moved) {
            Err(Error::Cqp(error @ e810_cqp::Error::Cqp { .. })) => self.cqp.pass_over(&error),
            other => other?,
        }
        self.stops.stopped(id, StopState::STOPPED);
        Ok(discarded)
    }

    /// Finds out whether a queue pair exists that was to be made again when the device did not
    /// answer. If the device did not make it, a command for it would be refused.
    fn learn_presence(&mut self, qp: &mut QpControl<P>) -> Result<()> {
        if qp.made.presence == Presence::Unanswered {
            let ended = self.cqp.late_end(Opcode::CreateQp, qp.key.bits(), true)?;
            qp.made.presence = match ended {
                Some(Err(_)) => Presence::Gone,
                Some(Ok(_)) | None => Presence::Made,
            };
            // As it is in RESET.
            self.stops.add_state(qp.key.id(), StopState::IDLE);
        }
        Ok(())
    }

    /// The end of FLUSH_WQES or of MODIFY_QP to ERROR. A failure counts as done if the queue pair
    /// is already in that state, as in existing drivers.
    pub(super) fn done_or_already(
        &mut self,
        ended: e810_cqp::Result<e810_cqp::Completion>,
    ) -> Result<()> {
        match ended {
            Ok(_) => Ok(()),
            Err(error) if error.is_done_already() => {
                self.cqp.pass_over(&error);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn to_error(&self, id: u32, qp_type: QpType) -> ModifyQp {
        ModifyQp::new(
            id,
            hardware_type(qp_type),
            self.context_of(id),
            self.shadow_of(id),
            HwQpState::Error,
        )
    }
}

/// A flush that no event asked for.
pub(super) const NO_CAUSE: Cause = Cause {
    queue: None,
    code: FlushCode(0),
};
