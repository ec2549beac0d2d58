//! Costs of a message: what a run of 2N messages has more than one of N, divided by N.

use std::error::Error;

use super::rows::{Counts, Folder};

/// Messages that the longer run has more (`tests/guest/rows-compared`).
const MORE: i64 = 400;

/// Row, what it is, and messages of both functions for each that a program counts.
const ROWS: [(&str, &str, i64); 11] = [
    ("send", "SEND, one at a time, answered", 2),
    ("write", "WRITE, one at a time, answered", 2),
    ("read", "READ, one at a time", 1),
    ("send-stream", "SENDs, many at once", 1),
    ("write-stream", "WRITEs, many at once", 1),
    ("read-stream", "READs, many at once", 1),
    ("send-list", "SENDs in lists of 16", 1),
    ("write-list", "WRITEs in lists of 16", 1),
    ("read-list", "READs in lists of 16", 1),
    (
        "send-events",
        "SEND, one at a time, answered, with events",
        2,
    ),
    ("read-events", "READ, one at a time, with events", 1),
];

/// Column and the counts that are in it.
const COLUMNS: [(&str, &[&str]); 8] = [
    (
        "doorbells",
        &["writes_of DB_WQE_ALLOC", "writes_of PFPE_WQEALLOC"],
    ),
    ("frames", &["frames_sent"]),
    ("arms", &["writes_of DB_CQ_ARM", "writes_of PFPE_CQARM"]),
    ("CEQ entries", &["ceqes"]),
    ("interrupts", &["interrupts"]),
    ("PFPE_CQACK", &["writes_of PFPE_CQACK"]),
    ("PFPE_AEQALLOC", &["writes_of PFPE_AEQALLOC"]),
    ("GLINT_DYN_CTL", &["writes_of GLINT_DYN_CTL"]),
];

/// Prints the table of messages and that of a driver with nothing to do.
pub(crate) fn print(folder: &Folder) -> Result<(), Box<dyn Error>> {
    println!("## A message of 64 bytes, on both functions together\n");
    let names = COLUMNS.map(|(name, _)| name);
    println!("| | | {} | reads |", names.join(" | "));
    println!("| --- | --- |{}", " ---: |".repeat(COLUMNS.len() + 1));
    for (row, what, messages) in ROWS {
        for (who, name) in [("linux", "Linux"), ("ours", "e810")] {
            let grown = |run: &str| -> Result<Counts, Box<dyn Error>> {
                let [first, second] = folder.row(&format!("{who}-{row}-{run}"))?;
                Ok(first.plus(&second))
            };
            let more = grown("twice")?.minus(&grown("once")?);
            let each = |count: i64| {
                let each = count as f64 / (MORE * messages) as f64;
                // No minus before a zero.
                format!("{:.2}", (each * 100.0).round() / 100.0 + 0.0)
            };
            let cells = COLUMNS.map(|(_, counts)| each(more.sum(counts)));
            let reads = each(more.reads());
            println!("| {what} | {name} | {} | {reads} |", cells.join(" | "));
        }
    }
    println!("\n## Linux with nothing to do\n");
    for (index, counts) in folder.row("linux-idle")?.iter().enumerate() {
        println!(
            "function {index}: {} register reads, {} writes, {} AdminQ and {} CQP commands, {} interrupts",
            counts.all("reads_of "),
            counts.all("writes_of "),
            counts.all("adminq_of "),
            counts.all("cqp_of "),
            counts.get("interrupts")
        );
    }
    Ok(())
}
