//! The whole way up and down, and what it costs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use e810::{Reached, Stage};
use e810_hal::{Bus, RegOffset};
use e810_sim::Sim;
use e810_sim::middleware::{Layer, Layered};
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};
use expect_test::expect;

use crate::cold::world::{assert_as_found, builder, card, up};

#[test]
fn all_stages_and_nothing_is_left() {
    for layers in [9, 5] {
        let (sim, nic) = card(move |config| config.layers = layers);
        for _ in 0..3 {
            let mut stages = Vec::new();
            let device = up(nic.clone(), &mut |at: Reached| stages.push(at.stage)).unwrap();
            assert_eq!(stages, Stage::COLD);
            device.shutdown().unwrap();
            assert_as_found(&sim);
        }
    }
}

#[test]
fn messages_pass_between_two_cold_functions() {
    let sim: Sim = builder(2).build();
    let mut pair = Pair::cold(&sim, Setup::default());
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        for side in [0, 1] {
            pair.transfer(End { side, qp: 0 }, &Transfer::new(kind, 20_000));
        }
    }
    pair.finish(&sim);
}

/// The VSI allows it and the rule of the function's address does it: the switch would keep the
/// frames otherwise.
#[test]
fn messages_pass_inside_one_cold_function() {
    let sim: Sim = builder(1).build();
    let setup = Setup {
        queue_pairs: 2,
        ..Setup::default()
    };
    let mut pair = Pair::cold_looped_back(&sim, setup);
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        for qp in [0, 1] {
            pair.transfer(End { side: 0, qp }, &Transfer::new(kind, 20_000));
        }
    }
    assert_eq!(sim.stats(0).frames_not_looped, 0);
    assert!(sim.stats(0).frames_received > 100);
    pair.finish(&sim);
}

/// Counts register accesses.
#[derive(Clone, Default)]
struct Count(Arc<[AtomicU64; 2]>);

impl Count {
    fn take(&self) -> [u64; 2] {
        self.0.each_ref().map(|count| count.swap(0, Relaxed))
    }
}

impl Layer for Count {
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        self.0[0].fetch_add(1, Relaxed);
        below.read32(off)
    }
    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        self.0[1].fetch_add(1, Relaxed);
        below.write32(off, value);
    }
}

/// Register reads and writes, AdminQ and CQP commands of each stage. Reads grow
/// with the time that the device takes; with this firmware (3 µs a command) each
/// AdminQ command is looked at once. The package has three buffers.
#[test]
fn what_each_stage_costs() {
    let (sim, nic) = card(|_| {});
    let count = Count::default();
    let mut table = String::from("stage     reads  writes  AdminQ     CQP\n");
    let mut before = (0, 0);
    let mut row = |name: &str, commands: (u64, u64), [reads, writes]: [u64; 2]| {
        let (admin, cqp) = (commands.0 - before.0, commands.1 - before.1);
        before = commands;
        table += &format!("{name:8} {reads:6} {writes:7} {admin:7} {cqp:7}\n");
    };
    let device = up(Layered::new(nic, count.clone()), &mut |at: Reached| {
        let commands = (at.admin_commands, at.commands);
        row(at.stage.name(), commands, count.take());
    })
    .unwrap();
    device.shutdown().unwrap();
    let [reads, writes] = count.take();
    table += &format!("shutdown {reads:6} {writes:7}\n");
    assert_as_found(&sim);
    expect![[r#"
        stage     reads  writes  AdminQ     CQP
        reset         6       1       0       0
        adminq        5      14       3       0
        identity      4       4       4       0
        tree          9       9       9       0
        package      12      13      11       0
        vsi           5       5       5       0
        link          7       5       5       0
        rules         4       3       3       0
        engine        4       0       0       0
        cqp           2       5       0       0
        hmc          15       5       0       5
        ccq           2       1       0       1
        ceqs          2      18       0       4
        aeq           1       9       0       1
        ready         1       1       1       0
        shutdown     23      47
    "#]]
    .assert_eq(&table);
}
