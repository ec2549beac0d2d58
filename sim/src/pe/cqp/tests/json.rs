//! A JSON reader for the vectors: unsigned 64-bit numbers, strings without escapes, lists, objects.
//! (A crate for it would make `x == []` ambiguous in all tests here, because its values compare
//! with integers.)

use std::fmt;
use std::ops::Index;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// `null`, and any value that is missing.
    Nothing,
    Number(u64),
    /// A negative number: only the `ret` of refused requests.
    Negative(u64),
    Text(&'static str),
    List(Vec<Value>),
    Object(Vec<(&'static str, Value)>),
}

impl Value {
    pub(super) fn of(text: &'static str) -> Self {
        let mut reader = Reader(text);
        let value = reader.value();
        assert_eq!(reader.0.trim(), "", "something behind the value");
        value
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&'static str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a list; empty for any other value.
    pub(super) fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    /// The members of an object; empty for any other value.
    pub(super) fn members(&self) -> &[(&'static str, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }
}

impl Index<&str> for Value {
    type Output = Self;
    fn index(&self, key: &str) -> &Self {
        let found = self.members().iter().find(|(name, _)| *name == key);
        found.map_or(&Self::Nothing, |(_, value)| value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// The text that is still to be read.
struct Reader(&'static str);

impl Reader {
    /// Takes `token` if it is next.
    fn takes(&mut self, token: &str) -> bool {
        self.0 = self.0.trim_start();
        let rest = self.0.strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn text(&mut self) -> &'static str {
        let (text, rest) = self.0.split_once('"').expect("the end of a text");
        assert!(!text.contains('\\'), "an escape in {text}");
        self.0 = rest;
        text
    }

    fn digits(&mut self) -> u64 {
        let end = self.0.find(|c: char| !c.is_ascii_digit());
        let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        digits.parse().unwrap()
    }

    /// Elements up to `end`, with commas between.
    fn until<T>(&mut self, end: &str, element: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut elements = Vec::new();
        while !self.takes(end) {
            elements.push(element(self));
            if !self.takes(",") {
                assert!(self.takes(end), "expected {end} at {}", self.0);
                break;
            }
        }
        elements
    }

    fn value(&mut self) -> Value {
        if self.takes("{") {
            Value::Object(self.until("}", |reader| {
                assert!(reader.takes("\""), "a name at {}", reader.0);
                let name = reader.text();
                assert!(reader.takes(":"));
                (name, reader.value())
            }))
        } else if self.takes("[") {
            Value::List(self.until("]", Self::value))
        } else if self.takes("\"") {
            Value::Text(self.text())
        } else if self.takes("null") {
            Value::Nothing
        } else if self.takes("-") {
            Value::Negative(self.digits())
        } else {
            Value::Number(self.digits())
        }
    }
}

#[test]
fn values_are_read() {
    let value =
        Value::of(r#" {"a": [1, {"b":"c"}, -22], "n":null,"e":[],"x":18446744073709551615} "#);
    assert_eq!(value["a"].list()[1]["b"].text(), Some("c"));
    assert_eq!(value["a"].list()[2], Value::Negative(22));
    assert_eq!((&value["n"], value["e"].list().len()), (&Value::Nothing, 0));
    assert_eq!(value["x"].number(), Some(u64::MAX));
    assert_eq!(value["not there"], Value::Nothing);
}
