//! The lines of a report.

use std::fmt::Write;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the format. A reader takes files of its own version and older ones; a line
/// of a kind that it does not know is passed over.
pub const VERSION: u32 = 1;

/// A line of a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// The first line.
    Report(Header),
    /// A level begins.
    Level {
        /// Its number.
        level: u8,
        /// What it does to the machine and the card.
        does: String,
    },
    /// The access that is about to be made: only ever the last line, of a report that was
    /// not finished.
    Next {
        /// Its name.
        what: String,
    },
    /// An access that was left out.
    Skipped {
        /// Its name.
        what: String,
        why: String,
    },
    /// Something that could not be read.
    Absent { what: String, why: String },
    /// A fact with a name: a file of sysfs, a property of the transport.
    Fact { name: String, text: String },
    /// Configuration space.
    Config {
        /// Its bytes, in hexadecimal.
        bytes: String,
    },
    /// A line of the kernel's log.
    Log { line: String },
    /// Registers follow, read in this state of the function.
    State { state: State },
    /// A register, all elements of an array.
    Register {
        name: String,
        /// Offset of its first element in BAR 0.
        offset: u32,
        /// The values in order of the elements, the last index fastest.
        values: Vec<Run>,
    },
    /// A command of the AdminQ and its answer.
    #[serde(rename = "adminq")]
    AdminQ {
        name: String,
        opcode: u16,
        /// Its parameters, in hexadecimal; the address of a buffer is left out.
        params: String,
        /// The firmware's code, 0 for done.
        code: u16,
        /// The parameters of the answer.
        reply: String,
        /// The data of the answer.
        data: String,
    },
    /// A query of the control QP and what the device wrote into its buffer.
    Cqp {
        /// The name of the command.
        name: String,
        /// The buffer, in hexadecimal.
        data: String,
    },
    /// Memory of the module in the port's cage, from address 0 on.
    Module {
        /// Its bytes, in hexadecimal.
        bytes: String,
    },
    /// Connections of a function that a running command has.
    Connections {
        /// The name of the command.
        command: String,
        /// The function's name in it.
        function: String,
        /// How the function is reached.
        device: String,
        /// What its connection manager does; `None` if it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[serde(default)]
        manager: Option<serde_json::Value>,
    },
    /// The last line of a report that was finished.
    End {
        /// Everything that was asked for was done.
        complete: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[serde(default)]
        why: Option<String>,
    },
}

/// What a report begins with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// The program that wrote it, with its version.
    pub program: String,
    /// The function, as the program's user named it.
    pub device: String,
    /// How it is reached: `simulated`, `vfio-user`, `vfio`.
    pub transport: String,
    /// The highest level that was asked for.
    pub level: u8,
    /// Ethernet addresses and serial numbers are in it.
    pub identities: bool,
}

/// The state in which registers are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As the firmware or another driver left the function, beside that driver if it has one.
    AsFound,
    /// After the function was opened, which resets it (FLR).
    Opened,
    /// After a reset of the function by PFGEN_CTRL.
    Pfr,
    /// After a core reset.
    Corer,
    /// After a global reset.
    Globr,
    /// After a reset of the firmware.
    Empr,
}

impl State {
    /// How a person calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AsFound => "as found",
            Self::Opened => "after the reset at open",
            Self::Pfr => "after a PF reset",
            Self::Corer => "after a core reset",
            Self::Globr => "after a global reset",
            Self::Empr => "after a firmware reset",
        }
    }
}

/// Elements in a row with one value; a pair in the file: `["0x00000001", 3]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The value; `None` where the access was left out.
    pub value: Option<u32>,
    /// How many elements have it, at least 1.
    pub count: u32,
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.value.map(|value| format!("{value:#010x}"));
        (value, self.count).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (text, count) = <(Option<String>, u32)>::deserialize(deserializer)?;
        let value = text.map(|text| {
            let digits = text.strip_prefix("0x").unwrap_or(&text);
            u32::from_str_radix(digits, 16)
                .map_err(|_| serde::de::Error::custom(format!("`{text}` is no 32-bit number")))
        });
        if count == 0 {
            return Err(serde::de::Error::custom("a run of no elements"));
        }
        Ok(Self {
            value: value.transpose()?,
            count,
        })
    }
}

/// Bytes as digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Digits as bytes; `None` if they are none.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// Digits as the 64-bit words of a device's memory, little-endian; `None` if they are none.
/// Bytes behind the last whole word are left out.
#[must_use]
pub fn words_from_hex(text: &str) -> Option<Vec<u64>> {
    let bytes = from_hex(text)?;
    let (words, _) = bytes.as_chunks();
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// The 64-bit words of a device's memory as digits, little-endian.
#[must_use]
pub fn words_to_hex(words: &[u64]) -> String {
    words.iter().map(|word| hex(&word.to_le_bytes())).collect()
}

/// The values, equal neighbours together.
#[must_use]
pub fn runs(values: impl IntoIterator<Item = Option<u32>>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some(last) if last.value == value && last.count < u32::MAX => last.count += 1,
            _ => runs.push(Run { value, count: 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_the_document_has_them() {
        let register = Record::Register {
            name: "GLNVM_ULD".to_owned(),
            offset: 0xB_6008,
            values: runs([Some(1), Some(1), None, Some(2)]),
        };
        let text = serde_json::to_string(&register).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"register","name":"GLNVM_ULD","offset":745480,"values":[["0x00000001",2],[null,1],["0x00000002",1]]}"#
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), register);
        let end = r#"{"kind":"end","complete":true}"#;
        let expected = Record::End {
            complete: true,
            why: None,
        };
        assert_eq!(serde_json::from_str::<Record>(end).unwrap(), expected);
        let state = r#"{"kind":"state","state":"as-found"}"#;
        let state: Record = serde_json::from_str(state).unwrap();
        assert_eq!(
            state,
            Record::State {
                state: State::AsFound
            }
        );
    }

    #[test]
    fn words_are_little_endian() {
        assert_eq!(
            words_from_hex("0102000000000080ff"),
            Some(vec![0x8000_0000_0000_0201])
        );
        assert_eq!(words_from_hex("0"), None);
        assert_eq!(words_to_hex(&[0x8000_0000_0000_0201]), "0102000000000080");
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for values in [
            r#"[["0x1g",1]]"#,
            r#"[["0x123456789",1]]"#,
            r#"[["0x1",0]]"#,
            r#"[[1,1]]"#,
        ] {
            let text = format!(r#"{{"kind":"register","name":"A","offset":0,"values":{values}}}"#);
            assert!(serde_json::from_str::<Record>(&text).is_err(), "{values}");
        }
    }
}
