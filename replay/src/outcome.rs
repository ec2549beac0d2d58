//! What a replay has found.

use std::collections::BTreeMap;
use std::fmt;

/// Something that the simulator did otherwise than the recorded device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The name of the recording.
    pub recording: String,
    /// The line in it, from 1 on.
    pub line: usize,
    /// The time of that line.
    pub ns: u64,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            recording,
            line,
            ns,
            what,
        } = self;
        let (seconds, micros) = (ns / 1_000_000_000, ns / 1000 % 1_000_000);
        write!(
            f,
            "{recording}, line {line}, {seconds}.{micros:06} s: {what}"
        )
    }
}

/// How many of a kind were compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// All.
    pub all: u64,
    /// Those that are the same.
    pub same: u64,
}

impl Compared {
    pub(crate) fn add(&mut self, is_same: bool) {
        self.all += 1;
        self.same += u64::from(is_same);
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} the same", self.same, self.all)
    }
}

/// What a replay has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Reads of registers; the repetitions of a poll are one.
    pub reads: Compared,
    /// Accesses to configuration space.
    pub config_reads: Compared,
    /// Messages of vectors.
    pub interrupts: Compared,
    /// What the device wrote, by the kind of place.
    pub written: BTreeMap<&'static str, Compared>,
    /// Lines of what the device wrote that a replay cannot make, because they depend on contents that no
    /// recording has: descriptors of received LAN frames.
    pub given: u64,
    /// Messages of the vectors of LAN receive queues that the simulator did not send: for the same reason.
    pub given_interrupts: u64,
    /// Registers that were not compared, with the number of their reads, and why.
    pub left_out: BTreeMap<String, (u64, &'static str)>,
    /// Entries that the recordings say they do not have.
    pub not_seen: u64,
    /// What the simulator finds wrong with the driver, or with memory that the recording lacks.
    pub findings: Vec<String>,
    /// What differs, in its order.
    pub differences: Vec<Difference>,
    /// The line at which the replay was ended, because too much differed.
    pub stopped_at: Option<usize>,
}
