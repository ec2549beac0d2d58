//! What connections that the connection manager makes and ends cost each side, without a message:
//! from runs of 10 and of 30 of them, so that what a process does once is not in it.

use std::error::Error;

use super::rows::{Counts, Folder};

const FEW: i64 = 10;
const MANY: i64 = 30;

/// Whether the folder is that of the list `connections`.
pub(crate) fn are_in(folder: &Folder) -> bool {
    folder.report("irdma-active-10-before").is_ok()
}

pub(crate) fn print(folder: &Folder) -> Result<(), Box<dyn Error>> {
    let grown = |peer: &str, ours: &str| -> Result<[Counts; 2], Box<dyn Error>> {
        let of = |count: i64| folder.row(&format!("{peer}-{ours}-{count}"));
        let ([our_few, their_few], [our_many, their_many]) = (of(FEW)?, of(MANY)?);
        Ok([our_many.minus(&our_few), their_many.minus(&their_few)])
    };
    let mut columns = Vec::new();
    for (peer, theirs) in [("irdma", "irdma"), ("rxe", "rdma_rxe")] {
        let [our_active, their_passive] = grown(peer, "active")?;
        let [our_passive, their_active] = grown(peer, "passive")?;
        columns.push((format!("e810 to {theirs}"), our_active));
        columns.push((format!("{theirs} from e810"), their_passive));
        columns.push((format!("{theirs} to e810"), their_active));
        columns.push((format!("e810 from {theirs}"), our_passive));
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    println!("| | {} |", names.join(" | "));
    println!("| --- |{}", " ---: |".repeat(columns.len()));
    let row = |name: &str, count: &dyn Fn(&Counts) -> i64| {
        let cells = columns.iter().map(|(_, counts)| {
            let each = count(counts) as f64 / (MANY - FEW) as f64;
            format!("{each:.2}")
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    row("frames sent", &|counts| counts.get("frames_sent"));
    row("CQP commands", &|counts| counts.all("cqp_of "));
    row("register writes", &|counts| counts.all("writes_of "));
    row("register reads", &Counts::reads);
    row("interrupts", &|counts| counts.get("interrupts_delivered"));
    println!();
    for (name, counts) in &columns {
        let each: Vec<String> = ["cqp_of ", "writes_of ", "reads_of "]
            .iter()
            .flat_map(|kind| counts.each(kind).map(move |(name, n)| (kind, name, n)))
            .map(|(kind, name, n)| {
                let each = n as f64 / (MANY - FEW) as f64;
                format!("{}{name} {each:.2}", kind.replace("_of", ""))
            })
            .collect();
        println!("{name}: {}", each.join(", "));
    }
    Ok(())
}
