//! The counts that Linux' irdma would commit, for comparison (control-path 6.5).

use anyhow::{Result, bail};
use e810::hmc::{Backing, FpmQuery, Object, PerObject, Plan, derived_counts};

/// Greatest QP count.
const MAX_QPS: u64 = 262_144;
/// Passes of the loop that makes everything fit.
const MAX_PASSES: u32 = 2000;
/// Unit of the reductions.
const STEP: u64 = 1024;
/// QP counts are not halved below this.
const FEW_QPS: u64 = 128;
/// Multicast and address vector counts are not halved below this.
const FEW_FSI: u64 = 256;

/// The counts that the loop changes.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    qps: u64,
    mrs: u64,
    pbles: u64,
    groups: u64,
    handles: u64,
}

impl Wanted {
    fn counts(&self, query: &FpmQuery) -> PerObject<u32> {
        let mut counts = PerObject::default();
        // Existing drivers keep counts in 32 bits.
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let mut set = |object, count: u64| counts.set(object, narrow(count));
        let max = |object| u64::from(query.limits(object).max);
        set(Object::Qp, self.qps);
        set(Object::Cq, self.qps.saturating_mul(2).min(max(Object::Cq)));
        set(Object::Arp, max(Object::Arp));
        set(Object::Apbvt, 1);
        set(Object::Mr, self.mrs);
        set(Object::FsiMc, self.groups);
        set(Object::FsiAv, self.handles);
        set(Object::Pble, self.pbles);
        set(Object::Md, max(Object::Md));
        for (object, count) in derived_counts(query, self.qps, self.groups) {
            set(object, count);
        }
        counts
    }

    fn halve(count: &mut u64, above: u64) {
        if *count > above {
            *count /= 2;
        }
    }

    /// One pass of reductions: `pass` counts from 1, `excess` is the number of
    /// segments too many.
    fn shrink(&mut self, pass: u32, excess: u64) {
        if excess > 128 {
            if pass.is_multiple_of(2) && self.qps > FEW_QPS {
                self.qps /= 2;
            } else {
                self.pbles /= 2;
                self.mrs /= 2;
            }
            return;
        }
        if self.pbles > 512 * STEP * excess {
            self.pbles = self.pbles.saturating_sub(256 * STEP * excess);
            return;
        }
        if self.pbles > 100 * STEP {
            self.pbles = self.pbles.saturating_sub(10 * STEP);
        } else if self.pbles > STEP {
            self.pbles = self.pbles.saturating_sub(STEP);
        } else if self.qps <= FEW_QPS {
            Self::halve(&mut self.groups, FEW_FSI);
            Self::halve(&mut self.handles, FEW_FSI);
        }
        if self.mrs > STEP {
            self.mrs = self.mrs.saturating_sub(STEP);
        }
        if pass.is_multiple_of(10) && self.qps > FEW_QPS {
            self.qps /= 2;
            Self::halve(&mut self.handles, FEW_FSI);
        }
    }
}

/// What Linux would commit, with its default HMC profile, on the device that gave `query`; this
/// driver never commits it.
///
/// # Errors
/// Q1 has fewer than 512 entries, with which Linux would loop for ever, or nothing makes it fit in
/// 2000 passes.
pub(super) fn linux_plan(query: &FpmQuery) -> Result<Plan> {
    linux_plan_for(query, MAX_QPS)
}

/// [`linux_plan`] limited to `qp_limit` QPs.
fn linux_plan_for(query: &FpmQuery, qp_limit: u64) -> Result<Plan> {
    let max = |object| u64::from(query.limits(object).max);
    let mut wanted = Wanted {
        qps: first_qp_count(query, qp_limit)?,
        mrs: max(Object::Mr),
        pbles: max(Object::Pble),
        groups: max(Object::FsiMc),
        handles: max(Object::FsiAv),
    };
    let limit = u64::from(query.max_sds);
    let mut needed = 0;
    for pass in 1..=MAX_PASSES {
        let mut plan = Plan {
            counts: wanted.counts(query),
            backing: Backing::Full,
        };
        needed = plan.segments(query);
        let excess = needed.saturating_sub(limit);
        if excess == 0 {
            if pass > 1 {
                let pbles = wanted.pbles.saturating_add((limit - needed) * 256 * STEP);
                let pbles = u32::try_from(pbles).unwrap_or(u32::MAX);
                plan.counts.set(Object::Pble, pbles);
            }
            return Ok(plan);
        }
        wanted.shrink(pass, excess);
    }
    bail!("{MAX_PASSES} reductions leave {needed} segments of 2 MiB, and the device has {limit}")
}

fn q1_count(query: &FpmQuery, qps: u64) -> u64 {
    let counts = derived_counts(query, qps, 0);
    let q1 = counts.iter().find(|(object, _)| *object == Object::Q1);
    q1.map_or(u64::MAX, |(_, count)| *count)
}

/// A power of two of QPs whose Q1 entries the device has.
fn first_qp_count(query: &FpmQuery, qp_limit: u64) -> Result<u64> {
    let q1_max = u64::from(query.limits(Object::Q1).max);
    let most = u64::from(query.limits(Object::Qp).max).min(qp_limit);
    let mut qps = most.checked_ilog2().map_or(0, |log| 1u64 << log);
    while qps > 0 && q1_count(query, qps) > q1_max {
        qps /= 2;
    }
    if q1_count(query, qps) > q1_max {
        bail!(
            "no queue pair fits: it needs {} Q1 entries, and the device has {q1_max}",
            q1_count(query, qps)
        );
    }
    Ok(qps)
}

#[cfg(test)]
mod tests;
