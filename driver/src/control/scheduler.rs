//! The transmit scheduler's tree: root, VSI node, one leaf a traffic class.
//!
//! A QP sends through the queue set of its traffic class. The set's handle
//! comes from the leaf's ADD; it is registered with the LAN side (AQ 0x0C33) before
//! the leaf is enabled, because the leaf hangs below its tree too
//! (control-path 4.13, 9.8).

use e810_cqp::Cqp;
use e810_cqp::op::{NodeChange, PriorityType, WorkSchedNode};
use e810_hal::Platform;
use e810_hal::bus::VsiId;

use super::run;
use crate::error::{Error, Result};
use crate::lan::LanHook;

/// Node ids: 0 is the root, 1 this function's VSI, leaves follow.
const ROOT: u16 = 0;
const VSI_NODE: u16 = 1;
const FIRST_LEAF: u16 = 2;
/// Traffic classes of a port.
const CLASSES: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Leaf {
    qs_handle: u16,
    teid: u32,
    users: u32,
}

/// The tree as far as it was built.
#[derive(Debug)]
pub(super) struct Scheduler {
    vsi: VsiId,
    /// How many of root and VSI node exist (0, 1, 2).
    trunk: u8,
    leaves: [Option<Leaf>; CLASSES],
}

impl Scheduler {
    pub(super) const fn new(vsi: VsiId) -> Self {
        Self {
            vsi,
            trunk: 0,
            leaves: [None; CLASSES],
        }
    }

    /// The queue-set handle of a traffic class, for one more user; built on
    /// first use.
    pub(super) fn join<P: Platform>(
        &mut self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
        class: u8,
    ) -> Result<u16> {
        if let Some(leaf) = self.leaf_mut(class)? {
            leaf.users = leaf.users.saturating_add(1);
            return Ok(leaf.qs_handle);
        }
        let made = self
            .grow_trunk(cqp)
            .and_then(|()| self.add_leaf(cqp, lan, class));
        match made {
            Ok(leaf) => {
                if let Some(slot) = self.leaves.get_mut(usize::from(class)) {
                    *slot = Some(leaf);
                }
                Ok(leaf.qs_handle)
            }
            Err(error) => {
                // The first error says more than one that undoing may add.
                let _ = self.prune_trunk(cqp);
                Err(error)
            }
        }
    }

    /// One user of a traffic class less; the last one takes the leaf along,
    /// and the last leaf the rest of the tree.
    pub(super) fn leave<P: Platform>(
        &mut self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
        class: u8,
    ) -> Result<()> {
        let Some(leaf) = self.leaf_mut(class)? else {
            return Ok(());
        };
        leaf.users = leaf.users.saturating_sub(1);
        if leaf.users > 0 {
            return Ok(());
        }
        let leaf = *leaf;
        run(cqp, &self.leaf_node(class, NodeChange::Delete, true))?;
        lan.remove_queue_set(self.vsi, leaf.qs_handle, leaf.teid);
        if let Some(slot) = self.leaves.get_mut(usize::from(class)) {
            *slot = None;
        }
        self.prune_trunk(cqp)
    }

    fn leaf_mut(&mut self, class: u8) -> Result<Option<&mut Leaf>> {
        match self.leaves.get_mut(usize::from(class)) {
            Some(slot) => Ok(slot.as_mut()),
            None => Err(Error::OutOfRange {
                what: "traffic class",
                value: class.into(),
                min: 0,
                max: CLASSES as u64 - 1,
            }),
        }
    }

    fn grow_trunk<P: Platform>(&mut self, cqp: &mut Cqp<P>) -> Result<()> {
        for (count, node) in [(1, ROOT), (2, VSI_NODE)] {
            if self.trunk < count {
                run(cqp, &self.trunk_node(node, NodeChange::Add))?;
                self.trunk = count;
            }
        }
        Ok(())
    }

    fn prune_trunk<P: Platform>(&mut self, cqp: &mut Cqp<P>) -> Result<()> {
        if self.leaves.iter().any(Option::is_some) {
            return Ok(());
        }
        for (count, node) in [(2, VSI_NODE), (1, ROOT)] {
            if self.trunk >= count {
                run(cqp, &self.trunk_node(node, NodeChange::Delete))?;
                self.trunk = count - 1;
            }
        }
        Ok(())
    }

    fn add_leaf<P: Platform>(
        &self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
        class: u8,
    ) -> Result<Leaf> {
        let added = cqp.execute(&self.leaf_node(class, NodeChange::Add, false))?;
        // 10 bits of handle fit the QP context (control-path 5.2, row QSHANDLE).
        let qs_handle = (added.ret_val & 0x3FF) as u16;
        let registered = lan.add_queue_set(self.vsi, class, qs_handle);
        let enabled = registered.and_then(|teid| {
            let enable = self.leaf_node(class, NodeChange::Modify, true);
            run(cqp, &enable).inspect_err(|_| lan.remove_queue_set(self.vsi, qs_handle, teid))?;
            Ok(teid)
        });
        match enabled {
            Ok(teid) => Ok(Leaf {
                qs_handle,
                teid,
                users: 1,
            }),
            Err(error) => {
                let _ = run(cqp, &self.leaf_node(class, NodeChange::Delete, false));
                Err(error)
            }
        }
    }

    /// Root and VSI node: enabled, weight 1, weighted round robin.
    const fn trunk_node(&self, node: u16, change: NodeChange) -> WorkSchedNode {
        WorkSchedNode {
            node,
            // The root is its own parent.
            parent: ROOT,
            vsi: self.vsi,
            leaf: false,
            enable: true,
            priority: PriorityType::WeightedRoundRobin,
            traffic_class: 0,
            weight: 1,
            change,
        }
    }

    /// A leaf. Its weight is the class's relative bandwidth, 1 without DCB
    /// (control-path 9.11).
    const fn leaf_node(&self, class: u8, change: NodeChange, enable: bool) -> WorkSchedNode {
        WorkSchedNode {
            node: FIRST_LEAF + class as u16,
            parent: VSI_NODE,
            vsi: self.vsi,
            leaf: true,
            enable,
            priority: PriorityType::WeightedRoundRobin,
            traffic_class: class,
            weight: 1,
            change,
        }
    }
}
