//! The next hop of a packet: by the longest prefix.

use core::fmt;
use core::net::IpAddr;

use heapless::Vec;

use crate::prefix::Prefix;
use crate::take::take;

/// Routes that are set.
pub const ROUTES: usize = 8;

/// Where a packet goes first, and as whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// The neighbour: the destination itself, or a gateway.
    pub via: IpAddr,
    /// Our address.
    pub source: IpAddr,
}

/// Routes through gateways.
#[derive(Clone, Debug)]
pub(crate) struct Routes(Vec<(Prefix, IpAddr), ROUTES>);

impl Routes {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a route, or gives one that is there another gateway.
    pub(crate) fn set(&mut self, prefix: Prefix, gateway: IpAddr) -> Result<(), RouteError> {
        let is_host = !gateway.is_unspecified() && !gateway.is_multicast();
        if gateway.is_ipv4() != prefix.ip().is_ipv4() || !is_host {
            return Err(RouteError::Gateway);
        }
        match self.0.iter_mut().find(|(known, _)| *known == prefix) {
            Some((_, known)) => {
                *known = gateway;
                Ok(())
            }
            None => self.0.push((prefix, gateway)).map_err(|_| RouteError::Full),
        }
    }

    pub(crate) fn remove(&mut self, prefix: Prefix) -> Result<(), RouteError> {
        let place = self.0.iter().position(|(known, _)| *known == prefix);
        let place = place.ok_or(RouteError::NoSuch)?;
        take(&mut self.0, place);
        Ok(())
    }

    /// The longest prefix that contains an address, and its gateway.
    pub(crate) fn find(&self, ip: IpAddr) -> Option<(Prefix, IpAddr)> {
        let fitting = self.0.iter().filter(|(prefix, _)| prefix.contains(ip));
        fitting.max_by_key(|(prefix, _)| prefix.length()).copied()
    }
}

/// Why a route is not set or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RouteError {
    /// The gateway is no host of the destination's family.
    Gateway,
    /// The table is full.
    Full,
    /// There is no such route.
    NoSuch,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gateway => "the gateway is not a host of the same family",
            Self::Full => "no room for one more route",
            Self::NoSuch => "there is no such route",
        })
    }
}

impl core::error::Error for RouteError {}
