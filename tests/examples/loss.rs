//! What a bad wire costs: frames and virtual time of the same messages at several
//! rates of loss, and of other faults.
//!
//! ```text
//! cargo run --release -p e810-tests --example loss
//! ```
//!
//! Every message is checked. Virtual time is the model's: it shows what the
//! timers cost, and is no figure of speed.

use e810_hal::Ns;
use e810_sim::{Quality, Sim};
use e810_tests::traffic::wires::{
    OF_EACH, PERCENT, corrupting, delaying, duplicating, hurt, losing, reordering,
};
use e810_tests::traffic::{Pair, storm_setup};

/// Rounds of sixteen messages, for each of the seeds.
const ROUNDS: usize = 50;
const SEEDS: u64 = 8;

/// Frames sent, frames hurt, and virtual time in ns.
fn run(quality: Quality) -> (u64, u64, u64) {
    let (mut sent, mut faults, mut time) = (0, 0, 0);
    for seed in 0..SEEDS {
        let sim = Sim::builder().functions(2).seed(seed).build();
        let mut pair = Pair::simulated(&sim, storm_setup());
        sim.set_quality(quality);
        let start = sim.now();
        pair.storm(ROUNDS, seed);
        time += (sim.now() - start).0;
        sent += sim.link().sent;
        faults += hurt(&sim);
        sim.set_quality(Quality::PERFECT);
        pair.finish(&sim);
    }
    (sent, faults, time)
}

fn main() {
    let wires = [
        ("perfect", Quality::PERFECT),
        ("loss 0.1 %", losing(PERCENT / 10)),
        ("loss 1 %", losing(PERCENT)),
        ("loss 3 %", losing(3 * PERCENT)),
        ("loss 5 %", losing(5 * PERCENT)),
        ("duplication 5 %", duplicating(5 * PERCENT)),
        ("reordering 5 %", reordering(5 * PERCENT)),
        ("corruption 5 %", corrupting(5 * PERCENT)),
        ("delay up to 30 µs", delaying(Ns::from_us(30))),
        ("3 % of each, delay up to 5 µs", OF_EACH),
    ];
    let messages = ROUNDS as u64 * 16 * SEEDS;
    println!(
        "{messages} messages of every kind, 0 to 16 KiB, path MTU 1024; all verified, each once"
    );
    println!(
        "| wire | frames sent | frames affected | more than on a perfect one | virtual time a message |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let mut least = None;
    for (name, quality) in wires {
        let (sent, hurt, time) = run(quality);
        let least = *least.get_or_insert(sent);
        let more = 100.0 * (sent as f64 / least as f64 - 1.0);
        let us = time as f64 / messages as f64 / 1e3;
        println!("| {name} | {sent} | {hurt} | {more:.1} % | {us:.1} µs |");
    }
}
