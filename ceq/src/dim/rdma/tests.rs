use super::super::profile::RDMA;
use super::Direction::{Left, Right};
use super::*;
use e810_hal::Ns;

/// Rates before: completions a millisecond, completions for 100 events.
type Before = (u64, u64);

/// A machine in the middle of things, whose measurement began at 0 with
/// counters about to wrap.
fn at(index: usize, direction: Direction, (completions, ratio): Before) -> RdmaDim<'static> {
    let mut dim = RdmaDim::new(&RDMA).unwrap();
    for _ in 0..index {
        assert!(dim.ladder.step(Right));
    }
    dim.direction = direction;
    dim.previous = Rates { completions, ratio };
    dim.sampler = Sampler::Measure(RdmaSample {
        time: Ns(0),
        events: u32::MAX,
        completions: u32::MAX,
    });
    dim
}

/// 64 events in 64 µs: 1000 a millisecond, so a ratio is a tenth of the rate.
fn measure(dim: &mut RdmaDim<'_>, completions: u32) -> Option<usize> {
    dim.sample(RdmaSample {
        time: Ns::from_us(64),
        events: 63,
        completions: completions.wrapping_sub(1),
    })
}

#[test]
fn every_transition() {
    // A measurement of 256 completions: rate 4000, ratio 400.
    const BETTER: [Before; 3] = [(1_000, 100), (1_000, 9_000), (4_000, 100)];
    const WORSE: [Before; 3] = [(9_000, 900), (9_000, 10), (4_000, 900)];
    const SAME: [Before; 6] = [
        (0, 0),
        (0, 900),
        (4_000, 400),
        (4_444, 444),
        (3_640, 364),
        // Nothing differs from a ratio of 0.
        (4_000, 0),
    ];
    for (befores, from, to) in [
        (&BETTER[..], (3, Right), (4, Right)),
        (&BETTER, (3, Left), (2, Left)),
        (&BETTER, (7, Right), (8, Right)),
        (&BETTER, (1, Left), (0, Left)),
        (&BETTER, (8, Right), (8, Left)),
        (&BETTER, (0, Left), (0, Right)),
        (&BETTER, (0, Right), (1, Right)),
        (&BETTER, (8, Left), (7, Left)),
        (&WORSE, (3, Right), (2, Left)),
        (&WORSE, (3, Left), (4, Right)),
        (&WORSE, (8, Right), (7, Left)),
        (&WORSE, (0, Left), (1, Right)),
        // Turned, then an edge: turned back.
        (&WORSE, (0, Right), (0, Right)),
        (&WORSE, (8, Left), (8, Left)),
        // Four completions an event: enough below index 8.
        (&SAME, (0, Right), (0, Right)),
        (&SAME, (0, Left), (0, Left)),
        (&SAME, (7, Right), (7, Right)),
        (&SAME, (7, Left), (7, Left)),
        (&SAME, (8, Right), (0, Right)),
        (&SAME, (8, Left), (0, Left)),
    ] {
        for &before in befores {
            let name = std::format!("{before:?} at {from:?}");
            let mut dim = at(from.0, from.1, before);
            let changed = measure(&mut dim, 256);
            assert_eq!((dim.index(), dim.direction), to, "{name}");
            assert_eq!(changed, (from.0 != to.0).then_some(to.0), "{name}");
            assert_eq!(dim.profile(), RDMA[to.0], "{name}");
            let now = Rates {
                completions: 4_000,
                ratio: 400,
            };
            assert_eq!(dim.previous, now, "{name}");
            match dim.sampler {
                Sampler::Apply => assert!(changed.is_some(), "{name}"),
                Sampler::Measure(mark) => {
                    assert!(changed.is_none(), "{name}");
                    assert_eq!(mark.time, Ns::from_us(64), "{name}: the next begins here");
                }
                Sampler::Start => panic!("{name}: applied by nobody"),
            }
        }
    }
}

/// Half a completion an event and index: that many lead back to index 0.
#[test]
fn few_completions_an_event_lead_back() {
    for (completions, ratio, index, to) in [
        (0, 0, 0, 0),
        (0, 0, 1, 0),
        (32, 50, 1, 0),
        (33, 51, 1, 1),
        (64, 100, 1, 1),
        (64, 100, 2, 0),
        (65, 101, 2, 2),
        (96, 150, 3, 0),
        (97, 151, 3, 3),
        (256, 400, 8, 0),
        (257, 401, 8, 8),
    ] {
        let mut dim = at(index, Left, (0, 0));
        let changed = measure(&mut dim, completions);
        assert_eq!(dim.previous.ratio, ratio);
        assert_eq!((dim.index(), dim.direction), (to, Left), "ratio {ratio}");
        assert_eq!(changed, (index != to).then_some(to));
    }
    for index in 2..RDMA.len() {
        let mut dim = at(index, Right, (1_000, 100));
        assert_eq!(measure(&mut dim, 64), Some(0), "one an event at {index}");
    }
}

#[test]
fn ten_percent_is_the_same() {
    for (before, index) in [
        // 4000 after 3604 is 10.99 %, after 3603 11.02 %.
        ((3_604, 400), 3),
        ((3_603, 400), 4),
        // Less by 10.99 % and 11.01 %.
        ((4_494, 400), 3),
        ((4_495, 400), 2),
        ((4_000, 361), 3),
        ((4_000, 360), 4),
        ((4_000, 449), 3),
        ((4_000, 450), 2),
    ] {
        let mut dim = at(3, Right, before);
        assert_eq!(measure(&mut dim, 256), (index != 3).then_some(index));
        assert_eq!(dim.index(), index, "after {before:?}");
    }
}

#[test]
fn nothing_is_measured_until_the_profile_is_applied() {
    let mut dim = RdmaDim::new(&RDMA).unwrap();
    let sample = |at: u32, completions| RdmaSample {
        time: Ns::from_us(u64::from(at)),
        events: at,
        completions,
    };
    // Nothing to apply: no effect at any time.
    dim.applied();
    assert_eq!(dim.sample(sample(0, 0)), None, "begins");
    dim.applied();
    assert_eq!(dim.sample(sample(63, 64)), None, "63 events");
    assert_eq!(dim.sample(sample(64, 64)), None, "nothing before it");
    assert_eq!(dim.sample(sample(128, 192)), Some(1), "twice the rate");
    for at in [192, 256, 5_000] {
        assert_eq!(dim.sample(sample(at, at * 100)), None, "not applied");
        assert_eq!(dim.index(), 1);
    }
    dim.applied();
    assert_eq!(dim.sample(sample(10_000, 1_000)), None, "starts over");
    assert_eq!(dim.sample(sample(10_063, 1_504)), None, "63 events");
    assert_eq!(dim.sample(sample(10_064, 1_512)), Some(2), "eight an event");
}

#[test]
fn one_profile_is_never_left() {
    let one = [Profile::by_time(4)];
    let mut dim = RdmaDim::new(&one).unwrap();
    assert_eq!(dim.profiles(), one);
    let mut sample = RdmaSample {
        time: Ns(0),
        events: 0,
        completions: 0,
    };
    for completions in [0, 64, 640, 6_400, 64, 0, 0, 1, 64, 64] {
        assert_eq!(dim.sample(sample), None);
        assert_eq!((dim.index(), dim.profile()), (0, one[0]));
        sample.time = sample.time + Ns::from_us(64);
        sample.events += 64;
        sample.completions += completions;
    }
    assert_eq!(RdmaDim::new(&[]), Err(NoProfiles));
    assert!(std::string::ToString::to_string(&NoProfiles).contains("at least one"));
}
