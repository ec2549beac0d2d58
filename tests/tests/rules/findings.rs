//! docs/findings.md against the simulator's table.

use std::collections::BTreeSet;
use std::fs;

use e810_sim::findings::{Class, kind};
use e810_tests::sources::root;

#[test]
fn every_kind_has_its_row() {
    let page = fs::read_to_string(root().join("docs/findings.md")).expect("the page");
    let rows = page.lines().filter_map(|line| {
        let row = line.rsplit_once(" | ")?.0;
        let is_kind = row.contains("| fault |") || row.contains("| lint |");
        is_kind.then(|| row.to_owned())
    });
    let rows: BTreeSet<String> = rows.collect();
    let known = kind::ALL.iter().map(|kind| {
        let class = match kind.class {
            Class::Fault => "fault",
            Class::Lint => "lint",
        };
        format!(
            "| `{}` | {class} | {} | {}",
            kind.name, kind.about, kind.source
        )
    });
    let known: BTreeSet<String> = known.collect();
    assert_eq!(known.len(), kind::ALL.len(), "two kinds are one row");
    let missing: Vec<_> = known.difference(&rows).collect();
    let wrong: Vec<_> = rows.difference(&known).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "docs/findings.md: missing {missing:#?}, wrong {wrong:#?}"
    );
}
