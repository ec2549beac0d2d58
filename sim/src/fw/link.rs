//! PHY, MAC and link commands (control-path 9.4).

use super::config::PortLink;
use super::descriptor::{Answer, Command};
use super::layout::{part, put, u8_at};
use super::port::{ENABLE_LINK, FEC};
use super::{AqCode, Cx};

/// Bytes of PHY capabilities: 48, and sixteen qualified modules of 32.
const CAPABILITIES: usize = 560;
/// Bytes of a PHY configuration.
const CONFIGURATION: usize = 24;
/// Frame lengths of the MAC (`ice/ice_adminq_cmd.h ICE_AQ_SET_MAC_FRAME_SIZE_MAX`), whatever MTU
/// the capabilities have.
const FRAMES: std::ops::RangeInclusive<u16> = 64..=9728;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let low = super::layout::u32_at(bytes, at);
    let high = super::layout::u32_at(bytes, at + 4);
    u64::from(high) << 32 | u64::from(low)
}

impl Cx<'_, '_> {
    /// A function has one port. Linux names it in some commands and sends 0 in others
    /// (`ice/ice_common.c ice_aq_get_phy_caps`), whatever its port is.
    fn is_own_port(&self, command: &Command) -> Result<(), AqCode> {
        if [0, self.port_number()].contains(&command.param8(0)) {
            Ok(())
        } else {
            Err(AqCode::EINVAL)
        }
    }

    /// EMODE when a management controller owns the link (`ice/ice_common.c
    /// ice_aq_set_link_restart_an` is refused with it there; the same for the configuration is
    /// `[inf managed_link]`).
    fn may_change_link(&self) -> Result<(), AqCode> {
        if self.fw.config.link_is_managed {
            return Err(AqCode::EMODE);
        }
        Ok(())
    }

    /// 0x0600: bits [3:1] of the second word select the answer.
    pub(super) fn phy_capabilities(&mut self, command: &Command) -> Answer {
        const MEDIA: u16 = 1 << 1;
        const ACTIVE: u16 = 1 << 2;
        const QUALIFY: u8 = 1 << 5;
        self.is_own_port(command)?;
        let port = &self.fw.port;
        let has_media = self.fw.config.link != PortLink::NoMedia;
        let (types, caps) = match command.param16(2) & 0b1110 {
            ACTIVE => (port.phy_types, port.caps),
            MEDIA if !has_media => ((0, 0), port.caps),
            0 | MEDIA | 8 => (port.abilities, ENABLE_LINK),
            _ => return Err(AqCode::EINVAL),
        };
        let fec = if command.param16(2) & 0b1110 == ACTIVE {
            port.fec
        } else {
            FEC
        };
        let mut data = vec![0; CAPABILITIES];
        put(&mut data, 0, &types.0.to_le_bytes());
        put(&mut data, 8, &types.1.to_le_bytes());
        // The low bits are as in a configuration; bit 5 says that modules are qualified.
        put(&mut data, 16, &[caps & 0b1000_1111 | QUALIFY]);
        put(&mut data, 34, &[fec]);
        if has_media {
            // QSFP+, passive copper.
            put(&mut data, 37, &[0x80, 1, 0x86]);
        }
        data.truncate(command.room);
        command.answer(data)
    }

    /// 0x0601.
    pub(super) fn set_phy_config(&mut self, command: &Command) -> Answer {
        const UPDATE_LINK: u8 = 1 << 5;
        self.is_own_port(command)?;
        let data = command.input(CONFIGURATION)?.to_vec();
        self.may_change_link()?;
        let port = &mut self.fw.port;
        port.phy_types = (u64_at(&data, 0), u64_at(&data, 8));
        port.caps = u8_at(&data, 16);
        port.fec = u8_at(&data, 22);
        if port.caps & UPDATE_LINK != 0 {
            port.enabled = port.caps & ENABLE_LINK != 0;
            port.restart(&self.fw.config, self.env.now);
            port.recheck_link();
        }
        let data = part(&data, 0, CONFIGURATION).to_vec();
        command.answer(data)
    }

    /// 0x06EA: possible uses of the port's lanes. Here there is one: one port of 100G.
    pub(super) fn port_options(&mut self, command: &Command) -> Answer {
        const VALID: u8 = 1 << 7;
        const MAX_LANE_100G: u8 = 7;
        let mut data = vec![0; 8];
        put(&mut data, 0, &[1, MAX_LANE_100G]);
        // One option, the first is active; none is pending.
        Ok(command.answer(data)?.put(2, &[1, 0, VALID, 0]))
    }

    /// 0x0603.
    pub(super) fn set_mac_config(&mut self, command: &Command) -> Answer {
        let frame = command.param16(0);
        if !FRAMES.contains(&frame) {
            return Err(AqCode::EINVAL);
        }
        self.fw.port.max_frame = frame;
        Ok(command.done())
    }

    /// 0x0620: frames that the MAC would send come in again, and nothing leaves or enters the port.
    pub(super) fn set_mac_loopback(&mut self, command: &Command) -> Answer {
        const ENABLE: u8 = 1;
        self.fw.port.loopback = command.param8(0) & ENABLE != 0;
        Ok(command.done())
    }

    /// 0x06E9: the port's LED blinks (1), or returns to its normal behaviour (0).
    pub(super) fn set_port_led(&mut self, command: &Command) -> Answer {
        let (port, named) = (command.param8(0), command.param8(1) & 1 != 0);
        if named && port != self.port_number() || command.param8(2) > 1 {
            return Err(AqCode::EINVAL);
        }
        Ok(command.done())
    }

    /// 0x0605.
    pub(super) fn restart_an(&mut self, command: &Command) -> Answer {
        const ENABLE: u8 = 1 << 2;
        self.is_own_port(command)?;
        self.may_change_link()?;
        let now = self.now();
        let port = &mut self.fw.port;
        port.enabled = command.param8(2) & ENABLE != 0;
        port.restart(&self.fw.config, now);
        port.recheck_link();
        Ok(command.done())
    }

    /// 0x0607: also switches link events on (3) or off (2).
    pub(super) fn link_status(&mut self, command: &Command) -> Answer {
        self.is_own_port(command)?;
        match command.param8(2) & 3 {
            3 => self.fw.port.events = true,
            2 => self.fw.port.events = false,
            _ => {}
        }
        let events = u16::from(self.fw.port.events);
        let mut data = self.link_data();
        data.truncate(command.room);
        Ok(command.answer(data)?.put16(2, events))
    }

    /// 0x0613.
    pub(super) fn set_event_mask(&mut self, command: &Command) -> Answer {
        self.is_own_port(command)?;
        self.fw.port.mask = command.param16(8);
        Ok(command.done())
    }
}
