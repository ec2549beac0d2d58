//! Connections over a network with faults.

use std::println;
use std::vec::Vec;

use e810_types::Ns;

use super::rig::{Dice, Memory};
use super::world::{Faults, Side, World};

/// Runs of a test; more by hand: `E810_CM_RUNS=1000000 cargo test --release -p e810-cm`.
fn runs(few: u64) -> u64 {
    let asked = std::env::var("E810_CM_RUNS").ok();
    asked.map_or(few, |runs| runs.parse().unwrap())
}

const SLOTS: usize = 8;

/// Runs of one connection: a message each way, and its end.
struct Runs {
    memories: [Memory; 2],
    faults: Faults,
    retries: u8,
}

impl Runs {
    fn new(faults: Faults, retries: u8) -> Self {
        Self {
            memories: [Memory::new(SLOTS), Memory::new(SLOTS)],
            faults,
            retries,
        }
    }

    /// Whether both sides had the connection, and when. If not, when the last one had given up.
    fn one(&mut self, seed: u64, sends_data: bool) -> (bool, Ns) {
        let mut world = World::new(&mut self.memories, seed, 1, self.faults, self.retries);
        world.sends_data = sends_data;
        world.connect(0).unwrap();
        let mut connected = None;
        let mut ended = Ns::ZERO;
        loop {
            if !world.step() {
                ended = ended.max(world.now);
                // All of the peer's DREQs were lost: a queue pair notices that nobody answers it.
                let alone = (0..2).find_map(|side| Some((side, world.established(side)?)));
                match alone {
                    Some((side, id)) => world.disconnect(side, id),
                    None => break,
                }
            }
            if connected.is_none()
                && let (Some(a), Some(b)) = (world.established(0), world.established(1))
            {
                connected = Some(world.now);
                let ender = (seed % 2) as usize;
                world.disconnect(ender, [a, b][ender]);
            }
        }
        world.assert_empty(SLOTS);
        assert!(world.sides.iter().all(|side| side.free_qps.len() == 1));
        (connected.is_some(), connected.unwrap_or(ended))
    }
}

/// The share of failures is the computed one, within three sigma.
fn assert_share(failed: u64, runs: u64, share: f64) {
    let mean = share * runs as f64;
    let sigma = (mean * (1.0 - share)).sqrt();
    println!("{failed} of {runs} failed, expected {mean:.2} ± {sigma:.2}");
    assert!((failed as f64 - mean).abs() <= 3.0 * sigma.max(1.0));
}

/// With Linux' times, and a tenth of the datagrams lost, doubled and late: all connect.
#[test]
fn all_connect_with_a_tenth_of_faults() {
    let faults = Faults {
        lost: 100,
        doubled: 100,
        late: 100,
    };
    let mut times = [0_u64; 12];
    let mut all = Runs::new(faults, 15);
    for seed in 0..runs(10_000) {
        let (is_connected, time) = all.one(seed, seed % 4 != 0);
        assert!(is_connected, "seed {seed}");
        let seconds = (time.0 / 1_000_000_000) as usize;
        times[seconds.min(11)] += 1;
    }
    println!("connections by seconds until both sides had them: {times:?}");
}

/// Half of the datagrams lost, with Linux' times.
#[test]
fn half_the_datagrams_lost() {
    let faults = Faults {
        lost: 500,
        ..Faults::NONE
    };
    let (runs, mut all) = (runs(10_000), Runs::new(faults, 15));
    let failed = (0..runs).filter(|seed| !all.one(*seed, true).0).count();
    // Each of 16 REQs fails if it, or all that answers it, is lost. The REP is repeated on its own
    // as well, so only the REQs decide, and the REPs after the first that arrives.
    assert_share(failed as u64, runs, expected_failures(0.5, 15));
}

/// Probability that no REP arrives: of `repeats + 1` REQs the k-th is the first that arrives; from
/// then on the passive side sends `repeats + 1` REPs, as far as the active side still waits.
fn expected_failures(loss: f64, repeats: i32) -> f64 {
    // The active side waits 4608 ms after its last REQ, the passive side repeats each 4096 ms.
    let mut failure = loss.powi(repeats + 1);
    for first in 0..=repeats {
        let arrives = loss.powi(first) * (1.0 - loss);
        let left = f64::from(repeats + 1 - first) * 4608.0;
        let replies = ((left / 4096.0).ceil() as i32).min(repeats + 1);
        failure += arrives * loss.powi(replies);
    }
    failure
}

/// With two repeats and half of the datagrams lost: what does not connect has ended on both sides
/// when the limits of both are over.
#[test]
fn few_repeats_end_in_time() {
    let faults = Faults {
        lost: 500,
        doubled: 100,
        ..Faults::NONE
    };
    // The last REQ may be the first that arrives; its REPs are repeated, and so are two DREQs of
    // who was connected alone. Then TIMEWAIT.
    let limit = Ns::from_ms(3 * 4608 + 3 * 4096 + 3 * 4608 + 512 + 1);
    let (runs, mut all, mut failed) = (runs(10_000), Runs::new(faults, 2), 0);
    for seed in 0..runs {
        let (is_connected, time) = all.one(seed, true);
        if !is_connected {
            failed += 1;
            assert!(time <= limit, "seed {seed}: {time:?}");
        }
    }
    // A tenth has two copies, which are both lost in a quarter of the cases.
    assert_share(failed, runs, expected_failures(0.9 * 0.5 + 0.1 * 0.25, 2));
}

/// A few queue pairs, whose numbers come back thousands of times; both sides connect and disconnect
/// all the time, over a network with faults, and now and then one forgets all its connections.
fn queue_pairs_come_back(functions: usize, seed: u64) {
    const SLOTS: usize = 64;
    let faults = Faults {
        lost: 100,
        doubled: 100,
        late: 50,
    };
    let mut memories: Vec<_> = (0..functions).map(|_| Memory::new(SLOTS)).collect();
    // Eight for each end.
    let qps = 16 / functions as u32;
    let mut world = World::new(&mut memories, seed, qps, faults, 15);
    let mut dice = Dice(seed + 1);
    let (mut asked, mut restarts, goal) = (0, 0, runs(20_000));
    loop {
        let is_last = asked >= goal;
        for side in 0..functions {
            if !is_last {
                asked += u64::from(dice.is(100) && world.connect(side).is_some());
            }
            if let Some(id) = world.established(side)
                && (is_last || dice.is(50))
            {
                world.disconnect(side, id);
            }
        }
        if asked / 200 > restarts && restarts < 1000 {
            restarts += 1;
            world.restart(restarts as usize % functions, SLOTS);
        }
        if !world.step() && asked >= goal {
            break;
        }
        world.assert_pairs();
    }
    world.assert_empty(SLOTS);
    let is_back = |side: &Side<'_>| side.free_qps.len() == qps as usize;
    assert!(world.sides.iter().all(is_back));
    let established: u64 = world.sides.iter().map(|side| side.established).sum();
    let uses = world.sides.iter().flat_map(|side| side.uses.values());
    let (least, most) = (uses.clone().min(), uses.max());
    println!("{asked} asked for, {established} ends established; uses {least:?} to {most:?}");
    assert!(established > goal, "most of them connect");
}

#[test]
fn queue_pairs_come_back_and_are_never_mixed_up() {
    queue_pairs_come_back(2, 4242);
}

/// Both ends have the same GUID and the same address, and their queue pairs are of one function.
#[test]
fn queue_pairs_of_one_function_are_never_mixed_up() {
    queue_pairs_come_back(1, 4243);
}
