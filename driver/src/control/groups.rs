//! Multicast groups: which queue pairs get what is sent to an address.
//!
//! A group is an index in the device with a page of host memory that lists its
//! members. The first member creates it, later ones have it read again, the last
//! one to leave destroys it (control-path 4.14). On a function that another
//! driver has set up that driver lets the group's packets in; after a cold start
//! it is done here.

use core::net::IpAddr;
use core::sync::atomic::Ordering;

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::MAX_GROUP_MEMBERS;
use e810_cqp::op::{
    Command, CreateMcast, DestroyMcast, GroupMember, McastGroup, ModifyMcast, group_context,
};
use e810_hal::{Cell, DmaBuf, DmaLayout, HostBuf, Iova, Platform, Words};
use heapless::Vec;

use super::{Control, run};
use crate::addr::{Gid, group_mac};
use crate::error::{Error, Object, Result};
use crate::pair::Qp;
use e810_datapath::state::Service;

/// Bytes of a group's page.
const PAGE: usize = 4096;
/// Words of a group in the table: address (two), key, members.
const WORDS: usize = 3 + MAX_GROUP_MEMBERS;
const ADDRESS: usize = 0;
/// [15:0] VLAN id, [31:16] index of the switch rule, [32] there is one, [63] the
/// group exists.
const KEY: usize = 2;
const MEMBERS: usize = 3;
const EXISTS: u64 = 1 << 63;
const HAS_RULE: u64 = 1 << 32;

/// The groups there are. Made when the first queue pair joins one.
#[derive(Debug)]
pub(super) struct Groups<P: Platform> {
    made: Option<Tables<P>>,
}

impl<P: Platform> Default for Groups<P> {
    fn default() -> Self {
        Self { made: None }
    }
}

#[derive(Debug)]
struct Tables<P: Platform> {
    known: HostBuf<P>,
    /// A page each.
    contexts: DmaBuf<P>,
}

/// A group as it is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    address: IpAddr,
    vlan: Option<u16>,
}

/// A group as the table has it.
struct Known {
    members: Vec<u32, MAX_GROUP_MEMBERS>,
    rule: Option<u16>,
}

impl<P: Platform> Groups<P> {
    fn word(&self, group: u16, word: usize) -> u64 {
        let index = usize::from(group)
            .saturating_mul(WORDS)
            .saturating_add(word);
        let tables = self.made.as_ref();
        let found = tables.and_then(|tables| tables.known.words().get(index));
        found.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn set(&self, group: u16, word: usize, value: u64) {
        let index = usize::from(group)
            .saturating_mul(WORDS)
            .saturating_add(word);
        let tables = self.made.as_ref();
        if let Some(word) = tables.and_then(|tables| tables.known.words().get(index)) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Indexes of groups; 0 is reserved (data-path 10 item 12).
    fn indexes(&self) -> core::ops::Range<u16> {
        let tables = self.made.as_ref();
        let groups = tables.map_or(0, |tables| tables.known.words().len() / WORDS);
        1..groups as u16
    }

    fn exists(&self, group: u16) -> bool {
        self.word(group, KEY) & EXISTS != 0
    }

    fn find(&self, name: Name) -> Option<u16> {
        let mut indexes = self.indexes();
        indexes.find(|group| self.exists(*group) && self.name(*group) == name)
    }

    fn name(&self, group: u16) -> Name {
        let half = |word| u128::from(self.word(group, word));
        let bits = half(ADDRESS) << 64 | half(ADDRESS + 1);
        let vlan = self.word(group, KEY) as u16;
        Name {
            address: Gid(bits.to_be_bytes()).ip(),
            vlan: (vlan != 0).then_some(vlan),
        }
    }

    fn known(&self, group: u16) -> Known {
        let key = self.word(group, KEY);
        let members = (0..MAX_GROUP_MEMBERS)
            .map(|n| self.word(group, MEMBERS.saturating_add(n)) as u32)
            .filter(|qp| *qp != 0);
        Known {
            members: members.collect(),
            rule: (key & HAS_RULE != 0).then_some((key >> 16) as u16),
        }
    }

    fn remember(&self, group: u16, name: Name, known: &Known) {
        let bits = u128::from_be_bytes(Gid::from(name.address).0);
        self.set(group, ADDRESS, (bits >> 64) as u64);
        self.set(group, ADDRESS + 1, bits as u64);
        for n in 0..MAX_GROUP_MEMBERS {
            let member = known.members.get(n).copied().unwrap_or(0);
            self.set(group, MEMBERS.saturating_add(n), member.into());
        }
        let rule = known
            .rule
            .map_or(0, |rule| HAS_RULE | u64::from(rule) << 16);
        let exists = if known.members.is_empty() { 0 } else { EXISTS };
        let key = exists | rule | u64::from(name.vlan.unwrap_or(0));
        self.set(group, KEY, key);
    }

    /// Frees the pages, once the device has no group any more.
    pub(super) fn release(self) {
        if let Some(tables) = self.made {
            tables.contexts.release();
        }
    }
}

impl<P: Platform> Control<P> {
    /// Has a datagram queue pair get what is sent to a multicast group, on the
    /// VLAN of our address `sgid_index`. Once is enough; a second time changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is no group's and for a queue pair
    /// that is not UD, [`Error::NoSuch`] for the GID, [`Error::Exhausted`] when
    /// there is no group left, [`Error::OutOfRange`] for a ninth member, the
    /// refusal of device or firmware. Nothing is changed then.
    pub fn attach_mcast(&mut self, qp: &Qp<P>, sgid_index: u8, group: IpAddr) -> Result<()> {
        let name = self.group_name(qp, sgid_index, group)?;
        let id = qp.key.id();
        self.make_group_tables()?;
        let (index, mut known) = match self.groups.find(name) {
            Some(index) => (index, self.groups.known(index)),
            None => (self.free_group()?, self.new_group(name)?),
        };
        if known.members.contains(&id) {
            return Ok(());
        }
        let is_first = known.members.is_empty();
        let result = match known.members.push(id) {
            Ok(()) => self.tell_group(index, name, &known, qp.context.qs_handle, is_first),
            Err(_) => Err(Error::OutOfRange {
                what: "members of a multicast group",
                value: MAX_GROUP_MEMBERS as u64 + 1,
                min: 1,
                max: MAX_GROUP_MEMBERS as u64,
            }),
        };
        match result {
            Ok(()) => self.groups.remember(index, name, &known),
            Err(_) if is_first => self.end_rule(known.rule),
            Err(_) => {}
        }
        result
    }

    /// Has the queue pair get it no more.
    ///
    /// # Errors
    /// [`Error::NoSuch`] when it is not in the group, the device's refusal.
    pub fn detach_mcast(&mut self, qp: &Qp<P>, sgid_index: u8, group: IpAddr) -> Result<()> {
        let name = self.group_name(qp, sgid_index, group)?;
        let id = qp.key.id();
        let index = self.groups.find(name).ok_or(Error::NoSuch {
            object: Object::McastGroup,
            id: 0,
        })?;
        if !self.groups.known(index).members.contains(&id) {
            return Err(Error::NoSuch {
                object: Object::McastGroup,
                id: index.into(),
            });
        }
        self.leave_group(index, id)
    }

    /// A queue pair that is gone leaves all groups.
    pub(super) fn leave_groups(&mut self, qp: u32) {
        for index in self.groups.indexes() {
            let is_member =
                self.groups.exists(index) && self.groups.known(index).members.contains(&qp);
            if is_member && let Err(error) = self.leave_group(index, qp) {
                e810_hal::log_warn!("queue pair {} stays in group {}: {}", qp, index, error);
            }
        }
    }

    fn leave_group(&mut self, index: u16, qp: u32) -> Result<()> {
        let (name, mut known) = (self.groups.name(index), self.groups.known(index));
        known.members.retain(|member| *member != qp);
        let told = self.tell_group(index, name, &known, 0, false);
        if told.is_ok() {
            if known.members.is_empty() {
                self.end_rule(known.rule.take());
            }
            self.groups.remember(index, name, &known);
        }
        told
    }

    fn group_name(&self, qp: &Qp<P>, sgid_index: u8, group: IpAddr) -> Result<Name> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        if qp.made.service != Service::Ud {
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
        if self.groups.made.is_some() {
            return Ok(());
        }
        let groups = self.hmc.count(HmcObject::FsiMc) as usize;
        let known = HostBuf::new(self.platform.clone(), groups.saturating_mul(WORDS))?;
        let layout = DmaLayout::new(groups.saturating_mul(PAGE), PAGE);
        let contexts = DmaBuf::new(self.platform.clone(), layout)?;
        self.groups.made = Some(Tables { known, contexts });
        Ok(())
    }

    fn free_group(&mut self) -> Result<u16> {
        let mut indexes = self.groups.indexes();
        let limit = indexes.len() as u32;
        let free = indexes.find(|group| !self.groups.exists(*group));
        let index = free.ok_or(Error::Exhausted {
            object: Object::McastGroup,
            limit,
        })?;
        self.ensure(HmcObject::FsiMc, index.into()).map(|()| index)
    }

    /// Lets a new group's packets in.
    fn new_group(&mut self, name: Name) -> Result<Known> {
        let rule = match &mut self.lan_side.0 {
            Some(lan) => Some(lan.admit(group_mac(name.address))?),
            None => None,
        };
        Ok(Known {
            members: Vec::new(),
            rule,
        })
    }

    fn end_rule(&mut self, rule: Option<u16>) {
        if let (Some(rule), Some(lan)) = (rule, &mut self.lan_side.0) {
            lan.end_admission(rule);
        }
    }

    /// Writes the list of members and has the device read it.
    fn tell_group(
        &mut self,
        index: u16,
        name: Name,
        known: &Known,
        qs_handle: u16,
        is_first: bool,
    ) -> Result<()> {
        let mut members: Vec<GroupMember, MAX_GROUP_MEMBERS> = Vec::new();
        for qp in &known.members {
            // As many places as in the list before.
            let _ = members.push(GroupMember { qp: *qp, port: 0 });
        }
        let words = group_context(&members)?;
        let Some(tables) = &self.groups.made else {
            return Ok(());
        };
        let page = tables.contexts.block::<{ PAGE / 8 }>(index.into());
        for (cell, word) in page.into_iter().flatten().zip(words) {
            cell.set(word);
        }
        let offset = u64::from(index) * PAGE as u64;
        // Before the command that makes the device read it.
        self.platform.to_device();
        let group = McastGroup {
            group: index,
            mac: group_mac(name.address),
            address: name.address,
            vlan: name.vlan,
            qs_handle,
            hmc_function: self.cqp.function(),
            // The pages exist, so their addresses do not wrap.
            context: Iova(tables.contexts.iova().0.wrapping_add(offset)),
        };
        let command: &dyn Command = if known.members.is_empty() {
            &DestroyMcast(group)
        } else if is_first {
            &CreateMcast(group)
        } else {
            &ModifyMcast(group)
        };
        run(&mut self.cqp, command)
    }
}
