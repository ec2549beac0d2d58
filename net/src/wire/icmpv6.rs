//! ICMP of IPv6 (RFC 4443): the messages, and those of neighbour discovery and MLD by type.

use core::net::Ipv6Addr;

use super::bytes::{Writer, u16_at, u32_at};
use super::checksum::Checksum;
use super::ipv6::{ICMPV6, Ipv6};
use super::mld::Query;
use super::nd::{Nd, Received};
use crate::counters::DropReason;

const TOO_BIG: u8 = 2;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
pub(crate) const MLD_QUERY: u8 = 130;
pub(crate) const ROUTER_SOLICITATION: u8 = 133;
pub(crate) const REDIRECT: u8 = 137;

/// Bytes of an echo message before its payload.
pub const ECHO_HEADER: usize = 8;

/// A message that something is done about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv6<'b> {
    /// An echo request or its reply.
    Echo {
        /// Whether it is the reply.
        is_reply: bool,
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// What comes back.
        payload: &'b [u8],
    },
    /// A packet of ours was too long for the path (RFC 4443 3.2).
    TooBig {
        /// Who sent it.
        source: Ipv6Addr,
        /// To whom.
        destination: Ipv6Addr,
        /// Largest packet of the next hop.
        mtu: u32,
    },
    /// Neighbour discovery.
    Nd(Nd<'b>),
    /// A multicast router asks for our groups.
    MldQuery(Query),
}

impl<'b> Icmpv6<'b> {
    /// A message.
    ///
    /// # Errors
    ///
    /// [`DropReason::BadChecksum`], [`DropReason::BadMessage`], [`DropReason::OtherMessage`],
    /// [`DropReason::BadHopLimit`].
    pub fn parse(header: &Ipv6, bytes: &'b [u8]) -> Result<Self, DropReason> {
        let sum = Checksum::new()
            .pseudo_header(header.source, header.destination, ICMPV6, bytes.len())
            .bytes(bytes);
        if !sum.is_valid() {
            return Err(DropReason::BadChecksum);
        }
        let (head, rest) = bytes
            .split_first_chunk::<4>()
            .ok_or(DropReason::BadMessage)?;
        let [kind, code, _, _] = *head;
        match (kind, code) {
            (ECHO_REQUEST | ECHO_REPLY, 0) => Self::echo(kind, bytes),
            (TOO_BIG, _) => Self::too_big(bytes),
            (ROUTER_SOLICITATION..=REDIRECT, _) => {
                let received = Received {
                    header: *header,
                    kind,
                    code,
                    body: rest,
                };
                Nd::parse(&received).map(Self::Nd)
            }
            (MLD_QUERY, 0) => Query::parse(header, bytes).map(Self::MldQuery),
            _ => Err(DropReason::OtherMessage),
        }
    }

    fn echo(kind: u8, bytes: &'b [u8]) -> Result<Self, DropReason> {
        (|| {
            Some(Self::Echo {
                is_reply: kind == ECHO_REPLY,
                ident: u16_at(bytes, 4)?,
                seq: u16_at(bytes, 6)?,
                payload: bytes.get(ECHO_HEADER..)?,
            })
        })()
        .ok_or(DropReason::BadMessage)
    }

    fn too_big(bytes: &'b [u8]) -> Result<Self, DropReason> {
        (|| {
            let quoted = Ipv6::quoted(bytes.get(8..)?)?;
            Some(Self::TooBig {
                source: quoted.source,
                destination: quoted.destination,
                mtu: u32_at(bytes, 4)?,
            })
        })()
        .ok_or(DropReason::BadMessage)
    }
}

/// Fills in the checksum of the message that begins at `start`.
pub(crate) fn seal(writer: &mut Writer<'_>, start: usize, source: Ipv6Addr, destination: Ipv6Addr) {
    let message = writer.written(start);
    let sum = Checksum::new()
        .pseudo_header(source, destination, ICMPV6, message.len())
        .bytes(message)
        .finish();
    writer.patch_u16(start.saturating_add(2), sum);
}

/// Appends an echo request or reply with its IP header.
pub fn build_echo(
    writer: &mut Writer<'_>,
    header: &Ipv6,
    is_reply: bool,
    (ident, seq): (u16, u16),
    payload: &[u8],
) {
    header.build(writer, ECHO_HEADER.saturating_add(payload.len()));
    let start = writer.length();
    writer.put(&[if is_reply { ECHO_REPLY } else { ECHO_REQUEST }, 0, 0, 0]);
    writer.put_u16(ident);
    writer.put_u16(seq);
    writer.put(payload);
    seal(writer, start, header.source, header.destination);
}
