//! Programming interrupt vectors: which cause goes to which, on and off.
//!
//! The order is fixed (control-path 8): a queue is created, then bound; it is
//! unbound, then destroyed. A vector masks itself when it fires
//! (control-path 2.4 `[inf]`), and [`enable_vector`] is written again once its
//! queues are empty.
//!
//! Moderation has its place here: an [`Itr`] goes with every write that enables
//! a vector. To throttle by it, a cause must also name ITR 0 in its ITR_INDX
//! field, where existing drivers write "no ITR" (control-path 2.5); a policy
//! that does so needs another `CAUSE` value below, GLINT_RATE for INTRL, and
//! nothing else of this crate.

use e810_hal::regs::{
    CAUSE_DISABLED, CAUSE_ENABLED, DYN_CTL_DISABLE, DYN_CTL_ENABLE, GLINT_CEQCTL, GLINT_DYN_CTL,
    ITR_MAX_US, ITR_UNIT_US, PFINT_AEQCTL,
};
use e810_hal::{Bus, CeqId, Vector, log_debug};

use crate::error::{Error, Result};

/// Interval that enabling a vector gives its timer 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Itr {
    units: u32,
}

impl Itr {
    /// No interval: what existing drivers use.
    pub const NONE: Self = Self { units: 0 };

    /// An interval of `us` µs, rounded down to the register's unit of 2 µs
    /// (control-path 2.4, 2.5).
    ///
    /// # Errors
    /// [`Error::Interval`] above 8160 µs.
    pub const fn from_us(us: u32) -> Result<Self> {
        if us > ITR_MAX_US {
            return Err(Error::Interval {
                us,
                max: ITR_MAX_US,
            });
        }
        Ok(Self {
            units: us / ITR_UNIT_US,
        })
    }

    /// The interval in µs.
    #[must_use]
    pub const fn us(self) -> u32 {
        self.units.wrapping_mul(ITR_UNIT_US)
    }
}

/// Enables a vector, for the first time or after its interrupt was handled:
/// GLINT_DYN_CTL(v) = 0x3 plus the interval.
#[inline]
pub fn enable_vector(bus: &(impl Bus + ?Sized), vector: Vector, itr: Itr) {
    let interval = GLINT_DYN_CTL::INTERVAL.val(itr.units).value;
    GLINT_DYN_CTL.at(vector).set(bus, DYN_CTL_ENABLE | interval);
}

/// Disables a vector: GLINT_DYN_CTL(v) = 0.
pub fn disable_vector(bus: &(impl Bus + ?Sized), vector: Vector) {
    GLINT_DYN_CTL.at(vector).set(bus, DYN_CTL_DISABLE);
}

/// Lets the CEQ interrupt through the vector: GLINT_CEQCTL(ceq) =
/// 0x40001800 | v.
pub fn enable_ceq_cause(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector) {
    GLINT_CEQCTL.at(ceq).set(bus, CAUSE_ENABLED | vector.get());
}

/// Stops the CEQ from interrupting: GLINT_CEQCTL(ceq) = 0x1800 | v.
pub fn disable_ceq_cause(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector) {
    GLINT_CEQCTL.at(ceq).set(bus, CAUSE_DISABLED | vector.get());
}

/// Lets the AEQ interrupt through the vector: PFINT_AEQCTL = 0x40001800 | v.
pub fn enable_aeq_cause(bus: &(impl Bus + ?Sized), vector: Vector) {
    PFINT_AEQCTL.set(bus, CAUSE_ENABLED | vector.get());
}

/// Stops the AEQ from interrupting: PFINT_AEQCTL = 0x1800 | v.
pub fn disable_aeq_cause(bus: &(impl Bus + ?Sized), vector: Vector) {
    PFINT_AEQCTL.set(bus, CAUSE_DISABLED | vector.get());
}

/// Binds a CEQ, after CREATE_CEQ: its cause, then its vector.
pub fn bind_ceq(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector, itr: Itr) {
    log_debug!("CEQ {} on vector {}", ceq.get(), vector.get());
    enable_ceq_cause(bus, ceq, vector);
    enable_vector(bus, vector, itr);
}

/// Unbinds a CEQ, before DESTROY_CEQ: its cause, then its vector. When CEQ 0
/// shares the AEQ's vector, the AEQ was unbound before.
///
/// Existing drivers leave out the cause when they remove a CEQ 0 that has a
/// vector of its own (control-path 8); here every CEQ is treated alike.
pub fn unbind_ceq(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector) {
    log_debug!("CEQ {} off vector {}", ceq.get(), vector.get());
    disable_ceq_cause(bus, ceq, vector);
    disable_vector(bus, vector);
}

/// Binds the AEQ, after CREATE_AEQ: its cause, then its vector, unless that is
/// shared with CEQ 0, which has enabled it already. The AEQ is not throttled.
pub fn bind_aeq(bus: &(impl Bus + ?Sized), vector: Vector, shared: bool) {
    log_debug!("AEQ on vector {}", vector.get());
    enable_aeq_cause(bus, vector);
    if !shared {
        enable_vector(bus, vector, Itr::NONE);
    }
}

/// Unbinds the AEQ, before DESTROY_AEQ: its cause and its vector, unless that
/// is shared with CEQ 0, which still needs it; then PFINT_AEQCTL = 0 in both
/// cases.
pub fn unbind_aeq(bus: &(impl Bus + ?Sized), vector: Vector, shared: bool) {
    log_debug!("AEQ off vector {}", vector.get());
    if !shared {
        disable_aeq_cause(bus, vector);
        disable_vector(bus, vector);
    }
    PFINT_AEQCTL.set(bus, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use e810_hal::Off;
    use std::vec::Vec;

    #[derive(Default)]
    struct Log(RefCell<Vec<(u32, u32)>>);

    impl Bus for Log {
        fn read32(&self, _: Off) -> u32 {
            panic!("interrupt registers are written, never read back")
        }
        fn write32(&self, off: Off, value: u32) {
            self.0.borrow_mut().push((off.get(), value));
        }
    }

    const DYN_CTL: u32 = 0x16_0000;
    const CEQCTL: u32 = 0x15_C000;
    const AEQCTL: u32 = 0x16_CB00;

    fn writes(act: impl FnOnce(&Log)) -> Vec<(u32, u32)> {
        let log = Log::default();
        act(&log);
        log.0.into_inner()
    }

    fn vector(index: u16) -> Vector {
        Vector::new(index).unwrap()
    }

    #[test]
    fn a_ceq_is_bound_cause_first_and_unbound_cause_first() {
        let ceq = CeqId::new(7).unwrap();
        assert_eq!(
            writes(|bus| bind_ceq(bus, ceq, vector(5), Itr::NONE)),
            [(CEQCTL + 28, 0x4000_1805), (DYN_CTL + 20, 0x3)]
        );
        assert_eq!(
            writes(|bus| unbind_ceq(bus, ceq, vector(5))),
            [(CEQCTL + 28, 0x1805), (DYN_CTL + 20, 0)]
        );
    }

    #[test]
    fn the_aeq_leaves_a_shared_vector_alone() {
        assert_eq!(
            writes(|bus| bind_aeq(bus, vector(2047), false)),
            [(AEQCTL, 0x4000_1FFF), (DYN_CTL + 8188, 0x3)]
        );
        assert_eq!(
            writes(|bus| unbind_aeq(bus, vector(1), false)),
            [(AEQCTL, 0x1801), (DYN_CTL + 4, 0), (AEQCTL, 0)]
        );
        assert_eq!(
            writes(|bus| bind_aeq(bus, vector(1), true)),
            [(AEQCTL, 0x4000_1801)]
        );
        assert_eq!(
            writes(|bus| unbind_aeq(bus, vector(1), true)),
            [(AEQCTL, 0)]
        );
    }

    #[test]
    fn intervals_are_in_units_of_2_us() {
        let enable = |us| writes(|bus| enable_vector(bus, vector(0), Itr::from_us(us).unwrap()));
        assert_eq!(enable(20), [(DYN_CTL, 0x143)]);
        assert_eq!(enable(1), [(DYN_CTL, 0x3)]);
        assert_eq!(enable(8160), [(DYN_CTL, 4080 << 5 | 3)]);
        assert_eq!(Itr::from_us(21).map(Itr::us), Ok(20));
        assert_eq!(
            Itr::from_us(8161),
            Err(Error::Interval {
                us: 8161,
                max: 8160
            })
        );
        assert_eq!(Itr::default(), Itr::NONE);
    }
}
