//! Send and receive queue entries as the device reads them, and the completion entries it writes.
//!
//! A queue entry is a sequence of 64-bit words. Read the header word first (word 3 of the first
//! quantum); when its valid bit has the polarity of the current lap, [`send_quanta`] returns the
//! length to read, and [`SendWqe::decode`] or [`ReceiveWqe::decode`] decodes the entry.
//! [`Cqe::encode`] encodes a completion.
//!
//! Everything is written from data-path 1, 2 and 4. Bytes that the reference calls don't-care are
//! not read. Bits that software sets although they are ignored are reported as [`Lints`] and have
//! no other effect.

mod ae;
mod bits;
mod cqe;
mod error;
mod fragment;
mod inline;
mod lints;
mod operation;
mod plain;
mod receive;
mod send;
#[cfg(test)]
mod tests;

pub use ae::{AeCode, AeSource};
pub use cqe::{Cqe, CqeEntries, Datagram};
pub use error::WqeError;
pub use fragment::{Fragment, Fragments, MAX_FRAGMENTS};
pub use inline::{InlineData, MAX_INLINE};
pub use lints::Lints;
pub use operation::{Operation, Payload, Remote, UdTarget};
pub use plain::{PlainSend, plain_receive};
pub use receive::ReceiveWqe;
pub use send::{SendWqe, Service, is_valid, send_quanta};

/// Bytes of a quantum, the unit of ring indexes (data-path 1.1).
pub const QUANTUM: usize = 32;

/// 64-bit words of a quantum.
pub const QUANTUM_WORDS: usize = 4;

/// Longest entry in quanta; also the size of the aligned chunk that a send entry never crosses
/// (data-path 1.1).
pub const MAX_QUANTA: usize = 8;
