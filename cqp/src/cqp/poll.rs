//! Completion of commands, polled from the CCQ or from the registers (control-path 4.3, 4.4, 10).

use e810_hal::clock::LATER_PAUSE;
use e810_hal::clock::live;
use e810_hal::regs::PFPE_CQPTAIL;
use e810_hal::{Ns, Platform, WaitError, log_debug, log_warn, poll_until};

use super::status::{Tail, error_codes};
use super::{Ccq, Cqp, shadow_of};
use crate::ccq::CcqEntry;
use crate::code::needs_reset;
use crate::error::{Error, Result};
use crate::limits::{LIVENESS_INTERVAL, NO_PROGRESS_LIMIT, POLL_PAUSE};
use crate::slots::{Outcome, State};
use crate::ticket::{Completion, Ticket};

impl<P: Platform> Cqp<P> {
    /// The oldest completion that was not reported yet, if there is one. Does not wait.
    ///
    /// # Errors
    /// [`Error::Wait`] when a register shows that the device is gone.
    pub fn poll(&mut self) -> Result<Option<Completion>> {
        self.poll_ccq().map(|()| self.take_done())
    }

    /// The oldest completion that is there and was not reported yet.
    fn take_done(&mut self) -> Option<Completion> {
        let (oldest, end) = (self.ring.oldest(), self.completed);
        let done = oldest.and_then(|oldest| {
            (oldest..end).find(|n| self.slots().state(self.ring.index_of(*n)) == State::Done)
        });
        done.map(|sequence| self.report(sequence))
    }

    /// Waits for a command's end, until no command at all has completed for
    /// [`NO_PROGRESS_LIMIT`]. Completions of other commands that it sees are kept for their own
    /// tickets.
    ///
    /// # Errors
    /// [`Error::Cqp`] when the device failed the command; [`Error::UnknownTicket`];
    /// [`Error::Wait`] at the limit or when the device is gone. After the latter the ticket is
    /// void: the entry is kept until the completion comes, which is then dropped.
    pub fn wait(&mut self, ticket: Ticket) -> Result<Completion> {
        self.wait_within(ticket, NO_PROGRESS_LIMIT)
    }

    /// [`Cqp::wait`] with another limit.
    ///
    /// # Errors
    /// As [`Cqp::wait`].
    pub fn wait_within(&mut self, ticket: Ticket, limit: Ns) -> Result<Completion> {
        let ended = if self.ccq.is_some() {
            self.wait_on_ccq(ticket, limit)
        } else {
            self.wait_on_registers(ticket, limit)
        };
        self.finish(ticket, ended)
    }

    /// Reports a waited-for command, or gives it up.
    pub(super) fn finish(&mut self, ticket: Ticket, ended: Result<()>) -> Result<Completion> {
        match ended {
            Ok(()) => self.report(ticket.sequence).check(),
            Err(error) => {
                self.forget(ticket);
                Err(error)
            }
        }
    }

    /// Gives a ticket up: its completion will be counted and dropped. The
    /// entry is not reused before. A ticket that was reported is ignored.
    pub fn forget(&mut self, ticket: Ticket) {
        let index = self.slot_of(ticket);
        match self.state_of(ticket) {
            Some(State::Open) => self.slots().abandon(index),
            Some(State::Done) => {
                self.slots().free(index);
                self.retire();
            }
            _ => {}
        }
    }

    /// State of a ticket's entry; `None` once the entry may belong to another.
    fn state_of(&self, ticket: Ticket) -> Option<State> {
        let oldest = self.ring.oldest()?;
        let ours = (oldest..self.ring.next_sequence()).contains(&ticket.sequence);
        ours.then(|| self.slots().state(self.slot_of(ticket)))
    }

    /// Whether the ticket's command has ended.
    pub(super) fn has_ended(&self, ticket: Ticket) -> Result<bool> {
        match self.state_of(ticket) {
            Some(State::Done) => Ok(true),
            Some(State::Open) => Ok(false),
            _ => Err(Error::UnknownTicket),
        }
    }

    /// Looks once at the source of completions.
    pub(super) fn poll_ccq(&mut self) -> Result<()> {
        if self.ccq.is_some() {
            self.drain_ccq();
            Ok(())
        } else {
            self.poll_registers()
        }
    }

    pub(super) fn wait_on_registers(&mut self, ticket: Ticket, limit: Ns) -> Result<()> {
        let platform = self.platform.clone();
        poll_until(&platform, ticket.op.name(), limit, POLL_PAUSE, || {
            self.poll_registers()?;
            Ok(self.has_ended(ticket)?.then_some(()))
        })
    }

    /// Waits in slices and reads a register between them, because an empty CCQ looks the same for
    /// a slow device and for one that is gone. The limit counts from the last completion of any
    /// command.
    fn wait_on_ccq(&mut self, ticket: Ticket, limit: Ns) -> Result<()> {
        let platform = self.platform.clone();
        let label = ticket.op.name();
        let mut quiet_since = platform.now();
        let mut pause = POLL_PAUSE;
        loop {
            let before = self.completed;
            let slice = if limit < LIVENESS_INTERVAL {
                limit
            } else {
                LIVENESS_INTERVAL
            };
            let ended = poll_until(&platform, label, slice, pause, || {
                self.drain_ccq();
                Ok(self.has_ended(ticket)?.then_some(()))
            });
            match ended {
                Err(Error::Wait(WaitError::Timeout { .. })) => {}
                other => return other,
            }
            // `poll_until` counts its questions anew in each slice.
            pause = LATER_PAUSE;
            live("PFPE_CQPTAIL", PFPE_CQPTAIL.get(&platform))?;
            let now = platform.now();
            if self.completed != before {
                quiet_since = now;
            } else if now - quiet_since >= limit {
                return Err(WaitError::Timeout { label, limit }.into());
            }
        }
    }

    /// Reads CQPTAIL for the one command that may be in flight.
    pub(super) fn poll_registers(&mut self) -> Result<()> {
        match self.read_tail()? {
            Some(Tail::Failed) => self.fail_by_registers(),
            Some(Tail::Moved) => {
                self.complete(Outcome::default());
                Ok(())
            }
            Some(Tail::Still) | None => Ok(()),
        }
    }

    /// What CQPTAIL says about the command that registers are watched for.
    pub(super) fn read_tail(&self) -> Result<Option<Tail>> {
        let Some(waiting) = self.register_wait else {
            return Ok(None);
        };
        let tail = PFPE_CQPTAIL.read(&self.platform);
        live("PFPE_CQPTAIL", tail.get())?;
        // Any change counts (control-path 4.3).
        let moved = tail.read(PFPE_CQPTAIL::WQTAIL) != waiting.tail;
        // CQP_OP_ERR is checked before the tail, unless it was set before this command was
        // posted. Then it belongs to an earlier command, and whether a good command clears it is
        // NITS (op_err). If a command on the CCQ left it there, it says nothing together with a
        // moved tail, unless the codes differ. After a command that failed by registers the undoing
        // is careful: what may be in use stays [inf op_err].
        let error = tail.is_set(PFPE_CQPTAIL::CQP_OP_ERR);
        Ok(Some(match (error, moved, waiting.stale) {
            (true, _, None) => Tail::Failed,
            (true, true, Some(codes)) => {
                let same = codes == error_codes(&self.platform)?;
                if same && self.inherited == Some(codes) {
                    Tail::Moved
                } else {
                    Tail::Failed
                }
            }
            (_, true, _) => Tail::Moved,
            (_, false, _) => Tail::Still,
        }))
    }

    /// Notes the failure of the command in flight with PFPE_CQPERRCODES.
    pub(super) fn fail_by_registers(&mut self) -> Result<()> {
        let (major, minor) = error_codes(&self.platform)?;
        self.complete(Outcome {
            major,
            minor,
            error: true,
            ret_val: 0,
        });
        Ok(())
    }

    /// Takes everything the device has written to the CCQ, at most a ring full.
    pub(super) fn drain_ccq(&mut self) {
        let turns = self.ccq.as_ref().map_or(0, |ccq| ccq.entries);
        for _ in 0..turns {
            let Some(entry) = self.next_ccq_entry() else {
                break;
            };
            let index = self.ring.index_of(self.completed);
            // Completions are in order, so this can only mean the oldest command in flight; the
            // cookie says that the entry is ours at all.
            let fits =
                self.outstanding() > 0 && entry.index == index && entry.cookie == self.cookie;
            if fits {
                self.complete(Outcome {
                    ret_val: entry.ret_val,
                    major: entry.major,
                    minor: entry.minor,
                    error: entry.error,
                });
            } else {
                self.counters.malformed = self.counters.malformed.wrapping_add(1);
                log_warn!(
                    "CCQ entry for WQE {} with cookie {:#x} fits no command (expected WQE {}): skipped",
                    entry.index,
                    entry.cookie,
                    index
                );
            }
        }
    }

    /// Takes one CCQ entry and tells the device that its place is free.
    fn next_ccq_entry(&mut self) -> Option<CcqEntry> {
        let Ccq {
            ring,
            memory,
            shadow,
            ..
        } = self.ccq.as_mut()?;
        let entry = ring.peek(&*memory, &self.platform)?;
        ring.advance(shadow_of(memory, *shadow), &self.platform);
        Some(entry)
    }

    /// Notes the end of the oldest command in flight.
    pub(super) fn complete(&mut self, outcome: Outcome) {
        let index = self.ring.index_of(self.completed);
        let counters = &mut self.counters;
        counters.completed = counters.completed.wrapping_add(1);
        counters.failed = counters.failed.wrapping_add(u64::from(outcome.error));
        let reset = outcome.error && needs_reset(outcome.major, outcome.minor);
        counters.reset_requests = counters.reset_requests.wrapping_add(u64::from(reset));
        self.completed = self.completed.wrapping_add(1);
        self.register_wait = None;
        let op = self.slots().op(index);
        if self.slots().state(index) == State::Abandoned {
            self.counters.late = self.counters.late.wrapping_add(1);
            log_warn!("{} at {} ended after it was given up", op, index);
            self.late.note(self.completed.wrapping_sub(1), outcome);
            self.slots().free(index);
            self.retire();
        } else {
            log_debug!("{} at {} ended, error {}", op, index, outcome.error);
            self.slots().complete(index, outcome);
        }
    }

    /// Gives back the entries at the tail that nobody needs any more.
    fn retire(&mut self) {
        while let Some(oldest) = self.ring.oldest() {
            let free = self.slots().state(self.ring.index_of(oldest)) == State::Free;
            if oldest >= self.completed || !free {
                break;
            }
            self.ring.retire();
        }
    }

    /// Takes the result of a completed command out of its entry.
    fn report(&mut self, sequence: u64) -> Completion {
        let index = self.ring.index_of(sequence);
        let op = self.slots().op(index);
        let outcome = self.slots().outcome(index);
        self.slots().free(index);
        self.retire();
        outcome.completion(Ticket { sequence, op })
    }
}
