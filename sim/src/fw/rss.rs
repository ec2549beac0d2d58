//! RSS keys and lookup tables of VSIs (0x0B02 to 0x0B05).

use std::collections::BTreeMap;

use crate::lan::{HashFields, Spread};

use super::descriptor::{Answer, Command};
use super::{AqCode, Cx};

/// Bytes of a key with its extension.
const KEY: usize = 52;
const NUMBER: u16 = 0x3ff;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Table {
    Vsi(u16),
    Function,
    Global(u8),
}

/// Keys and tables that were set.
#[derive(Debug, Default)]
pub(super) struct Rss {
    keys: BTreeMap<u16, Vec<u8>>,
    tables: BTreeMap<Table, Vec<u8>>,
}

impl Rss {
    /// How frames of a VSI with these `options` (lan-path 7.1) are spread. `None` while it has no
    /// key or no table, and for hashes that drivers do not use.
    pub(super) fn spread(&self, vsi: u16, options: u8, fields: HashFields) -> Option<Spread<'_>> {
        let table = match options & 3 {
            0 => Table::Vsi(vsi),
            2 => Table::Function,
            3 => Table::Global(options >> 2 & 0xf),
            _ => return None,
        };
        let is_symmetric = match options >> 6 {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Spread {
            key: self.keys.get(&vsi)?,
            table: self.tables.get(&table)?,
            is_symmetric,
            fields,
        })
    }
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

    fn rss_table(&self, command: &Command) -> Result<Table, AqCode> {
        let vsi = self.rss_vsi(command)?;
        let flags = command.param16(2);
        match flags & 3 {
            0 => Ok(Table::Vsi(vsi)),
            1 => Ok(Table::Function),
            2 => Ok(Table::Global((flags >> 4) as u8 & 0xf)),
            _ => Err(AqCode::EINVAL),
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
        let entries = command.input(1)?.to_vec();
        let table = self.rss_table(command)?;
        self.fw.rss.tables.insert(table, entries);
        Ok(command.done())
    }

    pub(super) fn get_rss_lut(&mut self, command: &Command) -> Answer {
        let table = self.rss_table(command)?;
        let mut entries = self.fw.rss.tables.get(&table).cloned().unwrap_or_default();
        entries.resize(command.room, 0);
        command.answer(entries)
    }
}
