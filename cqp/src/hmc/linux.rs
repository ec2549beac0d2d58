//! The counts that existing drivers would commit, for comparison (control-path 6.5), and the
//! formulas that [`Plan`](super::Plan) shares with them.

use super::capacity::Backing;
use super::layout::{Layout, align_up, segments_of};
use super::need::backing_bytes;
use super::object::{Object, PerObject};
use super::plan::total_bytes;
use super::query::FpmQuery;
use crate::error::{Error, Result};

/// Greatest QP count of existing drivers.
const MAX_QPS: u64 = 262_144;
/// Passes of the loop that makes everything fit.
const MAX_PASSES: u32 = 2000;
/// Unit of the reductions.
const STEP: u64 = 1024;
/// QP counts are not halved below this.
const FEW_QPS: u64 = 128;
/// Multicast and address vector counts are not halved below this.
const FEW_FSI: u64 = 256;

/// What the derived counts depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Derived {
    pub(super) qps: u64,
    pub(super) groups: u64,
}

/// Q1 entries in RoCE mode.
const fn q1_count(qps: u64) -> u64 {
    power_of_two(qps.saturating_mul(127 * 2).saturating_add(512))
}

/// The next power of two, as far as there is one.
const fn power_of_two(count: u64) -> u64 {
    match count.checked_next_power_of_two() {
        Some(power) => power,
        None => u64::MAX,
    }
}

/// `count` in blocks; no blocks of size 0.
const fn blocks(count: u64, block: u32) -> u64 {
    match count.checked_div(block as u64) {
        Some(blocks) => blocks,
        None => 0,
    }
}

/// Counts that follow from the number of QPs.
pub(super) const fn derived(query: &FpmQuery, from: Derived) -> [(Object, u64); 9] {
    let Derived { qps, groups } = from;
    let hashed = power_of_two(align_up(qps.saturating_add(groups), 512));
    let xf = (qps.saturating_mul(4)).saturating_mul(query.xf_block as u64);
    let q1 = q1_count(qps);
    let rrf = if query.limits(Object::Rrf).max == 0 {
        0
    } else {
        qps.saturating_mul(32)
    };
    let rrf_blocks = if query.limits(Object::RrfFl).max == 0 {
        0
    } else {
        blocks(rrf, query.rrf_block)
    };
    let timers = qps.div_ceil(512).saturating_add(1);
    [
        (
            Object::Hte,
            hashed.saturating_mul(query.hash_multiplier as u64),
        ),
        (Object::Xf, xf),
        (Object::XfFl, blocks(xf, query.xf_block)),
        (Object::Q1, q1),
        (Object::Q1Fl, blocks(q1, query.q1_block)),
        (
            Object::Timer,
            timers.saturating_mul(query.timer_bucket as u64),
        ),
        (Object::Rrf, rrf),
        (Object::RrfFl, rrf_blocks),
        (Object::Hdr, qps),
    ]
}

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
        let from = Derived {
            qps: self.qps,
            groups: self.groups,
        };
        for (object, count) in derived(query, from) {
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

/// Counts and segments as existing drivers would choose them, with their
/// default HMC profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LinuxPlan {
    /// Counts by kind.
    pub counts: PerObject<u32>,
    /// Bytes of function-private memory, PBLEs included.
    pub bytes: u64,
    /// Segments of 2 MiB.
    pub segments: u64,
    /// Passes of the loop that made everything fit.
    pub passes: u32,
}

impl LinuxPlan {
    /// Host memory that existing drivers would allocate for it before the first PBLE is used, if
    /// the device packs the objects ([`Layout::packed`](super::Layout::packed), `[inf]`).
    ///
    /// # Errors
    /// [`Error::Segments`].
    pub fn backing_bytes(&self, query: &FpmQuery) -> Result<u64> {
        let layout = Layout::packed(&self.counts, query)?;
        Ok(backing_bytes(&layout, Backing::Full))
    }
}

/// What existing drivers would commit on the device that gave `query`; this driver never commits
/// it. Bounded: at most 2000 passes.
///
/// # Errors
/// [`Error::Capacity`] when Q1 has fewer than 512 entries (existing drivers
/// would loop for ever), [`Error::Segments`] when nothing makes it fit.
pub fn linux_plan(query: &FpmQuery) -> Result<LinuxPlan> {
    linux_plan_for(query, MAX_QPS)
}

/// [`linux_plan`] limited to `qp_limit` QPs, as in the smaller entries of the limit tables of
/// older drivers.
///
/// # Errors
/// As [`linux_plan`].
pub fn linux_plan_for(query: &FpmQuery, qp_limit: u64) -> Result<LinuxPlan> {
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
        let mut counts = wanted.counts(query);
        let bytes = total_bytes(&counts, query);
        needed = segments_of(bytes);
        let Some(excess) = needed.checked_sub(limit).filter(|excess| *excess > 0) else {
            if pass > 1 {
                let spare = limit.saturating_sub(needed);
                let pbles = wanted.pbles.saturating_add(spare * 256 * STEP);
                counts.set(Object::Pble, u32::try_from(pbles).unwrap_or(u32::MAX));
            }
            let bytes = total_bytes(&counts, query);
            return Ok(LinuxPlan {
                counts,
                bytes,
                segments: segments_of(bytes),
                passes: pass,
            });
        };
        wanted.shrink(pass, excess);
    }
    Err(Error::Segments { needed, max: limit })
}

/// A power of two of QPs whose Q1 entries the device has.
fn first_qp_count(query: &FpmQuery, qp_limit: u64) -> Result<u64> {
    let q1_max = u64::from(query.limits(Object::Q1).max);
    let most = u64::from(query.limits(Object::Qp).max).min(qp_limit);
    let mut qps = most.checked_ilog2().map_or(0, |log| 1u64 << log);
    while qps > 0 && q1_count(qps) > q1_max {
        qps /= 2;
    }
    if q1_count(qps) > q1_max {
        return Err(Error::Capacity {
            object: Object::Q1,
            wanted: q1_count(qps),
            max: q1_max,
        });
    }
    Ok(qps)
}

#[cfg(test)]
mod tests;
