//! Commands, contexts and entries recorded from Linux's own functions, byte for byte. A finding in
//! one of them means that a rule of the model is wrong. Each must decode to its inputs.

mod contexts;
mod decoded;
mod entries;
mod fields;
mod json;
mod prepared;

use super::command::{Command, Format};
use crate::findings::Class;
use crate::pe::Config;
use crate::pe::device::Device;
use crate::pe::tests::env::TestEnv;
use json::Value;

/// A file of `tests/vectors`.
macro_rules! vectors {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/vectors/",
            $name
        ))
    };
}

const COMMANDS: &str = vectors!("cqp_wqes.json");
const CONTEXTS: &str = vectors!("qp_contexts.json");
const BRING_UP: &str = vectors!("cqp_bringup.json");
const EVENTS: &str = vectors!("events.json");

/// A recorded case: one line of the file.
struct Case(&'static str);

impl Case {
    fn all(file: &'static str) -> impl Iterator<Item = Self> {
        file.lines()
            .filter(|line| line.starts_with("{\"name\"") || line.starts_with("{\"kind\""))
            .map(Case)
    }

    fn value(&self) -> Value {
        Value::of(self.0.trim_end_matches(','))
    }

    fn text(&self, key: &str) -> Option<&'static str> {
        let (_, rest) = self.0.split_once(&format!("\"{key}\":\""))?;
        rest.split('"').next()
    }

    fn name(&self) -> &'static str {
        self.text("name").unwrap()
    }

    fn words<const N: usize>(&self, key: &str) -> Option<[u64; N]> {
        let hex = self.text(key)?;
        let byte = |n: usize| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap();
        Some(std::array::from_fn(|w| {
            u64::from_le_bytes(std::array::from_fn(|b| byte(8 * w + b)))
        }))
    }

    fn command(&self) -> Option<Command> {
        self.words("wqe_hex").map(Command)
    }
}

/// Cases with a WQE in `cqp_wqes.json`: without this count an unread case would go unnoticed.
const RECORDED: usize = 119;

#[test]
fn linux_sets_only_bits_that_the_formats_define() {
    let mut seen = 0;
    for case in Case::all(COMMANDS) {
        let Some(command) = case.command() else {
            continue;
        };
        let format = Format::of(command.opcode());
        let format =
            format.unwrap_or_else(|| panic!("{}: opcode {:#x}", case.name(), command.opcode()));
        assert_eq!(format.undefined(&command), None, "{}", case.name());
        seen += 1;
    }
    assert_eq!(seen, RECORDED);
}

#[test]
fn each_opcode_has_one_format() {
    for opcode in 0..64 {
        let Some(format) = Format::of(opcode) else {
            continue;
        };
        assert_eq!(format.opcode, opcode);
        // A bit that no format has: header bit [39], above the opcode.
        let mut command = Command([0; 8]);
        command.0[3] = u64::from(opcode) << 32 | 1 << 39;
        if opcode != 0x21 && opcode != 0x12 {
            assert_eq!(
                format.undefined(&command),
                Some((24, 1 << 39)),
                "{}",
                format.name
            );
        }
    }
}

/// Every opcode with a format has an executor; other opcodes do not get that far.
#[test]
fn an_opcode_without_an_executor_is_found() {
    let found = |opcode: u64| {
        let mut env = TestEnv::new(1);
        let mut device = Device::new(Config::default(), 0);
        device.hmc.announced = true;
        let command = Command([0, 0, 0, opcode << 32, 0, 0, 0, 0]);
        let failed = device.execute(&command, &mut env).is_err();
        let text = format!("CQP opcode {opcode:#04x} has no executor");
        failed && env.findings == [(Class::Fault, "cqp-opcode", text)]
    };
    for opcode in 0..64 {
        assert_eq!(found(opcode), Format::of(opcode as u8).is_none());
    }
}
