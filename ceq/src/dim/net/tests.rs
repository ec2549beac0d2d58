use super::super::profile::NET_RX_EQE;
use super::Direction::{Left, Right};
use super::Tune::{Going, OnTop, Tired};
use super::Verdict::{Better, Same, Worse};
use super::*;

/// Index, what it is at, steps left and right, tiredness.
type State = (usize, Tune, usize, usize, usize);

const BEFORE: Rates = Rates {
    bytes: 1_000,
    packets: 1_000,
    events: 1_000,
};

fn at((index, tune, left, right, tired): State) -> NetDim<'static> {
    let mut dim = NetDim::new(&NET_RX_EQE).unwrap();
    dim.ladder.reset();
    for _ in 0..index {
        assert!(dim.ladder.step(Right));
    }
    (dim.tune, dim.left, dim.right, dim.tired) = (tune, left, right, tired);
    dim.previous = BEFORE;
    dim.sampler = Sampler::Measure(Mark {
        time: Ns(0),
        events: u32::MAX,
        counts: [u32::MAX; 2],
    });
    dim
}

fn state(dim: &NetDim<'_>) -> State {
    (dim.index(), dim.tune, dim.left, dim.right, dim.tired)
}

/// 64 events, packets and so many bytes in 64 µs.
fn measure(dim: &mut NetDim<'_>, bytes: u32) -> Option<usize> {
    dim.sample(NetSample {
        time: Ns::from_us(64),
        events: 63,
        packets: 63,
        bytes: bytes.wrapping_sub(1),
    })
}

#[test]
fn every_transition() {
    for (from, verdicts, to) in [
        // Better: on the same way.
        (
            (1, Going(Right), 0, 0, 0),
            &[Better][..],
            (2, Going(Right), 0, 1, 1),
        ),
        (
            (3, Going(Left), 0, 0, 4),
            &[Better],
            (2, Going(Left), 1, 0, 5),
        ),
        (
            (2, Going(Right), 1, 1, 3),
            &[Better],
            (3, Going(Right), 1, 2, 4),
        ),
        (
            (2, Going(Left), 1, 1, 3),
            &[Better],
            (1, Going(Left), 2, 1, 4),
        ),
        // Not better: the other way, whose steps are counted anew.
        (
            (2, Going(Right), 0, 2, 2),
            &[Same, Worse],
            (1, Going(Left), 1, 2, 3),
        ),
        (
            (2, Going(Left), 2, 0, 2),
            &[Same, Worse],
            (3, Going(Right), 2, 1, 3),
        ),
        (
            (2, Going(Right), 7, 2, 2),
            &[Same, Worse],
            (1, Going(Left), 1, 2, 3),
        ),
        (
            (2, Going(Left), 2, 7, 2),
            &[Same, Worse],
            (3, Going(Right), 2, 1, 3),
        ),
        // One step back from where it got worse: that was the top.
        ((2, Going(Left), 1, 2, 3), &[Better], (2, OnTop, 0, 0, 0)),
        ((2, Going(Right), 2, 1, 3), &[Better], (2, OnTop, 0, 0, 0)),
        // Turned just now: not on top, whatever the steps were.
        (
            (2, Going(Right), 1, 2, 3),
            &[Same, Worse],
            (1, Going(Left), 1, 2, 4),
        ),
        (
            (2, Going(Left), 2, 1, 3),
            &[Same, Worse],
            (3, Going(Right), 2, 1, 4),
        ),
        // Edges.
        ((4, Going(Right), 0, 3, 3), &[Better], (4, OnTop, 0, 0, 0)),
        ((0, Going(Left), 3, 0, 3), &[Better], (0, OnTop, 0, 0, 0)),
        (
            (0, Going(Right), 0, 1, 3),
            &[Same, Worse],
            (0, OnTop, 0, 0, 0),
        ),
        (
            (4, Going(Left), 1, 0, 3),
            &[Same, Worse],
            (4, OnTop, 0, 0, 0),
        ),
        // The tenth step is the last.
        (
            (2, Going(Right), 0, 0, 9),
            &[Better],
            (3, Going(Right), 0, 1, 10),
        ),
        ((2, Going(Right), 0, 1, 10), &[Better], (2, Tired, 0, 0, 10)),
        (
            (2, Going(Left), 1, 1, 10),
            &[Same, Worse],
            (2, Tired, 0, 0, 10),
        ),
        // Tired before an edge, on top before tired.
        ((4, Going(Right), 0, 3, 10), &[Better], (4, Tired, 0, 0, 10)),
        ((2, Going(Left), 1, 2, 10), &[Better], (2, OnTop, 0, 0, 0)),
        // On top until the load changes.
        ((3, OnTop, 0, 0, 0), &[Same], (3, OnTop, 0, 0, 0)),
        (
            (3, OnTop, 0, 0, 0),
            &[Better, Worse],
            (2, Going(Left), 1, 0, 1),
        ),
        (
            (0, OnTop, 0, 0, 0),
            &[Better, Worse],
            (1, Going(Right), 0, 1, 1),
        ),
        // Tired until it is over.
        (
            (3, Tired, 0, 0, 10),
            &[Better, Same, Worse],
            (3, Tired, 0, 0, 9),
        ),
        (
            (3, Tired, 0, 0, 2),
            &[Better, Same, Worse],
            (3, Tired, 0, 0, 1),
        ),
        (
            (3, Tired, 0, 0, 1),
            &[Better, Same, Worse],
            (2, Going(Left), 1, 0, 1),
        ),
        (
            (0, Tired, 0, 0, 1),
            &[Better, Same, Worse],
            (1, Going(Right), 0, 1, 1),
        ),
    ] {
        for &verdict in verdicts {
            let name = std::format!("{verdict:?} at {from:?}");
            let mut dim = at(from);
            let bytes = match verdict {
                Worse => 32,
                Same => 70,
                Better => 128,
            };
            let changed = measure(&mut dim, bytes);
            assert_eq!(state(&dim), to, "{name}");
            assert_eq!(changed, (from.0 != to.0).then_some(to.0), "{name}");
            assert_eq!(dim.profile(), NET_RX_EQE[to.0], "{name}");
            let kept = (from.1, to.1) == (OnTop, OnTop);
            assert_eq!(dim.previous == BEFORE, kept, "{name}");
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

#[test]
fn bytes_then_packets_then_events() {
    let rates = |(bytes, packets, events)| Rates {
        bytes,
        packets,
        events,
    };
    for (before, now, verdict) in [
        ((0, 0, 0), (0, 900, 900), Same),
        ((0, 0, 0), (1, 0, 0), Better),
        ((0, 900, 900), (1, 1, 9_000), Better),
        ((100, 900, 100), (111, 1, 900), Better),
        ((100, 1, 900), (89, 900, 1), Worse),
        ((100, 0, 900), (100, 1, 9_000), Better),
        ((100, 0, 900), (100, 0, 1), Same),
        ((100, 100, 100), (110, 111, 900), Better),
        ((100, 100, 900), (90, 89, 1), Worse),
        ((100, 100, 100), (100, 110, 89), Better),
        ((100, 100, 100), (100, 90, 111), Worse),
        ((100, 100, 100), (110, 90, 110), Same),
        ((100, 100, 0), (100, 100, 9), Same),
    ] {
        assert_eq!(
            rates(now).against(rates(before)),
            verdict,
            "{now:?} after {before:?}"
        );
    }
}

#[test]
fn rates_of_a_measurement() {
    let interval = Interval {
        us: core::num::NonZeroU64::new(640).unwrap(),
        counts: [65, 6_401],
    };
    let rates = Rates {
        bytes: 10_002,
        packets: 102,
        events: 100,
    };
    assert_eq!(Rates::of(interval), rates);
}

#[test]
fn slow_change_on_top_adds_up() {
    let mut dim = at((3, OnTop, 0, 0, 0));
    let mut sample = NetSample {
        time: Ns(0),
        events: u32::MAX,
        packets: u32::MAX,
        bytes: u32::MAX,
    };
    let mut changes = std::vec::Vec::new();
    // 64 are the 1000 of before; each is a little more than the last.
    for bytes in [66, 68, 70, 72] {
        sample.time = sample.time + Ns::from_us(64);
        sample.events = sample.events.wrapping_add(64);
        sample.packets = sample.packets.wrapping_add(64);
        sample.bytes = sample.bytes.wrapping_add(bytes);
        changes.push(dim.sample(sample));
    }
    assert_eq!(changes, [None, None, None, Some(2)]);
}

#[test]
fn it_starts_parked_at_the_second_profile() {
    let mut dim = NetDim::new(&NET_RX_EQE).unwrap();
    assert_eq!(state(&dim), (1, OnTop, 0, 0, 0));
    assert_eq!(dim.profiles(), NET_RX_EQE);
    let sample = |at: u32, bytes| NetSample {
        time: Ns::from_us(u64::from(at)),
        events: at,
        packets: at,
        bytes,
    };
    dim.applied();
    assert_eq!(dim.sample(sample(0, 0)), None, "begins");
    assert_eq!(dim.sample(sample(64, 0)), None, "no load, as before");
    assert_eq!(dim.sample(sample(128, 64)), Some(0), "load after none");
    assert_eq!(dim.sample(sample(500, 9_000)), None, "not applied");
    dim.applied();
    assert_eq!(dim.sample(sample(1_000, 0)), None, "begins anew");
    assert_eq!(dim.sample(sample(1_063, 63)), None, "63 events");
    assert_eq!(dim.sample(sample(1_064, 64)), Some(1), "no better: turns");
}

#[test]
fn one_profile_is_never_left() {
    let one = [Profile::by_time(4)];
    let mut dim = NetDim::new(&one).unwrap();
    let mut sample = NetSample {
        time: Ns(0),
        events: 0,
        packets: 0,
        bytes: 0,
    };
    let mut seen = std::vec::Vec::new();
    for bytes in [64, 128, 128, 64, 0, 64, 64] {
        sample.time = sample.time + Ns::from_us(64);
        sample.events += 64;
        sample.bytes += bytes;
        assert_eq!(dim.sample(sample), None);
        seen.push(dim.tune);
    }
    // Every change of load ends parking, and the edge begins it again.
    assert_eq!(
        seen,
        [
            OnTop,
            Going(Right),
            OnTop,
            Going(Right),
            OnTop,
            Going(Right),
            OnTop
        ]
    );
    assert_eq!(NetDim::new(&[]), Err(NoProfiles));
}
