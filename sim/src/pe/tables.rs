//! Small on-chip tables: work scheduler, push pages, local MACs, quad hash, user-priority map.

use std::collections::{BTreeMap, BTreeSet};

use crate::variation::QueueSetHandles;

/// One node of the work scheduler (control-path 4.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u16,
    /// Queue-set handle, for a leaf.
    pub(crate) queue_set: Option<u16>,
    pub(crate) enabled: bool,
    pub(crate) vsi: u16,
    pub(crate) class: u8,
    pub(crate) weight: u8,
    pub(crate) priority: u8,
}

/// Entries of the local MAC table (6-bit index).
pub(crate) const LOCAL_MACS: u8 = 64;
/// Push pages (control-path 2.9).
pub(crate) const PUSH_PAGES: u16 = 256;
/// Queue-set handles are 10 bits wide in the QP context (control-path 4.13).
const QUEUE_SETS: u16 = 1024;

/// Entries that a driver frees when it ends in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftBehind {
    /// Nodes of the work scheduler.
    pub scheduler_nodes: usize,
    pub statistics_instances: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) nodes: BTreeMap<u16, Node>,
    /// Queue pairs that were moved to RTS, and the queue set of each.
    pub(crate) senders: BTreeMap<u32, u16>,
    /// Push page → queue set.
    pub(crate) push_pages: BTreeMap<u16, u16>,
    /// Local MAC index → MAC number, `None` while only allocated.
    pub(crate) local_macs: BTreeMap<u8, Option<u64>>,
    /// Quad-hash entries by their key words.
    pub(crate) quad_hash: BTreeMap<[u64; 7], u32>,
    /// Statistics instances in use.
    pub(crate) statistics_instances: BTreeSet<u8>,
    /// UP_MAP words q0 and q40.
    pub(crate) up_map: [u64; 2],
    /// The CCQ was created and not destroyed.
    pub(crate) ccq: bool,
    /// VFs in the HMC PM function table, and the HMC function of each.
    pub(crate) pm_functions: BTreeMap<u16, u16>,
    /// Start of the search for a free queue-set handle.
    next_queue_set: u16,
}

impl Tables {
    /// Entries in use.
    pub(crate) fn left_behind(&self) -> LeftBehind {
        LeftBehind {
            scheduler_nodes: self.nodes.len(),
            statistics_instances: self.statistics_instances.len(),
        }
    }

    /// Whether a queue-set handle belongs to a leaf of the work scheduler.
    pub(crate) fn queue_set_exists(&self, handle: u16) -> bool {
        self.nodes
            .values()
            .any(|node| node.queue_set == Some(handle))
    }

    /// Traffic class of the leaf of a queue set.
    pub(crate) fn queue_set_class(&self, handle: u16) -> Option<u8> {
        let mut nodes = self.nodes.values();
        let leaf = nodes.find(|node| node.queue_set == Some(handle))?;
        Some(leaf.class)
    }

    /// Whether the leaf of a queue set is enabled.
    pub(crate) fn queue_set_enabled(&self, handle: u16) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.queue_set == Some(handle) && node.enabled)
    }

    /// A queue-set handle that no leaf has. Handles are not small numbers counted from 0, so that
    /// software cannot mistake them for something else.
    pub(crate) fn free_queue_set(&mut self, handles: QueueSetHandles) -> Option<u16> {
        let start = match handles {
            QueueSetHandles::Next => self.next_queue_set,
            QueueSetHandles::Lowest => 0,
        };
        let handle = (0..QUEUE_SETS)
            .map(|n| 0x100_u16.wrapping_add(start).wrapping_add(n) % QUEUE_SETS)
            .find(|handle| !self.queue_set_exists(*handle))?;
        self.next_queue_set = (start + 1) % QUEUE_SETS;
        Some(handle)
    }

    /// Whether another node hangs below `id`.
    pub(crate) fn has_children(&self, id: u16) -> bool {
        self.nodes
            .iter()
            .any(|(child, node)| node.parent == id && *child != id)
    }

    /// The lowest local MAC index not in use.
    pub(crate) fn free_local_mac(&self) -> Option<u8> {
        (0..LOCAL_MACS).find(|index| !self.local_macs.contains_key(index))
    }

    /// The lowest push page not in use.
    pub(crate) fn free_push_page(&self) -> Option<u16> {
        (0..PUSH_PAGES).find(|page| !self.push_pages.contains_key(page))
    }
}
