//! The device answers the n-th command with an error, for every n.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use e810::hmc::Backing;
use e810::{Error, bring_up};
use e810_hal::regs::PFPE_CQPDB;
use e810_hal::{Bus, RegOffset};
use e810_sim::middleware::{Layer, Layered};
use e810_sim::pe::CqpErrors;
use e810_sim::{DmaSegmentation, Sim};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;
use expect_test::expect;

use crate::bring_up::world::{
    BACKINGS, Table, assert_as_found, assert_explains, assert_vectors_back, builder, card, config,
    up_and_down,
};

/// More commands than making and giving back one object of each kind takes.
const OBJECT_COMMANDS: u64 = 24;

fn fail(sim: &Sim, errors: CqpErrors) {
    sim.configure_engine(0, |config| config.cqp_errors = errors);
}

/// Name of the command that a device has failed.
fn command_of(error: &Error) -> Option<String> {
    match error {
        Error::Cqp(e810_cqp::Error::Cqp { op, .. }) => Some(op.to_string()),
        _ => None,
    }
}

/// The commands of a bring-up in order, each failed once.
fn every_command(backing: Backing) -> String {
    let (sim, nic) = card();
    let mut config = config(&nic);
    config.backing = backing;
    let mut commands = 0;
    let device = bring_up(nic.clone(), &config, &mut |at| commands = at.commands).unwrap();
    device.shutdown().unwrap();
    let mut table = Table::default();
    for nth in 0..commands as u32 {
        fail(&sim, CqpErrors::Nth(nth));
        let done = bring_up(nic.clone(), &config, &mut |_| {});
        fail(&sim, CqpErrors::None);
        let error = match done {
            Err(error) => error,
            // A card may have fewer event queues than it says.
            Ok(device) => {
                let (control, events) = device.split();
                let vectors = control.completion_vectors();
                control.shutdown(events).map_err(|e| e.error).unwrap();
                assert_as_found(&sim);
                table.row(nth.into(), format!("up with {vectors} completion vectors"));
                continue;
            }
        };
        let op = command_of(&error.error).unwrap_or_else(|| panic!("{nth}: {error:?}"));
        assert!(error.to_string().contains(&op), "{error}");
        assert_explains(&error);
        assert_eq!(error.undo, None, "{nth}");
        assert_as_found(&sim);
        up_and_down(nic.clone(), &config).expect("good again");
        assert_as_found(&sim);
        table.row(nth.into(), format!("{} {op}", error.stage.name()));
    }
    table.text()
}

#[test]
fn a_failed_command_of_a_bring_up_is_reported_by_name_and_undone() {
    expect![[r#"
        0: hmc QUERY_RDMA_FEATURES
        1: hmc QUERY_FPM_VAL
        2: hmc COMMIT_FPM_VAL
        3: hmc UPDATE_PE_SDS
        4: hmc SHMC_PAGES_ALLOCATED
        5: ccq CREATE_CQ
        6: ceqs CREATE_CEQ
        7: up with 1 completion vectors
        8: up with 2 completion vectors
        9: up with 3 completion vectors
        10: aeq CREATE_AEQ
    "#]]
    .assert_eq(&every_command(Backing::Full));
    expect![[r#"
        0: hmc QUERY_RDMA_FEATURES
        1: hmc QUERY_FPM_VAL
        2: hmc COMMIT_FPM_VAL
        3: hmc UPDATE_PE_SDS
        4: hmc SHMC_PAGES_ALLOCATED
        5: ccq CREATE_CQ
        6: ceqs CREATE_CEQ
        7: up with 1 completion vectors
        8: up with 2 completion vectors
        9: up with 3 completion vectors
        10: aeq CREATE_AEQ
    "#]]
    .assert_eq(&every_command(Backing::OnDemand));
}

/// Makes each CREATE_CEQ from command `from` on ask for a reset.
#[derive(Clone, Debug)]
struct AsksForReset {
    sim: Sim,
    commands: Arc<AtomicU64>,
    from: u64,
}

impl Layer for AsksForReset {
    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        let is_command = off == PFPE_CQPDB.off();
        if is_command && self.commands.fetch_add(1, Ordering::Relaxed) == self.from {
            let answer = CqpErrors::Answer {
                opcode: 0x16,
                major: 0xFFFF,
                minor: 0x8029,
            };
            fail(&self.sim, answer);
        }
        below.write32(off, value);
    }
}

/// Fewer event queues will do, but not on a device that says that only a reset helps.
#[test]
fn a_device_that_asks_for_a_reset_does_not_come_up() {
    // The commands of the four event queues.
    for from in 6..10 {
        let (sim, nic) = card();
        let config = config(&nic);
        let layer = AsksForReset {
            sim: sim.clone(),
            commands: Arc::default(),
            from,
        };
        let error = bring_up(Layered::new(nic, layer), &config, &mut |_| {}).unwrap_err();
        assert!(error.error.needs_reset(), "{from}: {error}");
    }
}

#[test]
fn a_failed_command_of_a_shutdown_is_reported_and_leaks_no_more_than_the_device_may_use() {
    let (_sim, nic) = card();
    let mut made = 0;
    let up = bring_up(nic.clone(), &config(&nic), &mut |at| made = at.commands).unwrap();
    up.shutdown().unwrap();
    let mut table = Table::default();
    for nth in made as u32.. {
        let (sim, nic) = card();
        let device = bring_up(nic.clone(), &config(&nic), &mut |_| {}).unwrap();
        fail(&sim, CqpErrors::Nth(nth));
        let done = device.shutdown();
        let held = sim.memory(0);
        assert_eq!(held.host_blocks, 0, "{nth}: {done:?}");
        assert_vectors_back(&nic);
        let Err(error) = done else {
            assert_as_found(&sim);
            break;
        };
        let op = command_of(&error).unwrap_or_else(|| panic!("{nth}: {error:?}"));
        // A CCQ that was refused keeps nothing once the CQP is destroyed.
        assert!(held.dma_blocks > 0 || op == "DESTROY_CQ", "{nth}");
        // One that was refused lives on, and completes the commands that take its own backing away.
        let findings = sim.findings();
        let expected = |kind| kind == "hmc-backing" && op == "DESTROY_CQ";
        assert!(
            findings.iter().all(|f| expected(f.kind)),
            "{nth}: {findings:?}"
        );
        let blocks = held.dma_blocks;
        table.row(nth.into(), format!("{op}, {blocks} blocks left"));
    }
    expect![[r#"
        11: DESTROY_AEQ, 1 blocks left
        12 to 15: DESTROY_CEQ, 1 blocks left
        16: DESTROY_CQ, 0 blocks left
        17: UPDATE_PE_SDS, 5 blocks left
    "#]]
    .assert_eq(&table.text());
}

#[test]
fn a_failed_command_of_an_object_changes_nothing() {
    for backing in BACKINGS {
        let sim = builder().segmentation(DmaSegmentation::PerPage).build();
        let nic = sim.function(0);
        let mut config = config(&nic);
        config.backing = backing;
        let payload = Payload::pages(1100);
        let mut commands = 0;
        let up = bring_up(nic.clone(), &config, &mut |at| commands = at.commands).unwrap();
        up.shutdown().unwrap();
        let mut failed = Vec::new();
        for nth in commands as u32.. {
            let device = bring_up(nic.clone(), &config, &mut |_| {}).unwrap();
            let (mut control, events) = device.split();
            let mut objects = Objects::default();
            fail(&sim, CqpErrors::Nth(nth));
            let memory = payload.bytes();
            let mut tries = 0;
            let mut reported = |(step, error): (_, Error)| {
                let op = command_of(&error).unwrap_or_else(|| panic!("{step:?}: {error:?}"));
                failed.push(format!("{step:?} {op}"));
                tries += 1;
            };
            if let Err(error) = objects.make(&mut control, memory, 0) {
                reported(error);
                objects.make(&mut control, memory, 0).expect("good again");
            }
            if let Err(error) = objects.give_back(&mut control) {
                reported(error);
                objects.give_back(&mut control).expect("good again");
            }
            fail(&sim, CqpErrors::None);
            control.shutdown(events).unwrap();
            assert_as_found(&sim);
            if u64::from(nth) >= commands + OBJECT_COMMANDS {
                assert_eq!(tries, 0, "there are more commands");
                break;
            }
        }
        // A queue pair in RESET is destroyed and nothing else: of one that was begun,
        // refusals of what stops it are not told, because it is destroyed, which
        // ends what could not be flushed.
        // The same however the HMC is backed: what these ids need is there.
        expect![[r#"
            Cq CREATE_CQ
            Mr REG_MR
            Qp WORK_SCHED_NODE
            Qp WORK_SCHED_NODE
            Qp WORK_SCHED_NODE
            Qp WORK_SCHED_NODE
            Qp CREATE_QP
            Qp DESTROY_QP
            Mr DEALLOC_STAG
            Cq DESTROY_CQ"#]]
        .assert_eq(&failed.join("\n"));
    }
}
