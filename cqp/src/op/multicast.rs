//! CREATE_MCAST_GRP, MODIFY_MCAST_GRP, DESTROY_MCAST_GRP and the group context
//! (control-path 4.14).

use core::net::IpAddr;

use e810_hal::Iova;
use e810_hal::bus::PfId;
use e810_types::MacAddr;
use tock_registers::register_bitfields;

use super::address::{v4_words, v6_words};
use super::{Command, HEADER, Wqe, header};
use crate::error::{Error, Result};
use crate::field::{aligned, at_most, bit, fit};
use crate::limits::{MAX_GROUP_MEMBERS, MAX_MCAST_GROUPS};
use crate::opcode::Opcode;

register_bitfields![u64,
    Q16 [
        QS_HANDLE OFFSET(0) NUMBITS(10) [],
        VLANID OFFSET(32) NUMBITS(12) []
    ],
    Q24 [
        MGIDX OFFSET(0) NUMBITS(13) [],
        VLANVALID OFFSET(59) NUMBITS(1) [],
        IPV4VALID OFFSET(60) NUMBITS(1) []
    ],
    // Fields for VFs (PFID, VFID, VFFLAG, FLAGIGNOREDPORT) stay 0.
    Member [
        QPID OFFSET(0) NUMBITS(18) [],
        VALIDENT OFFSET(31) NUMBITS(1) [],
        DESTPORT OFFSET(32) NUMBITS(16) []
    ]
];

/// A multicast group in the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct McastGroup {
    /// Group index, below 4096 and the committed FSIMC count; 0 is reserved.
    pub group: u16,
    /// Group MAC.
    pub mac: MacAddr,
    /// Group address.
    pub address: IpAddr,
    /// VLAN id, if tagged.
    pub vlan: Option<u16>,
    /// Queue-set handle.
    pub qs_handle: u16,
    /// Function.
    pub hmc_function: PfId,
    /// Group context ([`group_context`]), 4 KiB aligned.
    pub context: Iova,
}

impl McastGroup {
    fn encode(&self, op: Opcode) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [q0, q8, q16, _, q32, _, q48, q56] = &mut wqe;
        let group = u64::from(self.group);
        let last = u64::from(MAX_MCAST_GROUPS).saturating_sub(1);
        *q0 = self.mac.to_u64();
        *q8 = u64::from(self.hmc_function.get());
        *q16 = (fit("queue-set handle", Q16::QS_HANDLE, self.qs_handle)?
            + fit("VLAN id", Q16::VLANID, self.vlan.unwrap_or(0))?)
        .value;
        *q32 = aligned("multicast group context", self.context, 4096)?;
        [*q48, *q56] = match self.address {
            IpAddr::V4(address) => v4_words(address),
            IpAddr::V6(address) => v6_words(address),
        };
        let fields = Q24::MGIDX.val(at_most("multicast group", group, last)?)
            + bit(Q24::VLANVALID, self.vlan.is_some())
            + bit(Q24::IPV4VALID, self.address.is_ipv4());
        wqe[HEADER] = header(op, fields.value);
        Ok(wqe)
    }
}

macro_rules! group_commands {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub McastGroup);

        impl Command for $name {
            fn encode(&self) -> Result<Wqe> {
                self.0.encode(Opcode::$op)
            }
        }
    )+ };
}

group_commands! {
    /// CREATE_MCAST_GRP: at the first join.
    CreateMcast, CreateMcastGrp;
    /// MODIFY_MCAST_GRP: at later joins and leaves, with the rewritten context.
    ModifyMcast, ModifyMcastGrp;
    /// DESTROY_MCAST_GRP: at the last leave.
    DestroyMcast, DestroyMcastGrp;
}

/// A QP in a multicast group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GroupMember {
    /// QP id, 18 bits.
    pub qp: u32,
    /// DESTPORT; 0 for RoCE in existing drivers.
    pub port: u16,
}

/// The group context: the first 64 bytes of a 4 KiB page, one word a member,
/// packed from word 0.
///
/// # Errors
/// More than eight members, or a QP id that does not fit.
pub fn group_context(members: &[GroupMember]) -> Result<[u64; MAX_GROUP_MEMBERS]> {
    if members.len() > MAX_GROUP_MEMBERS {
        return Err(Error::OutOfRange {
            field: "members of a multicast group",
            value: members.len() as u64,
            limit: MAX_GROUP_MEMBERS as u64,
        });
    }
    let mut context = [0; MAX_GROUP_MEMBERS];
    for (word, member) in context.iter_mut().zip(members) {
        *word = (fit("QP id of a group member", Member::QPID, member.qp)?
            + Member::VALIDENT::SET
            + Member::DESTPORT.val(u64::from(member.port)))
        .value;
    }
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn groups_and_members_are_checked() {
        let good = McastGroup {
            group: 4095,
            mac: MacAddr([1, 0, 0x5e, 0, 0, 1]),
            address: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1)),
            vlan: None,
            qs_handle: 1023,
            hmc_function: PfId::new(1).unwrap(),
            context: Iova(0x1000),
        };
        assert!(CreateMcast(good).encode().is_ok());
        for bad in [
            McastGroup {
                group: 4096,
                ..good
            },
            McastGroup {
                vlan: Some(4096),
                ..good
            },
            McastGroup {
                qs_handle: 1024,
                ..good
            },
            McastGroup {
                context: Iova(0x40),
                ..good
            },
        ] {
            assert!(ModifyMcast(bad).encode().is_err());
        }
        let destroy = DestroyMcast(good).encode().unwrap();
        assert_eq!(destroy[3] >> 32 & 0x3F, 0x28);
        let member = GroupMember { qp: 1, port: 0 };
        assert!(group_context(&[member; 8]).is_ok());
        assert!(group_context(&[member; 9]).is_err());
        let bad = GroupMember {
            qp: 1 << 18,
            port: 0,
        };
        assert!(group_context(&[bad]).is_err());
    }
}
