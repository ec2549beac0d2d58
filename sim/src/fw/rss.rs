//! RSS keys and lookup tables of VSIs (0x0B02 to 0x0B05).

use std::collections::BTreeMap;

use super::descriptor::{Answer, Command};
use super::{AqCode, Cx};

/// Bytes of a key with its extension.
const KEY: usize = 52;
const NUMBER: u16 = 0x3ff;

/// What was set.
#[derive(Debug, Default)]
pub(super) struct Rss {
    keys: BTreeMap<u16, Vec<u8>>,
    tables: BTreeMap<u16, Vec<u8>>,
}

impl Cx<'_, '_> {
    fn rss_vsi(&self, command: &Command) -> Result<u16, AqCode> {
        let vsi = command.param16(0) & NUMBER;
        if self.fw.vsis.has(vsi) {
            Ok(vsi)
        } else {
            Err(AqCode::ENOENT)
        }
    }

    pub(super) fn set_rss_key(&mut self, command: &Command) -> Answer {
        let key = command.input(KEY)?.to_vec();
        let vsi = self.rss_vsi(command)?;
        self.fw.rss.keys.insert(vsi, key);
        Ok(command.done())
    }

    pub(super) fn get_rss_key(&mut self, command: &Command) -> Answer {
        let vsi = self.rss_vsi(command)?;
        let key = self.fw.rss.keys.get(&vsi).cloned();
        command.answer(key.unwrap_or_else(|| vec![0; KEY]))
    }

    pub(super) fn set_rss_lut(&mut self, command: &Command) -> Answer {
        let table = command.input(1)?.to_vec();
        let vsi = self.rss_vsi(command)?;
        self.fw.rss.tables.insert(vsi, table);
        Ok(command.done())
    }

    pub(super) fn get_rss_lut(&mut self, command: &Command) -> Answer {
        let vsi = self.rss_vsi(command)?;
        let table = self.fw.rss.tables.get(&vsi).cloned().unwrap_or_default();
        let mut table = table;
        table.resize(command.room, 0);
        command.answer(table)
    }
}
