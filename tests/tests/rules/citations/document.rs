//! A document of docs/reference: its sections, their tables and lists.

use crate::citations::cited::Place;

/// A heading with a number, and the lines up to the next heading that is not below it.
struct Section {
    number: String,
    lines: Vec<String>,
}

pub(crate) struct Document {
    pub(crate) name: &'static str,
    sections: Vec<Section>,
    /// Rows of section 3 whose first cell is 3.1, 3.2 and so on: cited like sections.
    numbered_rows: Vec<String>,
}

impl Document {
    pub(crate) fn new(name: &'static str, text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let level = |line: &str| line.chars().take_while(|c| *c == '#').count();
        let sections: Vec<Section> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| level(line) >= 2)
            .filter_map(|(at, line)| {
                let number = line.trim_start_matches('#').split_whitespace().next()?;
                let number = number.trim_end_matches('.');
                number
                    .starts_with(|c: char| c.is_ascii_digit())
                    .then(|| Section {
                        number: number.to_owned(),
                        lines: lines[at + 1..]
                            .iter()
                            .take_while(|next| !(1..=level(line)).contains(&level(next)))
                            .map(|line| (*line).to_owned())
                            .collect(),
                    })
            })
            .collect();
        let numbered_rows = sections
            .iter()
            .flat_map(|section| section.lines.iter().map(move |line| (section, line)))
            .filter_map(|(section, line)| {
                let cell = cells(line).into_iter().next()?;
                let inside = cell.strip_prefix(&section.number)?.starts_with('.');
                inside.then_some(cell)
            })
            .collect();
        Self {
            name,
            sections,
            numbered_rows,
        }
    }

    pub(crate) fn has_section(&self, number: &str) -> bool {
        self.section(number).is_some() || self.numbered_rows.iter().any(|row| row == number)
    }

    fn section(&self, number: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|section| section.number == number)
    }

    /// Why `place` is not in this document, if it is not.
    pub(crate) fn missing(&self, place: &Place) -> Option<String> {
        let (section, what, found) = match place {
            Place::Section(number) => {
                return (!self.has_section(number)).then(|| format!("no section {number}"));
            }
            Place::Step(section, step) => (
                section,
                format!("step or item {step}"),
                self.any_line(section, |line| {
                    cells(line).first() == Some(step) || line.starts_with(&format!("{step}. "))
                }),
            ),
            Place::Row(section, name) => (
                section,
                format!("row {name}"),
                self.any_line(section, |line| {
                    cells(line).iter().take(3).any(|cell| cell.contains(name))
                }),
            ),
            Place::Column(section, name) => (
                section,
                format!("column {name}"),
                self.any_line(section, |line| cells(line).contains(name)),
            ),
        };
        (!found).then(|| format!("{section} has no {what}"))
    }

    fn any_line(&self, section: &str, wanted: impl Fn(&str) -> bool) -> bool {
        self.section(section)
            .is_some_and(|section| section.lines.iter().any(|line| wanted(line)))
    }
}

/// The cells of a row of a table, without marks of emphasis; none for other lines.
fn cells(line: &str) -> Vec<String> {
    let Some(row) = line.trim().strip_prefix('|') else {
        return Vec::new();
    };
    row.split('|')
        .map(|cell| cell.replace(['`', '*'], "").trim().to_owned())
        .collect()
}
