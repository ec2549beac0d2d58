//! Second tries of commands that were given up, because their answers did not come in time.
//!
//! Such a command may have been carried out since. The device then refuses a second one: the
//! object to destroy is gone, or the object to add exists. The refusal's code does not tell this
//! from other reasons. So nothing is posted a second time before the first answer is there: the
//! doorbell is rung again, and the driver waits for the first command.

use e810_hal::Platform;
use heapless::Deque;

use super::Cqp;
use crate::error::Result;
use crate::limits::LATE_ANSWERS;
use crate::op::{Command, HEADER, opcode_of};
use crate::opcode::Opcode;
use crate::ring::ring_doorbell;
use crate::slots::Outcome;
use crate::ticket::{Completion, Ticket};

/// Commands that were given up, with the ends of those that have ended since.
#[derive(Debug, Default)]
pub(super) struct Late(Deque<GivenUp, LATE_ANSWERS>);

#[derive(Debug)]
struct GivenUp {
    ticket: Ticket,
    subject: u64,
    ended: Option<Outcome>,
}

impl Late {
    /// 64-bit words.
    pub(super) const WORDS: usize = size_of::<Self>().div_ceil(8);

    fn push(&mut self, ticket: Ticket, subject: u64) {
        self.put(GivenUp {
            ticket,
            subject,
            ended: None,
        });
    }

    fn put(&mut self, one: GivenUp) {
        if self.0.is_full() {
            self.forget_one();
        }
        // There is room.
        let _ = self.0.push_back(one);
    }

    /// Forgets the oldest command that makes no queue pair, if there is one.
    fn forget_one(&mut self) {
        let mut all = self.0.iter();
        let place = all.position(|one| one.ticket.op != Opcode::CreateQp);
        let place = place.unwrap_or(0);
        // One full turn, so that the others keep their order.
        for index in 0..self.0.len() {
            let one = self.0.pop_front();
            if index != place {
                // It was taken from there.
                let _ = one.map(|one| self.0.push_back(one));
            }
        }
    }

    /// Notes how a given-up command ended.
    pub(super) fn note(&mut self, sequence: u64, outcome: Outcome) {
        let mut all = self.0.iter_mut();
        if let Some(one) = all.find(|one| one.ticket.sequence == sequence) {
            one.ended = Some(outcome);
        }
    }

    fn has(&self, op: Opcode, subject: u64) -> bool {
        let mut all = self.0.iter();
        all.any(|one| one.ticket.op == op && one.subject == subject)
    }

    /// A given-up command for the subject, with its end if that has come.
    fn take(&mut self, op: Opcode, subject: u64) -> Option<(Ticket, Option<Outcome>)> {
        let mut found = None;
        // One full turn, so that the others keep their order.
        for _ in 0..self.0.len() {
            match self.0.pop_front() {
                Some(one) if found.is_none() && one.ticket.op == op && one.subject == subject => {
                    found = Some((one.ticket, one.ended));
                }
                Some(one) => self.put(one),
                None => break,
            }
        }
        found
    }
}

impl<P: Platform> Cqp<P> {
    /// As [`Cqp::execute`], for a command that makes or ends the object `subject` and is tried
    /// again after an error. `subject` is the object's number, with whatever else tells it from
    /// other subjects of this opcode. While an earlier call's command is open, this waits for
    /// that command; if it has worked in the end, its completion is returned.
    ///
    /// # Errors
    /// As [`Cqp::execute`].
    pub fn execute_again(&mut self, command: &dyn Command, subject: u64) -> Result<Completion> {
        let wqe = command.encode()?;
        let op = opcode_of(wqe[HEADER]);
        while let Some(ended) = self.late_end(op, subject, true)? {
            if let Ok(done) = ended {
                return Ok(done);
            }
        }
        let ticket = self.submit(command)?;
        self.wait_for(ticket, subject)
    }

    /// How a command of `op` for `subject` ended that an earlier call has given up. `None` if
    /// none is remembered, or, without `wait`, while it has not ended. Each end is returned once.
    ///
    /// # Errors
    /// [`Error::Wait`](crate::Error::Wait): it did not end in the time of a command, or a register
    /// shows that the device is gone.
    pub fn late_end(
        &mut self,
        op: Opcode,
        subject: u64,
        wait: bool,
    ) -> Result<Option<Result<Completion>>> {
        self.poll_ccq()?;
        let Some((ticket, ended)) = self.late.take(op, subject) else {
            return Ok(None);
        };
        if let Some(outcome) = ended {
            return Ok(Some(outcome.completion(ticket).check()));
        }
        if !wait {
            self.late.push(ticket, subject);
            return Ok(None);
        }
        self.slots().open(self.slot_of(ticket), op);
        // It may have been missed.
        ring_doorbell(&self.platform, &self.platform, self.ring.head());
        match self.wait_for(ticket, subject) {
            Err(error) if error.leaves_command_open() => Err(error),
            ended => Ok(Some(ended)),
        }
    }

    /// Whether a given-up command of `op` for `subject` is remembered and its end was not
    /// returned yet. False if later commands have taken its place.
    #[must_use]
    pub fn remembers(&self, op: Opcode, subject: u64) -> bool {
        self.late.has(op, subject)
    }

    /// Waits for a command, and keeps its ticket if it does not end.
    pub(super) fn wait_for(&mut self, ticket: Ticket, subject: u64) -> Result<Completion> {
        let ended = self.wait(ticket);
        if ended.is_err_and(|error| error.leaves_command_open()) {
            self.late.push(ticket, subject);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creations_are_remembered_before_others() {
        let mut late = Late::default();
        for (sequence, op) in (0..).zip([Opcode::ManageArp, Opcode::CreateQp]) {
            late.push(Ticket { sequence, op }, sequence);
        }
        for sequence in 2..=LATE_ANSWERS as u64 {
            let op = Opcode::DeallocStag;
            late.push(Ticket { sequence, op }, sequence);
        }
        assert!(!late.has(Opcode::ManageArp, 0));
        assert!(late.has(Opcode::CreateQp, 1));
        let op = Opcode::DeallocStag;
        late.push(Ticket { sequence: 0, op }, 0);
        assert!(late.has(Opcode::CreateQp, 1));
        assert!(!late.has(op, 2) && late.has(op, 3) && late.has(op, 0));
    }
}
