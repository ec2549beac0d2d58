//! What connections take that stay.

use std::time::Instant;

use allocation_counter::measure;
use e810::Qp;
use e810_cm::machine::{Slot, Tables};
use e810_connect::Connection;
use e810_sim::SimPlatform;

use super::pair::Pair;

/// Being made at a time.
const AT_ONCE: usize = 16;
/// Messages each way on each connection that has traffic.
const ROUNDS: u64 = 100;

pub(crate) fn run(count: usize) {
    // Queue pair 1 and those of the engine's own are in the number, too.
    let mut pair = Pair::new((count + 64) as u32, true);
    let made = |pair: &mut Pair, count: usize| {
        while pair.done.setups.len() < count {
            let under_way = pair.sides[0].connections.len() - pair.done.setups.len();
            if pair.sides[0].connections.len() < count && under_way < AT_ONCE {
                assert!(pair.ask(), "a queue pair for each");
            }
            pair.turn();
        }
    };
    // What is made once, and tables that grow.
    made(&mut pair, count / 10);
    let before = pair.done.setups.len();
    let info = measure(|| made(&mut pair, count));
    let each = |bytes: i64| bytes as f64 / (count - before) as f64 / 2.0;
    println!(
        "{count} connections: {:.1} allocations and {:.0} bytes of the program's thread for each end, rings \
         among them; of fixed size: {} bytes in the connection manager, {} of the connection, of which the \
         queue pair's {}",
        each(info.count_total as i64),
        each(info.bytes_current),
        size_of::<Slot>() + Tables::words(count) * 8 / count,
        size_of::<Connection<SimPlatform>>(),
        size_of::<Qp<SimPlatform>>(),
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
        pair.until("answers", |pair| pair.done.answers == all);
    }
    println!(
        "{} of them: {} messages each way in {:.1?}",
        busy.len(),
        pair.done.answers,
        began.elapsed(),
    );
    pair.close();
}
