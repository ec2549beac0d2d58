//! Following the queues in a device's memory by what a driver writes to its registers.
//!
//! Each part takes accesses and returns events; it never writes to the device's memory. What
//! it reads there is the device's or the driver's: anything may be in it.

mod adminq;
mod cqp;
mod entries;
mod hmc;
mod lan;
mod place;
mod shadows;
mod work;

pub(crate) use adminq::AdminqFollower;
pub(crate) use cqp::{CqpFollower, Learned};
pub(crate) use entries::{EntryKind, EntryRings};
pub(crate) use lan::LanFollower;
pub(crate) use shadows::Shadows;
pub(crate) use work::{QueuePair, WorkQueues};

use e810_backends::observed::DeviceMemory;
use e810_card::record::words_to_hex;
use e810_hal::Iova;

use crate::record::{Event, Hex};

/// `count` words of the device's memory from `at` on, or as many as are there. They may lie in
/// several pieces, one behind the other.
fn words(memory: &DeviceMemory, at: u64, count: usize) -> Vec<u64> {
    let mut words = vec![0; count];
    let mut there = 0;
    while let Some(left) = words.get_mut(there..).filter(|left| !left.is_empty()) {
        let read = match at.checked_add(there as u64 * 8) {
            Some(at) => memory.read(Iova(at), left),
            None => 0,
        };
        if read == 0 {
            break;
        }
        there += read;
    }
    words.truncate(there);
    words
}

/// Words without the zeros at their end.
fn without_zeros(mut found: Vec<u64>) -> Vec<u64> {
    let last = found.iter().rposition(|word| *word != 0);
    found.truncate(last.map_or(0, |last| last + 1));
    found
}

/// The line of memory that stands at `at`.
fn memory_line(at: u64, found: &[u64]) -> Event {
    Event::Memory {
        at: Hex(at),
        bytes: words_to_hex(found),
    }
}

/// Bits `hi` to `lo` of a word.
const fn bits(word: u64, hi: u32, lo: u32) -> u64 {
    word << (63 - hi) >> (63 - hi + lo)
}
