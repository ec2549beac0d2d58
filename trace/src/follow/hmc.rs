//! The engine's own address space, as far as PBLEs are found through it (control-path 6).

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;

use super::place::PAGE;
use super::{bits, memory_line, without_zeros, words};
use crate::record::Event;

/// Bytes that a segment descriptor (SD) covers.
const SEGMENT: u64 = 2 << 20;
/// Entries in the WQE of an update, before those in its buffer.
const INLINE: usize = 3;
/// Bytes of an entry of an update's buffer: command and data.
const ENTRY: u64 = 16;
/// PBLEs of a leaf of a list of level 2.
const LEAF: u64 = 512;
/// The most PBLEs of a command that are in a trace: 4 GiB in pages of 4 KiB.
const MOST_PBLES: u64 = 1 << 20;
/// Where the reply to COMMIT_FPM_VAL has the base of the PBLEs, in words.
const PBLE_WORD: usize = 14;
/// Bases are in units of so many bytes.
const BASE_UNIT: u64 = 512;

/// The memory behind a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    /// One block.
    Direct(u64),
    /// A page of addresses of pages.
    Paged(u64),
}

/// Segments and the place of the PBLEs in them.
#[derive(Debug, Default)]
pub(crate) struct Hmc {
    segments: BTreeMap<u64, Segment>,
    pble_base: Option<u64>,
    /// Of the update that is under way.
    new_pages: Vec<u64>,
}

impl Hmc {
    /// The driver gives or takes segments (UPDATE_PE_SDS). Returns the pages of page descriptors that
    /// the engine has from now on.
    pub(crate) fn update(&mut self, command: &[u64], memory: &DeviceMemory) -> Vec<Event> {
        let &[c0, d0, q16, header, c1, d1, c2, d2] = command else {
            return Vec::new();
        };
        self.new_pages.clear();
        self.set(c0, d0);
        for (command, data) in [(c1, d1), (c2, d2)] {
            if bits(command, 63, 63) == 1 {
                self.set(command, data);
            }
        }
        let behind = bits(header, 3, 0).min(11 - INLINE as u64);
        let entries = words(memory, q16 & !0x7F, (behind * ENTRY / 8) as usize);
        for entry in entries.as_chunks::<2>().0 {
            self.set(entry[0], entry[1]);
        }
        let pages = std::mem::take(&mut self.new_pages);
        let line = |at| memory_line(at, &without_zeros(words(memory, at, (PAGE / 8) as usize)));
        pages.into_iter().map(line).collect()
    }

    /// The driver has changed a page descriptor (PFHMC_PDINV).
    pub(crate) fn changed(&self, memory: &DeviceMemory, value: u32) -> Option<Event> {
        let value = u64::from(value);
        // One of a segment that the driver has not given yet comes with the segment.
        let Segment::Paged(pages) = self.segments.get(&bits(value, 11, 0))? else {
            return None;
        };
        let at = pages.checked_add(bits(value, 24, 16) * 8)?;
        Some(memory_line(at, &words(memory, at, 1)))
    }

    fn set(&mut self, command: u64, data: u64) {
        let index = bits(command, 11, 0);
        let address = data & !(PAGE - 1);
        match (bits(data, 0, 0), bits(data, 1, 1)) {
            (0, _) => {
                self.segments.remove(&index);
            }
            (_, 0) => {
                self.segments.insert(index, Segment::Paged(address));
                self.new_pages.push(address);
            }
            _ => {
                self.segments.insert(index, Segment::Direct(address));
            }
        }
    }

    /// The engine has laid out its objects (the reply to COMMIT_FPM_VAL).
    pub(crate) fn committed(&mut self, reply: &[u64]) {
        let base = reply.get(PBLE_WORD).map(|word| bits(*word, 63, 32));
        self.pble_base = base.map(|base| base * BASE_UNIT);
    }

    /// Where the device reads `address` of its own space.
    fn at(&self, memory: &DeviceMemory, address: u64) -> Option<u64> {
        let segment = self.segments.get(&(address / SEGMENT))?;
        let offset = address % SEGMENT;
        match segment {
            Segment::Direct(base) => base.checked_add(offset),
            Segment::Paged(pages) => {
                let entry = words(memory, pages.checked_add(offset / PAGE * 8)?, 1);
                let entry = entry.first().filter(|entry| bits(**entry, 0, 0) == 1)?;
                (entry & !(PAGE - 1)).checked_add(offset % PAGE)
            }
        }
    }

    /// `count` PBLEs from `first` on, as lines, and what they name: a line for each page in which they
    /// lie. Those that are not there are left out.
    fn list(
        &self,
        memory: &DeviceMemory,
        first: u64,
        count: u64,
        into: &mut Vec<Event>,
    ) -> Vec<u64> {
        let mut found = Vec::new();
        let count = count.min(MOST_PBLES);
        while (found.len() as u64) < count {
            let index = first.saturating_add(found.len() as u64);
            let address = self.pble_base.zip(index.checked_mul(8));
            let address = address.and_then(|(base, offset)| base.checked_add(offset));
            let Some(at) = address.and_then(|address| self.at(memory, address)) else {
                break;
            };
            let left = count - found.len() as u64;
            let there = words(memory, at, ((PAGE - at % PAGE) / 8).min(left) as usize);
            if there.is_empty() {
                break;
            }
            into.push(memory_line(at, &there));
            found.extend(there);
        }
        found
    }

    /// The lines of a list of PBLEs for `pages` pages (control-path 6.7): one of level 1, or of level 2,
    /// whose roots name leaves.
    pub(crate) fn lists(
        &self,
        memory: &DeviceMemory,
        (level, first): (u64, u64),
        pages: u64,
    ) -> Vec<Event> {
        let mut lines = Vec::new();
        match level {
            1 => {
                self.list(memory, first, pages, &mut lines);
            }
            3 => {
                let roots = self.list(memory, first, pages.div_ceil(LEAF), &mut lines);
                let mut left = pages.min(MOST_PBLES);
                for root in roots {
                    self.list(memory, bits(root, 27, 0), left.min(LEAF), &mut lines);
                    left = left.saturating_sub(LEAF);
                }
            }
            _ => {}
        }
        lines
    }

    /// The pages that `count` PBLEs from `first` on name; `None` if one of them is not there.
    pub(crate) fn pages(&self, memory: &DeviceMemory, first: u64, count: u64) -> Option<Vec<u64>> {
        let base = self.pble_base?;
        let page = |index: u64| {
            let at = base.checked_add(index.checked_mul(8)?)?;
            let found = words(memory, self.at(memory, at)?, 1);
            found.first().map(|page| page & !(PAGE - 1))
        };
        (first..first.checked_add(count)?).map(page).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};

    use e810_hal::Iova;

    use super::*;
    use crate::follow::place::Place;

    /// Memory of a driver: three pages of 512 words, at these addresses.
    struct Driver {
        memory: DeviceMemory,
        pages: Vec<Vec<AtomicU64>>,
    }

    impl Driver {
        const AT: [u64; 3] = [0x10_0000, 0x20_0000, 0x30_0000];

        fn new() -> Self {
            let page = |_| (0..512).map(|_| AtomicU64::new(0)).collect();
            let this = Self {
                memory: DeviceMemory::default(),
                pages: (0..3).map(page).collect(),
            };
            for (at, words) in Self::AT.iter().zip(&this.pages) {
                let start = NonNull::from(words.as_slice()).cast();
                // SAFETY: the words live as long as the memory, and are atomics.
                unsafe { this.memory.insert(Iova(*at), start, words.len(), true) };
            }
            this
        }

        fn put(&self, page: usize, word: usize, value: u64) {
            self.pages[page][word].store(value, Ordering::Relaxed);
        }
    }

    /// UPDATE_PE_SDS with one entry, and one more behind the third.
    fn update(first: (u64, u64), more: Option<u64>) -> [u64; 8] {
        let (address, count) = more.map_or((0, 0), |at| (at, 1));
        [first.0, first.1, address, count, 0, 0, 0, 0]
    }

    #[test]
    fn pbles_are_found_through_segments_of_both_kinds() {
        let driver = Driver::new();
        let mut hmc = Hmc::default();
        assert_eq!(hmc.pages(&driver.memory, 0, 1), None, "no layout yet");
        // PBLEs begin in segment 1, at 0x1000 of it.
        let mut reply = [0; 22];
        reply[PBLE_WORD] = ((SEGMENT + 0x1000) / BASE_UNIT) << 32 | 999;
        hmc.committed(&reply);
        assert_eq!(hmc.pages(&driver.memory, 0, 1), None, "no segment yet");
        // A paged one: its second page is the driver's third.
        driver.put(0, 1, Driver::AT[2] | 1);
        let write = 1 << 31 | 1 << 15;
        let paged = Driver::AT[0] | 512 << 2 | 1;
        hmc.update(&update((write | 1, paged), None), &driver.memory);
        driver.put(2, 0, 0xAAA_0000);
        driver.put(2, 1, 0xBBB_0000);
        let found = hmc.pages(&driver.memory, 0, 2).unwrap();
        assert_eq!(found, [0xAAA_0000, 0xBBB_0000]);
        assert_eq!(hmc.pages(&driver.memory, 511, 2), None, "no page behind");
        // The same by an entry in the buffer, as one block; then it is taken away.
        driver.put(1, 16, write | 1);
        driver.put(1, 17, (Driver::AT[2] - 0x1000) | 512 << 2 | 3);
        let more = Some(Driver::AT[1] + 128);
        hmc.update(&update((write | 7, 0), more), &driver.memory);
        assert_eq!(hmc.pages(&driver.memory, 1, 1).unwrap(), [0xBBB_0000]);
        hmc.update(&update((write | 1, 0), None), &driver.memory);
        assert_eq!(hmc.pages(&driver.memory, 0, 1), None);
    }

    #[test]
    fn a_ring_in_pages_is_read_across_them() {
        let driver = Driver::new();
        driver.put(2, 511, 7);
        driver.put(0, 0, 8);
        let ring = Place::Pages(vec![Driver::AT[2], Driver::AT[0], 0x900_0000]);
        assert_eq!(ring.words(&driver.memory, PAGE - 8, 2), [7, 8]);
        assert_eq!(ring.words(&driver.memory, 2 * PAGE - 8, 2), [0]);
        assert_eq!(ring.words(&driver.memory, 3 * PAGE, 1), [0; 0]);
        let is_in = |page: usize| ring.is_in(&driver.memory, Iova(Driver::AT[page]));
        assert_eq!([is_in(0), is_in(1), is_in(2)], [true, false, true]);
    }
}
