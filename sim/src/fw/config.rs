//! Configuration of one function's firmware, and the faults that a test injects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::link::Mac;
use crate::regs::ResetSource;

use super::AqCode;
use super::recorded::Answers;

/// State of a port's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortLink {
    /// As soon as it is enabled.
    Up,
    /// Comes up this many ms after the function's last global reset, or after power-up.
    UpAfterMs(u32),
    /// A module is plugged in, without a link partner.
    Down,
    /// No module is plugged in.
    NoMedia,
    /// Cabled to the port of this function of the card: the link is up while both ends are enabled.
    Cabled(u8),
}

/// PHY configuration of a port after a reset of the card, from NVM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhyStart {
    /// Everything that the port and the module support, link enabled.
    Everything,
    /// The link is not enabled.
    Disabled,
    /// The link is enabled without forward error correction: it comes up, but received frames
    /// cannot be decoded (field-evidence 3.22).
    WithoutFec,
    /// The link is configured but was switched off (0x0605).
    SwitchedOff,
}

/// The package with which a card starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackageStart {
    /// No package is active and none is in NVM.
    None,
    /// A package of that version is in NVM and active from the start.
    InNvm([u8; 4]),
    /// Another function has already downloaded a package of that version.
    Active([u8; 4]),
    /// Every buffer is refused with this code.
    Refused(AqCode),
}

/// An injected fault of an AdminQ command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AqFault {
    /// The command is never completed, nor any command after it.
    Silence,
    /// The command is not executed and fails with this code.
    Error(AqCode),
    /// The command is executed; `datalen` of the reply has this value.
    DataLen(u16),
    /// The command is executed; the reply has at most this many bytes of its data.
    Truncated(u16),
    /// The critical error bit of both queues is set and the command is not completed.
    CriticalError,
    /// The card (or, with [`ResetSource::Pfr`], the function) is reset at this moment, and the
    /// command is not completed.
    Reset(ResetSource),
    /// An event of this opcode, without data, comes before the reply.
    EventBefore(u16),
    /// An event of this opcode, without data, comes after the reply.
    EventAfter(u16),
}

/// Sizes of the resources that functions request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// VSIs of the card.
    pub(super) vsis: u16,
    /// LAN queues of a function in each direction.
    pub(super) queues: u16,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            // `ice/ice_adminq_cmd.h ICE_MAX_VSI`.
            vsis: 768,
            queues: 256,
        }
    }
}

/// Configuration of one function's firmware.
///
/// Settings of the card (package, topology) are taken from the function whose commands use them
/// first, so use the same for all functions of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirmwareConfig {
    /// API version: major, minor, patch.
    pub api: (u8, u8, u8),
    /// Capability 0x0051: the function may use RDMA.
    pub rdma: bool,
    /// Capability 0x0018: the card supports DCB.
    pub dcb: bool,
    /// The DCBX agent of the firmware runs.
    pub lldp_agent: bool,
    /// State of the port.
    pub link: PortLink,
    /// Layers of the transmit scheduler: 9 or 5.
    pub layers: u8,
    /// Vectors that capability 0x0043 reports; by default the function's own number.
    pub msix: Option<u16>,
    /// Ports of the card in use, 1 to 8: above 4 Linux switches RDMA off.
    pub functions: u8,
    pub package: PackageStart,
    /// Ethernet address that 0x0107 returns; by default the function's own.
    pub mac: Option<Mac>,
    /// Firmware runs in recovery mode.
    pub recovery: bool,
    /// Execution time of a command, in µs.
    pub command_us: u32,
    /// Load time of the firmware after a reset of the card, in ms.
    pub loading_ms: u32,
    /// PHY configuration after a reset of the card.
    pub phy: PhyStart,
    /// A management controller owns the link: the firmware refuses to change the PHY (0x0601,
    /// 0x0605) with EMODE.
    pub link_is_managed: bool,
    /// Traffic classes of the port, one bit each: class 0 and others.
    pub classes: u8,
    /// Answers of a card's own firmware.
    pub(crate) recorded: Option<Arc<Answers>>,
    /// Sizes of the resources that a function requests.
    pub(super) room: Room,
    faults: BTreeMap<(u16, u32), AqFault>,
}

impl Default for FirmwareConfig {
    fn default() -> Self {
        Self {
            api: (1, 7, 15),
            rdma: true,
            dcb: true,
            lldp_agent: false,
            link: PortLink::Up,
            layers: 9,
            msix: None,
            functions: 0,
            package: PackageStart::None,
            mac: None,
            recovery: false,
            command_us: 3,
            loading_ms: 0,
            phy: PhyStart::Everything,
            link_is_managed: false,
            classes: 1,
            recorded: None,
            room: Room::default(),
            faults: BTreeMap::new(),
        }
    }
}

impl FirmwareConfig {
    /// Makes the function begin as the card that gave these answers.
    pub(crate) fn record(&mut self, answers: Arc<Answers>) {
        /// Capabilities (control-path 9.5).
        const FUNCTIONS: u16 = 0x0005;
        const VSIS: u16 = 0x0017;
        const DCB: u16 = 0x0018;
        const TX_QUEUES: u16 = 0x0042;
        const MSIX: u16 = 0x0043;
        const RDMA: u16 = 0x0051;
        const FUNCTION: u16 = 0x000a;
        const DEVICE: u16 = 0x000b;
        let number = |opcode, id| answers.capability(opcode, id).map(|[number, ..]| number);
        let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        if answers.has_capabilities() {
            self.rdma = number(FUNCTION, RDMA).is_some_and(|number| number != 0);
            self.dcb = number(FUNCTION, DCB).is_some_and(|number| number != 0);
            self.msix = number(FUNCTION, MSIX).map(small);
        }
        if let Some(functions) = number(DEVICE, FUNCTIONS) {
            self.functions = functions.count_ones() as u8;
        }
        if let Some(vsis) = number(DEVICE, VSIS) {
            self.room.vsis = small(vsis);
        }
        if let Some(queues) = number(FUNCTION, TX_QUEUES) {
            self.room.queues = small(queues);
        }
        if let Some(api) = answers.api() {
            self.api = api;
        }
        if let Some(package) = answers.package() {
            self.package = match package {
                None => PackageStart::None,
                Some((version, true)) => PackageStart::InNvm(version),
                Some((version, false)) => PackageStart::Active(version),
            };
        }
        if answers.has_module() == Some(false) {
            self.link = PortLink::NoMedia;
        }
        self.recorded = Some(answers);
    }

    /// Injects `fault` into the `nth` use of `opcode` from now on: 1 is the next one. A later call
    /// for the same use replaces it.
    pub fn fault(&mut self, opcode: u16, nth: u32, fault: AqFault) {
        self.faults.insert((opcode, nth), fault);
    }

    /// Removes all injected faults.
    pub fn no_faults(&mut self) {
        self.faults.clear();
    }

    /// Counts a use of `opcode` and returns the fault injected into it.
    pub(super) fn meet(&mut self, opcode: u16) -> Option<AqFault> {
        let waiting: Vec<_> = self
            .faults
            .range((opcode, 0)..=(opcode, u32::MAX))
            .map(|(&(_, nth), &fault)| (nth, fault))
            .collect();
        let mut met = None;
        for (nth, fault) in waiting {
            self.faults.remove(&(opcode, nth));
            match nth {
                0 | 1 => met = Some(fault),
                later => {
                    self.faults.insert((opcode, later - 1), fault);
                }
            }
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_meets_the_use_it_was_ordered_for() {
        let mut config = FirmwareConfig::default();
        config.fault(1, 2, AqFault::Silence);
        config.fault(1, 3, AqFault::DataLen(7));
        config.fault(2, 1, AqFault::CriticalError);
        assert_eq!(config.meet(1), None);
        assert_eq!(config.meet(3), None);
        assert_eq!(config.meet(1), Some(AqFault::Silence));
        assert_eq!(config.meet(1), Some(AqFault::DataLen(7)));
        assert_eq!(config.meet(1), None);
        assert_eq!(config.meet(2), Some(AqFault::CriticalError));
        assert_eq!(config, FirmwareConfig::default());
    }
}
