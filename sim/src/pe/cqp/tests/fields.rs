//! The inputs of a recorded case; each one is either compared or skipped with a reason.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::json::Value;

/// Compares the device's decoding of a case's bytes with the case's inputs, and detects inputs that
/// were not compared.
pub(super) struct Fields<'a> {
    inputs: &'a Value,
    compared: BTreeSet<String>,
    wrong: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(inputs: &'a Value) -> Self {
        Self {
            inputs,
            compared: BTreeSet::new(),
            wrong: Vec::new(),
        }
    }

    /// An input itself.
    pub(super) fn value(&mut self, key: &str) -> &'a Value {
        self.compared.insert(key.to_owned());
        &self.inputs[key]
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.inputs[key] != Value::Nothing
    }

    /// A number; inputs that are not listed are 0.
    pub(super) fn number(&mut self, key: &str) -> u64 {
        self.value(key).number().unwrap_or(0)
    }

    pub(super) fn is_set(&mut self, key: &str) -> bool {
        self.number(key) != 0
    }

    /// A MAC address as a number; 0 when there is none.
    pub(super) fn mac(&mut self, key: &str) -> u64 {
        let text = self.value(key).text().unwrap_or("0");
        let octet = |text| u64::from_str_radix(text, 16).unwrap();
        text.split(':').fold(0, |mac, text| mac << 8 | octet(text))
    }

    /// The four numbers of an IP address, A0 first.
    fn address(&mut self, key: &str) -> [u32; 4] {
        let parts = self.value(key).list();
        std::array::from_fn(|n| parts[n].number().unwrap() as u32)
    }

    /// An address of a command: IPv4 is the first of the four numbers.
    pub(super) fn ip(&mut self, key: &str, v4: bool) -> IpAddr {
        let parts = self.address(key);
        match v4 {
            true => Ipv4Addr::from(parts[0]).into(),
            false => v6(parts).into(),
        }
    }

    /// An address of a QP context: IPv4 is the last of the four numbers.
    pub(super) fn context_ip(&mut self, key: &str, v4: bool) -> IpAddr {
        let parts = self.address(key);
        match v4 {
            true => Ipv4Addr::from(parts[3]).into(),
            false => v6(parts).into(),
        }
    }

    /// The input `key` must be `got`.
    pub(super) fn field(&mut self, key: &str, got: impl Into<u64>) {
        let expected = self.number(key);
        self.same(key, got.into(), expected);
    }

    pub(super) fn same<T: PartialEq + Debug>(&mut self, what: &str, got: T, expected: T) {
        if got != expected {
            self.wrong
                .push(format!("{what}: expected {expected:#x?}, got {got:#x?}"));
        }
    }

    /// Inputs that the device does not use, and why.
    pub(super) fn unused(&mut self, why: &str, keys: &[&str]) {
        assert!(!why.is_empty());
        self.compared
            .extend(keys.iter().map(|key| (*key).to_owned()));
    }

    /// Differences, and the inputs that were not compared.
    pub(super) fn complaints(self) -> Vec<String> {
        let mut wrong = self.wrong;
        for (key, value) in self.inputs.members() {
            if self.compared.contains(*key) {
                continue;
            }
            wrong.push(format!("`{key}` = {value} is compared with nothing"));
        }
        wrong
    }
}

fn v6(parts: [u32; 4]) -> Ipv6Addr {
    let bits = parts
        .iter()
        .fold(0_u128, |bits, part| bits << 32 | u128::from(*part));
    bits.into()
}
