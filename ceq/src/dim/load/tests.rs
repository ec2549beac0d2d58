use super::*;
use e810_hal::Ns;
use proptest::prelude::*;
use std::vec::Vec;

/// Completions as they come, and what the program has seen of them.
#[derive(Default)]
struct World {
    ns: u64,
    events: u32,
    completions: u32,
    asked: Vec<usize>,
}

impl World {
    /// `events` events of a load: `came(us)` gives how long one takes with that
    /// wait, in ns, and how many completions it brings.
    fn run(&mut self, dim: &mut LoadDim<'_>, events: u32, came: impl Fn(u32) -> (u64, u32)) {
        for _ in 0..events {
            let (ns, completions) = came(dim.us());
            self.ns += ns;
            self.completions = self.completions.wrapping_add(completions);
            self.events = self.events.wrapping_add(1);
            let sample = RdmaSample {
                time: Ns(self.ns),
                events: self.events,
                completions: self.completions,
            };
            if let Some(index) = dim.sample(sample) {
                self.asked.push(index);
                dim.applied();
            }
        }
    }
}

/// One completion each `period` ns, whatever the wait.
fn even(period: u64) -> impl Fn(u32) -> (u64, u32) {
    move |us| {
        let came = (u64::from(us) * 1_000 / period).max(1);
        (came * period, u32::try_from(came).unwrap())
    }
}

/// `depth` requests at a time, whose completions the program waits for, each
/// after `trip` ns.
fn closed(depth: u32, trip: u64) -> impl Fn(u32) -> (u64, u32) {
    move |us| (trip.max(u64::from(us) * 1_000), depth)
}

#[test]
#[cfg_attr(
    miri,
    ignore = "arithmetic on integers over many rounds, no memory to judge"
)]
fn an_even_load_finds_its_wait() {
    for (period, us) in [
        (1_000_000, 0),
        (10_000, 0),
        (8_100, 0),
        (8_000, 16),
        (4_000, 24),
        (3_000, 32),
        (2_000, 50),
        (1_000, 50),
        (100, 50),
    ] {
        let (mut dim, mut world) = (LoadDim::new(&LOAD), World::default());
        world.run(&mut dim, 64 * 20, even(period));
        assert_eq!(dim.us(), us, "one each {period} ns");
        let found = world.asked.len();
        world.run(&mut dim, 64 * 100, even(period));
        assert_eq!(world.asked.len(), found, "and stays there");
    }
}

#[test]
fn one_step_at_a_time_up_and_as_far_as_the_rate_says_down() {
    let (mut dim, mut world) = (LoadDim::new(&LOAD), World::default());
    world.run(&mut dim, 64 * 20, even(1_000));
    world.run(&mut dim, 64 * 20, even(1_000_000));
    // The measurement that the fall is in has a rate in between.
    assert_eq!(world.asked, [1, 2, 3, 4, 3, 0]);
}

/// Between the rate that makes a wait worth while and three quarters of it,
/// what is in force stays.
#[test]
fn a_rate_near_a_limit_changes_nothing() {
    let (mut dim, mut world) = (LoadDim::new(&LOAD), World::default());
    world.run(&mut dim, 64 * 20, even(2_000));
    let found = world.asked.len();
    for period in [2_600, 2_000, 2_400].repeat(20) {
        world.run(&mut dim, 64, even(period));
    }
    assert_eq!((dim.us(), world.asked.len()), (50, found));
    world.run(&mut dim, 64 * 2, even(2_700));
    assert_eq!(dim.us(), 32);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "arithmetic on integers over many rounds, no memory to judge"
)]
fn a_load_that_waits_for_its_completions_is_left_alone() {
    let (mut dim, mut world) = (LoadDim::new(&LOAD), World::default());
    // 800,000 a second without a wait, 500,000 with the shortest one: up and
    // back, then a rest, twice as long each time. Trying takes a few
    // measurements too.
    let rests: u32 = [32, 64, 128, 256, 512, 1_024].iter().sum();
    world.run(&mut dim, 64 * (rests + 40), closed(8, 10_000));
    assert_eq!(world.asked, [1, 0].repeat(7));
    // No longer than that.
    world.run(&mut dim, 64 * 960, closed(8, 10_000));
    assert_eq!((world.asked.len(), dim.us()), (14, 0));
    world.run(&mut dim, 64 * 64, closed(8, 10_000));
    assert_eq!((world.asked.len(), dim.us()), (16, 0));
    // It ends at once when the rate doubles, here to what waits for nothing.
    world.asked.clear();
    world.run(&mut dim, 64 * 20, even(500));
    assert_eq!((dim.us(), world.asked), (50, [1, 2, 3, 4].into()));
    // One that is deep enough has no harm from it.
    let (mut dim, mut world) = (LoadDim::new(&LOAD), World::default());
    world.run(&mut dim, 64 * 20, closed(64, 50_000));
    assert_eq!((dim.us(), world.asked), (50, [1, 2, 3, 4].into()));
}

#[test]
fn a_set_of_none_or_one_never_changes() {
    for waits in [&LOAD[..0], &LOAD[..1]] {
        let (mut dim, mut world) = (LoadDim::new(waits), World::default());
        world.run(&mut dim, 64 * 10, even(100));
        assert_eq!((dim.index(), dim.us(), world.asked.len()), (0, 0, 0));
    }
}

/// What [`LOAD`] says of itself.
#[test]
fn the_set_is_in_the_units_of_the_card() {
    for (index, wait) in LOAD.iter().enumerate() {
        assert_eq!(wait.us % 2, 0);
        let Some(next) = LOAD.get(index + 1) else {
            continue;
        };
        assert!(wait.us < next.us);
        assert!(wait.brings * next.us < next.brings * wait.us || wait.us == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever it is told, it stays in its set, and goes up by one.
    #[test]
    fn it_stays_in_its_set(samples in prop::collection::vec((0u64..1 << 30, 0u32..1 << 10, any::<u32>()), 1..300)) {
        let mut dim = LoadDim::new(&LOAD);
        let (mut ns, mut events, mut completions) = (0u64, 0u32, 0u32);
        for (time, some, done) in samples {
            ns += time;
            events = events.wrapping_add(some);
            completions = completions.wrapping_add(done);
            let before = dim.index();
            let sample = RdmaSample { time: Ns(ns), events, completions };
            let asked = dim.sample(sample);
            prop_assert_eq!(asked.unwrap_or(before), dim.index());
            prop_assert!(asked != Some(before));
            prop_assert!(dim.index() <= before + 1 && dim.index() < LOAD.len());
            dim.applied();
        }
    }
}
