//! Ethernet headers, with and without a VLAN tag.

use super::bytes::{Writer, array_at, u16_at};
use crate::counters::DropReason;
use crate::mac::MacAddr;

/// EtherType of IPv4 (RFC 894).
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of IPv6 (RFC 2464 3).
pub const ETHERTYPE_IPV6: u16 = 0x86DD;
/// EtherType of a VLAN tag (IEEE 802.1Q 9.6).
const ETHERTYPE_VLAN: u16 = 0x8100;

/// A VLAN tag (IEEE 802.1Q 9.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// VLAN identifier, 12 bits; 0 is a tag that has a priority only.
    pub id: u16,
    /// Priority, 3 bits.
    pub priority: u8,
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ethernet {
    /// To whom.
    pub destination: MacAddr,
    /// From whom.
    pub source: MacAddr,
    /// The tag, if there is one.
    pub vlan: Option<Vlan>,
    /// What the payload is.
    pub ethertype: u16,
}

impl Ethernet {
    /// A frame's header and payload.
    ///
    /// # Errors
    ///
    /// [`DropReason::Truncated`].
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), DropReason> {
        Self::read(frame).ok_or(DropReason::Truncated)
    }

    fn read(frame: &[u8]) -> Option<(Self, &[u8])> {
        let mut header = Self {
            destination: MacAddr(array_at(frame, 0)?),
            source: MacAddr(array_at(frame, 6)?),
            vlan: None,
            ethertype: u16_at(frame, 12)?,
        };
        if header.ethertype != ETHERTYPE_VLAN {
            return Some((header, frame.get(14..)?));
        }
        let tag = u16_at(frame, 14)?;
        header.vlan = Some(Vlan {
            id: tag & 0xFFF,
            priority: (tag >> 13) as u8,
        });
        header.ethertype = u16_at(frame, 16)?;
        Some((header, frame.get(18..)?))
    }

    /// Appends the header.
    pub fn build(&self, writer: &mut Writer<'_>) {
        writer.put(&self.destination.0);
        writer.put(&self.source.0);
        if let Some(vlan) = self.vlan {
            writer.put_u16(ETHERTYPE_VLAN);
            writer.put_u16(vlan.id & 0xFFF | u16::from(vlan.priority & 7) << 13);
        }
        writer.put_u16(self.ethertype);
    }
}
