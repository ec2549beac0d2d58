use super::*;
use crate::hmc::testing::{query, query_with, query_with_segments};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

#[test]
fn the_default_follows_the_capacity() {
    let query = query();
    let plan = Plan::new(&query, &Capacity::DEFAULT, Backing::Full).unwrap();
    let expected = [
        (Object::Qp, 64),
        (Object::Cq, 128),
        (Object::Srq, 0),
        (Object::Hte, 512),
        (Object::Arp, 256),
        (Object::Apbvt, 1),
        (Object::Mr, 1024),
        (Object::Xf, 4 * 8 * 64),
        (Object::XfFl, 4 * 64),
        (Object::Q1, 32768),
        (Object::Q1Fl, 4096),
        (Object::Timer, 2 * 512),
        (Object::FsiMc, 16),
        (Object::FsiAv, 64),
        (Object::Pble, 0x4_0000 + 512),
        (Object::Rrf, 32 * 64),
        (Object::RrfFl, 256),
        (Object::Hdr, 64),
        (Object::Md, 65536),
        (Object::OoIsc, 0),
        (Object::OoIscFl, 0),
    ];
    for (object, count) in expected {
        assert_eq!(plan.counts.get(object), count, "{object}");
    }
}

/// The device of the tests has sizes like those of a card with much of
/// everything; the real ones are not in the sources.
#[test]
fn the_default_is_small() {
    let query = query();
    let full = Plan::new(&query, &Capacity::DEFAULT, Backing::Full).unwrap();
    let bytes = full.backing_bytes(&query).unwrap();
    assert!(bytes <= 16 * MIB, "{bytes}");
    let lazy = Plan::new(&query, &Capacity::DEFAULT, Backing::OnDemand).unwrap();
    let bytes = lazy.backing_bytes(&query).unwrap();
    assert!(bytes <= 4 * MIB, "{bytes}");
    assert_eq!(lazy.counts.get(Object::Md), 64);
}

/// Wherever the other objects leave their base, a page of them can be used.
#[test]
fn without_pbles_there_are_as_many_as_there_have_to_be() {
    for ahs in 0..70 {
        let capacity = Capacity {
            ahs,
            pbles: 0,
            ..Capacity::DEFAULT
        };
        let query = query();
        let plan = Plan::new(&query, &capacity, Backing::Full).unwrap();
        let layout = Layout::packed(&plan.counts, &query).unwrap();
        let pbles = layout.area(Object::Pble);
        let lost = (pbles.base.next_multiple_of(4096) - pbles.base) / 8;
        assert!(u64::from(pbles.count) - lost >= 512, "{ahs}: {pbles:?}");
    }
}

#[test]
fn what_the_device_does_not_have_is_an_error() {
    let capacity = Capacity::DEFAULT;
    let refused = |offset, max| {
        Plan::new(&query_with(&[(offset, max)]), &capacity, Backing::Full).unwrap_err()
    };
    let too_few = |object, wanted, max| Error::Capacity {
        object,
        wanted,
        max,
    };
    assert_eq!(refused(8, 32), too_few(Object::Qp, 64, 32));
    assert_eq!(refused(16, 127), too_few(Object::Cq, 128, 127));
    assert_eq!(refused(48, 1), too_few(Object::Mr, 1024, 1));
    assert_eq!(refused(72, 32767), too_few(Object::Q1, 32768, 32767));
    assert_eq!(refused(104, 63), too_few(Object::FsiAv, 64, 63));
    assert_eq!(
        refused(112, 0x4_0000),
        too_few(Object::Pble, 0x4_0200, 0x4_0000)
    );
    let segments = Plan::new(&query_with_segments(2), &capacity, Backing::Full);
    assert!(matches!(segments, Err(Error::Segments { max: 2, .. })));
}

/// Of what follows from the number of QPs existing drivers compare Q1 alone.
#[test]
fn derived_counts_are_not_held_against_the_maxima() {
    let words = [
        (32, 0),
        (56, 1),
        (64, 1),
        (80, 1),
        (88, 0),
        (136, 1),
        (144, 0),
    ];
    let plan = Plan::new(&query_with(&words), &Capacity::DEFAULT, Backing::Full).unwrap();
    let plain = Plan::new(&query(), &Capacity::DEFAULT, Backing::Full).unwrap();
    assert_eq!(
        plan, plain,
        "maxima of HTE, XF, TIMER, HDR and the lists do not count"
    );
    // No RRF at all: no RRF is asked for.
    let none = query_with(&[(128, 0), (136, 0)]);
    let plan = Plan::new(&none, &Capacity::DEFAULT, Backing::Full).unwrap();
    let of = |object| plan.counts.get(object);
    assert_eq!((of(Object::Rrf), of(Object::RrfFl)), (0, 0));
}

#[test]
fn senseless_capacities_are_refused() {
    let plan = |capacity| Plan::new(&query(), &capacity, Backing::Full);
    let good = Capacity::DEFAULT;
    for bad in [
        Capacity { qps: 3, ..good },
        Capacity { cqs: 3, ..good },
        Capacity { mrs: 1, ..good },
        Capacity { arps: 1, ..good },
    ] {
        assert!(matches!(plan(bad), Err(Error::Invalid { .. })));
    }
    let qps = u32::MAX;
    assert!(matches!(
        plan(Capacity { qps, ..good }),
        Err(Error::Capacity {
            object: Object::Qp,
            ..
        })
    ));
    let pbles = u32::MAX;
    assert!(plan(Capacity { pbles, ..good }).is_err());
    let odd = plan(Capacity { qps: 65, ..good }).unwrap();
    assert_eq!(odd.counts.get(Object::Qp), 128);
    let none = plan(Capacity {
        ahs: 0,
        mcast_groups: 0,
        pbles: 0,
        ..good
    })
    .unwrap();
    assert_eq!(none.counts.get(Object::Pble), 1024);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is asked for, and whatever the device has, a plan stays inside.
    #[test]
    fn a_plan_never_exceeds_the_device(
        qps in 0u32..100_000,
        cqs in 0u32..300_000,
        mrs in 0u32..600_000,
        ahs in 0u32..200_000,
        mcast_groups in 0u32..5000,
        pbles in 0u32..(1 << 26),
        segments in 1u64..4096,
        qp_shift in 2u32..19,
        q1_shift in 9u32..27,
        on_demand in any::<bool>(),
    ) {
        let mut words = crate::hmc::testing::reply();
        words[0] = segments << 32;
        words[1] = 1 << qp_shift | 10 << 32;
        words[9] = 1 << q1_shift | 6 << 32;
        let query = FpmQuery::parse(&words).unwrap();
        let capacity = Capacity { qps, cqs, mrs, ahs, arps: 256, mcast_groups, pbles };
        let backing = if on_demand { Backing::OnDemand } else { Backing::Full };
        if let Ok(plan) = Plan::new(&query, &capacity, backing) {
            for (object, count) in plan.counts.iter() {
                let within = object.is_derived() || count <= query.limits(object).max;
                prop_assert!(within, "{}", object);
            }
            prop_assert!(plan.segments(&query) <= segments);
            prop_assert!(plan.counts.get(Object::Qp) >= qps);
            prop_assert!(plan.counts.get(Object::Qp).is_power_of_two());
            prop_assert!(plan.counts.get(Object::Cq) == cqs);
            prop_assert!(plan.counts.get(Object::Pble) >= pbles);
            let backing = plan.backing_bytes(&query).unwrap();
            prop_assert!(backing <= (segments + 1) << 21);
        }
    }
}

/// A program that asks for a lot gets what there is.
#[test]
fn at_most_is_no_more_than_the_device_has() {
    let query = query();
    let all = Capacity {
        qps: 1 << 20,
        cqs: 1 << 24,
        mrs: 1 << 24,
        ahs: 1 << 24,
        arps: 1 << 24,
        mcast_groups: 1 << 24,
        pbles: MAX_PBLES,
    };
    assert!(Plan::new(&query, &all, Backing::Full).is_err());
    let plan = Plan::at_most(&query, &all, Backing::Full).unwrap();
    for object in [
        Object::Qp,
        Object::Cq,
        Object::Mr,
        Object::Arp,
        Object::FsiAv,
    ] {
        let (count, most) = (plan.counts.get(object), query.limits(object).max);
        assert!(count > 3 && count <= most, "{object}: {count} of {most}");
    }
    assert!(plan.segments(&query) <= u64::from(query.max_sds));
    // What fits is what was asked for.
    let fits = Plan::new(&query, &Capacity::DEFAULT, Backing::Full);
    assert_eq!(
        Plan::at_most(&query, &Capacity::DEFAULT, Backing::Full),
        fits
    );
    // Few segments: fewer queue pairs and regions.
    let tight = query_with_segments(40);
    let plan = Plan::at_most(&tight, &all, Backing::Full).unwrap();
    assert!(plan.segments(&tight) <= 40);
    let none = Plan::at_most(&query_with_segments(1), &all, Backing::Full);
    assert!(matches!(none, Err(Error::Segments { .. })), "{none:?}");
}
