//! docs/findings.md has a row for each kind of finding that the simulator knows.

use std::collections::BTreeSet;

use e810_sim::findings::{Class, kind};

use crate::{assert_page, read};

#[test]
fn every_kind_has_its_row() {
    let page = read("docs/findings.md");
    let rows = page.lines().filter_map(|line| {
        let row = line.rsplit_once(" | ")?.0;
        let is_kind = row.contains("| fault |") || row.contains("| lint |");
        is_kind.then(|| row.to_owned())
    });
    let known = kind::ALL.iter().map(|kind| {
        let class = match kind.class {
            Class::Fault => "fault",
            Class::Lint => "lint",
        };
        let (name, about, source) = (kind.name, kind.about, kind.source);
        format!("| `{name}` | {class} | {about} | {source}")
    });
    let known: BTreeSet<String> = known.collect();
    assert_eq!(known.len(), kind::ALL.len(), "two kinds are one row");
    assert_page("docs/findings.md", &rows.collect(), &known);
}
