//! Addresses, groups, features, push pages, work scheduler, statistics.

use super::{finds, found, refuses, warns};
use crate::pe::Config;
use crate::pe::tables::{LOCAL_MACS, PUSH_PAGES};
use crate::pe::tests::qp::TestQp;
use crate::pe::tests::test_driver::TestDriver;

const PARAMETER: &str = "cqp-parameter";
const STATE: &str = "cqp-state";

#[test]
fn addresses() {
    let mut driver = TestDriver::ready(Config::default());
    let query = (0x0f, [0, 0, 0, 1 << 44 | 2, 0, 0, 0, 0]);
    refuses(&mut driver, query, PARAMETER, "MANAGE_ARP 2: QUERY");
    for _ in 0..LOCAL_MACS {
        driver.good(0x14, [0; 8]);
    }
    let text = "all 64 local MAC entries are taken";
    refuses(&mut driver, (0x14, [0; 8]), PARAMETER, text);
}

#[test]
fn a_quad_hash_needs_its_objects() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.commit();
    // The same counts again, as the reply has them without bases; no HTE, and 0 for APBVT.
    for offset in (0..208).step_by(8) {
        let count = driver.env.word(driver.commit + offset) & 0xFFFF_FFFF;
        let none = matches!(offset, 24 | 40);
        let count = if none { 0 } else { count };
        driver.env.set_word(driver.commit + offset, count);
    }
    driver.good(0x21, [0, 0, 0, 208, driver.commit, 0, 0, 0]);
    driver.direct_sd(0);
    driver.good(0x2b, [0; 8]);
    let entry = [1, 4791, 0, 1 << 61 | 2 << 42, 0, 0, 0, 0];
    let text = "quad hash: no HTE is committed";
    refuses(&mut driver, (0x25, entry), STATE, text);
}

#[test]
fn multicast_groups() {
    let mut driver = TestDriver::ready(Config::default());
    let context = driver.env.alloc(4096, 4096);
    let group = |index: u64| [0x0100_5e00_0001, 0, 0, 1 << 60 | index, context, 0, 1, 0];
    let text = "multicast group 4096: there are 4096";
    refuses(&mut driver, (0x26, group(4096)), PARAMETER, text);
    let text = "MODIFY_MCAST_GRP: there is no group 1";
    refuses(&mut driver, (0x27, group(1)), STATE, text);
    driver.good(0x26, group(1));
    let text = "CREATE_MCAST_GRP: group 1 exists";
    refuses(&mut driver, (0x26, group(1)), STATE, text);
}

#[test]
fn features_and_push_pages() {
    let mut driver = TestDriver::ready(Config::default());
    let buffer = driver.env.alloc(256, 16);
    let text = "QUERY_RDMA_FEATURES: BUF_LEN is less than one entry";
    let query = [0, 0, 0, 7, buffer, 0, 0, 0];
    refuses(&mut driver, (0x12, query), PARAMETER, text);
    let text = format!("feature buffer at {:#x} is not 16-aligned", buffer + 8);
    let query = [0, 0, 0, 64, buffer + 8, 0, 0, 0];
    refuses(&mut driver, (0x12, query), PARAMETER, &text);
    let text = "push page for queue set 999, which WORK_SCHED_NODE did not return";
    let other = [0, 0, 999, 0, 0, 0, 0, 0];
    warns(&mut driver, (0x11, other), "push-queue-set", text);
    let own = [0, 0, driver.queue_set, 0, 0, 0, 0, 0];
    for _ in 1..PUSH_PAGES {
        driver.good(0x11, own);
    }
    let text = "all 256 push pages are taken";
    refuses(&mut driver, (0x11, own), PARAMETER, text);
}

#[test]
fn nodes_of_the_work_scheduler() {
    let mut driver = TestDriver::ready(Config::default());
    let vsi = 7 << 48 | 1 << 32;
    let node = |header: u64| (0x2c, [0, 0, 0, header, vsi, 0, 0, 0]);
    let text = "work scheduler node 1024: ids end at 1023";
    refuses(&mut driver, node(1 << 59 | 1024), PARAMETER, text);
    let text = "work scheduler node 5: NODEOP 3";
    refuses(&mut driver, node(3 << 52 | 5), PARAMETER, text);
    let none = "work scheduler node 5: PRIOTYPE 0";
    refuses(&mut driver, node(1 << 16 | 5), PARAMETER, none);
    let text = "WORK_SCHED_NODE add 900: no inner node 900";
    refuses(&mut driver, node(1 << 59 | 900 << 16 | 900), STATE, text);
    // A change has the same rules as an addition.
    let leaf = 1 << 61 | 1 << 16 | 5;
    driver.good(0x2c, node(1 << 59 | leaf).1);
    refuses(&mut driver, node(1 << 52 | leaf), PARAMETER, none);
    let text = "node 5: NODETYPE or PARENTID differ from its ADD";
    let change = 1 << 59 | 1 << 52 | leaf;
    refuses(&mut driver, node(change | 4 << 16), PARAMETER, text);
    refuses(&mut driver, node(change & !(1 << 61)), PARAMETER, text);
    driver.env.no_vsi = true;
    let text = "work scheduler node 5: the switch has no VSI 7";
    refuses(&mut driver, node(change), STATE, text);
    driver.env.no_vsi = false;
    driver.good(0x2c, node(change).1);
    let text = "WORK_SCHED_NODE modify: there is no node 6";
    refuses(&mut driver, node(1 << 59 | 1 << 52 | 6), STATE, text);
}

#[test]
fn a_leaf_outlives_its_queue_pairs() {
    let mut driver = TestDriver::ready(Config::default());
    let set = driver.queue_set;
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    let delete = |driver: &mut TestDriver| driver.command(0x2c, [0, 0, 0, 2 << 52 | 2, 0, 0, 0, 0]);
    let add = [0, 0, 0, 1 << 61 | 1 << 59 | 1 << 16 | 2, 7 << 48, 0, 0, 0];
    qp.connect(&mut driver);
    assert!(!delete(&mut driver).error);
    let text = format!("WORK_SCHED_NODE delete 2: QP 3 sends by queue set {set}");
    finds(&mut driver, "queue-set-used", &text);
    driver.good(0x2c, add);
    // A QP in ERROR sends nothing any more, and neither does a destroyed one.
    qp.modify(&mut driver, 6, 0);
    assert!(!delete(&mut driver).error);
    assert_eq!(found(&mut driver), []);
}

/// Handles never run out: the number of possible leaves is one less than the number of handles.
#[test]
fn every_leaf_has_a_queue_set() {
    let mut driver = TestDriver::ready(Config::default());
    let mut sets = vec![driver.queue_set];
    // Under Miri the first ones must do.
    let nodes = if cfg!(miri) { 40 } else { 1024 };
    for id in 3..nodes {
        let leaf = 1 << 59 | 1 << 61 | 1 << 16 | id;
        sets.push(driver.good(0x2c, [0, 0, 0, leaf, 7 << 48 | 1 << 32, 0, 0, 0]));
    }
    sets.sort_unstable();
    sets.dedup();
    assert_eq!(sets.len() as u64, nodes - 2);
}

#[test]
fn statistics_and_priorities() {
    let mut driver = TestDriver::ready(Config::default());
    let buffer = driver.env.alloc(1024, 64);
    let text = "statistics instance 3 is not allocated";
    let gather = [0, 0, 0, 1 << 61 | 3, buffer, 0, 0, 0];
    refuses(&mut driver, (0x2e, gather), STATE, text);
    refuses(&mut driver, (0x2d, [0, 0, 0, 3, 0, 0, 0, 0]), STATE, text);
    let allocate = [0, 0, 0, 1 << 62, 0, 0, 0, 0];
    for _ in 0..128 {
        driver.good(0x2d, allocate);
    }
    let text = "no statistics instance is left";
    refuses(&mut driver, (0x2d, allocate), PARAMETER, text);
    let text = "UP_MAP 0x800: priorities are 0 to 7";
    warns(
        &mut driver,
        (0x2f, [0x800, 0, 0, 0, 0, 0, 0, 0]),
        "up-map",
        text,
    );
}
