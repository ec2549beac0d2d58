//! Cost of a bring-up: counts every register access and command between a reset and a working
//! engine.
//!
//! Counting starts at power-up and at each reset of the function. It ends when the engine can
//! report events and receive packets: the AEQ exists and, on a cold function, a VSI passes packets.
//! These are the last steps of existing drivers (control-path 3.0, 3.1).

use std::collections::BTreeMap;

use e810_hal::Ns;

/// Bring-ups kept of a function; later ones are not.
const KEPT: usize = 64;

/// The accesses and commands of one bring-up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BringUp {
    /// When the reset was.
    pub from: Ns,
    /// When the engine was ready.
    pub ready: Ns,
    /// Reads by name of the register; elements of an array are one.
    pub register_reads: BTreeMap<&'static str, u64>,
    /// Writes by name of the register.
    pub register_writes: BTreeMap<&'static str, u64>,
    /// Commands of the AdminQ by opcode.
    pub adminq: BTreeMap<u16, u64>,
    /// Commands of the CQP by opcode.
    pub cqp: BTreeMap<u8, u64>,
    /// Bytes of host memory that valid SDs name: 2 MiB for a direct one, the pages of a paged one.
    pub hmc_bytes: u64,
}

/// Counts one function.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    current: BringUp,
    done: bool,
    finished: Vec<BringUp>,
}

impl Tally {
    /// A reset: the next bring-up begins.
    pub(crate) fn restart(&mut self, now: u64) {
        self.done = false;
        self.current = BringUp {
            from: Ns(now),
            ..BringUp::default()
        };
    }

    /// Whether a bring-up is being counted.
    pub(crate) fn counts(&self) -> bool {
        !self.done
    }

    pub(crate) fn read(&mut self, register: &'static str) {
        *self.current.register_reads.entry(register).or_default() += 1;
    }

    pub(crate) fn wrote(&mut self, register: &'static str) {
        *self.current.register_writes.entry(register).or_default() += 1;
    }

    pub(crate) fn adminq(&mut self, opcode: u16) {
        if self.counts() {
            *self.current.adminq.entry(opcode).or_default() += 1;
        }
    }

    pub(crate) fn cqp(&mut self, opcode: u8) {
        if self.counts() {
            *self.current.cqp.entry(opcode).or_default() += 1;
        }
    }

    /// The engine is ready.
    pub(crate) fn finish(&mut self, now: u64, hmc_bytes: u64) {
        self.done = true;
        self.current.ready = Ns(now);
        self.current.hmc_bytes = hmc_bytes;
        if self.finished.len() < KEPT {
            self.finished.push(self.current.clone());
        }
    }

    pub(crate) fn finished(&self) -> &[BringUp] {
        &self.finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sim;
    use e810_hal::regs as hw;
    use e810_hal::{Clock, Ns};

    #[test]
    fn counting_ends_when_the_engine_is_ready() {
        let mut tally = Tally::default();
        tally.read("A");
        tally.restart(5);
        tally.read("A");
        tally.read("A");
        tally.wrote("B");
        tally.adminq(1);
        tally.cqp(2);
        tally.finish(9, 4096);
        tally.adminq(1);
        assert!(!tally.counts());
        let [only] = tally.finished() else {
            panic!("{tally:?}");
        };
        assert_eq!(
            (only.from, only.ready, only.hmc_bytes),
            (Ns(5), Ns(9), 4096)
        );
        assert_eq!(only.register_reads, BTreeMap::from([("A", 2)]));
        assert_eq!(only.register_writes, BTreeMap::from([("B", 1)]));
        assert_eq!((only.adminq[&1], only.cqp[&2]), (1, 1));
    }

    #[test]
    fn registers_are_counted_by_name_from_the_reset_on() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let _ = hw::GLPE_CPUSTATUS0.get(&nic);
        hw::PFGEN_CTRL.set(&nic, 1);
        nic.delay(Ns::from_ms(1));
        let _ = hw::GLPE_CPUSTATUS0.get(&nic);
        for vector in [1, 2].map(|index| e810_hal::Vector::new(index).unwrap()) {
            hw::GLINT_DYN_CTL.at(vector).set(&nic, 0);
        }
        hw::PFPE_CQPTAIL.set(&nic, 0);
        sim.with_machine(|machine| {
            let tally = &machine.functions[0].state.tally;
            assert_eq!(
                tally.current.register_reads,
                BTreeMap::from([("GLPE_CPUSTATUS0", 1)])
            );
            let writes = BTreeMap::from([("GLINT_DYN_CTL", 2), ("PFPE_CQPTAIL", 1)]);
            assert_eq!(tally.current.register_writes, writes);
        });
        assert_eq!(sim.bring_ups(0), []);
    }
}
