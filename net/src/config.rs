//! What an interface is made with.

use crate::mac::MacAddr;
use crate::wire::Vlan;

/// Properties of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The port's own MAC address.
    pub mac: MacAddr,
    /// The tag of all frames; frames of other VLANs are ignored.
    pub vlan: Option<Vlan>,
    /// Largest IP packet; a router advertisement may lower it for IPv6 (RFC 4861 6.3.4).
    pub mtu: u16,
    /// Whether there is IPv6 at all, of which the link-local address is the beginning.
    pub ipv6: bool,
    /// Whether routers are used that advertise themselves, and addresses made of their prefixes.
    /// Without that routers are asked for all the same: they say which hop limit packets have.
    pub autoconfigure: bool,
    /// Whether solicitations and echo requests for an IPv6 address are answered already while
    /// it is found out if another station has it (RFC 4429, optimistic addresses): for a program
    /// that uses it at once, as queue pairs do. Nothing is sent from it of its own accord before
    /// that.
    pub optimistic: bool,
    /// Varies random delays between runs.
    pub seed: u64,
}

impl Config {
    /// No VLAN, Ethernet's MTU, IPv6 with autoconfiguration and without optimistic addresses.
    #[must_use]
    pub const fn new(mac: MacAddr) -> Self {
        Self {
            mac,
            vlan: None,
            mtu: 1500,
            ipv6: true,
            autoconfigure: true,
            optimistic: false,
            seed: 0,
        }
    }
}
