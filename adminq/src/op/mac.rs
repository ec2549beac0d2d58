//! 0x0107 Read MAC and 0x0603 Set MAC Configuration (control-path 9.4).

use e810_types::MacAddr;

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{byte, le16, put16};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 8;
/// A port reports at most a LAN and a wake-on-LAN address
/// (`ice/ice_common.c ice_init_hw`).
const ENTRIES: usize = 2;
/// Entry type of the LAN address.
const LAN: u8 = 0;
/// flags: the LAN address is valid.
const LAN_VALID: u16 = 1 << 4;

/// Reads the function's MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadMac;

impl Command for ReadMac {
    type Reply = MacAddr;

    fn opcode(&self) -> Opcode {
        Opcode::READ_MAC
    }

    fn data(&self) -> Data<'_> {
        Data::Receive((ENTRIES * ENTRY_BYTES) as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<MacAddr> {
        let flags = le16(answer.params(), 0);
        if flags & LAN_VALID == 0 {
            return Err(answer.bad("flags without a LAN address", flags.into()));
        }
        let count = usize::from(answer.param(4)).min(ENTRIES);
        for number in 0..count {
            let at = number.saturating_mul(ENTRY_BYTES);
            let mut entry = [0; ENTRY_BYTES];
            answer.fill(at, "list of MAC addresses", &mut entry)?;
            let [_, kind, mac @ ..] = entry;
            if kind == LAN {
                let multicast = byte(&mac, 0) & 1 != 0;
                if multicast || mac == [0; 6] {
                    return Err(answer.bad("first octet of the LAN address", byte(&mac, 0).into()));
                }
                return Ok(MacAddr(mac));
            }
        }
        Err(answer.bad("number of addresses without a LAN address", count as u64))
    }
}

/// Sets the port's greatest frame, and the pause values as the port has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetMacConfig {
    /// Greatest frame in bytes, FCS included.
    pub max_frame: u16,
    /// Transmit timer of link flow control. The command sets it too, so existing
    /// drivers read it from the port and send it back.
    pub pause_time: u16,
    /// Refresh threshold of link flow control, likewise.
    pub pause_refresh: u16,
}

impl Command for SetMacConfig {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::MAC_CONFIG
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put16(&mut params, 0, self.max_frame);
        put16(&mut params, 4, self.pause_time);
        put16(&mut params, 6, self.pause_refresh);
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::{decode, params};

    const WOL: [u8; 8] = [0, 1, 2, 9, 9, 9, 9, 9];
    const ADDRESS: [u8; 8] = [0, 0, 0x02, 1, 2, 3, 4, 5];

    fn reply(count: u8) -> [u8; 16] {
        params(&[0x10, 0, 0, 0, count])
    }

    #[test]
    fn the_lan_address_is_found_wherever_it_stands() {
        let list = [WOL, ADDRESS].concat();
        assert_eq!(
            decode(&ReadMac, reply(2), &list),
            Ok(MacAddr([2, 1, 2, 3, 4, 5]))
        );
        let list = [ADDRESS, WOL].concat();
        assert_eq!(
            decode(&ReadMac, reply(1), &list),
            Ok(MacAddr([2, 1, 2, 3, 4, 5]))
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert!(decode(&ReadMac, [0; 16], &ADDRESS).is_err(), "not valid");
        assert!(decode(&ReadMac, reply(1), &WOL).is_err(), "no LAN address");
        assert!(decode(&ReadMac, reply(2), &WOL).is_err(), "too short");
        assert!(decode(&ReadMac, reply(1), &[0; 8]).is_err(), "zero");
        let multicast = [0, 0, 1, 0, 0x5E, 0, 0, 1];
        assert!(decode(&ReadMac, reply(1), &multicast).is_err());
    }

    #[test]
    fn a_mac_configuration_is_frame_and_pause() {
        let command = SetMacConfig {
            max_frame: 9728,
            pause_time: 0xFFFF,
            pause_refresh: 0x7FFF,
        };
        assert_eq!(
            command.params()[..9],
            [0x00, 0x26, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F, 0]
        );
    }
}
