//! The host's network stack, as far as it concerns one TAP interface: the interface and the VLANs
//! on it, their addresses, routes through them and their neighbours.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;

use anyhow::{Context, Result, anyhow};
use e810::MacAddr;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use super::gids::Own;
use super::messages::{self, Interface, Known};
use super::netlink::Netlink;
use crate::cli::own_address::OwnAddress;
use crate::output::units;

/// Questions about one interface.
pub(super) struct Stack {
    netlink: Netlink,
    /// The TAP interface.
    index: u32,
    interfaces: Vec<Interface>,
    /// By interface and address.
    neighbours: HashMap<(u32, IpAddr), Known>,
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
        };
        let links = stack.links()?;
        let named = links.into_iter().find(|link| link.name == name);
        stack.index = named.map(|link| link.index).with_context(|| {
            format!("--tap {name}: no such interface in this network namespace any more")
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
    /// adds addresses. Those that were not there before are returned.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn set_up(
        &mut self,
        mac: MacAddr,
        mtu: u16,
        addresses: &[OwnAddress],
    ) -> Result<Vec<OwnAddress>> {
        let index = self.index;
        let set = self.netlink.request(messages::set_port(index, mac, mtu), 0);
        set.with_context(|| {
            format!(
                "setting the interface's address {} and MTU {mtu}",
                units::mac(mac)
            )
        })?;
        self.set_carrier(false)?;
        let up = self.netlink.request(messages::set_up(index), 0);
        up.context("switching the interface on")?;
        let mut added = Vec::new();
        for own in addresses {
            let message = messages::add_address(index, own);
            match self.netlink.request(message, NLM_F_CREATE | NLM_F_EXCL) {
                Ok(_) => added.push(*own),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(anyhow!(error).context(format!("--ip {own}"))),
            }
        }
        Ok(added)
    }

    /// Takes addresses away; of an interface that stays.
    pub(super) fn remove_addresses(&mut self, addresses: &[OwnAddress]) {
        for own in addresses {
            let message = messages::delete_address(self.index, own);
            if let Err(error) = self.netlink.request(message, 0) {
                log::debug!("{own} is not taken away: {error}");
            }
        }
    }

    /// Says whether the interface has a carrier.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn set_carrier(&mut self, is_on: bool) -> Result<()> {
        let set = messages::set_carrier(self.index, is_on);
        let set = self.netlink.request(set, 0);
        set.context("setting the interface's carrier")?;
        Ok(())
    }

    /// Looks at interfaces anew, and gives the addresses that can be used; `None`: the interface
    /// is gone.
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
            // Another kind of interface on this one, such as a macvlan, has other MAC addresses.
            (of.index == index || of.vlan.is_some()).then_some((address.ip, of.vlan))
        });
        Ok(Some(own.collect()))
    }

    /// The interface's MAC address, as last addresses at.
    pub(super) fn mac(&self) -> Option<MacAddr> {
        let mut interfaces = self.interfaces.iter();
        interfaces.find(|link| link.index == self.index)?.mac
    }

    /// The interface of a VLAN, or of none.
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
        // IPv6 always means the table's entry.
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

    /// Looks at neighbours anew.
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

    /// What was known of a neighbour then.
    pub(super) fn neighbour(&self, interface: u32, ip: IpAddr) -> Option<Known> {
        self.neighbours.get(&(interface, ip)).copied()
    }

    /// Has the kernel ask for a neighbour, or confirm it. RDMA packets tell it nothing.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn use_neighbour(&mut self, interface: u32, ip: IpAddr) -> io::Result<()> {
        let message = messages::use_neighbour(interface, ip);
        self.netlink.request(message, NLM_F_CREATE)?;
        Ok(())
    }
}

fn has_no_route(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL)
    )
}
