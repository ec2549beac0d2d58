//! Multicast listener discovery: queries of versions 1 and 2, and reports (RFC 3810, RFC 2710).

use core::net::Ipv6Addr;

use super::bytes::{Writer, array_at, u16_at};
use super::icmpv6::seal;
use super::igmp::Record;
use super::ipv6::{ICMPV6, Ipv6};
use crate::counters::DropReason;
use crate::time::Ns;

const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;

/// Where reports of version 2 go (RFC 3810 5.2.14).
pub const REPORTS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0x16);
/// All routers of the link, to whom version 1 says that it is done (RFC 2710 4).
pub const ALL_ROUTERS: Ipv6Addr = super::nd::ALL_ROUTERS;

/// A multicast listener query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Version of MLD in which it is to be answered.
    pub version: u8,
    /// The group that is asked for; `None` for all.
    pub group: Option<Ipv6Addr>,
    /// Within what time.
    pub max_response: Ns,
}

impl Query {
    /// A query of a multicast router of this link (RFC 3810 5.1.14, 6.2).
    pub(crate) fn parse(header: &Ipv6, bytes: &[u8]) -> Result<Self, DropReason> {
        if !header.source.is_unicast_link_local() || header.hop_limit != 1 || !header.router_alert {
            return Err(DropReason::BadMessage);
        }
        let delay = u16_at(bytes, 4).ok_or(DropReason::BadMessage)?;
        let group = array_at::<16>(bytes, 8).ok_or(DropReason::BadMessage)?;
        // RFC 3810 8.1: the length tells the versions apart.
        let (version, delay) = match bytes.len() {
            24 => (1, u64::from(delay)),
            28.. => (2, exponential(delay)),
            _ => return Err(DropReason::BadMessage),
        };
        let group = Ipv6Addr::from(group);
        if !group.is_unspecified() && !group.is_multicast() {
            return Err(DropReason::BadMessage);
        }
        Ok(Self {
            version,
            group: Some(group).filter(Ipv6Addr::is_multicast),
            max_response: Ns::from_ms(delay),
        })
    }
}

/// Codes of 32768 and more have an exponent (RFC 3810 5.1.3).
fn exponential(code: u16) -> u64 {
    match code {
        0..0x8000 => code.into(),
        _ => u64::from(code & 0xFFF | 0x1000) << ((code >> 12 & 7) + 3),
    }
}

const fn header(source: Ipv6Addr, destination: Ipv6Addr) -> Ipv6 {
    Ipv6 {
        source,
        destination,
        protocol: ICMPV6,
        hop_limit: 1,
        router_alert: true,
    }
}

/// Appends a report of version 2 with these `count` records, and its IP header.
pub fn build_report(
    writer: &mut Writer<'_>,
    source: Ipv6Addr,
    count: usize,
    records: impl Iterator<Item = (Record, Ipv6Addr)>,
) {
    header(source, REPORTS).build(writer, 8 + 20 * count);
    let start = writer.length();
    writer.put(&[REPORT_V2, 0, 0, 0, 0, 0]);
    writer.put_u16(count.min(0xFFFF) as u16);
    for (record, group) in records.take(count) {
        writer.put(&[record as u8, 0, 0, 0]);
        writer.put(&group.octets());
    }
    seal(writer, start, source, REPORTS);
}

/// Appends version 1's report or leaving of a group, and its IP header.
pub fn build_old(writer: &mut Writer<'_>, source: Ipv6Addr, is_leave: bool, group: Ipv6Addr) {
    let destination = if is_leave { ALL_ROUTERS } else { group };
    header(source, destination).build(writer, 24);
    let start = writer.length();
    writer.put(&[if is_leave { DONE } else { REPORT_V1 }, 0, 0, 0]);
    writer.put(&[0; 4]);
    writer.put(&group.octets());
    seal(writer, start, source, destination);
}
