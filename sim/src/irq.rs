//! Interrupt vectors of one function: enabling, auto-mask, pending, moderation registers.
//!
//! A cause (an event queue, the AEQ, PFINT_OICR) names a vector; here that vector fires, or waits until it may. What
//! arrives at the host is in [`lines`](crate::lines).

/// What the CLEARPBA bit of GLINT_DYN_CTL does to an event that came while the vector was masked.
///
/// The sources only name the bit ("clear the pending bit", control-path 2.4). Linux re-enables with INTENA and CLEARPBA
/// in one write after its last look at the queue and does not look again, which only works when such an event is kept
/// `[inf]`. A driver that looks once more after enabling is right with both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ClearPba {
    /// The event is delivered when the same write enables the vector.
    #[default]
    Keeps,
    /// The event is forgotten.
    Drops,
}

/// INTENA \[0\] of GLINT_DYN_CTL (control-path 2.4), and so on down.
const INTENA: u32 = 1;
const CLEARPBA: u32 = 1 << 1;
const SWINT_TRIG: u32 = 1 << 2;
const INTENA_MSK: u32 = 1 << 31;
/// Bits that act when written and read as 0.
const ACTIONS: u32 = CLEARPBA | SWINT_TRIG;
/// ITR_INDX value for "no timer": the interrupt is sent at once.
pub(crate) const NO_ITR: u32 = 3;

/// Whether a write of `value` to GLINT_DYN_CTL is an event of its own.
pub(crate) const fn is_trigger(value: u32) -> bool {
    value & SWINT_TRIG != 0
}

const fn itr_index(value: u32) -> u32 {
    (value >> 3) & 3
}

const fn interval(value: u32) -> u32 {
    (value >> 5) & 0xfff
}

/// MSIX_INDX, ITR_INDX and CAUSE_ENA of a cause register; GLINT_CEQCTL, PFINT_AEQCTL and PFINT_OICR_CTL share the layout.
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

#[derive(Clone, Copy, Default, Debug)]
struct VectorState {
    enabled: bool,
    /// An event waits for the vector to be enabled.
    pending: bool,
    /// What GLINT_DYN_CTL reads as, apart from INTENA.
    control: u32,
    /// Intervals of the three timers, in units of the ITR granularity.
    itr: [u16; 3],
}

/// The vectors of one function.
#[derive(Debug)]
pub(crate) struct Interrupts {
    vectors: Vec<VectorState>,
    clear_pba: ClearPba,
    /// Vectors that fired and were not yet handed to the host, in order.
    fired: Vec<u16>,
}

impl Interrupts {
    pub(crate) fn new(vectors: u16, clear_pba: ClearPba) -> Self {
        Self {
            vectors: vec![VectorState::default(); usize::from(vectors)],
            clear_pba,
            fired: Vec::new(),
        }
    }

    pub(crate) fn count(&self) -> u16 {
        self.vectors.len() as u16
    }

    /// CORER: all GLINT registers are cleared.
    pub(crate) fn reset(&mut self) {
        self.vectors.fill(VectorState::default());
    }

    /// A cause that is routed to `vector` with timer `itr` has something to say; false when the function has no such
    /// vector.
    ///
    /// `auto_mask` is GLINT_CTL.DIS_AUTOMASK = 0. Timers 0..2 do not delay anything yet: their intervals are kept, and
    /// this is the place where a message would be held back until its interval has passed.
    pub(crate) fn raise(&mut self, vector: u16, itr: u32, auto_mask: bool) -> bool {
        debug_assert!(itr <= NO_ITR);
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return false;
        };
        state.pending = true;
        self.deliver(vector, auto_mask);
        true
    }

    /// Sends the message of `vector` if it waits and may be sent.
    fn deliver(&mut self, vector: u16, auto_mask: bool) {
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return;
        };
        if state.enabled && state.pending {
            state.pending = false;
            // Control-path 2.4 `[inf]`: the vector masks itself when it fires.
            state.enabled = !auto_mask;
            self.fired.push(vector);
        }
    }

    /// GLINT_DYN_CTL(`vector`) as read.
    pub(crate) fn control(&self, vector: u16) -> u32 {
        self.vectors
            .get(usize::from(vector))
            .map_or(0, |state| state.control | u32::from(state.enabled))
    }

    /// A write to GLINT_DYN_CTL(`vector`); false when the function has no such vector.
    pub(crate) fn set_control(&mut self, vector: u16, value: u32, auto_mask: bool) -> bool {
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else {
            return false;
        };
        state.control = value & !(ACTIONS | INTENA);
        if value & CLEARPBA != 0 && self.clear_pba == ClearPba::Drops {
            state.pending = false;
        }
        if value & INTENA_MSK == 0 {
            state.enabled = value & INTENA != 0;
        }
        if let Some(itr) = state.itr.get_mut(itr_index(value) as usize) {
            *itr = interval(value) as u16;
        }
        if value & SWINT_TRIG != 0 {
            state.pending = true;
        }
        self.deliver(vector, auto_mask);
        true
    }

    /// GLINT_ITR(`itr`, `vector`) as read.
    pub(crate) fn itr(&self, itr: u32, vector: u16) -> u32 {
        self.vectors
            .get(usize::from(vector))
            .and_then(|state| state.itr.get(itr as usize))
            .map_or(0, |interval| u32::from(*interval))
    }

    /// A write to GLINT_ITR(`itr`, `vector`); false when the function has no such vector.
    pub(crate) fn set_itr(&mut self, itr: u32, vector: u16, value: u32) -> bool {
        let state = self.vectors.get_mut(usize::from(vector));
        let Some(slot) = state.and_then(|state| state.itr.get_mut(itr as usize)) else {
            return false;
        };
        *slot = (value & 0xfff) as u16;
        true
    }

    /// Forgets the messages that were not handed to the host; answers with their number.
    pub(crate) fn forget_fired(&mut self) -> usize {
        let count = self.fired.len();
        self.fired.clear();
        count
    }

    /// The vectors that fired since the last call, in order.
    pub(crate) fn take_fired(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.fired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What irdma writes to enable a vector (control-path 2.4).
    const ENABLE: u32 = INTENA | CLEARPBA;

    fn two_vectors() -> Interrupts {
        Interrupts::new(2, ClearPba::Keeps)
    }

    #[test]
    fn a_vector_fires_once_and_waits_for_the_driver() {
        let mut irq = two_vectors();
        assert!(irq.raise(1, NO_ITR, true));
        assert_eq!(irq.take_fired(), [], "disabled after reset");
        irq.set_control(1, ENABLE, true);
        assert_eq!(irq.take_fired(), [1], "the event waited");
        assert_eq!(irq.control(1) & INTENA, 0, "masked by itself");
        irq.raise(1, NO_ITR, true);
        irq.raise(1, NO_ITR, true);
        assert_eq!(irq.take_fired(), []);
        irq.set_control(1, ENABLE, true);
        assert_eq!(irq.take_fired(), [1], "two events, one message");
        irq.set_control(1, ENABLE, true);
        assert_eq!(irq.take_fired(), []);
        assert_eq!(irq.control(1) & INTENA, INTENA);
    }

    #[test]
    fn without_auto_mask_every_event_is_a_message() {
        let mut irq = two_vectors();
        irq.set_control(0, ENABLE, false);
        irq.raise(0, NO_ITR, false);
        irq.raise(0, NO_ITR, false);
        assert_eq!(irq.take_fired(), [0, 0]);
    }

    #[test]
    fn a_disabled_vector_keeps_quiet() {
        let mut irq = two_vectors();
        irq.set_control(0, ENABLE, true);
        irq.set_control(0, 0, true);
        irq.raise(0, NO_ITR, true);
        assert_eq!(irq.take_fired(), []);
    }

    #[test]
    fn intena_msk_leaves_the_enable_bit() {
        let mut irq = two_vectors();
        irq.set_control(0, ENABLE, true);
        // The OICR set-up value of control-path 2.4.
        irq.set_control(0, 0x8600_0000, true);
        assert_eq!(irq.control(0) & INTENA, INTENA);
        irq.set_control(1, 0x8000_0000 | INTENA, true);
        assert_eq!(irq.control(1) & INTENA, 0);
    }

    #[test]
    fn a_software_interrupt_is_an_event() {
        let mut irq = two_vectors();
        irq.set_control(0, SWINT_TRIG, true);
        assert_eq!(irq.take_fired(), []);
        irq.set_control(0, SWINT_TRIG | INTENA, true);
        assert_eq!(irq.take_fired(), [0]);
        assert_eq!(irq.control(0) & ACTIONS, 0);
    }

    #[test]
    fn the_strict_reading_of_clearpba_forgets_the_event() {
        let mut irq = Interrupts::new(1, ClearPba::Drops);
        irq.raise(0, NO_ITR, true);
        irq.set_control(0, ENABLE, true);
        assert_eq!(irq.take_fired(), []);
        irq.raise(0, NO_ITR, true);
        assert_eq!(irq.take_fired(), [0]);
        irq.raise(0, NO_ITR, true);
        irq.set_control(0, INTENA, true);
        assert_eq!(irq.take_fired(), [0], "without CLEARPBA it is kept");
    }

    #[test]
    fn intervals_are_kept_by_timer() {
        let mut irq = two_vectors();
        // INTERVAL 25 into ITR 0, then ITR_INDX 3, which names no timer.
        irq.set_control(0, ENABLE | 25 << 5, true);
        irq.set_control(0, ENABLE | NO_ITR << 3 | 99 << 5, true);
        assert_eq!([irq.itr(0, 0), irq.itr(1, 0), irq.itr(2, 0)], [25, 0, 0]);
        assert!(irq.set_itr(2, 0, 0xffff));
        assert_eq!(irq.itr(2, 0), 0xfff);
        assert!(!irq.set_itr(3, 0, 1));
        irq.reset();
        assert_eq!(irq.itr(0, 0), 0);
        assert_eq!(irq.control(0), 0);
    }

    #[test]
    fn vectors_that_do_not_exist_are_refused() {
        let mut irq = two_vectors();
        assert!(!irq.raise(2, NO_ITR, true));
        assert!(!irq.set_control(2, ENABLE, true));
        assert!(!irq.set_itr(0, 2, 1));
        assert_eq!(irq.control(2), 0);
    }

    #[test]
    fn a_cause_register_names_vector_timer_and_enable() {
        // GLINT_CEQCTL as control-path 8 programs it.
        let cause = Cause::from(0x4000_1800 | 5);
        assert_eq!(
            cause,
            Cause {
                vector: 5,
                itr: NO_ITR,
                enabled: true
            }
        );
        assert!(!Cause::from(0x1805).enabled);
    }
}
