//! Socket addresses of C.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6};

/// A `sockaddr_storage`, as structures here have it.
pub(crate) type Storage = [u64; 16];

/// Nothing.
pub(crate) const NONE: Storage = [0; 16];

/// Reads an address; `None` for another family, as `AF_IB`.
///
/// # Safety
/// `address` is null, or can be read as what its family says.
pub(crate) unsafe fn read(address: *const sockaddr) -> Option<SocketAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's; programs may have it at any address.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: the caller's.
            let it = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(it.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the caller's.
            let it = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(it.sin6_addr.s6_addr);
            let port = u16::from_be(it.sin6_port);
            Some(SocketAddrV6::new(ip, port, it.sin6_flowinfo, it.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The same, as bytes of a structure.
pub(crate) fn stored(address: SocketAddr) -> Storage {
    let mut storage = NONE;
    let place = storage.as_mut_ptr();
    match address {
        SocketAddr::V4(v4) => {
            let it = sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: 16 bytes of 128.
            unsafe { place.cast::<sockaddr_in>().write(it) };
        }
        SocketAddr::V6(v6) => {
            let it = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: 28 bytes of 128.
            unsafe { place.cast::<sockaddr_in6>().write(it) };
        }
    }
    storage
}

/// Any address of the same family.
pub(crate) const fn any(like: &IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_stored(storage: &Storage) -> Option<SocketAddr> {
        // SAFETY: all of it can be read, whatever its family says.
        unsafe { read(storage.as_ptr().cast()) }
    }

    #[test]
    fn addresses_come_back() {
        for text in ["10.8.1.1:7471", "[fd00:8::1]:1", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap_or_else(|_| unreachable!());
            assert_eq!(of_stored(&stored(address)), Some(address));
        }
        assert_eq!(of_stored(&NONE), None);
    }
}
