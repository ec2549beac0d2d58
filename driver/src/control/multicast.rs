//! Multicast groups: which queue pairs receive what is sent to a group address.
//!
//! A group is an index in the device with a page of host memory that lists its members. The first
//! member creates the group, each later one makes the device read the list again, and the last
//! one to leave destroys it (control-path 4.14). Every command on a group names the queue set of
//! the first member, as in existing drivers.
//!
//! If another driver has set up the function, that driver lets the group's packets pass. After a
//! cold start it is done here, with one switch rule for each MAC address: several groups can have
//! the same one (32 IPv4 addresses share one MAC address, and a group may be joined on several
//! VLANs).
//!
//! A command that fails leaves the device with another list. The group is then marked. The device
//! is told again at the next join, leave or destruction of a queue pair, when another group needs
//! the place, and at the end. If a command was not answered, its outcome is asked for first.

mod table;

use core::net::IpAddr;

use e810_cqp::Opcode;
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::MAX_GROUP_MEMBERS;
use e810_cqp::op::{
    Command, CreateMcast, DestroyMcast, GroupMember, McastGroup, ModifyMcast, group_context,
};
use e810_hal::{Iova, Platform, log_warn};
use e810_types::QpType;
use heapless::Vec;

use super::{Control, run_again};
use crate::addr::group_mac;
use crate::error::{Error, Object, Result};
use crate::qp::QpControl;

pub(super) use table::Groups;
use table::{Group, Name};

/// No member: queue pair 0 is reserved (control-path 3.2).
const NO_QP: u32 = 0;

impl<P: Platform> Control<P> {
    /// Attaches a datagram queue pair to a multicast group, on the VLAN of our address
    /// `sgid_index`. Once is enough; a second time changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not a group's and for a queue pair that is not
    /// UD, [`Error::NoSuch`] for the GID, [`Error::Exhausted`] if there is no group left,
    /// [`Error::OutOfRange`] for a ninth member, the refusal of device or firmware. Nothing is
    /// changed then, unless the device did not answer.
    #[doc(alias = "ibv_attach_mcast")]
    pub fn attach_mcast(&mut self, qp: &QpControl<P>, sgid_index: u8, group: IpAddr) -> Result<()> {
        self.usable_qp(qp)?;
        let name = self.group_name(qp, sgid_index, group)?;
        self.join_group(name, qp.key.id(), qp.context.qs_handle)
    }

    /// Detaches a queue pair from a multicast group.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if it is not in the group, or the device's refusal: the device may then
    /// still have it in the group, and a second try tells the device again.
    #[doc(alias = "ibv_detach_mcast")]
    pub fn detach_mcast(&mut self, qp: &QpControl<P>, sgid_index: u8, group: IpAddr) -> Result<()> {
        let name = self.group_name(qp, sgid_index, group)?;
        let id = qp.key.id();
        let index = self.groups.find(name).ok_or(Error::NoSuch {
            object: Object::McastGroup,
            id: 0,
        })?;
        let known = self.groups.get(index);
        if !known.unsure && !known.members.contains(&id) {
            return Err(Error::NoSuch {
                object: Object::McastGroup,
                id: index.into(),
            });
        }
        self.leave_group(index, known, id)
    }

    /// The same for a program that keeps no GID index: whatever VLAN the queue pair is in the group
    /// on, and whether or not our address on that VLAN still exists.
    ///
    /// # Errors
    /// As [`detach_mcast`](Self::detach_mcast).
    pub fn detach_mcast_anywhere(&mut self, qp: &QpControl<P>, group: IpAddr) -> Result<()> {
        let id = qp.key.id();
        self.own(qp.owner, Object::Qp, id)?;
        let address = group.to_canonical();
        let is_of = |groups: &Groups<P>, index: u16| {
            groups.exists(index) && groups.name(index).address == address
        };
        let mut indexes = self.groups.indexes();
        let member = indexes.find(|index| {
            is_of(&self.groups, *index) && self.groups.get(*index).members.contains(&id)
        });
        // The device may have refused an earlier try.
        let unsure = || {
            let mut indexes = self.groups.indexes();
            indexes.find(|index| is_of(&self.groups, *index) && self.groups.get(*index).unsure)
        };
        let index = member.or_else(unsure).ok_or(Error::NoSuch {
            object: Object::McastGroup,
            id: 0,
        })?;
        self.leave_group(index, self.groups.get(index), id)
    }

    /// A queue pair that is to be destroyed leaves all groups. Groups that the device failed to
    /// update are updated again, until it does not answer.
    pub(super) fn leave_groups(&mut self, qp: u32) {
        let mut is_silent = false;
        for index in self.groups.indexes() {
            self.groups.mark_left(index, false);
            if !self.groups.exists(index) {
                continue;
            }
            let mut known = self.groups.get(index);
            let is_member = known.members.contains(&qp);
            if !is_member && !known.unsure {
                continue;
            }
            if is_silent {
                known.members.retain(|member| *member != qp);
                known.unsure = true;
                self.groups.keep(index, &known);
            } else if let Err(error) = self.leave_group(index, known, qp) {
                log_warn!("multicast group {} was not told again: {}", index, error);
                is_silent = error.leaves_command_open();
            }
            self.groups.mark_left(index, is_member);
        }
    }

    /// Tells the device again about groups that their last members have left.
    pub(super) fn end_groups(&mut self) {
        self.leave_groups(NO_QP);
    }

    /// The queue pair was not destroyed, as `error` says, and rejoins its groups, unless it may
    /// yet be destroyed.
    pub(super) fn rejoin_groups(&mut self, qp: u32, qs_handle: u16, error: &Error) {
        if error.leaves_command_open() {
            return;
        }
        for index in self.groups.indexes() {
            if !self.groups.has_left(index) {
                continue;
            }
            self.groups.mark_left(index, false);
            let name = self.groups.name(index);
            if let Err(error) = self.join_group(name, qp, qs_handle) {
                log_warn!(
                    "queue pair {} lost multicast group {}: {}",
                    qp,
                    index,
                    error
                );
            }
        }
    }

    fn join_group(&mut self, name: Name, qp: u32, qs_handle: u16) -> Result<()> {
        self.make_group_tables()?;
        let found = self.groups.find(name);
        let (index, mut group) = match found {
            Some(index) => (index, self.groups.get(index)),
            None => (self.free_group()?, self.new_group(name, qs_handle)?),
        };
        if !group.members.contains(&qp) {
            group.members.push(qp).map_err(|_| Error::OutOfRange {
                what: "members of a multicast group",
                value: MAX_GROUP_MEMBERS as u64 + 1,
                min: 1,
                max: MAX_GROUP_MEMBERS as u64,
            })?;
        } else if !group.unsure {
            return Ok(());
        }
        let result = self.modify_group(index, &mut group);
        match result {
            Ok(()) => {
                group.unsure = false;
                self.groups.keep(index, &group);
            }
            // The device may have it in the group.
            Err(error) if error.leaves_command_open() => {
                group.unsure = true;
                self.groups.keep(index, &group);
            }
            Err(_) if found.is_some() => {
                // The page as it was: the device may read it at any time.
                let before = Group {
                    in_device: group.in_device,
                    ..self.groups.get(index)
                };
                let _ = self.write_group(index, &before);
                self.groups.keep(index, &before);
            }
            Err(_) => self.end_rule(&group),
        }
        result
    }

    fn leave_group(&mut self, index: u16, mut group: Group, qp: u32) -> Result<()> {
        group.members.retain(|member| *member != qp);
        let result = self.modify_group(index, &mut group);
        group.unsure = result.is_err();
        self.groups.keep(index, &group);
        if result.is_ok() && group.members.is_empty() {
            self.groups.forget(index);
            self.end_rule(&group);
        }
        result
    }

    fn group_name(&self, qp: &QpControl<P>, sgid_index: u8, group: IpAddr) -> Result<Name> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        if qp.made.qp_type != QpType::Ud {
            return Err(Error::Invalid {
                what: "only datagram (UD) queue pairs are members of multicast groups",
            });
        }
        let own = self.gids.get(sgid_index).ok_or(Error::NoSuch {
            object: Object::Gid,
            id: sgid_index.into(),
        })?;
        let address = group.to_canonical();
        if !address.is_multicast() {
            return Err(Error::Invalid {
                what: "a multicast group has an address of 224.0.0.0/4 or ff00::/8",
            });
        }
        let vlan = own.vlan;
        Ok(Name { address, vlan })
    }

    fn make_group_tables(&mut self) -> Result<()> {
        if self.groups.is_made() {
            return Ok(());
        }
        let groups = self.hmc.count(HmcObject::FsiMc) as usize;
        self.groups.make(&self.platform, groups)
    }

    fn free_group(&mut self) -> Result<u16> {
        let free = |groups: &Groups<P>| groups.indexes().find(|group| !groups.exists(*group));
        let found = free(&self.groups).or_else(|| {
            // Some may have no members, and be there because a command failed.
            self.end_groups();
            free(&self.groups)
        });
        let limit = self.groups.indexes().len() as u32;
        let index = found.ok_or(Error::Exhausted {
            object: Object::McastGroup,
            limit,
        })?;
        self.ensure(HmcObject::FsiMc, index.into()).map(|()| index)
    }

    /// Makes a new group and lets its packets pass.
    fn new_group(&mut self, name: Name, qs_handle: u16) -> Result<Group> {
        Ok(Group {
            name,
            members: Vec::new(),
            qs_handle,
            rule: self.rule_for(name)?,
            in_device: false,
            unsure: false,
        })
    }

    /// The switch rule of a group's MAC address: one for all groups that share it, and for the
    /// LAN port.
    fn rule_for(&mut self, name: Name) -> Result<Option<u16>> {
        let mac = group_mac(name.address);
        let Some(lan) = self.lan_side.owned_mut() else {
            return Ok(None);
        };
        if let Some(rule) = self.groups.rule_of(mac) {
            return Ok(Some(rule));
        }
        match lan.port_rule(mac) {
            Some(rule) => Ok(Some(rule)),
            None => lan.admit_once(mac),
        }
    }

    /// Ends the rule of a group that is gone, unless another group or the LAN port needs it.
    fn end_rule(&mut self, group: &Group) {
        if let (Some(rule), Some(lan)) = (group.rule, self.lan_side.owned_mut())
            && self.groups.users_of(rule) == 0
            && !lan.port_needs(rule)
        {
            lan.end_admission(group_mac(group.name.address), rule);
        }
    }

    /// Writes the list of members and has the device read it; notes whether the device then has
    /// the group.
    fn modify_group(&mut self, index: u16, group: &mut Group) -> Result<()> {
        if group.unsure && self.is_late_gone(index)? {
            group.in_device = false;
        }
        if !group.in_device && group.members.is_empty() {
            return Ok(());
        }
        let context = self.write_group(index, group)?;
        let name = group.name;
        let it = McastGroup {
            group: index,
            mac: group_mac(name.address),
            address: name.address,
            vlan: name.vlan,
            qs_handle: group.qs_handle,
            hmc_function: self.cqp.function(),
            context,
        };
        let command: &dyn Command = if group.members.is_empty() {
            &DestroyMcast(it)
        } else if group.in_device {
            &ModifyMcast(it)
        } else {
            &CreateMcast(it)
        };
        let result = run_again(&mut self.cqp, command, index.into());
        match &result {
            Ok(()) => group.in_device = !group.members.is_empty(),
            Err(error) => group.in_device |= error.leaves_command_open(),
        }
        result
    }

    /// Whether late commands have left the device without the group. Waits for them to end.
    fn is_late_gone(&mut self, index: u16) -> Result<bool> {
        let mut late = |op| self.cqp.late_end(op, index.into(), true);
        let created = late(Opcode::CreateMcastGrp)?;
        // Which list it has read is not known.
        late(Opcode::ModifyMcastGrp)?;
        let destroyed = late(Opcode::DestroyMcastGrp)?;
        Ok(matches!(created, Some(Err(_))) || matches!(destroyed, Some(Ok(_))))
    }

    /// Writes the list of members; returns the address of its page.
    fn write_group(&self, index: u16, group: &Group) -> Result<Iova> {
        let mut members: Vec<GroupMember, MAX_GROUP_MEMBERS> = Vec::new();
        for qp in &group.members {
            // As many places as in the list before.
            let _ = members.push(GroupMember { qp: *qp, port: 0 });
        }
        let page = self.groups.write(index, group_context(&members)?);
        // Before the command that makes the device read it.
        self.platform.to_device();
        page.ok_or(Error::NoSuch {
            object: Object::McastGroup,
            id: index.into(),
        })
    }
}
