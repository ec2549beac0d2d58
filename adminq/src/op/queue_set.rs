//! 0x0C33 Add RDMA Queue Set (control-path 9.8).

use super::sched::element_info;
use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{le32, put, put16, put32};
use crate::error::Result;
use crate::opcode::Opcode;

/// Element type 5.
const LEAF: u8 = 5;

/// Registers an RDMA queue set: a leaf of the scheduler tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddQueueSet {
    bytes: [u8; 32],
}

impl AddQueueSet {
    /// Queue set `handle`, which the engine gave, below the element `parent`.
    #[must_use]
    pub fn new(parent: u32, handle: u16) -> Self {
        let mut bytes = [0; 32];
        put32(&mut bytes, 0, parent);
        put16(&mut bytes, 4, 1);
        put16(&mut bytes, 8, handle);
        put(&mut bytes, 16, element_info(LEAF));
        Self { bytes }
    }
}

impl Command for AddQueueSet {
    /// TEID of the leaf.
    type Reply = u32;

    fn opcode(&self) -> Opcode {
        Opcode::ADD_QUEUE_SET
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
        answer.fill(0, "RDMA queue set", &mut reply)?;
        Ok(le32(&reply, 12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::decode;

    #[test]
    fn a_queue_set_byte_for_byte() {
        let command = AddQueueSet::new(0x0403_0201, 0x0605);
        let expected = [
            1, 2, 3, 4, 1, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0, // parent, one, handle, TEID
            5, 7, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0,
        ];
        assert_eq!(command.data(), Data::Send(&expected));
        assert_eq!(command.params()[..2], [1, 0]);
        let mut reply = expected;
        reply[12..16].copy_from_slice(&[8, 7, 6, 5]);
        assert_eq!(decode(&command, [0; 16], &reply), Ok(0x0506_0708));
        assert!(decode(&command, [0; 16], &reply[..15]).is_err());
    }
}
