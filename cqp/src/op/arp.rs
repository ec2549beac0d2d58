//! MANAGE_ARP and the local MAC table (control-path 4.11).

use e810_types::MacAddr;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::{bit, fit};
use crate::opcode::Opcode;

register_bitfields![u64,
    Arp [
        INDEX OFFSET(0) NUMBITS(12) [],
        ENTRYVALID OFFSET(42) NUMBITS(1) [],
        PERMANENT OFFSET(43) NUMBITS(1) []
    ],
    Mac [
        INDEX OFFSET(0) NUMBITS(6) [],
        IGNORE_REF_CNT OFFSET(61) NUMBITS(1) [],
        FREEENTRY OFFSET(62) NUMBITS(1) []
    ]
];

/// What to do with an ARP entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ArpChange {
    /// Add or overwrite it.
    Add {
        /// The neighbour's MAC.
        mac: MacAddr,
        /// PERMANENT; set by existing drivers.
        permanent: bool,
        /// REACHMAX; 0 in existing drivers, its unit is not in the sources.
        reach_max: u32,
    },
    /// Delete it.
    Delete,
}

/// MANAGE_ARP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManageArp {
    /// ARP index, below the committed ARP count; 0 is reserved.
    pub index: u16,
    /// What to do.
    pub change: ArpChange,
}

impl Command for ManageArp {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, q8, q16, ..] = &mut wqe;
        let mut fields = fit("ARP index", Arp::INDEX, self.index)?;
        if let ArpChange::Add {
            mac,
            permanent,
            reach_max,
        } = self.change
        {
            *q8 = u64::from(reach_max);
            *q16 = mac.to_u64();
            fields += Arp::ENTRYVALID::SET + bit(Arp::PERMANENT, permanent);
        }
        wqe[HEADER] = header(Opcode::ManageArp, fields.value);
        Ok(wqe)
    }
}

/// ALLOCATE_LOC_MAC_TABLE_ENTRY: the completion's return value is the index.
/// GEN_1 drivers use it; on GEN_2 the MAC stands in the QP context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocateLocalMac;

impl Command for AllocateLocalMac {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        wqe[HEADER] = header(Opcode::AllocateLocMac, 0);
        Ok(wqe)
    }
}

/// What to do with a local MAC entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LocalMacChange {
    /// Write the entry.
    Add(MacAddr),
    /// Free the entry.
    Delete {
        /// IGNORE_REF_CNT: also when it is in use.
        ignore_references: bool,
    },
}

/// MANAGE_LOC_MAC_TABLE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManageLocalMac {
    /// Index from [`AllocateLocalMac`], below 64.
    pub index: u8,
    /// What to do.
    pub change: LocalMacChange,
}

impl Command for ManageLocalMac {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, _, _, q32, ..] = &mut wqe;
        let mut fields = fit("local MAC index", Mac::INDEX, self.index)?;
        match self.change {
            LocalMacChange::Add(mac) => *q32 = mac.to_u64(),
            LocalMacChange::Delete { ignore_references } => {
                fields += Mac::FREEENTRY::SET + bit(Mac::IGNORE_REF_CNT, ignore_references);
            }
        }
        wqe[HEADER] = header(Opcode::ManageLocMac, fields.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_checked() {
        let arp = |index| ManageArp {
            index,
            change: ArpChange::Delete,
        };
        assert!(arp(4095).encode().is_ok());
        assert!(arp(4096).encode().is_err());
        let mac = |index| ManageLocalMac {
            index,
            change: LocalMacChange::Add(MacAddr::default()),
        };
        assert!(mac(63).encode().is_ok());
        assert!(mac(64).encode().is_err());
    }
}
