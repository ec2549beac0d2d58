//! Rings of entries that the device writes: completions and events (data-path 2, 3).

use e810_backends::observed::DeviceMemory;
use e810_card::record::words_to_hex;
use e810_hal::Iova;

use super::{bits, words};
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

/// A ring, and how far it was followed.
#[derive(Debug)]
struct Ring {
    kind: EntryKind,
    number: u32,
    base: u64,
    entries: u32,
    next: u32,
    /// The valid bit of new entries in this lap.
    valid: u64,
}

impl Ring {
    /// The next entry, if the device has written it.
    fn take(&mut self, memory: &DeviceMemory) -> Option<(Event, Vec<u64>)> {
        let bytes = self.kind.words() as u64 * 8;
        let at = u64::from(self.next).checked_mul(bytes);
        let at = self.base.checked_add(at?)?;
        // The valid bit, then the rest: the device writes it last.
        let last = words(memory, at.checked_add(bytes - 8)?, 1);
        if bits(*last.first()?, 63, 63) != self.valid {
            return None;
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let entry = words(memory, at, self.kind.words());
        let event = self.kind.event(self.number, self.next, &entry);
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
    /// is followed until that is freed.
    pub(crate) fn add(&mut self, kind: EntryKind, number: u32, base: u64, entries: u32) {
        self.0.retain(|ring| ring.base != base);
        if entries > 0 {
            self.0.push(Ring {
                kind,
                number,
                base,
                entries,
                next: 0,
                valid: 1,
            });
        }
    }

    /// A ring is destroyed.
    pub(crate) fn remove(&mut self, kind: EntryKind, number: u32) {
        self.0
            .retain(|ring| ring.kind != kind || ring.number != number);
    }

    pub(crate) fn freed(&mut self, memory: &DeviceMemory, at: Iova) {
        self.0.retain(|ring| {
            let block = memory.block(Iova(ring.base));
            block.is_none_or(|(start, _)| start != at)
        });
    }

    /// Entries that the device has written since; of CQ 0, the queue of the Control QP's
    /// completions, also which command is complete.
    pub(crate) fn scan(&mut self, memory: &DeviceMemory) -> Vec<(Event, Option<u32>)> {
        let mut found = Vec::new();
        for ring in &mut self.0 {
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
