//! Recovery of failed queue pairs: the commands and the flush that event handlers leave to the
//! control path.
//!
//! The card reports a failing queue pair by an asynchronous event and stops it. It completes
//! nothing until software moves it to ERROR and posts FLUSH_WQES with the code taken from the
//! event (control-path 7.6, data-path 8.4). [`Control::progress`] posts both without waiting and
//! finishes them on a later call.

use e810_cqp::limits::{LIVENESS_INTERVAL, NO_PROGRESS_LIMIT};
use e810_cqp::op::{FlushStatus, FlushWqes};
use e810_cqp::{Completion, Ticket};
use e810_datapath::slot::{Cause, NotifyResult, QpKey};
use e810_hal::clock::live;
use e810_hal::regs::PFPE_CQPTAIL;
use e810_hal::{Ns, Platform, WaitError, log_warn};
use e810_types::{QpState, QpType, WorkQueue};
use heapless::Vec;

use super::Control;
use super::qp_stop::NO_CAUSE;
use super::qp_stop_states::StopState;
use crate::error::Result;

/// Queue pairs whose command is posted, or waits for room, at one time; others wait on the list
/// of marked ones.
const AT_ONCE: usize = 16;

/// How long after FLUSH_WQES the pollers complete what is left by themselves: the device's own
/// flush CQEs come first (data-path 4.10, 20 ms).
const SETTLE: Ns = Ns::from_ms(20);

/// Major code of every flush (control-path 4.12).
const FLUSH_MAJOR: u16 = 1;

/// The next command in the recovery of a failed queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    key: QpKey,
    cause: Cause,
    phase: Phase,
    /// An event has said that the device stopped it.
    reported: bool,
}

/// How far the recovery is.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// To be moved to ERROR as soon as the CQP has room.
    Marked,
    /// MODIFY_QP to ERROR is posted.
    Stopping(Ticket),
    /// The flush waits for room in the CQP.
    Stopped,
    /// FLUSH_WQES is posted.
    Flushing(Ticket),
}

impl Phase {
    const fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Stopping(ticket) | Self::Flushing(ticket) => Some(ticket),
            Self::Marked | Self::Stopped => None,
        }
    }
}

/// Queue pairs that failed, and how long the device may take over them.
#[derive(Debug, Default)]
pub(super) struct Failures {
    list: Vec<Failing, AT_ONCE>,
    /// Commands that had ended at the last look; since when no more have ended; and when a
    /// register was last read.
    quiet: Option<(u64, Ns, Ns)>,
    /// Nothing had ended for too long after so many commands: nothing is posted
    /// before one more has.
    stuck: Option<(u64, e810_cqp::Error)>,
}

impl Failures {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets them, after a reset.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<P: Platform> Control<P> {
    /// Advances each failed queue pair by one step; returns the last error.
    pub(super) fn serve_failing(&mut self) -> Result<()> {
        let mut result = Ok(());
        if !self.failures.list.is_empty() || self.failures.stuck.is_some() {
            self.collect(&mut result);
        }
        let now = self.platform.now();
        while let Some(key) = self.stops.take_due(now) {
            if self.stops.is_stopped(key.id()) {
                self.sweep(key);
            } else {
                self.stop_again(key);
            }
        }
        while !self.failures.list.is_full() {
            let Some(attention) = self.registry.take_attention() else {
                break;
            };
            let failing = Failing {
                key: attention.qp,
                cause: attention.cause,
                phase: Phase::Marked,
                reported: true,
            };
            if let Some((_, stuck)) = self.failures.stuck {
                result = Err(stuck.into());
                self.give_up(failing);
            } else {
                // There is room, as just asked.
                let _ = self.failures.list.push(failing);
            }
        }
        let mut all = core::mem::take(&mut self.failures.list);
        while let Some(failing) = all.pop() {
            match self.advance(failing) {
                // There is room: one was taken from a list of the same size.
                Ok(Some(failing)) => {
                    let _ = self.failures.list.push(failing);
                }
                Ok(None) => {}
                Err(error) => {
                    self.give_up(failing);
                    result = Err(error);
                }
            }
        }
        if let Err(stuck) = self.check_liveness() {
            let stuck = e810_cqp::Error::Wait(stuck);
            let ended = self.cqp.counters().completed;
            self.failures.stuck = Some((ended, stuck));
            while let Some(failing) = self.failures.list.pop() {
                self.give_up(failing);
            }
            result = Err(stuck.into());
        }
        result
    }

    /// Nothing more will come from the device for it. If the device has stopped it, the pollers
    /// complete what is there, and after a while what is just being posted.
    fn give_up(&mut self, failing: Failing) {
        let (key, id) = (failing.key, failing.key.id());
        if let Some(ticket) = failing.phase.ticket() {
            self.cqp.forget(ticket);
        }
        if self.stops.is_stopped(id) {
            log_warn!(
                "queue pair {}: the device did not flush it; software completes its requests",
                id
            );
            self.sweep(key);
            self.settle(key);
        } else {
            self.leave_unstopped(key);
        }
    }

    /// The device has flushed what it could: what it has left is completed after a while.
    fn after_flush(&mut self, key: QpKey) {
        if self.stops.is_stopped(key.id()) {
            self.settle(key);
        } else {
            self.not_stopped(key);
        }
    }

    /// The device did not move it to ERROR and may still write for it: it is tried again after a
    /// while, a limited number of times.
    pub(super) fn not_stopped(&mut self, key: QpKey) {
        if self.stops.refused(key.id()) {
            self.settle(key);
        } else {
            self.leave_unstopped(key);
        }
    }

    fn leave_unstopped(&mut self, key: QpKey) {
        if !self.lives(key) {
            return;
        }
        log_warn!(
            "queue pair {}: the device did not move it to ERROR; its requests do not complete before it is destroyed or the function is reset",
            key.id()
        );
        self.stops.give_up(key.id());
    }

    /// Asks the device again, when there is room.
    fn stop_again(&mut self, key: QpKey) {
        if !self.lives(key) {
            return;
        }
        if self.failures.stuck.is_some() {
            self.leave_unstopped(key);
            return;
        }
        let failing = Failing {
            key,
            cause: self.slots().failure(key).unwrap_or(NO_CAUSE),
            phase: Phase::Marked,
            reported: false,
        };
        if self.failures.list.push(failing).is_err() {
            self.settle(key);
        }
    }

    /// The device ends commands again: it is asked again about all that it left unanswered.
    fn ask_all_again(&mut self) {
        while let Some(id) = self.stops.any_unstopped() {
            self.stops.ask_again(id);
            if let Some(key) = self.slots().qp_key(id) {
                self.settle(key);
            }
        }
    }

    /// Checks that the device still works on what was posted here: commands end, and a register
    /// can be read (control-path 10).
    fn check_liveness(&mut self) -> Result<(), WaitError> {
        const LABEL: &str = "flush of a failed queue pair";
        let failures = &mut self.failures;
        if failures.list.is_empty() {
            failures.quiet = None;
            return Ok(());
        }
        let (now, ended) = (self.platform.now(), self.cqp.counters().completed);
        let Some((before, since, checked)) = failures.quiet.filter(|quiet| quiet.0 == ended) else {
            failures.quiet = Some((ended, now, now));
            return Ok(());
        };
        if now - checked >= LIVENESS_INTERVAL {
            failures.quiet = Some((before, since, now));
            live("PFPE_CQPTAIL", PFPE_CQPTAIL.get(&self.platform))?;
        }
        if now - since >= NO_PROGRESS_LIMIT {
            return Err(WaitError::Timeout {
                label: LABEL,
                limit: NO_PROGRESS_LIMIT,
            });
        }
        Ok(())
    }

    /// One step of one queue pair; `None` when no command is left.
    fn advance(&mut self, mut failing: Failing) -> Result<Option<Failing>> {
        let (key, id) = (failing.key, failing.key.id());
        // A program may have moved it, or destroyed it, meanwhile.
        if matches!(failing.phase, Phase::Marked) && self.stops.is_stopped(id) {
            failing.phase = Phase::Stopped;
        }
        if !self.lives(key) && failing.phase.ticket().is_none() {
            return Ok(None);
        }
        let posted = match failing.phase {
            Phase::Marked => {
                let stop = self.to_error(id, self.service_of(key));
                self.cqp.submit(&stop)
            }
            Phase::Stopping(_) | Phase::Flushing(_) => return Ok(Some(failing)),
            Phase::Stopped => {
                let sides = self.unflushed(key);
                if sides.is_empty() {
                    self.after_flush(key);
                    return Ok(None);
                }
                self.cqp.submit(&flush_for(id, failing.cause, sides))
            }
        };
        match posted {
            Ok(ticket) if matches!(failing.phase, Phase::Marked) => {
                failing.phase = Phase::Stopping(ticket);
            }
            Ok(ticket) => {
                self.stops.add_state(id, self.unflushed(key));
                failing.phase = Phase::Flushing(ticket);
            }
            // The CQP is full at the moment.
            Err(e810_cqp::Error::RingFull { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Some(failing))
    }

    /// Takes the completions that are there and advances their queue pairs.
    fn collect(&mut self, result: &mut Result<()>) {
        loop {
            match self.cqp.poll() {
                Ok(Some(done)) => {
                    if let Some(failing) = self.take_failing(|one| one.is_awaiting(done.ticket))
                        && let Err(error) = self.ended(failing, done)
                    {
                        *result = Err(error);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    *result = Err(error.into());
                    break;
                }
            }
        }
        let ended = self.cqp.counters().completed;
        if self
            .failures
            .stuck
            .take_if(|stuck| stuck.0 != ended)
            .is_some()
        {
            self.ask_all_again();
        }
    }

    /// A command for a failed queue pair has ended. A queue pair that cannot be stopped is
    /// flushed only after an event, as in existing drivers. One that cannot be flushed is
    /// completed by software, if it is stopped.
    fn ended(&mut self, mut failing: Failing, done: Completion) -> Result<()> {
        let result = self.done_or_already(done.check());
        let key = failing.key;
        if !self.lives(key) {
            // Its number may now belong to another.
            return result;
        }
        let stops = matches!(failing.phase, Phase::Stopping(_));
        if stops && result.is_ok() {
            self.stops.stopped(key.id(), StopState::STOPPED);
        }
        if stops && (failing.reported || result.is_ok()) {
            failing.phase = Phase::Stopped;
            // There is room: it was just taken from there.
            let _ = self.failures.list.push(failing);
        } else {
            self.after_flush(key);
        }
        result
    }

    /// Takes one queue pair off the list.
    fn take_failing(&mut self, wanted: impl Fn(&Failing) -> bool) -> Option<Failing> {
        let mut found = None;
        let mut all = core::mem::take(&mut self.failures.list);
        while let Some(failing) = all.pop() {
            if found.is_none() && wanted(&failing) {
                found = Some(failing);
            } else {
                // There is room, as above.
                let _ = self.failures.list.push(failing);
            }
        }
        found
    }

    /// Whether its number is still its own, and no program is ending it.
    pub(super) fn lives(&self, key: QpKey) -> bool {
        self.slots().qp_state(key).is_some()
    }

    fn service_of(&self, key: QpKey) -> QpType {
        self.slots().qp_type(key).unwrap_or(QpType::Rc)
    }

    /// The queues of a queue pair that the device has not been told to flush. In SQE, receives
    /// stay until the program moves the queue pair on.
    pub(super) fn unflushed(&self, key: QpKey) -> StopState {
        let state = self.stops.state(key.id());
        let both = StopState::SENDS | StopState::RECEIVES;
        let wanted = if state.contains(StopState::IDLE) {
            StopState::empty()
        } else if self.slots().qp_state(key) == Some(QpState::Sqe) {
            StopState::SENDS
        } else {
            both
        };
        wanted.difference(state)
    }

    /// After an error transition: what the device does not flush is completed after a while.
    pub(super) fn settle(&mut self, key: QpKey) {
        let until = self.platform.now() + SETTLE;
        self.stops.settle(key, until);
    }

    /// Lets the pollers complete what is left, and notifies the ones that asked for an event,
    /// because the device will not (data-path 4.10).
    fn sweep(&mut self, key: QpKey) {
        // A queue pair that was destroyed meanwhile has nothing left.
        let Ok(pending) = self.registry.sweep(key) else {
            return;
        };
        for cq in [pending.send_cq, pending.recv_cq].into_iter().flatten() {
            if let NotifyResult::Delivered { channel } =
                self.registry.slots().signal_by_software(cq)
            {
                self.wakers.wake(channel);
            }
        }
    }

    /// Waits for the command that is in flight for a queue pair which its program ends itself;
    /// the rest is up to the caller.
    ///
    /// # Errors
    /// The command has not ended: the device may still work on it.
    pub(super) fn take_over(&mut self, key: QpKey) -> Result<()> {
        let Some(failing) = self.take_failing(|failing| failing.key == key) else {
            return Ok(());
        };
        let Some(ticket) = failing.phase.ticket() else {
            return Ok(());
        };
        let ended = self.cqp.wait(ticket);
        match self.done_or_already(ended) {
            Err(error) if error.leaves_command_open() => {
                // The ticket was given up.
                let phase = match failing.phase {
                    Phase::Stopping(_) => Phase::Marked,
                    _ => Phase::Stopped,
                };
                self.give_up(Failing { phase, ..failing });
                Err(error)
            }
            Ok(()) if matches!(failing.phase, Phase::Stopping(_)) => {
                self.stops.stopped(key.id(), StopState::STOPPED);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Failing {
    fn is_awaiting(&self, wanted: Ticket) -> bool {
        self.phase.ticket() == Some(wanted)
    }
}

/// The flush that an event requires: its code on the side that it blames, "general" on the other
/// (control-path 4.12, 7.6).
pub(super) fn flush_for(id: u32, cause: Cause, sides: StopState) -> FlushWqes {
    let blamed = FlushStatus {
        major: FLUSH_MAJOR,
        minor: cause.code,
    };
    let (sq, rq) = match cause.queue {
        Some(WorkQueue::Send) => (blamed, FlushStatus::GENERAL),
        Some(WorkQueue::Recv) => (FlushStatus::GENERAL, blamed),
        None => (FlushStatus::GENERAL, FlushStatus::GENERAL),
    };
    FlushWqes {
        sq: sides.contains(StopState::SENDS),
        rq: sides.contains(StopState::RECEIVES),
        ..FlushWqes::both(id, sq, rq)
    }
}
