//! Opcodes of commands and events.

use core::fmt;

/// An opcode. One that this crate does not know keeps its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Opcode(pub u16);

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)+) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Self = Self($code);)+

            // A table, because a match that returns texts is half a KiB of code.
            const NAMES: &'static [(u16, &'static str)] = &[$(($code, $text)),+];

            /// The name that is usual in the field.
            #[must_use]
            pub const fn name(self) -> &'static str {
                let mut left = Self::NAMES;
                while let [(code, name), rest @ ..] = left {
                    if *code == self.0 {
                        return name;
                    }
                    left = rest;
                }
                "AdminQ command"
            }
        }
    };
}

opcodes! {
    /// Get Version.
    GET_VERSION = 0x0001, "Get Version";
    /// Driver Version.
    DRIVER_VERSION = 0x0002, "Driver Version";
    /// Queue Shutdown; as an event, the firmware ends the queue.
    QUEUE_SHUTDOWN = 0x0003, "Queue Shutdown";
    /// Request Resource.
    REQUEST_RESOURCE = 0x0008, "Request Resource";
    /// Release Resource.
    RELEASE_RESOURCE = 0x0009, "Release Resource";
    /// Function capabilities.
    FUNCTION_CAPS = 0x000A, "List Function Capabilities";
    /// Device capabilities.
    DEVICE_CAPS = 0x000B, "List Device Capabilities";
    /// Read MAC address.
    READ_MAC = 0x0107, "Read MAC";
    /// Clear PXE mode.
    CLEAR_PXE = 0x0110, "Clear PXE Mode";
    /// Get Switch Configuration.
    SWITCH_CONFIG = 0x0200, "Get Switch Configuration";
    /// Set Port Parameters.
    PORT_PARAMETERS = 0x0203, "Set Port Parameters";
    /// Set VLAN Mode.
    SET_VLAN_MODE = 0x020C, "Set VLAN Mode";
    /// Get VLAN Mode.
    GET_VLAN_MODE = 0x020D, "Get VLAN Mode";
    /// Add VSI.
    ADD_VSI = 0x0210, "Add VSI";
    /// Update VSI.
    UPDATE_VSI = 0x0211, "Update VSI";
    /// Free VSI.
    FREE_VSI = 0x0213, "Free VSI";
    /// Add Switch Rules.
    ADD_RULES = 0x02A0, "Add Switch Rules";
    /// Remove Switch Rules.
    REMOVE_RULES = 0x02A2, "Remove Switch Rules";
    /// Clear PF Configuration.
    CLEAR_PF = 0x02A4, "Clear PF Configuration";
    /// Get Default Scheduler Topology.
    DEFAULT_TOPOLOGY = 0x0400, "Get Default Scheduler Topology";
    /// Add Scheduler Elements.
    ADD_ELEMENTS = 0x0401, "Add Scheduler Elements";
    /// Get Scheduler Elements.
    GET_ELEMENTS = 0x0404, "Get Scheduler Elements";
    /// Query Port ETS.
    PORT_ETS = 0x040E, "Query Port ETS";
    /// Delete Scheduler Elements.
    DELETE_ELEMENTS = 0x040F, "Delete Scheduler Elements";
    /// Query Scheduler Resources.
    SCHEDULER_RESOURCES = 0x0412, "Query Scheduler Resources";
    /// Get PHY Capabilities.
    PHY_CAPS = 0x0600, "Get PHY Capabilities";
    /// Set PHY Configuration.
    PHY_CONFIG = 0x0601, "Set PHY Configuration";
    /// Set MAC Configuration.
    MAC_CONFIG = 0x0603, "Set MAC Configuration";
    /// Restart Autonegotiation.
    RESTART_AN = 0x0605, "Restart Autonegotiation";
    /// Get Link Status; as an event, the link changed.
    LINK_STATUS = 0x0607, "Get Link Status";
    /// Set Event Mask.
    EVENT_MASK = 0x0613, "Set Event Mask";
    /// Switches LLDP MIB change events on or off; as an event, the MIB changed.
    LLDP_MIB_CHANGE = 0x0A01, "LLDP MIB Change";
    /// Add Transmit LAN Queues.
    ADD_TX_QUEUES = 0x0C30, "Add Transmit LAN Queues";
    /// Disable Transmit Queues.
    DISABLE_QUEUES = 0x0C31, "Disable Transmit Queues";
    /// Add RDMA Queue Set.
    ADD_QUEUE_SET = 0x0C33, "Add RDMA Queue Set";
    /// Download Package.
    DOWNLOAD_PACKAGE = 0x0C40, "Download Package";
    /// Get Package Info List.
    PACKAGE_INFO = 0x0C43, "Get Package Info List";
    /// Health status event (`ice` of newer kernels than 6.12 has it).
    HEALTH_STATUS = 0xFF22, "Health Status";
    /// Firmware log event (`ice/ice_adminq_cmd.h`).
    FIRMWARE_LOG = 0xFF33, "Firmware Log";
}

impl Opcode {
    /// What happens to it when the firmware is busy.
    #[must_use]
    pub const fn when_busy(self) -> WhenBusy {
        match self.0 {
            0x06E0 | 0x06EE | 0x0A05 | 0x0A06 | 0x0A0A => WhenBusy::Tries,
            0x0008 | 0x0C31 => WhenBusy::Returned,
            _ => WhenBusy::Waits,
        }
    }
}

/// What is done with a command that the firmware answers with EBUSY or EAGAIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenBusy {
    /// Sent again a few times, as existing drivers do: queries of the link topology
    /// and the module, and changes of the LLDP agent (control-path 9.1).
    Tries,
    /// Sent again until another function can have finished its download: while it holds the
    /// global configuration lock, the firmware refuses most commands (field-evidence 3.6).
    /// Existing drivers serialize the functions of one machine in software; here they belong to
    /// different processes.
    Waits,
    /// Returned to the caller: for these commands, busy has a meaning of its own.
    Returned,
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#06x})", self.name(), self.0)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn an_unknown_opcode_keeps_its_number() {
        assert_eq!(format!("{}", Opcode(0x1234)), "AdminQ command (0x1234)");
        assert_eq!(format!("{}", Opcode::ADD_VSI), "Add VSI (0x0210)");
    }

    /// Commands that can harm a card for good (`ice/ice_adminq_cmd.h`): everything about
    /// NVM (0x07xx: erase, write, commit and activate, pass component tables; reading it,
    /// too, is not needed), and what reaches a module or the board beside it.
    #[test]
    fn nothing_here_can_harm_a_card() {
        let board = [
            0x06E3, // write I2C
            0x06E5, // write MDIO
            0x06E7, // write I2C, management
            0x06EC, // set GPIO
            0x06EE, // module EEPROM: a flag makes it a write
        ];
        assert!(Opcode::NAMES.len() > 30);
        for (code, name) in Opcode::NAMES {
            assert!(
                code >> 8 != 0x07 && !board.contains(code),
                "{name} ({code:#06x})"
            );
        }
    }

    #[test]
    fn five_opcodes_are_tried_again_a_few_times() {
        let these = |when| -> std::vec::Vec<u16> {
            (0..=u16::MAX)
                .filter(|op| Opcode(*op).when_busy() == when)
                .collect()
        };
        let tries = these(WhenBusy::Tries);
        assert_eq!(tries, [0x06E0, 0x06EE, 0x0A05, 0x0A06, 0x0A0A]);
        assert_eq!(these(WhenBusy::Returned), [0x0008, 0x0C31]);
    }
}
