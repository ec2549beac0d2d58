//! Scheduler topology queries: resources, default topology, traffic classes (control-path 9.7).

use super::descriptor::{Answer, Command};
use super::layout::{put, put_u16, put_u32};
use super::sched_tree::{ELEMENT, NO_TEID};
use super::{AqCode, Cx};

/// Bytes of one layer's properties, and of the header before them.
const LAYER: usize = 32;
/// Layers that fit the reply of 0x0412.
const LAYERS: usize = 9;
/// Bytes of a branch in the reply of 0x0400: header and room for nine elements.
const BRANCH: usize = 8 + LAYERS * ELEMENT;
/// Bytes of the ETS reply.
const ETS: usize = 64;

impl Cx<'_, '_> {
    /// 0x0412.
    pub(super) fn scheduler_resources(&mut self, command: &Command) -> Answer {
        let layers = self.fw.tree.layers();
        let mut data = vec![0; LAYER * (1 + LAYERS)];
        put_u16(&mut data, 0, LAYERS as u16);
        put_u16(&mut data, 2, layers.len() as u16);
        // Congestion domains, and queue sets of the RDMA engine.
        put(&mut data, 5, &[8, 8]);
        put_u16(&mut data, 8, 1024);
        for (index, layer) in layers.iter().enumerate() {
            let at = LAYER * (1 + index);
            put(&mut data, at, &[index as u8, 1]);
            put_u16(&mut data, at + 2, layer.nodes.saturating_mul(8));
            put_u16(&mut data, at + 4, layer.nodes);
            put_u16(&mut data, at + 10, layer.siblings);
            for profiles in [12, 14, 16] {
                put_u16(&mut data, at + profiles, 64);
            }
        }
        command.answer(data)
    }

    /// 0x0400: a branch for each active traffic class.
    pub(super) fn default_topology(&mut self, command: &Command) -> Answer {
        // A function has one port; iPXE names no port.
        if command.param8(0) != self.port_number() && command.param8(0) != 0 {
            return Err(AqCode::EINVAL);
        }
        let tree = &self.fw.tree;
        let others = tree.others.iter().map(|(_, branch)| branch);
        let branches: Vec<&Vec<u32>> = [&tree.default_branch].into_iter().chain(others).collect();
        let mut data = vec![0; BRANCH * branches.len()];
        for (number, branch) in branches.iter().enumerate() {
            let at = number * BRANCH;
            put_u32(&mut data, at, NO_TEID);
            put_u16(&mut data, at + 4, branch.len() as u16);
            for (index, teid) in branch.iter().enumerate() {
                // Deleted nodes are still shown, with no contents.
                let element = tree.element(*teid).unwrap_or_default();
                put(&mut data, at + 8 + index * ELEMENT, &element);
            }
        }
        let count = branches.len() as u8;
        Ok(command.answer(data)?.put(1, &[count]))
    }

    /// 0x040E: the node of each traffic class. The classes' shares, on which nothing here depends,
    /// are equal and add up to a hundred; class 0 gets the remainder.
    pub(super) fn query_port_ets(&mut self, command: &Command) -> Answer {
        if command.param32(0) != self.fw.tree.root() {
            return Err(AqCode::ENOENT);
        }
        let tree = &self.fw.tree;
        let mut data = vec![0; ETS];
        let others = tree.others.len() as u8;
        let share = 100 / (others + 1);
        put(&mut data, 8, &[100 - others * share]);
        let mut active = 1;
        put_u32(&mut data, 32, tree.tc());
        for class in 1..8u8 {
            let branch = tree.others.iter().find(|(other, _)| *other == class);
            let teid = branch.and_then(|(_, branch)| branch.get(1).copied());
            active |= u8::from(teid.is_some()) << class;
            if teid.is_some() {
                put(&mut data, 8 + usize::from(class), &[share]);
            }
            let at = 32 + 4 * usize::from(class);
            put_u32(&mut data, at, teid.unwrap_or(NO_TEID));
        }
        put(&mut data, 0, &[active]);
        command.answer(data)
    }

    /// 0x0418: the topology that the NVM names is in use; capability 0x0085 is not offered.
    pub(super) fn get_tx_topology(&mut self, command: &Command) -> Answer {
        const LOADED_NEW: u8 = 1 << 4;
        let flags = if self.fw.tree.layers().len() == 5 {
            LOADED_NEW
        } else {
            0
        };
        Ok(command.done().put(0, &[flags]))
    }
}
