//! Work scheduler, statistics, user-priority map (control-path 4.13).

use super::command::{Command, DONE, Outcome, Refusal, Reply};
use super::hmc_ops::write_words;
use super::set;
use crate::findings::kind;
use crate::pe::device::Device;
use crate::pe::env::Env;
use crate::pe::qp::{Qp, State};
use crate::pe::stats::Statistics;
use crate::pe::tables::Node;
use crate::pe::word::{bits, bits8, bits16};
use crate::variation::UnknownVsi;

/// Largest node id (`IRDMA_MAX_WS_NODES`, control-path 3.2).
const MAX_NODE: u16 = 0x3FF;
/// Statistics instances (control-path 4.13).
const INSTANCES: u8 = 128;

impl Device {
    /// WORK_SCHED_NODE 0x2c.
    pub(super) fn manage_node(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let header = c.header();
        let id = bits16(header, 13, 0);
        if id > MAX_NODE {
            return Err(Refusal::parameter(
                env,
                format!("work scheduler node {id}: ids end at {MAX_NODE}"),
            ));
        }
        match bits(header, 55, 52) {
            0 => self.add_node(c, id, env),
            1 => self.modify_node(c, id, env),
            2 => self.delete_node(id, env),
            op => Err(Refusal::parameter(
                env,
                format!("work scheduler node {id}: NODEOP {op}"),
            )),
        }
    }

    fn add_node(&mut self, c: &Command, id: u16, env: &mut dyn Env) -> Outcome {
        if self.tables.nodes.contains_key(&id) {
            return Err(Refusal::state(
                env,
                format!("WORK_SCHED_NODE add: node {id} exists"),
            ));
        }
        let parent = bits16(c.header(), 29, 16);
        let leaf = set(c, 61);
        // The root is its own parent, and there is one tree; a leaf has no children.
        let parent_ok = match self.tables.nodes.get(&parent) {
            Some(parent) => parent.queue_set.is_none(),
            None => parent == id && !leaf && self.tables.nodes.is_empty(),
        };
        if !parent_ok {
            return Err(Refusal::state(
                env,
                format!("WORK_SCHED_NODE add {id}: no inner node {parent}"),
            ));
        }
        check_node(c, id, self.config.variation.unknown_vsi, env)?;
        // There are as many handles as nodes, and the root is not a leaf, so one handle is always
        // free.
        let queue_set = if leaf {
            self.tables
                .free_queue_set(self.config.variation.queue_set_handles)
        } else {
            None
        };
        self.tables.nodes.insert(id, node(c, queue_set));
        Ok(Reply {
            value: queue_set.unwrap_or(0).into(),
            minor: 0,
        })
    }

    fn modify_node(&mut self, c: &Command, id: u16, env: &mut dyn Env) -> Outcome {
        let Some(old) = self.tables.nodes.get(&id).copied() else {
            return Err(Refusal::state(
                env,
                format!("WORK_SCHED_NODE modify: there is no node {id}"),
            ));
        };
        let node = node(c, old.queue_set);
        if old.queue_set.is_some() != set(c, 61) || node.parent != old.parent {
            return Err(Refusal::parameter(
                env,
                format!("node {id}: NODETYPE or PARENTID differ from its ADD"),
            ));
        }
        check_node(c, id, self.config.variation.unknown_vsi, env)?;
        self.tables.nodes.insert(id, node);
        Ok(Reply {
            value: old.queue_set.unwrap_or(0).into(),
            minor: 0,
        })
    }

    fn delete_node(&mut self, id: u16, env: &mut dyn Env) -> Outcome {
        if self.tables.has_children(id) {
            return Err(Refusal::state(
                env,
                format!("WORK_SCHED_NODE delete: node {id} has children"),
            ));
        }
        let Some(node) = self.tables.nodes.remove(&id) else {
            return Err(Refusal::state(
                env,
                format!("WORK_SCHED_NODE delete: there is no node {id}"),
            ));
        };
        // Drivers keep a leaf while a queue pair uses its class. No source says what the device
        // does with the packets of one that continues.
        let senders = self.tables.senders.iter();
        let sends = |qp: &Qp| matches!(qp.state(), State::Rts | State::Sqd);
        let user = senders
            .filter(|(_, set)| node.queue_set == Some(**set))
            .find(|(qp, _)| self.qps.peek((**qp).into()).is_some_and(|qp| sends(qp)));
        if let Some((qp, set)) = user {
            let text = format!("WORK_SCHED_NODE delete {id}: QP {qp} sends by queue set {set}");
            env.finding(kind::QUEUE_SET_USED, text);
        }
        DONE
    }

    /// MANAGE_STATS 0x2d.
    pub(super) fn manage_statistics(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        if set(c, 60) {
            self.own_function(bits(c.q(40), 15, 0), env)?;
        }
        let instances = &mut self.tables.statistics_instances;
        if set(c, 62) {
            let free = (0..INSTANCES).find(|index| !instances.contains(index));
            return match free {
                Some(index) => {
                    instances.insert(index);
                    self.instances.insert(index, Statistics::default());
                    Ok(Reply {
                        value: index.into(),
                        minor: 0,
                    })
                }
                None => Err(Refusal::parameter(env, "no statistics instance is left")),
            };
        }
        let index = bits8(c.header(), 6, 0);
        if !instances.remove(&index) {
            return Err(Refusal::state(
                env,
                format!("statistics instance {index} is not allocated"),
            ));
        }
        self.instances.remove(&index);
        DONE
    }

    /// GATHER_STATS 0x2e: of the function, as Linux requests, or of an instance.
    pub(super) fn gather_statistics(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        if set(c, 60) {
            self.own_function(bits(c.q(40), 15, 0), env)?;
        }
        let index = bits8(c.header(), 6, 0);
        if set(c, 61) && !self.tables.statistics_instances.contains(&index) {
            return Err(Refusal::state(
                env,
                format!("statistics instance {index} is not allocated"),
            ));
        }
        let own = set(c, 61).then(|| self.instances.get(&index)).flatten();
        let counters = own.unwrap_or(&self.statistics).gather();
        write_words(c.q(32), &counters, env)?;
        DONE
    }

    /// UP_MAP 0x2f.
    pub(super) fn set_up_map(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (map, target) = (c.q(0), c.q(40));
        if map.to_le_bytes().iter().any(|priority| *priority > 7) {
            env.finding(
                kind::UP_MAP,
                format!("UP_MAP {map:#x}: priorities are 0 to 7"),
            );
        }
        self.own_function(bits(target, 15, 0), env)?;
        self.tables.up_map = [map, target];
        DONE
    }
}

/// Properties of a node: the same for ADD and MODIFY.
fn check_node(c: &Command, id: u16, unknown: UnknownVsi, env: &mut dyn Env) -> Outcome {
    if !(1..=3).contains(&bits8(c.header(), 60, 59)) {
        return Err(Refusal::parameter(
            env,
            format!("work scheduler node {id}: PRIOTYPE 0"),
        ));
    }
    let vsi = bits16(c.q(32), 63, 48);
    if unknown == UnknownVsi::Refused && !env.has_vsi(vsi) {
        return Err(Refusal::state(
            env,
            format!("work scheduler node {id}: the switch has no VSI {vsi}"),
        ));
    }
    DONE
}

fn node(c: &Command, queue_set: Option<u16>) -> Node {
    Node {
        parent: bits16(c.header(), 29, 16),
        queue_set,
        enabled: set(c, 62),
        vsi: bits16(c.q(32), 63, 48),
        class: bits8(c.header(), 58, 56),
        weight: bits8(c.q(32), 38, 32),
        priority: bits8(c.header(), 60, 59),
    }
}
