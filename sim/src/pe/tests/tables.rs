//! Commands on tables: addresses, handles, groups, the work scheduler, push pages; uploaded
//! contexts.

use super::qp::TestQp;
use super::test_driver::{GOOD, TestDriver};
use crate::pe::{Config, Doorbell};
use crate::variation::{QueueSetHandles, Variation};

/// A command that must fail with this minor code and exactly this finding.
fn refused(driver: &mut TestDriver, opcode: u64, words: [u64; 8], minor: u16, kind: &str) {
    let done = driver.command(opcode, words);
    assert!(
        done.error && done.major == 0xFFFF && done.minor == minor,
        "{done:x?}"
    );
    assert_eq!(driver.env.kinds(), [kind]);
    driver.env.findings.clear();
}

const STATE: u16 = 0x8002;
const OTHER: u16 = 0x80FF;

#[test]
fn arp_entries_come_and_go() {
    let mut driver = TestDriver::ready(Config::default());
    let add = |index: u64| {
        [
            0,
            0,
            0x0102_0304_0506,
            1 << 42 | 1 << 43 | index,
            0,
            0,
            0,
            0,
        ]
    };
    assert_eq!(driver.command(0x0f, add(7)), GOOD);
    // Eight are committed.
    refused(&mut driver, 0x0f, add(8), OTHER, "cqp-parameter");
    let delete = [0, 0, 0, 7, 0, 0, 0, 0];
    assert_eq!(driver.command(0x0f, delete), GOOD);
    refused(&mut driver, 0x0f, delete, STATE, "cqp-state");
}

#[test]
fn address_handles_exist_once() {
    let mut driver = TestDriver::ready(Config::default());
    driver.good(0x0f, [0, 0, 1, 1 << 42 | 2, 0, 0, 0, 0]);
    let handle = |index: u64, arp: u64| {
        [
            1 << 16,
            7 << 48,
            64 << 32 | arp << 48,
            1 << 59 | index,
            0x0a000002,
            0,
            0x0a000001,
            0,
        ]
    };
    refused(&mut driver, 0x1d, handle(3, 2), STATE, "cqp-state");
    assert_eq!(driver.command(0x1c, handle(3, 2)), GOOD);
    refused(&mut driver, 0x1c, handle(3, 2), STATE, "cqp-state");
    assert_eq!(driver.command(0x1d, handle(3, 2)), GOOD);
    assert_eq!(driver.command(0x1e, handle(3, 2)), GOOD);
    refused(&mut driver, 0x1e, handle(3, 2), STATE, "cqp-state");
    // Eight handles and eight ARP entries; a handle whose ARP entry is not valid only causes a
    // lint.
    refused(&mut driver, 0x1c, handle(8, 2), OTHER, "cqp-parameter");
    refused(&mut driver, 0x1c, handle(3, 9), OTHER, "cqp-parameter");
    driver.good(0x1c, handle(4, 2));
    refused(&mut driver, 0x1d, handle(4, 9), OTHER, "cqp-parameter");
    assert_eq!(driver.command(0x1c, handle(3, 5)), GOOD);
    assert_eq!(driver.env.kinds(), ["ah-arp"]);
    // A change has the same rules as a creation.
    assert_eq!(driver.command(0x1d, handle(3, 5)), GOOD);
    assert_eq!(driver.env.kinds(), ["ah-arp"; 2]);
}

#[test]
fn multicast_groups_read_their_context() {
    let mut driver = TestDriver::ready(Config::default());
    let context = driver.env.alloc(4096, 4096);
    let group = |index: u64| {
        [
            0x0100_5e00_0001,
            0,
            0,
            1 << 60 | index,
            context,
            0,
            0xe000_0001,
            0,
        ]
    };
    // Member QP 3, VALIDENT [31]; then one that cannot be.
    driver.env.set_word(context, 3 | 1 << 31);
    assert_eq!(driver.command(0x26, group(1)), GOOD);
    driver.env.set_word(context + 8, 77 | 1 << 31);
    refused(&mut driver, 0x27, group(1), OTHER, "cqp-parameter");
    driver.env.set_word(context + 8, 77);
    assert_eq!(driver.command(0x27, group(1)), GOOD);
    // The destroy command does not read the context, which may be gone.
    driver.env.unmap(context);
    assert_eq!(driver.command(0x28, group(1)), GOOD);
    assert_eq!(driver.env.findings, []);
    refused(&mut driver, 0x28, group(1), STATE, "cqp-state");
    refused(&mut driver, 0x28, group(4), OTHER, "cqp-parameter");
}

/// Every command on the group names the queue set of the first join.
#[test]
fn a_group_keeps_its_queue_set() {
    let mut driver = TestDriver::ready(Config::default());
    let context = driver.env.alloc(4096, 4096);
    driver.env.set_word(context, 3 | 1 << 31);
    let mut group = [
        0x0100_5e00_0001,
        0,
        9,
        1 << 60 | 1,
        context,
        0,
        0xe000_0001,
        0,
    ];
    assert_eq!(driver.command(0x26, group), GOOD);
    assert_eq!(driver.command(0x27, group), GOOD);
    assert_eq!(driver.env.findings, []);
    group[2] = 0;
    assert_eq!(driver.command(0x27, group), GOOD);
    assert_eq!(driver.env.kinds(), ["mcast-queue-set"]);
    group[2] = 8;
    assert_eq!(driver.command(0x28, group), GOOD);
    assert_eq!(driver.env.kinds(), ["mcast-queue-set"; 2]);
}

#[test]
fn the_work_scheduler_is_a_tree() {
    let mut driver = TestDriver::ready(Config::default());
    let node = |op: u64, id: u64, parent: u64, leaf: u64| {
        [
            0,
            0,
            0,
            1 << 62 | leaf << 61 | 1 << 59 | op << 52 | parent << 16 | id,
            1 << 32,
            0,
            0,
            0,
        ]
    };
    assert!(driver.engine.queue_set_exists(driver.queue_set as u16));
    // A second leaf has another handle; a leaf has no children.
    let other = driver.good(0x2c, node(0, 5, 1, 1));
    assert_ne!(other, driver.queue_set);
    refused(&mut driver, 0x2c, node(0, 6, 5, 0), STATE, "cqp-state");
    refused(&mut driver, 0x2c, node(0, 5, 1, 1), STATE, "cqp-state");
    refused(&mut driver, 0x2c, node(0, 6, 9, 0), STATE, "cqp-state");
    refused(&mut driver, 0x2c, node(1, 9, 1, 0), STATE, "cqp-state");
    refused(&mut driver, 0x2c, node(1, 5, 1, 0), OTHER, "cqp-parameter");
    // Children must be deleted first.
    refused(&mut driver, 0x2c, node(2, 1, 0, 0), STATE, "cqp-state");
    for (id, parent, leaf) in [(5, 1, 1), (2, 1, 1), (1, 0, 0), (0, 0, 0)] {
        driver.good(0x2c, node(2, id, parent, leaf));
    }
    assert!(!driver.engine.queue_set_exists(other as u16));
    refused(&mut driver, 0x2c, node(2, 0, 0, 0), STATE, "cqp-state");
    // Linux creates its first QP before there is a queue set. A QP that is to send without one only
    // causes a lint.
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    assert_eq!(driver.env.kinds().len(), 0);
    qp.connect(&mut driver);
    let kinds = driver.env.kinds();
    assert!(
        !kinds.is_empty() && kinds.iter().all(|kind| *kind == "qp-queue-set"),
        "{kinds:?}"
    );
}

/// A leaf, node 5 below the VSI's.
fn leaf(op: u64, enabled: bool) -> [u64; 8] {
    let header = u64::from(enabled) << 62 | 1 << 61 | 1 << 59 | op << 52 | 1 << 16 | 5;
    [0, 0, 0, header, 1 << 32, 0, 0, 0]
}

#[test]
fn a_leaf_is_enabled_before_queue_pairs_send_by_it() {
    let mut driver = TestDriver::ready(Config::default());
    driver.queue_set = driver.good(0x2c, leaf(0, false));
    TestQp::create(&mut driver, 3, 7, 1).connect(&mut driver);
    let kinds = driver.env.kinds();
    assert!(
        !kinds.is_empty() && kinds.iter().all(|kind| *kind == "queue-set-off"),
        "{kinds:?}"
    );
    driver.good(0x2c, leaf(1, true));
    TestQp::create(&mut driver, 4, 7, 1).connect(&mut driver);
    assert_eq!(driver.env.kinds(), kinds);
}

#[test]
fn handles_of_deleted_leaves_come_again_where_that_is_chosen() {
    for queue_set_handles in [QueueSetHandles::Next, QueueSetHandles::Lowest] {
        let variation = Variation {
            queue_set_handles,
            ..Variation::default()
        };
        let mut driver = TestDriver::ready(Config {
            variation,
            ..Config::default()
        });
        let first = driver.good(0x2c, leaf(0, true));
        driver.good(0x2c, leaf(2, true));
        let again = driver.good(0x2c, leaf(0, true)) == first;
        assert_eq!(again, queue_set_handles == QueueSetHandles::Lowest);
    }
}

#[test]
fn push_pages_local_macs_and_statistics_are_handed_out_once() {
    let mut driver = TestDriver::ready(Config::default());
    let queue_set = driver.queue_set;
    let alloc = [0, 0, queue_set, 0, 0, 0, 0, 0];
    assert_eq!([driver.good(0x11, alloc), driver.good(0x11, alloc)], [0, 1]);
    driver.good(0x11, [0, 0, 0, 1 << 62, 0, 0, 0, 0]);
    assert_eq!(driver.good(0x11, alloc), 0);
    refused(
        &mut driver,
        0x11,
        [0, 0, 0, 1 << 62 | 5, 0, 0, 0, 0],
        STATE,
        "cqp-state",
    );
    let mac = driver.good(0x14, [0; 8]);
    driver.good(0x0e, [0, 0, 0, mac, 0x1122, 0, 0, 0]);
    driver.good(0x0e, [0, 0, 0, 1 << 62 | mac, 0, 0, 0, 0]);
    refused(
        &mut driver,
        0x0e,
        [0, 0, 0, mac, 0x1122, 0, 0, 0],
        STATE,
        "cqp-state",
    );
    let instance = driver.good(0x2d, [0, 0, 0, 1 << 62, 0, 0, 0, 0]);
    driver.good(0x2d, [0, 0, 0, instance, 0, 0, 0, 0]);
    refused(
        &mut driver,
        0x2d,
        [0, 0, 0, instance, 0, 0, 0, 0],
        STATE,
        "cqp-state",
    );
    // A VF's HMC function follows those of the PFs; after it was given back, the same one is
    // allocated again.
    let given = |driver: &mut TestDriver, vf| driver.good(0x15, [0, 0, 0, vf, 0, 0, 0, 0]);
    assert_eq!((given(&mut driver, 9), given(&mut driver, 5)), (8, 9));
    driver.good(0x15, [0, 0, 0, 1 << 62 | 9, 0, 0, 0, 0]);
    assert_eq!(given(&mut driver, 9), 8);
    for vf in 100..130 {
        given(&mut driver, vf);
    }
    let one_more = [0, 0, 0, 130, 0, 0, 0, 0];
    refused(&mut driver, 0x15, one_more, OTHER, "cqp-parameter");
    refused(
        &mut driver,
        0x15,
        [0, 0, 0, 9, 0, 0, 0, 0],
        STATE,
        "cqp-state",
    );
    driver.good(0x2f, [0x0706_0504_0302_0100, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn quad_hash_entries_are_keyed_by_addresses() {
    let mut driver = TestDriver::ready(Config::default());
    let entry = |manage: u64, port: u64| {
        [
            1,
            port | 3 << 32,
            0,
            manage << 61 | 2 << 42 | 1 << 60,
            0,
            0,
            0x0a000001,
            0,
        ]
    };
    driver.good(0x25, entry(1, 4791));
    driver.good(0x25, entry(1, 4792));
    refused(&mut driver, 0x25, entry(1, 4791), STATE, "cqp-state");
    driver.good(0x25, entry(0, 4791));
    refused(&mut driver, 0x25, entry(0, 4791), STATE, "cqp-state");
    refused(
        &mut driver,
        0x25,
        [0, 0, 0, 1 << 61 | 7 << 42, 0, 0, 0, 0],
        OTHER,
        "cqp-parameter",
    );
}

#[test]
fn the_port_vector_lies_in_hmc() {
    let mut driver = TestDriver::ready(Config::default());
    driver.good(0x23, [0, 0, 4791, 1 << 62, 0, 0, 0, 0]);
    let at = driver.backing[0] + driver.base(40) + 4791 / 64 * 8;
    assert_eq!(driver.env.word(at), 1 << (4791 % 64));
    driver.good(0x23, [0, 0, 4791, 0, 0, 0, 0, 0]);
    assert_eq!(driver.env.word(at), 0);
}

#[test]
fn an_uploaded_context_is_the_one_taken() {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    // MODIFY without CQNUMVALID, ARPTABIDXVALID and ORDVALID leaves those pieces as they were.
    driver.env.set_word(qp.context + 136, 0x1234);
    driver.env.set_word(qp.context + 48, 1024 << 16 | 9 << 48);
    driver.env.set_word(qp.context + 64, 0x00AB_CDEF);
    assert_eq!(qp.modify(&mut driver, 1, 0), GOOD);
    let buffer = driver.env.alloc(256, 256);
    driver.good(0x13, [0, 0, buffer, 3 << 48 | 3, 0, 0, 0, 0]);
    assert_eq!(
        driver.env.word(buffer + 136),
        qp.send.id | qp.receive.id << 32
    );
    assert_eq!(driver.env.word(buffer + 48) >> 48, 3);
    // Fields that no flag names are taken.
    assert_eq!(driver.env.word(buffer + 64), 0x00AB_CDEF);
    assert_eq!(driver.env.word(buffer + 168), 0xc0de_0003);
}

#[test]
fn a_damaged_context_stops_the_qp_and_is_reported_once() {
    let mut driver = TestDriver::ready(Config {
        write_through: true,
        ..Config::default()
    });
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    qp.connect(&mut driver);
    // QP 3 is at 3 KiB; its first word and 38 more are followed by the protocol state.
    let at = driver.backing[0] + driver.base(0) + 3 * 1024 + 8 * 39;
    assert_ne!(driver.env.word(at), 0);
    driver.env.set_word(at, 0x5555_5555_5555_5555);
    driver.ring(Doorbell::WqeAlloc, 3);
    driver.ring(Doorbell::WqeAlloc, 3);
    assert_eq!(driver.env.kinds(), ["hmc-context"]);
    assert_eq!(driver.aeqe(0).map(|event| event.0), Some(0x0700));
    // A QP whose first word was overwritten does not exist.
    driver.env.set_word(at - 8 * 39, 0);
    driver.env.findings.clear();
    driver.ring(Doorbell::WqeAlloc, 3);
    assert_eq!(driver.env.kinds(), ["doorbell-qp"]);
}

#[test]
fn a_doorbell_of_a_queue_that_was_destroyed_is_nobodys_fault() {
    let mut driver = TestDriver::ready(Config {
        write_through: true,
        ..Config::default()
    });
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    assert_eq!(qp.destroy(&mut driver), GOOD);
    // A Linux program keeps the doorbell page until all its objects are destroyed.
    driver.ring(Doorbell::WqeAlloc, 3);
    assert_eq!(driver.env.findings, []);
    // A ring for an object that never existed is a mistake.
    driver.ring(Doorbell::WqeAlloc, 4);
    assert_eq!(driver.env.kinds(), ["doorbell-qp"]);
    // A CEQE may be consumed after its completion queue is gone.
    driver.env.findings.clear();
    driver.create_cq(12, 64);
    for cq in [12, 13] {
        driver.command(0x05, [64, 0, 0, cq, 0, 0, 0, 0]);
        driver.env.findings.clear();
        driver.ring(Doorbell::CqAck, cq as u32);
        let kinds = ["doorbell-cq"];
        assert_eq!(driver.env.kinds(), kinds[usize::from(cq == 12)..]);
    }
    // So is a ring for a QP that was created again and whose context is overwritten.
    driver.env.findings.clear();
    qp.create_in_device(&mut driver);
    let context = driver.backing[0] + driver.base(0) + 3 * 1024;
    driver.env.set_word(context, 0);
    driver.ring(Doorbell::WqeAlloc, 3);
    assert_eq!(driver.env.kinds(), ["doorbell-qp"]);
}
