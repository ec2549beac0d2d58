//! 0x040E Query Port ETS: which element of the tree belongs to each traffic class
//! (`ice/ice_dcb.c ice_aq_query_port_ets`, `ice/ice_adminq_cmd.h ice_aqc_port_ets_elem`).

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{le32, put32};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of the reply: valid classes@0, priorities@4, shares@8, profiles@16, and
/// the TEIDs.
const BYTES: usize = 64;
const TEIDS: usize = 32;
/// Classes that it names.
const CLASSES: usize = 8;

/// Asks for the traffic classes of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryPortEts {
    /// TEID of the port's root.
    pub root: u32,
}

/// TEID of each traffic class. Like existing drivers, this does not check which classes are
/// active: an inactive one has a TEID that no element has.
pub type ClassTeids = [u32; CLASSES];

impl Command for QueryPortEts {
    type Reply = ClassTeids;

    fn opcode(&self) -> Opcode {
        Opcode::PORT_ETS
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put32(&mut params, 0, self.root);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(BYTES as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<ClassTeids> {
        let mut reply = [0; BYTES];
        // A reply that ends early names no class: existing drivers do not check.
        let _ = answer.fill(0, "traffic classes of the port", &mut reply);
        let mut teids = [0; CLASSES];
        for (class, teid) in teids.iter_mut().enumerate() {
            let at = class.saturating_mul(4).saturating_add(TEIDS);
            *teid = le32(&reply, at);
        }
        Ok(teids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::decode;

    #[test]
    fn each_class_has_its_element() {
        let query = QueryPortEts { root: 0x0403_0201 };
        assert_eq!(query.params()[..5], [1, 2, 3, 4, 0]);
        let mut reply = [0; 64];
        (reply[32], reply[36], reply[63]) = (7, 8, 9);
        let teids = decode(&query, [0; 16], &reply).unwrap();
        assert_eq!(teids, [7, 8, 0, 0, 0, 0, 0, 0x0900_0000]);
        assert_eq!(decode(&query, [0; 16], &reply[..63]), Ok([0; 8]));
    }
}
