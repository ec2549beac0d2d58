//! 0x0C30 Add Transmit LAN Queues, one queue each (lan-path 3.1).

use super::sched::element_info;
use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{le32, put, put16, put32};
use crate::error::Result;
use crate::opcode::Opcode;

mod context;

pub use context::{TX_CONTEXT_BYTES, TxQueueContext};

/// Bytes of a group with one queue.
const GROUP_BYTES: usize = 56;

/// Adds a LAN transmit queue: a leaf of the scheduler tree. The queue is on once the command is
/// answered (lan-path 1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddTxQueue {
    bytes: [u8; GROUP_BYTES],
}

impl AddTxQueue {
    /// The queue of `context` below the element `parent`, a queue group.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange): what does not fit the context.
    pub fn new(parent: u32, context: &TxQueueContext) -> Result<Self> {
        let mut bytes = [0; GROUP_BYTES];
        put32(&mut bytes, 0, parent);
        put(&mut bytes, 4, [1]);
        put16(&mut bytes, 8, context.queue.get() as u16);
        put(&mut bytes, 16, context.encode()?);
        // Type 0: the firmware makes it a leaf. Without the generic section it
        // refuses the queue (lan-path 3.1).
        put(&mut bytes, 40, element_info(0));
        Ok(Self { bytes })
    }
}

impl Command for AddTxQueue {
    /// TEID of the leaf.
    type Reply = u32;

    fn opcode(&self) -> Opcode {
        Opcode::ADD_TX_QUEUES
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [1]);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<u32> {
        let mut reply = [0; 16];
        answer.fill(0, "LAN transmit queue", &mut reply)?;
        Ok(le32(&reply, 12))
    }
}

#[cfg(test)]
mod tests;
