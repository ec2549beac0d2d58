//! The reports of a run, and what grew between two of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// Registers of Linux' network device: its statistics, which are read every few seconds, and its
/// queues.
const LAN: [&str; 6] = [
    "GLPRT_",
    "GLV_",
    "GLSTAT_",
    "PRTRPB_RDPC",
    "QTX_COMM",
    "QRX_TAIL",
];

/// Read until something is done: how often is the machine's speed.
const WAITED_FOR: [&str; 6] = [
    "PF_FW_ATQH",
    "PFPE_CQPTAIL",
    "PFPE_CCQPSTATUS",
    "PFGEN_CTRL",
    "GLGEN_RSTAT",
    "GLNVM_ULD",
];

/// Counts by kind and name: `reads_of PFINT_OICR`, `cqp_of 0x01`, `frames_sent`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts(pub(crate) BTreeMap<String, i64>);

impl Counts {
    /// Every number of `object` and of the objects in it.
    pub(crate) fn of(object: &Value) -> Self {
        let mut counts = BTreeMap::new();
        for (name, value) in object.as_object().into_iter().flatten() {
            if let Some(count) = value.as_i64() {
                counts.insert(name.clone(), count);
            }
            for (inner, value) in value.as_object().into_iter().flatten() {
                counts.insert(format!("{name} {inner}"), value.as_i64().unwrap_or(0));
            }
        }
        Self(counts)
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut counts = self.0.clone();
        for (name, count) in &other.0 {
            *counts.entry(name.clone()).or_default() -= count;
        }
        Self(counts)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut counts = self.0.clone();
        for (name, count) in &other.0 {
            *counts.entry(name.clone()).or_default() += count;
        }
        Self(counts)
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The sum of several.
    pub(crate) fn sum(&self, names: &[&str]) -> i64 {
        names.iter().map(|name| self.get(name)).sum()
    }

    /// What begins with `kind`: its name without it, and the count, where that is not 0.
    pub(crate) fn each<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, i64)> {
        let named = self.0.iter().filter(|(_, count)| **count != 0);
        named.filter_map(move |(name, count)| Some((name.strip_prefix(kind)?, *count)))
    }

    /// The sum of what begins with `kind`.
    pub(crate) fn all(&self, kind: &str) -> i64 {
        self.each(kind).map(|(_, count)| count).sum()
    }

    /// Reads of registers that are neither the network device's nor waited for.
    pub(crate) fn reads(&self) -> i64 {
        let reads = self.each("reads_of ");
        let counted = reads.filter(|(name, _)| !is_of_lan(name) && !WAITED_FOR.contains(name));
        counted.map(|(_, count)| count).sum()
    }
}

/// Whether a register is the network device's.
pub(crate) fn is_of_lan(register: &str) -> bool {
    LAN.iter().any(|prefix| register.starts_with(prefix))
}

/// Where the reports are.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A report.
    pub(crate) fn report(&self, name: &str) -> Result<Value, Box<dyn Error>> {
        let path = self.0.join(format!("{name}.json"));
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// What grew while the row `name` was done, of each function.
    pub(crate) fn row(&self, name: &str) -> Result<[Counts; 2], Box<dyn Error>> {
        let [before, after] =
            ["before", "after"].map(|when| self.report(&format!("{name}-{when}")));
        let (before, after) = (before?, after?);
        let of = |report: &Value, index: usize| {
            let function = report.get("functions").and_then(|all| all.get(index));
            function.map(Counts::of).unwrap_or_default()
        };
        Ok([0, 1].map(|index| of(&after, index).minus(&of(&before, index))))
    }
}
