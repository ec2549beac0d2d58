//! Delivery of datagrams to multicast groups: each UD member gets its own copy (control-path 4.14).
//!
//! How the card finds a group is not in the sources. Here it is found by IP address and VLAN of a
//! packet whose destination QP is the multicast number of IB \[inf group_lookup\].

use std::net::IpAddr;

use super::aeq::{Event, Named};
use super::device::Device;
use super::env::Env;
use super::multicast_group::MulticastGroup;
use super::qp::{Qp, QpType};
use super::word::{bit, bits16, bits32};
use crate::variation::GroupQueueSet;
use crate::wire::{Addresses, Packet, Path};

/// Destination QP of a packet to a group.
pub(super) const GROUP_QP: u32 = 0xFF_FFFF;

const BAD_MC_QPID: u16 = 0x0382;
const QP_PROTOCOL_MISMATCH: u16 = 0x0383;

impl Device {
    /// Delivers a packet to the members of its group, except `sender`, the QP of this function that
    /// sent it. Whether that is a member, too.
    pub(super) fn receive_group(
        &mut self,
        packet: &Packet<'_>,
        frame: &[u8],
        sender: Option<u32>,
        env: &mut dyn Env,
    ) -> bool {
        let mut is_member = false;
        for index in self.joined.clone() {
            let Ok(Some(group)) = self.groups.get(index, &mut self.hmc, env) else {
                continue;
            };
            if !group.is_for(&packet.path) || !self.is_served(&group, env) {
                continue;
            }
            for member in group.members() {
                if Some(member) == sender {
                    is_member = true;
                } else {
                    self.receive_as_member(member, packet, frame, env);
                }
            }
        }
        is_member
    }

    /// Whether the copies for a group's members can be delivered.
    fn is_served(&self, group: &MulticastGroup, env: &dyn Env) -> bool {
        match self.config.variation.group_queue_set {
            GroupQueueSet::Needed => env.has_queue_set(group.queue_set()),
            GroupQueueSet::Ignored => true,
        }
    }

    fn receive_as_member(
        &mut self,
        member: u32,
        packet: &Packet<'_>,
        frame: &[u8],
        env: &mut dyn Env,
    ) {
        let Some(mut qp) = self.qp_of_packet(member, env) else {
            return self.bad_member(BAD_MC_QPID, member, None, env);
        };
        if qp.kind == QpType::RoceUd {
            self.receive_ud(member, &mut qp, packet, frame, env);
        } else {
            self.bad_member(QP_PROTOCOL_MISMATCH, member, Some(&qp), env);
        }
        // The failure is already reported.
        let _ = self.put_qp(member, qp, env);
    }
}

impl Device {
    /// A member cannot take a packet of its group: an event names the member \[inf group_events:
    /// from the names\]. The member is not stopped: the packet did not belong to its connection.
    fn bad_member(&mut self, code: u16, member: u32, qp: Option<&Qp>, env: &mut dyn Env) {
        let event = Event {
            code,
            id: member,
            context: qp.map_or(Named::Nothing, |qp| Named::Qp(qp.completion_context())),
            state: qp.map_or(0, |qp| qp.state() as u8),
            ..Event::default()
        };
        self.async_event(event, env);
    }
}

impl MulticastGroup {
    /// QPs that are members.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> + use<> {
        let valid = self.members.into_iter().filter(|member| bit(*member, 31));
        valid.map(|member| bits32(member, 17, 0))
    }

    /// VLANVALID and VLANID: the group's VLAN, if it has one.
    pub(super) fn vlan(&self) -> Option<u16> {
        bit(self.flags, 59).then(|| bits16(self.words[2], 43, 32))
    }

    pub(super) fn address(&self) -> IpAddr {
        let [.., low, high] = self.words;
        if bit(self.flags, 60) {
            IpAddr::V4((low as u32).into())
        } else {
            IpAddr::V6((u128::from(high) << 64 | u128::from(low)).into())
        }
    }

    fn is_for(&self, path: &Path) -> bool {
        let to: IpAddr = match path.ip {
            Addresses::V4 { dst, .. } => dst.into(),
            Addresses::V6 { dst, .. } => dst.into(),
        };
        // A tag with a priority only does not count as a tag.
        let vlan = path.vlan.map(|tag| tag & 0xFFF).filter(|id| *id != 0);
        to == self.address() && vlan == self.vlan()
    }
}
