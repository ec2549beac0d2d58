//! Firmware logging commands (0xFF30 to 0xFF32; `ice/ice_fwlog.c`).

use super::Cx;
use super::descriptor::{Answer, Command};
use super::layout::{put_u16, u8_at, u16_at};

/// Modules of the firmware (`ice/ice_adminq_cmd.h ICE_AQC_FW_LOG_ID_MAX`).
const MODULES: usize = 32;
/// Bytes of a module's entry: number, level, unused.
const ENTRY: usize = 4;
const REGISTERED: u8 = 1 << 2;

/// Levels of the modules, and the functions that listen.
#[derive(Debug, Default)]
pub(super) struct FirmwareLog {
    levels: [u8; MODULES],
    options: u8,
    resolution: u16,
    registered: bool,
}

impl Cx<'_, '_> {
    pub(super) fn configure_log(&mut self, command: &Command) -> Answer {
        let data = command.input(ENTRY)?.to_vec();
        for entry in data.chunks_exact(ENTRY) {
            let module = usize::from(u16_at(entry, 0));
            if let Some(level) = self.fw.log.levels.get_mut(module) {
                *level = u8_at(entry, 2);
            }
        }
        self.fw.log.options = command.param8(0) & 3;
        self.fw.log.resolution = command.param16(4);
        Ok(command.done())
    }

    pub(super) fn register_log(&mut self, command: &Command) -> Answer {
        self.fw.log.registered = command.param8(0) & 1 != 0;
        Ok(command.done())
    }

    pub(super) fn query_log(&mut self, command: &Command) -> Answer {
        let log = &self.fw.log;
        let mut data = vec![0; MODULES * ENTRY];
        for (module, level) in log.levels.iter().enumerate() {
            put_u16(&mut data, module * ENTRY, module as u16);
            put_u16(&mut data, module * ENTRY + 2, u16::from(*level));
        }
        let registered = if log.registered { REGISTERED } else { 0 };
        let (flags, resolution) = (log.options | registered, log.resolution.max(1));
        let reply = command.answer(data)?;
        Ok(reply
            .put(0, &[flags])
            .put16(4, resolution)
            .put16(6, MODULES as u16))
    }
}
