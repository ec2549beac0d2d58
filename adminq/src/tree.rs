//! The transmit scheduler's tree: from the port down to the RDMA queue sets
//! (control-path 9.7, 9.8).
//!
//! The firmware makes the root, the traffic classes and a default chain below the first class.
//! This driver removes the default chain. Below each class in use it makes one chain:
//! intermediate elements, the VSI's element, elements down to a queue group, and below that the
//! queue sets that are asked for. In a tree of 5 layers the VSI's element is the queue group. A
//! LAN queue has a chain of its own below the VSI's element, as in existing drivers; the firmware
//! cannot tell the two apart (the command carries no owner).

use e810_hal::{Platform, log_warn};
use heapless::Vec;

use crate::code::Code;
use crate::error::{Error, Result};
use crate::op::{
    AddElement, AddQueueSet, Branch, ClassTeids, DeleteElement, DisableQueue, Element, ElementKind,
    GetDefaultTopology, MAX_LAYERS, QueryPortEts, QueryResources, SchedulerResources, Topology,
};
use crate::queue::AdminQ;

mod place;
mod tx_queue;

pub use place::NotAdded;
use place::place;
pub use tx_queue::TxQueue;

/// Traffic classes of a port.
pub const CLASSES: usize = 8;

/// The layers of the elements, from 0 at the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layers {
    vsi: usize,
    group: usize,
}

impl Layers {
    const fn of(layers: u8) -> Option<Self> {
        match layers {
            9 => Some(Self { vsi: 5, group: 7 }),
            5 => Some(Self { vsi: 3, group: 3 }),
            _ => None,
        }
    }
}

/// What was made below a traffic class.
#[derive(Clone, Debug)]
struct Class {
    /// Number of the class.
    number: u8,
    /// Element of the class itself.
    teid: u32,
    /// The firmware's element on which the chain hangs.
    above: u32,
    chain: Vec<Element, MAX_LAYERS>,
    /// Below the VSI's element, for LAN queues.
    lan_chain: Vec<Element, MAX_LAYERS>,
    sets: u16,
    /// There may be an element whose TEID is not known: then what is above it cannot be deleted.
    stuck: bool,
}

/// The tree of a port, as far as this function makes it.
#[derive(Clone, Debug)]
pub struct Tree {
    resources: SchedulerResources,
    layers: Layers,
    /// First layer in which software makes elements.
    entry: usize,
    classes: Vec<Class, CLASSES>,
}

/// A queue set in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QueueSet {
    /// Its traffic class.
    pub traffic_class: u8,
    /// The engine's handle of it.
    pub handle: u16,
    /// TEID of the leaf.
    pub teid: u32,
    parent: u32,
}

impl Tree {
    /// Asks for limits and default tree of port `lport`, and removes the default chain. If the
    /// firmware refuses to remove an element this is only logged, as in existing drivers.
    ///
    /// # Errors
    /// [`Error::BadTree`], those of the commands.
    pub fn discover<P: Platform>(queue: &mut AdminQ<P>, lport: u8) -> Result<Self> {
        let resources = queue.execute(&QueryResources)?;
        let layers = Layers::of(resources.layers).ok_or(Error::BadTree {
            what: "number of layers, of which 5 and 9 are known,",
            value: resources.layers.into(),
        })?;
        let topology = queue.execute(&GetDefaultTopology { lport })?;
        let mut tree = Self::new(resources, layers, &topology)?;
        if let Some(branch) = topology.first() {
            if let Some(root) = branch.first().map(|element| element.teid)
                && let Some(teids) = queue.attempt(&QueryPortEts { root })?
            {
                tree.number_classes(&teids);
            }
            remove_default(queue, branch, tree.entry)?;
        }
        Ok(tree)
    }

    fn new(resources: SchedulerResources, layers: Layers, topology: &Topology) -> Result<Self> {
        let entry = topology
            .first()
            .and_then(|branch| {
                branch
                    .iter()
                    .position(|e| e.kind == ElementKind::EntryPoint)
            })
            .unwrap_or(0);
        // Below the traffic classes, and not below where the VSI has to be.
        if entry < 2 || entry > layers.vsi {
            return Err(Error::BadTree {
                what: "layer of the software's entry point",
                value: entry as u32,
            });
        }
        let mut classes: Vec<Class, CLASSES> = Vec::new();
        for branch in topology {
            let Some(above) = branch.get(entry.saturating_sub(1)) else {
                continue;
            };
            let seen = classes.iter().any(|class| class.above == above.teid);
            if !seen {
                // Classes beyond the eighth do not exist.
                let number = classes.len() as u8;
                let _ = classes.push(Class {
                    number,
                    teid: branch.get(1).map_or(above.teid, |class| class.teid),
                    above: above.teid,
                    chain: Vec::new(),
                    lan_chain: Vec::new(),
                    sets: 0,
                    stuck: false,
                });
            }
        }
        Ok(Self {
            resources,
            layers,
            entry,
            classes,
        })
    }

    /// Gives the classes the numbers that the port has for them, as existing drivers do: it may
    /// use others than the first. If the answer names none that could be class 0, in which
    /// everything begins, their places in the list stay their numbers.
    fn number_classes(&mut self, teids: &ClassTeids) {
        let number = |class: &Class| teids.iter().position(|teid| *teid == class.teid);
        if !self.classes.iter().any(|class| number(class) == Some(0)) {
            return;
        }
        for class in &mut self.classes {
            // A class that is not named is not in force.
            class.number = number(class).map_or(u8::MAX, |number| number as u8);
        }
    }

    /// The scheduler's limits.
    #[must_use]
    pub const fn resources(&self) -> &SchedulerResources {
        &self.resources
    }

    /// Queue sets in the tree.
    #[must_use]
    pub fn queue_sets(&self) -> u32 {
        self.classes.iter().map(|class| u32::from(class.sets)).sum()
    }

    /// Makes the VSI's element below `traffic_class`, unless it is there.
    ///
    /// # Errors
    /// [`Error::NoTrafficClass`], those of the commands. What was made stays,
    /// and is used by the next try.
    pub fn add_vsi<P: Platform>(&mut self, queue: &mut AdminQ<P>, traffic_class: u8) -> Result<()> {
        self.extend(queue, traffic_class, self.layers.vsi).map(drop)
    }

    /// Makes elements down to `layer`; returns the lowest.
    fn extend<P: Platform>(
        &mut self,
        queue: &mut AdminQ<P>,
        traffic_class: u8,
        layer: usize,
    ) -> Result<u32> {
        let wanted = layer.saturating_sub(self.entry).saturating_add(1);
        let class = self.class(traffic_class)?;
        while class.chain.len() < wanted {
            let above = class.chain.last().map_or(class.above, |last| last.teid);
            let made = add_element(queue, above);
            let element = made.inspect_err(|error| class.stuck |= error.refusal().is_none())?;
            // At most as many as there are layers.
            let _ = class.chain.push(element);
        }
        Ok(class.chain.last().map_or(class.above, |last| last.teid))
    }

    fn class(&mut self, traffic_class: u8) -> Result<&mut Class> {
        self.classes
            .iter_mut()
            .find(|class| class.number == traffic_class)
            .ok_or(Error::NoTrafficClass { traffic_class })
    }

    /// Registers the queue set that the engine calls `handle`; the first one also makes the chain
    /// down to it. The new leaf is read back: it must hang where requested.
    ///
    /// # Errors
    /// [`Error::NoTrafficClass`], [`Error::TreeFull`], those of the commands. A leaf that is not
    /// where it should be is removed again. If the firmware may have the queue set all the same,
    /// it comes with the error, and counts until it is removed.
    pub fn add_queue_set<P: Platform>(
        &mut self,
        queue: &mut AdminQ<P>,
        traffic_class: u8,
        handle: u16,
    ) -> Result<QueueSet, NotAdded<QueueSet>> {
        let group = self.layers.group;
        let limit = self.resources.max_children.get(group).copied();
        let limit = limit.unwrap_or(0);
        let class = self.class(traffic_class).map_err(NotAdded::before)?;
        if class.sets >= limit {
            return Err(NotAdded::before(Error::TreeFull { limit }));
        }
        let parent = self
            .extend(queue, traffic_class, group)
            .map_err(NotAdded::before)?;
        let undo = DisableQueue::rdma(parent, handle);
        let add = AddQueueSet::new(parent, handle);
        let at = |teid| QueueSet {
            traffic_class,
            handle,
            teid,
            parent,
        };
        let placed = place(queue, parent, &add, &undo).named(at);
        if placed.is_ok() || placed.is_err_and(|failed| failed.may_exist.is_some()) {
            let class = self.class(traffic_class).map_err(NotAdded::before)?;
            class.sets = class.sets.saturating_add(1);
        }
        placed
    }

    /// Removes a queue set. If there is no such set this is no error: an earlier try may have
    /// removed it.
    ///
    /// # Errors
    /// Those of the command; the queue set is still counted then.
    pub fn remove_queue_set<P: Platform>(
        &mut self,
        queue: &mut AdminQ<P>,
        set: QueueSet,
    ) -> Result<()> {
        let disable = DisableQueue::rdma(set.parent, set.handle);
        match queue.execute(&disable) {
            Err(error) if error.refusal() == Some(Code::ENOENT) => {}
            other => other?,
        }
        let class = self.class(set.traffic_class)?;
        class.sets = class.sets.saturating_sub(1);
        Ok(())
    }

    /// Deletes every element that was made, lowest first. If an element cannot be deleted, the
    /// elements above it stay; a reset removes them. Goes on with the next class after a refusal
    /// and returns the first; ends at once when no answer comes.
    ///
    /// # Errors
    /// Those of the commands.
    pub fn clear<P: Platform>(&mut self, queue: &mut AdminQ<P>) -> Result<()> {
        let mut result = Ok(());
        for class in &mut self.classes {
            if class.stuck {
                log_warn!("elements below {:#x} are left to a reset", class.above);
                class.chain.clear();
                class.lan_chain.clear();
            }
            while let Some(element) = class.lan_chain.pop().or_else(|| class.chain.pop()) {
                let deleted = queue.execute(&DeleteElement::new(element.parent, element.teid));
                if let Err(error) = deleted {
                    result = result.and(Err(error));
                    if error.leaves_command_open() {
                        return result;
                    }
                    class.chain.clear();
                    class.lan_chain.clear();
                }
            }
        }
        result
    }
}

fn add_element<P: Platform>(queue: &mut AdminQ<P>, above: u32) -> Result<Element> {
    let made = queue.execute(&AddElement::below(above))?;
    Ok(Element {
        parent: above,
        ..made
    })
}

/// Removes the default leaf, then the default elements above it up to the entry point. If the
/// firmware keeps one, ours hang beside it. Root and traffic classes belong to the firmware.
fn remove_default<P: Platform>(queue: &mut AdminQ<P>, branch: &Branch, entry: usize) -> Result<()> {
    let ours = branch.get(entry..).unwrap_or_default();
    for element in ours.iter().rev() {
        if matches!(element.kind, ElementKind::Root | ElementKind::TrafficClass) {
            continue;
        }
        match queue.execute(&DeleteElement::new(element.parent, element.teid)) {
            Err(error) if error.leaves_command_open() => return Err(error),
            // The elements above still have one below them, and stay too.
            Err(error) => {
                log_warn!("default element {:#x}: {}", element.teid, error);
                break;
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
