//! How many objects to commit (control-path 6.5, for our own number of QPs).

use e810_hal::log_warn;

use super::capacity::{Backing, Capacity};
use super::derived::derived_counts;
use super::layout::{Layout, align_up, segments_of};
use super::object::{Object, PerObject};
use super::query::FpmQuery;
use crate::error::{Error, Result};
use crate::limits::{RESERVED_CQS, RESERVED_QPS};

/// PBLEs of a 4 KiB page: the first usable PBLE lies on a page boundary, so up to this many are
/// lost (control-path 6.7).
pub(super) const PBLES_PER_PAGE: u32 = 512;
/// PBLE indexes have 28 bits.
const MAX_PBLES: u32 = 1 << 28;
/// Objects are counted in blocks of this many bytes.
const SIZE_UNIT: u64 = 512;

/// The counts to commit, and what they cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Plan {
    /// Counts by kind.
    pub counts: PerObject<u32>,
    /// The policy the counts are for.
    pub backing: Backing,
}

/// What one kind of object takes in function-private memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Footprint {
    /// Objects.
    pub count: u32,
    /// Bytes, rounded up to 512.
    pub bytes: u64,
    /// Segments of 2 MiB, if it had them to itself.
    pub segments: u64,
}

impl Plan {
    /// Counts for `capacity` on the device that gave `query`.
    ///
    /// QPs, CQs, regions, address handles, ARP entries, groups and PBLEs follow the capacity.
    /// HTE, XF, Q1, TIMER, RRF, HDR and the free lists follow the number of QPs by the formulas
    /// of existing drivers. MD has no formula there. With [`Backing::Full`] it is the device's
    /// maximum, as in existing drivers; with [`Backing::OnDemand`] it is the same share of its
    /// maximum as the QPs are of theirs, and at least one for each QP `[inf md_share]`.
    ///
    /// Of the counts that follow from the number of QPs only Q1's is checked against the device's
    /// maximum, as in existing drivers. Any other that exceeds its maximum is logged and
    /// committed: COMMIT_FPM_VAL decides.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a capacity below what is reserved,
    /// [`Error::Capacity`] when the device has fewer of an object,
    /// [`Error::Segments`] when they do not fit together.
    pub fn new(query: &FpmQuery, capacity: &Capacity, backing: Backing) -> Result<Self> {
        check_reserved(capacity)?;
        let qps = capacity.qps.checked_next_power_of_two();
        let qps = qps.ok_or(Error::Capacity {
            object: Object::Qp,
            wanted: u64::from(capacity.qps),
            max: u64::from(query.limits(Object::Qp).max),
        })?;
        let counts = within_limits(&wanted(query, capacity, qps, backing), query)?;
        let plan = Self { counts, backing };
        let (needed, max) = (plan.segments(query), u64::from(query.max_sds));
        if needed > max {
            return Err(Error::Segments { needed, max });
        }
        Ok(plan)
    }

    /// As [`Plan::new`], but for no more than the device has. If the device has fewer of an
    /// object, the plan has all of those. Until all fits, it then halves PBLEs first, and after
    /// them queue pairs and regions, as existing drivers search for what fits.
    ///
    /// # Errors
    /// As there, when nothing is left to reduce.
    pub fn at_most(query: &FpmQuery, capacity: &Capacity, backing: Backing) -> Result<Self> {
        let mut less = capacity.within(query);
        loop {
            let error = match Self::new(query, &less, backing) {
                Err(error @ (Error::Capacity { .. } | Error::Segments { .. })) => error,
                plan => return plan,
            };
            // Pages of regions go first: most regions have few.
            let object = match error {
                Error::Capacity { object, .. } => Some(object),
                _ => None,
            };
            if matches!(object, None | Some(Object::Pble)) && less.pbles / 2 > less.mrs {
                less.pbles /= 2;
                continue;
            }
            if less.qps / 2 <= RESERVED_QPS || less.mrs / 2 <= 1 {
                return Err(error);
            }
            less.qps /= 2;
            less.mrs /= 2;
        }
    }

    /// What one kind takes.
    #[must_use]
    pub fn footprint(&self, query: &FpmQuery, object: Object) -> Footprint {
        footprint(&self.counts, query, object)
    }

    /// Bytes of function-private memory.
    #[must_use]
    pub fn bytes(&self, query: &FpmQuery) -> u64 {
        total_bytes(&self.counts, query)
    }

    /// Segments of function-private memory.
    #[must_use]
    pub fn segments(&self, query: &FpmQuery) -> u64 {
        segments_of(self.bytes(query))
    }

    /// Host memory that will back the objects before the first PBLE is used,
    /// if the device packs them ([`Layout::packed`], `[inf packed_objects]`). After the commit
    /// [`Hmc::backed_bytes`](super::Hmc::backed_bytes) is exact.
    ///
    /// # Errors
    /// [`Error::Segments`].
    pub fn backing_bytes(&self, query: &FpmQuery) -> Result<u64> {
        let layout = Layout::packed(&self.counts, query)?;
        Ok(super::need::backing_bytes(&layout, self.backing))
    }
}

fn check_reserved(capacity: &Capacity) -> Result<()> {
    let enough = capacity.qps > RESERVED_QPS
        && capacity.cqs > RESERVED_CQS
        && capacity.mrs > 1
        && capacity.arps > 1;
    if enough {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "the capacity leaves nothing beside the reserved ids: \
               at least 4 QPs, 4 CQs, 2 regions and 2 ARP entries are needed",
    })
}

/// The counts, whether the device has as many or not.
pub(super) const fn wanted(
    query: &FpmQuery,
    capacity: &Capacity,
    qps: u32,
    backing: Backing,
) -> PerObject<u64> {
    let (qps, groups) = (qps as u64, capacity.groups() as u64);
    let mut wanted = PerObject::all(0);
    wanted.set(Object::Qp, qps);
    wanted.set(Object::Cq, capacity.cqs as u64);
    wanted.set(Object::Mr, capacity.mrs as u64);
    wanted.set(Object::FsiAv, capacity.ahs as u64);
    wanted.set(Object::Arp, capacity.arps as u64);
    wanted.set(Object::FsiMc, groups);
    wanted.set(Object::Apbvt, 1);
    wanted.set(Object::Pble, pbles(capacity));
    wanted.set(Object::Md, md(query, qps, backing));
    let mut rest: &[(Object, u64)] = &derived_counts(query, qps, groups);
    while let [(object, count), others @ ..] = rest {
        wanted.set(*object, *count);
        rest = others;
    }
    wanted
}

/// PBLEs to commit: the wanted ones, at least a page of them (control-path 6.7), plus those lost
/// by rounding the base up.
pub(super) const fn pbles(capacity: &Capacity) -> u64 {
    let wanted = if capacity.pbles == 0 {
        1
    } else {
        capacity.pbles
    };
    let whole = align_up(wanted as u64, PBLES_PER_PAGE as u64);
    whole.saturating_add(PBLES_PER_PAGE as u64)
}

const fn md(query: &FpmQuery, qps: u64, backing: Backing) -> u64 {
    let max = query.limits(Object::Md).max as u64;
    let all_qps = query.limits(Object::Qp).max as u64;
    match (backing, max.saturating_mul(qps).checked_div(all_qps)) {
        (Backing::Full, _) | (_, None) => max,
        (Backing::OnDemand, Some(share)) => {
            let share = if share < qps { qps } else { share };
            if share < max { share } else { max }
        }
    }
}

/// The counts, unless the device has fewer of an object that it must have.
fn within_limits(wanted: &PerObject<u64>, query: &FpmQuery) -> Result<PerObject<u32>> {
    let mut counts = PerObject::default();
    for (object, wanted) in wanted.iter() {
        let limit = query.limits(object).max;
        let limit = if object == Object::Pble {
            limit.min(MAX_PBLES)
        } else {
            limit
        };
        match u32::try_from(wanted) {
            Ok(count) if count <= limit => counts.set(object, count),
            Ok(count) if object.is_derived() => {
                log_warn!(
                    "{} {} objects follow from the number of QPs; the device's maximum is {}: committed all the same",
                    count,
                    object.name(),
                    limit
                );
                counts.set(object, count);
            }
            _ => {
                return Err(Error::Capacity {
                    object,
                    wanted,
                    max: u64::from(limit),
                });
            }
        }
    }
    Ok(counts)
}

pub(super) fn footprint(counts: &PerObject<u32>, query: &FpmQuery, object: Object) -> Footprint {
    let count = counts.get(object);
    let bytes = u64::from(count).saturating_mul(u64::from(query.limits(object).bytes));
    let bytes = align_up(bytes, SIZE_UNIT);
    Footprint {
        count,
        bytes,
        segments: segments_of(bytes),
    }
}

/// Sum over all kinds, each rounded up to 512 bytes.
pub(super) fn total_bytes(counts: &PerObject<u32>, query: &FpmQuery) -> u64 {
    Object::ALL
        .iter()
        .map(|object| footprint(counts, query, *object).bytes)
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
