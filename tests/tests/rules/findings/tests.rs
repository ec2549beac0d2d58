//! This test itself: what it reads, and that it can fail.

use std::fs;

use crate::findings::collect::{Found, collect};
use crate::findings::page::{differences, parse};
use crate::findings::source::Source;
use crate::findings::{RECORDERS, document, found, simulator};
use e810_tests::sources::{code, root, shipped, sources};

/// A device with three rules in five places, and a check that two commands share.
const DEVICE: &str = r#"
fn create(c: &Command, env: &mut dyn Env) -> Outcome {
    in_range(c, env)?;
    if c.twice() {
        // Refusal::state(env, "in a comment")
        return Err(Refusal::state(env, "it exists"));
    }
    if c.odd() {
        let text = format!("object {}: \
                            odd", c.id());
        env.finding(Class::Lint, "odd-object", text);
    }
}
fn destroy(c: &Command, env: &mut dyn Env) -> Outcome {
    in_range(c, env)?;
    Err(Refusal::state(env, "it exists".to_owned()))
}
fn in_range(c: &Command, env: &mut dyn Env) -> Result<(), Refusal> {
    Err(Refusal::parameter(
        env,
        format!("{} of {}: (too many", c.id(), f("x, y")),
    ))
}
#[cfg(test)]
mod tests {
    fn x() {
        Refusal::state(env, "in a test");
    }
}
"#;

const PAGE: &str = "\
### `pe/device.rs`

| kind | class | rule | source | test |
| --- | --- | --- | --- | --- |
| `cqp-state` | fault | `it exists` (2 places) | control-path 4.7 | `a.rs::b` |
| `cqp-parameter` | fault | `{} of {}: (too many` | control-path 4.7 | `a.rs::b` |
| `odd-object` | lint | `object {}: odd` | – | `a.rs::b` |

| function | in | called by |
| --- | --- | --- |
| `in_range` | `pe/device.rs` | 2 places |
";

fn device(text: &str) -> Found {
    collect(&[Source::new("pe/device.rs", text)])
}

fn judge(page: &str, text: &str) -> Vec<String> {
    differences(&parse(page), &device(text))
}

#[test]
fn a_page_that_agrees_is_taken() {
    assert_eq!(judge(PAGE, DEVICE), [""; 0]);
    assert_eq!(
        parse(PAGE).totals(),
        "3 rules in 4 places: 2 faults and 1 lints, of 3 kinds."
    );
}

/// One change to the device, and what has to be said of it.
#[test]
fn what_becomes_of_a_rule_is_seen() {
    let same = "\"it exists\".to_owned()";
    let cases = [
        (
            same,
            "\"it is there\"",
            "a rule without a row",
            "cqp-state` | fault | `it is there`",
        ),
        (same, "\"it is there\"", "stands in 1 places", "says 2"),
        (
            "Class::Lint",
            "Class::Fault",
            "is a fault of kind `odd-object`",
            "says lint",
        ),
        (
            "\"odd-object\"",
            "\"odd\"",
            "of kind `odd`",
            "of kind `odd-object`",
        ),
        (
            "env.finding",
            "env.ignore",
            "Class::Lint in `create`",
            "no known way of recording",
        ),
        (
            "Refusal::parameter",
            "Refusal::silent",
            "too many` is not in",
            "no shared check any more",
        ),
        (
            "c.odd() {",
            "c.odd() { in_range(c, env)?;",
            "called in 3 places",
            "says 2 places",
        ),
        (
            "env, \"it exists\")",
            "env, why)",
            "the text `why` is neither",
            "",
        ),
    ];
    for (from, to, said, also) in cases {
        assert!(DEVICE.contains(from), "{from}");
        let complaints = judge(PAGE, &DEVICE.replacen(from, to, 1)).join("\n");
        assert!(complaints.contains(said), "{from}: {complaints}");
        assert!(complaints.contains(also), "{from}: {complaints}");
    }
    let without = DEVICE.replacen("in_range(c, env)?;", "", 1);
    let complaints = judge(PAGE, &without).join("\n");
    assert!(complaints.contains("`in_range`"), "{complaints}");
}

/// What all refusals of a command go through.
#[test]
fn a_class_that_many_rules_share_is_seen() {
    let helpers = |class: &str, kind: &str| {
        let one = |name: &str| {
            let kind = kind.replace("NAME", name);
            format!("fn {name}(env: E, text: T) {{ env.finding({class}, {kind}, text.into()); }}\n")
        };
        let text = ["parameter", "state", "stag", "opcode"].map(one).concat();
        collect(&[Source::new("pe/cqp/command.rs", &text)]).unclear
    };
    assert_eq!(helpers("Class::Fault", "\"cqp-NAME\""), [""; 0]);
    assert_eq!(helpers("Class::Lint", "\"cqp-NAME\"").len(), 4);
    assert_eq!(helpers("Class::Fault", "\"cqp\"").len(), 4);
    let none = collect(&[Source::new("pe/cqp/command.rs", "")]).unclear;
    assert!(
        none.iter()
            .all(|why| why.contains("records 0 times instead of once"))
    );
    assert_eq!(none.len(), 4);
}

#[test]
fn a_row_too_many_is_seen() {
    let row = "| `odd-object` | lint | `object {}: odd` | – | `a.rs::b` |\n";
    let doubled = PAGE.replacen(row, &format!("{row}{row}"), 1);
    assert_eq!(judge(&doubled, DEVICE), ["line 8: the same as line 7"]);
    let other = PAGE.replacen(row, &format!("{row}{}", row.replace("odd`", "even`")), 1);
    let complaints = judge(&other, DEVICE);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].contains("`object {}: even` is not in sim/src/pe/device.rs any more"));
    let cut = PAGE.replacen(" | – | `a.rs::b` |", " | – |", 1);
    assert!(
        judge(&cut, DEVICE)
            .join("\n")
            .contains("line 7: 4 cells instead of 5")
    );
}

/// The reader of calls counts what is plainly there: a recorder in a form that it does not know
/// would be missing.
#[test]
fn no_call_of_a_recorder_is_passed_over() {
    let folder = root().join("sim/src");
    let files = shipped(sources(&folder));
    let found = found();
    for recorder in RECORDERS {
        let call = format!("{}(", recorder.call);
        let defined = format!("fn{call}");
        let plain: usize = files
            .iter()
            .filter(|path| recorder.file.is_empty() || path.ends_with(recorder.file))
            .map(|path| {
                let text = fs::read_to_string(path).expect("a source file");
                let calls =
                    |line: &str| line.matches(&call).count() - line.matches(&defined).count();
                code(&text)
                    .iter()
                    .map(|(_, line)| calls(line))
                    .sum::<usize>()
            })
            .sum();
        let read = found.calls.get(recorder.call).copied().unwrap_or(0);
        assert_eq!(read, plain, "calls of {}", recorder.call);
        assert!(
            read > 0,
            "nothing calls {call} any more: take it out of RECORDERS"
        );
    }
}

#[test]
fn the_simulator_is_read_whole() {
    let sources = simulator();
    assert!(
        sources.len() > 100,
        "only {} files of the simulator",
        sources.len()
    );
    let found = found();
    assert!(found.unclear.is_empty(), "{}", found.unclear.join("\n"));
    assert!(found.rules.len() > 150, "only {} rules", found.rules.len());
}

/// What the page names as a test, of a rule or of a correction, is one.
#[test]
fn every_named_test_exists() {
    let text = document();
    let page = parse(&text);
    let mut wrong: Vec<String> = page
        .rows
        .iter()
        .filter(|row| !row.test.contains(".rs::"))
        .map(|row| format!("line {}: {} is no `file.rs::function`", row.line, row.test))
        .collect();
    for (n, line) in text.lines().enumerate() {
        // Every second part is between backticks.
        for name in line.split('`').skip(1).step_by(2) {
            let Some((file, function)) = name.split_once(".rs::") else {
                continue;
            };
            let file = format!("{file}.rs");
            match fs::read_to_string(root().join(&file)) {
                Ok(text) if is_test(&text, function) => {}
                Ok(_) => wrong.push(format!(
                    "line {}: {file} has no test {function}: name the one that asserts it now",
                    n + 1
                )),
                Err(error) => wrong.push(format!("line {}: {file}: {error}", n + 1)),
            }
        }
    }
    assert!(wrong.is_empty(), "docs/findings.md:\n{}", wrong.join("\n"));
}

/// Whether `text` has a test of this name.
fn is_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let starts = [format!("fn {function}("), format!("async fn {function}(")];
    lines.iter().enumerate().any(|(n, line)| {
        starts.iter().any(|start| line.starts_with(start))
            && lines[..n]
                .iter()
                .rev()
                .take_while(|above| above.starts_with(['#', '/']))
                .any(|above| *above == "#[test]")
    })
}

#[test]
fn a_test_is_known_by_its_attribute() {
    let text = "#[test]\n/// Why.\n#[cfg(x)]\nfn one() {\n}\nfn two() {\n}\n";
    assert!(is_test(text, "one"));
    assert!(!is_test(text, "two") && !is_test(text, "on") && !is_test(text, "three"));
}
