//! The address of the sender of a datagram, from the completion and the first 40 bytes of the
//! receive.

use core::ffi::c_int;
use core::ptr;
use std::net::{IpAddr, Ipv4Addr};

use e810::Gid;

use super::create_ah;
use crate::abi::device::Context;
use crate::abi::objects::{Ah, Pd};
use crate::abi::state::{AhAttr, Gid as ProgramGid, GlobalRoute, Grh};
use crate::abi::work::Wc;
use crate::control::{QueryGids, QueryPort, Refused};
use crate::device::context::OpenContext;
use crate::errno::{fail, no_object};
use crate::panics::catch_panics;
use crate::pd::PdObject;

/// `IBV_WC_GRH`.
const HAS_GRH: u32 = 1;
/// Bytes of the area.
const AREA: usize = 40;

/// What the area says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    source: IpAddr,
    /// Our address that it was sent to.
    destination: IpAddr,
    traffic_class: u8,
    flow_label: u32,
}

/// The IP header in the area: the last 20 bytes if they are an IPv4 header, and the bytes before
/// them are undefined then; else all 40, an IPv6 header or what InfiniBand has in its place.
fn header(area: &[u8; AREA]) -> Option<Header> {
    let (_, v4) = area.split_last_chunk::<20>()?;
    let word = |at: usize| Some(u32::from_be_bytes(*area.get(at..)?.first_chunk()?));
    if v4.first() == Some(&0x45) && checksum(v4) == 0 {
        let address = |at| Some(IpAddr::V4(Ipv4Addr::from_bits(word(at)?)));
        return Some(Header {
            source: address(32)?,
            destination: address(36)?,
            traffic_class: *v4.get(1)?,
            flow_label: 0,
        });
    }
    let first = word(0)?;
    let gid = |at: usize| Some(Gid(*area.get(at..)?.first_chunk()?).ip());
    (first >> 28 == 6).then_some(())?;
    Some(Header {
        source: gid(8)?,
        destination: gid(24)?,
        traffic_class: (first >> 20) as u8,
        flow_label: first & 0xF_FFFF,
    })
}

/// The Internet checksum of a header that includes its own checksum: 0 if that is right.
fn checksum(header: &[u8]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

/// The address of the sender of a datagram. EINVAL for a completion without the area, an area
/// without a header, and a destination that is none of our addresses.
fn answer(open: &OpenContext, port: u8, wc: &Wc, area: &[u8; AREA]) -> Result<AhAttr, c_int> {
    let control = open.control();
    let wrong = |refused: Refused| refused.errno;
    control.ask(QueryPort { port }).map_err(wrong)?;
    if wc.wc_flags & HAS_GRH == 0 {
        return Err(libc::EINVAL);
    }
    let header = header(area).ok_or(libc::EINVAL)?;
    let table = control.ask(QueryGids {}).map_err(wrong)?;
    let of_group = header.destination.is_multicast();
    let own = table.entries().find(|(_, entry)| {
        let ip = entry.gid.ip();
        ip == header.destination || of_group && ip.is_ipv4() == header.destination.is_ipv4()
    });
    let (sgid_index, _) = own.ok_or(libc::EINVAL)?;
    Ok(AhAttr {
        grh: GlobalRoute {
            dgid: ProgramGid {
                raw: Gid::from(header.source).0,
            },
            flow_label: header.flow_label,
            sgid_index,
            hop_limit: 0xFF,
            traffic_class: header.traffic_class,
        },
        is_global: 1,
        port_num: port,
        ..AhAttr::default()
    })
}

/// `ibv_init_ah_from_wc`: 0, or -1 and errno.
///
/// # Safety
/// `context` is open, `wc` and the 40 bytes of `grh` can be read, and `attr` can be written.
pub unsafe extern "C" fn init_ah_from_wc(
    context: *mut Context,
    port: u8,
    wc: *mut Wc,
    grh: *mut Grh,
    attr: *mut AhAttr,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's; an area has any alignment.
        let (open, wc, area) = unsafe {
            let area = grh.cast::<[u8; AREA]>().read();
            (OpenContext::of(context), wc.read(), area)
        };
        match answer(open, port, &wc, &area) {
            Ok(found) => {
                // SAFETY: the caller's.
                unsafe { attr.write(found) };
                0
            }
            Err(number) => fail(number),
        }
    })
}

/// `ibv_create_ah_from_wc`.
///
/// # Safety
/// `pd` is a protection domain; `wc` and the 40 bytes of `grh` can be read.
pub unsafe extern "C" fn create_ah_from_wc(
    pd: *mut Pd,
    wc: *mut Wc,
    grh: *mut Grh,
    port: u8,
) -> *mut Ah {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's; an area has any alignment.
        let (domain, wc, area) = unsafe {
            let area = grh.cast::<[u8; AREA]>().read();
            (PdObject::of(pd), wc.read(), area)
        };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { domain.open() };
        match answer(open, port, &wc, &area) {
            // SAFETY: the caller's.
            Ok(mut found) => unsafe { create_ah(pd, &raw mut found) },
            Err(number) => no_object(number),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_has_a_header_of_either_family() {
        let mut area = [0xA5; AREA];
        let v4 = [
            0x45, 0x68, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 10, 8, 1, 2, 10, 8, 1, 1,
        ];
        area[20..].copy_from_slice(&v4);
        assert_eq!(header(&area), None, "its checksum is wrong");
        let sum = checksum(&v4);
        area[30..32].copy_from_slice(&sum.to_be_bytes());
        let found = header(&area).unwrap();
        assert_eq!(found.source, IpAddr::from([10, 8, 1, 2]));
        assert_eq!(found.destination, IpAddr::from([10, 8, 1, 1]));
        assert_eq!((found.traffic_class, found.flow_label), (0x68, 0));

        let mut area = [0; AREA];
        area[..4].copy_from_slice(&0x6A5B_CDEF_u32.to_be_bytes());
        area[8] = 0xFD;
        area[24] = 0xFD;
        area[39] = 1;
        let found = header(&area).unwrap();
        assert_eq!(found.source, "fd00::".parse::<IpAddr>().unwrap());
        assert_eq!(found.destination, "fd00::1".parse::<IpAddr>().unwrap());
        assert_eq!((found.traffic_class, found.flow_label), (0xA5, 0xB_CDEF));
    }
}
