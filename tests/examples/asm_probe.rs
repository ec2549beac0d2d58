//! Register accesses whose machine code `tests/rules/asm.rs` reads.
//!
//! Not an example of use: each function is one access on a real BAR0, alone,
//! so that what the compiler made of it can be seen.

use e810_hal::bar::{Bar0, DoorbellPage};
use e810_hal::bus::{CeqId, ItrIndex, Vector};
use e810_hal::regs::{
    CAUSE_ENABLED, DB_WQE_ALLOC, DYN_CTL_ENABLE, GLINT_CEQCTL, GLINT_DYN_CTL, GLINT_ITR,
    PFPE_CQARM, PFPE_CQPDB, PFPE_CQPTAIL,
};

const VECTOR_5: Vector = match Vector::new(5) {
    Some(vector) => vector,
    None => unreachable!(),
};

/// Rings the control QP.
#[unsafe(no_mangle)]
pub fn probe_cqp_doorbell(bar: Bar0, head: u32) {
    PFPE_CQPDB.set(&bar, head);
}

/// As above, by field: a mask, no branch.
#[unsafe(no_mangle)]
pub fn probe_cqp_doorbell_field(bar: Bar0, head: u32) {
    PFPE_CQPDB.write(&bar, PFPE_CQPDB::WQHEAD.val(head));
}

/// Rings a send queue through the doorbell page.
#[unsafe(no_mangle)]
pub fn probe_send_doorbell(bar: Bar0, qp: u32) {
    DB_WQE_ALLOC.set(&bar, qp);
}

/// Arms a completion queue as a program does that has the doorbell page alone: the register is
/// found at compile time.
#[unsafe(no_mangle)]
pub fn probe_page_arm(page: DoorbellPage, cq: u32) {
    PFPE_CQARM.set(&page, cq);
}

/// Enables a vector known at compile time.
#[unsafe(no_mangle)]
pub fn probe_enable_vector_5(bar: Bar0) {
    GLINT_DYN_CTL.at(VECTOR_5).write(
        &bar,
        GLINT_DYN_CTL::INTENA::SET + GLINT_DYN_CTL::CLEARPBA::SET,
    );
}

/// Enables a vector known at run time: no bounds check.
#[unsafe(no_mangle)]
pub fn probe_enable_vector(bar: Bar0, vector: Vector) {
    GLINT_DYN_CTL.at(vector).set(&bar, DYN_CTL_ENABLE);
}

/// Binds a CEQ to a vector: one access, whatever else is computed.
#[unsafe(no_mangle)]
pub fn probe_bind_ceq(bar: Bar0, ceq: CeqId, vector: Vector) {
    GLINT_CEQCTL.at(ceq).set(&bar, CAUSE_ENABLED | vector.get());
}

/// Sets an interval, chosen by two indexes.
#[unsafe(no_mangle)]
pub fn probe_set_interval(bar: Bar0, timer: ItrIndex, vector: Vector, interval: u32) {
    GLINT_ITR.at(timer, vector).set(&bar, interval);
}

/// Reads how far the control QP is.
#[unsafe(no_mangle)]
pub fn probe_read_cqp_tail(bar: Bar0) -> u32 {
    PFPE_CQPTAIL.get(&bar)
}

fn main() {}
