//! Compares the machine of the table with a slow model of it, over random streams.
//!
//! The model is written from the table (data-path 9.1) in other terms: counters that never wrap,
//! fractions compared by multiplying, signed places.

use core::cmp::Ordering;
use e810_hal::Ns;
use proptest::prelude::*;
use std::vec::Vec;

use super::*;

/// Totals since ever: time in ns, events, then completions.
#[derive(Clone, Copy, Debug)]
struct Totals {
    ns: u64,
    events: u64,
    completions: u64,
}

/// Smallest whole number per millisecond that is not below `count` in `us`.
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

/// Cuts a stream into measurements and hands them to the model.
struct Stream {
    model: Rdma,
    start: Option<Totals>,
    applying: bool,
}

impl Stream {
    fn new(model: Rdma) -> Self {
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
        self.model.decide(us, now.completions - start.completions);
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

impl Rdma {
    /// One measurement of so many µs.
    fn decide(&mut self, us: u128, completions: u64) {
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

/// A stretch of a stream: samples alike, or nearly.
#[derive(Clone, Debug)]
struct Stretch {
    samples: u32,
    ns: u64,
    events: u64,
    completions: u64,
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
        prop_oneof![1 => Just(0u64), 8 => 1u64..2_000],
    );
    let odd = (
        prop_oneof![3 => Just(0u64), 1 => 1u64..200],
        0u32..3,
        prop_oneof![6 => Just(0u64), 1 => 1u64..1_000_000],
        prop_oneof![6 => Just(0u64), 1 => 1u64..100],
    );
    (step, odd).prop_map(
        |((samples, ns, events, completions), (growth, delay, ns_back, events_back))| Stretch {
            samples,
            ns,
            events,
            completions,
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
        completions: near_wrap,
    };
    let mut all = Vec::new();
    for stretch in stretches {
        now.ns -= stretch.ns_back;
        now.events -= stretch.events_back;
        for turn in 0..stretch.samples {
            let grown = |count: u64| count + count * stretch.growth * u64::from(turn) / 1_000;
            now.ns += stretch.ns;
            now.events += stretch.events;
            now.completions += grown(stretch.completions);
            all.push((now, stretch.delay));
        }
    }
    all
}

fn low(count: u64) -> u32 {
    u32::try_from(count & 0xFFFF_FFFF).unwrap()
}

/// Runs the machine and the model over the same samples.
fn compare(
    samples: &[(Totals, u32)],
    mut stream: Stream,
    mut dim: RdmaDim<'_>,
) -> Result<(), TestCaseError> {
    let mut waiting = None;
    for &(totals, delay) in samples {
        match waiting {
            Some(0) => {
                dim.applied();
                stream.applied();
                waiting = None;
            }
            Some(ref mut left) => *left -= 1,
            None => {}
        }
        let before = dim.index();
        let changed = dim.sample(RdmaSample {
            time: Ns(totals.ns),
            events: low(totals.events),
            completions: low(totals.completions),
        });
        prop_assert_eq!(changed, stream.sample(totals), "at {:?}", totals);
        prop_assert!(dim.index() < dim.profiles().len());
        prop_assert_eq!(changed.unwrap_or(before), dim.index());
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
        )?;
    }
}
