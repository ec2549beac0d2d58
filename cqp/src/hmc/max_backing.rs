//! Upper bound of the host memory that an HMC takes, computed in constants
//! before it is created.

use super::capacity::{Backing, Capacity};
use super::layout::{BASE_UNIT, PAGE_BYTES, SEGMENT_BYTES, align_up};
use super::object::Object;
use super::plan::{Plan, wanted};
use super::query::FpmQuery;
use super::store::ahead;

impl Plan {
    /// Upper limit of the host memory that backs the objects of `capacity` before the first PBLE
    /// is used, on a device whose limits are `query` and that packs objects
    /// ([`Layout::packed`](super::Layout::packed), `[inf packed_objects]`). With [`Backing::Full`]
    /// it is [`Plan::backing_bytes`]; with [`Backing::OnDemand`] it includes one more page for each
    /// segment, and what is allocated ahead with the page of the first CQ. Does not check whether
    /// the device has as many objects.
    #[must_use]
    pub const fn max_backing_bytes(query: &FpmQuery, capacity: &Capacity, backing: Backing) -> u64 {
        let qps = match capacity.qps.checked_next_power_of_two() {
            Some(qps) => qps,
            None => return u64::MAX,
        };
        let wanted = wanted(query, capacity, qps, backing);
        let (mut base, mut pages, mut segments) = (0u64, Run::NONE, Run::NONE);
        let mut rest: &[Object] = &Object::ALL;
        while let [object, others @ ..] = rest {
            rest = others;
            let (from, size) = (base, query.limits(*object).bytes as u64);
            let end = from.saturating_add(wanted.get(*object).saturating_mul(size));
            base = align_up(end, BASE_UNIT);
            let waits = matches!(backing, Backing::OnDemand) && object.is_deferrable();
            if end > from && !waits && !matches!(object, Object::Pble) {
                pages.add(from, end, PAGE_BYTES);
                segments.add(from, end, SEGMENT_BYTES);
            }
        }
        match backing {
            Backing::Full => segments.count.saturating_mul(SEGMENT_BYTES),
            Backing::OnDemand => {
                let pages = pages.count.saturating_add(segments.count);
                let bytes = pages.saturating_mul(PAGE_BYTES);
                bytes.saturating_add(ahead(bytes))
            }
        }
    }
}

/// Pieces of one size that addresses touch; the addresses are given in rising order.
#[derive(Clone, Copy)]
struct Run {
    count: u64,
    /// The pieces before it are counted.
    next: u64,
}

impl Run {
    const NONE: Self = Self { count: 0, next: 0 };

    /// Counts the pieces of `piece` bytes that `from..end` touches.
    const fn add(&mut self, from: u64, end: u64, piece: u64) {
        let first = from / piece;
        let first = if first < self.next { self.next } else { first };
        let next = end.div_ceil(piece);
        if next > first {
            self.count = self.count.saturating_add(next.wrapping_sub(first));
            self.next = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hmc::query::ObjectLimits;
    use crate::hmc::testing::{query, query_with};
    use proptest::prelude::*;

    /// A constant computes it.
    const SMALL: u64 = Plan::max_backing_bytes(
        &FpmQuery::NOTHING.with(
            Object::Qp,
            ObjectLimits {
                max: 64,
                bytes: 1024,
            },
        ),
        &Capacity {
            qps: 5,
            cqs: 0,
            mrs: 0,
            ahs: 0,
            arps: 0,
            mcast_groups: 0,
            pbles: 0,
        },
        Backing::Full,
    );

    #[test]
    fn eight_queue_pairs_are_one_segment() {
        assert_eq!(SMALL, SEGMENT_BYTES);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 512 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn it_is_what_a_plan_takes(
            qps in 4u32..5000, cqs in 4u32..9000, mrs in 2u32..100_000, ahs in 1u32..100_000,
            arps in 2u32..4096, mcast_groups in 0u32..4096, pbles in 0u32..1 << 20,
            md in prop_oneof![Just(65_536u64), 0u64..500_000], on_demand: bool,
        ) {
            let query = if md == 65_536 { query() } else { query_with(&[(152, md)]) };
            let capacity = Capacity { qps, cqs, mrs, ahs, arps, mcast_groups, pbles };
            let backing = if on_demand { Backing::OnDemand } else { Backing::Full };
            let plan = Plan::new(&query, &capacity, backing).unwrap();
            let (exact, max_backing_bytes) = (plan.backing_bytes(&query).unwrap(), Plan::max_backing_bytes(&query, &capacity, backing));
            let most = if on_demand {
                let paged = exact + plan.segments(&query) * PAGE_BYTES;
                paged + ahead(paged)
            } else {
                exact
            };
            prop_assert!(exact <= max_backing_bytes && max_backing_bytes <= most, "{exact}, {max_backing_bytes}");
        }
    }
}
