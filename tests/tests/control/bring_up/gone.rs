//! The device leaves the bus at the n-th register read, for every n.

use e810::bring_up;
use e810_hal::WaitError;
use e810_sim::middleware::{Inject, Rule};
use expect_test::expect;

use crate::bring_up::world::{
    Table, assert_as_found, assert_explains, assert_only_device_memory_left, layered, wait_of,
};

#[test]
fn a_device_that_is_gone_is_reported_as_gone() {
    let mut table = Table::default();
    for nth in 1.. {
        let inject = Inject::with(Rule::Gone { nth });
        let (sim, nic) = layered(&inject);
        let lan = crate::bring_up::world::lan(nic.platform());
        let start = sim.now();
        match bring_up(nic, &e810::Config::new(lan), &mut |_| {}) {
            Err(error) => {
                let wait = wait_of(&error.error);
                let gone = matches!(wait, Some(WaitError::DeviceGone { .. }));
                assert!(gone, "{nth}: {error:?}");
                assert_explains(&error);
                let left = assert_only_device_memory_left(&sim, &error);
                assert_eq!(sim.findings(), [], "{nth}");
                let took = sim.now() - start;
                assert!(took.0 < 1_000_000_000, "{nth}: {took}");
                table.row(nth, format!("{}, {left} blocks left", error.stage.name()));
            }
            Ok(device) => {
                inject.clear();
                device.shutdown().unwrap();
                assert_as_found(&sim);
                break;
            }
        }
    }
    expect![[r#"
        1 to 5: engine, 0 blocks left
        6 to 7: cqp, 1 blocks left
        8 to 16: hmc, 2 blocks left
        17 to 22: hmc, 6 blocks left
        23 to 24: ccq, 7 blocks left
        25 to 26: ceqs, 7 blocks left
    "#]]
    .assert_eq(&table.text());
}
