//! 0x0600 Get PHY Capabilities and 0x0601 Set PHY Configuration (control-path
//! 9.4; fields after caps from `ice/ice_adminq_cmd.h ice_aqc_get_phy_caps_data`).

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{array, byte, put, put16};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of the reply with all sixteen qualified modules.
const CAPS_BYTES: u16 = 560;
/// Bytes of it that are read.
const USED_BYTES: usize = 36;
/// Bytes of a configuration.
const CONFIG_BYTES: usize = 24;

/// What to report.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PhyReport {
    /// What port and module can do together.
    TopologyWithMedia,
    /// What is configured.
    Active,
    /// What is configured by default: what port and module can do together, as far as the card's
    /// NVM allows.
    Default,
}

/// Asks for the PHY's capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetPhyCaps {
    /// The port.
    pub lport: u8,
    /// What to report.
    pub report: PhyReport,
}

/// Capabilities, or a configuration, of the PHY: its first 36 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhyCaps {
    bytes: [u8; USED_BYTES],
}

/// caps: the link is enabled.
const ENABLE_LINK: u8 = 1 << 3;
/// caps of a configuration: apply it at once.
const UPDATE_LINK: u8 = 1 << 5;
/// Bits of caps that mean the same in a configuration. Bit 4 does not exist there, and bit 5
/// means something else (`ICE_AQ_PHY_ENA_VALID_MASK`).
const COMMON: u8 = 0xCF;

impl PhyCaps {
    /// Whether the link is enabled.
    #[must_use]
    pub fn link_enabled(&self) -> bool {
        byte(&self.bytes, 16) & ENABLE_LINK != 0
    }

    /// Whether the configuration `self` is `wanted`, compared as in existing drivers
    /// (`ice/ice_common.c ice_phy_caps_equals_cfg`): PHY types, pause and low power, EEE, error
    /// correction. Does not compare whether the link is enabled.
    #[must_use]
    pub fn is_configured_as(&self, wanted: &Self) -> bool {
        const COMPARED: u8 = COMMON & !ENABLE_LINK;
        let parts = |caps: &Self| {
            (
                array::<16>(&caps.bytes, 0),
                byte(&caps.bytes, 16) & COMPARED,
                // Low power, EEE and its timer.
                array::<5>(&caps.bytes, 17),
                byte(&caps.bytes, 34),
            )
        };
        parts(self) == parts(wanted)
    }

    /// Whether there is any PHY type, that is, whether the module can be used.
    #[must_use]
    pub fn any_type(&self) -> bool {
        array::<16>(&self.bytes, 0) != Some([0; 16])
    }
}

impl Command for GetPhyCaps {
    type Reply = PhyCaps;

    fn opcode(&self) -> Opcode {
        Opcode::PHY_CAPS
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [self.lport]);
        let report = match self.report {
            PhyReport::TopologyWithMedia => 2,
            PhyReport::Active => 4,
            PhyReport::Default => 8,
        };
        put16(&mut params, 2, report);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(CAPS_BYTES)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<PhyCaps> {
        let mut bytes = [0; USED_BYTES];
        answer.fill(0, "PHY capabilities", &mut bytes)?;
        Ok(PhyCaps { bytes })
    }
}

/// Configures the PHY: everything it can do, link enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetPhyConfig {
    lport: u8,
    bytes: [u8; CONFIG_BYTES],
}

impl SetPhyConfig {
    /// All of `caps`, with the link enabled, at once.
    #[must_use]
    pub fn enable(lport: u8, caps: &PhyCaps) -> Self {
        let mut bytes = [0; CONFIG_BYTES];
        // PHY types, caps, low power, EEE are at the same places in both.
        put::<22>(&mut bytes, 0, array(&caps.bytes, 0).unwrap_or([0; 22]));
        let flags = byte(&bytes, 16) & COMMON | ENABLE_LINK | UPDATE_LINK;
        put(&mut bytes, 16, [flags]);
        // FEC and module compliance come after the PHY's ids there.
        put(
            &mut bytes,
            22,
            [byte(&caps.bytes, 34), byte(&caps.bytes, 35)],
        );
        Self { lport, bytes }
    }
}

impl Command for SetPhyConfig {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::PHY_CONFIG
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [self.lport]);
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
    use crate::op::testing::decode;

    fn caps() -> [u8; 36] {
        let mut caps = [0; 36];
        for (at, byte) in caps.iter_mut().enumerate() {
            *byte = at as u8;
        }
        caps[16] = 0xF0;
        caps
    }

    #[test]
    fn the_report_is_chosen_in_bits_3_to_1() {
        let get = |report| GetPhyCaps { lport: 1, report }.params();
        assert_eq!(get(PhyReport::TopologyWithMedia)[..4], [1, 0, 2, 0]);
        assert_eq!(get(PhyReport::Active)[..4], [1, 0, 4, 0]);
        assert_eq!(get(PhyReport::Default)[..4], [1, 0, 8, 0]);
    }

    #[test]
    fn configurations_are_compared_as_existing_drivers_do() {
        let get = GetPhyCaps {
            lport: 1,
            report: PhyReport::Active,
        };
        let read = |bytes: &[u8]| decode(&get, [0; 16], bytes).unwrap();
        let one = caps();
        for at in 0..36 {
            let mut other = one;
            other[at] ^= 0x80;
            let counts = at < 22 || at == 34;
            assert_eq!(!read(&one).is_configured_as(&read(&other)), counts, "{at}");
        }
        // Link enabled, mode of autonegotiation, qualified modules.
        let mut other = one;
        other[16] ^= 1 << 3 | 1 << 4 | 1 << 5;
        assert!(read(&one).is_configured_as(&read(&other)));
    }

    #[test]
    fn a_configuration_is_what_the_port_can_do() {
        let get = GetPhyCaps {
            lport: 1,
            report: PhyReport::Active,
        };
        let caps = decode(&get, [0; 16], &caps()).unwrap();
        assert!(!caps.link_enabled() && caps.any_type());
        let config = SetPhyConfig::enable(7, &caps);
        assert_eq!(config.params()[..2], [7, 0]);
        assert_eq!(
            config.bytes,
            [
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xE8, 17, 18, 19, 20, 21, 34,
                35
            ]
        );
        assert!(decode(&get, [0; 16], &[0; 35]).is_err());
    }
}
