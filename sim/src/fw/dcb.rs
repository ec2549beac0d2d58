//! DCB: the LLDP agent of the firmware, PFC mode (0x0302, 0x0303, 0x0A00 to 0x0A0A;
//! `ice/ice_dcb.c`).

use super::descriptor::{Answer, Command};
use super::layout::put;
use super::{AqCode, Cx};

/// State of the LLDP agent.
#[derive(Debug, Default)]
pub(super) struct Agent {
    local: Vec<u8>,
    pfc_mode: u8,
    /// Set by the start and stop commands; otherwise as the configuration says.
    runs: Option<bool>,
    /// The driver has enabled events for MIB changes (0x0A01).
    tells: bool,
}

impl Agent {
    /// A PF reset does not stop the agent; the driver's event selection is cleared
    /// `[inf lldp_events_off]`.
    pub(super) fn forget_driver(&mut self) {
        self.tells = false;
    }

    /// Whether an event of this opcode is sent: a MIB event only if it is enabled.
    pub(super) fn lets_out(&self, opcode: u16) -> bool {
        opcode != MIB_CHANGE || self.tells
    }
}

/// Opcode of the command and of the event.
const MIB_CHANGE: u16 = 0x0a01;

/// An LLDP frame without relevant TLVs: Ethernet header, then the end.
fn empty_mib() -> Vec<u8> {
    let mut frame = vec![0; 16];
    put(&mut frame, 0, &[0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
    put(&mut frame, 12, &[0x88, 0xcc]);
    frame
}

impl Cx<'_, '_> {
    fn agent_runs(&self) -> bool {
        self.fw.agent.runs.unwrap_or(self.fw.config.lldp_agent)
    }

    /// 0x0302.
    pub(super) fn query_pfc_mode(&mut self, command: &Command) -> Answer {
        Ok(command.done().put(0, &[self.fw.agent.pfc_mode]))
    }

    /// 0x0303: by VLAN (1) or DSCP (2); 0 without DCB.
    pub(super) fn set_pfc_mode(&mut self, command: &Command) -> Answer {
        let mode = command.param8(0);
        if !matches!(mode, 1 | 2) {
            return Err(AqCode::EINVAL);
        }
        let set = if self.fw.config.dcb { mode } else { 0 };
        self.fw.agent.pfc_mode = set;
        Ok(command.done().put(0, &[set]))
    }

    /// 0x0A00: local MIB 0, remote 1; there is no link partner.
    pub(super) fn get_lldp_mib(&mut self, command: &Command) -> Answer {
        if !self.agent_runs() {
            return Err(AqCode::EPERM);
        }
        match command.param8(0) & 3 {
            0 => {
                let mib = if self.fw.agent.local.is_empty() {
                    empty_mib()
                } else {
                    self.fw.agent.local.clone()
                };
                let len = mib.len() as u16;
                Ok(command.answer(mib)?.put16(2, len).put16(4, 0))
            }
            _ => Err(AqCode::ENOENT),
        }
    }

    /// 0x0A01: switches MIB events on or off. The MIB never changes by itself here.
    pub(super) fn lldp_mib_events(&mut self, command: &Command) -> Answer {
        const OFF: u8 = 1;
        self.fw.agent.tells = command.param8(0) & OFF == 0;
        Ok(command.done())
    }

    /// 0x0A05.
    pub(super) fn stop_lldp(&mut self, command: &Command) -> Answer {
        self.fw.agent.runs = Some(false);
        Ok(command.done())
    }

    /// 0x0A06.
    pub(super) fn start_lldp(&mut self, command: &Command) -> Answer {
        self.fw.agent.runs = Some(true);
        Ok(command.done())
    }

    /// 0x0A07: CEE is not used.
    pub(super) fn cee_config(&mut self, _command: &Command) -> Answer {
        Err(AqCode::ENOENT)
    }

    /// 0x0A08.
    pub(super) fn set_local_mib(&mut self, command: &Command) -> Answer {
        let length = usize::from(command.param16(2));
        let data = command.input(length.max(1))?;
        self.fw.agent.local = data.get(..length).unwrap_or(data).to_vec();
        Ok(command.done())
    }

    /// 0x0A09: the first byte of the reply says whether DCBX runs.
    pub(super) fn start_stop_agent(&mut self, command: &Command) -> Answer {
        let start = command.param8(0) & 1;
        Ok(command.done().put(0, &[start]))
    }

    /// 0x0A0A: starts or stops passing LLDP frames to a VSI.
    pub(super) fn lldp_filter(&mut self, command: &Command) -> Answer {
        if command.param8(0) > 1 {
            return Err(AqCode::EINVAL);
        }
        if !self.fw.vsis.has(command.param16(2) & 0x3ff) {
            return Err(AqCode::ENOENT);
        }
        Ok(command.done())
    }
}
