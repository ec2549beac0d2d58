//! What connections take that stay.

use std::time::Instant;

use allocation_counter::measure;
use e810_cm::machine::{Slot, Tables};
use e810_connect::Connection;
use e810_sim::{MemoryCounts, SimPlatform};

use super::pair::Pair;
use super::side::Side;

/// Being made at a time.
const AT_ONCE: usize = 16;
/// Messages each way on each connection that has traffic.
const ROUNDS: u64 = 100;

pub(crate) fn run(count: usize) {
    // Queue pair 1 and those of the engine's own are in the number, too.
    let mut pair = Pair::new((count + 64) as u32, true);
    let there = pair.there;
    let made = |pair: &mut Pair, count: usize| {
        while pair.sides[0].done.setups.len() < count {
            let active = &mut pair.sides[0];
            let under_way = active.connections.len() - active.done.setups.len();
            if active.connections.len() < count && under_way < AT_ONCE {
                assert!(active.ask(there), "a queue pair for each");
            }
            pair.sides.iter_mut().for_each(Side::turn);
        }
    };
    // What is made once is not counted.
    made(&mut pair, count / 10);
    let before = pair.sides[0].done.setups.len();
    let memory = pair.memory();
    let info = measure(|| made(&mut pair, count));
    let grown = |bytes: fn(&MemoryCounts) -> u64| {
        let bytes = bytes(&pair.memory()) - bytes(&memory);
        bytes as f64 / (count - before) as f64
    };
    println!(
        "{count} connections, each end of one: {:.0} bytes of memory of the device (its rings) and {:.0} of \
         the driver's; {} in the connection manager, {} in the program's connection; {:.1} allocations of the \
         thread, which are the simulated machine's and this program's",
        grown(|counts| counts.dma_bytes),
        grown(|counts| counts.host_bytes),
        size_of::<Slot>() + Tables::words(count) * 8 / count,
        size_of::<Connection<SimPlatform>>(),
        info.count_total as f64 / (count - before) as f64 / 2.0,
    );
    let busy: Vec<_> = pair.sides[0]
        .connections
        .keys()
        .copied()
        .take(count.div_ceil(100))
        .collect();
    let began = Instant::now();
    for round in 1..=ROUNDS {
        for id in &busy {
            pair.sides[0].message(*id);
        }
        let all = round * busy.len() as u64;
        pair.until("answers", |pair| pair.sides[0].done.answers == all);
    }
    println!(
        "{} of them: {} messages each way in {:.1?}",
        busy.len(),
        pair.sides[0].done.answers,
        began.elapsed(),
    );
    pair.sides[0].disconnect();
    pair.close();
}
