//! The GID table, which follows the interface's addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use e810::{Control, Error, GidEntry, Platform};
use serde::Serialize;

/// An address, and its VLAN.
pub(super) type Own = (IpAddr, Option<u16>);

/// An entry of the GID table that was added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct GidChange {
    /// Its index.
    pub index: u8,
    /// The address.
    pub address: IpAddr,
    /// Its VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// It was added.
    pub is_there: bool,
}

/// Entries that follow the interface's addresses.
#[derive(Debug, Default)]
pub(super) struct FollowedGids {
    ours: BTreeMap<Own, u8>,
    /// Addresses that found no room, or that cannot be a GID; each is reported once.
    refused: BTreeSet<Own>,
}

impl FollowedGids {
    /// Adds and removes entries until the table has what is `wanted`. An entry that queue pairs or
    /// address handles use stays until none uses it: returns `true` while one has yet to be
    /// removed.
    pub(super) fn follow<P: Platform>(
        &mut self,
        control: &mut Control<P>,
        wanted: &BTreeSet<Own>,
        changed: &mut Vec<GidChange>,
    ) -> bool {
        let (gone, new) = difference(&self.ours, wanted);
        let mut is_left = false;
        for (own, index) in gone {
            match control.remove_gid(index) {
                Ok(()) => changed.push(change(own, index, false)),
                Err(Error::InUse { .. }) => {
                    is_left = true;
                    continue;
                }
                // Index 0 is the port's.
                Err(error) => log::debug!("GID {index}: {error}"),
            }
            self.ours.remove(&own);
        }
        self.refused.retain(|own| wanted.contains(own));
        for own in new {
            let (ip, vlan) = own;
            let gid = ip.into();
            match control.add_gid(GidEntry { gid, vlan }) {
                Ok(index) => {
                    self.ours.insert(own, index);
                    self.refused.remove(&own);
                    changed.push(change(own, index, true));
                }
                Err(error) if self.refused.insert(own) => {
                    log::warn!("{ip} is not added to the GID table: {error}");
                }
                Err(_) => {}
            }
        }
        is_left
    }

    /// The entry of the first address on this VLAN, or without one: an IPv4 address if there is
    /// one, and never a link-local one.
    pub(super) fn usual(&self, vlan: Option<u16>) -> Option<u8> {
        let is_local = |ip: &IpAddr| match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        // IPv4 addresses are before IPv6 addresses.
        let mut ours = self.ours.iter();
        let found = ours.find(|((ip, of), _)| *of == vlan && !is_local(ip));
        found.map(|(_, index)| *index)
    }
}

fn change((address, vlan): Own, index: u8, is_there: bool) -> GidChange {
    GidChange {
        index,
        address,
        vlan,
        is_there,
    }
}

/// The entries to remove, and the addresses to add.
fn difference(ours: &BTreeMap<Own, u8>, wanted: &BTreeSet<Own>) -> (Vec<(Own, u8)>, Vec<Own>) {
    let gone = ours.iter().filter(|(own, _)| !wanted.contains(own));
    let new = wanted.iter().filter(|own| !ours.contains_key(own));
    let gone = gone.map(|(own, index)| (*own, *index));
    (gone.collect(), new.copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(ip: &str, vlan: Option<u16>) -> Own {
        (ip.parse().unwrap(), vlan)
    }

    #[test]
    fn entries_come_and_go_with_addresses() {
        let (a, b) = (own("192.0.2.1", None), own("192.0.2.1", Some(5)));
        let c = own("2001:db8::1", None);
        let ours = BTreeMap::from([(a, 1), (c, 3)]);
        let (gone, new) = difference(&ours, &BTreeSet::from([b, c]));
        assert_eq!((gone, new), (vec![(a, 1)], vec![b]));
        let (gone, new) = difference(&ours, &BTreeSet::from([a, c]));
        assert_eq!((gone, new), (vec![], vec![]));
    }

    #[test]
    fn the_usual_entry_is_no_link_local_one() {
        let ours = BTreeMap::from([
            (own("169.254.0.1", None), 1),
            (own("192.0.2.1", Some(5)), 2),
            (own("2001:db8::1", None), 3),
            (own("fe80::1", None), 0),
        ]);
        let mut gids = FollowedGids {
            ours,
            ..FollowedGids::default()
        };
        assert_eq!(gids.usual(None), Some(3));
        assert_eq!(gids.usual(Some(5)), Some(2));
        assert_eq!(gids.usual(Some(6)), None);
        gids.ours.insert(own("203.0.113.1", None), 4);
        assert_eq!(gids.usual(None), Some(4));
    }
}
