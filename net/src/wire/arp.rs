//! ARP (RFC 826) of Ethernet and IPv4.

use core::net::Ipv4Addr;

use super::bytes::{Writer, array_at, u8_at, u16_at};
use crate::counters::DropReason;
use crate::mac::MacAddr;

/// Hardware type of Ethernet.
const ETHERNET: u16 = 1;
/// Protocol type of IPv4: its EtherType.
const IPV4: u16 = 0x0800;

/// What a packet does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Asks for the MAC address of the target.
    Request,
    /// Tells that of the sender.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// What it does.
    pub operation: Operation,
    /// MAC address of the sender.
    pub sender_mac: MacAddr,
    /// IP address of the sender; unspecified in a probe (RFC 5227 1.1).
    pub sender_ip: Ipv4Addr,
    /// MAC address of the target; means nothing in a request.
    pub target_mac: MacAddr,
    /// IP address of the target.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// A packet; bytes behind it are padding.
    ///
    /// # Errors
    ///
    /// [`DropReason::Truncated`], or [`DropReason::BadArp`] for other types and lengths,
    /// operations, and senders that no station can be.
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let (types, lengths, operation) = (|| {
            let types = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
            let lengths = (u8_at(bytes, 4)?, u8_at(bytes, 5)?);
            Some((types, lengths, u16_at(bytes, 6)?))
        })()
        .ok_or(DropReason::Truncated)?;
        let operation = match operation {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(DropReason::BadArp),
        };
        if types != (ETHERNET, IPV4) || lengths != (6, 4) {
            return Err(DropReason::BadArp);
        }
        let arp = (|| {
            Some(Self {
                operation,
                sender_mac: MacAddr(array_at(bytes, 8)?),
                sender_ip: array_at::<4>(bytes, 14)?.into(),
                target_mac: MacAddr(array_at(bytes, 18)?),
                target_ip: array_at::<4>(bytes, 24)?.into(),
            })
        })()
        .ok_or(DropReason::Truncated)?;
        let ip = arp.sender_ip;
        let is_probe = ip.is_unspecified() && operation == Operation::Request;
        let is_host = !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast();
        if !arp.sender_mac.is_unicast() || !(is_probe || is_host) || ip.is_loopback() {
            return Err(DropReason::BadArp);
        }
        Ok(arp)
    }

    /// Appends the packet.
    pub fn build(&self, writer: &mut Writer<'_>) {
        writer.put_u16(ETHERNET);
        writer.put_u16(IPV4);
        writer.put(&[6, 4]);
        writer.put_u16(match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        });
        writer.put(&self.sender_mac.0);
        writer.put(&self.sender_ip.octets());
        writer.put(&self.target_mac.0);
        writer.put(&self.target_ip.octets());
    }
}
