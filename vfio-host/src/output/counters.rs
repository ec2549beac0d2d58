//! Counters of a function, by the names of existing drivers.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use e810::Stats;

/// Counters by name.
pub type Counters = BTreeMap<&'static str, u64>;

#[must_use]
pub fn by_name(stats: &Stats) -> Counters {
    stats
        .iter()
        .map(|(counter, value)| (counter.name(), value))
        .collect()
}

/// Prints the counters that are not 0.
///
/// # Errors
/// Where they go.
pub(crate) fn print_counters(counters: &Counters, out: &mut dyn Write) -> Result<()> {
    let mut silent = 0;
    for (name, value) in counters {
        match value {
            0 => silent += 1,
            _ => writeln!(out, "  {name:<18} {value}")?,
        }
    }
    match silent {
        0 => {}
        all if all == counters.len() => writeln!(out, "  all {all} are 0")?,
        1 => writeln!(out, "  1 other is 0")?,
        some => writeln!(out, "  {some} others are 0")?,
    }
    Ok(())
}
