//! 0x02A0 Add and 0x02A2 Remove Switch Rules: MAC lookups (control-path 9.6).

use e810_hal::bus::VsiId;
use e810_types::MacAddr;

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{byte, le16, put, put16, put32};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of a rule without and with the header it matches.
const BARE_BYTES: usize = 16;
const RULE_BYTES: usize = 32;
/// Lookup on the transmit side, with a VSI as its source. Receive matching follows from the same
/// recipe (control-path 9.6).
const TYPE_TX: u16 = 1;
/// Recipe of MAC lookups.
const RECIPE_MAC: u16 = 1;

/// Bits of an action of type 0, forward to a VSI.
mod action {
    pub(super) const LOOP_BACK: u32 = 1 << 2;
    pub(super) const TO_LAN: u32 = 1 << 3;
    pub(super) const VALID: u32 = 1 << 17;
}

/// Adds a rule: frames to `mac` go to `vsi`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddRule {
    bytes: [u8; RULE_BYTES],
}

impl AddRule {
    /// The rule. Frames to a unicast address of our own are not also sent out to the port;
    /// broadcast and multicast frames are.
    #[must_use]
    pub fn mac(vsi: VsiId, MacAddr(mac): MacAddr) -> Self {
        let mut bytes = [0; RULE_BYTES];
        put16(&mut bytes, 0, TYPE_TX);
        put16(&mut bytes, 4, RECIPE_MAC);
        put16(&mut bytes, 6, vsi.get() as u16);
        let group = byte(&mac, 0) & 1 != 0;
        let lan = if group { action::TO_LAN } else { 0 };
        let action = action::VALID | action::LOOP_BACK | lan | vsi.get() << 4;
        put32(&mut bytes, 8, action);
        put16(&mut bytes, 14, (RULE_BYTES - BARE_BYTES) as u16);
        put(&mut bytes, 16, mac);
        // The rest of the template: source address and VLAN tag.
        put(&mut bytes, 22, [2, 0, 0, 0, 0, 0, 0x81, 0]);
        Self { bytes }
    }
}

/// Index of a rule, by which it is removed.
pub type RuleId = u16;

fn one() -> [u8; 16] {
    let mut params = [0; 16];
    put16(&mut params, 0, 1);
    params
}

impl Command for AddRule {
    type Reply = RuleId;

    fn opcode(&self) -> Opcode {
        Opcode::ADD_RULES
    }

    fn params(&self) -> [u8; 16] {
        one()
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<RuleId> {
        let mut rule = [0; BARE_BYTES];
        answer.fill(0, "switch rule", &mut rule)?;
        Ok(le16(&rule, 12))
    }
}

/// Removes a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoveRule {
    bytes: [u8; BARE_BYTES],
}

impl RemoveRule {
    /// The MAC rule with this index, of this VSI.
    #[must_use]
    pub fn mac(vsi: VsiId, rule: RuleId) -> Self {
        let mut bytes = [0; BARE_BYTES];
        put16(&mut bytes, 0, TYPE_TX);
        put16(&mut bytes, 4, RECIPE_MAC);
        put16(&mut bytes, 6, vsi.get() as u16);
        put16(&mut bytes, 12, rule);
        Self { bytes }
    }
}

impl Command for RemoveRule {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::REMOVE_RULES
    }

    fn params(&self) -> [u8; 16] {
        one()
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
    use crate::op::testing::decode;

    fn vsi() -> VsiId {
        VsiId::new(0x123).unwrap()
    }

    #[test]
    fn a_unicast_rule_byte_for_byte() {
        let mac = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
        let expected = [
            1, 0, 0, 0, 1, 0, 0x23, 0x01, // type, status, recipe, source
            0x34, 0x12, 0x02, 0x00, 0, 0, 16, 0, // action, index, header length
            0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 2, 0, 0, 0, 0, 0, 0x81, 0, 0, 0,
        ];
        let rule = AddRule::mac(vsi(), MacAddr(mac));
        assert_eq!(rule.bytes, expected);
        assert_eq!(rule.params()[..2], [1, 0]);
        assert_eq!(rule.data(), Data::Send(&expected));
    }

    #[test]
    fn broadcast_goes_out_too() {
        let rule = AddRule::mac(vsi(), MacAddr([0xFF; 6]));
        assert_eq!(rule.bytes[8], 0x3C);
    }

    #[test]
    fn a_rule_is_removed_by_the_index_in_the_reply() {
        let rule = AddRule::mac(vsi(), MacAddr([0xFF; 6]));
        let mut reply = rule.bytes;
        reply[12..14].copy_from_slice(&[0x34, 0x12]);
        assert_eq!(decode(&rule, [0; 16], &reply), Ok(0x1234));
        assert!(decode(&rule, [0; 16], &reply[..15]).is_err());
        assert_eq!(
            RemoveRule::mac(vsi(), 0x1234).bytes,
            [1, 0, 0, 0, 1, 0, 0x23, 1, 0, 0, 0, 0, 0x34, 0x12, 0, 0]
        );
    }
}
