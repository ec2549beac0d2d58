//! Connections between two functions of one process, on the calls that a unikernel uses.
//!
//! ```text
//! cargo run --release -p e810-tests --example connections -- rate [SECONDS [AT-ONCE [QPS]]]
//! cargo run --release -p e810-tests --example connections -- held [COUNT]
//! ```
//!
//! `rate`: each is asked for, accepted, carries one message each way, is ended, and its queue pairs are
//! destroyed after TIMEWAIT. AT-ONCE connections are being made at a time (1: the times of the set-up
//! alone are told, too). QPS is the capacity of each function for queue pairs.
//!
//! `held`: COUNT are made and stay. It tells what each takes of memory, then sends messages on one
//! in a hundred of them, and ends all.
//!
//! `rate` has a thread for each function, `held` one for both.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a run that goes wrong ends the program"
)]

mod held;
mod pair;
mod rate;
mod side;
mod work;

use std::env;

const USAGE: &str = "usage: connections rate [SECONDS [AT-ONCE [QPS]]] | held [COUNT]";

fn main() {
    let mut args = env::args().skip(1);
    let what = args.next().expect(USAGE);
    let numbers: Vec<u32> = args.map(|arg| arg.parse().expect(USAGE)).collect();
    let at = |index: usize, usual: u32| numbers.get(index).copied().unwrap_or(usual);
    match what.as_str() {
        "rate" => rate::run(at(0, 10), at(1, 16) as usize, at(2, 32_768)),
        "held" => held::run(at(0, 10_000) as usize),
        _ => eprintln!("{USAGE}"),
    }
}
