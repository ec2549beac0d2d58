//! Where packets go and what they have on the way, asked of who knows: a station, or the host's
//! network stack.

use std::net::IpAddr;

use e810::MacAddr;

/// Hop limit, or time to live, where nobody has set another.
pub(crate) const HOP_LIMIT: u8 = 64;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Where packets are to go.
    pub destination: IpAddr,
    /// The VLAN of the own address that they come from. A station has one for all.
    pub vlan: Option<u16>,
    /// The destination's Ethernet address, where nobody needs to be asked for it.
    pub known: Option<MacAddr>,
}

impl From<IpAddr> for Question {
    fn from(destination: IpAddr) -> Self {
        Self {
            destination,
            vlan: None,
            known: None,
        }
    }
}

/// Where packets to a destination go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Neighbour {
    /// The next hop: the destination, or a gateway.
    pub via: IpAddr,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// What packets have on the way.
    pub route: Route,
}

/// What packets have on a route, whatever their program wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Route {
    /// Hop limit, or time to live. That of packets to a group is the program's.
    pub hop_limit: u8,
    /// The priority in the tag, of packets of each priority: the egress map of a VLAN.
    pub priorities: [u8; 8],
}

impl Route {
    /// Of packets that nobody has said anything of.
    pub const PLAIN: Self = Self {
        hop_limit: HOP_LIMIT,
        priorities: [0, 1, 2, 3, 4, 5, 6, 7],
    };

    /// The priority in the tag, of packets of a priority.
    #[must_use]
    pub fn priority(&self, of: u8) -> u8 {
        let mapped = self.priorities.get(usize::from(of));
        mapped.copied().unwrap_or_default()
    }
}
