//! CREATE_CQ, MODIFY_CQ, DESTROY_CQ (control-path 4.8).

use super::command::{Command, DONE, Outcome, Refusal};
use super::execute::aligned;
use super::set;
use crate::findings::kind;
use crate::pe::cq::{Arm, Cq};
use crate::pe::device::Device;
use crate::pe::env::Env;
use crate::pe::fpm::Kind;
use crate::pe::hmc::PAGE_BYTES;
use crate::pe::ring::Memory;
use crate::pe::word::{bits, bits16, bits32};

const CQE_BYTES: u64 = 32;

fn cq_id(c: &Command) -> u32 {
    bits32(c.header(), 18, 0)
}

/// CEQID and CEQID_HIGH.
fn ceq_id(c: &Command) -> u16 {
    bits16(c.header(), 31, 22) | bits16(c.header(), 59, 54) << 10
}

impl Device {
    /// The CQ that a command names; it must exist.
    pub(super) fn named_cq(
        &mut self,
        id: u32,
        what: &str,
        env: &mut dyn Env,
    ) -> Result<Cq, Refusal> {
        self.in_range(Kind::Cq, id.into(), env)?;
        match self.cq(id, env)? {
            Some(cq) => Ok(cq),
            None => Err(Refusal::state(env, format!("{what}: there is no CQ {id}"))),
        }
    }

    /// Size and memory of a new ring.
    fn cq_ring(&self, c: &Command, id: u32, env: &mut dyn Env) -> Result<(Memory, u32), Refusal> {
        let size = bits32(c.q(0), 20, 0);
        // The field has 21 bits, and existing drivers make rings of up to 2,097,150 entries with
        // it: they compare the requested number with 1,048,575 and double it afterwards (Linux
        // `irdma_create_cq`).
        if size == 0 {
            return Err(Refusal::parameter(env, format!("CQ {id}: {size} entries")));
        }
        let (mapped, level) = (set(c, 47), bits(c.header(), 45, 44));
        if (mapped && level != 1) || (!mapped && level != 0) {
            // Queues only use level-1 lists (control-path 6.7).
            return Err(Refusal::parameter(
                env,
                format!("CQ {id}: VIRTMAP {mapped} with LPBLSIZE {level}"),
            ));
        }
        let first = bits(c.q(48), 27, 0);
        if mapped {
            self.pbles(
                first,
                (u64::from(size) * CQE_BYTES).div_ceil(PAGE_BYTES),
                env,
            )?;
        } else {
            aligned("CQ memory", c.q(32), 256, env)?;
        }
        // 64-byte CQEs do not exist on GEN_2 (data-path 4.2).
        if set(c, 61) {
            return Err(Refusal::parameter(env, format!("CQ {id}: AVOIDMEMCNFLCT")));
        }
        Ok((Memory::new(mapped, c.q(32), first), size))
    }

    /// CREATE_CQ 0x03.
    pub(super) fn create_cq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = cq_id(c);
        self.in_range(Kind::Cq, id.into(), env)?;
        if bits(c.header(), 52, 50) != 0 {
            return Err(Refusal::parameter(
                env,
                format!("CQ {id}: CQID_HIGH is not zero"),
            ));
        }
        if self.cq(id, env)?.is_some() {
            return Err(Refusal::state(env, format!("CREATE_CQ: CQ {id} exists")));
        }
        let (memory, size) = self.cq_ring(c, id, env)?;
        aligned("CQ shadow area", c.q(40), 64, env)?;
        let ceq = set(c, 49).then(|| ceq_id(c));
        if ceq.is_none() && ceq_id(c) != 0 {
            env.finding(kind::CQ_CEQ, format!("CQ {id}: CEQID without CEQIDVALID"));
        }
        if let Some(ceq) = ceq {
            self.ceq_in_range(ceq, env)?;
            // Only the CCQ names a CEQ before it exists (control-path 3.1).
            if id != 0 && !self.ceqs.contains_key(&ceq) {
                return Err(Refusal::state(
                    env,
                    format!("CREATE_CQ {id}: there is no CEQ {ceq}"),
                ));
            }
        }
        let threshold = bits32(c.q(16), 17, 0);
        // A resize keeps the threshold, which may then exceed the size of a smaller ring.
        if threshold > size {
            let text = format!("CQ {id}: a threshold of {threshold} in {size} entries");
            env.finding(kind::CQ_THRESHOLD, text);
        }
        if id == 0 && set(c, 48) {
            let text = "CQ 0, the CCQ, with ENCEQEMASK".to_owned();
            env.finding(kind::CQ_CCQ, text);
        }
        let cq = Cq {
            memory,
            shadow: c.q(40),
            context: bits(c.q(8), 62, 0),
            size,
            threshold,
            ceq,
            check_overflow: set(c, 46),
            mask_events: set(c, 48),
            producer: 0,
            polarity: true,
            consumer: 0,
            used: 0,
            resizes: 0,
            arm_seq: 0,
            arm: Arm::Off,
            due: false,
            solicited: false,
            unacknowledged: 0,
            stopped: false,
            users: 0,
        };
        self.lint_shadow(&format!("CQ {id}"), cq.shadow, env)?;
        if id == 0 {
            self.lint_zeroed("CCQ", cq.memory, u64::from(size) * CQE_BYTES, env)?;
        }
        let created = self.cqs.create(id.into(), cq, &mut self.hmc, env);
        self.reached(created, env)?;
        if id == 0 {
            self.tables.ccq = true;
        }
        self.destroyed_cqs.remove(&id);
        DONE
    }

    /// MODIFY_CQ 0x04: a resize, or changed flags.
    pub(super) fn modify_cq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = cq_id(c);
        let mut cq = self.named_cq(id, "MODIFY_CQ", env)?;
        if c.q(40) != cq.shadow {
            return Err(Refusal::parameter(
                env,
                format!("MODIFY_CQ {id}: another shadow area"),
            ));
        }
        if set(c, 43) {
            let (memory, size) = self.cq_ring(c, id, env)?;
            cq.restart(memory, size);
            cq.resizes = (cq.resizes + 1) & 0x3FFF;
        }
        cq.context = bits(c.q(8), 62, 0);
        cq.threshold = bits32(c.q(16), 17, 0);
        cq.check_overflow = set(c, 46);
        cq.mask_events = set(c, 48);
        self.put_cq(id, cq, env)?;
        DONE
    }

    /// DESTROY_CQ 0x05.
    pub(super) fn destroy_cq(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = cq_id(c);
        let cq = self.named_cq(id, "DESTROY_CQ", env)?;
        if cq.users > 0 {
            return Err(Refusal::state(
                env,
                format!("DESTROY_CQ {id}: {} uses by QPs are left", cq.users),
            ));
        }
        if (bits32(c.q(0), 20, 0), c.q(40)) != (cq.size, cq.shadow) {
            let text = format!("DESTROY_CQ {id}: another size or shadow area than it has");
            env.finding(kind::CQ_DESTROY, text);
        }
        self.ceq_forget(cq.ceq, cq.unacknowledged);
        let destroyed = self.cqs.destroy(id.into(), &mut self.hmc, env);
        self.reached(destroyed, env)?;
        self.destroyed_cqs.insert(id);
        if id == 0 {
            self.tables.ccq = false;
        }
        DONE
    }
}
