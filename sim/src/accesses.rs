//! Counts of a function's register accesses and commands, by register name and opcode.

use std::collections::BTreeMap;

use e810_hal::RegOffset;
use e810_hal::regs as hw;

/// Counts of register accesses and commands, by name and opcode.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Accesses {
    /// Reads by register name; the elements of an array count as one register.
    pub register_reads: BTreeMap<&'static str, u64>,
    /// Writes by register name.
    pub register_writes: BTreeMap<&'static str, u64>,
    /// AdminQ commands by opcode.
    pub adminq: BTreeMap<u16, u64>,
    /// CQP commands by opcode.
    pub cqp: BTreeMap<u8, u64>,
}

impl Accesses {
    /// What was added since `earlier`. Entries that did not grow are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            register_reads: grown(&self.register_reads, &earlier.register_reads),
            register_writes: grown(&self.register_writes, &earlier.register_writes),
            adminq: grown(&self.adminq, &earlier.adminq),
            cqp: grown(&self.cqp, &earlier.cqp),
        }
    }
}

fn grown<K: Copy + Ord>(now: &BTreeMap<K, u64>, before: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let more = now.iter().map(|(key, count)| {
        let before = before.get(key).copied().unwrap_or(0);
        (*key, count.saturating_sub(before))
    });
    more.filter(|(_, count)| *count > 0).collect()
}

/// Doorbells rung for messages and events. They are found by offset alone, because a look-up by
/// name would slow down each message.
const RUNG: [(RegOffset, &str); 7] = [
    (hw::DB_WQE_ALLOC.off(), "DB_WQE_ALLOC"),
    (hw::PFPE_WQEALLOC.off(), "PFPE_WQEALLOC"),
    (hw::DB_CQ_ARM.off(), "DB_CQ_ARM"),
    (hw::PFPE_CQARM.off(), "PFPE_CQARM"),
    (hw::PFPE_CQACK.off(), "PFPE_CQACK"),
    (hw::PFPE_AEQALLOC.off(), "PFPE_AEQALLOC"),
    (hw::PFPE_CQPDB.off(), "PFPE_CQPDB"),
];

/// Counts since power-up; resets do not clear them.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    /// All counts except those of the doorbells in [`RUNG`].
    others: Accesses,
    rung: [u64; RUNG.len()],
}

impl Counter {
    pub(crate) fn read(&mut self, register: &'static str) {
        *self.others.register_reads.entry(register).or_default() += 1;
    }

    /// Counts a write at `off`. `name` is called only when the name is needed.
    pub(crate) fn wrote(&mut self, off: RegOffset, name: impl FnOnce() -> &'static str) {
        let mut rung = RUNG.iter().zip(&mut self.rung);
        match rung.find(|((at, _), _)| *at == off) {
            Some((_, count)) => *count += 1,
            None => *self.others.register_writes.entry(name()).or_default() += 1,
        }
    }

    pub(crate) fn adminq(&mut self, opcode: u16) {
        *self.others.adminq.entry(opcode).or_default() += 1;
    }

    pub(crate) fn cqp(&mut self, opcode: u8) {
        *self.others.cqp.entry(opcode).or_default() += 1;
    }

    /// All counts so far.
    pub(crate) fn all(&self) -> Accesses {
        let mut all = self.others.clone();
        let rung = RUNG.iter().zip(self.rung);
        for ((_, name), count) in rung.filter(|(_, count)| *count > 0) {
            all.register_writes.insert(name, count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sim;

    #[test]
    fn what_has_not_grown_is_left_out() {
        let mut counter = Counter::default();
        counter.read("A");
        counter.adminq(1);
        counter.wrote(hw::PFPE_CQPTAIL.off(), || "B");
        let before = counter.all();
        counter.read("A");
        counter.read("C");
        counter.cqp(3);
        let grown = counter.all().since(&before);
        let reads = BTreeMap::from([("A", 1), ("C", 1)]);
        assert_eq!(grown.register_reads, reads);
        assert_eq!(grown.register_writes, BTreeMap::new());
        assert_eq!(
            (grown.adminq, grown.cqp),
            (BTreeMap::new(), BTreeMap::from([(3, 1)]))
        );
    }

    #[test]
    fn a_doorbell_has_its_name_and_the_page_another_one() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        hw::PFPE_AEQALLOC.set(&nic, 0);
        hw::DB_CQ_ARM.set(&nic, 0);
        hw::DB_CQ_ARM.set(&nic, 0);
        hw::PFPE_CQARM.set(&nic, 0);
        let writes = sim.accesses(0).register_writes;
        let expected = [("DB_CQ_ARM", 2), ("PFPE_AEQALLOC", 1), ("PFPE_CQARM", 1)];
        assert_eq!(writes, BTreeMap::from(expected));
        sim.clear_stats(0);
        assert_eq!(sim.accesses(0).register_writes, writes);
    }
}
