//! Bring-ups, from a reset to the engine's being ready.

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::Value;

use super::rows::Folder;

/// Driver Version, which Linux sends at each start and this driver never.
const LINUX_ONLY: &str = "0x0002";

type Counts = BTreeMap<String, u64>;

/// One bring-up, from a reset to the engine's being ready.
#[derive(Clone, Copy)]
struct BringUp<'a>(&'a Value);

impl BringUp<'_> {
    fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or(0)
    }

    fn counts(&self, key: &str) -> Counts {
        let counts = self.0[key].as_object().into_iter().flatten();
        counts
            .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
            .collect()
    }

    fn is_linux(&self) -> bool {
        self.0["adminq_of"].get(LINUX_ONLY).is_some()
    }

    /// Whether it brought the package onto the card.
    fn loaded(&self) -> bool {
        self.0["adminq_of"].get("0x0c40").is_some()
    }
}

/// Prints the tables of both kinds of bring-up.
pub(crate) fn print(folder: &Folder) -> Result<(), Box<dyn Error>> {
    let reports = [folder.report("linux")?, folder.report("ours")?];
    let all = reports
        .iter()
        .filter_map(|report| report.get("functions")?.as_array())
        .flatten()
        .filter_map(|function| function.get("bring_ups")?.as_array())
        .flatten()
        .map(BringUp);
    let (linux, ours): (Vec<_>, Vec<_>) = all.partition(BringUp::is_linux);
    println!(
        "bring-ups seen: {} of Linux, {} of this driver\n",
        linux.len(),
        ours.len()
    );
    // The first of each kind: later ones differ only in how often something was waited for.
    for (what, loaded) in [
        ("which loads the package", true),
        ("which finds it loaded", false),
    ] {
        let [theirs, own] =
            [&linux, &ours].map(|all| all.iter().find(|one| one.loaded() == loaded));
        if let (Some(theirs), Some(own)) = (theirs, own) {
            println!("## A bring-up {what}\n");
            compare(*theirs, *own);
        }
    }
    Ok(())
}

fn compare(linux: BringUp<'_>, ours: BringUp<'_>) {
    println!("| | Linux | e810 |\n| --- | ---: | ---: |");
    for (name, key) in [
        ("register reads", "reads"),
        ("register writes", "writes"),
        ("AdminQ commands", "adminq"),
        ("CQP commands", "cqp"),
        ("bytes of HMC backed", "hmc_bytes"),
    ] {
        println!("| {name} | {} | {} |", linux.number(key), ours.number(key));
    }
    for (name, key) in [
        ("AdminQ command", "adminq_of"),
        ("CQP command", "cqp_of"),
        ("register read", "reads_of"),
        ("register written", "writes_of"),
    ] {
        let (theirs, own) = (linux.counts(key), ours.counts(key));
        let names: std::collections::BTreeSet<&String> = theirs.keys().chain(own.keys()).collect();
        println!("\n| {name} | Linux | e810 |\n| --- | ---: | ---: |");
        for name in names {
            let count = |of: &Counts| of.get(name).copied().unwrap_or(0);
            println!("| {name} | {} | {} |", count(&theirs), count(&own));
        }
    }
    println!();
}
