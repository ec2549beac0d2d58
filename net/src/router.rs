//! Default routers and the prefixes of the link, as routers advertise them (RFC 4861 6.3).

use core::net::Ipv6Addr;

use heapless::Vec;

use crate::prefix::Prefix;
use crate::take::take;
use crate::time::Ns;

/// Default routers that are kept; more are ignored (RFC 4861 6.3.4 asks for two).
pub const ROUTERS: usize = 4;
/// Advertised prefixes of the link that are kept; more are ignored.
pub const PREFIXES: usize = 8;

/// Time to live and hop limit of packets where no router says another (RFC 1700, IP TTL).
pub(crate) const HOP_LIMIT: u8 = 64;

/// Router solicitations after the link-local address is there (RFC 4861 10).
pub(crate) const MAX_RTR_SOLICITATIONS: u8 = 3;
/// Time between them (RFC 4861 10).
pub(crate) const RTR_SOLICITATION_INTERVAL: Ns = Ns::from_secs(4);
/// Random time before the first (RFC 4861 10).
pub(crate) const MAX_RTR_SOLICITATION_DELAY: Ns = Ns::from_secs(1);

/// A default router or a prefix and when its lifetime ends; `None`: never.
#[derive(Clone, Copy, Debug)]
struct Lease<T> {
    what: T,
    until: Option<Ns>,
}

/// A list of such.
#[derive(Clone, Debug)]
pub(crate) struct Leases<T, const N: usize>(Vec<Lease<T>, N>);

/// What a change did to a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Nothing but a lifetime.
    None,
    Added,
    Removed,
    /// There was no room.
    Refused,
}

impl<T: Copy + PartialEq, const N: usize> Leases<T, N> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets the lifetime of an entry, which ends it if it is over.
    pub(crate) fn set(&mut self, what: T, until: Option<Ns>, now: Ns) -> Change {
        let place = self.0.iter().position(|lease| lease.what == what);
        let is_over = until.is_some_and(|until| until <= now);
        match place {
            Some(place) if is_over => {
                // In order: the first router is preferred.
                take(&mut self.0, place);
                Change::Removed
            }
            Some(place) => {
                if let Some(lease) = self.0.get_mut(place) {
                    lease.until = until;
                }
                Change::None
            }
            None if is_over => Change::None,
            None => match self.0.push(Lease { what, until }) {
                Ok(()) => Change::Added,
                Err(_) => Change::Refused,
            },
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().map(|lease| lease.what)
    }

    /// An entry whose lifetime is over, taken out.
    pub(crate) fn expired(&mut self, now: Ns) -> Option<T> {
        let is_over = |lease: &Lease<T>| lease.until.is_some_and(|until| until <= now);
        let place = self.0.iter().position(is_over)?;
        take(&mut self.0, place).map(|lease| lease.what)
    }

    pub(crate) fn deadline(&self) -> Option<Ns> {
        self.0.iter().filter_map(|lease| lease.until).min()
    }
}

/// What routers have said, and whether they are asked.
#[derive(Clone, Debug)]
pub(crate) struct Routers {
    pub(crate) defaults: Leases<Ipv6Addr, ROUTERS>,
    pub(crate) on_link: Leases<Prefix, PREFIXES>,
    /// MTU of the link.
    pub(crate) mtu: Option<u16>,
    /// Hop limit of packets.
    pub(crate) hop_limit: u8,
    /// Solicitations sent.
    pub(crate) solicits: u8,
    /// When the next one is due.
    pub(crate) next: Option<Ns>,
}

impl Routers {
    pub(crate) const fn new() -> Self {
        Self {
            defaults: Leases::new(),
            on_link: Leases::new(),
            mtu: None,
            hop_limit: HOP_LIMIT,
            solicits: 0,
            next: None,
        }
    }
}

/// The end of a lifetime in seconds, of which `u32::MAX` is for ever (RFC 4861 4.6.2).
pub(crate) fn end(seconds: u32, now: Ns) -> Option<Ns> {
    match seconds {
        u32::MAX => None,
        _ => Some(now + Ns::from_secs(seconds.into())),
    }
}
