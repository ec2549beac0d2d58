//! IGMP: membership queries of versions 1 to 3, and reports (RFC 3376, RFC 2236).

use core::net::Ipv4Addr;

use super::bytes::{Writer, array_at};
use super::checksum::Checksum;
use crate::counters::DropReason;
use crate::time::Ns;

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

/// All hosts, a group that is never reported (RFC 3376 6).
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers, to whom version 2 says that it leaves (RFC 2236 3).
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Where reports of version 3 go (RFC 3376 4.2.14).
pub const REPORTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

/// What a record of a report says about a group, with no source listed (RFC 3376 4.2.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// All sources are wanted, as before.
    IsExclude = 2,
    /// No source is wanted from now on: the group is left.
    ToInclude = 3,
    /// All sources are wanted from now on: the group is joined.
    ToExclude = 4,
}

/// A membership query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Version of IGMP in which it is to be answered.
    pub version: u8,
    /// The group that is asked for; `None` for all.
    pub group: Option<Ipv4Addr>,
    /// Within what time.
    pub max_response: Ns,
}

impl Query {
    /// A query.
    ///
    /// # Errors
    ///
    /// [`DropReason::BadChecksum`], [`DropReason::BadMessage`], or
    /// [`DropReason::OtherMessage`] for reports of others.
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        if !Checksum::new().bytes(bytes).is_valid() {
            return Err(DropReason::BadChecksum);
        }
        let head = array_at::<8>(bytes, 0).ok_or(DropReason::BadMessage)?;
        let [kind, code, _, _, group @ ..] = head;
        if kind != QUERY {
            return Err(DropReason::OtherMessage);
        }
        // RFC 3376 7.1: the length tells the versions apart.
        let (version, tenths) = match (bytes.len(), code) {
            (8, 0) => (1, 100),
            (8, code) => (2, u64::from(code)),
            (12.., code) => (3, exponential(code)),
            _ => return Err(DropReason::BadMessage),
        };
        let group = Ipv4Addr::from(group);
        if !group.is_unspecified() && !group.is_multicast() {
            return Err(DropReason::BadMessage);
        }
        Ok(Self {
            version,
            group: Some(group).filter(Ipv4Addr::is_multicast),
            max_response: Ns::from_ms(tenths * 100),
        })
    }
}

/// Codes of 128 and more have an exponent (RFC 3376 4.1.1).
fn exponential(code: u8) -> u64 {
    match code {
        0..128 => code.into(),
        _ => u64::from(code & 0xF | 0x10) << ((code >> 4 & 7) + 3),
    }
}

/// Appends a report of version 3 with these records.
pub fn build_report(writer: &mut Writer<'_>, records: impl Iterator<Item = (Record, Ipv4Addr)>) {
    let start = writer.length();
    writer.put(&[REPORT_V3, 0, 0, 0, 0, 0, 0, 0]);
    let mut count = 0u16;
    for (record, group) in records {
        writer.put(&[record as u8, 0, 0, 0]);
        writer.put(&group.octets());
        count = count.saturating_add(1);
    }
    writer.patch_u16(start.saturating_add(6), count);
    seal(writer, start);
}

/// Bytes of a report of version 3 with so many records.
#[must_use]
pub const fn report_length(records: usize) -> usize {
    8 + 8 * records
}

/// Appends a report of version 1 or 2, or version 2's leaving of a group.
pub fn build_old(writer: &mut Writer<'_>, version: u8, is_leave: bool, group: Ipv4Addr) {
    let start = writer.length();
    let kind = match (version, is_leave) {
        (_, true) => LEAVE,
        (1, false) => REPORT_V1,
        _ => REPORT_V2,
    };
    writer.put(&[kind, 0, 0, 0]);
    writer.put(&group.octets());
    seal(writer, start);
}

fn seal(writer: &mut Writer<'_>, start: usize) {
    let sum = Checksum::new().bytes(writer.written(start)).finish();
    writer.patch_u16(start.saturating_add(2), sum);
}
