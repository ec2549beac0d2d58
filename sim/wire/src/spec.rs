//! Which wire.

use std::fmt;

use e810_sim::link::Mac;

use crate::endpoints::{SamePort, UdpEnds};
use crate::mac::drawn_mac;
use crate::name::WireName;

/// A wire to other processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WireSpec {
    /// Between two processes.
    Pair(UdpEnds),
    /// Between all processes of this host that use the name.
    Segment(WireName),
}

impl WireSpec {
    /// Ethernet address of the first function at this end, when none was given. Those at the other
    /// ends differ: in a pair it has the local port; on a segment it is drawn each time.
    ///
    /// # Errors
    /// If both ends of a pair have the same port.
    pub fn first_mac(&self) -> Result<Mac, SamePort> {
        match self {
            Self::Pair(ends) => ends.first_mac(),
            Self::Segment(_) => Ok(drawn_mac()),
        }
    }
}

impl fmt::Display for WireSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair(ends) => write!(f, "from {} to {}", ends.local, ends.peer),
            Self::Segment(name) => write!(f, "{name}"),
        }
    }
}
