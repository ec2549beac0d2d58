//! Shadow areas of queues (data-path 3.1): words beside the ring that one side leaves for the other.

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;
use e810_card::record::{from_hex, words_to_hex};

use super::{without_zeros, words};
use crate::record::{Event, ShadowOf};

/// 64-bit words of an area.
const WORDS: usize = 8;
/// Most areas that are followed at once.
const MOST: usize = 2 << 16;

/// The shadow areas of a function's queues.
#[derive(Debug, Default)]
pub(crate) struct Shadows(BTreeMap<(ShadowOf, u32), Area>);

#[derive(Debug)]
struct Area {
    at: u64,
    /// What stood there.
    before: Vec<u64>,
}

impl Area {
    /// The area now, if it is another than before. It is zeros at first.
    fn changed(&mut self, memory: &DeviceMemory) -> bool {
        let found = words(memory, self.at, WORDS);
        let is_other =
            |(index, word): (usize, &u64)| *word != self.before.get(index).copied().unwrap_or(0);
        let is_changed = found.iter().enumerate().any(is_other);
        if is_changed {
            self.before = found;
        }
        is_changed
    }

    fn line(&self, of: ShadowOf, number: u32) -> Event {
        Event::Shadow {
            of,
            number,
            bytes: words_to_hex(&without_zeros(self.before.clone())),
        }
    }
}

impl Shadows {
    pub(crate) fn add(&mut self, of: ShadowOf, number: u32, at: u64) {
        if self.0.len() < MOST {
            let before = Vec::new();
            self.0.insert((of, number), Area { at, before });
        }
    }

    pub(crate) fn remove(&mut self, of: ShadowOf, number: u32) {
        self.0.remove(&(of, number));
    }

    /// The driver arms a completion queue.
    pub(crate) fn armed(&mut self, memory: &DeviceMemory, cq: u32) -> Option<Event> {
        let area = self.0.get_mut(&(ShadowOf::Cq, cq))?;
        area.changed(memory);
        Some(area.line(ShadowOf::Cq, cq))
    }

    /// Areas that have changed since.
    pub(crate) fn look(&mut self, memory: &DeviceMemory) -> Vec<Event> {
        let changed = self.0.iter_mut().filter_map(|((of, number), area)| {
            area.changed(memory).then(|| area.line(*of, *number))
        });
        changed.collect()
    }

    /// Where the driver has put what a line tells of an area.
    pub(crate) fn parts(
        &self,
        of: ShadowOf,
        number: u32,
        bytes: &str,
    ) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut found = from_hex(bytes)?;
        found.resize(WORDS * 8, 0);
        Some(vec![(self.0.get(&(of, number))?.at, found)])
    }
}
