//! AdminQ commands that concern the whole function (control-path 9.4).

use crate::variation::{OwnVsi, PxeClearedAgain};

use super::descriptor::{Answer, Command};
use super::layout::{put, put_u32};
use super::{AqCode, Cx};

/// Build number of this firmware; no card has it.
const BUILD: u32 = 0x0e81_0001;
/// Branch and version of a firmware that was seen on a card (field-evidence 2).
const FIRMWARE: [u8; 4] = [1, 7, 0, 7];

impl Cx<'_, '_> {
    /// 0x0001.
    pub(super) fn get_version(&mut self, command: &Command) -> Answer {
        let (major, minor, patch) = self.fw.config.api;
        let reply = command.done().put32(0, 1).put32(4, BUILD);
        let [branch, fw_major, fw_minor, fw_patch] = FIRMWARE;
        Ok(reply.put(
            8,
            &[branch, fw_major, fw_minor, fw_patch, 0, major, minor, patch],
        ))
    }

    /// 0x0002: the driver's version and a text.
    pub(super) fn driver_version(&mut self, command: &Command) -> Answer {
        command.input(1)?;
        Ok(command.done())
    }

    /// 0x0003: the driver is about to switch the queues off. The command itself still gets its
    /// answer.
    pub(super) fn queue_shutdown(&mut self, command: &Command) -> Answer {
        self.fw.events.clear();
        Ok(command.done())
    }

    /// 0x0107: one LAN address, also used as the wake-up address.
    pub(super) fn read_mac(&mut self, command: &Command) -> Answer {
        const LAN_VALID: u16 = 1 << 4;
        const WOL_VALID: u16 = 1 << 7;
        let mac = self.fw.config.mac.unwrap_or(self.env.state.mac);
        let port = self.pf();
        let mut data = Vec::new();
        for kind in [0, 1] {
            data.extend([port, kind]);
            data.extend(mac);
        }
        data.truncate(command.room / 8 * 8);
        if data.is_empty() {
            return Err(AqCode::EINVAL);
        }
        let count = data.len() / 8;
        let flags = LAN_VALID | if count > 1 { WOL_VALID } else { 0 };
        let reply = command.answer(data)?;
        Ok(reply.put16(0, flags).put(4, &[count as u8]))
    }

    /// 0x0108: the address that firmware itself uses.
    pub(super) fn write_mac(&mut self, command: &Command) -> Answer {
        Ok(command.done())
    }

    /// 0x0110: PXE mode belongs to the card; any function may end it `[inf pxe_of_card]`.
    pub(super) fn clear_pxe(&mut self, command: &Command) -> Answer {
        // ICE_AQC_CLEAR_PXE_RX_CNT: the only value a driver sends.
        if command.param8(0) != 2 {
            return Err(AqCode::EINVAL);
        }
        let was_on = std::mem::take(&mut self.card.pxe_mode);
        match self.env.state.variation.pxe_cleared_again {
            PxeClearedAgain::Exists if !was_on => Err(AqCode::EEXIST),
            PxeClearedAgain::Exists | PxeClearedAgain::Done => Ok(command.done()),
        }
    }

    /// 0x02A4: clears what an earlier driver of this function left in the switch and the scheduler.
    pub(super) fn clear_pf_config(&mut self, command: &Command) -> Answer {
        self.fw.vsis.close_all(self.env.state);
        self.fw.vsis = super::vsi::Vsis::default();
        self.fw.rules = super::switch_rules::SwitchRules::default();
        self.fw.txqs = super::txq::TxQueues::default();
        let branch = self.env.state.variation.default_branch;
        self.fw.tree = super::sched_tree::SchedTree::new(self.pf(), &self.fw.config, branch);
        let pf = self.pf();
        self.card.pool.release_all(pf);
        self.card.package.forget_hashes_of(pf);
        self.fw.own_vsi &= self.env.state.variation.own_vsi == OwnVsi::Stays;
        Ok(command.done())
    }

    /// 0x06E0: nodes of the board. This board has none that a driver can use.
    pub(super) fn link_topology(&mut self, _command: &Command) -> Answer {
        Err(AqCode::ENOENT)
    }

    /// 0xFF20: selects health events; this card never reports any.
    pub(super) fn set_health_events(&mut self, command: &Command) -> Answer {
        Ok(command.done())
    }
}

/// A capability entry (control-path 9.5).
pub(super) struct Capability {
    pub(super) id: u16,
    pub(super) number: u32,
    pub(super) logical: u32,
    pub(super) physical: u32,
}

impl Capability {
    pub(super) fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        put(&mut bytes, 0, &self.id.to_le_bytes());
        // Version 1.0.
        put(&mut bytes, 2, &[1]);
        put_u32(&mut bytes, 4, self.number);
        put_u32(&mut bytes, 8, self.logical);
        put_u32(&mut bytes, 12, self.physical);
        bytes
    }
}
