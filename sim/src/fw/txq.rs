//! Transmit queues and queue sets as leaves of the scheduler (0x0C30 to 0x0C33; control-path 9.8).

use crate::findings::kind;
use std::collections::{BTreeMap, BTreeSet};

use crate::lan::TxContext;

use super::descriptor::{Answer, Command};
use super::layout::{part, put, put_u32, u8_at, u16_at, u32_at};
use super::sched_tree::Leaf;
use super::{AqCode, Cx};

/// Bytes before the queues of a group, of a LAN queue, and of a queue set.
const GROUP: usize = 8;
const LAN_QUEUE: usize = 48;
const QUEUE_SET: usize = 24;
/// Offsets of a LAN queue's context and scheduler data.
const CONTEXT: (usize, usize) = (8, 22);
const LAN_INFO: usize = 32;
const SET_INFO: usize = 8;
/// The queue number for a queue set.
const IS_SET: u16 = 1 << 15;

/// The queues of one function.
#[derive(Debug, Default)]
pub(super) struct TxQueues {
    /// TEID of each queue set, by the engine's handle.
    sets: BTreeMap<u16, u32>,
    profiles: u16,
}

impl TxQueues {
    /// Handles of the queue sets.
    pub(super) fn queue_sets(&self) -> BTreeSet<u16> {
        self.sets.keys().copied().collect()
    }

    /// Whether 0x0410 returned the number, or it is that of the default profile.
    pub(super) fn has_profile(&self, number: u16) -> bool {
        number <= self.profiles
    }

    /// A new number for a rate profile; 0 is that of the default profile.
    pub(super) fn next_profile(&mut self) -> u16 {
        self.profiles += 1;
        self.profiles
    }
}

impl Cx<'_, '_> {
    /// The parent node for new queues; it must be a queue group.
    fn queue_parent(&mut self, opcode: u16, teid: u32) -> Result<(), AqCode> {
        let group = self.fw.tree.group_layer();
        match self.fw.tree.get(teid) {
            Some(node) if node.layer == group => Ok(()),
            Some(_) => Err(AqCode::EINVAL),
            None => {
                let text = format!("command {opcode:#06x} names scheduler node {teid:#x}");
                self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
                Err(AqCode::ENOENT)
            }
        }
    }

    /// 0x0C30.
    pub(super) fn add_tx_queues(&mut self, command: &Command) -> Answer {
        let mut data = command.input(GROUP + LAN_QUEUE)?.to_vec();
        let mut at = 0;
        for _ in 0..command.param8(0) {
            let (parent, count) = (u32_at(&data, at), usize::from(u8_at(&data, at + 4)));
            if count == 0 || at + GROUP + count * LAN_QUEUE > data.len() {
                return Err(AqCode::EINVAL);
            }
            self.queue_parent(command.opcode, parent)?;
            for queue in 0..count {
                let here = at + GROUP + queue * LAN_QUEUE;
                let number = u16_at(&data, here);
                if number >= self.fw.config.room.queues {
                    return Err(AqCode::EINVAL);
                }
                if self.env.state.lan_queues.has_tx(number) {
                    return Err(AqCode::EEXIST);
                }
                let context = TxContext::decode(part(&data, here + CONTEXT.0, CONTEXT.1));
                if !self.has_vsi(context.vsi) {
                    let text = format!("LAN queue {number} is given to VSI {}", context.vsi);
                    self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
                    return Err(AqCode::ENOENT);
                }
                let info = part(&data, here + LAN_INFO, 16).to_vec();
                self.check_profiles(command.opcode, &info);
                let teid = self.fw.tree.add(parent, &info, Some(Leaf::Lan(number)))?;
                self.env.state.lan_queues.add_tx(number, context);
                put_u32(&mut data, here + 4, teid);
            }
            at += GROUP + count * LAN_QUEUE;
        }
        command.answer(data)
    }

    /// 0x0C33.
    pub(super) fn add_rdma_queue_sets(&mut self, command: &Command) -> Answer {
        let mut data = command.input(GROUP + QUEUE_SET)?.to_vec();
        if !self.fw.config.rdma {
            return Err(AqCode::EPERM);
        }
        let mut at = 0;
        for _ in 0..command.param8(0) {
            let (parent, count) = (u32_at(&data, at), usize::from(u16_at(&data, at + 4)));
            if count == 0 || at + GROUP + count * QUEUE_SET > data.len() {
                return Err(AqCode::EINVAL);
            }
            self.queue_parent(command.opcode, parent)?;
            for set in 0..count {
                let here = at + GROUP + set * QUEUE_SET;
                let handle = u16_at(&data, here);
                if handle & IS_SET != 0 {
                    return Err(AqCode::EINVAL);
                }
                if !self.engine.queue_set_exists(handle) {
                    let text = format!(
                        "queue set {handle} is registered, WORK_SCHED_NODE did not return it"
                    );
                    self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
                    return Err(AqCode::EINVAL);
                }
                if self.fw.txqs.sets.contains_key(&handle) {
                    return Err(AqCode::EEXIST);
                }
                let (above, of_leaf) = (
                    self.fw.tree.class_of(parent),
                    self.engine.queue_set_class(handle),
                );
                if above != of_leaf {
                    let class = |class: Option<u8>| class.map_or("none".into(), |c| c.to_string());
                    let text = format!(
                        "queue set {handle} hangs below class {}, its leaf has class {}",
                        class(above),
                        class(of_leaf)
                    );
                    self.env.found(kind::QUEUE_SET_CLASS, text);
                }
                let info = part(&data, here + SET_INFO, 16).to_vec();
                self.check_profiles(command.opcode, &info);
                let teid = self.fw.tree.add(parent, &info, Some(Leaf::Rdma(handle)))?;
                self.fw.txqs.sets.insert(handle, teid);
                put_u32(&mut data, here + 4, teid);
            }
            at += GROUP + count * QUEUE_SET;
        }
        command.answer(data)
    }

    /// 0x0C31: by parent and number. Without FLUSH_PIPE, frames that cannot leave (no link) keep
    /// the queue until the command's time-out. That the answer is EIO then is `[inf frames_stuck]`.
    pub(super) fn disable_tx_queues(&mut self, command: &Command) -> Answer {
        const FLUSH_PIPE: u8 = 1 << 3;
        const RESET: u8 = 3;
        const NUMBER: u16 = 0x3ff;
        let number = command.param16(2) & NUMBER;
        if command.param8(0) & RESET == 0 && number != 0 {
            let text = format!("command 0x0c31 resets nothing and names VM or VF {number}");
            self.env.found(kind::ADMINQ_BITS, text);
        }
        let groups = command.param8(1);
        if groups == 0 {
            // The last word is for a reset of a VM or VF.
            return Ok(command.done());
        }
        let data = command.input(8)?.to_vec();
        if command.param8(0) & FLUSH_PIPE == 0 && !self.has_link() {
            return Err(AqCode::EIO);
        }
        let mut at = 0;
        for _ in 0..groups {
            let (parent, count) = (u32_at(&data, at), usize::from(u8_at(&data, at + 4)));
            if count == 0 || at + 6 + 2 * count > data.len() {
                return Err(AqCode::EINVAL);
            }
            for queue in 0..count {
                self.disable_tx_queue(parent, u16_at(&data, at + 6 + 2 * queue))?;
            }
            // Groups begin at multiples of four.
            at += (6 + 2 * count).next_multiple_of(4);
        }
        command.answer(data)
    }

    fn disable_tx_queue(&mut self, parent: u32, number: u16) -> Result<(), AqCode> {
        let leaf = if number & IS_SET == 0 {
            Leaf::Lan(number)
        } else {
            Leaf::Rdma(number & !IS_SET)
        };
        let Some((teid, above)) = self.fw.tree.find_leaf(leaf) else {
            let text = format!("{leaf:?} is disabled, it was not added");
            self.env.found(kind::ADMINQ_UNKNOWN_OBJECT, text);
            return Err(AqCode::ENOENT);
        };
        if above != parent {
            return Err(AqCode::EINVAL);
        }
        self.fw.tree.remove(teid);
        match leaf {
            Leaf::Lan(queue) => {
                self.env.state.lan_queues.remove_tx(queue);
            }
            Leaf::Rdma(handle) => {
                self.fw.txqs.sets.remove(&handle);
            }
            Leaf::Default => {}
        }
        Ok(())
    }

    /// 0x0C32: moves leaves to another parent.
    pub(super) fn move_tx_queues(&mut self, command: &Command) -> Answer {
        const ENTRY: usize = 8;
        let count = usize::from(command.param8(1));
        let mut data = command.input(ENTRY * (1 + count))?.to_vec();
        let (from, to) = (u32_at(&data, 0), u32_at(&data, 4));
        self.queue_parent(command.opcode, to)?;
        for queue in 0..count {
            let here = ENTRY * (1 + queue);
            let teid = u32_at(&data, here + 4);
            match self.fw.tree.get(teid) {
                Some(node) if node.parent == from && node.leaf.is_some() => {}
                Some(_) => return Err(AqCode::EINVAL),
                None => return Err(AqCode::ENOENT),
            }
            self.fw.tree.move_to(teid, to)?;
            put(&mut data, here + 4, &teid.to_le_bytes());
        }
        command.answer(data)
    }
}
