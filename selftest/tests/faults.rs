//! Experiments conclude nothing from what did not happen: lost messages, timers that do not work, a
//! device that leaves or asks for a reset.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_backends::HostDevice;
use e810_card::selftest::{Outcome, Verdict};
use e810_hal::bus::ItrIndex;
use e810_hal::regs::{GLINT_ITR, GLINT_RATE};
use e810_hal::{Bus, RegOffset, Vector};
use e810_node::simulated::start;
use e810_node::start::Start;
use e810_selftest::{Bench, EXPERIMENTS, Experiment, run};
use e810_sim::link::{LinkHook, Verdict as Frame};
use e810_sim::middleware::{Inject, Layer, Layered, Rule};
use e810_sim::pe::CqpErrors;
use e810_sim::{Builder, Mode, PortLink, Profile, Sim, Variation};

fn builder(choices: &[(&str, &str)]) -> Builder {
    let mut variation = Variation::default();
    for (name, value) in choices {
        variation.choose(name, value).unwrap();
    }
    let builder = Sim::builder().seed(3).mode(Mode::Virtual);
    let builder = builder.profile(Profile::small()).cold();
    builder.variation(variation)
}

fn named(name: &str) -> Experiment {
    let mut all = EXPERIMENTS.iter();
    *all.find(|known| known.name == name).unwrap()
}

/// What was found until the function was gone.
fn found<D: HostDevice>(device: D, start: Start, experiments: &[Experiment]) -> Vec<Outcome> {
    let bench = Bench::new(device, start).unwrap();
    let mut all = Vec::new();
    let _ = run(&bench, experiments, &mut |_, outcome| {
        all.extend(outcome.cloned());
        Ok(())
    });
    all
}

fn found_on(sim: &Sim, experiments: &[Experiment]) -> Vec<Outcome> {
    let function = sim.function(0);
    let start = start(&function, 1500);
    found(function, start, experiments)
}

/// Nothing of a function whose messages are lost, or that has no link, is taken for an answer.
#[test]
fn a_lost_message_is_no_answer() {
    for choices in [vec![], vec![("error_refused", "Always")]] {
        for experiment in EXPERIMENTS {
            let sim = builder(&choices).build();
            let hook: LinkHook = Box::new(|_| Frame::Drop);
            sim.set_link_hook(Some(hook));
            for outcome in found_on(&sim, &[*experiment]) {
                assert_ne!(outcome.verdict, Verdict::Differs, "{outcome:?}");
                let is_of_messages = ["clear_pba", "cq_full", "error_refused", "octets"];
                if is_of_messages.contains(&outcome.name.as_str()) {
                    assert_eq!(outcome.verdict, Verdict::NotTried, "{outcome:?}");
                }
            }
        }
    }
    let sim = builder(&[]);
    let sim = sim.firmware(|_, config| config.link = PortLink::NoMedia);
    let outcomes = found_on(&sim.build(), EXPERIMENTS);
    let differs = |outcome: &&Outcome| outcome.verdict == Verdict::Differs;
    assert_eq!(outcomes.iter().find(differs), None);
    let holds = |outcome: &&Outcome| outcome.verdict == Verdict::Holds;
    assert!(outcomes.iter().filter(holds).count() > EXPERIMENTS.len() / 2);
}

#[test]
fn a_machine_with_many_processors_finds_the_last_event_queue_missing() {
    for wanted in [4, 31, 32, 64] {
        let sim = builder(&[("last_ceq", "Missing")]).vectors(80).build();
        let function = sim.function(0);
        let mut start = start(&function, 1500);
        if let Start::Cold { ceqs, .. } = &mut start {
            *ceqs = wanted;
        }
        let outcomes = found(function, start, &[named("last_ceq")]);
        let values: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.value.as_deref())
            .collect();
        assert_eq!(values, [Some("Missing")], "{wanted} wanted");
    }
}

/// The device refuses to destroy queue pairs: what one experiment leaves is no loss for the next.
#[test]
fn a_refusal_at_the_end_takes_nothing_from_the_next_experiment() {
    const DESTROY_QP: u8 = 2;
    let sim = builder(&[]).vectors(16).build();
    sim.configure_engine(0, |config| {
        config.cqp_errors = CqpErrors::Opcode(DESTROY_QP);
    });
    let outcomes = found_on(&sim, &[named("counted_sends"); 8]);
    assert_eq!(outcomes.len(), 8);
    for outcome in outcomes {
        assert_eq!(outcome.verdict, Verdict::Holds, "{outcome:?}");
    }
    assert!(sim.memory(0).nothing_held(), "{:?}", sim.memory(0));
}

#[test]
fn timers_that_delay_nothing_are_no_answer() {
    let inject = Inject::default();
    for vector in (0..8).filter_map(Vector::new) {
        for timer in (0..3).filter_map(ItrIndex::new) {
            let off = GLINT_ITR.at(timer, vector).off();
            inject.add(Rule::DropWrites { off, nth: 1 });
        }
        let off = GLINT_RATE.at(vector).off();
        inject.add(Rule::DropWrites { off, nth: 1 });
    }
    let sim = builder(&[]).build();
    let function = sim.function(0);
    let start = start(&function, 1500);
    let names = [
        "changed_timer",
        "same_interval",
        "other_timers",
        "rate_limits",
    ];
    let device = Layered::new(function, inject);
    for outcome in found(device, start, &names.map(named)) {
        assert_eq!(outcome.verdict, Verdict::NotTried, "{outcome:?}");
    }
}

/// A device that leaves the bus at a read.
#[derive(Clone, Debug)]
struct Leaves {
    seen: Arc<AtomicU64>,
    at: u64,
}

impl Layer for Leaves {
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        match self.seen.fetch_add(1, Ordering::Relaxed) < self.at {
            true => below.read32(off),
            false => u32::MAX,
        }
    }

    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        if self.seen.load(Ordering::Relaxed) < self.at {
            below.write32(off, value);
        }
    }
}

/// The experiment on a device that leaves at read `at`, and how many reads there were.
fn leaving(experiment: Experiment, at: u64) -> (Vec<Outcome>, u64) {
    let seen = Arc::<AtomicU64>::default();
    let function = builder(&[]).build().function(0);
    let start = start(&function, 1500);
    let layer = Leaves {
        seen: seen.clone(),
        at,
    };
    let outcomes = found(Layered::new(function, layer), start, &[experiment]);
    (outcomes, seen.load(Ordering::Relaxed))
}

#[test]
fn a_device_that_leaves_has_answered_nothing_else() {
    for experiment in EXPERIMENTS {
        let (_, reads) = leaving(*experiment, u64::MAX);
        let places = (0..8).map(|part| reads * part / 8);
        for at in places.chain(reads.saturating_sub(3)..reads) {
            for outcome in leaving(*experiment, at).0 {
                let place = format!("gone at read {at} of {reads}: {outcome:?}");
                // It may have answered before.
                assert_ne!(outcome.verdict, Verdict::Differs, "{place}");
            }
        }
    }
}
