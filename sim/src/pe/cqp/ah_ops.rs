//! Address handles and multicast groups (control-path 4.14).

use super::command::{Command, DONE, Outcome, Refusal};
use crate::findings::kind;
use crate::pe::ah::AddressHandle;
use crate::pe::device::{Device, Unreachable};
use crate::pe::env::Env;
use crate::pe::fpm::Kind;
use crate::pe::multicast_group::{MEMBERS, MulticastGroup};
use crate::pe::word::{bit, bits, bits16, bits32, mask};

/// Maximum groups of the device (`IRDMA_UDA_MAX_FSI_MGS`, control-path 3.2).
const MAX_GROUPS: u64 = 4096;

fn ah_index(c: &Command) -> u64 {
    bits(c.header(), 23, 0)
}

fn handle(c: &Command) -> AddressHandle {
    AddressHandle {
        head: [c.q(0), c.q(8), c.q(16)],
        flags: c.header() & mask(62, 59),
        addresses: [c.q(32), c.q(40), c.q(48), c.q(56)],
    }
}

impl Device {
    fn ah_exists(&mut self, index: u64, env: &mut dyn Env) -> Result<bool, Refusal> {
        self.in_range(Kind::FsiAv, index, env)?;
        let found = self.ahs.get(index, &mut self.hmc, env);
        Ok(self.reached(found, env)?.is_some())
    }

    /// A handle must name an ARP entry of the table, which must be valid when the command runs.
    fn check_neighbour(&mut self, c: &Command, index: u64, env: &mut dyn Env) -> Outcome {
        let arp = bits16(c.q(16), 63, 48);
        self.in_range(Kind::Arp, arp.into(), env)?;
        if self.arp(arp, env)?.is_none() {
            env.finding(
                kind::AH_ARP,
                format!("AH {index}: ARP entry {arp} is not valid"),
            );
        }
        DONE
    }

    /// CREATE_ADDR_HANDLE 0x1c.
    pub(super) fn create_address_handle(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let index = ah_index(c);
        if self.ah_exists(index, env)? {
            return Err(Refusal::state(
                env,
                format!("CREATE_ADDR_HANDLE: AH {index} exists"),
            ));
        }
        self.check_neighbour(c, index, env)?;
        let created = self.ahs.create(index, handle(c), &mut self.hmc, env);
        self.reached(created, env)?;
        DONE
    }

    /// MODIFY_ADDR_HANDLE 0x1d.
    pub(super) fn modify_address_handle(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let index = ah_index(c);
        if !self.ah_exists(index, env)? {
            return Err(Refusal::state(
                env,
                format!("MODIFY_ADDR_HANDLE: there is no AH {index}"),
            ));
        }
        self.check_neighbour(c, index, env)?;
        let stored = self.ahs.put(index, handle(c), &mut self.hmc, env);
        self.reached(stored, env)?;
        DONE
    }

    /// DESTROY_ADDR_HANDLE 0x1e.
    pub(super) fn destroy_address_handle(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let index = ah_index(c);
        if !self.ah_exists(index, env)? {
            return Err(Refusal::state(
                env,
                format!("DESTROY_ADDR_HANDLE: there is no AH {index}"),
            ));
        }
        let destroyed = self.ahs.destroy(index, &mut self.hmc, env);
        self.reached(destroyed, env)?;
        DONE
    }

    /// The group that a command names: its index, and its context if it exists.
    fn group_index(
        &mut self,
        c: &Command,
        env: &mut dyn Env,
    ) -> Result<(u64, Option<MulticastGroup>), Refusal> {
        let index = bits(c.header(), 12, 0);
        if index >= MAX_GROUPS {
            return Err(Refusal::parameter(
                env,
                format!("multicast group {index}: there are {MAX_GROUPS}"),
            ));
        }
        self.in_range(Kind::FsiMc, index, env)?;
        self.own_function(bits(c.q(8), 5, 0), env)?;
        let found = self.groups.get(index, &mut self.hmc, env);
        Ok((index, self.reached(found, env)?))
    }

    /// Existing drivers keep the queue set of the first join and name it in every later command on
    /// the group (Linux `irdma_attach_mcast`, `irdma_detach_mcast`).
    fn same_queue_set(&self, name: &str, c: &Command, group: &MulticastGroup, env: &mut dyn Env) {
        let (was, is) = (group.queue_set(), bits16(c.q(16), 9, 0));
        if was != is {
            let index = bits(c.header(), 12, 0);
            env.finding(
                kind::MCAST_QUEUE_SET,
                format!("{name}: group {index} was created with queue set {was}, now {is}"),
            );
        }
    }

    /// Reads a group from the command and the host context it points to.
    fn read_group(&self, c: &Command, env: &mut dyn Env) -> Result<MulticastGroup, Refusal> {
        let mut members = [0; MEMBERS];
        for (n, word) in members.iter_mut().enumerate() {
            *word = env
                .load(c.q(32) + 8 * n as u64)
                .map_err(Unreachable::from)?;
        }
        let group = MulticastGroup {
            words: [c.q(0), c.q(8), c.q(16), c.q(48), c.q(56)],
            flags: c.header() & mask(60, 59),
            members,
        };
        self.check_members(&group, env)?;
        Ok(group)
    }

    /// Members must be possible QP numbers.
    fn check_members(&self, group: &MulticastGroup, env: &mut dyn Env) -> Result<(), Refusal> {
        for member in group.members.iter().filter(|member| bit(**member, 31)) {
            self.in_range(Kind::Qp, bits32(*member, 17, 0).into(), env)?;
        }
        Ok(())
    }

    /// CREATE_MCAST_GRP 0x26.
    pub(super) fn create_group(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (index, found) = self.group_index(c, env)?;
        if found.is_some() {
            return Err(Refusal::state(
                env,
                format!("CREATE_MCAST_GRP: group {index} exists"),
            ));
        }
        let group = self.read_group(c, env)?;
        let created = self.groups.create(index, group, &mut self.hmc, env);
        self.reached(created, env)?;
        self.joined.insert(index);
        DONE
    }

    /// MODIFY_MCAST_GRP 0x27.
    pub(super) fn modify_group(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (index, found) = self.group_index(c, env)?;
        let Some(before) = found else {
            return Err(Refusal::state(
                env,
                format!("MODIFY_MCAST_GRP: there is no group {index}"),
            ));
        };
        self.same_queue_set("MODIFY_MCAST_GRP", c, &before, env);
        let group = self.read_group(c, env)?;
        let stored = self.groups.put(index, group, &mut self.hmc, env);
        self.reached(stored, env)?;
        DONE
    }

    /// DESTROY_MCAST_GRP 0x28.
    pub(super) fn destroy_group(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (index, found) = self.group_index(c, env)?;
        let Some(before) = found else {
            return Err(Refusal::state(
                env,
                format!("DESTROY_MCAST_GRP: there is no group {index}"),
            ));
        };
        self.same_queue_set("DESTROY_MCAST_GRP", c, &before, env);
        let destroyed = self.groups.destroy(index, &mut self.hmc, env);
        self.joined.remove(&index);
        self.reached(destroyed, env)?;
        DONE
    }
}
