//! Segments and objects: what is committed and what is backed.

use super::Device;
use super::words::{load, store};
use crate::fake::PF;
use e810_hal::testing::FakeMemory;

/// Objects in the order and with the sizes this device lays them out: commit
/// offset, query offset (0: fixed size in the third).
const LAYOUT: [(usize, usize, u64); 19] = [
    (0, 8, 0),
    (8, 16, 0),
    (24, 32, 0),
    (32, 40, 0),
    (40, 0, 8192),
    (48, 48, 0),
    (56, 56, 0),
    (64, 0, 4),
    (72, 72, 0),
    (80, 0, 4),
    (88, 88, 0),
    (96, 96, 0),
    (104, 104, 0),
    (112, 0, 8),
    (128, 128, 0),
    (136, 0, 4),
    (144, 144, 0),
    (152, 152, 0),
    (160, 160, 0),
];

impl Device {
    pub(super) fn commit(&mut self, q: [u64; 8], memory: &FakeMemory) -> bool {
        let Some(mut words) = load::<26>(memory, q[4]) else {
            return false;
        };
        let mut base = 0;
        self.layout.clear();
        for (commit, query, fixed) in LAYOUT {
            let bytes = match query {
                0 => fixed,
                query => {
                    let log2 = (self.script.fpm[query / 8] >> 32) as u32;
                    1u64.checked_shl(log2).unwrap_or(0)
                }
            };
            let word = &mut words[commit / 8];
            let count = if commit == 40 { 1 } else { *word };
            *word = count | (base / 512) << 32;
            let end: u64 = base + count.wrapping_mul(bytes);
            self.layout.push((base, end));
            base = end.next_multiple_of(512);
        }
        store(memory, q[4], &words)
    }

    pub(super) fn update_segments(&mut self, q: [u64; 8], memory: &FakeMemory) -> bool {
        let mut entries = vec![(q[0], q[1])];
        for (command, data) in [(q[4], q[5]), (q[6], q[7])] {
            if command >> 63 != 0 {
                entries.push((command & 0xFFFF_FFFF, data));
            }
        }
        for n in 0..(q[3] & 0xF) {
            let at = (q[2] & !0x3F) + n * 16;
            match (memory.load(at), memory.load(at + 8)) {
                (Some(command), Some(data)) => entries.push((command, data)),
                _ => self.complain("the SD slot is not in memory"),
            }
        }
        if q[2] & 0x3F != u64::from(PF) {
            self.complain("SDs of another function");
        }
        for (command, data) in entries {
            if command & !0xFFF != 0x8000_8000 || data >> 2 & 0x3FF != 512 {
                self.complain(format!("SD {command:x} {data:x}"));
            }
            let index = command & 0xFFF;
            if data & 1 != 0 {
                if self.segments.insert(index, data).is_some() {
                    self.complain(format!("SD {index} was valid already"));
                }
            } else if self.segments.remove(&index).is_none() {
                self.complain(format!("SD {index} was not valid"));
            }
        }
        true
    }

    /// The device address behind a function-private address, if it is backed.
    pub(crate) fn translate(&self, address: u64, memory: &FakeMemory) -> Option<u64> {
        let data = *self.segments.get(&(address >> 21))?;
        let base = data >> 12 << 12;
        let within = address & 0x1F_FFFF;
        let target = if data & 2 != 0 {
            base + within
        } else {
            let entry = memory.load(base + (within >> 12) * 8)?;
            if entry & 1 == 0 {
                return None;
            }
            (entry >> 12 << 12) + (within & 0xFFF)
        };
        memory.load(target & !7).map(|_| target)
    }

    /// Where object kind `n` of `LAYOUT` is: from, to.
    pub(crate) fn area(&self, commit_offset: usize) -> (u64, u64) {
        let n = LAYOUT.iter().position(|row| row.0 == commit_offset);
        self.layout[n.unwrap()]
    }
}
