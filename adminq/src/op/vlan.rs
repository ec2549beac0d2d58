//! 0x020C Set and 0x020D Get VLAN Mode (control-path 9.10).

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{byte, put};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of the parameters, both ways.
const BYTES: usize = 100;

/// How many VLAN tags the device knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum VlanMode {
    /// One.
    #[default]
    Single,
    /// Two.
    Double,
}

/// Sets the mode, and with it where the RDMA engine finds its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetVlanMode {
    bytes: [u8; BYTES],
}

impl SetVlanMode {
    /// Sets `mode`. Only while the global configuration lock is held.
    #[must_use]
    pub fn new(mode: VlanMode) -> Self {
        // Priority tagging, RDMA packet flags, protocol of management VLANs.
        let (priority, rdma, management) = match mode {
            VlanMode::Single => (0x04, 0x10, 0x11),
            VlanMode::Double => (0x02, 0x1A, 0x10),
        };
        let mut bytes = [0; BYTES];
        put(&mut bytes, 1, [priority]);
        put(&mut bytes, 66, [rdma]);
        put(&mut bytes, 69, [management]);
        Self { bytes }
    }
}

impl Command for SetVlanMode {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::SET_VLAN_MODE
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

/// Asks for the mode. Firmware that knows only one tag does not know the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetVlanMode;

impl Command for GetVlanMode {
    type Reply = VlanMode;

    fn opcode(&self) -> Opcode {
        Opcode::GET_VLAN_MODE
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(BYTES as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<VlanMode> {
        let mut first = [0; 1];
        answer.fill(0, "VLAN mode", &mut first)?;
        Ok(if byte(&first, 0) & 1 == 0 {
            VlanMode::Single
        } else {
            VlanMode::Double
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::decode;
    use std::vec::Vec;

    fn set(mode: VlanMode) -> Vec<(usize, u8)> {
        let bytes = SetVlanMode::new(mode).bytes.into_iter().enumerate();
        bytes.filter(|(_, byte)| *byte != 0).collect()
    }

    #[test]
    fn a_mode_is_three_bytes() {
        assert_eq!(set(VlanMode::Single), [(1, 4), (66, 0x10), (69, 0x11)]);
        assert_eq!(set(VlanMode::Double), [(1, 2), (66, 0x1A), (69, 0x10)]);
        assert_eq!(BYTES, 100);
    }

    #[test]
    fn the_mode_is_one_bit_of_the_reply() {
        assert_eq!(decode(&GetVlanMode, [0; 16], &[0xFE]), Ok(VlanMode::Single));
        assert_eq!(
            decode(&GetVlanMode, [0; 16], &[1; 100]),
            Ok(VlanMode::Double)
        );
        assert!(decode(&GetVlanMode, [0; 16], &[]).is_err());
    }
}
