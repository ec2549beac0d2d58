//! Memory that the engine reads or writes because of a command, and that the command does not have in its
//! words.

use e810_backends::observed::DeviceMemory;
use e810_card::record::{from_hex, words_from_hex};
use e810_cqp::Opcode;
use e810_datapath::sizing::QUANTUM_BYTES;

use super::{CqpFollower, HEADER, WORDS, Way, attached};
use crate::follow::place::{PAGE, Place};
use crate::follow::{EntryKind, QueuePair, bits, memory_line, words};
use crate::record::{Attached, Event, WorkQueue};

/// Bytes of the shadow area of a queue.
const SHADOW_BYTES: u64 = 64;

/// Bytes of a page of HPAGESIZE `code` (control-path 4.10).
const fn page_bytes(code: u64) -> u64 {
    match code {
        0 => 1 << 12,
        1 => 1 << 21,
        _ => 1 << 30,
    }
}

impl CqpFollower {
    /// The PBLEs on which a command relies (control-path 6.7).
    pub(super) fn lists(
        &self,
        opcode: Opcode,
        command: &[u64],
        memory: &DeviceMemory,
    ) -> Vec<Event> {
        let &[q0, q8, q16, header, _, _, q48, _] = command else {
            return Vec::new();
        };
        let is_virtual = bits(header, 47, 47) == 1;
        let of_ring = |kind: EntryKind, entries: u64| {
            let pages = (entries * kind.bytes()).div_ceil(PAGE);
            self.hmc.lists(
                memory,
                (1, bits(q48, 27, 0)),
                if is_virtual { pages } else { 0 },
            )
        };
        match opcode {
            Opcode::CreateCq | Opcode::ModifyCq => of_ring(EntryKind::Cqe, bits(q0, 20, 0)),
            Opcode::CreateCeq => of_ring(EntryKind::Ceqe, bits(q16, 21, 0)),
            Opcode::CreateAeq => of_ring(EntryKind::Aeqe, bits(q16, 18, 0)),
            Opcode::CreateQp if bits(header, 45, 45) == 1 => {
                let context = words(memory, q16, 4);
                let &[_, send, receive, w24] = context.as_slice() else {
                    return Vec::new();
                };
                let of_queue = |first: u64, encoded: u64| {
                    let pages = ((4 << encoded) * u64::from(QUANTUM_BYTES)).div_ceil(PAGE);
                    self.hmc.lists(memory, (1, bits(first, 27, 0)), pages)
                };
                let mut lines = of_queue(send, bits(w24, 15, 12));
                lines.extend(of_queue(receive, bits(w24, 11, 8)));
                lines
            }
            Opcode::RegMr => {
                let (level, size) = (bits(header, 45, 44), page_bytes(bits(header, 47, 46)));
                let pages = ((q0 & (size - 1)) + bits(q8, 45, 0)).div_ceil(size);
                self.hmc.lists(memory, (level, bits(q48, 27, 0)), pages)
            }
            _ => Vec::new(),
        }
    }

    /// The PBLEs on which a request relies: only a fast registration has some (data-path 1.7).
    pub(crate) fn lists_of_request(&self, memory: &DeviceMemory, request: &Event) -> Vec<Event> {
        const FAST_REGISTER: u64 = 0x09;
        let Event::Wqe {
            queue: WorkQueue::Send,
            bytes,
            ..
        } = request
        else {
            return Vec::new();
        };
        let Some(&[q0, q8, q16, header, ..]) = words_from_hex(bytes).as_deref() else {
            return Vec::new();
        };
        if bits(header, 37, 32) != FAST_REGISTER {
            return Vec::new();
        }
        let (level, size) = (bits(header, 45, 44), page_bytes(bits(header, 47, 46)));
        let pages = ((q0 & (size - 1)) + bits(q16, 47, 0)).div_ceil(size);
        let first = bits(q8, 11, 0) << 16 | bits(q16, 63, 48);
        self.hmc.lists(memory, (level, first), pages)
    }

    /// The memory that the engine gets by a command to write there: rings and shadow areas of a new queue,
    /// or a buffer; with their bytes. Drivers leave zeros there.
    fn given(&self, memory: &DeviceMemory, opcode: Opcode, command: &[u64]) -> Vec<(Place, u64)> {
        let &[q0, _, q16, header, q32, shadow, q48, _] = command else {
            return Vec::new();
        };
        let ring = |kind: EntryKind, entries: u64| {
            let bytes = entries * kind.bytes();
            let is_virtual = bits(header, 47, 47) == 1;
            let place = self.place(memory, is_virtual, (q32, q48), bytes);
            place.map(|place| (place, bytes))
        };
        let area = (Place::Piece(shadow), SHADOW_BYTES);
        match opcode {
            Opcode::CreateCq => Vec::from_iter(
                ring(EntryKind::Cqe, bits(q0, 20, 0))
                    .into_iter()
                    .chain([area]),
            ),
            Opcode::ModifyCq if bits(header, 43, 43) == 1 => {
                Vec::from_iter(ring(EntryKind::Cqe, bits(q0, 20, 0)))
            }
            Opcode::CreateCeq => Vec::from_iter(ring(EntryKind::Ceqe, bits(q16, 21, 0))),
            Opcode::CreateAeq => Vec::from_iter(ring(EntryKind::Aeqe, bits(q16, 18, 0))),
            Opcode::CreateQp => {
                let is_virtual = bits(header, 45, 45) == 1;
                let queues = self.queues(memory, q16, is_virtual);
                let rings = queues.into_iter().flat_map(QueuePair::into_places);
                rings.chain([area]).collect()
            }
            _ => match attached(opcode, command) {
                Some((word, bytes, Way::Written)) => {
                    let address = command.get(usize::from(word)).copied().unwrap_or(0);
                    vec![(Place::Piece(address & !0x7), bytes as u64)]
                }
                _ => Vec::new(),
            },
        }
    }

    /// What stands in the memory that the engine gets by the command at `index`, if it is not zeros.
    pub(super) fn stale(&self, memory: &DeviceMemory, index: u32) -> Vec<Event> {
        let at = self.base.checked_add(u64::from(index) * 64);
        let command = at.map_or_else(Vec::new, |at| words(memory, at, WORDS));
        let header = command.get(HEADER).copied().unwrap_or(0);
        let opcode = Opcode::from_code(bits(header, 37, 32) as u8);
        let mut lines = Vec::new();
        for (place, bytes) in self.given(memory, opcode, &command) {
            // Page by page: each is in one piece.
            for offset in (0..bytes).step_by(PAGE as usize) {
                let count = (PAGE.min(bytes - offset) / 8) as usize;
                let found = place.words(memory, offset, count);
                if found.iter().any(|word| *word != 0) {
                    lines.extend(place.at(offset).map(|at| memory_line(at, &found)));
                }
            }
        }
        lines
    }

    /// The memory that the engine gets by a command, which is in memory: addresses and zeros.
    pub(crate) fn given_by(&self, memory: &DeviceMemory, bytes: &str) -> Vec<(u64, Vec<u8>)> {
        let command = words_from_hex(bytes).unwrap_or_default();
        let header = command.get(HEADER).copied().unwrap_or(0);
        let opcode = Opcode::from_code(bits(header, 37, 32) as u8);
        let queues = self.given(memory, opcode, &command);
        let parts = |(place, bytes): (Place, u64)| place.parts(0, &vec![0; bytes as usize]);
        queues.into_iter().flat_map(parts).collect()
    }

    /// Where the driver has put a command, and the memory that the command names.
    pub(crate) fn parts(
        &self,
        index: u32,
        bytes: &str,
        memory: &[Attached],
    ) -> Option<Vec<(u64, Vec<u8>)>> {
        let at = self.base.checked_add(u64::from(index) * 64)?;
        let command = words_from_hex(bytes)?;
        let opcode = Opcode::from_code(bits(*command.get(HEADER)?, 37, 32) as u8);
        let mut parts = Vec::new();
        for lent in memory {
            let address = command.get(usize::from(lent.word))? & !0x7;
            let mut found = from_hex(&lent.bytes)?;
            // The zeros at its end are not in the line.
            if let Some((_, bytes, _)) = attached(opcode, &command) {
                found.resize(bytes, 0);
            }
            parts.push((address, found));
        }
        parts.push((at, from_hex(bytes)?));
        Some(parts)
    }
}
