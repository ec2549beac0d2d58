//! Work requests: the rings that the driver writes (data-path 1).

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;
use e810_card::record::{from_hex, words_to_hex};
use e810_datapath::sizing::{QUANTUM_BYTES, inline_quanta, sq_quanta};
use e810_hal::Iova;

use super::bits;
use super::place::Place;
use crate::record::{Event, WorkQueue};

/// 64-bit words of a quantum.
const WORDS: u32 = QUANTUM_BYTES / 8;
/// Most quanta of a request.
const MOST_QUANTA: u32 = 8;

/// A ring of work requests, and how far it was followed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ring {
    place: Place,
    quanta: u32,
    next: u32,
    /// The valid bit of new requests in this lap.
    valid: u64,
    /// The last request: its index, and its valid bit.
    last: Option<(u32, u64)>,
}

impl Ring {
    fn new((place, quanta): (Place, u32)) -> Self {
        Self {
            place,
            quanta,
            next: 0,
            valid: 1,
            last: None,
        }
    }

    /// The header of the request at `index`.
    fn header(&self, memory: &DeviceMemory, index: u32) -> Option<u64> {
        let at = u64::from(index) * u64::from(QUANTUM_BYTES) + 24;
        self.place.words(memory, at, 1).first().copied()
    }

    /// Goes on where the driver is if it has gone all around since the last look: the quanta that
    /// were written over, or are not known to begin a request.
    fn catch_up(&mut self, memory: &DeviceMemory) -> Option<u32> {
        let (index, valid) = self.last?;
        if bits(self.header(memory, index)?, 63, 63) == valid {
            return None;
        }
        let valid_of = |index| Some(bits(self.header(memory, index)?, 63, 63));
        let lap = valid_of(0)?;
        let next = (0..self.quanta).find(|index| valid_of(*index) != Some(lap));
        // No other valid bit: the lap ended with the last quantum.
        (self.next, self.valid) = next.map_or((0, lap ^ 1), |next| (next, lap));
        self.last = None;
        Some(self.quanta)
    }

    /// The next request, if it was posted; `quanta` says by its header how long it is.
    fn take(
        &mut self,
        memory: &DeviceMemory,
        quanta: impl Fn(u64) -> u32,
    ) -> Option<(u32, Vec<u64>)> {
        let header = self.header(memory, self.next)?;
        if bits(header, 63, 63) != self.valid {
            return None;
        }
        let length = quanta(header).clamp(1, MOST_QUANTA);
        let length = length.min(self.quanta - self.next);
        let at = u64::from(self.next) * u64::from(QUANTUM_BYTES);
        let words = (length * WORDS) as usize;
        let request = self.place.words(memory, at, words);
        let index = self.next;
        self.last = Some((index, self.valid));
        self.next += length;
        if self.next >= self.quanta {
            self.next = 0;
            self.valid ^= 1;
        }
        Some((index, request))
    }
}

/// Quanta of a send request (data-path 1.4, 1.6): its fragments, of which immediate data is one,
/// or its inline data.
fn send_quanta(header: u64) -> u32 {
    let is_inline = bits(header, 57, 57) == 1;
    if is_inline {
        inline_quanta(bits(header, 55, 48) as u32)
    } else {
        let fragments = bits(header, 41, 38) as u32 + 1;
        sq_quanta(fragments).unwrap_or(MOST_QUANTA)
    }
}

/// A send request without its inline data (data-path 1.8): a trace has no payload. Its length, and the
/// bits that say that the data is there, stay.
fn without_inline_data(mut request: Vec<u64>) -> Vec<u64> {
    const VALID: u64 = 1 << 63;
    let [_, first, _, header, rest @ ..] = request.as_mut_slice() else {
        return request;
    };
    if bits(*header, 57, 57) == 1 {
        *first = 0;
        for (at, word) in rest.iter_mut().enumerate() {
            *word &= if at % 4 == 3 { VALID } else { 0 };
        }
    }
    request
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueuePair {
    send: Ring,
    receive: Ring,
    /// Quanta of a receive request.
    slot: u32,
}

impl QueuePair {
    /// Queues from address and quanta, and the quanta of a receive request.
    pub(crate) fn new(send: (Place, u32), receive: (Place, u32), slot: u32) -> Self {
        Self {
            send: Ring::new(send),
            receive: Ring::new(receive),
            slot,
        }
    }

    /// Where its queues are, and their bytes.
    pub(crate) fn into_places(self) -> [(Place, u64); 2] {
        [self.send, self.receive].map(|ring| {
            let bytes = u64::from(ring.quanta) * u64::from(QUANTUM_BYTES);
            (ring.place, bytes)
        })
    }

    fn take(&mut self, memory: &DeviceMemory, qp: u32, into: &mut Vec<Event>) {
        let slot = self.slot;
        for (queue, ring, is_send) in [
            (WorkQueue::Receive, &mut self.receive, false),
            (WorkQueue::Send, &mut self.send, true),
        ] {
            let quanta = |header| if is_send { send_quanta(header) } else { slot };
            if let Some(lost) = ring.catch_up(memory) {
                into.push(Event::NotSeen {
                    what: queue.name().to_owned(),
                    number: qp,
                    entries: (lost / if is_send { 1 } else { slot }).into(),
                });
            }
            for _ in 0..ring.quanta {
                let Some((index, mut request)) = ring.take(memory, quanta) else {
                    break;
                };
                if is_send {
                    request = without_inline_data(request);
                }
                into.push(Event::Wqe {
                    qp,
                    queue,
                    index,
                    bytes: words_to_hex(&request),
                });
            }
        }
    }
}

/// Most queue pairs that are followed at once. Engines have fewer that are in use.
const MOST_PAIRS: usize = 1 << 16;

/// All queue pairs of a device.
#[derive(Debug, Default)]
pub(crate) struct WorkQueues(BTreeMap<u32, QueuePair>);

impl WorkQueues {
    /// A queue pair is created, again if there was one of that number. Beyond 65,536 a new one is not
    /// followed.
    pub(crate) fn add(&mut self, qp: u32, queues: QueuePair) {
        if self.0.len() < MOST_PAIRS || self.0.contains_key(&qp) {
            self.0.insert(qp, queues);
        }
    }

    /// Where the driver has put a request.
    pub(crate) fn parts(
        &self,
        qp: u32,
        queue: WorkQueue,
        index: u32,
        bytes: &str,
    ) -> Option<Vec<(u64, Vec<u8>)>> {
        let queues = self.0.get(&qp)?;
        let ring = match queue {
            WorkQueue::Send => &queues.send,
            WorkQueue::Receive => &queues.receive,
        };
        let offset = u64::from(index) * u64::from(QUANTUM_BYTES);
        Some(ring.place.parts(offset, &from_hex(bytes)?))
    }

    /// A queue pair is destroyed.
    pub(crate) fn remove(&mut self, qp: u32) {
        self.0.remove(&qp);
    }

    pub(crate) fn freed(&mut self, memory: &DeviceMemory, at: Iova) {
        self.0.retain(|_, queues| {
            let is_gone = |ring: &Ring| ring.place.is_in(memory, at);
            !is_gone(&queues.send) && !is_gone(&queues.receive)
        });
    }

    /// Requests that were posted since.
    pub(crate) fn scan(&mut self, memory: &DeviceMemory) -> Vec<Event> {
        let mut found = Vec::new();
        for (qp, queues) in &mut self.0 {
            queues.take(memory, *qp, &mut found);
        }
        found
    }

    /// The same of one queue pair.
    pub(crate) fn scan_one(&mut self, memory: &DeviceMemory, qp: u32) -> Vec<Event> {
        let mut found = Vec::new();
        if let Some(queues) = self.0.get_mut(&qp) {
            queues.take(memory, qp, &mut found);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_is_left_out() {
        let inline = 1 << 63 | 1 << 57 | 40 << 48;
        let trailer = 0x80AB_CDEF_0123_4567;
        let found = vec![5, 6, 7, inline, 9, 9, 9, trailer];
        let left = [5, 0, 7, inline, 0, 0, 0, 1 << 63];
        assert_eq!(without_inline_data(found), left);
        // One with fragments is as it was.
        let found = vec![5, 6, 7, 1 << 63, 9, 9, 9, trailer];
        assert_eq!(without_inline_data(found.clone()), found);
    }
}
