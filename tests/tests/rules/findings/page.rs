//! The tables of docs/findings.md, and how they differ from what the sources have.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::findings::collect::{Found, Rule};

/// A row: a rule, in how many places it stands, and the test that makes it fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Of the page, from 1.
    pub(crate) line: usize,
    pub(crate) rule: Rule,
    pub(crate) places: usize,
    pub(crate) source: String,
    /// `file::function`.
    pub(crate) test: String,
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    /// Shared checks: file and function, and how many places call it.
    pub(crate) shared: BTreeMap<(String, String), usize>,
    /// Lines of tables that cannot be read.
    pub(crate) wrong: Vec<String>,
}

/// Heads of the two kinds of tables.
const RULES: &str = "| kind | class | rule | source | test |";
const SHARED: &str = "| function | in | called by |";

/// Reads the page. A table of rules belongs to the file that the heading above it names.
pub(crate) fn parse(text: &str) -> Page {
    let mut page = Page::default();
    let (mut file, mut table) = (String::new(), "");
    for (n, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("### ") {
            file = below_source(heading.trim_matches('`')).to_owned();
        }
        if !line.starts_with('|') {
            table = "";
        } else if line == RULES || line == SHARED {
            table = line;
        } else if !table.is_empty() && !line.starts_with("| ---") {
            let read = match table {
                RULES => rule(line, &file).map(|row| page.rows.push(Row { line: n + 1, ..row })),
                _ => shared(line).map(|(key, calls)| {
                    page.shared.insert(key, calls);
                }),
            };
            if let Err(why) = read {
                page.wrong.push(format!("line {}: {why}", n + 1));
            }
        }
    }
    page
}

/// A path as the reader of the sources has it.
fn below_source(path: &str) -> &str {
    path.strip_prefix("sim/src/").unwrap_or(path)
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split(" | ").map(str::trim).collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Result<&str, String> {
    let inner = cell
        .strip_prefix('`')
        .and_then(|cell| cell.strip_suffix('`'));
    inner.ok_or_else(|| format!("{cell} should be in backticks"))
}

fn rule(line: &str, file: &str) -> Result<Row, String> {
    let cells = cells(line);
    let &[kind, class, rule, source, test] = cells.as_slice() else {
        return Err(format!("{} cells instead of 5", cells.len()));
    };
    let (text, places) = match rule
        .strip_suffix(" places)")
        .and_then(|rule| rule.rsplit_once(" ("))
    {
        Some((text, places)) => (text, places.parse().map_err(|_| "how many places?")?),
        None => (rule, 1),
    };
    Ok(Row {
        line: 0,
        rule: Rule {
            file: file.to_owned(),
            kind: quoted(kind)?.to_owned(),
            class: class.to_owned(),
            text: text_of(text)?,
        },
        places,
        source: source.to_owned(),
        test: quoted(test)?.to_owned(),
    })
}

/// A text is in backticks; one with a backtick in it in two.
fn text_of(cell: &str) -> Result<String, String> {
    let cell = match cell
        .strip_prefix("`` ")
        .and_then(|cell| cell.strip_suffix(" ``"))
    {
        Some(inner) => inner,
        None => quoted(cell)?,
    };
    Ok(cell.replace("\\|", "|"))
}

fn shared(line: &str) -> Result<((String, String), usize), String> {
    let cells = cells(line);
    let &[function, file, calls] = cells.as_slice() else {
        return Err(format!("{} cells instead of 3", cells.len()));
    };
    let calls = calls
        .strip_suffix(" places")
        .and_then(|calls| calls.parse().ok());
    let calls = calls.ok_or("how many places?")?;
    let file = below_source(quoted(file)?).to_owned();
    Ok(((file, quoted(function)?.to_owned()), calls))
}

/// A row for the page, without source and test.
fn as_row(rule: &Rule, places: usize) -> String {
    let text = rule.text.replace('|', "\\|");
    let places = match places {
        1 => String::new(),
        n => format!(" ({n} places)"),
    };
    format!(
        "| `{}` | {} | `{text}`{places} | SOURCE | `FILE::TEST` |",
        rule.kind, rule.class
    )
}

/// How the page and the sources differ; nothing when they agree.
pub(crate) fn differences(page: &Page, found: &Found) -> Vec<String> {
    let mut different = page.wrong.clone();
    different.extend(found.unclear.iter().cloned());
    let mut rows: BTreeMap<&Rule, &Row> = BTreeMap::new();
    for row in &page.rows {
        if let Some(first) = rows.insert(&row.rule, row) {
            different.push(format!(
                "line {}: the same as line {}",
                row.line, first.line
            ));
        }
    }
    for (rule, lines) in &found.rules {
        let Some(row) = rows.get(rule) else {
            let other = rows.keys().find(|row| {
                (&row.file, &row.text) == (&rule.file, &rule.text)
                    && !found.rules.contains_key(**row)
            });
            let at = format!("sim/src/{}:{}", rule.file, lines.first().unwrap_or(&0));
            different.push(match other {
                Some(row) => format!(
                    "{at}: `{}` is a {} of kind `{}`, the page says {} of kind `{}`",
                    rule.text, rule.class, rule.kind, row.class, row.kind
                ),
                None => format!(
                    "{at}: a rule without a row. Below \"### `sim/src/{}`\" goes\n{}",
                    rule.file,
                    as_row(rule, lines.len())
                ),
            });
            continue;
        };
        if row.places != lines.len() {
            different.push(format!(
                "line {}: `{}` stands in {} places (lines {lines:?}), the page says {}",
                row.line,
                rule.text,
                lines.len(),
                row.places
            ));
        }
    }
    for (rule, row) in rows {
        let softened = found.rules.keys().any(|other| {
            (&other.file, &other.text) == (&rule.file, &rule.text) && !page.has(other)
        });
        if !found.rules.contains_key(rule) && !softened {
            different.push(format!(
                "line {}: `{}` is not in sim/src/{} any more",
                row.line, rule.text, rule.file
            ));
        }
    }
    for (key, calls) in &found.shared {
        let said = page.shared.get(key);
        if said != Some(calls) {
            let said = said.map_or_else(|| "nothing".to_owned(), |said| format!("{said} places"));
            different.push(format!(
                "`{}` is called in {calls} places, the page says {said}; a call that was removed \
                 is a rule removed\n| `{}` | `sim/src/{}` | {calls} places |",
                key.1, key.1, key.0
            ));
        }
    }
    for (file, function) in page
        .shared
        .keys()
        .filter(|key| !found.shared.contains_key(*key))
    {
        different.push(format!(
            "`{function}` of sim/src/{file} is no shared check any more"
        ));
    }
    different
}

impl Page {
    fn has(&self, rule: &Rule) -> bool {
        self.rows.iter().any(|row| row.rule == *rule)
    }

    /// The sentence with the totals.
    pub(crate) fn totals(&self) -> String {
        let mut kinds: Vec<&str> = self.rows.iter().map(|row| row.rule.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let count = |class: &str| {
            self.rows
                .iter()
                .filter(|row| row.rule.class == class)
                .count()
        };
        let places: usize = self.rows.iter().map(|row| row.places).sum();
        let mut text = String::new();
        let _ = write!(
            text,
            "{} rules in {places} places: {} faults and {} lints, of {} kinds.",
            self.rows.len(),
            count("fault"),
            count("lint"),
            kinds.len()
        );
        text
    }
}
