//! MANAGE_APBVT and MANAGE_QUAD_HASH_TABLE_ENTRY (control-path 4.11).
//!
//! Existing drivers issue both for iWARP only; a RoCEv2 unicast QP is found by
//! the destination QPN alone `[inf qp_by_number]`.

use e810_types::MacAddr;
use tock_registers::register_bitfields;

use super::{Command, HEADER, IpPair, Wqe, header};
use crate::error::Result;
use crate::field::{bit, fit};
use crate::opcode::Opcode;

register_bitfields![u64,
    Apbvt [ ADDPORT OFFSET(62) NUMBITS(1) [] ],
    Q8 [
        DEST_PORT OFFSET(0) NUMBITS(16) [],
        SRC_PORT OFFSET(16) NUMBITS(16) [],
        QPN OFFSET(32) NUMBITS(18) []
    ],
    Q16 [
        QS_HANDLE OFFSET(0) NUMBITS(10) [],
        VLANID OFFSET(32) NUMBITS(12) []
    ],
    Q24 [
        ENTRYTYPE OFFSET(42) NUMBITS(3) [],
        VLANVALID OFFSET(59) NUMBITS(1) [],
        IPV4VALID OFFSET(60) NUMBITS(1) [],
        MANAGE OFFSET(61) NUMBITS(2) []
    ]
];

/// MANAGE_APBVT: the accelerated port bit vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManageApbvt {
    /// Port.
    pub port: u16,
    /// Add it; otherwise remove it.
    pub add: bool,
}

impl Command for ManageApbvt {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, ..] = &mut wqe;
        *q16 = u64::from(self.port);
        wqe[HEADER] = header(Opcode::ManageApbvt, bit(Apbvt::ADDPORT, self.add).value);
        Ok(wqe)
    }
}

/// MANAGE: what to do with a quad-hash entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum HashChange {
    /// Delete it.
    Delete = 0,
    /// Add it.
    Add = 1,
    /// Modify it.
    Modify = 2,
}

/// ENTRYTYPE of a quad-hash entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum HashEntry {
    /// An established TCP connection: the only type that names the remote side.
    TcpEstablished = 1,
    /// A listening TCP port.
    TcpSyn = 2,
    /// UDP unicast.
    UdpUnicast = 3,
    /// UDP multicast.
    UdpMulticast = 4,
    /// RoCE multicast.
    RoceMulticast = 5,
    /// RoCEv2, by hardware.
    RoceV2 = 6,
}

/// Addresses and ports of a quad-hash entry. `source` is the remote side and
/// `destination` this one, as in a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuadEndpoint {
    /// Addresses; the remote one is sent for [`HashEntry::TcpEstablished`] only.
    pub addresses: IpPair,
    /// Local port.
    pub local_port: u16,
    /// Remote port; sent for [`HashEntry::TcpEstablished`] only.
    pub remote_port: u16,
}

/// MANAGE_QUAD_HASH_TABLE_ENTRY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManageQuadHash {
    /// What to do.
    pub change: HashChange,
    /// Kind of entry.
    pub entry: HashEntry,
    /// Local MAC.
    pub mac: MacAddr,
    /// VLAN id, if tagged.
    pub vlan: Option<u16>,
    /// The QP packets go to.
    pub qp: u32,
    /// Queue-set handle.
    pub qs_handle: u16,
    /// Addresses and ports.
    pub endpoint: QuadEndpoint,
}

impl Command for ManageQuadHash {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [q0, q8, q16, _, q32, q40, q48, q56] = &mut wqe;
        let QuadEndpoint {
            addresses,
            local_port,
            remote_port,
        } = self.endpoint;
        *q0 = self.mac.to_u64();
        let mut ports = Q8::DEST_PORT.val(u64::from(local_port)) + fit("QP id", Q8::QPN, self.qp)?;
        [*q48, *q56] = addresses.destination_words();
        if matches!(self.entry, HashEntry::TcpEstablished) {
            ports += Q8::SRC_PORT.val(u64::from(remote_port));
            [*q32, *q40] = addresses.source_words();
        }
        *q8 = ports.value;
        *q16 = (fit("queue-set handle", Q16::QS_HANDLE, self.qs_handle)?
            + fit("VLAN id", Q16::VLANID, self.vlan.unwrap_or(0))?)
        .value;
        let fields = Q24::ENTRYTYPE.val(self.entry as u64)
            + bit(Q24::VLANVALID, self.vlan.is_some())
            + bit(Q24::IPV4VALID, addresses.is_v4())
            + Q24::MANAGE.val(self.change as u64);
        wqe[HEADER] = header(Opcode::ManageQuadHash, fields.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn arguments_are_checked() {
        let good = ManageQuadHash {
            change: HashChange::Add,
            entry: HashEntry::UdpUnicast,
            mac: MacAddr::default(),
            vlan: Some(4095),
            qp: 0x3_FFFF,
            qs_handle: 1023,
            endpoint: QuadEndpoint {
                addresses: IpPair::V4 {
                    source: Ipv4Addr::LOCALHOST,
                    destination: Ipv4Addr::LOCALHOST,
                },
                local_port: 1,
                remote_port: 2,
            },
        };
        let wqe = good.encode().unwrap();
        assert_eq!((wqe[4], wqe[5]), (0, 0), "no remote side");
        assert_eq!(wqe[1] >> 16 & 0xFFFF, 0, "no remote port");
        for bad in [
            ManageQuadHash {
                qp: 1 << 18,
                ..good
            },
            ManageQuadHash {
                vlan: Some(4096),
                ..good
            },
            ManageQuadHash {
                qs_handle: 1024,
                ..good
            },
        ] {
            assert!(bad.encode().is_err());
        }
    }
}
