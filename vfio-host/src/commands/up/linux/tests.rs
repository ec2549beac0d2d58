use e810::hmc::ObjectLimits;
use e810::{Config, Lan, MacAddr, VsiId};
use e810_sim::{Profile, Sim};

use super::*;

/// A device with much of everything, and `segments` of memory.
fn query_with_segments(segments: u32) -> FpmQuery {
    let query = FpmQuery {
        max_sds: segments,
        hash_multiplier: 1,
        timer_bucket: 512,
        xf_block: 8,
        q1_block: 8,
        rrf_block: 8,
        ..FpmQuery::NOTHING
    };
    // Kind, maximum, bytes of one.
    let objects = [
        (Object::Qp, 262_144, 1024),
        (Object::Cq, 524_288, 128),
        (Object::Hte, 524_288, 64),
        (Object::Arp, 4096, 64),
        (Object::Apbvt, 1, 8192),
        (Object::Mr, 524_288, 64),
        (Object::Xf, 1 << 23, 64),
        (Object::XfFl, 1 << 20, 4),
        (Object::Q1, 1 << 26, 64),
        (Object::Q1Fl, 1 << 23, 4),
        (Object::Timer, 1 << 19, 64),
        (Object::FsiMc, 4096, 256),
        (Object::FsiAv, 131_072, 64),
        (Object::Pble, 1 << 28, 8),
        (Object::Rrf, 1 << 23, 64),
        (Object::RrfFl, 1 << 20, 4),
        (Object::Hdr, 262_144, 64),
        (Object::Md, 65_536, 64),
    ];
    let set =
        |query: FpmQuery, (object, max, bytes)| query.with(object, ObjectLimits { max, bytes });
    objects.into_iter().fold(query, set)
}

/// With another maximum of one kind.
fn query_with(object: Object, max: u32) -> FpmQuery {
    let query = query_with_segments(3776);
    let limits = query.limits(object);
    query.with(object, ObjectLimits { max, ..limits })
}

#[test]
fn a_roomy_device_is_used_to_its_maxima() {
    let query = query_with_segments(8191);
    let plan = linux_plan(&query).unwrap();
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
                assert!(plan.counts.get(Object::Pble) < query.limits(Object::Pble).max);
                // What is left over goes to PBLEs, which round up.
                let needed = plan.segments(&query);
                assert!(needed <= u64::from(segments) + 1, "{segments}: {plan:?}");
            }
            Err(error) => assert!(error.to_string().starts_with("2000 reductions"), "{error}"),
        }
    }
}

#[test]
fn q1_of_less_than_512_ends() {
    let error = linux_plan(&query_with(Object::Q1, 511)).unwrap_err();
    let expected = "no queue pair fits: it needs 512 Q1 entries, and the device has 511";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn no_qps_at_all_ends_too() {
    let plan = linux_plan(&query_with(Object::Qp, 0)).unwrap();
    assert_eq!(plan.counts.get(Object::Qp), 0);
}

#[test]
fn an_impossible_device_is_an_error() {
    let error = linux_plan(&query_with_segments(1)).unwrap_err();
    let error = error.to_string();
    assert!(error.ends_with("the device has 1"), "{error}");
}

#[test]
fn the_smallest_table_entry_is_held_to_its_qps() {
    let query = query_with_segments(3776);
    let plan = linux_plan_for(&query, 128).unwrap();
    assert_eq!(plan.counts.get(Object::Qp), 128);
    assert_eq!(plan.counts.get(Object::Cq), 256);
    assert_eq!(plan.counts.get(Object::Q1), 65_536);
    // PBLEs are most of the address space and none of the memory.
    let backing = plan.backing_bytes(&query).unwrap();
    let all = plan.bytes(&query);
    assert!(backing < all / 10, "{backing} of {all}");
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

/// Counts that in-tree drivers report of an E810-C.
#[test]
fn linux_would_see_an_e810c_in_the_profile_of_that_name() {
    let sim = Sim::builder().profile(Profile::e810c()).build();
    let nic = sim.function(0);
    let config = Config::new(Lan {
        vsi: VsiId::new(nic.vsi()).unwrap(),
        mac: MacAddr(nic.mac()),
        mtu: 9000,
    });
    let device = e810::bring_up(nic, &config, &mut |_| {}).unwrap();
    let (control, events) = device.split();
    let theirs = linux_plan(&control.hmc().query).unwrap();
    let counts = [Object::Qp, Object::Cq, Object::Mr].map(|kind| theirs.counts.get(kind));
    assert_eq!(counts, [65_536, 131_072, 2_097_152]);
    control.shutdown(events).unwrap();
}
