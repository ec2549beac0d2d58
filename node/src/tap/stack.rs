//! The host's network stack, as far as it concerns one TAP interface: the interface and the VLANs
//! on it, their addresses, routes through them and their neighbours.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::{fs, io};

use anyhow::{Context, Result, anyhow};
use e810::MacAddr;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use super::gids::Own;
use super::messages::{self, Interface, Known};
use super::netlink::Netlink;
use crate::address::OwnAddress;
use crate::route::{HOP_LIMIT, Route};

/// Questions about one interface.
pub(super) struct Stack {
    netlink: Netlink,
    /// The TAP interface.
    index: u32,
    interfaces: Vec<Interface>,
    /// By interface and address.
    neighbours: HashMap<(u32, IpAddr), Known>,
    /// Addresses that were added, and that are removed in the end: the interface may stay.
    added: Vec<OwnAddress>,
}

impl Stack {
    /// # Errors
    /// There is no such interface in this network namespace.
    pub(super) fn of(name: &str) -> Result<Self> {
        let netlink = Netlink::open().context("a socket to the kernel's network stack")?;
        let mut stack = Self {
            netlink,
            index: 0,
            interfaces: Vec::new(),
            neighbours: HashMap::new(),
            added: Vec::new(),
        };
        let links = stack.links()?;
        let named = links.into_iter().find(|link| link.name == name);
        stack.index = named.map(|link| link.index).with_context(|| {
            format!("TAP interface {name}: no such interface in this network namespace any more")
        })?;
        Ok(stack)
    }

    pub(super) const fn index(&self) -> u32 {
        self.index
    }

    fn links(&mut self) -> io::Result<Vec<Interface>> {
        let answer = self.netlink.dump(messages::get_links())?;
        Ok(answer.iter().filter_map(messages::interface).collect())
    }

    /// Gives the interface the port's MAC address and MTU, switches it on without a carrier, and
    /// adds addresses. Those that were not there before are removed when this is dropped.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn set_up(
        &mut self,
        mac: MacAddr,
        mtu: u16,
        addresses: &[OwnAddress],
    ) -> Result<()> {
        let index = self.index;
        let set = self.netlink.request(messages::set_port(index, mac, mtu), 0);
        set.with_context(|| format!("setting the interface's address {} and MTU {mtu}", mac))?;
        self.set_carrier(false)?;
        let up = self.netlink.request(messages::set_up(index), 0);
        up.context("switching the interface on")?;
        for own in addresses {
            let message = messages::add_address(index, own);
            match self.netlink.request(message, NLM_F_CREATE | NLM_F_EXCL) {
                Ok(_) => self.added.push(*own),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(anyhow!(error).context(format!("--ip {own}"))),
            }
        }
        Ok(())
    }

    /// Sets whether the interface has a carrier.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn set_carrier(&mut self, is_on: bool) -> Result<()> {
        let set = messages::set_carrier(self.index, is_on);
        let set = self.netlink.request(set, 0);
        set.context("setting the interface's carrier")?;
        Ok(())
    }

    /// Queries the interfaces again, and returns the usable addresses; `None`: the interface is
    /// gone.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn addresses(&mut self) -> io::Result<Option<BTreeSet<Own>>> {
        let mut links = self.links()?;
        let index = self.index;
        links.retain(|link| link.index == index || link.below == Some(index));
        self.interfaces = links;
        if !self.interfaces.iter().any(|link| link.index == index) {
            return Ok(None);
        }
        let answer = self.netlink.dump(messages::get_addresses())?;
        let addresses = answer.iter().filter_map(messages::address);
        let own = addresses.filter_map(|address| {
            let mut of = self.interfaces.iter();
            let of = of.find(|link| link.index == address.index)?;
            // An interface of another kind on top of this one, such as a macvlan, has other MAC
            // addresses.
            (of.index == index || of.vlan.is_some()).then_some((address.ip, of.vlan))
        });
        Ok(Some(own.collect()))
    }

    /// The interface, as of the last call of `addresses`.
    pub(super) fn interface(&self) -> Option<&Interface> {
        let mut interfaces = self.interfaces.iter();
        interfaces.find(|link| link.index == self.index)
    }

    /// The interface of a VLAN, or the one without VLAN.
    pub(super) fn interface_of(&self, vlan: Option<u16>) -> Option<u32> {
        let Some(vlan) = vlan else {
            return Some(self.index);
        };
        let mut interfaces = self.interfaces.iter();
        let of = interfaces.find(|link| link.vlan == Some(vlan))?;
        Some(of.index)
    }

    /// The next hop to a destination through an interface; `None`: no route goes there.
    ///
    /// # Errors
    /// The kernel's refusal for another cause.
    pub(super) fn next_hop(
        &mut self,
        interface: u32,
        destination: IpAddr,
    ) -> io::Result<Option<IpAddr>> {
        let mut gateway = None;
        // For IPv6 it always means the table's entry.
        let first = usize::from(destination.is_ipv6());
        for matching in [true, false].into_iter().skip(first) {
            let message = messages::get_route(interface, destination, matching);
            gateway = match self.netlink.request(message, 0) {
                Ok(answer) => answer.iter().find_map(messages::gateway),
                Err(error) if has_no_route(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(Some(gateway.unwrap_or(destination)))
    }

    /// The values of packets to a destination that come from an address on a VLAN, or on none, as
    /// the kernel's own packets would have them (`ip4_dst_hoplimit`, `ip6_dst_hoplimit`,
    /// `vlan_dev_get_egress_qos_mask`). A value that cannot be found out counts as not set.
    pub(super) fn route(&mut self, vlan: Option<u16>, destination: IpAddr) -> Route {
        let Some(index) = self.interface_of(vlan) else {
            return Route::PLAIN;
        };
        // The kernel does not report a changed hop limit.
        let asked = self.netlink.request(messages::get_link(index), 0);
        let interface = asked
            .ok()
            .and_then(|answer| answer.iter().find_map(messages::interface));
        let interface = interface.unwrap_or_default();
        let message = messages::get_route(index, destination, false);
        let asked = self.netlink.request(message, 0);
        let own = asked
            .ok()
            .and_then(|answer| answer.iter().find_map(messages::hop_limit));
        let usual = || match destination {
            IpAddr::V4(_) => default_ttl(),
            IpAddr::V6(_) => interface.hop_limit,
        };
        Route {
            hop_limit: own.or_else(usual).unwrap_or(HOP_LIMIT),
            priorities: match vlan {
                Some(_) => interface.egress,
                None => Route::PLAIN.priorities,
            },
        }
    }

    /// Queries the neighbours again.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn refresh_neighbours(&mut self) -> io::Result<()> {
        let answer = self.netlink.dump(messages::get_neighbours())?;
        let known = answer.iter().filter_map(messages::neighbour);
        self.neighbours = known
            .map(|known| ((known.index, known.ip), known))
            .collect();
        Ok(())
    }

    /// A neighbour, as of that query.
    pub(super) fn neighbour(&self, interface: u32, ip: IpAddr) -> Option<Known> {
        self.neighbours.get(&(interface, ip)).copied()
    }

    /// Makes the kernel ask for a neighbour, or confirm it. The kernel learns nothing from RDMA
    /// packets.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn use_neighbour(&mut self, interface: u32, ip: IpAddr) -> io::Result<()> {
        let message = messages::use_neighbour(interface, ip);
        self.netlink.request(message, NLM_F_CREATE)?;
        Ok(())
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        for own in std::mem::take(&mut self.added) {
            let message = messages::delete_address(self.index, &own);
            if let Err(error) = self.netlink.request(message, 0) {
                log::debug!("{own} is not taken away: {error}");
            }
        }
    }
}

/// Time to live of IPv4 packets of this network namespace.
fn default_ttl() -> Option<u8> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").ok()?;
    text.trim().parse().ok()
}

fn has_no_route(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL)
    )
}
