//! The path to a peer: the address vector of a QP or of an address handle.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use e810_cqp::op::IpPair;
use e810_types::MacAddr;

use e810_datapath::{Sender, WcFlags};

use super::GidEntry;
use crate::error::{Error, Result};

/// Where packets go: the address vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias("ibv_ah_attr", "ibv_global_route"))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Path {
    /// Index of our address in the port's GID table; its entry also says
    /// whether packets carry a VLAN tag.
    pub sgid_index: u8,
    /// The peer's address, of the same family as ours.
    pub destination: IpAddr,
    /// The peer's (or the next hop's) Ethernet address. Not used for a
    /// multicast group, whose address gives it.
    pub destination_mac: MacAddr,
    /// Time to live or hop limit. A packet with 1 does not leave its subnet. 0 is sent as 1,
    /// because in verbs both mean that, and no host sends a header with 0.
    pub hop_limit: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits; also the seed of the UDP source port.
    pub flow_label: u32,
    /// Priority, 0..=7: selects the transmit queue set, and is the priority in the VLAN tag. On a
    /// port with several traffic classes, packets of a path without a VLAN carry a priority-only
    /// tag with VLAN id 0 (`irdma/verbs.c irdma_modify_qp_roce`).
    /// [`priority_of`](Self::priority_of) gives the priority of a traffic class.
    pub priority: u8,
}

impl Path {
    /// A path with a hop limit of 64, and class, label and priority 0.
    #[must_use]
    pub const fn new(sgid_index: u8, destination: IpAddr, destination_mac: MacAddr) -> Self {
        Self {
            sgid_index,
            destination,
            destination_mac,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            priority: 0,
        }
    }

    /// The path back to the sender of a datagram. `area` is the GRH area, the first 40 bytes of
    /// the receive; `flags` and `sender` come from its completion
    /// ([`Cq::poll_with_sender`](crate::Cq::poll_with_sender)); `sgid_index` is the entry of our
    /// address that the datagram was sent to, on the VLAN of `sender`. The answer has the
    /// datagram's class and priority, and a hop limit of 64. `None` if the area is shorter, or
    /// has no header of the family that the flags state.
    #[must_use]
    #[doc(alias = "ibv_init_ah_from_wc")]
    pub fn to_sender(sgid_index: u8, area: &[u8], flags: WcFlags, sender: &Sender) -> Option<Self> {
        let area: &[u8; 40] = area.first_chunk()?;
        let word = |at: usize| {
            area.get(at..)?
                .first_chunk()
                .copied()
                .map(u32::from_be_bytes)
        };
        let (address, class, flow_label) = if flags.contains(WcFlags::IPV4) {
            // The header is in the last 20 bytes; the first ones are undefined.
            let first = word(20)?;
            let class = (first >> 16) as u8;
            (first >> 28 == 4).then_some((IpAddr::from(word(32)?.to_be_bytes()), class, 0))
        } else {
            let first = word(0)?;
            let source: [u8; 16] = *area.get(8..)?.first_chunk()?;
            let class = (first >> 20) as u8;
            (first >> 28 == 6).then_some((source.into(), class, first & 0xF_FFFF))
        }?;
        Some(Self {
            traffic_class: class,
            flow_label,
            priority: sender.priority(),
            ..Self::new(sgid_index, address, MacAddr(sender.mac))
        })
    }

    /// The priority that Linux gives packets of a traffic class or type of service, 0..=7
    /// (`rt_tos2priority`), where no DSCP map is in use. Of the class, only the four bits count
    /// that once asked for delay, throughput, reliability and cost.
    #[must_use]
    pub const fn priority_of(traffic_class: u8) -> u8 {
        match (traffic_class & 0x1E) >> 1 {
            0..=3 => 0,
            4..=7 => 2,
            8..=11 => 6,
            _ => 4,
        }
    }

    /// The path to a multicast group.
    #[must_use]
    pub fn to_group(sgid_index: u8, group: IpAddr) -> Self {
        Self::new(sgid_index, group, group_mac(group))
    }
}

/// A VLAN and a priority on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// VLAN id, 1..=4094.
    pub id: u16,
    /// Priority, 0..=7.
    pub priority: u8,
}

impl Vlan {
    /// The tag in contexts and handles: priority << 13 | id.
    const fn tag(self) -> u16 {
        (self.priority as u16) << 13 | self.id
    }
}

/// A path with our own address resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) addresses: IpPair,
    pub(crate) mac: MacAddr,
    pub(crate) hop_limit: u8,
    pub(crate) vlan: Option<u16>,
    /// Source and destination are the same, or the destination is a group (control-path 4.14, row
    /// DOLOOPBACK).
    pub(crate) loopback: bool,
}

impl Target {
    /// The target of a path from `own`. With `tags_priority`, a path without a VLAN has a tag
    /// too.
    pub(crate) fn of(path: &Path, own: GidEntry, tags_priority: bool) -> Result<Self> {
        for (what, value, max) in [
            ("priority", u64::from(path.priority), 7),
            ("flow label", path.flow_label.into(), 0xF_FFFF),
        ] {
            if value > max {
                return Err(Error::OutOfRange {
                    what,
                    value,
                    min: 0,
                    max,
                });
            }
        }
        let addresses = match (own.gid.ip(), path.destination.to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => IpPair::V4 {
                source,
                destination,
            },
            (IpAddr::V6(source), IpAddr::V6(destination)) => IpPair::V6 {
                source,
                destination,
            },
            _ => {
                return Err(Error::Invalid {
                    what: "source and destination address are not of one family: use a GID of the destination's family",
                });
            }
        };
        let destination = path.destination.to_canonical();
        let is_group = destination.is_multicast();
        let id = own.vlan.or(tags_priority.then_some(0));
        let vlan = id.map(|id| {
            let priority = path.priority;
            Vlan { id, priority }.tag()
        });
        Ok(Self {
            addresses,
            mac: if is_group {
                group_mac(destination)
            } else {
                path.destination_mac
            },
            hop_limit: path.hop_limit.max(1),
            vlan,
            loopback: is_group || own.gid.ip() == destination,
        })
    }
}

/// The Ethernet address of a multicast group (data-path 7.1): 01:00:5e and 23
/// bits, or 33:33 and 32 bits.
pub(crate) fn group_mac(group: IpAddr) -> MacAddr {
    MacAddr(match group.to_canonical() {
        IpAddr::V4(group) => v4_group(group),
        IpAddr::V6(group) => v6_group(group),
    })
}

const fn v4_group(group: Ipv4Addr) -> [u8; 6] {
    let [_, b, c, d] = group.octets();
    [0x01, 0x00, 0x5E, b & 0x7F, c, d]
}

const fn v6_group(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::v4;

    const MAC: MacAddr = MacAddr([2, 1, 1, 1, 1, 1]);

    #[test]
    fn a_vlan_comes_from_the_gid_and_its_priority_from_the_path() {
        let own = GidEntry {
            vlan: Some(100),
            ..GidEntry::untagged(v4(10, 0, 0, 1))
        };
        let path = Path {
            priority: 5,
            hop_limit: 0,
            ..Path::new(1, v4(10, 0, 0, 2), MAC)
        };
        let target = Target::of(&path, own, false).unwrap();
        assert_eq!(Path::new(1, path.destination, MAC).hop_limit, 64);
        assert_eq!(target.vlan, Some(5 << 13 | 100));
        assert_eq!(
            (target.mac, target.hop_limit, target.loopback),
            (MAC, 1, false)
        );
        let plain = GidEntry { vlan: None, ..own };
        let tag = |own, tags| Target::of(&path, own, tags).unwrap().vlan;
        assert_eq!(tag(plain, false), None);
        // Of several classes: a priority on no VLAN.
        assert_eq!(tag(plain, true), Some(5 << 13));
        assert_eq!(tag(own, true), Some(5 << 13 | 100));
        for bad in [
            Path {
                priority: 8,
                ..path
            },
            Path {
                flow_label: 1 << 20,
                ..path
            },
        ] {
            assert!(matches!(
                Target::of(&bad, own, false),
                Err(Error::OutOfRange { .. })
            ));
        }
    }

    /// `ip_tos2prio` of Linux, with `rt_tos2priority`'s index.
    #[test]
    fn priorities_are_those_of_linux() {
        const TABLE: [u8; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
        for class in 0..=u8::MAX {
            let index = usize::from((class & 0x1E) >> 1);
            assert_eq!(Path::priority_of(class), TABLE[index], "{class:#x}");
        }
        // Not DSCP >> 3: EF would be 5.
        assert_eq!([8, 16, 24, 0xB8].map(Path::priority_of), [2, 6, 4, 4]);
    }

    #[test]
    fn the_way_back_is_in_area_and_completion() {
        let sender = Sender {
            mac: MAC.0,
            vlan_tag: Some(5 << 13 | 100),
        };
        assert_eq!((sender.vlan(), sender.priority()), (Some(100), 5));
        let mut area = [0xEE; 48];
        area[20..24].copy_from_slice(&[0x45, 0x68, 0, 60]);
        area[32..36].copy_from_slice(&[10, 0, 0, 9]);
        let path = Path {
            traffic_class: 0x68,
            priority: 5,
            ..Path::new(3, v4(10, 0, 0, 9), MAC)
        };
        let found = |area: &[u8], flags| Path::to_sender(3, area, flags, &sender);
        assert_eq!(found(&area, WcFlags::GRH | WcFlags::IPV4), Some(path));
        assert_eq!(found(&area[..39], WcFlags::IPV4), None);
        assert_eq!(found(&area, WcFlags::GRH), None, "of no family");
        let from: Ipv6Addr = "fe80::9".parse().unwrap();
        area[..4].copy_from_slice(&[0x66, 0x8A, 0xBC, 0xDE]);
        area[8..24].copy_from_slice(&from.octets());
        let path = Path {
            flow_label: 0xA_BCDE,
            destination: from.into(),
            ..path
        };
        assert_eq!(found(&area, WcFlags::GRH), Some(path));
    }

    #[test]
    fn families_do_not_mix() {
        let v6 = GidEntry::untagged("fe80::1".parse().unwrap());
        let path = Path::new(0, v4(10, 0, 0, 2), MAC);
        assert!(matches!(
            Target::of(&path, v6, false),
            Err(Error::Invalid { .. })
        ));
        // An IPv4-mapped destination is an IPv4 one.
        let mapped = Path::new(0, "::ffff:10.0.0.2".parse().unwrap(), MAC);
        let own = GidEntry::untagged(v4(10, 0, 0, 1));
        assert_eq!(
            Target::of(&mapped, own, false),
            Target::of(&path, own, false)
        );
    }

    #[test]
    fn groups_have_addresses_of_their_own() {
        let own = GidEntry::untagged(v4(10, 0, 0, 1));
        let path = Path::new(0, v4(239, 129, 2, 3), MAC);
        let target = Target::of(&path, own, false).unwrap();
        assert_eq!(target.mac, MacAddr([1, 0, 0x5E, 1, 2, 3]));
        assert!(target.loopback);
        let group: IpAddr = "ff02::1:2".parse().unwrap();
        assert_eq!(group_mac(group), MacAddr([0x33, 0x33, 0, 1, 0, 2]));
        let own = GidEntry::untagged("fe80::1".parse().unwrap());
        let itself = Path::new(0, "fe80::1".parse().unwrap(), MAC);
        assert!(Target::of(&itself, own, false).unwrap().loopback);
    }
}
