//! The LAN queues: descriptors that the driver posts, and those that the device has written back
//! (lan-path 2 to 5).

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;
use e810_card::record::{from_hex, words_to_hex};
use e810_hal::regs::find;
use e810_hal::{Iova, RegOffset};

use super::bits;
use super::place::Place;
use crate::record::{Descriptor, Event, WorkQueue};

/// Opcodes of the firmware (lan-path 3.1, 3.2).
const ADD_TX: u16 = 0x0C30;
const DISABLE_TX: u16 = 0x0C31;
/// Units of a ring's address in both contexts.
const BASE_UNIT: u64 = 128;
/// Most queues of a function.
const MOST_QUEUES: usize = 4096;
/// Descriptors behind the last one that is written back, in which another one is looked for: drivers
/// have a report for at least so many.
const FAR: u32 = 64;

/// A ring, and how far it was followed.
#[derive(Debug)]
struct Ring {
    queue: WorkQueue,
    place: Place,
    entries: u32,
    /// The index behind the last one that was posted.
    tail: u32,
    /// The next one that the device will write back.
    next: u32,
}

impl Ring {
    const fn words(&self) -> usize {
        match self.queue {
            WorkQueue::Send => 2,
            WorkQueue::Receive => 4,
        }
    }

    fn descriptor(&self, memory: &DeviceMemory, index: u32) -> Vec<u64> {
        let words = self.words();
        let at = u64::from(index) * words as u64 * 8;
        self.place.words(memory, at, words)
    }

    fn behind(&self, index: u32) -> u32 {
        (index + 1).checked_rem(self.entries).unwrap_or(0)
    }

    /// Descriptors that the device has.
    fn open(&self) -> u32 {
        let ahead = self.tail + self.entries - self.next;
        ahead.checked_rem(self.entries).unwrap_or(0)
    }

    /// The driver posts descriptors up to before `tail`.
    fn post(&mut self, memory: &DeviceMemory, number: u32, tail: u32, into: &mut Vec<Event>) {
        if tail >= self.entries {
            return;
        }
        let mut lost = 0;
        while self.tail != tail {
            let bytes = words_to_hex(&self.descriptor(memory, self.tail));
            into.push(Event::LanPosted {
                queue: self.queue,
                number,
                index: self.tail,
                bytes,
            });
            self.tail = self.behind(self.tail);
            if self.tail == self.next {
                self.next = self.behind(self.next);
                lost += 1;
            }
        }
        if lost > 0 {
            into.push(self.not_seen(number, lost));
        }
    }

    /// Whether the device has written the descriptor back.
    fn is_done(&self, found: &[u64]) -> bool {
        let second = found.get(1).copied().unwrap_or(0);
        match self.queue {
            // Type 15.
            WorkQueue::Send => bits(second, 3, 0) == 15,
            // DD.
            WorkQueue::Receive => bits(second, 0, 0) == 1,
        }
    }

    fn look(&mut self, memory: &DeviceMemory, number: u32, into: &mut Vec<Event>) {
        let (mut index, mut left, mut unseen) = (self.next, self.open(), 0);
        while left > 0 && unseen < FAR {
            let found = self.descriptor(memory, index);
            if self.is_done(&found) {
                // Not each one sent is written back, but each one received: the driver has taken
                // those before, and has cleared them.
                if self.queue == WorkQueue::Receive && unseen > 0 {
                    into.push(self.not_seen(number, unseen.into()));
                }
                into.push(Event::LanWritten {
                    queue: self.queue,
                    number,
                    index,
                    bytes: words_to_hex(&found),
                });
                self.next = self.behind(index);
                unseen = 0;
            } else {
                unseen += 1;
            }
            index = self.behind(index);
            left -= 1;
        }
    }

    fn not_seen(&self, number: u32, entries: u64) -> Event {
        Event::NotSeen {
            what: format!("LAN {}", self.queue.name()),
            number,
            entries,
        }
    }
}

/// What a driver has programmed for a receive queue.
#[derive(Debug, Default)]
struct Receive {
    context: [u32; 8],
    tail: u32,
}

impl Receive {
    /// The ring of the context; `None` if it has none that can be followed.
    fn ring(&self) -> Option<Ring> {
        let [_, base_low, third, fourth, ..] = self.context.map(u64::from);
        // Bits 32 to 127 of the context: the base begins at its bit 32, the length at bit 89.
        let base = third << 32 | base_low;
        let rest = fourth << 32 | third;
        // Nobody uses descriptors of 16 bytes (bit 116).
        (bits(rest, 52, 52) == 1).then(|| Ring {
            queue: WorkQueue::Receive,
            place: Place::Piece(bits(base, 56, 0) * BASE_UNIT),
            entries: bits(rest, 37, 25) as u32,
            tail: 0,
            next: 0,
        })
    }
}

/// The LAN queues of a function.
#[derive(Debug, Default)]
pub(crate) struct LanFollower {
    sends: BTreeMap<u32, Ring>,
    receives: BTreeMap<u32, Ring>,
    programmed: BTreeMap<u32, Receive>,
}

impl LanFollower {
    /// A reset of the function: no queue is on. Contexts survive it.
    pub(crate) fn reset(&mut self) {
        self.sends.clear();
        self.receives.clear();
    }

    /// The driver sends a command, or finds its answer.
    pub(crate) fn firmware(&mut self, found: &Descriptor, is_answer: bool) {
        let Some(descriptor) = from_hex(&found.descriptor) else {
            return;
        };
        let opcode = descriptor.get(2..4).and_then(<[u8]>::first_chunk);
        let opcode = opcode.map(|bytes| u16::from_le_bytes(*bytes));
        let buffer = from_hex(&found.buffer).unwrap_or_default();
        match (opcode, is_answer) {
            (Some(ADD_TX), false) => self.add(&buffer),
            (Some(DISABLE_TX), true) => self.disable(&buffer),
            _ => {}
        }
    }

    /// Where the driver has put a descriptor. A receive queue may not be on yet.
    pub(crate) fn parts(
        &self,
        queue: WorkQueue,
        number: u32,
        index: u32,
        bytes: &str,
    ) -> Option<Vec<(u64, Vec<u8>)>> {
        let bytes = from_hex(bytes)?;
        let parts = |ring: &Ring| {
            ring.place
                .parts(u64::from(index) * ring.words() as u64 * 8, &bytes)
        };
        match queue {
            WorkQueue::Send => self.sends.get(&number).map(parts),
            WorkQueue::Receive => {
                let programmed = || self.programmed.get(&number)?.ring().as_ref().map(parts);
                self.receives.get(&number).map(parts).or_else(programmed)
            }
        }
    }

    /// Groups of a parent's TEID, the number of their queues, and these.
    fn add(&mut self, mut buffer: &[u8]) {
        const GROUP: usize = 8;
        const QUEUE: usize = 48;
        while let Some((group, rest)) = buffer.split_first_chunk::<GROUP>() {
            buffer = rest;
            for _ in 0..group[4] {
                let Some((queue, rest)) = buffer.split_first_chunk::<QUEUE>() else {
                    return;
                };
                buffer = rest;
                let word = |at: usize| {
                    let bytes = queue.get(at..).and_then(<[u8]>::first_chunk);
                    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
                };
                // The context begins at byte 8; the length at its bit 135.
                let (number, base, last) = (word(0) & 0xFFFF, word(8), word(24));
                let ring = Ring {
                    queue: WorkQueue::Send,
                    place: Place::Piece(bits(base, 56, 0) * BASE_UNIT),
                    entries: bits(last, 19, 7) as u32,
                    tail: 0,
                    next: 0,
                };
                if self.sends.len() < MOST_QUEUES {
                    self.sends.insert(number as u32, ring);
                }
            }
        }
    }

    /// Groups of a parent's TEID, the number of their queues, and these; an even number is followed
    /// by two bytes without meaning.
    fn disable(&mut self, mut buffer: &[u8]) {
        const GROUP: usize = 6;
        while let Some((group, rest)) = buffer.split_first_chunk::<GROUP>() {
            buffer = rest;
            let count = group[4];
            for _ in 0..count {
                let Some((queue, rest)) = buffer.split_first_chunk() else {
                    return;
                };
                buffer = rest;
                // Bit 15 is set for a set of RDMA queues.
                self.sends.remove(&u16::from_le_bytes(*queue).into());
            }
            if count.is_multiple_of(2) {
                buffer = buffer.get(2..).unwrap_or_default();
            }
        }
    }

    /// The driver is about to write a register.
    pub(crate) fn write(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(element) = find(offset) else {
            return events;
        };
        let [first, second] = element.indexes;
        match element.register.name {
            "QTX_COMM_DBELL" => {
                if let Some(ring) = self.sends.get_mut(&first) {
                    ring.post(memory, first, value, &mut events);
                }
            }
            "QRX_TAIL" => {
                self.programmed.entry(first).or_default().tail = value;
                if let Some(ring) = self.receives.get_mut(&first) {
                    ring.post(memory, first, value, &mut events);
                }
            }
            "QRX_CONTEXT" => {
                let programmed = self.programmed.entry(second).or_default();
                if let Some(word) = programmed.context.get_mut(first as usize) {
                    *word = value;
                }
            }
            // On. What was posted before counts from here on.
            "QRX_CTRL" if value & 1 == 1 && !self.receives.contains_key(&first) => {
                let programmed = self.programmed.entry(first).or_default();
                if let Some(mut ring) = programmed.ring() {
                    ring.post(memory, first, programmed.tail, &mut events);
                    self.receives.insert(first, ring);
                }
            }
            "QRX_CTRL" if value & 1 == 0 => {
                if let Some(mut ring) = self.receives.remove(&first) {
                    ring.look(memory, first, &mut events);
                }
            }
            _ => {}
        }
        events
    }

    /// Descriptors that the device has written back since.
    pub(crate) fn scan(&mut self, memory: &DeviceMemory) -> Vec<Event> {
        let mut events = Vec::new();
        for rings in [&mut self.sends, &mut self.receives] {
            for (number, ring) in rings {
                ring.look(memory, *number, &mut events);
            }
        }
        events
    }

    /// Memory is taken from the device.
    pub(crate) fn freed(&mut self, memory: &DeviceMemory, at: Iova) {
        for rings in [&mut self.sends, &mut self.receives] {
            rings.retain(|_, ring| !ring.place.is_in(memory, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::Value;

    use super::*;

    /// What drivers wrote, and where their rings are.
    fn vectors(kind: &str) -> Vec<Value> {
        let text = include_str!("../../../tests/vectors/lan_queues.json");
        let all: Value = serde_json::from_str(text).unwrap();
        all[kind].as_array().unwrap().clone()
    }

    fn write(
        lan: &mut LanFollower,
        memory: &DeviceMemory,
        register: u32,
        value: u32,
    ) -> Vec<Event> {
        lan.write(memory, RegOffset::try_new(register).unwrap(), value)
    }

    /// A ring of zeros at `at` in a device's memory.
    fn ring(memory: &DeviceMemory, at: u64) -> &'static [AtomicU64] {
        let words: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
        let words: &'static [AtomicU64] = words.leak();
        let start = NonNull::from(words).cast();
        // SAFETY: never freed, and atomics.
        unsafe { memory.insert(Iova(at), start, words.len(), true) };
        words
    }

    fn what(events: &[Event]) -> Vec<(&str, u32)> {
        let one = |event: &Event| match event {
            Event::LanPosted { index, .. } => ("posted", *index),
            Event::LanWritten { index, .. } => ("written", *index),
            Event::NotSeen { entries, .. } => ("not seen", *entries as u32),
            _ => ("other", 0),
        };
        // The names are constants.
        events.iter().map(one).collect()
    }

    #[test]
    fn transmit_queues_of_drivers_are_followed() {
        // Names of the vectors, with queue, address and descriptors that their bits are (lan-path 3.3).
        for (name, number, at, entries) in [
            ("linux_q0", 0, 0xff22_0000, 256),
            ("linux_q1_flow_director", 1, 0xffa3_0000, 256),
            ("dpdk_q0_flow_director", 0, 0x1_0040_dd80, 64),
            ("ipxe_q0", 0, 0x1ff5_1a00, 64),
        ] {
            let vector = vectors("tx").into_iter().find(|one| one["name"] == name);
            let buffer = vector.unwrap()["group_hex"].as_str().unwrap().to_owned();
            let descriptor = |opcode: u16| Descriptor {
                index: 0,
                descriptor: format!(
                    "0020{:02x}{:02x}{}",
                    opcode & 0xFF,
                    opcode >> 8,
                    "00".repeat(28)
                ),
                buffer: buffer.clone(),
            };
            let (mut lan, memory) = (LanFollower::default(), DeviceMemory::default());
            lan.firmware(&descriptor(ADD_TX), false);
            assert_eq!(lan.sends[&number].entries, entries, "{name}");
            let words = ring(&memory, at);
            let doorbell = 0x2c_0000 + 4 * number;
            let posted = write(&mut lan, &memory, doorbell, 3);
            assert_eq!(what(&posted), [("posted", 0), ("posted", 1), ("posted", 2)]);
            assert_eq!(lan.scan(&memory), []);
            // The device reports the second one, and so both.
            words[3].store(15, Ordering::Relaxed);
            assert_eq!(what(&lan.scan(&memory)), [("written", 1)]);
            words[5].store(15, Ordering::Relaxed);
            assert_eq!(what(&lan.scan(&memory)), [("written", 2)]);
            // A lap that nobody saw.
            write(&mut lan, &memory, doorbell, entries - 1);
            let posted = write(&mut lan, &memory, doorbell, 5);
            assert_eq!(what(&posted).last(), Some(&("not seen", 3)));
            write(&mut lan, &memory, doorbell, entries);
            lan.firmware(&descriptor(DISABLE_TX), true);
            // Of the other form: a parent's TEID, one queue, and its number.
            let gone = Descriptor {
                buffer: format!("0d0001000100{number:02x}00"),
                ..descriptor(DISABLE_TX)
            };
            lan.firmware(&gone, true);
            assert!(lan.sends.is_empty(), "{name}");
        }
    }

    #[test]
    fn receive_queues_of_drivers_are_followed() {
        for (name, number, at, entries) in [
            ("linux_mtu_1500", 0, 0xff21_0000, 2048),
            ("dpdk_q0_flow_director", 0, 0x1_0040_c900, 64),
            ("ipxe_q0", 0, 0x1ff5_1200, 64),
        ] {
            let vector = vectors("rx").into_iter().find(|one| one["name"] == name);
            let (mut lan, memory) = (LanFollower::default(), DeviceMemory::default());
            let words = vector.unwrap()["words_hex"].as_array().unwrap().clone();
            for (index, word) in (0..).zip(&words) {
                let word = u32::from_str_radix(word.as_str().unwrap(), 16).unwrap();
                let register = 0x28_0000 + 0x2000 * index + 4 * number;
                assert_eq!(write(&mut lan, &memory, register, word), []);
            }
            let words = ring(&memory, at);
            let (tail, control) = (0x29_0000 + 4 * number, 0x12_0000 + 4 * number);
            // The tail may come before the queue is on.
            assert_eq!(write(&mut lan, &memory, tail, 2), []);
            let posted = write(&mut lan, &memory, control, 1);
            assert_eq!(what(&posted), [("posted", 0), ("posted", 1)], "{name}");
            assert_eq!(lan.receives[&number].entries, entries, "{name}");
            assert_eq!(lan.scan(&memory), []);
            words[1].store(1, Ordering::Relaxed);
            assert_eq!(what(&lan.scan(&memory)), [("written", 0)]);
            words[5].store(1, Ordering::Relaxed);
            assert_eq!(what(&lan.scan(&memory)), [("written", 1)]);
            // The driver has taken two that nobody looked at.
            write(&mut lan, &memory, tail, 6);
            words[17].store(1, Ordering::Relaxed);
            assert_eq!(what(&lan.scan(&memory)), [("not seen", 2), ("written", 4)]);
            write(&mut lan, &memory, control, 0);
            assert_eq!(write(&mut lan, &memory, tail, 8), []);
        }
    }
}
