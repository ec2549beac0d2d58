//! State of each entry of the CQP's send queue.
//!
//! Two words an entry, in memory the device does not see. The functions work on
//! plain words, so there is one copy of them whatever the platform.

use core::sync::atomic::{AtomicU64, Ordering};

use tock_registers::register_bitfields;

use crate::opcode::Opcode;
use crate::ticket::{Completion, Ticket};

register_bitfields![u64,
    Slot [
        STATE OFFSET(0) NUMBITS(2) [ Free = 0, Open = 1, Done = 2, Abandoned = 3 ],
        OPCODE OFFSET(8) NUMBITS(6) [],
        ERROR OFFSET(14) NUMBITS(1) [],
        MINOR OFFSET(16) NUMBITS(16) [],
        MAJOR OFFSET(32) NUMBITS(16) []
    ]
];

/// Words an entry takes.
pub(crate) const SLOT_WORDS: usize = 2;

/// State of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not in use, or reported and ready for reuse.
    Free,
    /// Posted, and its ticket is held.
    Open,
    /// Completed, not yet reported.
    Done,
    /// Posted, and its ticket was given up or timed out: the entry is not
    /// reused before its completion comes.
    Abandoned,
}

/// The result of a command, as the device gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) ret_val: u32,
    pub(crate) major: u16,
    pub(crate) minor: u16,
    pub(crate) error: bool,
}

impl Outcome {
    pub(crate) const fn completion(self, ticket: Ticket) -> Completion {
        Completion {
            ticket,
            op: ticket.op,
            ret_val: self.ret_val,
            major: self.major,
            minor: self.minor,
            error: self.error,
        }
    }
}

/// A view of the table.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a>(pub(crate) &'a [AtomicU64]);

impl Slots<'_> {
    fn words(&self, index: u32) -> Option<&[AtomicU64; SLOT_WORDS]> {
        let start = (index as usize).checked_mul(SLOT_WORDS)?;
        self.0.get(start..)?.first_chunk()
    }

    fn first(&self, index: u32) -> u64 {
        // The table is only touched through `&mut Cqp`: relaxed is enough.
        self.words(index)
            .map_or(0, |[first, _]| first.load(Ordering::Relaxed))
    }

    fn store(&self, index: u32, first: u64, second: u64) {
        if let Some([a, b]) = self.words(index) {
            a.store(first, Ordering::Relaxed);
            b.store(second, Ordering::Relaxed);
        }
    }

    pub(crate) fn state(&self, index: u32) -> State {
        match Slot::STATE.read(self.first(index)) {
            1 => State::Open,
            2 => State::Done,
            3 => State::Abandoned,
            _ => State::Free,
        }
    }

    pub(crate) fn op(&self, index: u32) -> Opcode {
        Opcode::from_code(Slot::OPCODE.read(self.first(index)) as u8)
    }

    pub(crate) fn open(&self, index: u32, op: Opcode) {
        let first = Slot::STATE::Open + Slot::OPCODE.val(u64::from(op.code()));
        self.store(index, first.value, 0);
    }

    pub(crate) fn abandon(&self, index: u32) {
        let first = Slot::STATE::Abandoned.modify(self.first(index));
        self.store(index, first, 0);
    }

    pub(crate) fn free(&self, index: u32) {
        self.store(index, 0, 0);
    }

    pub(crate) fn complete(&self, index: u32, outcome: Outcome) {
        let first = Slot::STATE::Done
            + Slot::OPCODE.val(u64::from(self.op(index).code()))
            + Slot::ERROR.val(u64::from(outcome.error))
            + Slot::MINOR.val(u64::from(outcome.minor))
            + Slot::MAJOR.val(u64::from(outcome.major));
        self.store(index, first.value, u64::from(outcome.ret_val));
    }

    pub(crate) fn outcome(&self, index: u32) -> Outcome {
        let Some([first, second]) = self.words(index) else {
            return Outcome::default();
        };
        let first = first.load(Ordering::Relaxed);
        // Each field is as wide as the type it goes to.
        Outcome {
            ret_val: second.load(Ordering::Relaxed) as u32,
            major: Slot::MAJOR.read(first) as u16,
            minor: Slot::MINOR.read(first) as u16,
            error: Slot::ERROR.is_set(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_remembers_its_command_and_result() {
        let words: [AtomicU64; 8] = Default::default();
        let slots = Slots(&words);
        slots.open(3, Opcode::GatherStats);
        assert_eq!(slots.state(3), State::Open);
        assert_eq!(slots.state(2), State::Free);
        slots.abandon(3);
        assert_eq!(
            (slots.state(3), slots.op(3)),
            (State::Abandoned, Opcode::GatherStats)
        );
        let outcome = Outcome {
            ret_val: u32::MAX,
            major: 0xF001,
            minor: 0x8006,
            error: true,
        };
        slots.complete(3, outcome);
        assert_eq!(
            (slots.state(3), slots.op(3)),
            (State::Done, Opcode::GatherStats)
        );
        assert_eq!(slots.outcome(3), outcome);
        slots.free(3);
        assert_eq!(slots.state(3), State::Free);
        // Outside the table nothing happens.
        slots.open(4, Opcode::CreateQp);
        assert_eq!(slots.state(4), State::Free);
        assert_eq!(slots.outcome(4), Outcome::default());
    }
}
