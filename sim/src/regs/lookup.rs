//! Looks up the register at an offset.
//!
//! Walking the tables for each access would take most of a bring-up's time. A table of all elements
//! of all arrays, some hundred thousand, would take minutes to fill under Miri.

use std::collections::HashMap;
use std::sync::LazyLock;

use e810_hal::RegOffset;
use e810_hal::regs::{self, Element, RegInfo, Space};

use super::lan;

/// log2 of the bytes of BAR0 whose arrays share one list.
const PAGE_SHIFT: u32 = 12;

/// Registers by location.
struct Lookup {
    /// Registers that are not arrays, by offset.
    single: HashMap<u32, &'static RegInfo>,
    /// Arrays, by the pages that contain their elements; two arrays can be interleaved.
    arrays: Vec<Vec<&'static RegInfo>>,
}

impl Lookup {
    fn new(registers: impl Iterator<Item = &'static RegInfo>) -> Self {
        let mut lookup = Self {
            single: HashMap::new(),
            arrays: Vec::new(),
        };
        for register in registers {
            if register.index.is_empty() {
                lookup.single.entry(register.offset).or_insert(register);
                continue;
            }
            let span = register.index.iter();
            let span = span.fold(0, |span: u32, index| span + index.stride * index.max);
            let first = page(register.offset);
            let last = page(register.offset + span);
            if lookup.arrays.len() <= last {
                lookup.arrays.resize(last + 1, Vec::new());
            }
            for page in lookup.arrays.iter_mut().take(last + 1).skip(first) {
                page.push(register);
            }
        }
        lookup
    }

    fn find(&self, off: u32) -> Option<Element> {
        if let Some(register) = self.single.get(&off) {
            return register.element_at(off);
        }
        let arrays = self.arrays.get(page(off))?.iter();
        let mut found = arrays.filter_map(|array| array.element_at(off));
        found.next()
    }
}

/// The page that an offset is in.
const fn page(off: u32) -> usize {
    (off >> PAGE_SHIFT) as usize
}

/// All registers that the simulator knows: the engine's, then the LAN side's.
pub(super) fn all() -> impl Iterator<Item = &'static RegInfo> {
    let of_the_engine = regs::ALL.iter();
    let of_the_engine = of_the_engine.filter(|register| register.space == Space::Bar0);
    of_the_engine.chain(lan::TABLE.iter())
}

/// The register at `off`.
pub(super) fn find_element(off: RegOffset) -> Option<Element> {
    static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| Lookup::new(all()));
    LOOKUP.find(off.get())
}
