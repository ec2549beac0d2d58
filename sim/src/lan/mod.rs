//! The LAN queues of a function, as described in `docs/reference/lan-path.md`. Frames that the RDMA
//! engine does not take are received into the driver's memory, and frames in the driver's memory
//! are sent.
//!
//! Decoded from the reference with its own code, like everything here. Behaviour of silicon for
//! which the reference has no source is a choice: descriptors are written back at
//! once `[inf lan_write_back]`, and byte counters include the FCS `[inf counted_fcs]`.

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

/// Bytes of the frame check sequence, which frames here do not have.
const FCS: usize = 4;

/// The switch block's decision for a VSI's frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LanVsi {
    /// The receive queue for the frame.
    pub(crate) queue: u16,
    /// The hash that selected that queue, if any.
    pub(crate) hash: Option<u32>,
    /// The type of the tag that is removed from arriving frames, if any.
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
    /// Called when the firmware has added a transmit queue.
    pub(crate) fn add_tx(&mut self, number: u16, context: TxContext) {
        self.tx.insert(number, TxQueue::new(context));
    }

    /// Called when the firmware has removed a transmit queue.
    pub(crate) fn remove_tx(&mut self, number: u16) {
        self.tx.remove(&number);
    }

    /// Whether a transmit queue with that number exists.
    pub(crate) fn has_tx(&self, number: u16) -> bool {
        self.tx.contains_key(&number)
    }

    /// Whether a receive queue is on.
    pub(crate) fn receives(&self) -> bool {
        !self.rx.is_empty()
    }

    /// A reset of the function: no queue is left (QRX_CTRL is cleared, and the firmware drops its
    /// queues).
    pub(crate) fn reset(&mut self) {
        self.tx.clear();
        self.rx.clear();
    }
}

#[cfg(test)]
mod tests;
