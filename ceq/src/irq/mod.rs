//! Programming interrupt vectors: which cause goes to which, on and off, and
//! how long it waits.
//!
//! The order is fixed (control-path 8): a queue is created, then bound; it is
//! unbound, then destroyed. A vector masks itself when it fires
//! (control-path 2.4 `[inf auto_mask]`), and [`enable_vector`] is written again once its
//! queues are empty.
//!
//! A vector has three timers and a rate limit (docs/hardware-notes.md, "Throttling"). A cause
//! names the [`Timer`] that delays it, where existing drivers of the engine name none. The write
//! that enables the vector carries the interval, so it takes no extra access. Call [`set_units`]
//! first: without it intervals may have no length.

use e810_hal::regs::{DYN_CTL_DISABLE, DYN_CTL_ENABLE, GLINT_CEQCTL, GLINT_DYN_CTL, PFINT_AEQCTL};
use e810_hal::{Bus, CeqId, Vector, log_debug};

mod interval;

pub use interval::{
    Doubled, Intrl, Itr, Timer, Units, interval, limit_rate, rate_limit, set_interval, set_units,
};

/// Enables a vector, for the first time or after its interrupt was handled, and sets the interval
/// of one of its timers: GLINT_DYN_CTL(v) = 0x3 plus timer and interval. With [`Timer::None`],
/// 0x1B, all intervals stay as they are.
#[inline]
pub fn enable_vector(bus: &(impl Bus + ?Sized), vector: Vector, timer: Timer, itr: Itr) {
    GLINT_DYN_CTL
        .at(vector)
        .set(bus, DYN_CTL_ENABLE | itr.dyn_ctl(timer));
}

/// Returns when the write of [`enable_vector`] has reached the device: reads do not pass writes. What
/// came before then is in the queues.
pub fn wait_enabled(bus: &(impl Bus + ?Sized), vector: Vector) {
    let _ = GLINT_DYN_CTL.at(vector).get(bus);
}

/// Disables a vector: GLINT_DYN_CTL(v) = 0.
pub fn disable_vector(bus: &(impl Bus + ?Sized), vector: Vector) {
    GLINT_DYN_CTL.at(vector).set(bus, DYN_CTL_DISABLE);
}

/// A cause register: vector, timer and whether it is on. GLINT_CEQCTL and
/// PFINT_AEQCTL share the layout.
const fn cause(vector: Vector, timer: Timer) -> u32 {
    GLINT_CEQCTL::ITR_INDX.val(timer.field()).value | vector.get()
}

const ENABLED: u32 = GLINT_CEQCTL::CAUSE_ENA::SET.value;

/// Lets the CEQ interrupt through the vector, delayed by one of its timers: GLINT_CEQCTL(ceq) =
/// 0x40000000 | timer << 11 | v.
pub fn enable_ceq_cause(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector, timer: Timer) {
    GLINT_CEQCTL
        .at(ceq)
        .set(bus, ENABLED | cause(vector, timer));
}

/// Stops the CEQ from interrupting: GLINT_CEQCTL(ceq) = timer << 11 | v.
pub fn disable_ceq_cause(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector, timer: Timer) {
    GLINT_CEQCTL.at(ceq).set(bus, cause(vector, timer));
}

/// Lets the AEQ interrupt through the vector, delayed by no timer:
/// PFINT_AEQCTL = 0x40001800 | v.
pub fn enable_aeq_cause(bus: &(impl Bus + ?Sized), vector: Vector) {
    PFINT_AEQCTL.set(bus, ENABLED | cause(vector, Timer::None));
}

/// Stops the AEQ from interrupting: PFINT_AEQCTL = 0x1800 | v.
pub fn disable_aeq_cause(bus: &(impl Bus + ?Sized), vector: Vector) {
    PFINT_AEQCTL.set(bus, cause(vector, Timer::None));
}

/// The timer that delays a CEQ's interrupts: ITR 0, which the card uses by default; on the AEQ's
/// vector ITR 1, because there ITR 0 is that of the other causes (control-path 2.6).
#[must_use]
pub const fn ceq_timer(shared: bool) -> Timer {
    if shared { Timer::Itr1 } else { Timer::Itr0 }
}

/// Binds a CEQ, after CREATE_CEQ: first clears the limit of the vector's rate, which an earlier
/// driver may have left (a PF reset does not clear it), then sets the CEQ's cause, then enables
/// its vector.
pub fn bind_ceq(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector, timer: Timer, itr: Itr) {
    log_debug!("CEQ {} on vector {}", ceq.get(), vector.get());
    limit_rate(bus, vector, Intrl::NONE);
    enable_ceq_cause(bus, ceq, vector, timer);
    enable_vector(bus, vector, timer, itr);
}

/// Unbinds a CEQ, before DESTROY_CEQ: its cause, then its vector. It leaves no limit for a later
/// driver. If CEQ 0 shares the AEQ's vector, the AEQ was unbound before.
///
/// Existing drivers leave out the cause when they remove a CEQ 0 that has a vector of its own
/// (control-path 8); here every CEQ is treated alike.
pub fn unbind_ceq(bus: &(impl Bus + ?Sized), ceq: CeqId, vector: Vector, timer: Timer) {
    log_debug!("CEQ {} off vector {}", ceq.get(), vector.get());
    disable_ceq_cause(bus, ceq, vector, timer);
    disable_vector(bus, vector);
    limit_rate(bus, vector, Intrl::NONE);
}

/// Binds the AEQ, after CREATE_AEQ: its cause, then its vector, unless CEQ 0 shares it and has
/// enabled it already. The AEQ is not throttled; the vector's timers keep the intervals of the
/// other causes.
pub fn bind_aeq(bus: &(impl Bus + ?Sized), vector: Vector, shared: bool) {
    log_debug!("AEQ on vector {}", vector.get());
    enable_aeq_cause(bus, vector);
    if !shared {
        enable_vector(bus, vector, Timer::None, Itr::NONE);
    }
}

/// Unbinds the AEQ, before DESTROY_AEQ: its cause and its vector, unless CEQ 0 shares the vector
/// and still needs it; then PFINT_AEQCTL = 0 in both cases.
pub fn unbind_aeq(bus: &(impl Bus + ?Sized), vector: Vector, shared: bool) {
    log_debug!("AEQ off vector {}", vector.get());
    if !shared {
        disable_aeq_cause(bus, vector);
        disable_vector(bus, vector);
    }
    PFINT_AEQCTL.set(bus, 0);
}

#[cfg(test)]
mod tests;
