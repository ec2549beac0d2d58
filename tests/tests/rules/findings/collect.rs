//! The rules of the simulator, as its sources have them: every place that records a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::findings::recorders::Part::{Argument, Fixed, Named};
use crate::findings::recorders::{
    FORWARDERS, Forwarder, LISTS, MALFORMED, NAMES_EVENTS, RECORDERS, Recorder, WORK,
};
use crate::findings::source::Source;

/// A rule: one text of a finding in one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) file: String,
    pub(crate) kind: String,
    /// `fault` or `lint`.
    pub(crate) class: String,
    pub(crate) text: String,
}

/// All that is found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The places of each rule, as lines.
    pub(crate) rules: BTreeMap<Rule, Vec<usize>>,
    /// Functions that record and that several places call: file, name and how many calls.
    pub(crate) shared: BTreeMap<(String, String), usize>,
    /// Functions with a call of a recorder: file and name.
    checks: BTreeSet<(String, String)>,
    /// What this reader does not understand.
    pub(crate) unclear: Vec<String>,
    /// Calls of each recorder.
    pub(crate) calls: BTreeMap<&'static str, usize>,
}

/// The rules of `sources`, whose paths are those below sim/src.
pub(crate) fn collect(sources: &[Source]) -> Found {
    let mut found = Found::default();
    let names = kinds(sources);
    let mut forwarded: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for source in sources {
        // Where a recorder is called, with all that it is given.
        let mut recorded: Vec<Range<usize>> = Vec::new();
        for recorder in RECORDERS {
            if !recorder.file.is_empty() && recorder.file != source.path {
                continue;
            }
            for open in source.calls(recorder.call) {
                *found.calls.entry(recorder.call).or_default() += 1;
                let (arguments, close) = source.arguments(open);
                recorded.push(open..close);
                let function = source.function(open).to_owned();
                if let Some(forwarder) = forwarder(source, &function) {
                    *forwarded
                        .entry((forwarder.file, forwarder.function))
                        .or_insert(0) += 1;
                    found.passes_on(source, recorder, forwarder, &arguments);
                    continue;
                }
                let line = source.line(open);
                match read(source, recorder, &arguments, open, &names) {
                    Ok((class, kind, texts)) => {
                        found.checks.insert((source.path.clone(), function));
                        for text in texts {
                            found.add(source, (class.clone(), kind.clone(), text), line);
                        }
                    }
                    Err(why) => found.unclear.push(format!("{}:{line}: {why}", source.path)),
                }
            }
        }
        for class in ["Class::Fault", "Class::Lint"] {
            for at in source.places(class) {
                let function = source.function(at);
                let inside = recorded.iter().any(|call| call.contains(&at));
                if inside {
                    continue;
                }
                found.unclear.push(format!(
                    "{}:{}: {class} in `{function}`, which is no known way of recording",
                    source.path,
                    source.line(at)
                ));
            }
        }
        found.lists(source);
        found.refusals(source, &names);
        found.malformed(source);
    }
    for Forwarder { file, function, .. } in FORWARDERS {
        let seen = forwarded.remove(&(*file, *function)).unwrap_or(0);
        if seen != 1 && sources.iter().any(|source| source.path == *file) {
            let unclear = format!("{file}: `{function}` records {seen} times instead of once");
            found.unclear.push(unclear);
        }
    }
    found.share(sources);
    found
}

/// The function that passes findings on, if it is one.
fn forwarder(source: &Source, function: &str) -> Option<&'static Forwarder> {
    FORWARDERS
        .iter()
        .find(|known| known.file == source.path && known.function == function)
}

impl Found {
    /// A forwarder records with another class or kind than it did: so do all of its callers.
    fn passes_on(
        &mut self,
        source: &Source,
        recorder: &Recorder,
        forwarder: &Forwarder,
        arguments: &[Range<usize>],
    ) {
        for (part, known) in [
            (recorder.class, forwarder.class),
            (recorder.kind, forwarder.kind),
        ] {
            let Argument(n) = part else { continue };
            let words = arguments.get(n).map(|range| source.words(range));
            if words.as_deref() != Some(known) {
                self.unclear.push(format!(
                    "{}: `{}` records with {words:?} instead of {known}: each rule of its \
                     callers has changed",
                    forwarder.file, forwarder.function
                ));
            }
        }
    }

    fn add(&mut self, source: &Source, (class, kind, text): (String, String, String), line: usize) {
        let rule = Rule {
            file: source.path.clone(),
            kind,
            class,
            text,
        };
        self.rules.entry(rule).or_default().push(line);
    }

    fn lists(&mut self, source: &Source) {
        for (file, from, to, class, kind) in LISTS.iter().filter(|list| list.0 == source.path) {
            let Some(region) = source.region(from, to) else {
                self.unclear
                    .push(format!("{file}: no list from {from} to {to}"));
                continue;
            };
            for literal in source.literals(&region) {
                let line = source.line(literal.at.start);
                let rule = ((*class).to_owned(), (*kind).to_owned(), literal.value);
                self.add(source, rule, line);
            }
        }
    }

    /// What the IOMMU refuses: a variant has a kind and a text.
    fn refusals(&mut self, source: &Source, names: &BTreeMap<String, String>) {
        if source.path != "iommu.rs" {
            return;
        }
        let regions = (
            source.region("const fn kind(self)", "\n    }\n"),
            source.region("const fn text(self)", "\n    }\n"),
        );
        let (Some(kinds), Some(texts)) = regions else {
            self.unclear
                .push("iommu.rs: no kinds and texts of Refusal".to_owned());
            return;
        };
        let kinds = source.words(&kinds);
        for literal in source.literals(&texts) {
            let line = source.line(literal.at.start);
            let before = source.words(&(texts.start..literal.at.start));
            let variant = before.split_whitespace().rev().nth(1).unwrap_or_default();
            let kind = kinds
                .split_once(&format!("{variant} => kind::"))
                .and_then(|(_, after)| after.split(',').next())
                .and_then(|name| names.get(name));
            match kind {
                Some(kind) => {
                    self.add(
                        source,
                        ("fault".to_owned(), kind.clone(), literal.value),
                        line,
                    );
                }
                None => self
                    .unclear
                    .push(format!("iommu.rs:{line}: no kind of {variant}")),
            }
        }
    }

    fn malformed(&mut self, source: &Source) {
        if NAMES_EVENTS.contains(&source.path.as_str()) {
            return;
        }
        for event in MALFORMED {
            for at in source.places(event) {
                let text = event.trim_start_matches("AeCode::");
                let rule = (
                    "fault".to_owned(),
                    "wqe-malformed".to_owned(),
                    text.to_owned(),
                );
                self.add(source, rule, source.line(at));
            }
        }
    }

    /// Functions with a rule in them that more than one place calls. Of a name that several
    /// functions have, the calls in the function's own folder count.
    fn share(&mut self, sources: &[Source]) {
        for (file, name) in &self.checks {
            if WORK.contains(&name.as_str()) {
                continue;
            }
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
            let within = |folder: &str| {
                let inside = sources
                    .iter()
                    .filter(|source| source.path.starts_with(folder));
                let functions = inside.clone().flat_map(Source::functions);
                let is_one = functions.filter(|function| function == name).count() == 1;
                is_one.then(|| inside.map(|source| source.calls(name).len()).sum::<usize>())
            };
            let calls = within("").or_else(|| within(folder)).unwrap_or(0);
            if calls > 1 {
                self.shared.insert((file.clone(), name.clone()), calls);
            }
        }
    }
}

/// Class, kind and texts of a call.
type Read = (String, String, Vec<String>);

fn read(
    source: &Source,
    recorder: &Recorder,
    arguments: &[Range<usize>],
    open: usize,
    names: &BTreeMap<String, String>,
) -> Result<Read, String> {
    let argument = |n: usize| {
        let range = arguments
            .get(n)
            .ok_or_else(|| format!("{} with {} arguments", recorder.call, arguments.len()))?;
        Ok::<_, String>((range, source.words(range)))
    };
    let class = match recorder.class {
        Fixed(class) | Named(class) => class.to_owned(),
        Argument(n) => match argument(n)?.1.as_str() {
            "Class::Fault" => "fault".to_owned(),
            "Class::Lint" => "lint".to_owned(),
            other => return Err(format!("the class `{other}` is no constant")),
        },
    };
    let kind = match recorder.kind {
        Fixed(kind) => kind.to_owned(),
        Named(name) => names
            .get(name)
            .cloned()
            .ok_or_else(|| format!("there is no constant {name}"))?,
        Argument(n) => {
            let (range, words) = argument(n)?;
            let literal = source.literals(range).into_iter().next();
            let name = words.strip_prefix("kind::").unwrap_or(&words);
            let local = format!("{}::{name}", source.path);
            match literal {
                Some(literal) => literal.value,
                None => names
                    .get(name)
                    .or_else(|| names.get(&local))
                    .cloned()
                    .ok_or_else(|| format!("the kind `{words}` is no known constant"))?,
            }
        }
    };
    let (range, words) = argument(recorder.text)?;
    let texts = texts(source, range, open);
    if texts.is_empty() {
        return Err(format!(
            "the text `{words}` is neither a literal nor a `let` with one"
        ));
    }
    Ok((class, kind, texts))
}

/// The texts that an expression can be.
fn texts(source: &Source, range: &Range<usize>, before: usize) -> Vec<String> {
    let literals = source.literals(range);
    let words = source.words(range);
    if words.starts_with('"') {
        return literals
            .into_iter()
            .take(1)
            .map(|literal| literal.value)
            .collect();
    }
    let formats: Vec<String> = literals
        .into_iter()
        .filter(|literal| source.before(literal.at.start, "format!("))
        .map(|literal| literal.value)
        .collect();
    if !formats.is_empty() {
        return formats;
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if !words.is_empty() && words.chars().all(is_name) {
        // The function's own, not that of one above it.
        let function = source.function_start(before);
        if let Some(value) = source
            .bound(&words, before)
            .filter(|value| value.start > function)
        {
            return texts(source, &value, value.start);
        }
    }
    Vec::new()
}

/// Constants that name kinds: those of findings.rs by name, those of another file with its path.
fn kinds(sources: &[Source]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for source in sources {
        for at in source.places("const") {
            let Some(end) = source.end_of_statement(at) else {
                continue;
            };
            let range = at..end;
            let words = source.words(&range);
            let Some((name, _)) = words["const".len()..].trim().split_once(": &str =") else {
                continue;
            };
            let value = source.literals(&range).into_iter().next();
            if let Some(value) = value {
                let global = source.path == "findings.rs";
                let name = if global {
                    name.to_owned()
                } else {
                    format!("{}::{name}", source.path)
                };
                names.insert(name, value.value);
            }
        }
    }
    names
}
