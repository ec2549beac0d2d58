//! 0x0412, 0x0400, 0x0401, 0x0404, 0x040F: the transmit scheduler
//! (control-path 9.7).

use heapless::Vec;

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{byte, le16, le32, put, put16, put32};
use crate::error::Result;
use crate::limits::BUFFER_BYTES;
use crate::opcode::Opcode;

/// Upper limit of the layers of a tree.
pub const MAX_LAYERS: usize = 9;
/// Upper limit of the branches of a default topology.
const MAX_BRANCHES: usize = 8;
/// Bytes of an element, of a group's header, and of a branch.
const ELEMENT_BYTES: usize = 24;
const HEADER_BYTES: usize = 8;
const BRANCH_BYTES: usize = HEADER_BYTES + MAX_LAYERS * ELEMENT_BYTES;

/// What an element is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ElementKind {
    /// The port.
    Root,
    /// A traffic class.
    TrafficClass,
    /// A node that software may make.
    Generic,
    /// The layer from which on software makes nodes.
    EntryPoint,
    /// A queue or a queue set.
    Leaf,
    /// Filler.
    Padded,
    /// A value that is not in the sources.
    Other(u8),
}

impl ElementKind {
    const fn from_u8(value: u8) -> Self {
        match value {
            1 => Self::Root,
            2 => Self::TrafficClass,
            3 => Self::Generic,
            4 => Self::EntryPoint,
            5 => Self::Leaf,
            6 => Self::Padded,
            other => Self::Other(other),
        }
    }
}

/// An element of the tree, with the fields that this driver needs. TEIDs name elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Element {
    /// TEID of the element above.
    pub parent: u32,
    /// TEID.
    pub teid: u32,
    /// What it is.
    pub kind: ElementKind,
}

impl Element {
    /// The element at `at`, which is `what`.
    fn at(answer: &Answer<'_>, at: usize, what: &'static str) -> Result<Self> {
        let mut bytes = [0; ELEMENT_BYTES];
        answer.fill(at, what, &mut bytes)?;
        Ok(Self {
            parent: le32(&bytes, 0),
            teid: le32(&bytes, 4),
            kind: ElementKind::from_u8(byte(&bytes, 8)),
        })
    }
}

/// Queries the scheduler's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryResources;

/// Bytes of the reply: a general part and nine layers, 32 bytes each.
const RESOURCES_BYTES: usize = 320;

/// Limits of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SchedulerResources {
    /// Layers of the tree: 5 or 9 where this driver can build.
    pub layers: u8,
    /// RDMA queue sets of the device.
    pub queue_sets: u16,
    /// Elements below one element of each layer.
    pub max_children: [u16; MAX_LAYERS],
}

impl Command for QueryResources {
    type Reply = SchedulerResources;

    fn opcode(&self) -> Opcode {
        Opcode::SCHEDULER_RESOURCES
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(RESOURCES_BYTES as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<SchedulerResources> {
        let mut general = [0; 32];
        answer.fill(0, "scheduler resources", &mut general)?;
        let layers = le16(&general, 2);
        if layers == 0 || usize::from(layers) > MAX_LAYERS {
            return Err(answer.bad("number of scheduler layers", layers.into()));
        }
        let mut max_children = [0; MAX_LAYERS];
        // The greatest group of a layer is the number of elements that an element above may have.
        for (layer, children) in max_children.iter_mut().enumerate() {
            let below = layer.saturating_add(1);
            if below < usize::from(layers) {
                let at = 32usize.saturating_mul(below.saturating_add(1));
                let mut properties = [0; 32];
                answer.fill(at, "properties of a scheduler layer", &mut properties)?;
                *children = le16(&properties, 10);
            }
        }
        Ok(SchedulerResources {
            // At most 9.
            layers: layers as u8,
            queue_sets: le16(&general, 8),
            max_children,
        })
    }
}

/// Asks for the tree that the firmware made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetDefaultTopology {
    /// The port.
    pub lport: u8,
}

/// A chain of elements from the root down, one a layer.
pub type Branch = Vec<Element, MAX_LAYERS>;

/// The branches of the default tree; the first one is the default branch.
pub type Topology = Vec<Branch, MAX_BRANCHES>;

impl Command for GetDefaultTopology {
    type Reply = Topology;

    fn opcode(&self) -> Opcode {
        Opcode::DEFAULT_TOPOLOGY
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [self.lport]);
        params
    }

    fn data(&self) -> Data<'_> {
        // Existing drivers offer a whole buffer.
        Data::Receive(BUFFER_BYTES as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Topology> {
        let count = answer.param(1);
        if count == 0 || usize::from(count) > MAX_BRANCHES {
            return Err(answer.bad("number of branches", count.into()));
        }
        let mut topology = Topology::new();
        for number in 0..usize::from(count) {
            let at = number.saturating_mul(BRANCH_BYTES);
            let mut header = [0; HEADER_BYTES];
            answer.fill(at, "branch of the scheduler tree", &mut header)?;
            let elements = le16(&header, 4);
            if elements == 0 || usize::from(elements) > MAX_LAYERS {
                return Err(answer.bad("number of elements in a branch", elements.into()));
            }
            let mut branch = Branch::new();
            for layer in 0..usize::from(elements) {
                let at = at
                    .saturating_add(HEADER_BYTES)
                    .saturating_add(layer.saturating_mul(ELEMENT_BYTES));
                let element = Element::at(answer, at, "element of the scheduler tree")?;
                // At most as many as the branch holds: checked above.
                let _ = branch.push(element);
            }
            let _ = topology.push(branch);
        }
        Ok(topology)
    }
}

/// Profile that does not limit the rate, and the usual weight
/// (`ICE_SCHED_DFLT_RL_PROF_ID`, `ICE_SCHED_DFLT_BW_WT`).
const WEIGHT: u16 = 4;
/// valid_sections: generic, CIR and EIR.
const SECTIONS: u8 = 7;
/// Element type 3.
const GENERIC: u8 = 3;

/// The 16 bytes that describe a new element: type, valid sections, and the
/// usual rate and weight. Queue sets carry them too (control-path 9.8).
pub(super) fn element_info(kind: u8) -> [u8; 16] {
    let mut info = [0; 16];
    put(&mut info, 0, [kind, SECTIONS]);
    put16(&mut info, 6, WEIGHT);
    put16(&mut info, 10, WEIGHT);
    info
}

fn one() -> [u8; 16] {
    let mut params = [0; 16];
    put16(&mut params, 0, 1);
    params
}

/// Adds one generic element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddElement {
    bytes: [u8; HEADER_BYTES + ELEMENT_BYTES],
}

impl AddElement {
    /// Below `parent`.
    #[must_use]
    pub fn below(parent: u32) -> Self {
        let mut bytes = [0; HEADER_BYTES + ELEMENT_BYTES];
        put32(&mut bytes, 0, parent);
        put16(&mut bytes, 4, 1);
        put32(&mut bytes, 8, parent);
        put(&mut bytes, 16, element_info(GENERIC));
        Self { bytes }
    }
}

impl Command for AddElement {
    type Reply = Element;

    fn opcode(&self) -> Opcode {
        Opcode::ADD_ELEMENTS
    }

    fn params(&self) -> [u8; 16] {
        one()
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Element> {
        let done = le16(answer.params(), 2);
        if done != 1 {
            return Err(answer.bad("groups of elements added", done.into()));
        }
        Element::at(answer, HEADER_BYTES, "new scheduler element")
    }
}

/// Reads one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetElement {
    bytes: [u8; ELEMENT_BYTES],
}

impl GetElement {
    /// The element `teid`.
    #[must_use]
    pub fn new(teid: u32) -> Self {
        let mut bytes = [0; ELEMENT_BYTES];
        put32(&mut bytes, 4, teid);
        Self { bytes }
    }
}

impl Command for GetElement {
    type Reply = Element;

    fn opcode(&self) -> Opcode {
        Opcode::GET_ELEMENTS
    }

    fn params(&self) -> [u8; 16] {
        one()
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Element> {
        let done = le16(answer.params(), 2);
        if done != 1 {
            return Err(answer.bad("elements read", done.into()));
        }
        let element = Element::at(answer, 0, "scheduler element")?;
        let asked = le32(&self.bytes, 4);
        if element.teid == asked {
            Ok(element)
        } else {
            Err(answer.bad("TEID of the element asked for", element.teid.into()))
        }
    }
}

/// Deletes one element, which must have none below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteElement {
    bytes: [u8; HEADER_BYTES + 4],
}

impl DeleteElement {
    /// The element `teid` below `parent`.
    #[must_use]
    pub fn new(parent: u32, teid: u32) -> Self {
        let mut bytes = [0; HEADER_BYTES + 4];
        put32(&mut bytes, 0, parent);
        put16(&mut bytes, 4, 1);
        put32(&mut bytes, 8, teid);
        Self { bytes }
    }
}

impl Command for DeleteElement {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::DELETE_ELEMENTS
    }

    fn params(&self) -> [u8; 16] {
        one()
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.bytes)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<()> {
        match le16(answer.params(), 2) {
            1 => Ok(()),
            done => Err(answer.bad("groups of elements deleted", done.into())),
        }
    }
}

#[cfg(test)]
mod tests;
