//! The n-th request for memory fails, for every n.

use e810::hmc::Backing;
use e810::{Error, SharedBytes, StageError, bring_up};
use e810_sim::{Allocation, DmaSegmentation, Sim, SimPlatform};
use e810_tests::scenario::objects::Objects;
use e810_tests::scenario::payload::Payload;
use expect_test::{Expect, expect};

use crate::bring_up::world::{
    Table, assert_as_found, assert_explains, builder, card, config, is_no_dma_memory,
    is_no_host_memory, up_and_down,
};

/// Pages of the region: more than one page of PBLEs describes.
const PAGES: usize = 1100;

fn requests(sim: &Sim, what: Allocation) -> u64 {
    let counts = sim.memory(0);
    match what {
        Allocation::Dma => counts.dma_requests,
        Allocation::Host => counts.host_requests,
        Allocation::Map => counts.map_requests,
    }
}

/// Brings up until no request fails any more; says at which stage each failed.
fn every_request(backing: Backing, what: Allocation, right: fn(&Error) -> bool) -> String {
    let (sim, nic) = card();
    let mut config = config(&nic);
    config.backing = backing;
    let mut table = Table::default();
    for nth in 1.. {
        sim.fail_allocation(0, what, nth);
        let before = requests(&sim, what);
        let tried = up_and_down(nic.clone(), &config);
        assert_as_found(&sim);
        match tried {
            Err(error) => {
                let StageError { stage, undo, .. } = error;
                assert!(right(&error.error), "{nth}: {error:?}");
                assert_explains(&error);
                assert_eq!(undo, None, "{nth}");
                table.row(nth, stage.name());
            }
            Ok(()) if requests(&sim, what) - before < nth => break,
            Ok(()) => table.row(nth, "done without"),
        }
        up_and_down(nic.clone(), &config).expect("good again");
    }
    sim.fail_allocation(0, what, 0);
    assert_as_found(&sim);
    table.text()
}

fn check(backing: Backing, what: Allocation, right: fn(&Error) -> bool, expected: &Expect) {
    expected.assert_eq(&every_request(backing, what, right));
}

#[test]
fn no_dma_memory_is_reported_by_its_stage_and_undone() {
    check(
        Backing::Full,
        Allocation::Dma,
        is_no_dma_memory,
        &expect![[r#"
        1: cqp
        2 to 9: hmc
        10: ccq
        11 to 14: ceqs
        15: aeq
        16: ready
    "#]],
    );
}

#[test]
fn no_dma_memory_on_demand_is_reported_by_its_stage_and_undone() {
    check(
        Backing::OnDemand,
        Allocation::Dma,
        is_no_dma_memory,
        &expect![[r#"
        1: cqp
        2 to 6: hmc
        7 to 8: ccq
        9 to 12: ceqs
        13: aeq
        14: ready
    "#]],
    );
}

#[test]
fn no_host_memory_is_reported_by_its_stage_and_undone() {
    check(
        Backing::Full,
        Allocation::Host,
        is_no_host_memory,
        &expect![[r#"
            1 to 2: cqp
            3 to 6: hmc
            7 to 9: ceqs
            10 to 25: ready
        "#]],
    );
}

/// Makes objects until no request fails any more; says at which step each failed.
fn every_request_of_objects(backing: Backing, what: Allocation) -> String {
    // One run a page: the region needs a list of pages.
    let sim = builder().segmentation(DmaSegmentation::PerPage).build();
    let nic: SimPlatform = sim.function(0);
    let mut config = config(&nic);
    config.backing = backing;
    let payload = Payload::pages(PAGES);
    let memory: SharedBytes = payload.bytes();
    let mut table = Table::default();
    for nth in 1.. {
        // A device of its own each time, so that nothing is backed already.
        let device = bring_up(nic.clone(), &config, &mut |_| {}).unwrap();
        let (mut control, events) = device.split();
        let mut objects = Objects::default();
        sim.fail_allocation(0, what, nth);
        let before = requests(&sim, what);
        let made = objects.make(&mut control, memory, 0);
        let fired = requests(&sim, what) - before >= nth;
        match made {
            Err((step, error)) => {
                let refused = match what {
                    Allocation::Map => matches!(error, Error::Dma(_)),
                    _ => is_no_dma_memory(&error) || is_no_host_memory(&error),
                };
                assert!(fired && refused, "{nth}: {error:?}");
                table.row(nth, format!("{step:?}"));
                let held = sim.memory(0);
                objects.make(&mut control, memory, 0).expect("good again");
                assert!(sim.memory(0) != held);
            }
            Ok(()) if fired => table.row(nth, "done without"),
            Ok(()) => {}
        }
        sim.fail_allocation(0, what, 0);
        objects.give_back(&mut control).unwrap();
        control.shutdown(events).unwrap();
        assert_as_found(&sim);
        if !fired {
            break;
        }
    }
    table.text()
}

#[test]
fn objects_without_memory_fail_cleanly() {
    let expected = [
        (
            Backing::Full,
            Allocation::Dma,
            expect![[r#"
            1 to 2: Cq
            3 to 4: Qp
        "#]],
        ),
        (
            Backing::OnDemand,
            Allocation::Dma,
            expect![[r#"
            1 to 2: Cq
            3 to 4: Qp
        "#]],
        ),
        (
            Backing::Full,
            Allocation::Map,
            expect![[r#"
            1: Mr
        "#]],
        ),
        (Backing::OnDemand, Allocation::Host, expect![""]),
    ];
    for (backing, what, expected) in expected {
        expected.assert_eq(&every_request_of_objects(backing, what));
    }
}
