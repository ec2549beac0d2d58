//! Connections over a network with faults.

use std::println;

use e810_types::Ns;

use super::rig::{Dice, Faults, Known, World};

/// Runs of a test; more by hand: `E810_CM_RUNS=1000000 cargo test --release -p e810-cm`.
fn runs(few: u64) -> u64 {
    let asked = std::env::var("E810_CM_RUNS").ok();
    asked.map_or(few, |runs| runs.parse().unwrap())
}

const SLOTS: usize = 8;

/// One connection, with a message each way, and its end; whether both sides had it, and when. If
/// not, when the last one had given up.
fn one(seed: u64, faults: Faults, sends_data: bool, retries: u8) -> (bool, Ns) {
    let mut world = World::with_retries(seed, SLOTS, 1, faults, retries);
    world.sends_data = sends_data;
    let id = world.connect(0).unwrap();
    let mut connected = None;
    let mut ended = Ns::ZERO;
    loop {
        if !world.step() {
            ended = ended.max(world.now);
            // All of the peer's DREQs were lost: a queue pair notices that nobody answers it.
            let alone = (0..2).find_map(|side| {
                let mut links = world.sides[side].links.iter();
                let left = links.find(|(_, link)| link.known == Known::Established);
                left.map(|(id, _)| (side, *id))
            });
            match alone {
                Some((side, id)) => world.disconnect(side, id),
                None => break,
            }
        }
        let established = |side: usize| {
            let mut links = world.sides[side].links.values();
            links.any(|link| link.known == Known::Established)
        };
        if connected.is_none() && established(0) && established(1) {
            connected = Some(world.now);
            let ender = (seed % 2) as usize;
            let id = match ender {
                0 => id,
                _ => *world.sides[1].links.keys().next().unwrap(),
            };
            world.disconnect(ender, id);
        }
    }
    world.assert_empty(SLOTS);
    assert_eq!(
        world.sides.each_ref().map(|side| side.free_qps.len()),
        [1, 1]
    );
    (connected.is_some(), connected.unwrap_or(ended))
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
    for seed in 0..runs(10_000) {
        let (is_connected, time) = one(seed, faults, seed % 4 != 0, 15);
        assert!(is_connected, "seed {seed}");
        let seconds = (time.0 / 1_000_000_000) as usize;
        times[seconds.min(11)] += 1;
    }
    println!("connections by seconds until both sides had them: {times:?}");
}

/// Half of the datagrams lost: the share that fails is the computed one, within three sigma.
#[test]
fn half_the_datagrams_lost() {
    let faults = Faults {
        lost: 500,
        ..Faults::NONE
    };
    let runs = runs(10_000);
    let failed = (0..runs)
        .filter(|seed| !one(*seed, faults, true, 15).0)
        .count() as f64;
    // Each of 16 REQs fails if it, or all that answers it, is lost. The REP is repeated on its own
    // as well, so only the REQs decide, and the REPs after the first that arrives.
    let expected = expected_failures(0.5, 15);
    let mean = expected * runs as f64;
    let sigma = (mean * (1.0 - expected)).sqrt();
    println!("failed {failed}, expected {mean:.2} ± {sigma:.2}");
    assert!((failed - mean).abs() <= 3.0 * sigma.max(1.0));
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

/// With two repeats, half of the datagrams lost and some late: what does not connect has ended on
/// both sides when the limits of both are over.
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
    let mut failed = 0;
    for seed in 0..runs(10_000) {
        let (is_connected, time) = one(seed, faults, true, 2);
        if !is_connected {
            failed += 1;
            assert!(time <= limit, "seed {seed}: {time:?}");
        }
    }
    println!("{failed} did not connect");
    assert!(failed > 0);
}

/// Eight queue pairs a side, both sides connect and disconnect all the time, so that the numbers
/// come back: each connection has two ends with the same two numbers.
#[test]
fn queue_pairs_come_back_and_are_never_mixed_up() {
    let faults = Faults {
        lost: 100,
        doubled: 100,
        late: 50,
    };
    let mut world = World::new(4242, 64, 8, faults);
    let mut dice = Dice(1);
    let mut made = 0;
    let goal = runs(3_000);
    loop {
        if made < goal {
            for side in 0..2 {
                made += u64::from(dice.is(100) && world.connect(side).is_some());
                let links = world.sides[side].links.iter();
                let ready = links.filter(|(_, link)| link.known == Known::Established);
                if let Some(id) = ready.map(|(id, _)| *id).next()
                    && dice.is(50)
                {
                    world.disconnect(side, id);
                }
            }
        } else {
            for side in 0..2 {
                let links = world.sides[side].links.iter();
                let ready = links.filter(|(_, link)| link.known == Known::Established);
                if let Some(id) = ready.map(|(id, _)| *id).next() {
                    world.disconnect(side, id);
                }
            }
        }
        if !world.step() && made >= goal {
            break;
        }
        for side in 0..2 {
            let links = world.sides[side].links.values();
            for link in links.filter(|link| link.known == Known::Established) {
                let others = world.sides[1 - side].links.values();
                let mut of_qp = others.filter(|other| other.qpn == link.peer_qpn);
                if let Some(other) = of_qp.next()
                    && other.known == Known::Established
                {
                    assert_eq!(
                        other.peer_qpn, link.qpn,
                        "two connections of one queue pair"
                    );
                }
            }
        }
    }
    world.assert_empty(64);
    assert!(world.sides.iter().all(|side| side.free_qps.len() == 8));
    let established: u64 = world.sides.iter().map(|side| side.established).sum();
    println!("{made} asked for, {} ends established", established);
    assert!(established > goal, "most of them connect");
}
