//! What differs between two recordings of the same: a clock, a temperature, a counter of the card.

use std::collections::{BTreeMap, BTreeSet};

use e810_card::record::from_hex;
use e810_hal::RegOffset;
use e810_trace::Event;
use e810_trace::record::Descriptor;

use crate::Recording;
use crate::lines::{merged, repeated};
use crate::replay::register;

/// Registers and bytes of replies that have other values in another recording of the same steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Volatile {
    registers: BTreeSet<RegOffset>,
    /// By what a reply is to: bytes of it.
    replies: BTreeMap<Asked, BTreeSet<usize>>,
}

/// What a reply is to: a command of the firmware or of the Control QP, by its opcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Asked {
    Firmware(u16),
    Engine(u8),
}

/// The commands of a kind and their replies, as bytes, in their order.
#[derive(Debug, Default)]
struct Said {
    commands: Vec<Vec<u8>>,
    replies: Vec<Vec<u8>>,
}

/// What one recording has of both.
#[derive(Debug, Default)]
struct Seen {
    /// By register: the values at the end of polls.
    registers: BTreeMap<RegOffset, BTreeSet<u64>>,
    said: BTreeMap<Asked, Said>,
}

impl Seen {
    fn of(recordings: &[Recording]) -> Self {
        let (lines, functions) = merged(recordings);
        let repeated = repeated(&lines, functions);
        let mut seen = Self::default();
        for (line, repeated) in lines.iter().zip(repeated) {
            match line.event {
                Event::Read { offset, value, .. } if !repeated => {
                    if let Some(offset) = register(*offset) {
                        seen.registers.entry(offset).or_default().insert(value.0);
                    }
                }
                event => {
                    if let Some((asked, bytes)) = command(event) {
                        seen.said.entry(asked).or_default().commands.push(bytes);
                    }
                    if let Some((asked, bytes)) = reply(event) {
                        seen.said.entry(asked).or_default().replies.push(bytes);
                    }
                }
            }
        }
        seen
    }
}

/// A descriptor and its buffer.
fn descriptor(found: &Descriptor) -> Option<(Asked, Vec<u8>)> {
    let mut bytes = from_hex(&found.descriptor)?;
    let opcode = bytes.get(2..).and_then(<[u8]>::first_chunk)?;
    let asked = Asked::Firmware(u16::from_le_bytes(*opcode));
    bytes.extend(from_hex(&found.buffer)?);
    Some((asked, bytes))
}

fn command(event: &Event) -> Option<(Asked, Vec<u8>)> {
    match event {
        Event::AdminqCommand(found) => descriptor(found),
        _ => None,
    }
}

fn reply(event: &Event) -> Option<(Asked, Vec<u8>)> {
    match event {
        Event::AdminqReply(found) => descriptor(found),
        Event::CqpReply { header, memory, .. } => {
            let asked = Asked::Engine((header.0 >> 32 & 0x3F) as u8);
            let bytes = memory
                .iter()
                .filter_map(|attached| from_hex(&attached.bytes));
            Some((asked, bytes.flatten().collect()))
        }
        _ => None,
    }
}

impl Volatile {
    /// What differs between `one` and `other`, which are of the same steps. A byte of a reply that the
    /// driver had chosen is none, such as an address.
    #[must_use]
    pub fn between(one: &[Recording], other: &[Recording]) -> Self {
        let (one, other) = (Seen::of(one), Seen::of(other));
        let mut found = Self::default();
        for (register, values) in one.registers {
            if other
                .registers
                .get(&register)
                .is_some_and(|others| *others != values)
            {
                found.registers.insert(register);
            }
        }
        for (asked, said) in one.said {
            let Some(others) = other.said.get(&asked) else {
                continue;
            };
            let differing = |all: &[Vec<u8>], others: &[Vec<u8>]| {
                let pairs = all.iter().zip(others);
                let places = pairs.flat_map(|(bytes, others)| differing(bytes, others));
                places.collect::<BTreeSet<_>>()
            };
            let mut places = differing(&said.replies, &others.replies);
            for chosen in differing(&said.commands, &others.commands) {
                places.remove(&chosen);
            }
            if !places.is_empty() {
                found.replies.insert(asked, places);
            }
        }
        found
    }

    pub(crate) fn has_register(&self, offset: RegOffset) -> bool {
        self.registers.contains(&offset)
    }

    /// Whether two replies differ in such bytes alone.
    pub(crate) fn explains(&self, one: &Event, other: &Event) -> bool {
        let (Some((asked, one)), Some((_, other))) = (reply(one), reply(other)) else {
            return false;
        };
        let places = self.replies.get(&asked);
        places.is_some_and(|places| differing(&one, &other).all(|place| places.contains(&place)))
    }
}

/// Where two rows of bytes differ; if one is longer, there, too.
fn differing(one: &[u8], other: &[u8]) -> impl Iterator<Item = usize> {
    let longer = one.len().max(other.len());
    (0..longer).filter(|at| one.get(*at) != other.get(*at))
}

#[cfg(test)]
mod tests {
    use e810_trace::Trace;
    use e810_trace::record::{Hex, Record};

    use super::*;

    fn recordings(events: Vec<Event>) -> Vec<Recording> {
        let record = |(ns, event)| Record {
            ns,
            device: 0,
            event,
        };
        let records = (1..).zip(events).map(record).collect();
        vec![Recording {
            name: String::new(),
            trace: Trace {
                records,
                unknown: 0,
                is_cut: false,
            },
        }]
    }

    fn read(offset: u64, value: u64) -> Event {
        Event::Read {
            register: String::new(),
            offset: Hex(offset),
            value: Hex(value),
        }
    }

    /// A reply, whose opcode is 0x0A01 and which has these bytes behind it.
    fn said(bytes: &str) -> Descriptor {
        Descriptor {
            index: 0,
            descriptor: format!("0000010a{bytes}"),
            buffer: String::new(),
        }
    }

    #[test]
    fn what_differs_is_left_out_and_nothing_else() {
        let clock = |now| recordings(vec![read(8, now), read(12, 5), read(8, now + 1)]);
        let found = Volatile::between(&clock(70), &clock(90));
        let has = |offset| found.has_register(RegOffset::try_new(offset).unwrap());
        assert_eq!([has(8), has(12), has(16)], [true, false, false]);
        // A value in between that one of them did not see is of a poll.
        let one = recordings(vec![read(8, 1), read(8, 0), read(12, 0)]);
        let other = recordings(vec![read(8, 0), read(12, 0)]);
        assert_eq!(Volatile::between(&one, &other), Volatile::default());
    }

    #[test]
    fn bytes_of_a_reply_are_volatile_unless_the_driver_chose_them() {
        let asked = |command: &str, reply: &str| {
            let (command, reply) = (said(command), said(reply));
            recordings(vec![
                Event::AdminqCommand(command),
                Event::AdminqReply(reply),
            ])
        };
        // The second byte is an address of the driver, and the third one a temperature.
        let found = Volatile::between(&asked("001100", "a01130"), &asked("002200", "a02231"));
        let explains = |one: &str, other: &str| {
            let reply = |bytes| Event::AdminqReply(said(bytes));
            found.explains(&reply(one), &reply(other))
        };
        assert!(explains("a01130", "a01144"));
        assert!(!explains("a01130", "a01230"));
        assert!(!explains("a01130", "a11130"));
        assert!(!explains("a01130", "a0113000"), "one byte more");
        assert!(!Volatile::default().explains(
            &Event::AdminqReply(said("00")),
            &Event::AdminqReply(said("01"))
        ));
    }
}
