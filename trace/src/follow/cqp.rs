//! The Control QP: its commands, and what they say of other queues (control-path 4).

mod memory;

use std::collections::BTreeMap;

use e810_backends::observed::DeviceMemory;
use e810_card::record::words_to_hex;
use e810_cqp::Opcode;
use e810_cqp::op::QUERY_BYTES;
use e810_datapath::sizing::QUANTUM_BYTES;
use e810_hal::RegOffset;
use e810_hal::regs::{PFHMC_PDINV, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CQPDB, PFPE_CQPTAIL};

use super::hmc::Hmc;
use super::place::{PAGE, Place};
use super::{EntryKind, QueuePair, bits, without_zeros, words};
use crate::record::{Attached, Event, Hex, ShadowOf};

/// 64-bit words of a command, and of the host context.
const WORDS: usize = 8;
/// The word of a command that has the opcode.
const HEADER: usize = 3;
/// Index of the doorbell and of the tail register.
const INDEX: u32 = 0x7FF;
/// Bytes of the host context of a queue pair.
const QP_CONTEXT_BYTES: usize = 256;
/// Bytes of the entries of an SD update behind the third.
const SD_SLOT_BYTES: usize = 128;
/// Bytes of a reply whose size is the device's: all counters, or all features, fit.
const REPLY_BYTES: usize = 1024;

/// What a command says of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Learned {
    /// A ring of entries that the device writes: kind, number, place, entries.
    Ring(EntryKind, u32, Place, u32),
    /// There is no such ring any more.
    RingGone(EntryKind, u32),
    Queues(u32, QueuePair),
    /// There is no such queue pair any more.
    QueuesGone(u32),
    /// The shadow area of a queue: its number, and where the area is.
    Shadow(ShadowOf, u32, u64),
    /// A queue whose entries cannot be followed.
    Hidden(String),
}

/// What the engine does with memory that a command names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Written,
    /// It reads it, and writes its answer there.
    Both,
}

/// Memory that a command names: the word with its address, its bytes, and who uses it how.
fn attached(opcode: Opcode, command: &[u64]) -> Option<(u8, usize, Way)> {
    Some(match opcode {
        Opcode::CreateQp | Opcode::ModifyQp => (2, QP_CONTEXT_BYTES, Way::Read),
        // Entries behind the third; the word has the function's number in its low bits.
        Opcode::UpdatePeSds if bits(*command.get(HEADER)?, 3, 0) > 0 => {
            (2, SD_SLOT_BYTES, Way::Read)
        }
        Opcode::CommitFpmVal => (4, QUERY_BYTES, Way::Both),
        Opcode::QueryFpmVal => (4, QUERY_BYTES, Way::Written),
        Opcode::QueryRdmaFeatures | Opcode::GatherStats => (4, REPLY_BYTES, Way::Written),
        Opcode::UploadContext => (2, QP_CONTEXT_BYTES, Way::Written),
        Opcode::CreateMcastGrp | Opcode::ModifyMcastGrp => (4, REPLY_BYTES, Way::Read),
        _ => return None,
    })
}

/// Words of memory that a command names, without the zeros at its end.
fn attached_words(memory: &DeviceMemory, address: u64, bytes: usize) -> Vec<u64> {
    // Low bits are the command's own where an address is aligned.
    without_zeros(words(memory, address & !0x7, bytes / 8))
}

/// The commands of a driver.
#[derive(Debug, Default)]
pub(crate) struct CqpFollower {
    context_high: u32,
    base: u64,
    entries: u32,
    next: u32,
    /// Commands whose memory the engine will write, by index: header, word, address, bytes.
    replies: BTreeMap<u32, (u64, u8, u64, usize)>,
    /// The entry behind the last one that the tail register has passed.
    tail: u32,
    hmc: Hmc,
}

impl CqpFollower {
    /// The driver is about to write a register.
    pub(crate) fn write(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> (Vec<Event>, Vec<Learned>) {
        let mut learned = Vec::new();
        if offset == PFPE_CCQPHIGH.off() {
            self.context_high = value;
        } else if offset == PFPE_CCQPLOW.off() {
            let address = u64::from(self.context_high) << 32 | u64::from(value);
            return (self.created(memory, address), learned);
        } else if offset == PFPE_CQPDB.off() && self.entries > 0 {
            let mut events = Vec::new();
            let to = value & INDEX;
            while self.next != to && to < self.entries {
                let command = self.command(memory, self.next, &mut events, &mut learned);
                events.extend(command);
                events.extend(self.stale(memory, self.next));
                self.next = (self.next + 1) % self.entries;
            }
            return (events, learned);
        } else if offset == PFHMC_PDINV.off() {
            return (Vec::from_iter(self.hmc.changed(memory, value)), learned);
        }
        (Vec::new(), learned)
    }

    /// The Control QP is created from the context at `address`; 0 ends it.
    fn created(&mut self, memory: &DeviceMemory, address: u64) -> Vec<Event> {
        // Something may be there, too.
        let context = match address {
            0 => Vec::new(),
            address => words(memory, address, WORDS),
        };
        let (Some(first), Some(base)) = (context.first(), context.get(1)) else {
            *self = Self::default();
            return Vec::new();
        };
        *self = Self {
            base: *base,
            entries: 2_u32 << bits(*first, 11, 8),
            ..Self::default()
        };
        vec![Event::CqpContext {
            bytes: words_to_hex(&context),
        }]
    }

    fn command(
        &mut self,
        memory: &DeviceMemory,
        index: u32,
        lists: &mut Vec<Event>,
        learned: &mut Vec<Learned>,
    ) -> Option<Event> {
        let at = self.base.checked_add(u64::from(index) * 64)?;
        let command = words(memory, at, WORDS);
        let header = *command.get(HEADER)?;
        let opcode = Opcode::from_code(bits(header, 37, 32) as u8);
        let mut lent = Vec::new();
        if let Some((word, bytes, way)) = attached(opcode, &command) {
            let address = command.get(usize::from(word)).copied().unwrap_or(0);
            if way != Way::Written {
                let words = attached_words(memory, address, bytes);
                lent.push(Attached {
                    word,
                    bytes: words_to_hex(&words),
                });
            }
            if way != Way::Read {
                self.replies.insert(index, (header, word, address, bytes));
            }
        }
        if opcode == Opcode::UpdatePeSds {
            lists.extend(self.hmc.update(&command, memory));
        }
        lists.extend(self.lists(opcode, &command, memory));
        let shadow = command.get(5).copied().unwrap_or(0);
        match opcode {
            Opcode::CreateCq => {
                let cq = bits(header, 18, 0) as u32;
                learned.push(Learned::Shadow(ShadowOf::Cq, cq, shadow));
            }
            Opcode::CreateQp => {
                let qp = bits(header, 23, 0) as u32;
                learned.push(Learned::Shadow(ShadowOf::Qp, qp, shadow));
            }
            _ => {}
        }
        learned.extend(self.what_it_says(opcode, &command, memory));
        Some(Event::CqpCommand {
            index,
            bytes: words_to_hex(&command),
            memory: lent,
        })
    }

    /// The driver has read a register.
    pub(crate) fn read(
        &mut self,
        memory: &DeviceMemory,
        offset: RegOffset,
        value: u32,
    ) -> Vec<Event> {
        let mut replies = Vec::new();
        if offset == PFPE_CQPTAIL.off() && value & INDEX < self.entries {
            while self.tail != value & INDEX {
                replies.extend(self.completed(memory, self.tail));
                self.tail = (self.tail + 1) % self.entries;
            }
        }
        replies
    }

    /// The command at `index` is complete.
    pub(crate) fn completed(&mut self, memory: &DeviceMemory, index: u32) -> Option<Event> {
        let (header, word, address, bytes) = self.replies.remove(&index)?;
        let mut written = attached_words(memory, address, bytes);
        match Opcode::from_code(bits(header, 37, 32) as u8) {
            Opcode::CommitFpmVal => self.hmc.committed(&written),
            // The first word says how many there are (control-path 6.8). What lies behind them is
            // the driver's.
            Opcode::QueryRdmaFeatures => {
                let features = written.first().map_or(0, |first| bits(*first, 47, 32));
                // There are at least two: the driver has used the memory for something else.
                if features < 2 {
                    return Some(Event::NotSeen {
                        what: "CQP replies".to_owned(),
                        number: bits(header, 37, 32) as u32,
                        entries: 1,
                    });
                }
                written.truncate(features as usize);
            }
            _ => {}
        }
        Some(Event::CqpReply {
            index,
            header: Hex(header),
            memory: vec![Attached {
                word,
                bytes: words_to_hex(&written),
            }],
        })
    }

    /// The place of `bytes` bytes of a ring: at `piece`, or in the pages of the PBLEs from `first` on.
    fn place(
        &self,
        memory: &DeviceMemory,
        is_virtual: bool,
        (piece, first): (u64, u64),
        bytes: u64,
    ) -> Option<Place> {
        match is_virtual {
            false => Some(Place::Piece(piece)),
            true => {
                let pages = self
                    .hmc
                    .pages(memory, bits(first, 27, 0), bytes.div_ceil(PAGE));
                pages.map(Place::Pages)
            }
        }
    }

    /// What a command says of a queue (control-path 4.7 to 4.9, 5.2).
    fn what_it_says(
        &self,
        opcode: Opcode,
        command: &[u64],
        memory: &DeviceMemory,
    ) -> Option<Learned> {
        let &[q0, _, q16, header, q32, _, q48, _] = command else {
            return None;
        };
        let is_virtual = bits(header, 47, 47) == 1;
        let ring = |kind: EntryKind, number, entries: u64| {
            let bytes = entries * kind.bytes();
            match self.place(memory, is_virtual, (q32, q48), bytes) {
                Some(place) => Learned::Ring(kind, number, place, entries as u32),
                None => {
                    Learned::Hidden(format!("{} {number}: its PBLEs are not there", kind.name()))
                }
            }
        };
        let cq = bits(header, 18, 0) as u32;
        let ceq = bits(header, 9, 0) as u32;
        let qp = bits(header, 23, 0) as u32;
        Some(match opcode {
            Opcode::CreateCq => ring(EntryKind::Cqe, cq, bits(q0, 20, 0)),
            // Only where it resizes.
            Opcode::ModifyCq if bits(header, 43, 43) == 1 => {
                ring(EntryKind::Cqe, cq, bits(q0, 20, 0))
            }
            Opcode::DestroyCq => Learned::RingGone(EntryKind::Cqe, cq),
            Opcode::CreateCeq => ring(EntryKind::Ceqe, ceq, bits(q16, 21, 0)),
            Opcode::DestroyCeq => Learned::RingGone(EntryKind::Ceqe, ceq),
            Opcode::CreateAeq => ring(EntryKind::Aeqe, 0, bits(q16, 18, 0)),
            Opcode::DestroyAeq => Learned::RingGone(EntryKind::Aeqe, 0),
            Opcode::CreateQp => {
                let is_virtual = bits(header, 45, 45) == 1;
                let queues = self.queues(memory, q16, is_virtual);
                queues.map_or_else(
                    || Learned::Hidden(format!("the queues of QP {qp} are not there")),
                    |queues| Learned::Queues(qp, queues),
                )
            }
            Opcode::DestroyQp => Learned::QueuesGone(qp),
            _ => return None,
        })
    }

    /// The queues that the context at `address` names.
    fn queues(&self, memory: &DeviceMemory, address: u64, is_virtual: bool) -> Option<QueuePair> {
        let context = words(memory, address, 4);
        let &[w0, send, receive, w24] = context.as_slice() else {
            return None;
        };
        let queue = |address, encoded: u64| {
            let quanta = 4_u32 << encoded;
            let bytes = u64::from(quanta) * u64::from(QUANTUM_BYTES);
            let place = self.place(memory, is_virtual, (address, address), bytes)?;
            Some((place, quanta))
        };
        Some(QueuePair::new(
            queue(send, bits(w24, 15, 12))?,
            queue(receive, bits(w24, 11, 8))?,
            1 << bits(w0, 9, 8),
        ))
    }
}
