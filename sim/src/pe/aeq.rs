//! The asynchronous event queue (control-path 7.3).

use crate::findings::kind;
use std::ops::RangeInclusive;

use super::device::Device;
use super::env::{Env, PeReg};
use super::ring::Memory;
use super::word::{bit, bits, flag, put};
use crate::variation::{CqEventContext, QpEventContext, Variation};

/// Whose context an event carries, in the form in which its object got it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Named {
    /// None.
    #[default]
    Nothing,
    /// QPCOMPCTX.
    Qp(u64),
    /// CQCTX.
    Cq(u64),
}

impl Named {
    /// COMPCTX.
    fn stated(self, variation: &Variation) -> u64 {
        match (self, variation.qp_event_context, variation.cq_event_context) {
            (Self::Nothing, ..) | (Self::Qp(_), QpEventContext::Zero, _) => 0,
            (Self::Qp(context), QpEventContext::Whole, _)
            | (Self::Cq(context), _, CqEventContext::Whole) => context,
            (Self::Cq(context), _, CqEventContext::Shifted) => context >> 1,
        }
    }
}

/// An asynchronous event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Event {
    /// AECODE (control-path 7.5).
    pub(crate) code: u16,
    /// AESRC (control-path 7.4).
    pub(crate) source: u8,
    /// QP or CQ id, 19 bits.
    pub(crate) id: u32,
    /// WQDESCIDX in quanta, 15 bits.
    pub(crate) wqe_index: u16,
    /// Owner of the context in COMPCTX.
    pub(crate) context: Named,
    /// IWSTATE.
    pub(crate) state: u8,
}

impl Event {
    /// The two words of the entry, without its valid bit.
    fn words(&self, overflow: bool, variation: &Variation) -> [u64; 2] {
        let id = u64::from(self.id);
        // TCPSTATE and Q2DATA stay 0: they belong to iWARP.
        let word = put(id, 17, 0)
            | put(self.wqe_index.into(), 32, 18)
            | flag(overflow, 33)
            | put(self.code.into(), 45, 34)
            | flag(bit(id, 18), 46)
            | put(self.source.into(), 53, 50)
            | put(self.state.into(), 56, 54);
        [self.context.stated(variation), word]
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Aeq {
    memory: Memory,
    entries: u32,
    index: u32,
    polarity: bool,
    /// Entries written and not yet returned by PFPE_AEQALLOC.
    used: u32,
    /// The last event for which there was no room.
    lost: Option<Event>,
}

impl Aeq {
    pub(crate) fn new(memory: Memory, entries: u32) -> Self {
        Self {
            memory,
            entries,
            index: 0,
            polarity: true,
            used: 0,
            lost: None,
        }
    }

    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }
}

/// Events about a work request itself: opcode, parameter, fragment (control-path 7.5).
const MALFORMED_WQE: RangeInclusive<u16> = 0x020A..=0x020C;

impl Device {
    /// Reports an event that the driver, a peer or memory caused.
    pub(crate) fn async_event(&mut self, event: Event, env: &mut dyn Env) {
        if MALFORMED_WQE.contains(&event.code) {
            // The card says so by the event alone; here it is a mistake of regardless of the
            // encoder of the request.
            let Event {
                code,
                id,
                wqe_index,
                ..
            } = event;
            let text = format!("QP {id}: work request at {wqe_index} gives event {code:#06x}");
            env.finding(kind::WQE_MALFORMED, text);
        }
        self.put_event(event, env);
    }

    /// Puts an event into the queue, or counts it as dropped.
    ///
    /// All entries belong to the device from CREATE_AEQ on (control-path 7.3). The sources do not
    /// say what the card does when they run out, beyond the OVERFLOW bit and the drop counter. Here
    /// the last event that found no room is kept, and is written with OVERFLOW set as soon as
    /// PFPE_AEQALLOC returns an entry \[inf aeq_overflow\].
    pub(super) fn put_event(&mut self, event: Event, env: &mut dyn Env) {
        match &mut self.aeq {
            None => self.count_drop(PeReg::AeqDropCount, env),
            Some(aeq) if aeq.used >= aeq.entries => {
                aeq.lost = Some(event);
                self.count_drop(PeReg::AeqDropCount, env);
            }
            Some(_) => self.write_aeqe(event, false, env),
        }
    }

    fn write_aeqe(&mut self, event: Event, overflow: bool, env: &mut dyn Env) {
        let [context, word] = event.words(overflow, &self.config.variation);
        let Some(aeq) = &mut self.aeq else {
            return;
        };
        let entry = [context, word | flag(aeq.polarity, 63)];
        let at = aeq.memory.at(16 * u64::from(aeq.index), &mut self.hmc, env);
        aeq.used += 1;
        aeq.index += 1;
        if aeq.index >= aeq.entries {
            aeq.index = 0;
            aeq.polarity = !aeq.polarity;
        }
        let Ok(at) = self.reached(at, env) else {
            return;
        };
        if env.write_entry(at, &entry, 1).is_ok() {
            env.raise_aeq();
        }
    }

    /// PFPE_AEQALLOC: `count` entries were processed.
    pub(crate) fn return_aeqes(&mut self, count: u32, env: &mut dyn Env) {
        let Some(aeq) = &mut self.aeq else {
            env.finding(
                kind::DOORBELL_AEQ,
                format!("PFPE_AEQALLOC = {count}: there is no AEQ"),
            );
            return;
        };
        match aeq.used.checked_sub(count) {
            Some(left) => aeq.used = left,
            None => {
                let text = format!(
                    "PFPE_AEQALLOC = {count}: only {} entries were outstanding",
                    aeq.used
                );
                aeq.used = 0;
                env.finding(kind::AEQ_CREDIT, text);
            }
        }
        if count > 0
            && let Some(event) = aeq.lost.take()
        {
            self.write_aeqe(event, true, env);
        }
    }

    /// Increments a 16-bit drop counter.
    pub(crate) fn count_drop(&self, counter: PeReg, env: &mut dyn Env) {
        let count = u64::from(env.register(counter)) + 1;
        env.set_register(counter, bits(count, 15, 0) as u32);
    }
}
