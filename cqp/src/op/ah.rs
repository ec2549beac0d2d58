//! CREATE_ADDR_HANDLE, MODIFY_ADDR_HANDLE and DESTROY_ADDR_HANDLE
//! (control-path 4.14).

use e810_types::MacAddr;
use tock_registers::register_bitfields;

use super::{Command, HEADER, IpPair, Wqe, header};
use crate::error::Result;
use crate::field::{at_most, bit, fit};
use crate::limits::MAX_PD;
use crate::opcode::Opcode;

register_bitfields![u64,
    Q0 [ MACADDR OFFSET(16) NUMBITS(48) [] ],
    Q8 [
        VLANTAG OFFSET(0) NUMBITS(16) [],
        TC OFFSET(32) NUMBITS(8) [],
        PDINDEXLO OFFSET(48) NUMBITS(16) []
    ],
    Q16 [
        FLOWLABEL OFFSET(0) NUMBITS(20) [],
        PDINDEXHI OFFSET(20) NUMBITS(8) [],
        HOPLIMIT OFFSET(32) NUMBITS(8) [],
        ARPINDEX OFFSET(48) NUMBITS(16) []
    ],
    Q24 [
        AVIDX OFFSET(0) NUMBITS(24) [],
        IPV4VALID OFFSET(59) NUMBITS(1) [],
        INSERTVLANTAG OFFSET(60) NUMBITS(1) [],
        DOLOOPBACK OFFSET(62) NUMBITS(1) []
    ]
];

/// An address vector in the device: where a UD send goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressHandle {
    /// AVIDX, below the committed FSIAV count; 0 is reserved.
    pub index: u32,
    /// Protection domain.
    pub pd: u32,
    /// Source MAC.
    pub source_mac: MacAddr,
    /// Addresses.
    pub addresses: IpPair,
    /// ARP index of the next hop.
    pub arp_index: u16,
    /// Hop limit or TTL.
    pub hop_limit: u8,
    /// Traffic class or TOS.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// VLAN tag with priority (priority << 13 | id), if tagged.
    pub vlan: Option<u16>,
    /// DOLOOPBACK: set when source and destination are equal, and for every
    /// multicast destination.
    pub loopback: bool,
}

impl AddressHandle {
    /// The WQE that all three commands share.
    fn encode(&self, op: Opcode) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [q0, q8, q16, _, q32, q40, q48, q56] = &mut wqe;
        let pd = at_most("PD id", u64::from(self.pd), u64::from(MAX_PD))?;
        *q0 = Q0::MACADDR.val(self.source_mac.to_u64()).value;
        *q8 = (Q8::VLANTAG.val(u64::from(self.vlan.unwrap_or(0)))
            + Q8::TC.val(u64::from(self.traffic_class))
            + Q8::PDINDEXLO.val(pd))
        .value;
        *q16 = (fit("flow label", Q16::FLOWLABEL, self.flow_label)?
            + Q16::PDINDEXHI.val(pd >> 16)
            + Q16::HOPLIMIT.val(u64::from(self.hop_limit))
            + Q16::ARPINDEX.val(u64::from(self.arp_index)))
        .value;
        [*q32, *q40] = self.addresses.destination_words();
        [*q48, *q56] = self.addresses.source_words();
        let fields = fit("address handle id", Q24::AVIDX, self.index)?
            + bit(Q24::IPV4VALID, self.addresses.is_v4())
            + bit(Q24::INSERTVLANTAG, self.vlan.is_some())
            + bit(Q24::DOLOOPBACK, self.loopback);
        wqe[HEADER] = header(op, fields.value);
        Ok(wqe)
    }
}

macro_rules! handle_commands {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub AddressHandle);

        impl Command for $name {
            fn encode(&self) -> Result<Wqe> {
                self.0.encode(Opcode::$op)
            }
        }
    )+ };
}

handle_commands! {
    /// CREATE_ADDR_HANDLE. A return value of 0 means that the handle is usable.
    CreateAh, CreateAddrHandle;
    /// DESTROY_ADDR_HANDLE: repeats the whole creation.
    DestroyAh, DestroyAddrHandle;
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

    #[test]
    fn the_commands_differ_in_their_opcode_only() {
        let handle = AddressHandle {
            index: 9,
            pd: 0x3_5678,
            source_mac: MacAddr([1, 2, 3, 4, 5, 6]),
            addresses: IpPair::V6 {
                source: Ipv6Addr::LOCALHOST,
                destination: Ipv6Addr::LOCALHOST,
            },
            arp_index: 3,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0xF_FFFF,
            vlan: Some(0xE064),
            loopback: true,
        };
        let create = CreateAh(handle).encode().unwrap();
        let mut expected = create;
        expected[3] = (create[3] & !(0x3F << 32)) | (0x1e << 32);
        assert_eq!(DestroyAh(handle).encode().unwrap(), expected);
        let bad = AddressHandle {
            flow_label: 1 << 20,
            ..handle
        };
        assert!(CreateAh(bad).encode().is_err());
        let bad = AddressHandle {
            index: 1 << 24,
            ..handle
        };
        assert!(CreateAh(bad).encode().is_err());
    }
}
