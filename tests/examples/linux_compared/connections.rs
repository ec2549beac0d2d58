//! Costs of a connection: of the first one, of one that another program has had before, and of one
//! queue pair more beside one that is there.

use std::collections::BTreeSet;
use std::error::Error;

use super::rows::{Counts, Folder, is_of_lan};

/// The function that only receives: what a message costs is not in it.
const RECEIVER: usize = 1;

/// Prints what making one takes, and what ending it.
pub(crate) fn print(folder: &Folder) -> Result<(), Box<dyn Error>> {
    let of = |row: &str| -> Result<Counts, Box<dyn Error>> {
        let [_, receiver] = folder.row(row)?;
        Ok(receiver)
    };
    let more = |who: &str, when: &str| -> Result<Counts, Box<dyn Error>> {
        let [one, two] = ["one", "two"].map(|row| of(&format!("{who}-{row}-held-{when}")));
        Ok(two?.minus(&one?))
    };
    // The process begins with a bring-up, which is counted by itself.
    let report = folder.report("ours-one-held-made-after")?;
    let functions = report.get("functions").and_then(|all| all.get(RECEIVER));
    let bring_ups = functions.and_then(|function| function.get("bring_ups")?.as_array());
    let last = bring_ups.and_then(|all| all.last());
    let bring_up = Counts::of(last.ok_or("no bring-up of this driver")?);
    let first = of("ours-one-held-made")?.minus(&bring_up);
    table(
        "Making a connection",
        &[
            ("Linux, first", of("linux-first-held-made")?),
            ("Linux, later", of("linux-one-held-made")?),
            ("Linux, QP more", more("linux", "made")?),
            ("e810, first", first),
            ("e810, QP more", more("ours", "made")?),
        ],
    );
    table(
        "Ending it",
        &[
            ("Linux, later", of("linux-one-held-ended")?),
            ("Linux, QP more", more("linux", "ended")?),
            ("e810, with the engine", of("ours-one-held-ended")?),
            ("e810, QP more", more("ours", "ended")?),
        ],
    );
    Ok(())
}

fn table(title: &str, columns: &[(&str, Counts)]) {
    println!("## {title}\n");
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    println!("| | {} |", names.join(" | "));
    println!("| --- |{}", " ---: |".repeat(columns.len()));
    let row = |name: &str, count: &dyn Fn(&Counts) -> i64| {
        let cells = columns.iter().map(|(_, counts)| count(counts).to_string());
        let cells: Vec<String> = cells.collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    row("CQP commands", &|counts| counts.all("cqp_of "));
    row("AdminQ commands", &|counts| counts.all("adminq_of "));
    row("interrupts", &|counts| counts.get("interrupts"));
    row("register reads", &Counts::reads);
    row("bytes of memory", &|counts| counts.get("dma_bytes"));
    for kind in ["cqp_of ", "adminq_of ", "writes_of ", "reads_of "] {
        let counted = columns.iter().flat_map(|(_, counts)| counts.each(kind));
        let names: BTreeSet<&str> = counted.map(|(name, _)| name).collect();
        for name in names.into_iter().filter(|name| !is_of_lan(name)) {
            let what = kind.trim_end().trim_end_matches("_of");
            let key = format!("{kind}{name}");
            row(&format!("{what} {name}"), &|counts| counts.get(&key));
        }
    }
    println!();
}
