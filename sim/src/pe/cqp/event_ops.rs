//! CEQ and AEQ commands (control-path 4.9).

use super::command::{Command, DONE, Outcome, Refusal};
use super::execute::aligned;
use super::set;
use crate::findings::kind;
use crate::pe::aeq::Aeq;
use crate::pe::ceq::Ceq;
use crate::pe::device::{Device, Unreachable};
use crate::pe::env::Env;
use crate::pe::hmc::PAGE_BYTES;
use crate::pe::ring::Memory;
use crate::pe::word::{bits, bits16, bits32};
use crate::variation::LastCeq;

/// Largest CEQ and AEQ (control-path 7.7).
const MAX_CEQES: u32 = 262_143;
const MAX_AEQES: u32 = 524_287;

/// CEQID and CEQID_HIGH; DESTROY has the whole id in the low bits.
fn ceq_id(c: &Command) -> u16 {
    bits16(c.header(), 15, 0)
}

impl Device {
    /// A CEQ id must be below MAX_CEQS.
    pub(super) fn ceq_in_range(&self, id: u16, env: &mut dyn Env) -> Result<(), Refusal> {
        let missing = u32::from(self.config.variation.last_ceq == LastCeq::Missing);
        let maximum = self
            .config
            .profile
            .max_ceqs()
            .saturating_sub(missing)
            .max(1);
        if u32::from(id) < maximum {
            return Ok(());
        }
        Err(Refusal::parameter(
            env,
            format!("CEQ {id}: the function has {maximum}"),
        ))
    }

    /// All known drivers pass zeroed memory, in which nothing can be mistaken for an entry of the
    /// first lap (control-path 3.5, 7.7).
    pub(super) fn lint_zeroed(
        &mut self,
        what: &str,
        memory: Memory,
        bytes: u64,
        env: &mut dyn Env,
    ) -> Result<(), Refusal> {
        let mut page = vec![0; PAGE_BYTES as usize];
        let mut offset = 0;
        while offset < bytes {
            let at = memory.at(offset, &mut self.hmc, env);
            let at = self.reached(at, env)?;
            let len = (PAGE_BYTES - at % PAGE_BYTES).min(bytes - offset);
            let part = page.get_mut(..len as usize).unwrap_or_default();
            env.read(at, part).map_err(Unreachable::from)?;
            if let Some(place) = part.iter().position(|byte| *byte != 0) {
                let text = format!("{what}: byte {} is not zero", offset + place as u64);
                env.finding(kind::QUEUE_CONTENT, text);
                break;
            }
            offset += len;
        }
        Ok(())
    }

    /// Memory of a new event queue.
    fn event_ring(
        &mut self,
        c: &Command,
        what: &str,
        entries: u32,
        maximum: u32,
        entry_bytes: u64,
        env: &mut dyn Env,
    ) -> Result<Memory, Refusal> {
        if entries == 0 || entries > maximum {
            return Err(Refusal::parameter(
                env,
                format!("{what}: {entries} entries; 1 to {maximum} are possible"),
            ));
        }
        let (mapped, level) = (set(c, 47), bits(c.header(), 45, 44));
        if (mapped && level != 1) || (!mapped && level != 0) {
            return Err(Refusal::parameter(
                env,
                format!("{what}: VMAP {mapped} with LPBLSIZE {level}"),
            ));
        }
        let first = bits(c.q(48), 27, 0);
        if mapped {
            self.pbles(
                first,
                (u64::from(entries) * entry_bytes).div_ceil(PAGE_BYTES),
                env,
            )?;
        } else {
            aligned(what, c.q(32), 256, env)?;
        }
        let memory = Memory::new(mapped, c.q(32), first);
        self.lint_zeroed(what, memory, u64::from(entries) * entry_bytes, env)?;
        Ok(memory)
    }

    /// CREATE_CEQ 0x16.
    pub(super) fn create_ceq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = ceq_id(c);
        self.ceq_in_range(id, env)?;
        if self.ceqs.contains_key(&id) {
            return Err(Refusal::state(env, format!("CREATE_CEQ: CEQ {id} exists")));
        }
        let entries = bits32(c.q(16), 21, 0);
        let memory = self.event_ring(c, "CEQ", entries, MAX_CEQES, 8, env)?;
        self.ceqs.insert(id, Ceq::new(memory, entries));
        if id == 0 && self.tables.ccq {
            // The CCQ existed first and may have an event to report.
            self.fire_waiting(0, env)?;
        }
        DONE
    }

    /// DESTROY_CEQ 0x18.
    pub(super) fn destroy_ceq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = ceq_id(c);
        match self.ceqs.remove(&id) {
            Some(ceq) => {
                check_entries("CEQ", ceq.entries, bits32(c.q(16), 21, 0), env);
                DONE
            }
            None => Err(Refusal::state(
                env,
                format!("DESTROY_CEQ: there is no CEQ {id}"),
            )),
        }
    }

    /// CREATE_AEQ 0x19.
    pub(super) fn create_aeq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        if self.aeq.is_some() {
            return Err(Refusal::state(env, "CREATE_AEQ: the AEQ exists"));
        }
        let entries = bits32(c.q(16), 18, 0);
        let memory = self.event_ring(c, "AEQ", entries, MAX_AEQES, 16, env)?;
        self.aeq = Some(Aeq::new(memory, entries));
        DONE
    }

    /// DESTROY_AEQ 0x1b.
    pub(super) fn destroy_aeq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        match self.aeq.take() {
            Some(aeq) => {
                check_entries("AEQ", aeq.entries(), bits32(c.q(16), 18, 0), env);
                DONE
            }
            None => Err(Refusal::state(env, "DESTROY_AEQ: there is no AEQ")),
        }
    }
}

/// The destroy commands repeat the entry count.
fn check_entries(what: &str, made: u32, named: u32, env: &mut dyn Env) {
    if made != named {
        let text = format!("{what} destroyed with {named} entries; it was created with {made}");
        env.finding(kind::EVENT_QUEUE_SIZE, text);
    }
}
