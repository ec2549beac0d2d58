//! Path MTUs that routers have reported (RFC 1191, RFC 8201).

use core::net::IpAddr;

use heapless::Vec;

use crate::time::{Ns, earliest};

/// Paths whose MTU is kept.
pub const PATHS: usize = 16;
/// A reported MTU is forgotten after this time (RFC 8201 4, RFC 1191 6.3).
pub(crate) const PATH_MTU_TIME: Ns = Ns::from_secs(600);
/// Every IPv6 link carries this (RFC 8200 5); less is ignored (RFC 8201 4).
pub(crate) const MIN_IPV6: u32 = 1280;
/// Less is taken as this: Linux' `net.ipv4.route.min_pmtu`. RFC 1191 3 would allow 68, to which
/// anybody could then lower a path.
pub(crate) const MIN_IPV4: u16 = 552;
/// What a router of before RFC 1191, which says no MTU, may have meant (RFC 1191 7).
const PLATEAUS: [u16; 8] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 508];

#[derive(Clone, Copy, Debug)]
struct Path {
    ip: IpAddr,
    mtu: u16,
    until: Ns,
}

/// The paths.
#[derive(Clone, Debug)]
pub(crate) struct PathMtus(Vec<Path, PATHS>);

impl PathMtus {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn get(&self, ip: IpAddr) -> Option<u16> {
        self.0
            .iter()
            .find(|path| path.ip == ip)
            .map(|path| path.mtu)
    }

    /// Takes a report, if it lowers the MTU `link` or what was reported before; the new MTU.
    /// A full table stays as it is: forged reports do not displace true ones.
    pub(crate) fn report(&mut self, ip: IpAddr, mtu: u32, link: u16, now: Ns) -> Option<u16> {
        let mtu = match ip {
            IpAddr::V4(_) => (mtu.min(u32::from(u16::MAX)) as u16).max(MIN_IPV4),
            IpAddr::V6(_) if mtu < MIN_IPV6 => return None,
            IpAddr::V6(_) => mtu.min(u32::from(u16::MAX)) as u16,
        };
        let until = now + PATH_MTU_TIME;
        if mtu >= self.get(ip).unwrap_or(link) {
            return None;
        }
        match self.0.iter_mut().find(|path| path.ip == ip) {
            Some(path) => {
                path.mtu = mtu;
                path.until = until;
            }
            None => self.0.push(Path { ip, mtu, until }).ok()?,
        }
        Some(mtu)
    }

    /// Forgets what is old.
    pub(crate) fn expire(&mut self, now: Ns) {
        self.0.retain(|path| path.until > now);
    }

    pub(crate) fn deadline(&self) -> Option<Ns> {
        self.0
            .iter()
            .fold(None, |first, path| earliest(first, Some(path.until)))
    }
}

/// The MTU that a report means: its own, or the next plateau below a packet of that length.
pub(crate) fn reported(mtu: u16, length: u16) -> u16 {
    match mtu {
        0 => {
            let mut below = PLATEAUS.into_iter().filter(|plateau| *plateau < length);
            below.next().unwrap_or(MIN_IPV4)
        }
        mtu => mtu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const V6: IpAddr = IpAddr::V6(core::net::Ipv6Addr::LOCALHOST);

    #[test]
    fn a_path_is_only_lowered_and_not_below_the_floor() {
        let mut paths = PathMtus::new();
        assert_eq!(paths.report(V4, 9000, 1500, Ns::ZERO), None);
        assert_eq!(paths.report(V4, 1400, 1500, Ns::ZERO), Some(1400));
        assert_eq!(paths.report(V4, 1450, 1500, Ns::ZERO), None);
        assert_eq!(paths.report(V4, 1, 1500, Ns::ZERO), Some(MIN_IPV4));
        assert_eq!(paths.report(V6, 1279, 1500, Ns::ZERO), None);
        assert_eq!(paths.report(V6, 1280, 1500, Ns::from_secs(1)), Some(1280));
        assert_eq!((paths.get(V4), paths.get(V6)), (Some(552), Some(1280)));
        assert_eq!(paths.deadline(), Some(PATH_MTU_TIME));
        paths.expire(PATH_MTU_TIME);
        assert_eq!((paths.get(V4), paths.get(V6)), (None, Some(1280)));
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let mut paths = PathMtus::new();
        let ip = |n: u32| IpAddr::V4(core::net::Ipv4Addr::from_bits(n));
        for n in 0..PATHS as u32 {
            assert!(paths.report(ip(n), 1400, 1500, Ns::ZERO).is_some());
        }
        assert_eq!(paths.report(ip(99), 1400, 1500, Ns::ZERO), None);
        assert_eq!(paths.get(ip(0)), Some(1400));
    }

    #[test]
    fn plateaus() {
        assert_eq!(reported(1400, 1500), 1400);
        assert_eq!(reported(0, 1500), 1492);
        assert_eq!(reported(0, 1492), 1006);
        assert_eq!(reported(0, 20), MIN_IPV4);
    }
}
