//! Events of completion queues: the arm word (data-path 4.6), PFPE_CQARM, PFPE_CQACK, pending
//! CEQEs.

use super::cq::{ARM_WORD, Arm, Cq};
use super::device::{Device, Unreachable};
use super::env::{Env, EventCount};
use super::fpm::Kind;
use super::word::{bit, bits, bits8, bits32};
use crate::findings::kind;

impl Device {
    /// Writes the CEQE that is due, if it may be written now.
    pub(super) fn fire(
        &mut self,
        id: u32,
        cq: &mut Cq,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        if !cq.due || (cq.mask_events && cq.unacknowledged > 0) {
            return Ok(());
        }
        // A CQ may name a CEQ that does not exist yet (the CCQ does); its event waits.
        let Some(ceq) = cq.ceq.filter(|ceq| self.ceqs.contains_key(ceq)) else {
            return Ok(());
        };
        cq.due = false;
        if self.ceq_event(ceq, id, cq.context, env)? {
            cq.unacknowledged += 1;
        }
        Ok(())
    }

    /// A CEQ was created: writes the events that waited for it.
    pub(crate) fn fire_waiting(&mut self, id: u32, env: &mut dyn Env) -> Result<(), Unreachable> {
        if let Some(mut cq) = self.cq(id, env)? {
            self.fire(id, &mut cq, env)?;
            self.put_cq(id, cq, env)?;
        }
        Ok(())
    }

    /// PFPE_CQARM: accepts the request in the shadow area if it is new (ARM_SEQ_NUM).
    ///
    /// The card then reads the consumer index beside it. Entries that software has not consumed
    /// cause an event at once. For a solicited request they do so if a solicited one was written
    /// since the last event, whatever its position: the card does not remember which entries were
    /// solicited. Without this, a completion between a program's last poll and the arrival of its
    /// request would never be reported: Linux' programs arm, poll once and sleep.
    pub(crate) fn arm_cq(&mut self, value: u32, env: &mut dyn Env) -> Result<(), Unreachable> {
        let Some((id, mut cq)) = self.cq_of_doorbell("PFPE_CQARM", value, env)? else {
            return Ok(());
        };
        let word = env.load(cq.shadow + ARM_WORD)?;
        if bits(word, 63, 18) != 0 {
            env.finding(
                kind::CQ_ARM,
                format!("CQ {id}: arm word {word:#x} has undefined bits set"),
            );
        }
        let seq = bits8(word, 17, 16);
        if seq == cq.arm_seq {
            env.counted(EventCount::ArmedAgain);
            // The request was answered with the one before, or is a copy. That is no error: the
            // card reads the arm word when it can.
            return Ok(());
        }
        cq.arm_seq = seq;
        env.counted(EventCount::Armed);
        cq.arm = if bit(word, 14) {
            Arm::Next
        } else if bit(word, 15) {
            Arm::Solicited
        } else {
            Arm::Off
        };
        self.read_consumer(id, &mut cq, env)?;
        let at_once = match cq.arm {
            Arm::Off => false,
            Arm::Solicited => cq.used > 0 && cq.solicited,
            Arm::Next => cq.used > 0,
        };
        if at_once {
            env.counted(match cq.arm {
                Arm::Solicited => EventCount::SolicitedAtOnce,
                _ => EventCount::AtOnce,
            });
            cq.owe_event();
            self.fire(id, &mut cq, env)?;
        }
        self.put_cq(id, cq, env)
    }

    /// PFPE_CQACK: one CEQE of this CQ was consumed.
    pub(crate) fn acknowledge_cq(
        &mut self,
        value: u32,
        env: &mut dyn Env,
    ) -> Result<(), Unreachable> {
        let Some((id, mut cq)) = self.cq_of_doorbell("PFPE_CQACK", value, env)? else {
            return Ok(());
        };
        match cq.unacknowledged.checked_sub(1) {
            Some(left) => {
                cq.unacknowledged = left;
                self.ceq_acknowledged(cq.ceq);
            }
            None => env.finding(kind::CQ_ACK, format!("CQ {id} has no CEQE to acknowledge")),
        }
        self.fire(id, &mut cq, env)?;
        self.put_cq(id, cq, env)
    }

    fn cq_of_doorbell(
        &mut self,
        register: &str,
        value: u32,
        env: &mut dyn Env,
    ) -> Result<Option<(u32, Cq)>, Unreachable> {
        let id = bits32(value.into(), 18, 0);
        let known = u64::from(id) < self.hmc.count(Kind::Cq);
        let cq = if known { self.cq(id, env)? } else { None };
        // A driver may consume a CEQE of a destroyed CQ, and a program may arm such a CQ.
        if cq.is_none() && !self.destroyed_cqs.contains(&id) {
            env.finding(
                kind::DOORBELL_CQ,
                format!("{register} = {id}: there is no such CQ"),
            );
        }
        Ok(cq.map(|cq| (id, cq)))
    }
}
