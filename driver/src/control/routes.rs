//! Entries of the GID and the ARP table that paths use.

use core::net::IpAddr;

use e810_hal::Platform;

use super::Control;
use crate::addr::{GidEntry, MacAddr, Path, Target};
use crate::error::{Error, Result};
use crate::lan::LanSide;
use crate::limits::GIDS;
use crate::route::Route;

impl<P: Platform> Control<P> {
    /// Adds one of our own addresses to the port's GID table and returns its index; an existing
    /// entry keeps its index.
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
    /// [`Error::NoSuch`], [`Error::InUse`] while paths use it,
    /// [`Error::Invalid`] for index 0, which is the port's
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

    /// The index of one of our own addresses, on this VLAN or on none: the `sgid_index` of a
    /// [`Path`] from it.
    #[must_use]
    #[doc(alias = "ibv_find_gid_index")]
    pub fn find_gid(&self, ip: IpAddr, vlan: Option<u16>) -> Option<u8> {
        let wanted = GidEntry {
            vlan,
            ..GidEntry::untagged(ip.to_canonical())
        };
        (0..GIDS as u8).find(|index| self.query_gid(*index) == Some(wanted))
    }

    /// Redirects paths to `destination` from the MAC address `from` to `to`, because the
    /// neighbour has moved: the destination itself, or the router before it. This affects what
    /// connected queue pairs and address handles send from then on; nothing is stopped or made
    /// anew. Returns the number of paths; 0 if there is none.
    ///
    /// Both addresses must match: other paths to the same destination that were given another MAC
    /// address, and other destinations behind the MAC address `from`, stay as they are. If a
    /// router has moved, call this for each destination behind it. `query_qp` continues to return
    /// the path that the program gave.
    ///
    /// The device's entry is overwritten in place (control-path 4.11), which no existing driver
    /// does: that a card accepts this is `[inf arp_again]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a MAC address that is a group's or 0, and for a destination that is
    /// a group, which has no neighbour that moves. The device's refusal: some of the paths may
    /// have moved.
    pub fn move_neighbour(
        &mut self,
        destination: IpAddr,
        from: MacAddr,
        to: MacAddr,
    ) -> Result<u32> {
        let MacAddr([first, ..]) = to;
        if first & 1 != 0 || to == MacAddr([0; 6]) {
            return Err(Error::Invalid {
                what: "a neighbour's MAC address is that of one station: not a group's, and not 0",
            });
        }
        if destination.to_canonical().is_multicast() {
            return Err(Error::Invalid {
                what: "a multicast group's address gives its MAC address: it does not move",
            });
        }
        self.neighbours.change(&mut self.cqp, destination, from, to)
    }

    /// Where paths go: each destination with the MAC address of its next hop, once, however many
    /// paths go there; twice if its paths were given two MAC addresses. Groups are included.
    pub fn neighbours(&self) -> impl Iterator<Item = (IpAddr, MacAddr)> {
        self.neighbours.used()
    }

    /// A count that changes whenever [`neighbours`](Self::neighbours) may have changed, for
    /// programs whose paths follow what the link says.
    #[must_use]
    pub const fn neighbour_changes(&self) -> u64 {
        self.neighbours.changes()
    }

    /// Takes the entries that a path needs. On failure nothing is taken.
    pub(super) fn take_route(&mut self, path: &Path) -> Result<(Route, Target)> {
        let own = self.gids.join(path.sgid_index)?;
        let target = Target::of(path, own, self.tags_priority());
        let taken = target.and_then(|target| {
            let destination = path.destination;
            let arp = (self.neighbours).join(&mut self.cqp, destination, target.mac)?;
            let gid = path.sgid_index;
            Ok((Route { gid, arp }, target))
        });
        if taken.is_err() {
            self.gids.leave(path.sgid_index);
        }
        taken
    }

    /// Gives them back. An error leaves an entry of the ARP table behind.
    pub(super) fn give_route(&mut self, route: Route) -> Result<()> {
        self.gids.leave(route.gid);
        self.neighbours.leave(&mut self.cqp, route.arp)
    }

    /// Whether packets without a VLAN carry a tag with their priority: yes on a port with several
    /// traffic classes, which are told apart by it.
    fn tags_priority(&self) -> bool {
        let lan = self.lan_side.owned();
        lan.is_some_and(LanSide::has_classes)
    }

    /// The traffic class of a priority. It is 0 where another driver has set the port up: without
    /// DCB that driver gives every priority class 0.
    pub(super) fn class_of(&self, priority: u8) -> u8 {
        let lan = self.lan_side.owned();
        lan.map_or(0, |lan| lan.class_of(priority))
    }
}
