//! Transmit scheduler tree of one port: nodes, layers and limits (control-path 9.7).

use std::collections::BTreeMap;

use super::AqCode;
use super::config::FirmwareConfig;
use super::layout::{part, put, put_u32, u8_at, u32_at};
use super::recorded::{Answers, shift_teid};
use crate::variation::DefaultBranch;

/// Bytes of an element: parent, node, and 16 bytes of data.
pub(super) const ELEMENT: usize = 24;
/// TEID that names no node.
pub(super) const NO_TEID: u32 = u32::MAX;

/// Element types.
pub(super) mod kind {
    pub(in crate::fw) const ROOT: u8 = 1;
    pub(in crate::fw) const TC: u8 = 2;
    pub(in crate::fw) const GENERIC: u8 = 3;
    pub(in crate::fw) const ENTRY: u8 = 4;
    pub(in crate::fw) const LEAF: u8 = 5;
}

/// Sections of an element that are valid: generic, CIR, EIR.
pub(super) const VALID: u8 = 0b111;
const VALID_GENERIC: u8 = 1;
const SUSPENDED: u8 = 1;

/// Maximum children of a parent, by layer of the children, and how many of these a function has.
/// The numbers are not in the sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layer {
    pub(super) siblings: u16,
    pub(super) nodes: u16,
}

const fn layer(siblings: u16, nodes: u16) -> Layer {
    Layer { siblings, nodes }
}

const NINE: [Layer; 9] = [
    layer(1, 1),
    layer(8, 8),
    layer(8, 32),
    layer(8, 64),
    layer(8, 128),
    layer(8, 256),
    layer(8, 256),
    layer(64, 512),
    layer(8, 2048),
];
const FIVE: [Layer; 5] = [
    layer(1, 1),
    layer(8, 8),
    layer(8, 32),
    layer(64, 256),
    layer(512, 2048),
];

/// Use of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaf {
    /// The leaf that the firmware starts with.
    Default,
    /// A LAN queue.
    Lan(u16),
    /// A queue set of the RDMA engine.
    Rdma(u16),
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) layer: usize,
    pub(super) children: Vec<u32>,
    pub(super) leaf: Option<Leaf>,
    data: [u8; 16],
}

impl Node {
    pub(super) fn kind(&self) -> u8 {
        u8_at(&self.data, 0)
    }
}

/// The tree of a function's port.
#[derive(Debug)]
pub(super) struct SchedTree {
    nodes: BTreeMap<u32, Node>,
    next_teid: u32,
    layers: Vec<Layer>,
    pub(super) default_branch: Vec<u32>,
    /// The branches of the other traffic classes: class number, then root, class and entry point.
    /// That they have no default chain is `[inf other_classes]`.
    pub(super) others: Vec<(u8, Vec<u32>)>,
}

/// Data of an element of that type, with weight 4 and profile 0.
fn plain(kind: u8) -> [u8; 16] {
    let mut data = [0; 16];
    put(&mut data, 0, &[kind, VALID]);
    put(&mut data, 6, &[4]);
    put(&mut data, 10, &[4]);
    data
}

impl SchedTree {
    /// The default branch: root, TC 0, entry point, and down to a queue group or a leaf. Then the
    /// other classes.
    pub(super) fn new(pf: u8, config: &FirmwareConfig, branch: DefaultBranch) -> Self {
        if let Some(tree) = config
            .recorded
            .as_ref()
            .and_then(|answers| Self::recorded(pf, answers))
        {
            return tree;
        }
        let mut tree = Self::default_chain(pf, config.layers, branch);
        let root = tree.root();
        for class in (1..8).filter(|class| config.classes >> class & 1 != 0) {
            let tc = tree.insert(root, 1, plain(kind::TC), None);
            let entry = tree.insert(tc, 2, plain(kind::ENTRY), None);
            tree.others.push((class, vec![root, tc, entry]));
        }
        tree
    }

    /// The tree that a recorded card has; `None` if the report does not have all of it.
    fn recorded(pf: u8, answers: &Answers) -> Option<Self> {
        let (Ok(Some(layers)), Ok(Some(branches))) = (answers.layers(), answers.branches()) else {
            return None;
        };
        let by = i32::from(pf) - i32::from(answers.pf);
        let mut tree = Self {
            nodes: BTreeMap::new(),
            next_teid: 1,
            layers,
            default_branch: Vec::new(),
            others: Vec::new(),
        };
        let last = tree.layers.len() - 1;
        for (class, branch) in (0..).zip(&branches) {
            let mut teids = Vec::new();
            let mut parent = NO_TEID;
            for (layer, element) in branch.iter().enumerate() {
                let teid = shift_teid(u32_at(element, 4), by);
                let mut data = [0; 16];
                put(&mut data, 0, part(element, 8, 16));
                // Every branch contains the root.
                if !tree.nodes.contains_key(&teid) {
                    let leaf = (layer == last).then_some(Leaf::Default);
                    tree.insert_at(teid, parent, layer, data, leaf);
                }
                tree.next_teid = tree.next_teid.max(teid.saturating_add(1));
                teids.push(teid);
                parent = teid;
            }
            match class {
                0 => tree.default_branch = teids,
                _ => tree.others.push((class, teids)),
            }
        }
        Some(tree)
    }

    fn default_chain(pf: u8, layers: u8, branch: DefaultBranch) -> Self {
        let mut tree = Self {
            nodes: BTreeMap::new(),
            // Different on every port, so that mixing them up shows.
            next_teid: (u32::from(pf) + 1) << 16,
            layers: if layers == 5 {
                FIVE.to_vec()
            } else {
                NINE.to_vec()
            },
            default_branch: Vec::new(),
            others: Vec::new(),
        };
        let mut parent = NO_TEID;
        let most = tree.layers().len();
        for layer in 0..most - usize::from(branch == DefaultBranch::Group) {
            let last = layer + 1 == most;
            let kind = match layer {
                0 => kind::ROOT,
                1 => kind::TC,
                2 => kind::ENTRY,
                _ if last => kind::LEAF,
                _ => kind::GENERIC,
            };
            let leaf = last.then_some(Leaf::Default);
            parent = tree.insert(parent, layer, plain(kind), leaf);
            tree.default_branch.push(parent);
        }
        tree
    }

    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Layer of the queue groups; in a tree of five layers this is the VSI layer.
    pub(super) fn group_layer(&self) -> usize {
        self.layers().len() - 2
    }

    pub(super) fn get(&self, teid: u32) -> Option<&Node> {
        self.nodes.get(&teid)
    }

    fn insert(&mut self, parent: u32, layer: usize, data: [u8; 16], leaf: Option<Leaf>) -> u32 {
        let teid = self.next_teid;
        self.next_teid += 1;
        self.insert_at(teid, parent, layer, data, leaf);
        teid
    }

    fn insert_at(
        &mut self,
        teid: u32,
        parent: u32,
        layer: usize,
        data: [u8; 16],
        leaf: Option<Leaf>,
    ) {
        let node = Node {
            parent,
            layer,
            children: Vec::new(),
            leaf,
            data,
        };
        self.nodes.insert(teid, node);
        if let Some(above) = self.nodes.get_mut(&parent) {
            above.children.push(teid);
        }
    }

    /// A new node below `parent`.
    ///
    /// # Errors
    /// ENOENT without that parent, EINVAL for a wrong layer or invalid sections, ENOSPC when there
    /// is no room.
    pub(super) fn add(
        &mut self,
        parent: u32,
        data: &[u8],
        leaf: Option<Leaf>,
    ) -> Result<u32, AqCode> {
        let above = self.get(parent).ok_or(AqCode::ENOENT)?;
        let layer = above.layer + 1;
        let limits = self.layers().get(layer).ok_or(AqCode::EINVAL)?;
        // Leaves belong to queue groups, and only there; a driver does not add TCs.
        let is_leaf_layer = layer == self.layers().len() - 1;
        if layer < 2 || is_leaf_layer != leaf.is_some() {
            return Err(AqCode::EINVAL);
        }
        // Without the generic section the command fails (`ice/ice_common.c ice_ena_vsi_txq`).
        if u8_at(data, 1) & VALID_GENERIC == 0 {
            return Err(AqCode::EINVAL);
        }
        let in_layer = self.nodes.values().filter(|node| node.layer == layer);
        if above.children.len() >= usize::from(limits.siblings)
            || in_layer.count() >= usize::from(limits.nodes)
        {
            return Err(AqCode::ENOSPC);
        }
        let mut own = [0; 16];
        put(&mut own, 0, part(data, 0, 16));
        if leaf.is_some() {
            put(&mut own, 0, &[kind::LEAF]);
        }
        Ok(self.insert(parent, layer, own, leaf))
    }

    /// Removes a node without children.
    pub(super) fn remove(&mut self, teid: u32) {
        let Some(node) = self.nodes.remove(&teid) else {
            return;
        };
        if let Some(above) = self.nodes.get_mut(&node.parent) {
            above.children.retain(|child| *child != teid);
        }
    }

    /// Moves a node to another parent in the same layer as its own.
    pub(super) fn move_to(&mut self, teid: u32, parent: u32) -> Result<(), AqCode> {
        let node = self.get(teid).ok_or(AqCode::ENOENT)?;
        let (from, layer) = (node.parent, node.layer);
        let above = self.get(parent).ok_or(AqCode::ENOENT)?;
        if above.layer + 1 != layer {
            return Err(AqCode::EINVAL);
        }
        let limits = self.layers().get(layer).ok_or(AqCode::EINVAL)?;
        if from != parent && above.children.len() >= usize::from(limits.siblings) {
            return Err(AqCode::ENOSPC);
        }
        if let Some(above) = self.nodes.get_mut(&from) {
            above.children.retain(|child| *child != teid);
        }
        if let Some(above) = self.nodes.get_mut(&parent) {
            above.children.push(teid);
        }
        if let Some(node) = self.nodes.get_mut(&teid) {
            node.parent = parent;
        }
        Ok(())
    }

    /// Changes the data of a node, but not its type.
    pub(super) fn configure(&mut self, teid: u32, data: &[u8]) -> Result<(), AqCode> {
        let node = self.nodes.get_mut(&teid).ok_or(AqCode::ENOENT)?;
        put(&mut node.data, 1, part(data, 1, 15));
        Ok(())
    }

    pub(super) fn suspend(&mut self, teid: u32, suspend: bool) -> Result<(), AqCode> {
        let node = self.nodes.get_mut(&teid).ok_or(AqCode::ENOENT)?;
        let flags = u8_at(&node.data, 3) & !SUSPENDED;
        put(&mut node.data, 3, &[flags | u8::from(suspend)]);
        Ok(())
    }

    /// The leaf that stands for `leaf`, and its parent.
    pub(super) fn find_leaf(&self, leaf: Leaf) -> Option<(u32, u32)> {
        self.nodes
            .iter()
            .find(|(_, node)| node.leaf == Some(leaf))
            .map(|(teid, node)| (*teid, node.parent))
    }

    /// The element of a node.
    pub(super) fn element(&self, teid: u32) -> Option<[u8; ELEMENT]> {
        let node = self.get(teid)?;
        let mut element = [0; ELEMENT];
        put_u32(&mut element, 0, node.parent);
        put_u32(&mut element, 4, teid);
        put(&mut element, 8, &node.data);
        Some(element)
    }

    /// Number of the traffic class above a node.
    pub(super) fn class_of(&self, teid: u32) -> Option<u8> {
        let mut teid = teid;
        while self.get(teid)?.layer > 1 {
            teid = self.get(teid)?.parent;
        }
        if teid == self.tc() {
            return Some(0);
        }
        let mut others = self.others.iter();
        let (class, _) = others.find(|(_, branch)| branch.get(1) == Some(&teid))?;
        Some(*class)
    }

    /// The node of traffic class 0.
    pub(super) fn tc(&self) -> u32 {
        self.default_branch.get(1).copied().unwrap_or(NO_TEID)
    }

    pub(super) fn root(&self) -> u32 {
        self.default_branch.first().copied().unwrap_or(NO_TEID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generic node, all sections valid.
    const GENERIC: [u8; 16] = [3, 7, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0];

    fn chain(tree: &mut SchedTree) -> u32 {
        let mut parent = tree.tc();
        for _ in 2..=tree.group_layer() {
            parent = tree.add(parent, &GENERIC, None).unwrap();
        }
        parent
    }

    #[test]
    fn the_default_branch_goes_from_root_to_a_group_or_a_leaf() {
        let ends = [(DefaultBranch::Group, 1, 3), (DefaultBranch::Leaf, 0, 5)];
        for (layers, group, (end, less, last)) in [(9, 7), (5, 3)]
            .into_iter()
            .flat_map(|(layers, group)| ends.map(|end| (layers, group, end)))
        {
            let tree = SchedTree::default_chain(1, layers, end);
            let length = usize::from(layers) - less;
            assert_eq!(tree.default_branch.len(), length);
            assert_eq!(tree.group_layer(), group);
            let kinds: Vec<u8> = tree
                .default_branch
                .iter()
                .map(|teid| tree.get(*teid).unwrap().kind())
                .collect();
            assert_eq!(kinds[..3], [1, 2, 4]);
            assert_eq!(kinds.last(), Some(&last));
        }
    }

    #[test]
    fn nodes_go_where_their_layer_allows() {
        let mut tree = SchedTree::default_chain(0, 9, DefaultBranch::Leaf);
        assert_eq!(tree.add(tree.root(), &GENERIC, None), Err(AqCode::EINVAL));
        assert_eq!(tree.add(77, &GENERIC, None), Err(AqCode::ENOENT));
        let group = chain(&mut tree);
        assert_eq!(tree.add(group, &GENERIC, None), Err(AqCode::EINVAL));
        let leaf = tree.add(group, &GENERIC, Some(Leaf::Lan(3))).unwrap();
        assert_eq!(tree.find_leaf(Leaf::Lan(3)), Some((leaf, group)));
        let tc = tree.tc();
        assert_eq!(
            tree.add(tc, &GENERIC, Some(Leaf::Rdma(1))),
            Err(AqCode::EINVAL)
        );
        let mut without_generic = GENERIC;
        without_generic[1] = 6;
        assert_eq!(tree.add(tc, &without_generic, None), Err(AqCode::EINVAL));
    }

    #[test]
    fn a_group_has_room_for_eight_leaves() {
        let mut tree = SchedTree::default_chain(0, 9, DefaultBranch::Leaf);
        let group = chain(&mut tree);
        for queue in 0..8 {
            tree.add(group, &GENERIC, Some(Leaf::Lan(queue))).unwrap();
        }
        let ninth = tree.add(group, &GENERIC, Some(Leaf::Lan(8)));
        assert_eq!(ninth, Err(AqCode::ENOSPC));
        let (leaf, _) = tree.find_leaf(Leaf::Lan(5)).unwrap();
        tree.remove(leaf);
        assert!(tree.add(group, &GENERIC, Some(Leaf::Lan(8))).is_ok());
    }

    #[test]
    fn nodes_move_between_parents_of_one_layer() {
        let mut tree = SchedTree::default_chain(0, 9, DefaultBranch::Leaf);
        let (one, other) = (chain(&mut tree), chain(&mut tree));
        let leaf = tree.add(one, &GENERIC, Some(Leaf::Lan(0))).unwrap();
        tree.move_to(leaf, other).unwrap();
        assert_eq!(tree.find_leaf(Leaf::Lan(0)), Some((leaf, other)));
        assert_eq!(tree.get(one).unwrap().children, [0; 0]);
        assert_eq!(tree.move_to(leaf, tree.tc()), Err(AqCode::EINVAL));
    }
}
