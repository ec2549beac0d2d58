//! Entries of the GID and the ARP table that paths use.

use e810_hal::Platform;

use super::Control;
use crate::addr::{GidEntry, Path, Target};
use crate::error::Result;
use crate::route::Route;

impl<P: Platform> Control<P> {
    /// Adds one of our own addresses to the port's GID table and gives its
    /// index; an entry that is there keeps the one it has.
    ///
    /// # Errors
    /// An address that no interface has, a VLAN id outside 1..=4094, a full
    /// table (32 entries).
    pub fn add_gid(&mut self, entry: GidEntry) -> Result<u8> {
        self.gids.add(entry)
    }

    /// Removes an entry; the others keep their indexes.
    ///
    /// # Errors
    /// [`Error::NoSuch`](crate::Error::NoSuch),
    /// [`Error::InUse`](crate::Error::InUse) while paths use it,
    /// [`Error::Invalid`](crate::Error::Invalid) for index 0, which is the port's
    /// link-local address.
    pub fn remove_gid(&mut self, index: u8) -> Result<()> {
        self.gids.remove(index)
    }

    /// The entry of an index, if there is one. All are RoCEv2 ones.
    #[must_use]
    #[doc(alias = "ibv_query_gid")]
    pub fn query_gid(&self, index: u8) -> Option<GidEntry> {
        self.gids.get(index)
    }

    /// Takes what a path needs. On failure nothing is taken.
    pub(super) fn take_route(&mut self, path: &Path) -> Result<(Route, Target)> {
        let own = self.gids.join(path.sgid_index)?;
        let target = Target::of(path, own);
        let taken = target.and_then(|target| {
            let arp = self.neighbours.join(&mut self.cqp, target.mac)?;
            let gid = path.sgid_index;
            Ok((Route { gid, arp }, target))
        });
        if taken.is_err() {
            self.gids.leave(path.sgid_index);
        }
        taken
    }

    /// Gives it back. An error leaves an entry of the ARP table behind.
    pub(super) fn give_route(&mut self, route: Route) -> Result<()> {
        self.gids.leave(route.gid);
        self.neighbours.leave(&mut self.cqp, route.arp)
    }

    /// The traffic class of a priority: 0 where another driver has set the port
    /// up, which gives every priority that class without DCB.
    pub(super) fn class_of(&self, priority: u8) -> u8 {
        let lan = self.lan_side.owned();
        lan.map_or(0, |lan| lan.class_of(priority))
    }
}
