//! IPv4 headers (RFC 791).

use core::net::Ipv4Addr;

use super::bytes::{Writer, array_at, u8_at, u16_at};
use super::checksum::Checksum;
use crate::counters::DropReason;

/// Protocol number of IGMP (RFC 3376 4).
pub const IGMP: u8 = 2;
/// Bytes of a header without options.
pub const IPV4_HEADER: usize = 20;
/// More fragments, and the offset.
const FRAGMENT: u16 = 0x3FFF;
/// Don't fragment.
const DF: u16 = 0x4000;
/// The router alert option (RFC 2113 2.1).
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// The fields of a header that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// From whom.
    pub source: Ipv4Addr,
    /// To whom.
    pub destination: Ipv4Addr,
    /// What the payload is.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Routers have to look at the packet (RFC 2113); not read by `parse`.
    pub router_alert: bool,
}

impl Ipv4 {
    /// A whole packet's header and payload; bytes behind its length are padding.
    ///
    /// # Errors
    ///
    /// [`DropReason::Truncated`], [`DropReason::BadIpHeader`], [`DropReason::BadChecksum`],
    /// [`DropReason::Fragment`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), DropReason> {
        let first = u8_at(bytes, 0).ok_or(DropReason::Truncated)?;
        let length = u16_at(bytes, 2).ok_or(DropReason::Truncated)?;
        let header_length = usize::from(first & 0xF) * 4;
        if first >> 4 != 4 || header_length < IPV4_HEADER || usize::from(length) < header_length {
            return Err(DropReason::BadIpHeader);
        }
        let packet = bytes
            .get(..usize::from(length))
            .ok_or(DropReason::Truncated)?;
        let (header, payload) = packet
            .split_at_checked(header_length)
            .ok_or(DropReason::Truncated)?;
        if !Checksum::new().bytes(header).is_valid() {
            return Err(DropReason::BadChecksum);
        }
        let fragment = u16_at(header, 6).ok_or(DropReason::Truncated)?;
        if fragment & FRAGMENT != 0 {
            return Err(DropReason::Fragment);
        }
        let parsed = Self::read(header).ok_or(DropReason::Truncated)?;
        Ok((parsed, payload))
    }

    /// The header that an error message quotes, whose packet is cut off, and the total length
    /// that it names.
    pub(crate) fn quoted(bytes: &[u8]) -> Option<(Self, u16)> {
        let header = Self::read(bytes)?;
        let length = u16_at(bytes, 2)?;
        (u8_at(bytes, 0)? >> 4 == 4).then_some((header, length))
    }

    fn read(header: &[u8]) -> Option<Self> {
        Some(Self {
            source: array_at::<4>(header, 12)?.into(),
            destination: array_at::<4>(header, 16)?.into(),
            protocol: u8_at(header, 9)?,
            ttl: u8_at(header, 8)?,
            router_alert: false,
        })
    }

    /// Appends the header of a packet with so many bytes of payload, which nobody may fragment.
    pub fn build(&self, writer: &mut Writer<'_>, payload: usize) {
        let start = writer.length();
        let options: &[u8] = if self.router_alert {
            &ROUTER_ALERT
        } else {
            &[]
        };
        let header = IPV4_HEADER + options.len();
        writer.put(&[4 << 4 | (header / 4) as u8, 0]);
        writer.put_u16(header.saturating_add(payload).min(0xFFFF) as u16);
        writer.put_u16(0);
        writer.put_u16(DF);
        writer.put(&[self.ttl, self.protocol, 0, 0]);
        writer.put(&self.source.octets());
        writer.put(&self.destination.octets());
        writer.put(options);
        let sum = Checksum::new().bytes(writer.written(start)).finish();
        writer.patch_u16(start.saturating_add(10), sum);
    }
}
