//! Port state of a function: PHY configuration, link, link events.

use crate::regs::ResetSource;

use super::config::{FirmwareConfig, PhyStart, PortLink};
use super::layout::{put, put_u16};
use super::{Cx, Event};
use crate::variation::FrameAtStart;

/// PHY types that the module supports: 10G, 25G, 40G, 50G and 100G over copper
/// (`ice/ice_adminq_cmd.h ICE_PHY_TYPE_LOW_*`).
pub(super) const PHY_TYPES: u64 = 1 << 13 | 1 << 20 | 1 << 30 | 1 << 36 | 1 << 51;
/// 100GBASE-CR4, and its speed bit.
const PHY_TYPE: u64 = 1 << 51;
const SPEED: u16 = 1 << 10;
/// PHY configuration bits: link enabled, and the value without a driver.
pub(super) const ENABLE_LINK: u8 = 1 << 3;
const DEFAULT_CAPS: u8 = ENABLE_LINK;
/// Forward error correction: RS-528.
pub(super) const FEC: u8 = 1 << 2;
/// Bytes of link data.
const LINK_DATA: usize = 32;
/// Bit of the event mask for link up and down.
const UP_DOWN: u16 = 1 << 1;

const fn frame_of(start: FrameAtStart) -> u16 {
    match start {
        FrameAtStart::Small => 1522,
        FrameAtStart::Largest => 9728,
    }
}

/// The port of one function.
#[derive(Debug)]
pub(super) struct Port {
    /// What the port and the module support.
    pub(super) abilities: (u64, u64),
    pub(super) phy_types: (u64, u64),
    pub(super) caps: u8,
    pub(super) fec: u8,
    /// Link enabled by a configuration, or switched by 0x0605.
    pub(super) enabled: bool,
    pub(super) max_frame: u16,
    /// The MAC loops frames back (0x0620).
    pub(super) loopback: bool,
    pub(super) events: bool,
    /// Event mask: a set bit disables its event.
    pub(super) mask: u16,
    started: u64,
    /// State of the link at the last check.
    seen: bool,
    next_check: Option<u64>,
}

impl Port {
    fn new(config: &FirmwareConfig, frame: FrameAtStart) -> Self {
        let start = config.phy;
        let recorded = config.recorded.as_ref();
        let abilities = recorded.and_then(|answers| answers.phy_types());
        let abilities = abilities.unwrap_or((PHY_TYPES, 0));
        Self {
            abilities,
            phy_types: abilities,
            caps: if start == PhyStart::Disabled {
                0
            } else {
                DEFAULT_CAPS
            },
            fec: if start == PhyStart::WithoutFec {
                0
            } else {
                FEC
            },
            enabled: !matches!(start, PhyStart::Disabled | PhyStart::SwitchedOff),
            max_frame: frame_of(frame),
            loopback: false,
            events: false,
            mask: 0,
            started: 0,
            seen: false,
            next_check: None,
        }
    }

    /// A port with power from the first moment on.
    pub(super) fn powered(config: &FirmwareConfig, frame: FrameAtStart) -> Self {
        let mut port = Self::new(config, frame);
        port.start(config, 0);
        port
    }

    /// The card has power or was reset: the link comes up after its usual time.
    pub(super) fn start(&mut self, config: &FirmwareConfig, now: u64) {
        self.started = now;
        self.next_check = Some(match config.link {
            PortLink::UpAfterMs(ms) => now + u64::from(ms) * 1_000_000,
            _ => now,
        });
    }

    /// Autonegotiation restarts, and so does its time.
    pub(super) fn restart(&mut self, config: &FirmwareConfig, now: u64) {
        self.start(config, now);
    }

    /// A PF reset does not affect the PHY; the driver's event mask and the MAC's loopback are
    /// cleared \[inf port_after_reset\].
    pub(super) fn reset(
        &mut self,
        source: ResetSource,
        config: &FirmwareConfig,
        frame: FrameAtStart,
    ) {
        if source == ResetSource::Pfr {
            self.events = false;
            self.loopback = false;
            self.mask = 0;
        } else {
            *self = Self::new(config, frame);
        }
    }

    /// The link state may have changed.
    pub(super) fn recheck_link(&mut self) {
        self.next_check = Some(0);
    }

    /// Time of the next link check.
    pub(super) fn next_change(&self) -> Option<u64> {
        self.next_check
    }

    /// `enabled_ports`: which functions' ports are enabled.
    pub(super) fn is_up(
        &self,
        config: &FirmwareConfig,
        now: u64,
        enabled_ports: EnabledPorts,
    ) -> bool {
        let other_end = match config.link {
            PortLink::Up => true,
            PortLink::UpAfterMs(ms) => now >= self.started + u64::from(ms) * 1_000_000,
            PortLink::Down | PortLink::NoMedia => false,
            PortLink::Cabled(other) => enabled_ports.get(usize::from(other)).is_some_and(|on| *on),
        };
        self.enabled && other_end
    }

    /// Whether received frames can be decoded.
    pub(super) fn receives(&self) -> bool {
        self.fec != 0
    }
}

/// Which functions' ports are enabled, by PF number.
pub(crate) type EnabledPorts = [bool; 8];

impl Cx<'_, '_> {
    /// Checks the link if the check is due, and reports a change.
    pub(super) fn check_link(&mut self) {
        if self.fw.port.next_check.is_none_or(|at| at > self.now()) {
            return;
        }
        // A check before the link comes up is repeated when it has come up.
        let comes_up = match self.fw.config.link {
            PortLink::UpAfterMs(ms) => self.fw.port.started + u64::from(ms) * 1_000_000,
            _ => 0,
        };
        self.fw.port.next_check = Some(comes_up).filter(|at| *at > self.now());
        let up = self.has_link();
        if up == self.fw.port.seen {
            return;
        }
        self.fw.port.seen = up;
        if self.fw.port.events && self.fw.port.mask & UP_DOWN == 0 {
            let event = self.link_event();
            self.fw.events.push_back(event);
        }
    }

    pub(super) fn link_event(&self) -> Event {
        Event {
            opcode: 0x0607,
            params: [self.port_number(), 0, 1, 0, 0, 0, 0, 0],
            data: self.link_data(),
        }
    }

    /// The link as 0x0607 says it (control-path 9.4).
    pub(super) fn link_data(&self) -> Vec<u8> {
        const UP: u8 = 1 | 1 << 5 | 1 << 7;
        const MEDIA: u8 = 1 << 6;
        const AN_DONE: u8 = 1 | 1 << 1;
        const QUALIFIED: u8 = 1 << 7;
        let mut data = vec![0; LINK_DATA];
        let up = self.has_link();
        let media = self.fw.config.link != PortLink::NoMedia;
        let present = if media { MEDIA } else { 0 };
        put(&mut data, 2, &[present | if up { UP } else { 0 }]);
        let negotiated = if up { AN_DONE } else { 0 };
        put(
            &mut data,
            3,
            &[negotiated | if media { QUALIFIED } else { 0 }],
        );
        put_u16(&mut data, 6, self.fw.port.max_frame);
        if up {
            // RS-528 is on, or no FEC.
            let fec = if self.fw.port.fec == 0 { 0 } else { 1 << 1 };
            put(&mut data, 8, &[fec]);
            put_u16(&mut data, 10, SPEED);
            put(&mut data, 16, &PHY_TYPE.to_le_bytes());
        }
        data
    }
}
