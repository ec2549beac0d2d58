//! The rows: each has a number of its own, and a test that exists or a mark that says
//! why not.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use crate::coverage::{DOCUMENT, root, text};

/// Mark of a fact that nothing shows yet.
const OPEN: &str = "open: ";

/// Mark of what is about something else.
const NOT_OURS: &str = "not ours, ";

/// Mark of a rule of the card that only the simulator's own tests hold: the model
/// was written from the sentence, so they show no more than that it follows it.
const CARD: &str = "card: ";

/// Where the simulator's own tests are.
const SIMULATOR: &str = "sim/";

/// What else there is.
const REASONS: &[&str] = &[
    "Ethernet",
    "Linux",
    "iWARP",
    "libfabric",
    "no fact",
    "nvme",
    "other hardware",
    "uverbs",
];

/// Scenarios, which are functions, and the list of those that are run.
const SCENARIOS: &str = "tests/src/traffic/";
const SCENARIO_LIST: &str = "tests/src/traffic/scenarios.rs";

/// What stands behind a fact.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cover {
    /// Tests, as file and name; the row says what is done otherwise.
    Tests {
        tests: Vec<(String, String)>,
        otherwise: bool,
    },
    Open,
    /// About this.
    NotOurs(String),
}

/// The rows of the document by their number: what covers each, or what is wrong
/// with it. The last section has none.
fn rows(text: &str) -> Vec<(String, Result<Cover, String>)> {
    let (mut section, mut row) = (0, 0);
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section += 1;
            row = 0;
            if !title.starts_with(&format!("{section}. ")) {
                let wrong = Err(format!("section {section} is `{title}`"));
                rows.push((section.to_string(), wrong));
            }
        }
        let is_row = line.starts_with('|') && section > 0;
        if !is_row || line.starts_with("| No. |") || line.starts_with("| --- |") {
            continue;
        }
        row += 1;
        let number = format!("{section}.{row}");
        let cover = of_row(line, &number);
        rows.push((number, cover));
    }
    rows
}

/// A row of the table, which is to have this number.
fn of_row(line: &str, number: &str) -> Result<Cover, String> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [found, sentences, says, cover] = cells[..] else {
        return Err(format!("{number}: {} cells", cells.len()));
    };
    if found != number {
        return Err(format!("{number}: `{found}` stands in its place"));
    }
    if sentences.is_empty() {
        return Err(format!("{number}: no sentence says it"));
    }
    if says.is_empty() {
        return Err(format!("{number}: it says nothing"));
    }
    if let Some(what) = cover.strip_prefix(OPEN) {
        return match what {
            "" => Err(format!("{number}: what is open?")),
            _ => Ok(Cover::Open),
        };
    }
    if let Some(about) = cover.strip_prefix(NOT_OURS) {
        return match about.split_once(": ") {
            Some((reason, why)) if REASONS.contains(&reason) && !why.is_empty() => {
                Ok(Cover::NotOurs(reason.to_owned()))
            }
            _ => Err(format!("{number}: `{about}` is no reason")),
        };
    }
    let (cover, card) = match cover.strip_prefix(CARD) {
        Some(cover) => (cover, true),
        None => (cover, false),
    };
    // Behind a dash are words of our own.
    let (named, otherwise) = match cover.split_once(" — ") {
        Some((named, words)) => (named, !words.is_empty()),
        None => (cover, false),
    };
    let mut tests = Vec::new();
    for name in named.split(", ") {
        let quoted = name
            .strip_prefix('`')
            .and_then(|name| name.strip_suffix('`'));
        match quoted.and_then(|name| name.split_once("::")) {
            Some((file, name)) => tests.push((file.to_owned(), name.to_owned())),
            None => return Err(format!("{number}: `{name}` is neither a test nor a mark")),
        }
    }
    let of_the_model = tests.iter().all(|(file, _)| file.starts_with(SIMULATOR));
    match (of_the_model, card) {
        (true, false) => Err(format!(
            "{number}: only the simulator's own tests: `{CARD}` says that"
        )),
        (false, true) => Err(format!("{number}: not only the simulator's own tests")),
        _ => Ok(Cover::Tests { tests, otherwise }),
    }
}

/// Whether `text` has a test of that name that is run. `module::name` is a test
/// that the table of asynchronous events makes.
fn has_test(text: &str, name: &str) -> bool {
    if let Some((module, name)) = name.split_once("::") {
        let table = text
            .lines()
            .position(|line| line.starts_with("rows! { ") && line.contains(&format!(" {module},")));
        let row = format!(", {name}, \"");
        return table.is_some_and(|table| {
            let rows = text.lines().skip(table + 1);
            rows.take_while(|line| *line != "}")
                .any(|line| line.contains(&row))
        });
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let above = || {
            let before = lines[..at].iter().rev();
            before.take_while(|line| line.starts_with('#') || line.starts_with("//"))
        };
        line.starts_with(&function)
            && above().any(|line| *line == "#[test]")
            && !above().any(|line| line.starts_with("#[ignore"))
    })
}

/// Whether the function is one of the scenarios in `list`.
fn is_scenario(list: &str, file: &str, name: &str) -> bool {
    let module = file.strip_prefix(SCENARIOS).unwrap_or_default();
    let module = module.trim_end_matches(".rs").replace('/', "::");
    let path = format!("{module}::{name}");
    list.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split([',', ' ', ')', ';']))
        .any(|word| word == path)
}

/// Why a name is no test that is run; `None` when it is one.
fn refusal(file: &str, name: &str, sources: &mut HashMap<String, String>) -> Option<String> {
    let mut source = |file: &str| -> Option<String> {
        if !sources.contains_key(file) {
            let text = fs::read_to_string(root().join(file)).ok()?;
            sources.insert(file.to_owned(), text);
        }
        sources.get(file).cloned()
    };
    let Some(text) = source(file) else {
        return Some(format!("there is no file {file}"));
    };
    let found = if file.starts_with(SCENARIOS) {
        let list = source(SCENARIO_LIST).expect("the list of scenarios");
        text.contains(&format!("pub fn {name}")) && is_scenario(&list, file, name)
    } else {
        has_test(&text, name)
    };
    (!found).then(|| format!("{file} has no test {name} that is run"))
}

#[test]
fn every_fact_has_a_test_or_a_mark() {
    let text = text();
    let (mut sources, mut wrong) = (HashMap::new(), Vec::new());
    let (mut covered, mut open) = (0, 0);
    let (mut of_the_card, mut differently) = (0, Vec::new());
    let mut others: BTreeMap<String, u32> = BTreeMap::new();
    let rows = rows(&text);
    for (number, row) in &rows {
        match row {
            Ok(Cover::Tests { tests, otherwise }) => {
                covered += 1;
                let simulated = tests.iter().all(|(file, _)| file.starts_with(SIMULATOR));
                of_the_card += u32::from(simulated);
                if *otherwise {
                    differently.push(number.clone());
                }
                let refused = tests
                    .iter()
                    .filter_map(|(file, name)| refusal(file, name, &mut sources));
                wrong.extend(refused);
            }
            Ok(Cover::Open) => open += 1,
            Ok(Cover::NotOurs(reason)) => *others.entry(reason.clone()).or_default() += 1,
            Err(error) => wrong.push(error.clone()),
        }
    }
    println!("{} facts: {covered} with tests, {open} open", rows.len());
    println!("rules of the card that the simulator's own tests hold: {of_the_card}");
    println!("done otherwise here: {}", differently.join(" "));
    for (reason, count) in &others {
        println!("not ours, {reason}: {count}");
    }
    assert!(wrong.is_empty(), "{DOCUMENT}:\n{}", wrong.join("\n"));
    assert!(covered > 100, "the document is not read as it is written");
}

#[test]
fn what_is_wrong_with_a_row_is_seen() {
    let table = |rows: &str| {
        format!(
            "# Top\n\n| a | b |\n\n## 1. One\n\n| No. | Sentences | What it says | Tests |\n| --- | --- | --- | --- |\n{rows}"
        )
    };
    let errors = |rows_of: &str| -> Vec<String> {
        let found = rows(&table(rows_of)).into_iter();
        found.filter_map(|(_, row)| row.err()).collect()
    };
    let good = "\
| 1.1 | 001:1 | It is so. | `a/b.rs::c`, `a/d.rs::raised::e` — but here, otherwise |
| 1.2 | 001:1 | Not yet. | open: something |
| 1.3 | 001:1 | Else. | not ours, iWARP: TCP |

## 2. Two

| 2.1 | 001:1 | Again. | `a/b.rs::c` |
| 2.2 | 001:1 | The card's. | card: `sim/a.rs::b` |
";
    assert_eq!(errors(good), Vec::<String>::new());
    let tests = |names: &[(&str, &str)], otherwise| {
        let owned = |(file, name): &(&str, &str)| (file.to_string(), name.to_string());
        let tests = names.iter().map(owned).collect();
        Ok(Cover::Tests { tests, otherwise })
    };
    let expected = [
        (
            "1.1",
            tests(&[("a/b.rs", "c"), ("a/d.rs", "raised::e")], true),
        ),
        ("1.2", Ok(Cover::Open)),
        ("1.3", Ok(Cover::NotOurs("iWARP".to_owned()))),
        ("2.1", tests(&[("a/b.rs", "c")], false)),
        ("2.2", tests(&[("sim/a.rs", "b")], false)),
    ];
    let expected = expected.map(|(number, row)| (number.to_owned(), row));
    assert_eq!(rows(&table(good)), expected);
    let first = "| 1.1 | 001:1 | It is so. | `a/b.rs::c` |\n";
    for bad in [
        "| 1.1 | 001:1 | The same number. | open: it |",
        "| 1.3 | 001:1 | One is missing. | open: it |",
        "| 1.2 | 001:1 | Nothing. | |",
        "| 1.2 | 001:1 | | open: it says nothing |",
        "| 1.2 | | Nobody says it. | open: it |",
        "| 1.2 | 001:1 | Words. | somewhere |",
        "| 1.2 | 001:1 | No name. | `a/b.rs` |",
        "| 1.2 | 001:1 | Nothing of it. | open: |",
        "| 1.2 | 001:1 | Why? | not ours, iWARP |",
        "| 1.2 | 001:1 | Whose? | not ours, nobody: no |",
        "| 1.2 | 001:1 | A cell too many. | open: it | more |",
        "| 1.2 | 001:1 | Nobody else shows it. | `sim/a.rs::b` |",
        "| 1.2 | 001:1 | Somebody else does. | card: `sim/a.rs::b`, `a/b.rs::c` |",
        "\n## 3. Not the second",
    ] {
        assert_eq!(errors(&format!("{first}{bad}\n")).len(), 1, "{bad}");
    }
}

#[test]
fn only_what_is_run_is_a_test() {
    let text = "\
rows! { RAISED, raised, Raised:
    0x0203 SOME_ERROR, in_the_table, \"what goes wrong\";
}

fn in_the_table() {}

#[test]
#[cfg_attr(miri, ignore = \"slow\")]
fn real() {}

proptest! {
    /// Of any number.
    #[test]
    fn generated(number: u32) {}
}

/// A helper.
fn helper() {}

#[test]
#[ignore = \"needs a card\"]
fn ignored() {}
";
    for name in ["real", "generated", "raised::in_the_table"] {
        assert!(has_test(text, name), "{name}");
    }
    for name in [
        "rea",
        "helper",
        "ignored",
        "in_the_table",
        "raised::helper",
        "injected::in_the_table",
    ] {
        assert!(!has_test(text, name), "{name}");
    }
    let list = "        (\"a\", plain, verbs::queues::drained),\n// verbs::queues::gone,\n";
    let file = "tests/src/traffic/verbs/queues.rs";
    assert!(is_scenario(list, file, "drained"));
    for name in ["gone", "drain", "reset"] {
        assert!(!is_scenario(list, file, name), "{name}");
    }
}
