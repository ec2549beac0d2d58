//! IPv6 headers (RFC 8200).

use core::net::Ipv6Addr;

use super::bytes::{Writer, array_at, u8_at, u16_at};
use crate::counters::DropReason;

/// Next header of ICMPv6 (RFC 4443 1).
pub const ICMPV6: u8 = 58;
/// Bytes of a header without extensions.
pub const IPV6_HEADER: usize = 40;
/// Next header: hop-by-hop options (RFC 8200 4.3).
const HOP_BY_HOP: u8 = 0;
/// Next headers of extensions that are not looked into: routing, fragment, ESP, AH, none,
/// destination options, mobility, HIP, shim6 (RFC 7045 4).
const EXTENSIONS: [u8; 9] = [43, 44, 50, 51, 59, 60, 135, 139, 140];
/// Next header: a fragment (RFC 8200 4.5).
const FRAGMENT: u8 = 44;
/// Option of one byte of padding (RFC 8200 4.2).
const PAD1: u8 = 0;
/// Option: router alert (RFC 2711 2.1).
const ROUTER_ALERT: u8 = 5;
/// Hop-by-hop options with router alert for MLD and padding, without their next header.
const ALERT_MLD: [u8; 7] = [0, ROUTER_ALERT, 2, 0, 0, 1, 0];

/// The fields of a header that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6 {
    /// From whom.
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
    /// What the payload is.
    pub protocol: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Whether routers have to look at the packet (RFC 2711).
    pub router_alert: bool,
}

impl Ipv6 {
    /// A whole packet's header and payload; bytes behind its length are padding.
    ///
    /// # Errors
    ///
    /// [`DropReason::Truncated`], [`DropReason::BadIpHeader`], [`DropReason::Fragment`],
    /// [`DropReason::ExtensionHeader`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), DropReason> {
        let (mut header, length) = Self::read(bytes).ok_or(DropReason::Truncated)?;
        if u8_at(bytes, 0).is_none_or(|first| first >> 4 != 6) {
            return Err(DropReason::BadIpHeader);
        }
        let end = IPV6_HEADER + usize::from(length);
        let mut payload = bytes.get(IPV6_HEADER..end).ok_or(DropReason::Truncated)?;
        if header.protocol == HOP_BY_HOP {
            let length = usize::from(u8_at(payload, 1).ok_or(DropReason::Truncated)?) * 8 + 8;
            let (options, rest) = payload
                .split_at_checked(length)
                .ok_or(DropReason::Truncated)?;
            header.protocol = u8_at(options, 0).ok_or(DropReason::Truncated)?;
            header.router_alert = has_alert(options)?;
            payload = rest;
        }
        match header.protocol {
            FRAGMENT => Err(DropReason::Fragment),
            HOP_BY_HOP => Err(DropReason::BadIpHeader),
            other if EXTENSIONS.contains(&other) => Err(DropReason::ExtensionHeader),
            _ => Ok((header, payload)),
        }
    }

    /// The header that an error message quotes, whose packet is cut off.
    pub(crate) fn quoted(bytes: &[u8]) -> Option<Self> {
        let (header, _) = Self::read(bytes)?;
        (u8_at(bytes, 0)? >> 4 == 6).then_some(header)
    }

    fn read(bytes: &[u8]) -> Option<(Self, u16)> {
        let header = Self {
            source: array_at::<16>(bytes, 8)?.into(),
            destination: array_at::<16>(bytes, 24)?.into(),
            protocol: u8_at(bytes, 6)?,
            hop_limit: u8_at(bytes, 7)?,
            router_alert: false,
        };
        Some((header, u16_at(bytes, 4)?))
    }

    /// Appends the header of a packet with so many bytes of payload.
    pub fn build(&self, writer: &mut Writer<'_>, payload: usize) {
        let options = if self.router_alert { 8 } else { 0 };
        writer.put(&[6 << 4, 0, 0, 0]);
        writer.put_u16(payload.saturating_add(options).min(0xFFFF) as u16);
        let next = if self.router_alert {
            HOP_BY_HOP
        } else {
            self.protocol
        };
        writer.put(&[next, self.hop_limit]);
        writer.put(&self.source.octets());
        writer.put(&self.destination.octets());
        if self.router_alert {
            writer.put(&[self.protocol]);
            writer.put(&ALERT_MLD);
        }
    }
}

/// Whether hop-by-hop options have a router alert; options that must be understood and are not
/// end the packet (RFC 8200 4.2).
fn has_alert(header: &[u8]) -> Result<bool, DropReason> {
    let mut options = header.get(2..).unwrap_or(&[]);
    let mut found = false;
    while let Some(kind) = u8_at(options, 0) {
        if kind == PAD1 {
            options = options.get(1..).unwrap_or(&[]);
            continue;
        }
        let length = usize::from(u8_at(options, 1).ok_or(DropReason::BadIpHeader)?);
        options = options.get(length + 2..).ok_or(DropReason::BadIpHeader)?;
        match kind {
            ROUTER_ALERT => found = true,
            _ if kind >> 6 != 0 => return Err(DropReason::ExtensionHeader),
            _ => {}
        }
    }
    Ok(found)
}
