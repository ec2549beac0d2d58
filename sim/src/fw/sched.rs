//! Commands that modify the transmit scheduler tree (control-path 9.7).

use super::descriptor::{Answer, Command};
use super::layout::{part, put, put_u16, u8_at, u16_at, u32_at};
use super::sched_tree::{self, ELEMENT, Leaf};
use super::{AqCode, Cx};
use crate::findings::kind;

/// Bytes before the elements of a group.
const GROUP: usize = 8;
/// Bytes before the TEIDs of a group to move.
const MOVE_GROUP: usize = 12;

/// Valid-section bits of a node that name a rate profile, and the offset of each name: CIR, EIR,
/// shared limit.
const PROFILES: [(u8, usize); 3] = [(1, 4), (2, 8), (3, 12)];

impl Cx<'_, '_> {
    /// The rate profiles in a node's sections must be the default one, 0, or one from 0x0410.
    pub(super) fn check_profiles(&mut self, opcode: u16, node: &[u8]) {
        for (section, at) in PROFILES {
            let profile = u16_at(node, at);
            let is_named = u8_at(node, 1) >> section & 1 != 0;
            if is_named && !self.fw.txqs.has_profile(profile) {
                let text = format!("command {opcode:#06x} names rate profile {profile}");
                self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
            }
        }
    }

    /// Refuses a node that a command names and that does not exist.
    fn no_node(&mut self, opcode: u16, teid: u32) -> AqCode {
        let text = format!("command {opcode:#06x} names scheduler node {teid:#x}");
        self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
        AqCode::ENOENT
    }

    /// 0x0401.
    pub(super) fn add_elements(&mut self, command: &Command) -> Answer {
        let mut data = command.input(GROUP + ELEMENT)?.to_vec();
        let groups = command.param16(0);
        let mut at = 0;
        for _ in 0..groups {
            let (parent, count) = (u32_at(&data, at), usize::from(u16_at(&data, at + 4)));
            if count == 0 || at + GROUP + count * ELEMENT > data.len() {
                return Err(AqCode::EINVAL);
            }
            if self.fw.tree.get(parent).is_none() {
                return Err(self.no_node(command.opcode, parent));
            }
            for element in 0..count {
                let here = at + GROUP + element * ELEMENT;
                let own = part(&data, here + 8, 16).to_vec();
                let of_kind = u8_at(&own, 0);
                if of_kind != sched_tree::kind::GENERIC {
                    let text = format!("command 0x0401 adds an element of type {of_kind}");
                    self.env.found(kind::ADMINQ_BITS, text);
                }
                self.check_profiles(command.opcode, &own);
                let teid = self.fw.tree.add(parent, &own, None)?;
                let added = self.fw.tree.element(teid).unwrap_or_default();
                put(&mut data, here, &added);
            }
            at += GROUP + count * ELEMENT;
        }
        Ok(command.answer(data)?.put16(2, groups))
    }

    /// 0x0404.
    pub(super) fn get_elements(&mut self, command: &Command) -> Answer {
        let count = command.param16(0);
        let mut data = command.input(usize::from(count) * ELEMENT)?.to_vec();
        for element in 0..usize::from(count) {
            let teid = u32_at(&data, element * ELEMENT + 4);
            let Some(found) = self.fw.tree.element(teid) else {
                return Err(self.no_node(command.opcode, teid));
            };
            put(&mut data, element * ELEMENT, &found);
        }
        Ok(command.answer(data)?.put16(2, count))
    }

    /// 0x0403.
    pub(super) fn configure_elements(&mut self, command: &Command) -> Answer {
        let count = command.param16(0);
        let data = command.input(usize::from(count) * ELEMENT)?.to_vec();
        for element in data.chunks_exact(ELEMENT).take(usize::from(count)) {
            let teid = u32_at(element, 4);
            self.check_profiles(command.opcode, part(element, 8, 16));
            let done = self.fw.tree.configure(teid, part(element, 8, 16));
            done.map_err(|_| self.no_node(command.opcode, teid))?;
        }
        Ok(command.answer(data)?.put16(2, count))
    }

    /// 0x040F: deletes nodes, only a driver's own and the default ones; children before parents.
    pub(super) fn delete_elements(&mut self, command: &Command) -> Answer {
        let data = command.input(GROUP + 4)?.to_vec();
        let groups = command.param16(0);
        let mut at = 0;
        for _ in 0..groups {
            let (parent, count) = (u32_at(&data, at), usize::from(u16_at(&data, at + 4)));
            if at + GROUP + 4 * count > data.len() {
                return Err(AqCode::EINVAL);
            }
            for element in 0..count {
                let teid = u32_at(&data, at + GROUP + 4 * element);
                self.delete_element(command.opcode, parent, teid)?;
            }
            at += GROUP + 4 * count;
        }
        Ok(command.answer(data)?.put16(2, groups))
    }

    fn delete_element(&mut self, opcode: u16, parent: u32, teid: u32) -> Result<(), AqCode> {
        let Some(node) = self.fw.tree.get(teid) else {
            return Err(self.no_node(opcode, teid));
        };
        if node.parent != parent {
            return Err(AqCode::EINVAL);
        }
        match (node.kind(), node.leaf) {
            (sched_tree::kind::ROOT | sched_tree::kind::TC, _) => return Err(AqCode::EPERM),
            // Queues have their own commands.
            (_, Some(Leaf::Lan(_) | Leaf::Rdma(_))) => return Err(AqCode::EBUSY),
            _ => {}
        }
        if !node.children.is_empty() {
            let count = node.children.len();
            let text = format!("scheduler node {teid:#x} is deleted, it has {count} children");
            self.env.found(kind::ADMINQ_IN_USE, text);
            return Err(AqCode::EBUSY);
        }
        self.fw.tree.remove(teid);
        Ok(())
    }

    /// 0x0408.
    pub(super) fn move_elements(&mut self, command: &Command) -> Answer {
        let data = command.input(MOVE_GROUP + 4)?.to_vec();
        let groups = command.param16(0);
        let mut at = 0;
        for _ in 0..groups {
            let (from, to) = (u32_at(&data, at), u32_at(&data, at + 4));
            let count = usize::from(u16_at(&data, at + 8));
            if at + MOVE_GROUP + 4 * count > data.len() {
                return Err(AqCode::EINVAL);
            }
            for element in 0..count {
                let teid = u32_at(&data, at + MOVE_GROUP + 4 * element);
                let Some(node) = self.fw.tree.get(teid) else {
                    return Err(self.no_node(command.opcode, teid));
                };
                if node.parent != from {
                    return Err(AqCode::EINVAL);
                }
                self.fw.tree.move_to(teid, to)?;
            }
            at += MOVE_GROUP + 4 * count;
        }
        Ok(command.answer(data)?.put16(2, groups))
    }

    /// 0x0409 and 0x040A: a list of TEIDs without a header.
    pub(super) fn suspend_elements(&mut self, command: &Command, suspend: bool) -> Answer {
        let count = command.param16(0);
        let data = command.input(4 * usize::from(count))?.to_vec();
        for element in 0..usize::from(count) {
            let teid = u32_at(&data, 4 * element);
            let done = self.fw.tree.suspend(teid, suspend);
            done.map_err(|_| self.no_node(command.opcode, teid))?;
        }
        Ok(command.answer(data)?.put16(2, count))
    }

    /// 0x0410: returns numbers for profiles of 12 bytes.
    pub(super) fn add_rate_profiles(&mut self, command: &Command) -> Answer {
        const PROFILE: usize = 12;
        let count = command.param16(0);
        let mut data = command.input(usize::from(count) * PROFILE)?.to_vec();
        for profile in 0..usize::from(count) {
            let number = self.fw.txqs.next_profile();
            put_u16(&mut data, profile * PROFILE + 2, number);
        }
        Ok(command.answer(data)?.put16(2, count))
    }

    /// 0x0415.
    pub(super) fn remove_rate_profiles(&mut self, command: &Command) -> Answer {
        let count = command.param16(0);
        let data = command.input(0)?.to_vec();
        Ok(command.answer(data)?.put16(2, count))
    }
}
