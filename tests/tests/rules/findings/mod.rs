//! docs/findings.md against the simulator: each rule that can be a finding has a row there, with
//! the test that makes it fire, and each row its rule.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod collect;
mod page;
mod recorders;
mod source;
mod tests;

use std::fs;

use collect::{Found, collect};
use e810_tests::sources::{root, shipped, sources};
use page::{differences, parse};
use recorders::RECORDERS;
use source::Source;

const DOCUMENT: &str = "docs/findings.md";

/// What a rule that goes, or is softened, takes.
const POLICY: &str = "A rule is removed or softened because a reference driver shows that it is \
                      wrong: a row of \"Rules that reference drivers corrected\" says which.";

fn simulator() -> Vec<Source> {
    let folder = root().join("sim/src");
    shipped(sources(&folder))
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("a source file");
            let path = path.strip_prefix(&folder).expect("below sim/src");
            Source::new(&path.to_string_lossy(), &text)
        })
        .collect()
}

fn found() -> Found {
    collect(&simulator())
}

fn document() -> String {
    fs::read_to_string(root().join(DOCUMENT)).expect("the page")
}

#[test]
fn every_rule_has_a_row_and_every_row_a_rule() {
    let different = differences(&parse(&document()), &found()).join("\n");
    assert!(different.is_empty(), "{DOCUMENT}:\n{different}\n{POLICY}");
}

#[test]
fn the_page_has_its_totals() {
    let text = document();
    let totals = parse(&text).totals();
    assert!(text.contains(&totals), "{DOCUMENT} has to say: {totals}");
}
