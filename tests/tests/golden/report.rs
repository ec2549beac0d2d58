//! Reading vector files, judging their cases, and saying what came of it.
//!
//! A module judges one file, or its part of one, in one `#[test]`:
//!
//! ```ignore
//! #[test]
//! fn encodings() {
//!     report::file("encodings.json", |file| {
//!         file.each("cases", |case| {
//!             if case["kind"] != "wq" {
//!                 return None; // judged elsewhere
//!             }
//!             Some(Outcome::same("encoded", encode(case.u64("quanta")), case.u64("encoded")))
//!         });
//!     });
//! }
//! ```
//!
//! Every case of every array of every file must be judged by somebody:
//! [`summary::check`] fails otherwise. A case that fails but stands in
//! [`DEVIATIONS`] counts as a deviation on purpose. A judge may see for itself
//! that the input is one we refuse, so that other vectors with the same input
//! are recognised; the repository's own must stand in the table all the same.
//! An entry there whose case passes is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use serde_json::Value;

use crate::deviations::{DEVIATIONS, DEVICE_DEVIATIONS};
pub use crate::deviations::{Deviation, Rule};
use crate::feature::Feature;
use crate::summary::{self, Counts, Running, say};

/// Who is judged by a vector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The driver: it must write, read and refuse what the recorded software did.
    Driver,
    /// The simulated device: it must understand what the recorded software wrote,
    /// and write what that software understood.
    Device,
}

impl Side {
    const fn deviations(self) -> &'static [Deviation] {
        match self {
            Self::Driver => DEVIATIONS,
            Self::Device => DEVICE_DEVIATIONS,
        }
    }

    /// What stands before a file's name in the tally.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Driver => "",
            Self::Device => "device: ",
        }
    }
}

/// What came of one case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As recorded.
    Passed,
    /// Differs on purpose; for rules that a property of the input decides
    /// rather than its name.
    Deviates(Rule, &'static str),
    /// Not run: it needs a feature that this core does not have.
    Skipped(Feature),
    /// Differs: what was expected and what came.
    Failed(String),
}

impl Outcome {
    /// Passed when `got` equals `expected`.
    pub fn same<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Self {
        if got == expected {
            Self::Passed
        } else {
            Self::Failed(format!("{what}: expected {expected:?}, got {got:?}"))
        }
    }

    /// The first outcome that is not [`Outcome::Passed`].
    pub fn all(outcomes: impl IntoIterator<Item = Self>) -> Self {
        outcomes
            .into_iter()
            .find(|outcome| *outcome != Self::Passed)
            .unwrap_or(Self::Passed)
    }
}

/// One element of an array of a vector file. Dereferences to its JSON.
pub struct Case<'a> {
    /// Its `name`, or `array[index]`.
    pub name: String,
    value: &'a Value,
}

impl Deref for Case<'_> {
    type Target = Value;
    fn deref(&self) -> &Value {
        self.value
    }
}

impl Case<'_> {
    /// The number `key`, which the case must have.
    pub fn u64(&self, key: &str) -> u64 {
        number(self.value, key)
    }
}

/// The number `value[key]`, which must be there.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("`{key}` is not an unsigned number: {}", value[key]))
}

/// Where the vectors are: the directory `E810_VECTORS` names, or the
/// repository's own.
pub fn directory() -> PathBuf {
    match std::env::var_os("E810_VECTORS") {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors")),
    }
}

fn is_foreign() -> bool {
    std::env::var_os("E810_VECTORS").is_some()
}

/// A vector file, read; `None` when a directory given by `E810_VECTORS` does
/// not have it.
pub fn load(name: &str) -> Option<Value> {
    let path = directory().join(name);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if is_foreign() && error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{}: {error}", path.display()),
    };
    Some(serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// A vector file being judged by one part.
pub struct File {
    name: &'static str,
    side: Side,
    value: Value,
    counts: Counts,
    cases: BTreeSet<(String, usize)>,
    deviations: &'static [Deviation],
    /// The file is not the repository's.
    foreign: bool,
    /// Cases by why they did not simply pass.
    notes: BTreeMap<String, Vec<String>>,
    failures: Vec<String>,
}

impl File {
    fn new(name: &'static str, side: Side, value: Value, deviations: &'static [Deviation]) -> Self {
        Self {
            name,
            side,
            value,
            counts: Counts::default(),
            cases: BTreeSet::new(),
            deviations,
            foreign: is_foreign(),
            notes: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// The file's `meta` object.
    pub fn meta(&self) -> &Value {
        &self.value["meta"]
    }

    /// Judges the elements of one top-level array. `None` leaves a case to
    /// another part. A panic fails the case it came from, and only that one.
    pub fn each(&mut self, array: &str, mut judge: impl FnMut(&Case<'_>) -> Option<Outcome>) {
        let value = std::mem::take(&mut self.value);
        let elements = value[array].as_array().map_or(&[][..], Vec::as_slice);
        for (index, element) in elements.iter().enumerate() {
            let name = match element["name"].as_str() {
                Some(name) => name.to_owned(),
                None => format!("{array}[{index}]"),
            };
            let case = Case {
                name,
                value: element,
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| judge(&case)))
                .unwrap_or_else(|panic| Some(Outcome::Failed(panic_text(panic.as_ref()))));
            if let Some(outcome) = outcome {
                self.cases.insert((array.to_owned(), index));
                self.record(&case.name, outcome);
            }
        }
        self.value = value;
    }

    fn record(&mut self, case: &str, outcome: Outcome) {
        let entry = self.deviations.iter().find(|entry| {
            entry.file == self.name
                && match entry.case.strip_suffix('*') {
                    Some(start) => case.starts_with(start),
                    None => entry.case == case,
                }
        });
        let outcome = match (outcome, entry) {
            (Outcome::Failed(_), Some(entry)) if entry.rule != Rule::KernelPolicy => {
                Outcome::Deviates(entry.rule, entry.why)
            }
            (Outcome::Passed, Some(entry)) if !entry.case.ends_with('*') => Outcome::Failed(
                "stands in the table of deviations, and passes: remove it there".to_owned(),
            ),
            (Outcome::Deviates(rule, _), Some(entry)) if rule == entry.rule => {
                Outcome::Deviates(rule, entry.why)
            }
            // Other vectors than the repository's have other names; there
            // what the judge sees in the input must do.
            (Outcome::Deviates(_, why), None) if !self.foreign => {
                Outcome::Failed(format!("deviates ({why}), but not in the table"))
            }
            (outcome, _) => outcome,
        };
        match outcome {
            Outcome::Passed => self.counts.passed += 1,
            Outcome::Deviates(rule, why) => {
                self.counts.deviates += 1;
                let reason = format!("deviates ({rule:?}): {why}");
                self.notes.entry(reason).or_default().push(case.to_owned());
            }
            Outcome::Skipped(feature) => {
                self.counts.skipped += 1;
                let reason = format!("skipped, no such feature: {}", feature.row());
                self.notes.entry(reason).or_default().push(case.to_owned());
            }
            Outcome::Failed(text) => {
                self.counts.failed += 1;
                self.failures.push(format!("{case}: {text}"));
            }
        }
    }

    /// The tally, and a line for each reason with the first of its cases.
    fn report(&self) -> String {
        let mut text = self.counts.line(self.side, self.name);
        for (reason, cases) in &self.notes {
            let more = if cases.len() > 4 { ", ..." } else { "" };
            let first = cases[..cases.len().min(4)].join(", ");
            text += &format!("  {:>4} × {reason} [{first}{more}]\n", cases.len());
        }
        text
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("(no text)"))
}

/// Runs one part's judgement of the file `name`, prints its tally, and fails
/// the test when a case failed.
pub fn file(name: &'static str, part: impl FnOnce(&mut File)) {
    judge(Side::Driver, name, part);
}

/// As [`file`], of the simulated device. A case that has nothing to tell it
/// (bytes that nobody wrote) is left out by `None`.
pub fn device(name: &'static str, part: impl FnOnce(&mut File)) {
    judge(Side::Device, name, part);
}

fn judge(side: Side, name: &'static str, part: impl FnOnce(&mut File)) {
    let _running = Running::start();
    summary::expect(side, name);
    let Some(value) = load(name) else {
        summary::absent(side, name);
        return;
    };
    let sizes = value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_array()?.len())))
        .collect();
    let mut file = File::new(name, side, value, side.deviations());
    part(&mut file);
    say(&file.report());
    summary::add(side, name, &file.counts, sizes, file.cases);
    assert!(
        file.failures.is_empty(),
        "{} of {} cases of {name} failed:\n  {}",
        file.failures.len(),
        file.counts.run(),
        file.failures
            .iter()
            .take(40)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n  ")
    );
}

#[cfg(test)]
mod tests;
