use super::*;
use crate::hmc::testing::{query, query_with, query_with_segments, reply};

#[test]
fn a_roomy_device_is_used_to_its_maxima() {
    let query = query_with_segments(8191);
    let plan = linux_plan(&query).unwrap();
    assert_eq!(plan.passes, 1);
    let expected = [
        (Object::Qp, 262_144),
        (Object::Cq, 524_288),
        (Object::Srq, 0),
        (Object::Hte, 524_288),
        (Object::Arp, 4096),
        (Object::Apbvt, 1),
        (Object::Mr, 524_288),
        (Object::Xf, 4 * 8 * 262_144),
        (Object::XfFl, 4 * 262_144),
        (Object::Q1, 1 << 26),
        (Object::Timer, 513 * 512),
        (Object::FsiMc, 4096),
        (Object::FsiAv, 131_072),
        (Object::Pble, 1 << 28),
        (Object::Rrf, 32 * 262_144),
        (Object::Hdr, 262_144),
        (Object::Md, 65_536),
        (Object::OoIsc, 0),
    ];
    for (object, count) in expected {
        assert_eq!(plan.counts.get(object), count, "{object}");
    }
}

#[test]
fn a_tight_device_is_made_to_fit() {
    for segments in [64, 100, 500, 1500, 3776] {
        let query = query_with_segments(segments);
        match linux_plan(&query) {
            Ok(plan) => {
                assert!(plan.passes > 1);
                // What is left over goes to PBLEs, which round up.
                assert!(plan.segments <= segments + 1, "{segments}: {plan:?}");
            }
            Err(error) => assert!(matches!(error, Error::Segments { .. }), "{error}"),
        }
    }
}

#[test]
fn q1_of_less_than_512_ends() {
    let error = linux_plan(&query_with(&[(72, 511)])).unwrap_err();
    assert!(matches!(
        error,
        Error::Capacity {
            object: Object::Q1,
            wanted: 512,
            max: 511
        }
    ));
}

#[test]
fn no_qps_at_all_ends_too() {
    let plan = linux_plan(&query_with(&[(8, 0)])).unwrap();
    assert_eq!(plan.counts.get(Object::Qp), 0);
}

#[test]
#[cfg_attr(miri, ignore = "2000 passes")]
fn an_impossible_device_is_an_error() {
    let mut words = reply();
    words[0] = 1 << 32;
    let query = FpmQuery::parse(&words).unwrap();
    assert!(matches!(
        linux_plan(&query),
        Err(Error::Segments { max: 1, .. })
    ));
}

#[test]
fn the_smallest_table_entry_is_held_to_its_qps() {
    let plan = linux_plan_for(&query(), 128).unwrap();
    assert_eq!(plan.counts.get(Object::Qp), 128);
    assert_eq!(plan.counts.get(Object::Cq), 256);
    assert_eq!(plan.counts.get(Object::Q1), 65_536);
    // PBLEs are most of the address space and none of the memory.
    let backing = plan.backing_bytes(&query()).unwrap();
    assert!(backing < plan.bytes / 10, "{backing} of {}", plan.bytes);
}

/// The rules of the loop, one by one (control-path 6.5).
#[test]
fn each_rule_of_the_loop() {
    let start = Wanted {
        qps: 1024,
        mrs: 8192,
        pbles: 200 * 1024,
        groups: 1024,
        handles: 1024,
    };
    let after = |mut wanted: Wanted, pass, excess| {
        wanted.shrink(pass, excess);
        let Wanted {
            qps,
            mrs,
            pbles,
            groups,
            handles,
        } = wanted;
        [qps, mrs, pbles, groups, handles]
    };
    let k = 1024;
    assert_eq!(after(start, 2, 129), [512, 8192, 200 * k, k, k]);
    assert_eq!(after(start, 3, 129), [1024, 4096, 100 * k, k, k]);
    let few = Wanted { qps: 128, ..start };
    assert_eq!(after(few, 2, 129), [128, 4096, 100 * k, k, k]);
    let many = Wanted {
        pbles: 512 * k * 3 + 1,
        ..start
    };
    assert_eq!(after(many, 10, 3), [1024, 8192, 256 * k * 3 + 1, k, k]);
    assert_eq!(after(start, 3, 3), [1024, 7168, 190 * k, k, k]);
    let small = Wanted {
        pbles: 100 * k,
        ..start
    };
    assert_eq!(after(small, 3, 3), [1024, 7168, 99 * k, k, k]);
    let tiny = Wanted {
        pbles: k,
        mrs: k,
        ..few
    };
    assert_eq!(after(tiny, 3, 3), [128, k, k, 512, 512]);
    let least = Wanted {
        groups: 256,
        handles: 256,
        ..tiny
    };
    assert_eq!(after(least, 3, 3), [128, k, k, 256, 256]);
    assert_eq!(after(start, 10, 3), [512, 7168, 190 * k, k, 512]);
}
