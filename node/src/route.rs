//! Where packets go and which values they have on their route, as answered by a station or by the
//! host's network stack.

use std::net::IpAddr;

use e810::MacAddr;

/// Hop limit, or time to live, unless another was set.
pub(crate) const HOP_LIMIT: u8 = 64;

/// A question to a resolver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Where packets are to go.
    pub destination: IpAddr,
    /// The VLAN of our address that they come from. A station has one VLAN for all.
    pub vlan: Option<u16>,
    /// The destination's Ethernet address, if it is known and needs no question.
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
    /// The values that packets have on the way.
    pub route: Route,
}

/// The values that packets have on a route, whatever their program wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Route {
    /// Hop limit, or time to live. For packets to a group the program sets it.
    pub hop_limit: u8,
    /// The priority in the tag for packets of each priority: the egress map of a VLAN.
    pub priorities: [u8; 8],
}

impl Route {
    /// For packets without any settings.
    pub const PLAIN: Self = Self {
        hop_limit: HOP_LIMIT,
        priorities: [0, 1, 2, 3, 4, 5, 6, 7],
    };

    /// The priority in the tag for packets of a priority.
    #[must_use]
    pub fn priority(&self, of: u8) -> u8 {
        let mapped = self.priorities.get(usize::from(of));
        mapped.copied().unwrap_or_default()
    }
}
