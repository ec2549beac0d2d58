//! ICMP of IPv4 (RFC 792).

use core::net::Ipv4Addr;

use super::bytes::{Writer, u16_at};
use super::checksum::Checksum;
use super::ipv4::Ipv4;
use crate::counters::DropReason;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
/// Code of `UNREACHABLE`: fragmentation needed (RFC 1191 4).
const TOO_BIG: u8 = 4;

/// Bytes of an echo message before its payload.
pub const ECHO_HEADER: usize = 8;

/// A message that something is done about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv4<'b> {
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
    /// A packet of ours was too long for the path (RFC 1191 4).
    TooBig {
        /// Who sent it.
        source: Ipv4Addr,
        /// To whom.
        destination: Ipv4Addr,
        /// Largest packet of the next hop; routers before RFC 1191 say 0.
        mtu: u16,
        /// Length of the packet.
        length: u16,
    },
}

impl<'b> Icmpv4<'b> {
    /// A message.
    ///
    /// # Errors
    ///
    /// [`DropReason::BadChecksum`], [`DropReason::BadMessage`], or
    /// [`DropReason::OtherMessage`].
    pub fn parse(bytes: &'b [u8]) -> Result<Self, DropReason> {
        let (head, rest) = bytes
            .split_first_chunk::<8>()
            .ok_or(DropReason::BadMessage)?;
        if !Checksum::new().bytes(bytes).is_valid() {
            return Err(DropReason::BadChecksum);
        }
        let [kind, code, _, _, ident @ .., seq_high, seq_low] = *head;
        let (ident, second) = (u16::from_be_bytes(ident), [seq_high, seq_low]);
        match (kind, code) {
            (ECHO_REQUEST | ECHO_REPLY, 0) => Ok(Self::Echo {
                is_reply: kind == ECHO_REPLY,
                ident,
                seq: u16::from_be_bytes(second),
                payload: rest,
            }),
            (UNREACHABLE, TOO_BIG) => {
                let (quoted, length) = Ipv4::quoted(rest).ok_or(DropReason::BadMessage)?;
                let mtu = u16_at(bytes, 6).ok_or(DropReason::BadMessage)?;
                Ok(Self::TooBig {
                    source: quoted.source,
                    destination: quoted.destination,
                    mtu,
                    length,
                })
            }
            _ => Err(DropReason::OtherMessage),
        }
    }
}

/// Appends an echo request or reply.
pub fn build_echo(writer: &mut Writer<'_>, is_reply: bool, ident: u16, seq: u16, payload: &[u8]) {
    let start = writer.length();
    writer.put(&[if is_reply { ECHO_REPLY } else { ECHO_REQUEST }, 0, 0, 0]);
    writer.put_u16(ident);
    writer.put_u16(seq);
    writer.put(payload);
    let sum = Checksum::new().bytes(writer.written(start)).finish();
    writer.patch_u16(start.saturating_add(2), sum);
}
