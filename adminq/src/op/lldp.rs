//! 0x0A01 Configure LLDP MIB Change Event (`ice/ice_dcb.c
//! ice_aq_cfg_lldp_mib_change`).

use super::Command;
use crate::answer::Answer;
use crate::bytes::put;
use crate::error::Result;
use crate::opcode::Opcode;

/// Asks for an event whenever the firmware's LLDP agent has agreed on something new, or ends an
/// agreement.
///
/// The firmware makes the changes itself. Newer drivers also ask to be told of changes that wait
/// for them (bit 1 of the command); those stay undone until another command, so this command does
/// not ask for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LldpEvents {
    /// Whether events are wanted.
    pub wanted: bool,
}

/// command: no events.
const OFF: u8 = 1 << 0;

impl Command for LldpEvents {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::LLDP_MIB_CHANGE
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [if self.wanted { 0 } else { OFF }]);
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_ends_the_events() {
        assert_eq!(LldpEvents { wanted: true }.params(), [0; 16]);
        assert_eq!(LldpEvents { wanted: false }.params()[..2], [1, 0]);
    }
}
