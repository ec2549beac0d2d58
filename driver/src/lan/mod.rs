//! The function's LAN side at run time: what a cold start hands to the device, and how it is
//! undone.
//!
//! The stages of the cold start make it piece by piece; after the last stage it is one flat
//! [`LanSide`]. The control path uses it, and knows no stage.

use e810_adminq::op::LinkStatus;
use e810_adminq::package::Loaded;
use e810_adminq::tree::{CLASSES, QueueSet, Tree};
use e810_adminq::{AdminQ, Counters, oicr};
use e810_hal::bus::{PfId, VsiId};
use e810_hal::{Bus, HostBox, Ns, Platform, Vector};
use e810_types::MacAddr;
use heapless::{Deque, Vec};

use crate::error::Result;

mod events;
mod filter;
mod hook;
mod identity;
mod link;
mod ownership;
mod port;
mod queue_sets;
mod remains;
mod rules;
mod undo;
mod vsi;

pub use events::{LAN_EVENTS, LanEvent};
pub use hook::{LanHook, NoLanHook};
pub use identity::Identity;
pub(crate) use identity::{check_mtu, max_mtu};
pub(crate) use link::Link;
pub(crate) use ownership::LanOwnership;
pub(crate) use port::{ALL_NODES, OpenPort};
pub use port::{LAN_GROUPS, LanPort, LanPortKey};
pub(crate) use remains::Remains;
pub(crate) use rules::{Left, Rules, add_rules, priorities, remove_rules};
pub(crate) use undo::{end_adminq, undo_vsi};
pub(crate) use vsi::Vsi;

/// The LAN side of a function that was started cold.
#[derive(Debug)]
pub struct LanSide<P: Platform> {
    /// The function's number.
    pub(crate) pf: PfId,
    pub(crate) adminq: AdminQ<P>,
    pub(crate) identity: Identity,
    /// The scheduler's tree.
    pub(crate) tree: HostBox<P, Tree>,
    /// The package the card works with.
    pub(crate) package: Loaded,
    pub(crate) vsi: Vsi,
    pub(crate) link: Link,
    /// Switch rules of the port's own address and of broadcasts.
    pub(crate) rules: Rules,
    /// Switch rules that the firmware did not remove.
    pub(crate) left: Left,
    /// Traffic class of each user priority.
    pub(crate) up2tc: [u8; CLASSES],
    /// RDMA queue sets in the tree.
    pub(crate) queue_sets: Vec<QueueSet, CLASSES>,
    /// The LAN queues, while they are open.
    pub(crate) port: Option<OpenPort>,
    /// What could not be undone so far.
    pub(crate) remains: Remains<P>,
    /// The RDMA filter of the VSI is on.
    pub(crate) filter: bool,
    /// Events that were not asked for yet.
    pub(crate) events: Deque<LanEvent, LAN_EVENTS>,
    /// Events that were dropped since.
    pub(crate) lost: u32,
    /// When the event queue was last polled.
    pub(crate) events_polled: Ns,
}

impl<P: Platform> LanSide<P> {
    /// Who the function is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Greatest MTU that the function takes, in bytes.
    #[must_use]
    pub fn max_mtu(&self) -> u16 {
        max_mtu(&self.identity.function)
    }

    /// The function's VSI.
    pub(crate) const fn vsi(&self) -> VsiId {
        self.vsi.id
    }

    /// The package the card works with.
    #[must_use]
    pub const fn package(&self) -> Loaded {
        self.package
    }

    /// The port's MAC address, first octet first.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.identity.mac
    }

    /// The link as it was at the end of the cold start; events report later changes.
    #[must_use]
    pub const fn link_at_start(&self) -> LinkStatus {
        self.link.at_start
    }

    /// The link as last reported: at the start, or in the last event that
    /// [`Control::progress`](crate::Control::progress) has taken.
    #[must_use]
    pub const fn link(&self) -> LinkStatus {
        self.link.now
    }

    /// AdminQ commands and events so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.adminq.counters()
    }

    /// Binds errors and AdminQ events to the vector of the asynchronous event
    /// queue, before that queue switches it on.
    pub(crate) fn bind_causes(&self, bus: &impl Bus, vector: Vector) -> Result<()> {
        Ok(oicr::bind(bus, vector)?)
    }

    /// Unbinds them from the vector.
    pub(crate) fn unbind_causes(&self, bus: &impl Bus) {
        oicr::unbind(bus);
    }

    /// Whether priorities have more than one traffic class.
    pub(crate) fn has_classes(&self) -> bool {
        let [first, rest @ ..] = &self.up2tc;
        rest.iter().any(|class| class != first)
    }

    /// The traffic class of a priority. Queue pairs without a path are in the class of
    /// priority 0.
    pub(crate) fn class_of(&self, priority: u8) -> u8 {
        let class = self.up2tc.get(usize::from(priority));
        class.copied().unwrap_or_default()
    }
}
