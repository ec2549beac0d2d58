//! The port's GID table: our own addresses.
//!
//! Every entry is a RoCEv2 one. An entry keeps its index until it is removed, and index 0 is
//! always the link-local address that follows from the MAC, so an index stays valid. The device
//! has no such table: it takes the address from each QP's context and from each address handle.

use core::net::IpAddr;

use super::{Gid, MacAddr, link_local};
use crate::error::{Error, Object, Result};
use crate::limits::GIDS;

/// One of our own addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GidEntry {
    /// The address.
    pub gid: Gid,
    /// VLAN it is reached on (1..=4094), if its packets are tagged.
    pub vlan: Option<u16>,
}

impl GidEntry {
    /// An address that is not on a VLAN.
    #[must_use]
    pub fn untagged(ip: IpAddr) -> Self {
        Self {
            gid: ip.into(),
            vlan: None,
        }
    }

    /// Checks that it is the address of an interface, on a valid VLAN.
    fn check(&self) -> Result<()> {
        let ip = self.gid.ip();
        if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::from([255u8; 4]) {
            return Err(Error::Invalid {
                what: "a GID is the address of one interface: not unspecified, multicast or broadcast",
            });
        }
        match self.vlan {
            Some(id) if !(1..=4094).contains(&id) => Err(Error::OutOfRange {
                what: "VLAN id",
                value: id.into(),
                min: 1,
                max: 4094,
            }),
            _ => Ok(()),
        }
    }
}

/// The table, and how many paths use each entry.
#[derive(Debug)]
pub(crate) struct GidTable {
    entries: [Option<GidEntry>; GIDS],
    users: [u32; GIDS],
}

impl GidTable {
    /// The table of a port with this MAC address.
    pub(crate) fn new(mac: MacAddr) -> Self {
        let mut entries = [None; GIDS];
        entries[0] = Some(GidEntry::untagged(link_local(mac).into()));
        Self {
            entries,
            users: [0; GIDS],
        }
    }

    /// The entry of an index.
    pub(crate) fn get(&self, index: u8) -> Option<GidEntry> {
        self.entries.get(usize::from(index)).copied().flatten()
    }

    /// Adds an entry; an existing entry keeps its index.
    pub(crate) fn add(&mut self, entry: GidEntry) -> Result<u8> {
        entry.check()?;
        let there = self.entries.iter().position(|known| *known == Some(entry));
        let place = there.or_else(|| self.entries.iter().position(Option::is_none));
        let place = place.ok_or(Error::Exhausted {
            object: Object::Gid,
            limit: GIDS as u32,
        })?;
        if let Some(known) = self.entries.get_mut(place) {
            *known = Some(entry);
        }
        Ok(place as u8)
    }

    /// Removes an entry that no path uses.
    pub(crate) fn remove(&mut self, index: u8) -> Result<()> {
        let place = usize::from(index);
        let (Some(entry), Some(users)) = (self.entries.get_mut(place), self.users.get(place))
        else {
            return Err(no_such(index));
        };
        if entry.is_none() {
            return Err(no_such(index));
        }
        if index == 0 {
            return Err(Error::Invalid {
                what: "GID 0 is the port's link-local address and stays",
            });
        }
        if *users > 0 {
            return Err(Error::InUse {
                object: Object::Gid,
                id: index.into(),
                users: *users,
            });
        }
        *entry = None;
        Ok(())
    }

    /// The entry of an index for one more path.
    pub(crate) fn join(&mut self, index: u8) -> Result<GidEntry> {
        let entry = self.get(index).ok_or(no_such(index))?;
        if let Some(users) = self.users.get_mut(usize::from(index)) {
            *users = users.saturating_add(1);
        }
        Ok(entry)
    }

    /// One path less.
    pub(crate) fn leave(&mut self, index: u8) {
        if let Some(users) = self.users.get_mut(usize::from(index)) {
            *users = users.saturating_sub(1);
        }
    }
}

const fn no_such(index: u8) -> Error {
    Error::NoSuch {
        object: Object::Gid,
        id: index as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::v4;

    const MAC: MacAddr = MacAddr([2, 0xE8, 0x10, 0, 0, 1]);

    #[test]
    fn an_index_keeps_its_address() {
        let mut table = GidTable::new(MAC);
        assert_eq!(
            table.get(0).unwrap().gid,
            IpAddr::from(link_local(MAC)).into()
        );
        let entries = [1, 2, 3].map(|n| GidEntry::untagged(v4(10, 0, 0, n)));
        let indexes = entries.map(|entry| table.add(entry).unwrap());
        assert_eq!(indexes, [1, 2, 3]);
        assert_eq!(table.add(entries[1]), Ok(2), "the same again");
        table.remove(2).unwrap();
        assert_eq!((table.get(1), table.get(2)), (Some(entries[0]), None));
        assert_eq!(table.get(3), Some(entries[2]), "others stay where they are");
        let tagged = GidEntry {
            vlan: Some(7),
            ..entries[0]
        };
        assert_eq!(table.add(tagged), Ok(2), "on a VLAN it is another one");
    }

    #[test]
    fn what_is_used_is_not_removed() {
        let mut table = GidTable::new(MAC);
        let index = table.add(GidEntry::untagged(v4(10, 0, 0, 1))).unwrap();
        table.join(index).unwrap();
        let in_use = Error::InUse {
            object: Object::Gid,
            id: 1,
            users: 1,
        };
        assert_eq!(table.remove(index), Err(in_use));
        table.leave(index);
        assert_eq!(table.remove(index), Ok(()));
        assert_eq!(table.remove(index), Err(no_such(1)));
        assert_eq!(table.join(index), Err(no_such(1)));
        assert_eq!(table.remove(200), Err(no_such(200)));
        assert!(table.remove(0).is_err(), "link-local");
    }

    #[test]
    fn addresses_that_no_interface_has() {
        let mut table = GidTable::new(MAC);
        for ip in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            assert!(table.add(GidEntry::untagged(ip.parse().unwrap())).is_err());
        }
        for vlan in [0, 4095] {
            let entry = GidEntry {
                vlan: Some(vlan),
                ..GidEntry::untagged(v4(10, 0, 0, 1))
            };
            assert!(table.add(entry).is_err());
        }
        for n in 1..GIDS as u8 {
            assert_eq!(table.add(GidEntry::untagged(v4(10, 0, 1, n))), Ok(n));
        }
        let full = table.add(GidEntry::untagged(v4(10, 0, 2, 0))).unwrap_err();
        assert!(matches!(full, Error::Exhausted { .. }));
    }
}
