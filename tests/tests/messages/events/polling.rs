//! Ways to take completions, and queues that are shared.

use e810::polling::{BATCH, BUDGET, CqLease, CqPoller, CqPool, PollMode, Processed};
use e810::{CqModeration, Error, QpCaps, SendFlags};
use e810_hal::{Clock, Ns};
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Watched};

type Simulated = Pair<Watched<SimPlatform>>;

fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}

/// A pair whose second side has a poller in place of its receive queue, and room
/// for more receives than a budget.
fn pair(sim: &Sim, mode: PollMode) -> (Simulated, CqPoller<Watched<SimPlatform>>) {
    let setup = Setup {
        separate_cqs: true,
        channel: true,
        caps: QpCaps {
            max_recv_wr: 400,
            ..Setup::default().caps
        },
        ..Setup::default()
    };
    let mut pair = Pair::simulated(sim, setup);
    pair.sides.iter_mut().for_each(|side| side.polling = false);
    let cq = pair.sides[1].cqs.pop().unwrap();
    (pair, CqPoller::new(cq, mode))
}

fn finish(mut pair: Simulated, poller: CqPoller<Watched<SimPlatform>>, sim: &Sim) {
    pair.sides[1].cqs.push(poller.into_cq());
    pair.finish(sim);
}

/// Sends `count` messages and lets them arrive.
fn send(sim: &Sim, pair: &mut Simulated, count: usize) {
    for _ in 0..count {
        pair.message(SendFlags::empty());
        sim.run(Ns(2_000));
        while pair.sides[0].cqs[0].poll(&mut [e810::Wc::default(); 4]) > 0 {}
    }
    sim.run(Ns::from_ms(1));
    pair.sides[1].progress();
}

fn turn(sim: &Sim, poller: &mut CqPoller<Watched<SimPlatform>>) -> (Processed, u32) {
    let mut done = 0;
    let now = sim.function(1).now();
    let processed = poller.process(now, &mut |wc| {
        assert_eq!(wc.wr_id, 1);
        done += 1;
    });
    (processed, done)
}

#[test]
fn after_an_event_at_most_the_budget_is_taken() {
    let sim = sim(40);
    let (mut pair, mut poller) = pair(&sim, PollMode::event());
    assert_eq!(turn(&sim, &mut poller), (Processed::Sleep, 0));
    send(&sim, &mut pair, 300);
    let channel = pair.sides[1].channel.clone().unwrap();
    let event = channel.try_next().unwrap().unwrap();
    channel.acknowledge(event, 1).unwrap();
    assert_eq!(event.cq(), poller.cq().key());
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, BUDGET));
    let arms = sim.stats(1).arms;
    assert_eq!(turn(&sim, &mut poller), (Processed::Sleep, 300 - BUDGET));
    assert_eq!(sim.stats(1).arms, arms + 1, "armed when it is empty, once");
    // Exactly a budget: it is not known to be empty.
    send(&sim, &mut pair, BUDGET as usize);
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, BUDGET));
    assert_eq!(turn(&sim, &mut poller), (Processed::Sleep, 0));
    let event = channel.try_next().unwrap().unwrap();
    channel.acknowledge(event, 1).unwrap();
    drop(channel);
    finish(pair, poller, &sim);
}

/// A budget that would never take anything, and ask to be called again for ever.
#[test]
fn a_budget_of_nothing_is_one() {
    let spin = Ns(1);
    for mode in [
        PollMode::Event { budget: 0 },
        PollMode::Hybrid { budget: 0, spin },
    ] {
        let sim = sim(41);
        let (mut pair, mut poller) = pair(&sim, mode);
        send(&sim, &mut pair, 1);
        assert_eq!(turn(&sim, &mut poller), (Processed::Again, 1));
        sim.run(Ns(10));
        assert_eq!(turn(&sim, &mut poller), (Processed::Sleep, 0));
        finish(pair, poller, &sim);
    }
}

/// Word 0 of the queue's shadow area: how far the device is told that it was polled.
fn published_head(pair: &Simulated) -> impl Fn() -> u64 + use<> {
    // The ring of the second queue, and its shadow area behind it.
    let blocks = pair.sides[1].platform.blocks();
    let mut areas = blocks.windows(2).filter_map(|pair| match pair {
        [ring, shadow] if ring.align == 256 && (shadow.align, shadow.bytes) == (64, 64) => {
            Some(shadow.clone())
        }
        _ => None,
    });
    let shadow = { areas.next_back() }.unwrap();
    move || shadow.get(0)
}

/// The queue is polled for 16 completions, these are used, and then for the next 16:
/// while one is used, the head says how many were taken with it.
#[test]
fn completions_are_taken_16_at_a_time() {
    assert_eq!(BATCH, 16);
    for mode in [PollMode::event(), PollMode::hybrid(Ns(1)), PollMode::Direct] {
        let sim = sim(46);
        let (mut pair, mut poller) = pair(&sim, mode);
        let head = published_head(&pair);
        send(&sim, &mut pair, 77);
        assert_eq!(head(), 0);
        let mut heads = Vec::new();
        assert_eq!(poller.process_direct(37, &mut |_| heads.push(head())), 37);
        let _ = poller.process(sim.now(), &mut |_| heads.push(head()));
        let batches = heads.chunk_by(|one, next| one == next);
        let batches: Vec<_> = batches.map(|batch| (batch[0], batch.len())).collect();
        assert_eq!(
            batches,
            [(16, 16), (32, 16), (37, 5), (53, 16), (69, 16), (77, 8)],
            "{mode:?}"
        );
        finish(pair, poller, &sim);
    }
}

#[test]
fn a_queue_that_is_polled_directly_is_never_armed() {
    let sim = sim(41);
    let (mut pair, mut poller) = pair(&sim, PollMode::Direct);
    let before = sim.stats(1);
    send(&sim, &mut pair, 40);
    assert_eq!(poller.process_direct(17, &mut |_| {}), 17);
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, 23));
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, 0));
    let after = sim.stats(1);
    assert_eq!(
        (after.arms, after.ceqes, after.interrupts),
        (before.arms, before.ceqes, before.interrupts)
    );
    finish(pair, poller, &sim);
}

/// It spins for a while after the last completion, and then sleeps; while it
/// spins it costs no doorbell.
#[test]
fn a_hybrid_sleeps_after_its_spin() {
    const SPIN: Ns = Ns(50_000);
    let sim = sim(42);
    let (mut pair, mut poller) = pair(&sim, PollMode::hybrid(SPIN));
    let arms = sim.stats(1).arms;
    send(&sim, &mut pair, 1);
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, 1));
    let start = sim.now();
    loop {
        let (processed, done) = turn(&sim, &mut poller);
        assert_eq!(done, 0);
        let spun = sim.now().0 - start.0;
        assert_eq!(processed == Processed::Sleep, spun >= SPIN.0, "{spun} ns");
        if processed == Processed::Sleep {
            break;
        }
        assert_eq!(sim.stats(1).arms, arms);
        sim.run(Ns(1_000));
    }
    assert_eq!(sim.stats(1).arms, arms + 1);
    // Woken by the event, it spins again.
    send(&sim, &mut pair, 1);
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, 1));
    assert_eq!(turn(&sim, &mut poller), (Processed::Again, 0));
    finish(pair, poller, &sim);
}

/// What comes while the event is asked for is found in the next turn.
#[test]
fn nothing_is_left_between_the_last_poll_and_the_request() {
    let sim = sim(43);
    let (mut pair, mut poller) = pair(&sim, PollMode::event());
    for _ in 0..200 {
        // The message arrives before, while or after the poller asks.
        pair.message(SendFlags::empty());
        let mut seen = 0;
        let mut asleep = false;
        for _ in 0..100 {
            if !asleep {
                let (processed, done) = turn(&sim, &mut poller);
                seen += done;
                asleep = processed == Processed::Sleep;
            } else if poller.cq_mut().take_event() {
                asleep = false;
            }
            sim.run(Ns(700));
            pair.sides[1].progress();
        }
        assert_eq!((seen, asleep), (1, true));
        while pair.sides[0].cqs[0].poll(&mut [e810::Wc::default(); 4]) > 0 {}
    }
    // Whatever its channel still has of it.
    let channel = pair.sides[1].channel.clone().unwrap();
    while let Ok(Some(event)) = channel.try_next() {
        channel.acknowledge(event, 1).unwrap();
    }
    drop(channel);
    finish(pair, poller, &sim);
}

#[test]
fn a_pool_hands_out_the_least_used_queue_that_fits() {
    let sim = sim(44);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let channel = side.control.create_channel().unwrap();
    let direct = CqPool::<_, 4>::new(channel.clone(), 64, PollMode::Direct);
    assert!(matches!(direct.unwrap_err(), Error::Invalid { .. }));
    let mut pool = CqPool::<_, 4>::new(channel.clone(), 100, PollMode::event()).unwrap();
    let control = &mut side.control;
    let number = |pool: &CqPool<_, 4>, lease: &CqLease| pool.cq(lease).unwrap().number();
    let first = pool.get(control, 60, Some(1)).unwrap();
    let room = pool.cq(&first).unwrap().entries();
    // It does not fit beside it: a second queue of the same vector.
    let second = pool.get(control, room - 30, Some(1)).unwrap();
    assert_ne!(number(&pool, &first), number(&pool, &second));
    // Now the first has more left.
    let third = pool.get(control, 10, Some(1)).unwrap();
    assert_eq!(number(&pool, &third), number(&pool, &first));
    // Another vector, another queue; one that does not exist has none.
    let other = pool.get(control, 10, Some(0)).unwrap();
    assert!(matches!(
        pool.get(control, 10, Some(999)).unwrap_err(),
        Error::NoSuch { id: 999, .. }
    ));
    assert_eq!(pool.len(), 3);
    // A large one gets a queue as large, and then the pool is full.
    let large = pool.get(control, 3_000, Some(0)).unwrap();
    assert!(pool.cq(&large).unwrap().entries() >= 3_000);
    assert!(matches!(
        pool.get(control, 200_000, Some(0)).unwrap_err(),
        Error::Exhausted { limit: 4, .. }
    ));
    // What is given back can be had again.
    pool.put(second).unwrap();
    let again = pool.get(control, room - 1, Some(1)).unwrap();
    assert_eq!(again.entries(), room - 1);
    for lease in [first, third, other, large, again] {
        pool.put(lease).unwrap();
    }
    pool.drain(control).map_err(|(_, error)| error).unwrap();
    control.close_channel(&channel).unwrap();
    drop(channel);
    pair.finish(&sim);
}

/// What a pool says of moderation is so for its queues of now and those to come.
#[test]
fn a_pool_moderates_each_of_its_queues() {
    let sim = sim(47);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let control = &mut side.control;
    let channel = control.create_channel().unwrap();
    let mut pool = CqPool::<_, 4>::new(channel.clone(), 64, PollMode::event()).unwrap();
    let first = pool.get(control, 60, Some(1)).unwrap();
    let settings = |pool: &mut CqPool<_, 4>| -> Vec<CqModeration> {
        let queues = pool.pollers();
        queues
            .map(|(_, poller)| poller.cq().moderation().setting)
            .collect()
    };
    assert_eq!(settings(&mut pool), [CqModeration::Off]);
    let period = |period_us| CqModeration::Fixed {
        count: 0,
        period_us,
    };
    pool.set_moderation(control, period(40)).unwrap();
    assert_eq!(control.interrupt_timing(1).unwrap().interval_us, 40);
    // It does not fit beside it. A queue without a wish would end the wait.
    let second = pool.get(control, 100, Some(1)).unwrap();
    assert_eq!(settings(&mut pool), [period(40); 2]);
    assert_eq!(control.interrupt_timing(1).unwrap().interval_us, 40);
    let refused = pool.set_moderation(control, period(8_161));
    assert!(matches!(refused, Err(Error::Ceq(_))), "{refused:?}");
    assert_eq!(settings(&mut pool), [period(40); 2]);
    pool.set_moderation(control, CqModeration::Off).unwrap();
    assert_eq!(control.interrupt_timing(1).unwrap().interval_us, 0);
    assert_eq!(settings(&mut pool), [CqModeration::Off; 2]);
    for lease in [first, second] {
        pool.put(lease).unwrap();
    }
    pool.drain(control).map_err(|(_, error)| error).unwrap();
    control.close_channel(&channel).unwrap();
    drop(channel);
    pair.finish(&sim);
}

/// A poller that is kept busy asks for no event; its turns are measured all the same.
#[test]
fn each_turn_of_a_poller_is_an_event_of_its_moderation() {
    let sim = sim(48);
    let (mut pair, mut poller) = pair(&sim, PollMode::Event { budget: 1 });
    let counted = CqModeration::Fixed {
        count: 16,
        period_us: 50,
    };
    let control = &mut pair.sides[1].control;
    control.modify_cq(poller.cq_mut(), counted).unwrap();
    send(&sim, &mut pair, 140);
    let arms = sim.stats(1).arms;
    let waits: Vec<u32> = (0..140)
        .map(|_| {
            assert_eq!(turn(&sim, &mut poller), (Processed::Again, 1));
            sim.run(Ns(1_000));
            poller.cq().moderation().wait_us
        })
        .collect();
    assert_eq!(sim.stats(1).arms, arms);
    // The first turn begins a measurement of 64; 16 completions came in 16 µs.
    let begins = waits.iter().position(|wait| *wait > 0);
    assert_eq!((begins, waits[139]), (Some(64), 16));
    finish(pair, poller, &sim);
}

/// Users without a wish are spread over the vectors; a queue that is in use stays.
#[test]
fn a_pool_goes_round_the_vectors_and_keeps_what_is_used() {
    let sim = sim(45);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let control = &mut side.control;
    let channel = control.create_channel().unwrap();
    let mut pool = CqPool::<_, 16>::new(channel.clone(), 64, PollMode::hybrid(Ns(1))).unwrap();
    let vectors = usize::from(control.completion_vectors());
    let leases: Vec<CqLease> = (0..2 * vectors)
        .map(|_| pool.get(control, 8, None).unwrap())
        .collect();
    let mut on: Vec<u16> = pool.pollers().map(|(vector, _)| vector).collect();
    on.sort_unstable();
    assert_eq!(on, (0..vectors as u16).collect::<Vec<_>>());
    let last = pool.cq(&leases[vectors - 1]).unwrap();
    let init = e810::QpInit::rc(last, last, Setup::default().caps);
    let qp = control.create_qp(&side.pd, &init).unwrap();
    let (pool, error) = pool.drain(control).unwrap_err();
    assert!(matches!(error, Error::InUse { users: 2, .. }), "{error}");
    assert_eq!(pool.len(), vectors);
    control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    pool.drain(control).map_err(|(_, e)| e).unwrap();
    drop(leases);
    control.close_channel(&channel).unwrap();
    drop(channel);
    pair.finish(&sim);
}
