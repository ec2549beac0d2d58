//! Where the firmware's two queues are, and how far, by what a driver writes to their registers
//! (control-path 9.1).

use e810_hal::RegOffset;
use e810_hal::regs::{
    PF_FW_ARQBAH, PF_FW_ARQBAL, PF_FW_ARQH, PF_FW_ARQLEN, PF_FW_ARQT, PF_FW_ATQBAH, PF_FW_ATQBAL,
    PF_FW_ATQH, PF_FW_ATQLEN, PF_FW_ATQT,
};

/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 32;
/// Entries of a queue, from its length register.
const LENGTH: u32 = 0x3FF;
/// The queue is on, in the same register.
const ENABLE: u32 = 1 << 31;

/// One of the two queues.
#[derive(Debug, Default)]
pub struct AdminqRing {
    base: u64,
    entries: u32,
    /// The next entry that the driver has to send, or that an event will be in.
    next: u32,
    /// The next entry that the firmware has to answer.
    answered: u32,
}

impl AdminqRing {
    fn set_base_low(&mut self, value: u32) {
        self.base = self.base & !0xFFFF_FFFF | u64::from(value);
    }

    fn set_base_high(&mut self, value: u32) {
        self.base = self.base & 0xFFFF_FFFF | u64::from(value) << 32;
    }

    fn set_length(&mut self, value: u32) {
        let entries = if value & ENABLE == 0 {
            0
        } else {
            value & LENGTH
        };
        *self = Self {
            base: self.base,
            entries,
            ..Self::default()
        };
    }

    /// Where the device sees the descriptor at `index`.
    pub fn at(&self, index: u32) -> Option<u64> {
        self.base.checked_add(u64::from(index) * DESCRIPTOR)
    }

    /// Commands that the firmware has to answer.
    fn open(&self) -> u32 {
        self.distance(self.answered, self.next)
    }

    /// The first command that the firmware has to answer, if there is one.
    pub fn first_open(&self) -> Option<u32> {
        (self.open() > 0).then_some(self.answered)
    }

    /// That one is answered.
    pub fn answer_first(&mut self) {
        self.answered = self.behind(self.answered);
    }

    /// The entry for the next event, unless the queue is off.
    pub fn next_event(&self) -> Option<u32> {
        (self.entries > 0).then_some(self.next)
    }

    /// It has come.
    pub fn event_came(&mut self) {
        self.next = self.behind(self.next);
    }

    fn behind(&self, index: u32) -> u32 {
        // A driver may have written any head.
        let next = index.wrapping_add(1);
        next.checked_rem(self.entries).unwrap_or(0)
    }

    /// Entries from `from` to before `to`; 0 if one of them is none.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        if from >= self.entries || to >= self.entries {
            return 0;
        }
        (to + self.entries - from) % self.entries
    }

    /// The entries from `from` to before `to`; none if one of them is none.
    pub fn between(&self, mut from: u32, to: u32) -> impl Iterator<Item = u32> + use<> {
        between(&mut from, to, self.entries)
    }

    /// The entries that the firmware has answered when its head is `head`; none if that is an
    /// earlier one than is known.
    pub fn answered_to(&mut self, head: u32) -> impl Iterator<Item = u32> + use<> {
        let is_earlier = self.distance(self.answered, head) > self.open();
        let head = if is_earlier { self.answered } else { head };
        between(&mut self.answered, head, self.entries)
    }

    /// The entries that have events when the firmware's head is `head` and it may use those up to
    /// before `tail`; none if that head is an earlier one than is known.
    pub fn events_to(&mut self, head: u32, tail: u32) -> impl Iterator<Item = u32> + use<> {
        let is_earlier = self.distance(self.next, head) > self.distance(self.next, tail);
        let head = if is_earlier { self.next } else { head };
        between(&mut self.next, head, self.entries)
    }
}

/// The indexes from `from` to before `to`, which is then `from`. An index that no entry has, as
/// that of a device that is gone, means the first.
fn between(from: &mut u32, to: u32, entries: u32) -> impl Iterator<Item = u32> + use<> {
    let (mut index, to) = if to < entries && *from < entries {
        (*from, to)
    } else {
        (0, 0)
    };
    *from = to;
    std::iter::from_fn(move || {
        let this = index;
        if this == to {
            return None;
        }
        index = (index + 1) % entries;
        Some(this)
    })
}

/// What a register write does to the queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// Nothing that is known here.
    Nothing,
    /// The driver sends the commands at these indexes; before so many of the places were taken, no
    /// answer was seen there.
    Sent {
        /// In their order.
        indexes: Vec<u32>,
        unanswered: u32,
    },
    /// The driver gives the entries for events up to before this one.
    Posted(u32),
    /// The driver sets the queue of events up, or takes it down.
    SetUp,
}

/// Both queues.
#[derive(Debug, Default)]
pub struct AdminqRings {
    /// Commands and their answers.
    pub commands: AdminqRing,
    /// The firmware's events.
    pub events: AdminqRing,
}

impl AdminqRings {
    /// The driver is about to write a register.
    pub fn write(&mut self, offset: RegOffset, value: u32) -> Written {
        let Self { commands, events } = self;
        match offset {
            at if at == PF_FW_ATQBAL.off() => commands.set_base_low(value),
            at if at == PF_FW_ATQBAH.off() => commands.set_base_high(value),
            at if at == PF_FW_ATQLEN.off() => commands.set_length(value),
            at if at == PF_FW_ARQBAL.off() => events.set_base_low(value),
            at if at == PF_FW_ARQBAH.off() => events.set_base_high(value),
            at if at == PF_FW_ARQLEN.off() => {
                events.set_length(value);
                return Written::SetUp;
            }
            // A driver that takes the queue down sets head and tail to 0 while it is on.
            at if at == PF_FW_ATQH.off() => {
                commands.next = value;
                commands.answered = value;
            }
            at if at == PF_FW_ARQH.off() => {
                events.next = value;
                return Written::SetUp;
            }
            at if at == PF_FW_ARQT.off() => return Written::Posted(value),
            at if at == PF_FW_ATQT.off() => {
                let mut open = commands.open();
                let sent = between(&mut commands.next, value, commands.entries);
                let indexes: Vec<u32> = sent.collect();
                let mut unanswered = 0;
                for _ in &indexes {
                    open += 1;
                    if open >= commands.entries {
                        commands.answer_first();
                        unanswered += 1;
                        open -= 1;
                    }
                }
                return Written::Sent {
                    indexes,
                    unanswered,
                };
            }
            _ => {}
        }
        Written::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_wrap_and_nonsense_is_passed_over() {
        let mut from = 6;
        assert_eq!(between(&mut from, 1, 8).collect::<Vec<_>>(), [6, 7, 0]);
        assert_eq!(from, 1);
        assert_eq!(between(&mut from, 1, 8).count(), 0);
        // All-ones of a device that is gone, and a queue that is off.
        assert_eq!(between(&mut from, u32::MAX, 8).count(), 0);
        assert_eq!(from, 0);
        assert_eq!(between(&mut from, 1, 0).count(), 0);
    }

    #[test]
    fn a_head_that_no_queue_has_means_that_nothing_is_open() {
        let mut rings = AdminqRings::default();
        rings.write(PF_FW_ATQLEN.off(), ENABLE | 4);
        rings.write(PF_FW_ARQLEN.off(), ENABLE | 4);
        for head in [PF_FW_ATQH.off(), PF_FW_ARQH.off()] {
            rings.write(head, u32::MAX);
        }
        assert_eq!(rings.commands.first_open(), None);
        rings.commands.answer_first();
        rings.events.event_came();
        assert_eq!((rings.commands.answered, rings.events.next), (0, 0));
    }

    #[test]
    fn commands_in_places_whose_answer_was_not_seen_are_counted() {
        let mut rings = AdminqRings::default();
        rings.write(PF_FW_ATQLEN.off(), ENABLE | 4);
        let mut sent = |tail| rings.write(PF_FW_ATQT.off(), tail);
        for (tail, indexes, unanswered) in [(2, vec![0, 1], 0), (3, vec![2], 0), (1, vec![3, 0], 2)]
        {
            let expected = Written::Sent {
                indexes,
                unanswered,
            };
            assert_eq!(sent(tail), expected, "{tail}");
        }
        assert_eq!(rings.commands.first_open(), Some(2));
        rings.write(PF_FW_ATQLEN.off(), 0);
        assert_eq!(rings.commands.first_open(), None);
        let nothing = Written::Sent {
            indexes: Vec::new(),
            unanswered: 0,
        };
        assert_eq!(rings.write(PF_FW_ATQT.off(), 3), nothing);
    }
}
