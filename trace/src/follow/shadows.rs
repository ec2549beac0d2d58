//! Shadow areas of queues (data-path 3.1): words beside the ring that one side leaves for the other.

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;
use e810_card::record::words_to_hex;

use super::words;
use crate::record::{Event, ShadowOf};

/// 64-bit words of an area.
const WORDS: usize = 8;
/// Most areas of a kind that are followed at once.
const MOST: usize = 1 << 16;

/// The shadow areas of a function's queues.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    cqs: BTreeMap<u32, u64>,
    /// Where it is, and what stood there.
    qps: BTreeMap<u32, (u64, Vec<u64>)>,
}

impl Shadows {
    pub(crate) fn add(&mut self, of: ShadowOf, number: u32, at: u64) {
        match of {
            ShadowOf::Cq if self.cqs.len() < MOST => {
                self.cqs.insert(number, at);
            }
            ShadowOf::Qp if self.qps.len() < MOST => {
                self.qps.insert(number, (at, Vec::new()));
            }
            ShadowOf::Cq | ShadowOf::Qp => {}
        }
    }

    pub(crate) fn remove(&mut self, of: ShadowOf, number: u32) {
        match of {
            ShadowOf::Cq => self.cqs.remove(&number).is_some(),
            ShadowOf::Qp => self.qps.remove(&number).is_some(),
        };
    }

    /// The driver arms a completion queue.
    pub(crate) fn armed(&self, memory: &DeviceMemory, cq: u32) -> Option<Event> {
        let found = words(memory, *self.cqs.get(&cq)?, WORDS);
        Some(shadow(ShadowOf::Cq, cq, &found))
    }

    /// Areas of queue pairs that have changed since.
    pub(crate) fn look(&mut self, memory: &DeviceMemory) -> Vec<Event> {
        let mut changed = Vec::new();
        for (qp, (at, before)) in &mut self.qps {
            let found = words(memory, *at, WORDS);
            if found.is_empty() {
                continue;
            }
            let is_changed = if before.is_empty() {
                found.iter().any(|word| *word != 0)
            } else {
                *before != found
            };
            if is_changed {
                changed.push(shadow(ShadowOf::Qp, *qp, &found));
                *before = found;
            }
        }
        changed
    }
}

fn shadow(of: ShadowOf, number: u32, found: &[u64]) -> Event {
    let used = found.iter().rposition(|word| *word != 0);
    let used = used.map_or(0, |last| last + 1);
    Event::Shadow {
        of,
        number,
        bytes: words_to_hex(found.get(..used).unwrap_or_default()),
    }
}
