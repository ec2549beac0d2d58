//! Completion event queues (control-path 7.1).
//!
//! The device does not get the consumer index of a CEQ. Instead it counts the CEQEs whose CQ was
//! not acknowledged.

use super::device::{Device, Unreachable};
use super::env::{Env, EventCount, PeReg};
use super::ring::Memory;
use super::word::{flag, put};
use crate::findings::kind;

#[derive(Clone, Debug)]
pub(crate) struct Ceq {
    pub(crate) memory: Memory,
    pub(crate) entries: u32,
    pub(crate) index: u32,
    pub(crate) polarity: bool,
    /// CEQEs written and not acknowledged by PFPE_CQACK.
    pub(crate) outstanding: u32,
}

impl Ceq {
    pub(crate) fn new(memory: Memory, entries: u32) -> Self {
        Self {
            memory,
            entries,
            index: 0,
            polarity: true,
            outstanding: 0,
        }
    }
}

impl Device {
    /// Writes a CEQE for CQ `cq` and raises the cause; `false` when the queue is full and it was
    /// dropped.
    pub(crate) fn ceq_event(
        &mut self,
        id: u16,
        cq: u32,
        context: u64,
        env: &mut dyn Env,
    ) -> Result<bool, Unreachable> {
        let Some(ceq) = self.ceqs.get_mut(&id) else {
            return Ok(false);
        };
        if ceq.outstanding >= ceq.entries {
            let entries = ceq.entries;
            self.count_drop(PeReg::CeqDropCount, env);
            env.finding(
                kind::CEQ_OVERFLOW,
                format!("CEQ {id}: all {entries} entries are unacknowledged"),
            );
            return Ok(false);
        }
        let entry = put(context, 62, 0) | flag(ceq.polarity, 63);
        let offset = 8 * u64::from(ceq.index);
        let memory = ceq.memory;
        ceq.outstanding += 1;
        ceq.index += 1;
        if ceq.index >= ceq.entries {
            ceq.index = 0;
            ceq.polarity = !ceq.polarity;
        }
        let at = memory.at(offset, &mut self.hmc, env);
        let at = self.reached(at, env)?;
        env.store(at, entry).map_err(|_| {
            env.finding(
                kind::CEQ_MEMORY,
                format!("the event of CQ {cq} is lost with the entry of CEQ {id}"),
            );
            Unreachable
        })?;
        env.counted(EventCount::Written);
        env.raise_ceq(id);
        Ok(true)
    }

    /// A CEQE of this queue was acknowledged.
    pub(crate) fn ceq_acknowledged(&mut self, id: Option<u16>) {
        if let Some(ceq) = id.and_then(|id| self.ceqs.get_mut(&id)) {
            ceq.outstanding = ceq.outstanding.saturating_sub(1);
        }
    }

    /// Removes a CQ with CEQEs that were not all acknowledged: software skips them (control-path
    /// 7.2).
    pub(crate) fn ceq_forget(&mut self, id: Option<u16>, entries: u32) {
        if let Some(ceq) = id.and_then(|id| self.ceqs.get_mut(&id)) {
            ceq.outstanding = ceq.outstanding.saturating_sub(entries);
        }
    }
}
