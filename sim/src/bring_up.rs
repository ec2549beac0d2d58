//! Cost of a bring-up: counts every register access and command between a reset and a working
//! engine.
//!
//! Counting starts at power-up and at each reset of the function. It ends when the engine can
//! report events and receive packets: the AEQ exists and, on a cold function, a VSI passes packets.
//! These are the last steps of existing drivers (control-path 3.0, 3.1).

use e810_hal::Ns;

use crate::accesses::{Accesses, Counter};

/// Bring-ups kept for each function; later ones are dropped.
const KEPT: usize = 64;

/// Accesses and commands of one bring-up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BringUp {
    /// Time of the reset.
    pub from: Ns,
    /// Time at which the engine was ready.
    pub ready: Ns,
    /// Register accesses and commands.
    pub accesses: Accesses,
    /// Bytes of host memory behind valid SDs: 2 MiB for a direct SD, its pages for a paged one.
    pub hmc_bytes: u64,
}

/// Counts the bring-ups of one function.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counter: Counter,
    /// Time of the last reset, and the counts up to then.
    from: Ns,
    at_reset: Accesses,
    done: bool,
    finished: Vec<BringUp>,
}

impl Tally {
    /// A reset: the next bring-up begins.
    pub(crate) fn restart(&mut self, now: u64) {
        self.done = false;
        self.from = Ns(now);
        self.at_reset = self.counter.all();
    }

    /// Whether a bring-up has begun and not ended.
    pub(crate) fn counts(&self) -> bool {
        !self.done
    }

    /// The engine is ready.
    pub(crate) fn finish(&mut self, now: u64, hmc_bytes: u64) {
        self.done = true;
        if self.finished.len() < KEPT {
            self.finished.push(BringUp {
                from: self.from,
                ready: Ns(now),
                accesses: self.counter.all().since(&self.at_reset),
                hmc_bytes,
            });
        }
    }

    pub(crate) fn finished(&self) -> &[BringUp] {
        &self.finished
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Sim;
    use e810_hal::Clock;
    use e810_hal::regs as hw;

    #[test]
    fn counting_ends_when_the_engine_is_ready() {
        let mut tally = Tally::default();
        let (tail, doorbell) = (hw::PFPE_CQPTAIL.off(), hw::PFPE_CQPDB.off());
        tally.counter.read("A");
        tally.counter.wrote(doorbell, || "unused");
        tally.restart(5);
        tally.counter.read("A");
        tally.counter.read("A");
        tally.counter.wrote(tail, || "B");
        tally.counter.wrote(doorbell, || "unused");
        tally.counter.adminq(1);
        tally.counter.cqp(2);
        tally.finish(9, 4096);
        tally.counter.adminq(1);
        assert!(!tally.counts());
        let [only] = tally.finished() else {
            panic!("{tally:?}");
        };
        assert_eq!(
            (only.from, only.ready, only.hmc_bytes),
            (Ns(5), Ns(9), 4096)
        );
        let counted = &only.accesses;
        assert_eq!(counted.register_reads, BTreeMap::from([("A", 2)]));
        let writes = BTreeMap::from([("B", 1), ("PFPE_CQPDB", 1)]);
        assert_eq!(counted.register_writes, writes);
        assert_eq!((counted.adminq[&1], counted.cqp[&2]), (1, 1));
        assert_eq!(tally.counter.all().adminq[&1], 2);
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
            let counted = tally.counter.all().since(&tally.at_reset);
            assert_eq!(
                counted.register_reads,
                BTreeMap::from([("GLPE_CPUSTATUS0", 1)])
            );
            let writes = BTreeMap::from([("GLINT_DYN_CTL", 2), ("PFPE_CQPTAIL", 1)]);
            assert_eq!(counted.register_writes, writes);
        });
        assert_eq!(sim.bring_ups(0), []);
    }
}
