//! Device and function capabilities (0x000A, 0x000B; control-path 9.5).

use super::basic::Capability;
use super::descriptor::{Answer, Command};
use super::{AqCode, Cx};

/// Entries of the RSS table of a PF, and bits of an entry.
const RSS: (u32, u32) = (2048, 8);
/// The longest frame, less Ethernet header, FCS and VLAN tags.
const MAX_MTU: u32 = 9702;

fn capability(id: u16, number: u32, logical: u32, physical: u32) -> Capability {
    Capability {
        id,
        number,
        logical,
        physical,
    }
}

impl Cx<'_, '_> {
    /// Number of functions in the capabilities.
    pub(super) fn valid_functions(&self) -> u32 {
        let functions = match self.fw.config.functions {
            0 => self.card.functions,
            said => said,
        };
        (1_u32 << u32::from(functions).min(8)) - 1
    }

    /// Entries that both commands return.
    fn common(&self) -> Vec<Capability> {
        let config = &self.fw.config;
        let state = &self.env.state;
        let pf = u32::from(state.identity.pf);
        let vectors = u32::from(config.msix.unwrap_or(state.identity.vectors));
        let queues = u32::from(config.room.queues);
        let mut all = vec![
            capability(0x0005, self.valid_functions(), 0, 0),
            // No virtual functions.
            capability(0x0012, 0, 0, 0),
            capability(0x0040, RSS.0, RSS.1, 0),
            capability(0x0041, queues, 0, pf * queues),
            capability(0x0042, queues, 0, pf * queues),
            capability(0x0043, vectors, 0, pf * 256),
            capability(0x0047, MAX_MTU, 0, 0),
        ];
        if config.dcb {
            // Active classes, and their possible number.
            all.push(capability(0x0018, 1, config.classes.into(), 8));
        }
        if config.rdma {
            all.push(capability(0x0051, 1, 0, 0));
        }
        all
    }

    /// 0x000A.
    pub(super) fn function_capabilities(&mut self, command: &Command) -> Answer {
        let mut all = self.common();
        let guaranteed =
            u32::from(self.fw.config.room.vsis) / self.valid_functions().count_ones().max(1);
        all.push(capability(0x0017, guaranteed, 0, 0));
        // Flow director filters: guaranteed and best effort, in registers (`ice/ice_common.c
        // ice_parse_fdir_func_caps`).
        all.push(capability(0x0045, 1, 0, 0));
        list(command, &all)
    }

    /// 0x000B.
    pub(super) fn device_capabilities(&mut self, command: &Command) -> Answer {
        let mut all = self.common();
        let vsis = u32::from(self.fw.config.room.vsis);
        all.push(capability(0x0017, vsis, 0, 0));
        all.push(capability(0x0045, 1024, 0, 0));
        // NVM, option ROM and netlist versions.
        all.push(capability(0x0048, 0x7000, 0, 0));
        all.push(capability(0x004a, 0x0103_0000, 0, 0));
        all.push(capability(0x004c, 0x0004_0000, 0, 0));
        // Enabled ports.
        all.push(capability(0x0072, self.valid_functions(), 0, 0));
        list(command, &all)
    }
}

fn list(command: &Command, all: &[Capability]) -> Answer {
    let data: Vec<u8> = all.iter().flat_map(Capability::bytes).collect();
    let counted = command.done().put32(4, all.len() as u32);
    if data.len() > command.room {
        return Ok(counted.refused(AqCode::ENOMEM));
    }
    Ok(command.answer(data)?.put32(4, all.len() as u32))
}
