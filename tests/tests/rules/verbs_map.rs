//! `docs/verbs-map.md` against the sources: what the page names on its left side is
//! found by that name in the documentation of the crates (`#[doc(alias = "…")]`).

use std::collections::BTreeSet;
use std::fs;

use e810_tests::sources::{root, sources};

/// Crates with public items that verbs have a name for, by folder.
const CRATES: &[&str] = &["types", "datapath", "driver"];

/// How the names begin that a reader would search for.
const PREFIXES: &[&str] = &["ibv_", "IBV_", "ib_", "IB_", "fi_", "rdma_"];

/// Identifiers of `text` that begin with one of [`PREFIXES`]. `IBV_ATOMIC_*` stands for
/// several and is none.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.ends_with('_'))
        .filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
}

/// The names in the first column of the tables of `page`. A row whose second column is
/// a dash has no counterpart, so its names are left out.
fn mapped(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .filter(|(_, here)| !here.starts_with('–'))
        .flat_map(|(theirs, _)| names(theirs))
        .collect()
}

/// The names in the `doc(alias …)` attributes of a source file.
fn aliases(source: &str) -> BTreeSet<&str> {
    source
        .split("#[doc(alias")
        .skip(1)
        .filter_map(|rest| rest.split_once(")]"))
        .flat_map(|(attribute, _)| names(attribute))
        .collect()
}

#[test]
fn what_the_page_maps_is_an_alias() {
    let page = fs::read_to_string(root().join("docs/verbs-map.md")).expect("the page");
    let texts: Vec<String> = CRATES
        .iter()
        .flat_map(|folder| sources(&root().join(folder).join("src")))
        .map(|path| fs::read_to_string(path).expect("a source file"))
        .collect();
    let aliases: BTreeSet<&str> = texts.iter().flat_map(|text| aliases(text)).collect();
    let mapped = mapped(&page);
    assert!(
        mapped.contains("ibv_post_send"),
        "the tables are not where this test reads them"
    );
    let missing: Vec<_> = mapped.difference(&aliases).collect();
    assert!(missing.is_empty(), "no doc(alias) for {missing:?}");
}

#[test]
fn the_readers_of_page_and_sources_find_names() {
    let page = "ibv_in_prose\n| libibverbs | here | differs |\n| --- | --- | --- |\n\
        | ibv_a, IB_B (kernel); field | `A` | not ibv_c |\n| ibv_d | – : none | |\n\
        | IBV_E_* | `E` | |\n";
    assert_eq!(mapped(page), BTreeSet::from(["ibv_a", "IB_B"]));
    let source = "#[doc(alias = \"ibv_a\")]\n// ibv_b\n#[doc(alias(\n    \"IB_B\",\n    \"fi_c\"\n))]\nfn f() {}\n";
    assert_eq!(aliases(source), BTreeSet::from(["ibv_a", "IB_B", "fi_c"]));
}
