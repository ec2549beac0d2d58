//! Every fact that no source states has an id, and a line in `tests/assumptions`.
//!
//! A mark is `[inf ID]`, `[inf ID: more]`, `NITS (ID)` or `NITS (ID; more)`; the id is on the line
//! on which the mark begins. A line of `tests/assumptions` has the id, the class, what is assumed,
//! what would change if it were false, and what decides it.
//!
//! `UPDATE_EXPECT=1 cargo test -p e810-tests --test rules assumptions` writes the page
//! docs/assumptions.md anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use e810_sim::Variation;
use e810_tests::sources::{files, root, sources};
use expect_test::expect_file;

use crate::{name, read};

/// The files that marks are named by, of each id.
type Marks = BTreeMap<String, BTreeSet<String>>;

const LINES: &str = "tests/assumptions";

/// Each class, and the heading of its table.
const CLASSES: [(&str, &str); 3] = [
    ("driver", "What the driver relies on"),
    (
        "setting",
        "What matters for settings, and for what commands show",
    ),
    ("simulator", "What matters for the simulator alone"),
];

/// Why an assumption of the first two classes has no experiment.
const REASONS: [&str; 4] = [
    "needs another vendor's switch or card",
    "would harm card or network",
    "software cannot see it",
    "no experiment yet",
];

/// Of the simulator's assumptions.
const NO_REASON: &str = "-";

/// The words' definitions, and what programs print.
const NO_MARKS: [&str; 12] = [
    "write `[inf]` in the comment",
    "mark the rule `[inf]` there",
    "`[inf]` marks",
    "NITS what is in none",
    "NITS a fact that",
    "| `[inf]` | inferred",
    "| NITS | not in",
    "it is marked `[inf]`",
    "({object} [inf])",
    "(CQ [inf])",
    "(PBLE [inf])",
    "(Q1 [inf])",
];

/// They have marks that are none: examples, and the table of all.
const NOT_READ: [&str; 2] = ["tests/tests/rules/assumptions.rs", "docs/assumptions.md"];

/// An assumption, as its line has it.
#[derive(Debug)]
struct Assumption {
    id: String,
    class: String,
    assumed: String,
    if_false: String,
    how: String,
}

impl Assumption {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split(" | ").map(str::to_owned).collect();
        let [id, class, assumed, if_false, how] = fields.try_into().ok()?;
        Some(Self {
            id,
            class,
            assumed,
            if_false,
            how,
        })
    }

    fn experiment(&self) -> Option<&str> {
        self.how.strip_prefix("experiment ")
    }

    /// What is wrong with it.
    fn complaint(&self, experiments: &BTreeSet<String>) -> Option<String> {
        let Self { id, class, how, .. } = self;
        let is_simulators = class == "simulator";
        if !CLASSES.iter().any(|(known, _)| known == class) {
            Some(format!("{id}: no class {class}"))
        } else if let Some(experiment) = self.experiment() {
            let is_known = experiments.contains(experiment);
            (!is_known).then(|| format!("{id}: no experiment {experiment}"))
        } else if experiments.contains(id) {
            Some(format!("{id}: it has an experiment of its name"))
        } else if is_simulators != (how == NO_REASON)
            || !is_simulators && !REASONS.contains(&how.as_str())
        {
            Some(format!("{id}: no reason {how}"))
        } else {
            (self.assumed.ends_with('.')).then(|| format!("{id}: a full stop"))
        }
    }
}

/// The id with which `text` begins, and that one of `ends` follows.
fn id<'a>(text: &'a str, ends: &[char]) -> Option<&'a str> {
    let is_of_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let end = text.find(|c| !is_of_id(c))?;
    let (id, rest) = text.split_at(end);
    ((1..=24).contains(&id.len()) && rest.starts_with(ends)).then_some(id)
}

/// The marks of a line, each with its id if it has one.
fn marks(line: &str) -> Vec<Option<String>> {
    let line = NO_MARKS
        .iter()
        .fold(line.to_owned(), |line, text| line.replace(text, ""));
    let in_a_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (word, before_id, ends) in [
        ("[inf", " ", [']', ':', '\\'].as_slice()),
        ("NITS", " (", &[')', ';']),
    ] {
        for (at, _) in line.match_indices(word) {
            let (before, after) = (&line[..at], &line[at + word.len()..]);
            if before.ends_with(in_a_word) && word == "NITS" || after.starts_with(in_a_word) {
                continue;
            }
            let id = after
                .strip_prefix(before_id)
                .and_then(|text| id(text, ends));
            found.push(id.map(str::to_owned));
        }
    }
    found
}

/// All marks of the tree, and the places of those without an id.
fn all_marks() -> (Marks, Vec<String>) {
    let (mut all, mut without) = (Marks::new(), Vec::new());
    for path in files(&root(), &["rs", "md", "jsonl"]) {
        let file = name(&path);
        if file.starts_with("docs/reference") || NOT_READ.contains(&file.as_str()) {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            for mark in marks(line) {
                match mark {
                    Some(id) => _ = all.entry(id).or_default().insert(file.clone()),
                    None => without.push(format!("{file}:{}: a mark without an id", number + 1)),
                }
            }
        }
    }
    (all, without)
}

fn assumptions() -> Vec<Assumption> {
    let parse = |line| Assumption::parse(line).unwrap_or_else(|| panic!("{LINES}: {line}"));
    read(LINES).lines().map(parse).collect()
}

/// The names of the experiments of `e810 selftest`.
fn experiments() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in sources(&root().join("selftest/src/experiments")) {
        let text = read(path);
        let lines = text.lines().map(str::trim);
        let named = lines.filter_map(|line| line.strip_prefix("name: \"")?.strip_suffix("\","));
        names.extend(named.map(str::to_owned));
    }
    assert!(names.len() > 40, "only {} experiments", names.len());
    names
}

/// How many assumptions of each class there are, by what decides them.
fn counts(all: &[Assumption]) -> String {
    let mut out = "| | all | with an experiment |".to_owned();
    let rule = "\n| --- | --- | --- |".to_owned() + &" --- |".repeat(REASONS.len());
    for reason in REASONS {
        write!(out, " {reason} |").expect("room");
    }
    out += &rule;
    for (class, title) in CLASSES {
        let of: Vec<_> = all.iter().filter(|one| one.class == class).collect();
        let with = of.iter().filter(|one| one.experiment().is_some()).count();
        write!(out, "\n| {title} | {} | {with} |", of.len()).expect("room");
        for reason in REASONS {
            let count = of.iter().filter(|one| one.how == reason).count();
            write!(out, " {count} |").expect("room");
        }
    }
    out
}

fn page(all: &[Assumption], marks: &Marks) -> String {
    let mut out = format!(
        "\
# Assumptions

What the driver and the simulator assume of the card, although no source states it. In code and documents,
`[inf ID]` marks such a fact if it is inferred, and `NITS (ID)` if it is in none of the sources; the id is that of
a row here. `e810 selftest` performs experiments on a card. An experiment that is named under \"decided by\" finds
whether the assumption holds there: either it looks for this, or it cannot end with a result otherwise. Nothing
here has been checked on a card yet. [Hardware notes](hardware-notes.md) say more of many of them.

This page is generated from `{LINES}` and from the marks.
`UPDATE_EXPECT=1 cargo test -p e810-tests --test rules assumptions` generates it again.

{}
",
        counts(all)
    );
    for (class, title) in CLASSES {
        let head = "| Id | Assumed | If it were false | Decided by | Places |";
        write!(
            out,
            "\n## {title}\n\n{head}\n| --- | --- | --- | --- | --- |\n"
        )
        .expect("room");
        for one in all.iter().filter(|one| one.class == class) {
            let files: Vec<_> = marks[&one.id]
                .iter()
                .map(|file| format!("`{file}`"))
                .collect();
            let how = match one.experiment() {
                Some(experiment) => format!("experiment `{experiment}`"),
                None => one.how.replace(NO_REASON, "–"),
            };
            let Assumption {
                id,
                assumed,
                if_false,
                ..
            } = one;
            let files = files.join(", ");
            writeln!(out, "| `{id}` | {assumed} | {if_false} | {how} | {files} |").expect("room");
        }
    }
    out
}

#[test]
fn every_mark_has_an_id_with_a_line() {
    let (marks, mut wrong) = all_marks();
    let lines: BTreeSet<_> = assumptions().into_iter().map(|one| one.id).collect();
    for (id, files) in &marks {
        if !lines.contains(id) {
            wrong.push(format!("{id} of {files:?} has no line in {LINES}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_line_is_well_formed_and_has_a_mark() {
    let (marks, experiments) = (all_marks().0, experiments());
    let all = assumptions();
    let mut wrong: Vec<_> = all
        .iter()
        .filter_map(|one| one.complaint(&experiments))
        .collect();
    for one in &all {
        if !marks.contains_key(&one.id) {
            wrong.push(format!("{}: no mark has this id", one.id));
        }
    }
    for [one, next] in all.array_windows() {
        if one.id >= next.id {
            wrong.push(format!("{} stands before {}", one.id, next.id));
        }
    }
    for choice in Variation::CHOICES {
        if !all.iter().any(|one| one.id == choice.name) {
            wrong.push(format!(
                "{}: a choice of the simulator without a line",
                choice.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{LINES}:\n{}", wrong.join("\n"));
}

#[test]
fn the_page_is_what_the_lines_say() {
    let (marks, _) = all_marks();
    let mut all = assumptions();
    // Another test reports a line without a mark.
    all.retain(|one| marks.contains_key(&one.id));
    expect_file!["../../../docs/assumptions.md"].assert_eq(&page(&all, &marks));
}

#[test]
fn a_wrong_mark_or_line_is_seen() {
    let some = |id: &str| Some(id.to_owned());
    let right = r"`[inf a]` \[inf b_2\] [inf c: text] [inf d: NITS (e) NITS (f; lan-path 3.1)";
    assert_eq!(marks(right), ["a", "b_2", "c", "d", "e", "f"].map(some));
    assert_eq!(marks("[info, UNITS] (CQ [inf]) Inf"), []);
    for wrong in [
        "[inf]",
        r"\[inf",
        "[inf A]",
        "[inf a text]",
        "[inf twenty_five_letters_are_2_many]",
        "NITS",
        "NITS.",
        "NITS (lan-path 3.1)",
    ] {
        assert_eq!(marks(wrong), [None], "{wrong}");
    }
    let experiments = BTreeSet::from(["x".to_owned()]);
    let is_right = |line| {
        let one = Assumption::parse(line).unwrap();
        one.complaint(&experiments).is_none()
    };
    assert!(is_right("a | driver | it is | so | experiment x"));
    assert!(is_right("a | setting | it is | so | no experiment yet"));
    assert!(is_right("a | simulator | it is | so | -"));
    for wrong in [
        "a | card | it is | so | -",
        "a | driver | it is | so | experiment y",
        "a | driver | it is | so | -",
        "a | simulator | it is | so | no experiment yet",
        "a | driver | it is. | so | no experiment yet",
        "x | simulator | it is | so | -",
    ] {
        assert!(!is_right(wrong), "{wrong}");
    }
}
