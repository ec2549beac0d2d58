//! Both machines against slow models of them, over random streams.
//!
//! The models are written from the tables (data-path 9.1, 9.2) in other terms:
//! counters that never wrap, fractions compared by multiplying, signed places,
//! and a list of moves where the machine counts steps.

use core::cmp::Ordering;
use e810_hal::Ns;
use proptest::prelude::*;
use std::vec::Vec;

use super::*;

/// Totals since ever: time in ns, events, then what is counted.
#[derive(Clone, Copy, Debug)]
struct Totals {
    ns: u64,
    events: u64,
    counts: [u64; 2],
}

/// Smallest whole number of a millisecond's that is not below `count` in `us`.
fn rate(count: u64, us: u128) -> u128 {
    let thousandfold = u128::from(count) * 1_000;
    thousandfold / us + u128::from(!thousandfold.is_multiple_of(us))
}

/// Sign of the change, 0 when less than 11 hundredths of `before`.
fn change(now: u128, before: u128) -> i64 {
    let (low, high) = (now.min(before), now.max(before));
    if before == 0 || (high - low) * 100 < before * 11 {
        return 0;
    }
    match now.cmp(&before) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

trait Decide {
    /// One measurement of so many µs.
    fn decide(&mut self, us: u128, counts: [u64; 2]);
    fn place(&self) -> i64;
}

/// Cuts a stream into measurements and hands them to the model.
struct Stream<M> {
    model: M,
    start: Option<Totals>,
    applying: bool,
}

impl<M: Decide> Stream<M> {
    fn new(model: M) -> Self {
        Self {
            model,
            start: None,
            applying: false,
        }
    }

    fn sample(&mut self, now: Totals) -> Option<usize> {
        if self.applying {
            return None;
        }
        let Some(start) = self
            .start
            .filter(|start| start.ns <= now.ns && start.events <= now.events)
        else {
            self.start = Some(now);
            return None;
        };
        let us = u128::from(now.ns - start.ns) / 1_000;
        if now.events - start.events < 64 || us == 0 {
            return None;
        }
        let before = self.model.place();
        self.model.decide(
            us,
            [0, 1].map(|which| now.counts[which] - start.counts[which]),
        );
        self.start = Some(now);
        let place = self.model.place();
        (place != before).then(|| {
            self.applying = true;
            self.start = None;
            usize::try_from(place).unwrap()
        })
    }

    fn applied(&mut self) {
        self.applying = false;
    }
}

struct Rdma {
    profiles: i64,
    place: i64,
    way: i64,
    /// Rate and ratio of the measurement before, if it had a rate.
    before: Option<(u128, u128)>,
}

impl Decide for Rdma {
    fn decide(&mut self, us: u128, [completions, _]: [u64; 2]) {
        let rate_now = rate(completions, us);
        let ratio = rate_now * 100 / rate(64, us);
        let verdict = self.before.map_or(0, |(rate_then, ratio_then)| {
            match change(rate_now, rate_then) {
                0 => change(ratio, ratio_then),
                changed => changed,
            }
        });
        if verdict == 0 {
            if ratio <= 50 * u128::try_from(self.place).unwrap() {
                self.place = 0;
            }
        } else {
            self.way *= verdict;
            let next = self.place + self.way;
            if (0..self.profiles).contains(&next) {
                self.place = next;
            } else {
                self.way = -self.way;
            }
        }
        self.before = (rate_now > 0).then_some((rate_now, ratio));
    }

    fn place(&self) -> i64 {
        self.place
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Move {
    Step(i64),
    Turn(i64),
}

enum Mode {
    OnTop,
    /// So many measurements more.
    Tired(i64),
    /// That way, after these moves.
    Going(i64, Vec<Move>),
}

struct Net {
    profiles: i64,
    place: i64,
    mode: Mode,
    before: [u128; 3],
}

impl Net {
    /// First steps after parking.
    fn set_out(&mut self) {
        let way = if self.place == 0 { 1 } else { -1 };
        let next = self.place + way;
        let mut moves = Vec::new();
        if next < self.profiles {
            self.place = next;
            moves.push(Move::Step(way));
        }
        self.mode = Mode::Going(way, moves);
    }

    fn verdict(&self, now: [u128; 3]) -> i64 {
        for which in [0, 1] {
            if self.before[which] == 0 {
                return i64::from(now[which] != 0);
            }
            let changed = change(now[which], self.before[which]);
            if changed != 0 {
                return changed;
            }
        }
        -change(now[2], self.before[2])
    }
}

/// Steps that way since the last turn that way.
fn steps(moves: &[Move], way: i64) -> usize {
    moves
        .iter()
        .rev()
        .take_while(|&&one| one != Move::Turn(way))
        .filter(|&&one| one == Move::Step(way))
        .count()
}

impl Decide for Net {
    fn decide(&mut self, us: u128, [packets, bytes]: [u64; 2]) {
        let now = [rate(bytes, us), rate(packets, us), rate(64, us)];
        let verdict = self.verdict(now);
        let mut keep = false;
        match &mut self.mode {
            Mode::OnTop if verdict == 0 => keep = true,
            Mode::OnTop => self.set_out(),
            Mode::Tired(left) => {
                *left -= 1;
                if *left == 0 {
                    self.set_out();
                }
            }
            Mode::Going(way, moves) => {
                if verdict != 1 {
                    *way = -*way;
                    moves.push(Move::Turn(*way));
                }
                let way = *way;
                let all = moves
                    .iter()
                    .filter(|one| matches!(one, Move::Step(_)))
                    .count();
                let all = i64::try_from(all).unwrap();
                let next = self.place + way;
                if steps(moves, way) == 1 && steps(moves, -way) > 1 {
                    self.mode = Mode::OnTop;
                } else if all == 2 * self.profiles {
                    self.mode = Mode::Tired(all);
                } else if (0..self.profiles).contains(&next) {
                    self.place = next;
                    moves.push(Move::Step(way));
                } else {
                    self.mode = Mode::OnTop;
                }
            }
        }
        if !keep {
            self.before = now;
        }
    }

    fn place(&self) -> i64 {
        self.place
    }
}

/// A stretch of a stream: samples alike, or nearly.
#[derive(Clone, Debug)]
struct Stretch {
    samples: u32,
    ns: u64,
    events: u64,
    counts: [u64; 2],
    /// A little more each time, so that rates differ by about 10 %.
    growth: u64,
    /// Samples between a change and its being applied.
    delay: u32,
    /// Before the stretch, these go back.
    ns_back: u64,
    events_back: u64,
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let step = (
        1u32..40,
        prop_oneof![1 => 0u64..40, 8 => 500u64..200_000, 1 => any::<u32>().prop_map(u64::from)],
        prop_oneof![1 => 0u64..2, 4 => 8u64..70, 1 => 60u64..5_000],
        [
            prop_oneof![1 => Just(0u64), 8 => 1u64..2_000],
            prop_oneof![1 => Just(0u64), 8 => 1u64..3_000_000],
        ],
    );
    let odd = (
        prop_oneof![3 => Just(0u64), 1 => 1u64..200],
        0u32..3,
        prop_oneof![6 => Just(0u64), 1 => 1u64..1_000_000],
        prop_oneof![6 => Just(0u64), 1 => 1u64..100],
    );
    (step, odd).prop_map(
        |((samples, ns, events, counts), (growth, delay, ns_back, events_back))| Stretch {
            samples,
            ns,
            events,
            counts,
            growth,
            delay,
            ns_back,
            events_back,
        },
    )
}

/// All samples of a stream, with the delay of applying at each.
fn totals(stretches: &[Stretch], wrap_in: u64) -> Vec<(Totals, u32)> {
    let near_wrap = (1 << 33) - wrap_in;
    let mut now = Totals {
        ns: 1 << 40,
        events: near_wrap,
        counts: [near_wrap; 2],
    };
    let mut all = Vec::new();
    for stretch in stretches {
        now.ns -= stretch.ns_back;
        now.events -= stretch.events_back;
        for turn in 0..stretch.samples {
            let grown = |count: u64| count + count * stretch.growth * u64::from(turn) / 1_000;
            now.ns += stretch.ns;
            now.events += stretch.events;
            now.counts[0] += grown(stretch.counts[0]);
            now.counts[1] += grown(stretch.counts[1]);
            all.push((now, stretch.delay));
        }
    }
    all
}

fn low(count: u64) -> u32 {
    u32::try_from(count & 0xFFFF_FFFF).unwrap()
}

/// Runs a machine and a model over the same samples.
fn compare<M: Decide, D>(
    samples: &[(Totals, u32)],
    mut stream: Stream<M>,
    mut dim: D,
    sample: impl Fn(&mut D, Totals) -> Option<usize>,
    applied: impl Fn(&mut D),
    index: impl Fn(&D) -> usize,
    profiles: usize,
) -> Result<(), TestCaseError> {
    let mut waiting = None;
    for &(totals, delay) in samples {
        match waiting {
            Some(0) => {
                applied(&mut dim);
                stream.applied();
                waiting = None;
            }
            Some(ref mut left) => *left -= 1,
            None => {}
        }
        let before = index(&dim);
        let changed = sample(&mut dim, totals);
        prop_assert_eq!(changed, stream.sample(totals), "at {:?}", totals);
        prop_assert!(index(&dim) < profiles);
        prop_assert_eq!(changed.unwrap_or(before), index(&dim));
        prop_assert!(changed.is_none_or(|index| index != before));
        if changed.is_some() {
            waiting = Some(delay);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rdma_is_as_its_model(
        stretches in prop::collection::vec(stretch(), 1..24),
        wrap_in in 0u64..100_000,
        profiles in 1usize..=9,
    ) {
        let model = Rdma { profiles: i64::try_from(profiles).unwrap(), place: 0, way: 1, before: None };
        compare(
            &totals(&stretches, wrap_in),
            Stream::new(model),
            RdmaDim::new(&RDMA[..profiles]).unwrap(),
            |dim, totals| dim.sample(RdmaSample {
                time: Ns(totals.ns),
                events: low(totals.events),
                completions: low(totals.counts[0]),
            }),
            RdmaDim::applied,
            RdmaDim::index,
            profiles,
        )?;
    }

    #[test]
    fn net_is_as_its_model(
        stretches in prop::collection::vec(stretch(), 1..24),
        wrap_in in 0u64..100_000,
        profiles in 1usize..=9,
    ) {
        let model = Net {
            profiles: i64::try_from(profiles).unwrap(),
            place: i64::from(profiles > 1),
            mode: Mode::OnTop,
            before: [0; 3],
        };
        compare(
            &totals(&stretches, wrap_in),
            Stream::new(model),
            NetDim::new(&RDMA[..profiles]).unwrap(),
            |dim, totals| dim.sample(NetSample {
                time: Ns(totals.ns),
                events: low(totals.events),
                packets: low(totals.counts[0]),
                bytes: low(totals.counts[1]),
            }),
            NetDim::applied,
            NetDim::index,
            profiles,
        )?;
    }
}
