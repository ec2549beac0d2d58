//! What a device writes: the answers of a trace.

use std::collections::BTreeMap;
use std::fmt;

use e810_card::record::words_from_hex;

use crate::record::{Event, ShadowOf, WorkQueue};

/// The bit of an entry's last word that changes from lap to lap.
const VALID: u64 = 1 << 63;

/// A place where a device writes one entry after the other. Completions of several work queues, and
/// events of several completion queues, have an order only among those of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answer {
    AdminqReply,
    AdminqEvent,
    /// Replies to commands of the Control QP with this opcode.
    CqpReply(u8),
    /// Completions of a work queue: the completion queue, the queue pair, and whether they are of its
    /// send queue. Those of the Control QP are of queue pair 0.
    Cqe(u32, u32, bool),
    /// Events of a queue: its number, and the context of the completion queue.
    Ceqe(u32, u64),
    Aeqe,
    /// Descriptors of a LAN queue that are written back.
    Lan(WorkQueue, u32),
    /// The shadow area of a queue pair.
    QpShadow(u32),
}

/// Finds the places of what a device has written, one entry after the other: the second half of a
/// completion of 64 bytes is where its first half is.
#[derive(Debug, Default)]
pub struct Answers(BTreeMap<u32, Answer>);

impl Answers {
    /// Where the device has written this; `None` if it is not written by the device.
    pub fn place(&mut self, event: &Event) -> Option<Answer> {
        let place = event.answer()?;
        let Event::Cqe { cq, bytes, .. } = event else {
            return Some(place);
        };
        if let Some(first) = self.0.remove(cq) {
            return Some(first);
        }
        let words = words_from_hex(bytes).unwrap_or_default();
        // EXTCQE (data-path 4.1).
        if words.get(3).is_some_and(|word| word >> 50 & 1 == 1) {
            self.0.insert(*cq, place);
        }
        Some(place)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AdminqReply => write!(f, "AdminQ replies"),
            Self::AdminqEvent => write!(f, "AdminQ events"),
            Self::CqpReply(opcode) => write!(f, "CQP replies to {opcode:#04x}"),
            Self::Cqe(0, ..) => write!(f, "completions of CQ 0"),
            Self::Cqe(cq, qp, is_send) => {
                let queue = if *is_send { "SQ" } else { "RQ" };
                write!(f, "completions of the {queue} of QP {qp} in CQ {cq}")
            }
            Self::Ceqe(ceq, cq) => write!(f, "events of CEQ {ceq} for context {cq:#x}"),
            Self::Aeqe => write!(f, "asynchronous events"),
            Self::Lan(queue, number) => {
                let queue = match queue {
                    WorkQueue::Send => "TX",
                    WorkQueue::Receive => "RX",
                };
                write!(f, "descriptors of LAN {queue} queue {number}")
            }
            Self::QpShadow(qp) => write!(f, "the shadow area of QP {qp}"),
        }
    }
}

impl Event {
    /// Where the device has written this; `None` if it is not written by the device.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        Some(match self {
            Self::AdminqReply(_) => Answer::AdminqReply,
            Self::AdminqEvent(_) => Answer::AdminqEvent,
            Self::CqpReply { header, .. } => Answer::CqpReply((header.0 >> 32 & 0x3F) as u8),
            Self::Cqe { cq: 0, .. } => Answer::Cqe(0, 0, true),
            Self::Cqe { cq, bytes, .. } => {
                let words = words_from_hex(bytes).unwrap_or_default();
                let word = |index: usize| words.get(index).copied().unwrap_or(0);
                // QPID and SQ (data-path 4.1).
                let (qp, is_send) = (word(2) >> 32 & 0xFF_FFFF, word(3) >> 62 & 1 == 1);
                Answer::Cqe(*cq, qp as u32, is_send)
            }
            Self::Ceqe { ceq, bytes, .. } => {
                let words = words_from_hex(bytes).unwrap_or_default();
                Answer::Ceqe(*ceq, words.first().map_or(0, |word| word & !VALID))
            }
            Self::Aeqe { .. } => Answer::Aeqe,
            Self::LanWritten { queue, number, .. } => Answer::Lan(*queue, *number),
            Self::Shadow {
                of: ShadowOf::Qp,
                number,
                ..
            } => Answer::QpShadow(*number),
            _ => return None,
        })
    }

    /// Whether the device has written the same there: where in a queue an entry is depends on the other
    /// work queues, and its valid bit on where it is.
    #[must_use]
    pub fn is_same_answer(&self, other: &Self) -> bool {
        let same = |bytes: &str, others: &str| {
            let parsed = words_from_hex(bytes).zip(words_from_hex(others));
            parsed.is_some_and(|(mut bytes, mut others)| {
                for words in [&mut bytes, &mut others] {
                    words
                        .last_mut()
                        .into_iter()
                        .for_each(|last| *last &= !VALID);
                }
                bytes == others
            })
        };
        match (self, other) {
            (Self::Cqe { bytes, .. }, Self::Cqe { bytes: others, .. })
            | (Self::Ceqe { bytes, .. }, Self::Ceqe { bytes: others, .. }) => same(bytes, others),
            (one, other) => one == other,
        }
    }
}
