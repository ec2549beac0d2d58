//! Rings of entries that the device writes: completions and events (data-path 2, 3).

use e810_backends::observed::DeviceMemory;
use e810_card::record::words_to_hex;
use e810_hal::Iova;

use super::bits;
use super::place::Place;
use crate::record::Event;

/// What a ring has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum EntryKind {
    /// Completions.
    Cqe,
    /// Completion events.
    Ceqe,
    /// Asynchronous events.
    Aeqe,
}

impl EntryKind {
    /// The queue's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cqe => "CQ",
            Self::Ceqe => "CEQ",
            Self::Aeqe => "AEQ",
        }
    }

    /// 64-bit words of an entry; the last one has the valid bit, bit 63.
    const fn words(self) -> usize {
        match self {
            Self::Cqe => 4,
            Self::Ceqe => 1,
            Self::Aeqe => 2,
        }
    }

    /// Bytes of an entry.
    pub(crate) const fn bytes(self) -> u64 {
        self.words() as u64 * 8
    }

    fn event(self, number: u32, index: u32, entry: &[u64]) -> Event {
        let bytes = words_to_hex(entry);
        match self {
            Self::Cqe => Event::Cqe {
                cq: number,
                index,
                bytes,
            },
            Self::Ceqe => Event::Ceqe {
                ceq: number,
                index,
                bytes,
            },
            Self::Aeqe => Event::Aeqe { index, bytes },
        }
    }
}

/// Most rings that are followed at once. Engines have fewer that are in use.
const MOST_RINGS: usize = 1 << 16;

/// A ring, and how far it was followed.
#[derive(Debug)]
struct Ring {
    kind: EntryKind,
    number: u32,
    place: Place,
    entries: u32,
    next: u32,
    /// The valid bit of new entries in this lap.
    valid: u64,
    /// The last entry: its index, and its word with the valid bit.
    last: Option<(u32, u64)>,
}

impl Ring {
    fn offset(&self, index: u32) -> u64 {
        u64::from(index) * self.kind.bytes()
    }

    /// The word with the valid bit of the entry at `index`.
    fn last_word(&self, memory: &DeviceMemory, index: u32) -> Option<u64> {
        let at = self.offset(index) + self.kind.bytes() - 8;
        self.place.words(memory, at, 1).first().copied()
    }

    /// Goes on behind the device if it has written more than all entries since the last look: the
    /// entries that it has written over.
    fn catch_up(&mut self, memory: &DeviceMemory) -> Option<Event> {
        let (index, word) = self.last?;
        let now = self.last_word(memory, index)?;
        // Zeros are no entry: the memory was taken away, and is empty.
        if now == word || now == 0 {
            return None;
        }
        // The first entry that the device has not written in its current lap is the oldest one.
        let valid_of = |index| Some(bits(self.last_word(memory, index)?, 63, 63));
        let lap = valid_of(0)?;
        let oldest = (0..self.entries).find(|index| valid_of(*index) != Some(lap));
        let oldest = oldest.unwrap_or(0);
        let lost = (oldest + self.entries - self.next) % self.entries;
        self.valid = valid_of(oldest)?;
        self.next = oldest;
        self.last = None;
        (lost > 0).then(|| Event::NotSeen {
            what: self.kind.name().to_owned(),
            number: self.number,
            entries: lost.into(),
        })
    }

    /// The next entry, if the device has written it.
    fn take(&mut self, memory: &DeviceMemory) -> Option<(Event, Vec<u64>)> {
        // The valid bit, then the rest: the device writes it last.
        let last = self.last_word(memory, self.next)?;
        if bits(last, 63, 63) != self.valid {
            return None;
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let at = self.offset(self.next);
        let entry = self.place.words(memory, at, self.kind.words());
        if entry.iter().all(|word| *word == 0) {
            return None;
        }
        let event = self.kind.event(self.number, self.next, &entry);
        self.last = Some((self.next, last));
        self.next += 1;
        if self.next >= self.entries {
            self.next = 0;
            self.valid ^= 1;
        }
        Some((event, entry))
    }
}

/// All rings of a device.
#[derive(Debug, Default)]
pub(crate) struct EntryRings(Vec<Ring>);

impl EntryRings {
    /// A ring is created, or, of a CQ, goes on in other memory. What is left in the old memory
    /// is followed until that is freed. Beyond 65,536 rings a new one is not followed.
    pub(crate) fn add(&mut self, kind: EntryKind, number: u32, place: Place, entries: u32) {
        self.0.retain(|ring| ring.place != place);
        if entries > 0 && self.0.len() < MOST_RINGS {
            self.0.push(Ring {
                kind,
                number,
                place,
                entries,
                next: 0,
                valid: 1,
                last: None,
            });
        }
    }

    /// A ring is destroyed.
    pub(crate) fn remove(&mut self, kind: EntryKind, number: u32) {
        self.0
            .retain(|ring| ring.kind != kind || ring.number != number);
    }

    /// How many entries a ring has that is followed.
    pub(crate) fn entries_of(&self, kind: EntryKind, number: u32) -> Option<u32> {
        let is_it = |ring: &&Ring| ring.kind == kind && ring.number == number;
        Some(self.0.iter().find(is_it)?.entries)
    }

    pub(crate) fn freed(&mut self, memory: &DeviceMemory, at: Iova) {
        self.0.retain(|ring| !ring.place.is_in(memory, at));
    }

    /// Entries that the device has written since; of CQ 0, the queue of the Control QP's
    /// completions, also which command is complete.
    pub(crate) fn scan(&mut self, memory: &DeviceMemory) -> Vec<(Event, Option<u32>)> {
        let mut found = Vec::new();
        for ring in &mut self.0 {
            found.extend(ring.catch_up(memory).map(|event| (event, None)));
            for _ in 0..ring.entries {
                let Some((event, entry)) = ring.take(memory) else {
                    break;
                };
                let is_ccq = ring.kind == EntryKind::Cqe && ring.number == 0;
                let last = entry.last().filter(|_| is_ccq);
                found.push((event, last.map(|word| bits(*word, 46, 32) as u32)));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const VALID: u64 = 1 << 63;

    /// A CEQ of four entries, as its device writes it.
    struct Device {
        words: [AtomicU64; 4],
        written: u64,
    }

    impl Device {
        fn write(&mut self, entries: u64) {
            for _ in 0..entries {
                let lap = self.written / 4;
                let valid = if lap.is_multiple_of(2) { VALID } else { 0 };
                let word = &self.words[(self.written % 4) as usize];
                word.store(valid | self.written, Ordering::Relaxed);
                self.written += 1;
            }
        }
    }

    /// The numbers of entries that were seen, and how many were not.
    fn seen(found: &[(Event, Option<u32>)]) -> (Vec<u64>, u64) {
        let (mut numbers, mut lost) = (Vec::new(), 0);
        for (event, _) in found {
            match event {
                Event::NotSeen { entries, .. } => lost += entries,
                Event::Ceqe { bytes, .. } => {
                    let words = e810_card::record::words_from_hex(bytes).unwrap();
                    numbers.push(words[0] & !VALID);
                }
                _ => {}
            }
        }
        (numbers, lost)
    }

    #[test]
    fn entries_that_were_written_over_are_counted() {
        // At each look, as many entries are new; then those seen, and how many were lost.
        let looks: &[(u64, &[u64], u64)] = &[
            (0, &[], 0),
            (1, &[0], 0),
            (3, &[1, 2, 3], 0),
            (4, &[4, 5, 6, 7], 0),
            (0, &[], 0),
            (5, &[9, 10, 11, 12], 1),
            (7, &[16, 17, 18, 19], 3),
            (2, &[20, 21], 0),
        ];
        let mut device = Device {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            written: 0,
        };
        let memory = DeviceMemory::default();
        let start = NonNull::from(&device.words).cast();
        // SAFETY: the words live as long as the test, and are atomics.
        unsafe { memory.insert(Iova(0x1000), start, 4, true) };
        let mut rings = EntryRings::default();
        rings.add(EntryKind::Ceqe, 3, Place::Piece(0x1000), 4);
        for (new, numbers, lost) in looks {
            device.write(*new);
            assert_eq!(
                seen(&rings.scan(&memory)),
                (numbers.to_vec(), *lost),
                "{new}"
            );
        }
        // Its program is gone, and others use the memory.
        for word in &device.words {
            word.store(0, Ordering::Relaxed);
        }
        assert_eq!(rings.scan(&memory), []);
        memory.remove(Iova(0x1000));
        assert_eq!(rings.scan(&memory), []);
    }
}
