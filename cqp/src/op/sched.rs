//! WORK_SCHED_NODE (control-path 4.13).

use e810_hal::bus::VsiId;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::{bit, fit};
use crate::opcode::Opcode;

register_bitfields![u64,
    Q32 [
        WEIGHT OFFSET(32) NUMBITS(7) [],
        VSI OFFSET(48) NUMBITS(16) []
    ],
    Q24 [
        NODEID OFFSET(0) NUMBITS(14) [],
        PARENTID OFFSET(16) NUMBITS(14) [],
        NODEOP OFFSET(52) NUMBITS(4) [],
        TC OFFSET(56) NUMBITS(3) [],
        PRIOTYPE OFFSET(59) NUMBITS(2) [],
        NODETYPE OFFSET(61) NUMBITS(1) [],
        ENABLENODE OFFSET(62) NUMBITS(1) []
    ]
];

/// NODEOP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum NodeChange {
    /// Add. For a leaf the completion's return value is the queue-set handle.
    Add = 0,
    /// Modify.
    Modify = 1,
    /// Delete.
    Delete = 2,
}

/// PRIOTYPE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum PriorityType {
    /// Weighted round robin.
    WeightedRoundRobin = 1,
    /// Strict.
    Strict = 2,
    /// Weighted strict.
    WeightedStrict = 3,
}

/// WORK_SCHED_NODE: a node of the transmit scheduler's tree (root, VSI nodes,
/// traffic-class leaves).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkSchedNode {
    /// Node id; 0 is the root.
    pub node: u16,
    /// Parent; the root is its own parent.
    pub parent: u16,
    /// VSI.
    pub vsi: VsiId,
    /// A leaf carries QPs; the others carry nodes.
    pub leaf: bool,
    /// ENABLENODE. A leaf is added disabled, and enabled once the LAN side knows its handle.
    pub enable: bool,
    /// Priority rule.
    pub priority: PriorityType,
    /// Traffic class, 0 to 7.
    pub traffic_class: u8,
    /// Weight, 7 bits, at least 1.
    pub weight: u8,
    /// What to do.
    pub change: NodeChange,
}

impl Command for WorkSchedNode {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, _, _, q32, ..] = &mut wqe;
        *q32 = (fit("scheduler weight", Q32::WEIGHT, self.weight)?
            + Q32::VSI.val(u64::from(self.vsi.get())))
        .value;
        let fields = fit("scheduler node id", Q24::NODEID, self.node)?
            + fit("scheduler parent id", Q24::PARENTID, self.parent)?
            + Q24::NODEOP.val(self.change as u64)
            + fit("traffic class", Q24::TC, self.traffic_class)?
            + Q24::PRIOTYPE.val(self.priority as u64)
            + bit(Q24::NODETYPE, self.leaf)
            + bit(Q24::ENABLENODE, self.enable);
        wqe[HEADER] = header(Opcode::WorkSchedNode, fields.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let good = WorkSchedNode {
            node: 0x3FFF,
            parent: 0x3FFF,
            vsi: VsiId::new(21).unwrap(),
            leaf: true,
            enable: false,
            priority: PriorityType::Strict,
            traffic_class: 7,
            weight: 127,
            change: NodeChange::Add,
        };
        assert!(good.encode().is_ok());
        for bad in [
            WorkSchedNode {
                node: 0x4000,
                ..good
            },
            WorkSchedNode {
                parent: 0x4000,
                ..good
            },
            WorkSchedNode {
                traffic_class: 8,
                ..good
            },
            WorkSchedNode {
                weight: 128,
                ..good
            },
        ] {
            assert!(bad.encode().is_err());
        }
    }
}
