//! 0x0200 Get Switch Configuration and 0x0203 Set Port Parameters
//! (control-path 9.6).

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{le16, put16};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes asked for at a time (`ICE_SW_CFG_MAX_BUF_LEN`).
const BUFFER: u16 = 2048;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 6;

/// Asks for a page of the switch's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetSwitchConfig {
    /// First element; 0 at first, then what the previous page gave.
    pub first: u16,
}

/// The physical port of the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SwitchPort {
    /// Logical port number: what link and topology commands name.
    pub lport: u8,
    /// Number of the switch.
    pub swid: u16,
    /// The function that owns it.
    pub function: u16,
}

/// A page of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SwitchPage {
    /// The last physical port in the page, if there is one.
    pub port: Option<SwitchPort>,
    /// Where the next page begins.
    pub next: Option<u16>,
}

impl Command for GetSwitchConfig {
    type Reply = SwitchPage;

    fn opcode(&self) -> Opcode {
        Opcode::SWITCH_CONFIG
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put16(&mut params, 2, self.first);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(BUFFER)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<SwitchPage> {
        let next = le16(answer.params(), 2);
        let count = le16(answer.params(), 4);
        let mut port = None;
        for number in 0..usize::from(count) {
            let at = number.saturating_mul(ENTRY_BYTES);
            let mut entry = [0; ENTRY_BYTES];
            answer.fill(at, "list of switch elements", &mut entry)?;
            let number = le16(&entry, 0);
            // Bits [15:14] are the type; 0 is a physical port.
            if number >> 14 == 0 {
                port = Some(SwitchPort {
                    // Link commands have only a byte for it; existing drivers do the same.
                    lport: number as u8,
                    swid: le16(&entry, 2),
                    function: le16(&entry, 4) & 0x7FFF,
                });
            }
        }
        Ok(SwitchPage {
            port,
            next: (next != 0).then_some(next),
        })
    }
}

/// How frames between local VSIs are treated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LocalForwarding {
    /// Forwarded inside the card.
    Enabled,
}

/// Sets parameters of the whole port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetPortParameters {
    /// Number of the switch.
    pub swid: u16,
    /// Two VLAN tags.
    pub double_vlan: bool,
    /// Frames between local VSIs.
    pub local: LocalForwarding,
}

impl Command for SetPortParameters {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::PORT_PARAMETERS
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put16(&mut params, 0, u16::from(self.double_vlan) << 2);
        put16(&mut params, 4, self.swid | 1 << 15);
        let LocalForwarding::Enabled = self.local;
        // Mode 0, and the bit that says that the mode is given.
        put16(&mut params, 6, 1 << 2);
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

    const VSI: [u8; 6] = [0x05, 0x80, 1, 0, 0, 0];
    const PORT: [u8; 6] = [0x01, 0x00, 2, 0, 3, 0];

    #[test]
    fn the_port_is_the_element_of_type_0() {
        let list = [VSI, PORT, VSI].concat();
        let page = decode(
            &GetSwitchConfig { first: 0 },
            params(&[0, 0, 0, 0, 3]),
            &list,
        );
        let port = SwitchPort {
            lport: 1,
            swid: 2,
            function: 3,
        };
        assert_eq!(
            page,
            Ok(SwitchPage {
                port: Some(port),
                next: None
            })
        );
    }

    #[test]
    fn pages_follow_one_another() {
        let page = decode(
            &GetSwitchConfig { first: 7 },
            params(&[0, 0, 9, 1, 1]),
            &VSI,
        )
        .unwrap();
        assert_eq!((page.port, page.next), (None, Some(0x109)));
        assert_eq!(GetSwitchConfig { first: 0x109 }.params()[..4], [0, 0, 9, 1]);
        assert!(
            decode(
                &GetSwitchConfig { first: 0 },
                params(&[0, 0, 0, 0, 2]),
                &VSI
            )
            .is_err()
        );
    }

    #[test]
    fn port_parameters_mark_what_they_give() {
        let command = |double_vlan| SetPortParameters {
            swid: 3,
            double_vlan,
            local: LocalForwarding::Enabled,
        };
        assert_eq!(command(false).params()[..8], [0, 0, 0, 0, 3, 0x80, 4, 0]);
        assert_eq!(command(true).params()[0], 4);
    }
}
