//! The device stops listening: at the n-th command, or at the n-th register write, for every n.
//!
//! A doorbell that it missed is rung for it in the end, when the driver has long given up, as if
//! the engine had only been slow: memory that the driver should have kept would then show as a
//! finding. Other writes are lost for good, because a read of a register pushes the writes before
//! it.

use std::sync::{Arc, Mutex, MutexGuard};

use e810::{Config, bring_up};
use e810_hal::regs::{PFGEN_CTRL, PFPE_CQPDB};
use e810_hal::{Bus, Ns, RegOffset, WaitError};
use e810_sim::findings::kind;
use e810_sim::middleware::Layer;
use e810_sim::{Sim, SimPlatform};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;
use expect_test::expect;

use crate::bring_up::world::{
    Table, assert_as_found, assert_explains, assert_only_device_memory_left, lan, layered, wait_of,
};

/// Keeps writes from the device, and lets them through later.
#[derive(Clone)]
struct Mute {
    /// The only register concerned; `None`: all.
    only: Option<RegOffset>,
    state: Arc<Mutex<Missed>>,
}

struct Missed {
    /// Writes that still get through.
    left: u64,
    missed: Vec<(RegOffset, u32)>,
}

impl Mute {
    /// Lets `left` writes through.
    fn after(left: u64, only: Option<RegOffset>) -> Self {
        let missed = Vec::new();
        let state = Arc::new(Mutex::new(Missed { left, missed }));
        Self { only, state }
    }

    fn state(&self) -> MutexGuard<'_, Missed> {
        self.state.lock().unwrap()
    }

    /// Lets every write through from now on.
    fn hear(&self) {
        self.state().left = u64::MAX;
    }

    /// The device catches up.
    fn deliver(&self, sim: &Sim, nic: &SimPlatform) {
        for (off, value) in std::mem::take(&mut self.state().missed) {
            nic.write32(off, value);
            sim.run(Ns::from_us(100));
        }
        sim.run(Ns::from_ms(100));
    }
}

impl Layer for Mute {
    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        let mut state = self.state();
        if self.only.is_some_and(|only| only != off) {
            below.write32(off, value);
        } else if let Some(left) = state.left.checked_sub(1) {
            state.left = left;
            below.write32(off, value);
        } else {
            state.missed.push((off, value));
        }
    }
}

/// Longest that a bring-up may take that is not answered: one wait of 5 s without progress, and one
/// more to undo.
const BOUND: Ns = Ns::from_ms(11_000);

/// The device has carried out, late, what it was asked: it may not have reached memory that was
/// taken from it.
fn assert_no_memory_was_taken_early(sim: &Sim, n: u64) {
    const OF_MEMORY: [&str; 4] = [
        kind::DMA_FREED.name,
        kind::DMA_UNMAPPED.name,
        kind::DMA_BOUNDS.name,
        kind::USE_AFTER_FREE.name,
    ];
    let findings = sim.findings();
    let early = findings.iter().find(|f| OF_MEMORY.contains(&f.kind));
    assert_eq!(early, None, "{n}");
}

/// A bring-up on a device that is deaf after `n` writes; `None` when it did not matter.
fn deaf_after(n: u64, only: Option<RegOffset>) -> Option<String> {
    let mute = Mute::after(n, only);
    let (sim, nic) = layered(&mute);
    let below = nic.platform().clone();
    let start = sim.now();
    let reported = match bring_up(nic, &Config::new(lan(&below)), &mut |_| {}) {
        Ok(device) if mute.state().missed.is_empty() => {
            mute.hear();
            device.shutdown().unwrap();
            assert_as_found(&sim);
            return None;
        }
        Ok(device) => {
            // Nothing that the driver waits for was missed.
            mute.hear();
            device.shutdown().unwrap();
            "not noticed".to_owned()
        }
        Err(error) => {
            let Some(WaitError::Timeout { label, .. }) = wait_of(&error.error) else {
                panic!("{n}: {error:?}");
            };
            assert_explains(&error);
            let left = assert_only_device_memory_left(&sim, &error);
            let took = sim.now() - start;
            assert!(took <= BOUND, "{n}: {took}");
            let undo = error
                .undo
                .map_or("undone".to_owned(), |undo| undo.to_string());
            format!(
                "{}: {label}; {undo}; {left} blocks left",
                error.stage.name()
            )
        }
    };
    if only.is_some() {
        mute.deliver(&sim, &below);
    }
    assert_no_memory_was_taken_early(&sim, n);
    Some(reported)
}

fn every_write(only: Option<RegOffset>) -> String {
    let mut table = Table::default();
    for n in 0.. {
        match deaf_after(n, only) {
            Some(reported) => table.row(n, reported),
            None => break,
        }
    }
    table.text()
}

#[test]
fn a_command_that_is_not_heard_times_out_by_name() {
    expect![[r#"
        0 to 1: hmc: QUERY_RDMA_FEATURES; undone; 1 blocks left
        2: hmc: QUERY_FPM_VAL; undone; 1 blocks left
        3: hmc: COMMIT_FPM_VAL; undone; 1 blocks left
        4: hmc: UPDATE_PE_SDS; undone; 5 blocks left
        5: hmc: SHMC_PAGES_ALLOCATED; undone; 5 blocks left
        6: ccq: CCQ creation; CREATE_CQ has not finished: wait for it, or reset the function if it timed out; 7 blocks left
        7: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 8 blocks left
        8: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 9 blocks left
        9: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 10 blocks left
        10: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 11 blocks left
        11: aeq: CREATE_AEQ; DESTROY_CEQ: nothing after 5000 ms; reset the function and start again; 12 blocks left
    "#]].assert_eq(&every_write(Some(PFPE_CQPDB.off())));
}

#[test]
fn a_write_that_is_not_heard_ends_in_a_time_out() {
    expect![[r#"
        0 to 4: cqp: CQP creation; undone; 0 blocks left
        5: hmc: QUERY_RDMA_FEATURES; CQP destruction: nothing after 5000 ms; reset the function and start again; 2 blocks left
        6: hmc: QUERY_FPM_VAL; CQP destruction: nothing after 5000 ms; reset the function and start again; 2 blocks left
        7: hmc: COMMIT_FPM_VAL; CQP destruction: nothing after 5000 ms; reset the function and start again; 2 blocks left
        8: hmc: UPDATE_PE_SDS; CQP destruction: nothing after 5000 ms; reset the function and start again; 6 blocks left
        9: hmc: SHMC_PAGES_ALLOCATED; CQP destruction: nothing after 5000 ms; reset the function and start again; 6 blocks left
        10: ccq: CCQ creation; CREATE_CQ has not finished: wait for it, or reset the function if it timed out; 7 blocks left
        11: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 8 blocks left
        12 to 16: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 9 blocks left
        17 to 20: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 10 blocks left
        21 to 24: ceqs: CREATE_CEQ; CREATE_CEQ has not finished: wait for it, or reset the function if it timed out; 11 blocks left
        25 to 28: aeq: CREATE_AEQ; DESTROY_CEQ: nothing after 5000 ms; reset the function and start again; 12 blocks left
        29 to 30: not noticed
    "#]].assert_eq(&every_write(None));
}

#[test]
fn an_engine_that_falls_silent_at_a_stage_is_reported() {
    let mut table = Table::default();
    for stage in 0..e810::Stage::WARM.len() as u64 {
        let (sim, nic) = crate::bring_up::world::card();
        let mut reached = 0;
        let config = crate::bring_up::world::config(&nic);
        let start = sim.now();
        let result = bring_up(nic, &config, &mut |_| {
            if reached == stage {
                sim.configure_engine(0, |config| config.cqp_silent = true);
            }
            reached += 1;
        });
        let error = match result {
            Err(error) => error,
            Ok(device) => {
                let error = device.shutdown().unwrap_err();
                let stage = e810::Stage::Ready;
                let undo = Some(error);
                e810::StageError { stage, error, undo }
            }
        };
        let Some(WaitError::Timeout { label, .. }) = wait_of(&error.error) else {
            panic!("{stage}: {error:?}");
        };
        assert!(sim.now() - start <= BOUND, "{stage}: {}", sim.now() - start);
        let left = assert_only_device_memory_left(&sim, &error);
        assert_eq!(sim.findings(), []);
        table.row(
            stage,
            format!("{}: {label}; {left} blocks left", error.stage.name()),
        );
    }
    expect![[r#"
        0 to 1: hmc: QUERY_RDMA_FEATURES; 1 blocks left
        2: ccq: CCQ creation; 7 blocks left
        3: ceqs: CREATE_CEQ; 8 blocks left
        4: aeq: CREATE_AEQ; 12 blocks left
        5 to 6: ready: DESTROY_AEQ; 12 blocks left
    "#]]
    .assert_eq(&table.text());
}

/// Resets the function from outside, as a host does.
fn reset(sim: &Sim, nic: &SimPlatform) {
    PFGEN_CTRL.write(nic, PFGEN_CTRL::PFSWR::SET);
    sim.run(Ns::from_ms(200));
    assert!(
        !PFGEN_CTRL.read(nic).is_set(PFGEN_CTRL::PFSWR),
        "reset ends"
    );
}

/// A command of an object's making is not heard while the driver waits for it, and is carried out
/// later: what the device got then stays with it, but for a queue pair, which is destroyed then.
#[test]
fn an_object_that_is_made_too_late_finds_its_memory() {
    let mut table = Table::default();
    for quiet in 0.. {
        let mute = Mute::after(u64::MAX, Some(PFPE_CQPDB.off()));
        let (sim, nic) = layered(&mute);
        let below = nic.platform().clone();
        let platform = nic.clone();
        let device = bring_up(nic, &Config::new(lan(&below)), &mut |_| {}).unwrap();
        let (mut control, events) = device.split();
        let payload = Payload::pages(4);
        let mut objects = Objects::default();
        mute.state().left = quiet;
        let made = objects.make(&mut control, payload.bytes(), 0);
        mute.hear();
        mute.deliver(&sim, &below);
        let Err((step, error)) = made else {
            objects.give_back(&mut control).unwrap();
            control
                .shutdown(events)
                .map_err(|failed| failed.error)
                .unwrap();
            assert_as_found(&sim);
            break;
        };
        let Some(WaitError::Timeout { label, .. }) = wait_of(&error) else {
            panic!("{step:?}: {error:?}");
        };
        let given = objects.give_back(&mut control);
        let end = match control.shutdown(events) {
            Ok(()) => "down".to_owned(),
            Err(failed) => {
                let (control, events) = failed.parts.expect("nothing was undone");
                reset(&sim, &below);
                objects.release_after_reset(&platform);
                control.release_after_reset(events);
                format!("{}, reset", failed.error)
            }
        };
        sim.run(Ns::from_ms(100));
        assert_no_memory_was_taken_early(&sim, quiet);
        let held = sim.memory(0);
        let left = format!(
            "{} blocks, {} mappings left",
            held.dma_blocks, held.mappings
        );
        let given = given.map_or_else(
            |(step, _)| format!("{step:?} refused"),
            |()| "given back".to_owned(),
        );
        table.row(quiet, format!("{step:?} {label}: {given}, {end}, {left}"));
    }
    expect![[r#"
        0: Cq CREATE_CQ: given back, down, 2 blocks, 0 mappings left
        1: Mr REG_MR: given back, down, 0 blocks, 1 mappings left
        2 to 5: Qp WORK_SCHED_NODE: given back, down, 0 blocks, 0 mappings left
        6: Qp CREATE_QP: given back, down, 0 blocks, 0 mappings left
    "#]]
    .assert_eq(&table.text());
}
