//! `trials SECONDS [FIRST]`: random calls on functions that refuse, answer late, fail and are reset
//! ([`e810_tests::trials`]), one seed after the other from FIRST (1) on, for so long.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e810_tests::trials;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (seconds, first) = match (words.next(), words.next(), words.next()) {
        (Some(Ok(seconds)), None, None) => (seconds, 1),
        (Some(Ok(seconds)), Some(Ok(first)), None) => (seconds, first),
        _ => {
            eprintln!("usage: trials SECONDS [FIRST]");
            return ExitCode::from(2);
        }
    };
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let mut seed = first;
    while start.elapsed() < limit {
        if let Err(failure) = trials::run(seed) {
            println!("seed {seed}: {}", failure.wrong.join("; "));
            for call in failure.calls {
                println!("  {call}");
            }
            return ExitCode::FAILURE;
        }
        seed += 1;
    }
    println!("seeds {first} to {}: nothing wrong", seed - 1);
    ExitCode::SUCCESS
}
