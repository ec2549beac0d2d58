//! 0x0C31 Disable Transmit Queues, one queue each (control-path 9.8, lan-path 3.2).

use e810_hal::bus::{RegIndex, TxQueueId};

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{put, put16, put32};
use crate::error::Result;
use crate::opcode::Opcode;

/// vmvf_and_timeout: timeout 5 in bits [15:10], as existing drivers send it;
/// its unit is not in the sources.
const TIMEOUT: u16 = 5 << 10;
/// cmd_type: no reset of a function; frames that cannot leave are discarded when the time is
/// over. Existing drivers always ask for this (`ice/ice_common.c ice_aq_dis_lan_txq`).
const FLUSH_PIPE: u8 = 1 << 3;
/// q_id: an RDMA queue set, not a LAN queue.
const RDMA: u16 = 1 << 15;

/// Disables a LAN transmit queue or an RDMA queue set, and removes its leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisableQueue {
    bytes: [u8; 8],
}

impl DisableQueue {
    /// The LAN transmit queue `queue` below the element `parent`.
    #[must_use]
    pub fn lan(parent: u32, queue: TxQueueId) -> Self {
        // A queue's number is never taken for that of a queue set.
        const { assert!(TxQueueId::MAX < RDMA as u32) };
        Self::new(parent, queue.get() as u16)
    }

    /// The queue set `handle` below the element `parent`.
    #[must_use]
    pub fn rdma(parent: u32, handle: u16) -> Self {
        Self::new(parent, handle | RDMA)
    }

    fn new(parent: u32, id: u16) -> Self {
        let mut bytes = [0; 8];
        put32(&mut bytes, 0, parent);
        put(&mut bytes, 4, [1]);
        put16(&mut bytes, 6, id);
        Self { bytes }
    }
}

impl Command for DisableQueue {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::DISABLE_QUEUES
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [FLUSH_PIPE, 1]);
        put16(&mut params, 2, TIMEOUT);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_each_kind_byte_for_byte() {
        let queue = TxQueueId::new(0x0605).unwrap();
        let lan = DisableQueue::lan(0x0403_0201, queue);
        assert_eq!(lan.data(), Data::Send(&[1, 2, 3, 4, 1, 0, 5, 6]));
        let rdma = DisableQueue::rdma(0x0403_0201, 0x0605);
        assert_eq!(rdma.data(), Data::Send(&[1, 2, 3, 4, 1, 0, 5, 0x86]));
        assert_eq!(rdma.params()[..8], [8, 1, 0, 0x14, 0, 0, 0, 0]);
        assert_eq!(lan.params(), rdma.params());
    }
}
