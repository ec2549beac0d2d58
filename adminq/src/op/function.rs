//! 0x02A4 Clear PF Configuration and 0x0110 Clear PXE Mode (control-path 9.4).

use super::Command;
use crate::answer::Answer;
use crate::bytes::put;
use crate::error::Result;
use crate::opcode::Opcode;

/// Clear PF Configuration: removes what an earlier driver left in the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClearPf;

impl Command for ClearPf {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::CLEAR_PF
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

/// Clear PXE Mode: the function leaves the state in which it boots a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClearPxe;

impl Command for ClearPxe {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::CLEAR_PXE
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        // rx_cnt, as existing drivers send it.
        put(&mut params, 0, [2]);
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Data;

    #[test]
    fn neither_carries_data() {
        assert_eq!((ClearPf.params(), ClearPf.data()), ([0; 16], Data::None));
        assert_eq!(ClearPxe.params()[..2], [2, 0]);
        assert_eq!(ClearPxe.opcode().0, 0x0110);
    }
}
