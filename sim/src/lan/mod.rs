//! The LAN queues of a function, as `docs/reference/lan-path.md` has them: frames that the RDMA
//! engine does not take are received into memory of the driver, and frames in its memory are sent.
//!
//! Decoded from the reference with code of its own, as everything here. What silicon does where
//! the reference has no source is a choice, marked `[inf]`: descriptors are written back at once,
//! byte counters include the FCS.

mod counters;
mod crc32c;
mod headers;
mod rss;
mod rx;
mod rx_descriptor;
mod segment;
mod tx;
mod tx_context;

use std::collections::BTreeMap;

pub(crate) use counters::{Counters, Direction};
pub(crate) use headers::{PACKET_TYPES, is_roce};
pub(crate) use rss::{HashFields, Spread, packet_type};
pub(crate) use rx::wire_len;
pub(crate) use tx::Sender;
pub(crate) use tx_context::TxContext;

use rx::RxQueue;
use tx::TxQueue;

/// Bytes of the frame check sequence, which no frame here has.
const FCS: usize = 4;

/// What the switch block of a VSI says about its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LanVsi {
    /// The receive queue that the frame is for.
    pub(crate) queue: u16,
    /// The hash by which that queue was found, if it was.
    pub(crate) hash: Option<u32>,
    /// The type of the tag that is taken out of arriving frames, if one is.
    pub(crate) strip: Option<u16>,
    /// The type of the tag that L2TAG2 of a context descriptor inserts.
    pub(crate) outer_type: u16,
}

/// The queues of one function.
#[derive(Debug, Default)]
pub(crate) struct LanQueues {
    tx: BTreeMap<u16, TxQueue>,
    rx: BTreeMap<u16, RxQueue>,
    pub(crate) counters: Counters,
}

impl LanQueues {
    /// The firmware has added a transmit queue.
    pub(crate) fn add_tx(&mut self, number: u16, context: TxContext) {
        self.tx.insert(number, TxQueue::new(context));
    }

    /// The firmware has taken a transmit queue away.
    pub(crate) fn remove_tx(&mut self, number: u16) {
        self.tx.remove(&number);
    }

    /// Whether there is a transmit queue of that number.
    pub(crate) fn has_tx(&self, number: u16) -> bool {
        self.tx.contains_key(&number)
    }

    /// Whether a receive queue is on.
    pub(crate) fn receives(&self) -> bool {
        !self.rx.is_empty()
    }

    /// A reset of the function: no queue is left (QRX_CTRL is cleared, and the firmware forgets
    /// its queues).
    pub(crate) fn reset(&mut self) {
        self.tx.clear();
        self.rx.clear();
    }
}

#[cfg(test)]
mod tests;
