//! No completion is slept over: random schedules against the simulator.

use e810::Notify;
use e810_sim::variation::ClearPba;
use e810_sim::{Sim, Variation};
use e810_tests::wakeups::{Schedules, Tally};

fn sim(seed: u64, clear_pba: ClearPba) -> Sim {
    let builder = Sim::builder().functions(2).seed(seed);
    builder
        .variation(Variation {
            clear_pba,
            ..Variation::default()
        })
        .build()
}

/// The same whatever becomes of an event that came before CLEARPBA was written.
#[test]
fn no_schedule_leaves_the_program_asleep() {
    let kinds: [&[Notify]; 3] = [
        &[Notify::Any],
        &[Notify::Solicited],
        &[Notify::Any, Notify::Solicited],
    ];
    let pba = [ClearPba::Keeps, ClearPba::Drops];
    let all = kinds
        .into_iter()
        .flat_map(|kind| pba.map(|pba| (kind, pba)));
    for (seed, (requests, clear_pba)) in (1..).zip(all) {
        let mut schedules = Schedules::new(sim(seed, clear_pba), seed, requests);
        for _ in 0..5_000 {
            schedules.run_one();
            let tally = schedules.tally();
            assert_eq!((tally.slept_over, tally.unasked), (0, 0), "{tally:?}");
        }
        let (tally, stats) = (schedules.tally(), schedules.stats());
        assert_eq!(tally.skipped, 0);
        assert!(tally.events > 1_500, "{tally:?}");
        assert!(tally.events <= tally.requests, "{tally:?}");
        // The device raised events for what it found when it was asked.
        let at_once = match requests {
            [Notify::Solicited] => stats.solicited_at_once,
            _ => stats.events_at_once,
        };
        assert!(at_once > 100, "{stats:?}");
        assert!(stats.ceqes <= stats.arms, "{stats:?}");
        assert_eq!(stats.arms_repeated, 0);
        schedules.finish();
    }
}

#[test]
fn a_schedule_follows_from_its_seed() {
    let run = |seed| -> Tally {
        let mut schedules = Schedules::new(sim(7, ClearPba::Keeps), seed, &[Notify::Any]);
        (0..50).for_each(|_| schedules.run_one());
        schedules.tally()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
