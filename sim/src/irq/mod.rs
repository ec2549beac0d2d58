//! Interrupt vectors of one function: enable, auto-mask, pending events, throttling.
//!
//! A cause (an event queue, the AEQ, PFINT_OICR) names a vector. The vector fires at once or waits
//! until [`throttle`] allows it. [`msix`](crate::msix) handles its message, and
//! [`interrupt_lines`](crate::interrupt_lines) its arrival at the host.

mod throttle;

pub(crate) use throttle::{NO_ITR, Units};
use throttle::{Throttle, Waiting};

use crate::variation::{ClearPba, ItrReads, OtherTimers, Variation};

/// INTENA \[0\] of GLINT_DYN_CTL (control-path 2.4), and so on down.
const INTENA: u32 = 1;
const CLEARPBA: u32 = 1 << 1;
const SWINT_TRIG: u32 = 1 << 2;
const SW_ITR_INDX_ENA: u32 = 1 << 24;
const WB_ON_ITR: u32 = 1 << 30;
const INTENA_MSK: u32 = 1 << 31;
/// Bits that act when written and read as 0.
const ACTIONS: u32 = CLEARPBA | SWINT_TRIG;

/// Whether a write of `value` to GLINT_DYN_CTL is itself an event.
pub(crate) const fn is_trigger(value: u32) -> bool {
    value & SWINT_TRIG != 0
}

/// Whether a write of `value` to GLINT_DYN_CTL clears the vector's bit in the MSI-X pending bit
/// array.
pub(crate) const fn clears_pending(value: u32) -> bool {
    value & CLEARPBA != 0
}

const fn itr_index(value: u32) -> u32 {
    (value >> 3) & 3
}

/// Timer of the software interrupt that `value` triggers. Without SW_ITR_INDX_ENA no timer delays
/// it `[inf software_timer]`.
const fn software_itr(value: u32) -> u32 {
    if value & SW_ITR_INDX_ENA != 0 {
        (value >> 25) & 3
    } else {
        NO_ITR
    }
}

const fn interval(value: u32) -> u32 {
    (value >> 5) & 0xfff
}

/// MSIX_INDX, ITR_INDX and CAUSE_ENA of a cause register; GLINT_CEQCTL, PFINT_AEQCTL and
/// PFINT_OICR_CTL share the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) vector: u16,
    pub(crate) itr: u32,
    pub(crate) enabled: bool,
}

impl From<u32> for Cause {
    fn from(value: u32) -> Self {
        Self {
            vector: (value & 0x7ff) as u16,
            itr: (value >> 11) & 3,
            enabled: value & (1 << 30) != 0,
        }
    }
}

/// Settings in the function's registers that concern all its vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// A vector masks itself when it fires: GLINT_CTL.DIS_AUTOMASK = 0 (control-path 2.4
    /// `[inf auto_mask]`).
    pub(crate) auto_mask: bool,
    pub(crate) units: Units,
}

#[derive(Clone, Copy, Default, Debug)]
struct VectorState {
    enabled: bool,
    /// Events not reported by an interrupt yet.
    waiting: Waiting,
    /// A write-back served events while the vector was disabled.
    ///
    /// They are reported when it is enabled, like any other earlier event. The sources do not say
    /// what happens to them `[inf write_back_events]`.
    written_back: bool,
    /// The value that GLINT_DYN_CTL reads as, apart from INTENA.
    control: u32,
    /// What was written to GLINT_ITR, by timer.
    itr: [u16; 3],
    throttle: Throttle,
}

impl VectorState {
    /// Whether the causes may be served at all: INTENA or WB_ON_ITR.
    fn is_armed(&self) -> bool {
        self.enabled || self.control & WB_ON_ITR != 0
    }

    /// Time of the vector's next action.
    fn due(&self, choices: &Variation) -> Option<u64> {
        let mut waiting = self.waiting;
        if self.enabled && self.written_back {
            waiting.add(NO_ITR);
        }
        let due = self.throttle.due(waiting, choices.rate_limits);
        due.filter(|_| self.is_armed())
    }

    /// Serves all causes; true when a message is sent.
    fn serve(&mut self, rules: Rules, others: OtherTimers, now: u64) -> bool {
        let message = self.enabled;
        let waiting = std::mem::take(&mut self.waiting);
        self.written_back = !message;
        self.throttle
            .served(now, rules.units, message, waiting, others);
        if message && rules.auto_mask {
            self.enabled = false;
        }
        message
    }
}

/// The vectors of one function.
#[derive(Debug)]
pub(crate) struct Interrupts {
    vectors: Vec<VectorState>,
    choices: Variation,
    /// Vectors whose events wait for a timer or a credit.
    delayed: Vec<u16>,
    /// Vectors that fired since the last call, in order.
    fired: Vec<u16>,
}

impl Interrupts {
    pub(crate) fn new(vectors: u16, choices: Variation) -> Self {
        Self {
            vectors: vec![VectorState::default(); usize::from(vectors)],
            choices,
            delayed: Vec::new(),
            fired: Vec::new(),
        }
    }

    pub(crate) fn count(&self) -> u16 {
        self.vectors.len() as u16
    }

    /// CORER: all GLINT registers are cleared.
    pub(crate) fn reset(&mut self) {
        self.vectors.fill(VectorState::default());
        self.delayed.clear();
    }

    /// A cause routed to `vector` with timer `itr` has an event; false when the function has no
    /// such vector.
    pub(crate) fn raise(&mut self, vector: u16, itr: u32, rules: Rules, now: u64) -> bool {
        debug_assert!(itr <= NO_ITR);
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return false;
        };
        state.waiting.add(itr);
        self.settle(vector, rules, now);
        true
    }

    /// Serves `vector` if its time has come; otherwise remembers its time.
    fn settle(&mut self, vector: u16, rules: Rules, now: u64) {
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return;
        };
        let Some(due) = state.due(&self.choices) else {
            return;
        };
        if due <= now {
            if state.serve(rules, self.choices.other_timers, now) {
                self.fired.push(vector);
            }
        } else if !self.delayed.contains(&vector) {
            self.delayed.push(vector);
        }
    }

    /// Time at which a waiting vector may fire.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let delayed = self.delayed.iter();
        delayed
            .filter_map(|vector| {
                let state = self.vectors.get(usize::from(*vector))?;
                state.due(&self.choices)
            })
            .min()
    }

    /// Fires the vectors whose wait is over.
    pub(crate) fn pass_time(&mut self, rules: Rules, now: u64) {
        for vector in std::mem::take(&mut self.delayed) {
            self.settle(vector, rules, now);
        }
    }

    /// GLINT_DYN_CTL(`vector`) as read.
    pub(crate) fn control(&self, vector: u16) -> u32 {
        self.vectors
            .get(usize::from(vector))
            .map_or(0, |state| state.control | u32::from(state.enabled))
    }

    /// A write to GLINT_DYN_CTL(`vector`); false when the function has no such vector.
    pub(crate) fn set_control(&mut self, vector: u16, value: u32, rules: Rules, now: u64) -> bool {
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return false;
        };
        state.control = value & !(ACTIONS | INTENA);
        if value & CLEARPBA != 0 && self.choices.clear_pba == ClearPba::Drops {
            state.waiting = Waiting::default();
            state.written_back = false;
        }
        if value & INTENA_MSK == 0 {
            state.enabled = value & INTENA != 0;
        }
        // ITR 3 does not exist.
        let _ =
            state
                .throttle
                .set_interval(itr_index(value), interval(value) as u16, &self.choices);
        if value & SWINT_TRIG != 0 {
            state.waiting.add(software_itr(value));
        }
        self.settle(vector, rules, now);
        true
    }

    fn throttle(&self, vector: u16) -> Option<&Throttle> {
        let state = self.vectors.get(usize::from(vector));
        state.map(|state| &state.throttle)
    }

    /// GLINT_ITR(`itr`, `vector`) as read.
    pub(crate) fn itr(&self, itr: u32, vector: u16) -> u32 {
        let Some(state) = self.vectors.get(usize::from(vector)) else {
            return 0;
        };
        let interval = match self.choices.itr_reads {
            ItrReads::InForce => state.throttle.interval(itr),
            ItrReads::Written => state.itr.get(itr as usize).copied().unwrap_or(0),
        };
        interval.into()
    }

    /// A write to GLINT_ITR(`itr`, `vector`); false when the function has no such vector.
    pub(crate) fn set_itr(
        &mut self,
        itr: u32,
        vector: u16,
        value: u32,
        rules: Rules,
        now: u64,
    ) -> bool {
        let state = self.vectors.get_mut(usize::from(vector));
        let interval = (value & 0xfff) as u16;
        let choices = self.choices;
        let done = state.is_some_and(|state| {
            if let Some(written) = state.itr.get_mut(itr as usize) {
                *written = interval;
            }
            state.throttle.set_interval(itr, interval, &choices)
        });
        self.settle(vector, rules, now);
        done
    }

    /// GLINT_RATE(`vector`) as read.
    pub(crate) fn rate(&self, vector: u16) -> u32 {
        self.throttle(vector).map_or(0, Throttle::rate)
    }

    /// A write to GLINT_RATE(`vector`); false when the function has no such vector.
    pub(crate) fn set_rate(&mut self, vector: u16, value: u32, rules: Rules, now: u64) -> bool {
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return false;
        };
        state.throttle.set_rate(value);
        self.settle(vector, rules, now);
        true
    }

    /// The vectors that fired since the last call, in order.
    pub(crate) fn take_fired(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.fired)
    }
}

#[cfg(test)]
mod tests;
