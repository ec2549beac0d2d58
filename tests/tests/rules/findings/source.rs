//! A source file as a reader of calls needs it: without comments and tests, strings apart.

use std::ops::Range;

use e810_tests::sources::code;

/// The shipped part of a source file. All texts have the same length: what is left out is blank.
pub(crate) struct Source {
    /// Path below the root.
    pub(crate) path: String,
    /// Without comments and without what is compiled for tests only.
    text: String,
    /// The same, and strings are blank inside their quotes.
    bare: String,
}

/// A string literal: where its quotes are, and what it says.
pub(crate) struct Literal {
    pub(crate) at: Range<usize>,
    pub(crate) value: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let compiled: Vec<usize> = code(text).iter().map(|(number, _)| *number).collect();
        let shipped: String = text
            .lines()
            .enumerate()
            .map(|(n, line)| match compiled.binary_search(&(n + 1)) {
                Ok(_) => format!("{line}\n"),
                Err(_) => format!("{}\n", " ".repeat(line.len())),
            })
            .collect();
        let (text, bare) = blanked(&shipped);
        Self {
            path: path.to_owned(),
            text,
            bare,
        }
    }

    /// Line of a place, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.bare[..at].matches('\n').count() + 1
    }

    /// The text of a range, on one line.
    pub(crate) fn words(&self, range: &Range<usize>) -> String {
        let words: Vec<&str> = self.text[range.clone()].split_whitespace().collect();
        words.join(" ")
    }

    /// Where `word` stands, as a word of its own, outside strings.
    pub(crate) fn places(&self, word: &str) -> Vec<usize> {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let starts = |at: usize| {
            !word.starts_with(part) || !self.bare[..at].chars().next_back().is_some_and(part)
        };
        let ends = |at: usize| {
            let after = self.bare[at + word.len()..].chars().next();
            !word.ends_with(part) || !after.is_some_and(part)
        };
        self.bare
            .match_indices(word)
            .map(|(at, _)| at)
            .filter(|at| starts(*at) && ends(*at))
            .collect()
    }

    /// Calls of the function or method `name`: where its parenthesis opens.
    pub(crate) fn calls(&self, name: &str) -> Vec<usize> {
        self.places(name)
            .into_iter()
            .filter(|at| !self.bare[..*at].trim_end().ends_with("fn"))
            .map(|at| at + name.len())
            .filter(|open| self.bare[*open..].starts_with('('))
            .collect()
    }

    /// The arguments of the call whose parenthesis opens at `open`, and where it closes.
    pub(crate) fn arguments(&self, open: usize) -> (Vec<Range<usize>>, usize) {
        let mut arguments = Vec::new();
        let mut depth = 0_usize;
        let mut start = open + 1;
        for (at, c) in self.bare[open..].char_indices() {
            let at = open + at;
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => {
                    depth -= 1;
                    if depth == 0 {
                        if !self.bare[start..at].trim().is_empty() {
                            arguments.push(start..at);
                        }
                        return (arguments, at);
                    }
                }
                ',' if depth == 1 => {
                    arguments.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
        }
        panic!("{}:{}: a call does not end", self.path, self.line(open));
    }

    /// The value of the last `let name =` before `at`.
    pub(crate) fn bound(&self, name: &str, at: usize) -> Option<Range<usize>> {
        let pattern = format!("let {name} =");
        let start = self.bare[..at].rfind(&pattern)? + pattern.len();
        let mut depth = 0_usize;
        for (offset, c) in self.bare[start..].char_indices() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.checked_sub(1)?,
                ';' if depth == 0 => return Some(start..start + offset),
                _ => {}
            }
        }
        None
    }

    /// The function that `at` is in.
    pub(crate) fn function(&self, at: usize) -> &str {
        let Some(start) = self.bare[..at].rfind("fn ") else {
            return "";
        };
        let name = &self.bare[start + 3..];
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
        &name[..end.unwrap_or(name.len())]
    }

    /// Where the function that `at` is in begins.
    pub(crate) fn function_start(&self, at: usize) -> usize {
        self.bare[..at].rfind("fn ").unwrap_or(0)
    }

    /// Where the statement that begins at `at` ends.
    pub(crate) fn end_of_statement(&self, at: usize) -> Option<usize> {
        Some(at + self.bare[at..].find(';')?)
    }

    /// Names of all functions defined here.
    pub(crate) fn functions(&self) -> Vec<&str> {
        self.places("fn")
            .into_iter()
            .map(|at| self.function(at + 3))
            .collect()
    }

    /// The string literals in a range.
    pub(crate) fn literals(&self, range: &Range<usize>) -> Vec<Literal> {
        let mut literals = Vec::new();
        let mut from = range.start;
        while let Some(open) = self.bare[from..range.end].find('"') {
            let open = from + open;
            let Some(close) = self.bare[open + 1..range.end].find('"') else {
                break;
            };
            let close = open + 1 + close;
            literals.push(Literal {
                at: open..close + 1,
                value: unescaped(&self.text[open + 1..close]),
            });
            from = close + 1;
        }
        literals
    }

    /// From the first `from` to the next `to` behind it.
    pub(crate) fn region(&self, from: &str, to: &str) -> Option<Range<usize>> {
        let start = self.bare.find(from)? + from.len();
        let end = start + self.bare[start..].find(to)?;
        Some(start..end)
    }

    /// Whether the code before `at` ends in `end`.
    pub(crate) fn before(&self, at: usize, end: &str) -> bool {
        self.bare[..at].trim_end().ends_with(end)
    }
}

/// What a literal says: its lines joined where it asks for that.
fn unescaped(literal: &str) -> String {
    let mut joined = String::new();
    for (n, line) in literal.lines().enumerate() {
        joined.push_str(if n == 0 { line } else { line.trim_start() });
        if joined.ends_with('\\') {
            joined.pop();
        }
    }
    joined.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// `text` without comments, and without what is inside strings as well.
fn blanked(text: &str) -> (String, String) {
    let (mut kept, mut bare) = (String::new(), String::new());
    let mut rest = text;
    let blank = |text: &str| -> String {
        let blank = |c: char| {
            if c == '\n' {
                "\n".to_owned()
            } else {
                " ".repeat(c.len_utf8())
            }
        };
        text.chars().map(blank).collect()
    };
    while let Some(c) = rest.chars().next() {
        let (len, is_string) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if c == '"' {
            (string_end(rest), true)
        } else if c == '\'' {
            // A quote of a character, or the mark of a lifetime.
            let quoted = [
                "'\"'", "'\\\"'", "'\\''", "'\\\\'", "'{'", "'}'", "'('", "')'",
            ];
            let found = quoted.iter().find(|quoted| rest.starts_with(**quoted));
            let len = found.map_or(1, |quoted| quoted.len());
            kept.push_str(&rest[..len]);
            bare.push_str(&blank(&rest[..len]));
            rest = &rest[len..];
            continue;
        } else {
            kept.push(c);
            bare.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        if is_string {
            kept.push_str(&rest[..len]);
            bare.push('"');
            bare.push_str(&blank(&rest[1..len - 1]));
            bare.push('"');
        } else {
            kept.push_str(&blank(&rest[..len]));
            bare.push_str(&blank(&rest[..len]));
        }
        rest = &rest[len..];
    }
    (kept, bare)
}

/// Length of the string that `text` begins with, its quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    panic!(
        "a string does not end: {}",
        text.lines().next().unwrap_or_default()
    );
}
