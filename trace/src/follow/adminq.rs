//! What passes between driver and firmware: commands and answers (ATQ), events (ARQ); control-path
//! 9.1.

use e810_backends::observed::DeviceMemory;
use e810_card::record::{from_hex, hex, words_from_hex};
use e810_hal::RegOffset;
use e810_hal::regs::{PF_FW_ARQH, PF_FW_ATQH};

use super::{memory_line, words};
use crate::adminq_rings::{AdminqRing, AdminqRings, Written};
use crate::record::{Descriptor, Event, Hex};

/// 64-bit words of a descriptor.
const WORDS: usize = 4;
/// The firmware is done with the descriptor (flags of control-path 9.2).
const DD: u16 = 1;
/// The descriptor has a buffer.
const BUF: u16 = 1 << 12;
/// The firmware reads the buffer.
const RD: u16 = 1 << 10;
/// Most bytes of a buffer.
const MOST_BUFFER: usize = 4096;

/// The descriptor at `index`; `when` says by its flags whether its buffer means something.
fn descriptor(
    ring: &AdminqRing,
    memory: &DeviceMemory,
    index: u32,
    when: impl Fn(u16) -> bool,
) -> Option<Descriptor> {
    let found = words(memory, ring.at(index)?, WORDS);
    let [first, _, _, last] = *found.as_slice() else {
        return None;
    };
    let flags = first as u16;
    let length = usize::from((first >> 32) as u16).min(MOST_BUFFER);
    let mut buffer = Vec::new();
    if flags & BUF != 0 && when(flags) {
        // The high half comes first.
        let address = last.rotate_left(32);
        let found = words(memory, address, length.div_ceil(8));
        buffer.extend(found.iter().flat_map(|word| word.to_le_bytes()));
        buffer.truncate(length);
    }
    let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
    Some(Descriptor {
        index,
        descriptor: hex(&bytes),
        buffer: hex(&buffer),
    })
}

/// A descriptor that the driver gives for an event.
fn line(ring: &AdminqRing, memory: &DeviceMemory, index: u32) -> Option<Event> {
    let at = ring.at(index)?;
    Some(memory_line(at, &words(memory, at, WORDS)))
}

/// Whether the firmware is done with the descriptor at `index`.
fn is_done(ring: &AdminqRing, memory: &DeviceMemory, index: u32) -> bool {
    let first = ring.at(index).map(|at| words(memory, at, 1));
    let first = first.and_then(|found| found.first().copied());
    first.is_some_and(|first| first as u16 & DD != 0)
}

/// What passes between driver and firmware.
#[derive(Debug, Default)]
pub(crate) struct AdminqFollower {
    rings: AdminqRings,
    /// The last entry for events that the driver has given, and events seen since.
    posted: Option<u32>,
    since: u32,
}

impl AdminqFollower {
    /// The driver is about to write a register.
    pub(crate) fn write(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> Vec<Event> {
        match self.rings.write(offset, value) {
            Written::Nothing => Vec::new(),
            Written::SetUp => {
                self.posted = None;
                Vec::new()
            }
            Written::Sent {
                indexes,
                unanswered,
            } => {
                let mut events = Vec::new();
                events.extend(not_seen("AdminQ replies", unanswered));
                // Without RD the buffer is for the answer.
                let is_read = |flags| flags & RD != 0;
                let ring = &self.rings.commands;
                let sent = indexes.into_iter();
                for found in sent.filter_map(|at| descriptor(ring, memory, at, is_read)) {
                    let stale = Self::stale(memory, &found);
                    events.push(Event::AdminqCommand(found));
                    events.extend(stale);
                }
                events
            }
            Written::Posted(tail) => {
                let ring = &mut self.rings.events;
                let since = std::mem::take(&mut self.since);
                let before = self.posted.replace(tail);
                // What the driver gives now.
                let given = ring.between(before.unwrap_or(0), tail);
                let given: Vec<Event> = given.filter_map(|at| line(ring, memory, at)).collect();
                // A driver gives an entry back when it has taken the event. The first are empty.
                let taken = before.map_or(0, |before| ring.distance(before, tail));
                let lost = taken.saturating_sub(since);
                (0..lost).for_each(|_| ring.event_came());
                not_seen("AdminQ events", lost)
                    .into_iter()
                    .chain(given)
                    .collect()
            }
        }
    }

    /// The buffer that the firmware gets by a command for its answer: address and zeros.
    pub(crate) fn given_by(found: &Descriptor) -> Vec<(u64, Vec<u8>)> {
        let words = words_from_hex(&found.descriptor).unwrap_or_default();
        let &[first, _, _, last] = words.as_slice() else {
            return Vec::new();
        };
        let flags = first as u16;
        let length = usize::from((first >> 32) as u16).min(MOST_BUFFER);
        match flags & (BUF | RD) {
            BUF => vec![(last.rotate_left(32), vec![0; length])],
            _ => Vec::new(),
        }
    }

    /// What stands in the buffer that the firmware gets by a command, if it is not zeros.
    fn stale(memory: &DeviceMemory, found: &Descriptor) -> Option<Event> {
        let (at, zeros) = Self::given_by(found).pop()?;
        let there = words(memory, at, zeros.len().div_ceil(8));
        let mut bytes: Vec<u8> = there.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(zeros.len());
        bytes.iter().any(|byte| *byte != 0).then(|| Event::Memory {
            at: Hex(at),
            bytes: hex(&bytes),
        })
    }

    /// Where the driver has put a command and its buffer.
    pub(crate) fn parts(&self, found: &Descriptor) -> Option<Vec<(u64, Vec<u8>)>> {
        let at = self.rings.commands.at(found.index)?;
        let descriptor = from_hex(&found.descriptor)?;
        let [.., last] = *words_from_hex(&found.descriptor)?.first_chunk::<WORDS>()?;
        let buffer = from_hex(&found.buffer)?;
        Some(vec![(last.rotate_left(32), buffer), (at, descriptor)])
    }

    /// The driver has read a register.
    pub(crate) fn read(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> Vec<Event> {
        let always = |_| true;
        let AdminqRings { commands, events } = &mut self.rings;
        if offset == PF_FW_ATQH.off() {
            let answered = commands.answered_to(value);
            let answered = answered.filter_map(|at| descriptor(commands, memory, at, always));
            answered.map(Event::AdminqReply).collect()
        } else if offset == PF_FW_ARQH.off() {
            let found = events.events_to(value, self.posted.unwrap_or(value));
            let found = found.filter_map(|at| descriptor(events, memory, at, always));
            let found: Vec<Event> = found.map(Event::AdminqEvent).collect();
            self.since += found.len() as u32;
            found
        } else {
            Vec::new()
        }
    }

    /// Answers and events that the firmware has marked as done, which the driver may find without
    /// reading a register.
    pub(crate) fn look(&mut self, memory: &DeviceMemory) -> Vec<Event> {
        let always = |_| true;
        let AdminqRings { commands, events } = &mut self.rings;
        let mut found = Vec::new();
        while let Some(index) = commands.first_open() {
            if !is_done(commands, memory, index) {
                break;
            }
            let answered = descriptor(commands, memory, index, always);
            found.extend(answered.map(Event::AdminqReply));
            commands.answer_first();
        }
        // No more than the queue has: nobody clears them meanwhile.
        let mut first = None;
        // A driver may turn the queue on before it says where it is: what stands at address 0 is no
        // event. There is none before a descriptor for it.
        while let Some(index) = events.next_event().filter(|_| self.posted.is_some()) {
            if first == Some(index) || !is_done(events, memory, index) {
                break;
            }
            first.get_or_insert(index);
            let came = descriptor(events, memory, index, always);
            found.extend(came.map(Event::AdminqEvent));
            events.event_came();
            self.since += 1;
        }
        found
    }
}

fn not_seen(what: &str, entries: u32) -> Option<Event> {
    (entries > 0).then(|| Event::NotSeen {
        what: what.to_owned(),
        number: 0,
        entries: entries.into(),
    })
}
