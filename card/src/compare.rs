//! In what two cards are not alike, by their files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::config_space::ConfigSpace;
use crate::document::Document;
use crate::record::{Record, Run, State};

/// The register that says how often the card was reset.
const COUNTS_RESETS: &str = "GLGEN_RSTAT";

/// Something that a card says, by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key<'a> {
    Config,
    Register(State, &'a str),
    /// Opcode, parameters, and which of several answers to the same question.
    AdminQ(u16, &'a str, usize),
    Cqp(&'a str),
    Module,
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("configuration space"),
            Self::Register(state, name) => write!(f, "{name} {}", state.name()),
            Self::AdminQ(opcode, params, _) => write!(f, "AdminQ {opcode:#06x} of {params}"),
            Self::Cqp(name) => write!(f, "CQP {name}"),
            Self::Module => f.write_str("memory of the module"),
        }
    }
}

/// What the card says there: text for which one place can be named, or the values of a register.
#[derive(PartialEq, Eq, Debug)]
enum Said<'a> {
    Text(String),
    Values(&'a [Run]),
}

fn said(document: &Document) -> BTreeMap<Key<'_>, Said<'_>> {
    let mut all = BTreeMap::new();
    let mut state = State::AsFound;
    let mut asked: BTreeMap<(u16, &str), usize> = BTreeMap::new();
    for record in &document.records {
        let (key, said) = match record {
            Record::State { state: next } => {
                state = *next;
                continue;
            }
            Record::Config { bytes } => {
                let fixed = ConfigSpace::from_hex(bytes).map(ConfigSpace::without_settings);
                let text = fixed.map_or_else(|_| bytes.clone(), |space| space.to_hex());
                (Key::Config, Said::Text(text))
            }
            // Beside another driver a register holds what that driver has put there.
            Record::Register { name, .. } if state == State::AsFound || name == COUNTS_RESETS => {
                continue;
            }
            Record::Register { name, values, .. } => {
                (Key::Register(state, name), Said::Values(values))
            }
            Record::AdminQ {
                opcode,
                params,
                code,
                reply,
                data,
                ..
            } => {
                let nth = asked.entry((*opcode, params)).or_default();
                let key = Key::AdminQ(*opcode, params, *nth);
                *nth += 1;
                (key, Said::Text(format!("code {code} {reply} {data}")))
            }
            Record::Cqp { name, data } => (Key::Cqp(name), Said::Text(data.clone())),
            Record::Module { bytes } => (Key::Module, Said::Text(bytes.clone())),
            _ => continue,
        };
        all.insert(key, said);
    }
    all
}

/// The first element that is not alike, and what it is on both sides; `None` where one ends before.
/// By runs: a file may say that a value is there four thousand million times.
fn first_unlike(one: &[Run], other: &[Run]) -> Option<(u64, Option<u32>, Option<u32>)> {
    let (mut ones, mut others) = (one.iter(), other.iter());
    let (mut a, mut b) = (*ones.next()?, *others.next()?);
    let mut index = 0_u64;
    loop {
        let alike = a.count.min(b.count);
        if a.value != b.value && alike > 0 {
            return Some((index, a.value, b.value));
        }
        index = index.saturating_add(alike.into());
        a.count -= alike;
        b.count -= alike;
        if a.count == 0 {
            a = *ones.next()?;
        }
        if b.count == 0 {
            b = *others.next()?;
        }
    }
}

/// Where `one` and `other` part, for a person.
fn parting(one: &Said<'_>, other: &Said<'_>) -> String {
    /// Characters of a text that are shown.
    const SHOWN: usize = 48;
    match (one, other) {
        (Said::Values(one), Said::Values(other)) => {
            let Some((index, a, b)) = first_unlike(one, other) else {
                return "another number of elements".to_owned();
            };
            let show = |value: Option<u32>| {
                value.map_or_else(|| "not read".to_owned(), |value| format!("{value:#010x}"))
            };
            format!("element {index} is {} and {}", show(a), show(b))
        }
        (Said::Text(one), Said::Text(other)) => {
            let at = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
            let at = at.count();
            let show = |text: &str| text.chars().skip(at).take(SHOWN).collect::<String>();
            format!(
                "from character {at} on `{}` and `{}`",
                show(one),
                show(other)
            )
        }
        _ => "of another kind".to_owned(),
    }
}

/// In what the cards of two files are not alike, a line each; none if they are.
///
/// Compared are registers after resets, answers of firmware and engine, configuration space
/// without what software sets in it, and the module. Not compared are how often the card was
/// reset (GLGEN_RSTAT), what belongs to the host (facts, log), and what was read beside
/// another driver.
#[must_use]
pub fn differences(one: &Document, other: &Document) -> Vec<String> {
    let (first, second) = (said(one), said(other));
    let keys: BTreeSet<&Key<'_>> = first.keys().chain(second.keys()).collect();
    keys.into_iter()
        .filter_map(|key| match (first.get(key), second.get(key)) {
            (Some(a), Some(b)) if a == b => None,
            (Some(a), Some(b)) => Some(format!("{key}: {}", parting(a, b))),
            (Some(_), None) => Some(format!("{key}: only in the first")),
            (None, Some(_)) => Some(format!("{key}: only in the second")),
            (None, None) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::runs;

    fn document(records: Vec<Record>) -> Document {
        Document {
            records,
            unknown: 0,
            is_cut: false,
        }
    }

    fn register(values: &[u32]) -> Record {
        Record::Register {
            name: "GLNVM_ULD".to_owned(),
            offset: 0xB_6008,
            values: runs(values.iter().copied().map(Some)),
        }
    }

    fn answer(data: &str) -> Record {
        Record::AdminQ {
            name: "Get Version".to_owned(),
            opcode: 1,
            params: "00".to_owned(),
            code: 0,
            reply: "00".to_owned(),
            data: data.to_owned(),
        }
    }

    fn state(state: State) -> Record {
        Record::State { state }
    }

    #[test]
    fn the_place_is_named() {
        let one = document(vec![state(State::Pfr), register(&[1, 2, 3]), answer("aa")]);
        assert_eq!(differences(&one, &one), [""; 0]);
        let other = document(vec![state(State::Pfr), register(&[1, 2, 4]), answer("ab")]);
        assert_eq!(
            differences(&one, &other),
            [
                "GLNVM_ULD after a PF reset: element 2 is 0x00000003 and 0x00000004",
                "AdminQ 0x0001 of 00: from character 11 on `a` and `b`"
            ]
        );
        let less = document(vec![state(State::Pfr), register(&[1, 2, 3])]);
        assert_eq!(
            differences(&one, &less),
            ["AdminQ 0x0001 of 00: only in the first"]
        );
    }

    #[test]
    fn runs_are_compared_as_such() {
        let of = |runs: &[(u32, u32)]| {
            let runs = runs.iter().map(|(value, count)| Run {
                value: Some(*value),
                count: *count,
            });
            let Record::Register { name, offset, .. } = register(&[]) else {
                return document(Vec::new());
            };
            let values = runs.collect();
            let register = Record::Register {
                name,
                offset,
                values,
            };
            document(vec![state(State::Pfr), register])
        };
        let said = |one: &[(u32, u32)], other: &[(u32, u32)]| {
            let said = differences(&of(one), &of(other)).concat();
            said.replace("GLNVM_ULD after a PF reset: ", "")
        };
        // Hours, if each element were looked at.
        let long = [(7, u32::MAX); 100];
        let split: Vec<_> = long
            .iter()
            .flat_map(|_| [(7, 1), (7, u32::MAX - 1)])
            .collect();
        let mut other = split.clone();
        other.push((8, 1));
        let mut one = long.to_vec();
        one.push((9, 1));
        let index = u64::from(u32::MAX) * 100;
        assert_eq!(
            said(&one, &other),
            format!("element {index} is 0x00000009 and 0x00000008")
        );
        assert_eq!(said(&long, &other), "another number of elements");
        assert_eq!(
            said(&[(1, 2), (2, 1)], &[(1, 1), (2, 2)]),
            "element 1 is 0x00000001 and 0x00000002"
        );
        assert_eq!(said(&[], &[(1, 1)]), "another number of elements");
    }

    #[test]
    fn what_is_not_the_cards_is_not_compared() {
        let one = document(vec![state(State::AsFound), register(&[1])]);
        let other = document(vec![state(State::AsFound), register(&[2])]);
        assert_eq!(differences(&one, &other), [""; 0]);
        let resets = |count| {
            let Record::Register { offset, values, .. } = register(&[count]) else {
                return document(Vec::new());
            };
            let name = COUNTS_RESETS.to_owned();
            let register = Record::Register {
                name,
                offset,
                values,
            };
            document(vec![state(State::Opened), register])
        };
        assert_eq!(differences(&resets(1), &resets(2)), [""; 0]);
    }
}
