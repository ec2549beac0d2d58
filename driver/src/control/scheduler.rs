//! The transmit scheduler's tree: root, VSI node, one leaf for each traffic class.
//!
//! A QP sends through the queue set of its traffic class. The set's handle
//! comes from the leaf's ADD; it is registered with the LAN side (AQ 0x0C33) before
//! the leaf is enabled, because the leaf hangs below its tree too
//! (control-path 4.13, 9.8).

use e810_cqp::op::{NodeChange, PriorityType, WorkSchedNode};
use e810_cqp::{Completion, Cqp, Opcode};
use e810_hal::Platform;
use e810_hal::bus::VsiId;

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
    /// Its element in the LAN side's tree.
    teid: Option<u32>,
    enabled: Enabled,
    /// No users: it was not deleted when it should have been.
    users: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Enabled {
    No,
    /// The command was not answered in time.
    Unanswered,
    Yes,
}

impl Leaf {
    const fn added(done: Completion) -> Self {
        Self {
            // 10 bits of handle fit the QP context (control-path 5.2, row QSHANDLE).
            qs_handle: (done.ret_val & 0x3FF) as u16,
            teid: None,
            enabled: Enabled::No,
            users: 0,
        }
    }
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

    /// The queue-set handle of a traffic class, for one more user; builds the leaf on first use.
    pub(super) fn join<P: Platform>(
        &mut self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
        class: u8,
    ) -> Result<u16> {
        if let Some(leaf) = self.slot(class)?.as_mut().filter(|leaf| leaf.users > 0) {
            leaf.users = leaf.users.saturating_add(1);
            return Ok(leaf.qs_handle);
        }
        // A node whose deletion has not ended may go at any time. One that was not deleted is
        // used again.
        self.prune(cqp, lan)
            .or_else(|error| match error.leaves_command_open() {
                true => Err(error),
                false => Ok(()),
            })?;
        let built = self.build(cqp, lan, class);
        // The next call finds what was not answered.
        if built.is_err_and(|error| !error.leaves_command_open()) {
            // The first error says more than one that undoing may add.
            let _ = self.prune(cqp, lan);
        }
        built
    }

    /// Removes one user of a traffic class; the last one removes the leaf, and the last leaf the
    /// rest of the tree.
    ///
    /// # Errors
    /// The device's refusal: the next call deletes, or uses again, what the device did not
    /// delete.
    pub(super) fn leave<P: Platform>(
        &mut self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
        class: u8,
    ) -> Result<()> {
        let Some(leaf) = self.slot(class)? else {
            return Ok(());
        };
        leaf.users = leaf.users.saturating_sub(1);
        if leaf.users > 0 {
            return Ok(());
        }
        self.prune(cqp, lan)
    }

    fn slot(&mut self, class: u8) -> Result<&mut Option<Leaf>> {
        self.leaves
            .get_mut(usize::from(class))
            .ok_or(Error::OutOfRange {
                what: "traffic class",
                value: class.into(),
                min: 0,
                max: CLASSES as u64 - 1,
            })
    }

    /// Adds the missing nodes of a leaf and above it, and enables the leaf for one user.
    fn build<P: Platform>(
        &mut self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
        class: u8,
    ) -> Result<u16> {
        for (count, node) in [(1, ROOT), (2, VSI_NODE)] {
            if self.trunk < count {
                change(cqp, &self.trunk_node(node, NodeChange::Add))?;
                self.trunk = count;
            }
        }
        let vsi = self.vsi;
        let [add, enable] = [(NodeChange::Add, false), (NodeChange::Modify, true)]
            .map(|(change, enable)| self.leaf_node(class, change, enable));
        let slot = self.slot(class)?;
        let leaf = match slot {
            Some(leaf) => leaf,
            None => {
                let added = change(cqp, &add)?;
                slot.insert(Leaf::added(added))
            }
        };
        let qs_handle = leaf.qs_handle;
        if leaf.enabled != Enabled::Yes {
            let teid = match leaf.teid {
                Some(teid) => teid,
                None => lan.add_queue_set(vsi, class, qs_handle)?,
            };
            leaf.teid = Some(teid);
            if let Err(error) = change(cqp, &enable) {
                if error.leaves_command_open() {
                    leaf.enabled = Enabled::Unanswered;
                } else {
                    lan.remove_queue_set(vsi, qs_handle, teid);
                    leaf.teid = None;
                }
                return Err(error);
            }
            leaf.enabled = Enabled::Yes;
        }
        leaf.users = 1;
        Ok(qs_handle)
    }

    /// Enters the nodes that were added or enabled after the driver had given up waiting.
    fn find_late<P: Platform>(&mut self, cqp: &mut Cqp<P>) -> Result<()> {
        for (count, node) in [(1, ROOT), (2, VSI_NODE)] {
            let node = self.trunk_node(node, NodeChange::Add);
            if self.trunk < count && late(cqp, &node)?.is_some() {
                self.trunk = count;
            }
        }
        for class in 0..CLASSES as u8 {
            let node = self.leaf_node(class, NodeChange::Add, false);
            if let Some(added) = late(cqp, &node)? {
                self.slot(class)?.get_or_insert(Leaf::added(added));
            }
            let enable = self.leaf_node(class, NodeChange::Modify, true);
            if let Some(leaf) = self.slot(class)?
                && leaf.enabled == Enabled::Unanswered
            {
                leaf.enabled = match late_end(cqp, &enable)? {
                    Some(Err(_)) => Enabled::No,
                    // A command that is not remembered may have worked.
                    Some(Ok(_)) | None => Enabled::Yes,
                };
            }
        }
        Ok(())
    }

    /// Deletes the leaves without users, then the nodes above without leaves. Goes on with the
    /// next leaf after an error; returns the first.
    pub(super) fn prune<P: Platform>(
        &mut self,
        cqp: &mut Cqp<P>,
        lan: &mut impl LanHook,
    ) -> Result<()> {
        self.find_late(cqp)?;
        let mut result = Ok(());
        for class in 0..CLASSES as u8 {
            let unused = self.slot(class)?.filter(|leaf| leaf.users == 0);
            let Some(leaf) = unused else {
                continue;
            };
            let node = self.leaf_node(class, NodeChange::Delete, leaf.enabled == Enabled::Yes);
            match change(cqp, &node) {
                Ok(_) => {
                    if let Some(teid) = leaf.teid {
                        lan.remove_queue_set(self.vsi, leaf.qs_handle, teid);
                    }
                    *self.slot(class)? = None;
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        if self.leaves.iter().any(Option::is_some) {
            return result;
        }
        for (count, node) in [(2, VSI_NODE), (1, ROOT)] {
            if self.trunk >= count {
                change(cqp, &self.trunk_node(node, NodeChange::Delete))?;
                self.trunk = count - 1;
            }
        }
        result
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

    /// A leaf of weight 1, as existing drivers use without DCB (control-path 9.11): the shares of
    /// DCBX are not read.
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

/// Changes a node. An earlier try that was answered late counts.
fn change<P: Platform>(cqp: &mut Cqp<P>, node: &WorkSchedNode) -> Result<Completion> {
    Ok(cqp.execute_again(node, subject(node))?)
}

/// The completion of a change that was given up, if it worked in the end.
fn late<P: Platform>(cqp: &mut Cqp<P>, node: &WorkSchedNode) -> Result<Option<Completion>> {
    Ok(late_end(cqp, node)?.and_then(|ended| ended.ok()))
}

/// The end of a change that was given up. `None` if there is none.
fn late_end<P: Platform>(
    cqp: &mut Cqp<P>,
    node: &WorkSchedNode,
) -> Result<Option<e810_cqp::Result<Completion>>> {
    Ok(cqp.late_end(Opcode::WorkSchedNode, subject(node), true)?)
}

/// Tells a change of a node from others.
const fn subject(node: &WorkSchedNode) -> u64 {
    (node.node as u64) << 8 | node.change as u64
}
