//! Completion queues, event queues, arming.

use super::{finds, found, refuses, warns};
use crate::findings::Class;
use crate::pe::fpm::FpmProfile;
use crate::pe::tests::qp::{FLUSH_SQ, TestQp};
use crate::pe::tests::test_driver::{PBLES, TestDriver};
use crate::pe::{Config, Doorbell};

const PARAMETER: &str = "cqp-parameter";
const STATE: &str = "cqp-state";
/// CEQIDVALID and CHKOVERFLOW.
const FLAGS: u64 = 1 << 49 | 1 << 46;

#[test]
fn completion_queues() {
    let mut driver = TestDriver::ready(Config::default());
    let there = driver.create_cq(5, 64);
    let (memory, shadow) = (driver.env.alloc(2048, 256), driver.env.alloc(256, 256));
    let ceqs = FpmProfile::default().max_ceqs();
    let cq = |header: u64| (0x03, [64, 6, 32, FLAGS | header | 6, memory, shadow, 0, 0]);
    let cases = [
        (
            (0x03, [64, 5, 32, FLAGS | 5, memory, shadow, 0, 0]),
            STATE,
            "CREATE_CQ: CQ 5 exists".to_owned(),
        ),
        (
            (0x03, [0, 6, 32, FLAGS | 6, memory, shadow, 0, 0]),
            PARAMETER,
            "CQ 6: 0 entries".to_owned(),
        ),
        (
            cq(1 << 47),
            PARAMETER,
            "CQ 6: VIRTMAP true with LPBLSIZE 0".to_owned(),
        ),
        (
            cq(1 << 44),
            PARAMETER,
            "CQ 6: VIRTMAP false with LPBLSIZE 1".to_owned(),
        ),
        (cq(1 << 61), PARAMETER, "CQ 6: AVOIDMEMCNFLCT".to_owned()),
        (
            cq(1 << 50),
            PARAMETER,
            "CQ 6: CQID_HIGH is not zero".to_owned(),
        ),
        (
            cq(1023 << 22),
            PARAMETER,
            format!("CEQ 1023: the function has {ceqs}"),
        ),
        (
            cq(1 << 22),
            STATE,
            "CREATE_CQ 6: there is no CEQ 1".to_owned(),
        ),
        (
            (0x03, [64, 6, 32, FLAGS | 6, memory + 64, shadow, 0, 0]),
            PARAMETER,
            format!("CQ memory at {:#x} is not 256-aligned", memory + 64),
        ),
        (
            (0x03, [64, 6, 32, FLAGS | 6, memory, shadow + 8, 0, 0]),
            PARAMETER,
            format!("CQ shadow area at {:#x} is not 64-aligned", shadow + 8),
        ),
        (
            (0x03, [64, 6, 32, FLAGS | 9 << 44 | 6, 0, shadow, PBLES, 0]),
            PARAMETER,
            format!("PBLEs {PBLES} to {}: only {PBLES} are committed", PBLES + 1),
        ),
        (
            (0x04, [64, 5, 32, 5, there.memory, shadow, 0, 0]),
            PARAMETER,
            "MODIFY_CQ 5: another shadow area".to_owned(),
        ),
        (
            (0x04, [64, 6, 32, 6, memory, shadow, 0, 0]),
            STATE,
            "MODIFY_CQ: there is no CQ 6".to_owned(),
        ),
        (
            (0x05, [64, 6, 0, 6, 0, shadow, 0, 0]),
            STATE,
            "DESTROY_CQ: there is no CQ 6".to_owned(),
        ),
        (
            (0x03, [64, 16, 32, FLAGS | 16, memory, shadow, 0, 0]),
            PARAMETER,
            "CQ 16: only 16 are committed".to_owned(),
        ),
    ];
    for (words, kind, text) in cases {
        refuses(&mut driver, words, kind, &text);
    }
    let words = (
        0x03,
        [64, 6, 32, 1 << 46 | 1 << 22 | 6, memory, shadow, 0, 0],
    );
    let text = "CQ 6: CEQID without CEQIDVALID";
    warns(&mut driver, words, "cq-ceq", text);
    let words = (0x03, [64, 7, 65, FLAGS | 7, memory, shadow, 0, 0]);
    let text = "CQ 7: a threshold of 65 in 64 entries";
    warns(&mut driver, words, "cq-threshold", text);
    // A resize keeps it.
    let resize = 1 << 43 | 1 << 46 | 7;
    driver.good(0x04, [4, 7, 65, resize, memory, shadow, 0, 0]);
    // The size after the resize counts.
    let text = "DESTROY_CQ 7: another size or shadow area than it has";
    let destroy = (0x05, [64, 7, 0, 7, 0, shadow, 0, 0]);
    warns(&mut driver, destroy, "cq-destroy", text);
    driver.env.set_word(shadow + 32, 1 << 14);
    let create = (0x03, [64, 7, 32, FLAGS | 7, memory, shadow, 0, 0]);
    let text = "CQ 7: shadow area with 0x4000 at 32";
    warns(&mut driver, create, "shadow-content", text);
}

/// Non-zero memory could be mistaken for an entry of the first lap (control-path 3.5, 7.7).
#[test]
fn queues_of_the_device_begin_with_nothing() {
    let mut driver = TestDriver::ready(Config::default());
    let memory = driver.env.alloc(2 * 4096, 4096);
    driver.env.set_word(memory + 4096, 1 << 63);
    driver.good(0x16, [0, 0, 512, 1, memory, 0, 0, 0]);
    let ceq = (0x16, [0, 0, 513, 2, memory, 0, 0, 0]);
    warns(
        &mut driver,
        ceq,
        "queue-content",
        "CEQ: byte 4103 is not zero",
    );
    driver.good(0x1b, [0, 0, 256, 0, 0, 0, 0, 0]);
    let aeq = (0x19, [0, 0, 257, 0, memory, 0, 0, 0]);
    warns(
        &mut driver,
        aeq,
        "queue-content",
        "AEQ: byte 4103 is not zero",
    );
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.hmc();
    let (memory, shadow) = (driver.env.alloc(512, 256), driver.env.alloc(128, 128));
    driver.env.set_word(memory + 504, 1);
    driver.ccq = Some((memory, shadow, 0));
    let ccq = (0x03, [16, 0, 16, FLAGS, memory, shadow, 0, 0]);
    warns(
        &mut driver,
        ccq,
        "queue-content",
        "CCQ: byte 504 is not zero",
    );
}

#[test]
fn the_queue_of_commands_is_not_masked() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.hmc();
    let (memory, shadow) = (driver.env.alloc(2048, 256), driver.env.alloc(128, 128));
    driver.ccq = Some((memory, shadow, 0));
    let words = (0x03, [16, 0, 16, FLAGS | 1 << 48, memory, shadow, 0, 0]);
    let text = "CQ 0, the CCQ, with ENCEQEMASK";
    warns(&mut driver, words, "cq-ccq", text);
}

#[test]
fn completion_queues_in_use() {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    let destroy = [32, 0, 0, qp.send.id, 0, qp.send.shadow, 0, 0];
    let text = format!("DESTROY_CQ {}: 1 uses by QPs are left", qp.send.id);
    refuses(&mut driver, (0x05, destroy), STATE, &text);
}

#[test]
fn event_queues() {
    let mut driver = TestDriver::ready(Config::default());
    let memory = driver.env.alloc(256, 256);
    let ceqs = FpmProfile::default().max_ceqs();
    let ceq =
        |entries: u64, header: u64, memory: u64| (0x16, [0, 0, entries, header, memory, 0, 0, 0]);
    let destroy = |id: u64, entries: u64| (0x18, [0, 0, entries, id, 0, 0, 0, 0]);
    let cases = [
        (
            ceq(8, 0, memory),
            STATE,
            "CREATE_CEQ: CEQ 0 exists".to_owned(),
        ),
        (
            ceq(0, 1, memory),
            PARAMETER,
            "CEQ: 0 entries; 1 to 262143 are possible".to_owned(),
        ),
        (
            ceq(262_144, 1, memory),
            PARAMETER,
            "CEQ: 262144 entries; 1 to 262143 are possible".to_owned(),
        ),
        (
            ceq(8, 1 << 47 | 1, memory),
            PARAMETER,
            "CEQ: VMAP true with LPBLSIZE 0".to_owned(),
        ),
        (
            ceq(8, 1, memory + 8),
            PARAMETER,
            format!("CEQ at {:#x} is not 256-aligned", memory + 8),
        ),
        (
            ceq(8, u64::from(ceqs), memory),
            PARAMETER,
            format!("CEQ {ceqs}: the function has {ceqs}"),
        ),
        (
            destroy(2, 8),
            STATE,
            "DESTROY_CEQ: there is no CEQ 2".to_owned(),
        ),
        (
            (0x19, [0, 0, 16, 0, memory, 0, 0, 0]),
            STATE,
            "CREATE_AEQ: the AEQ exists".to_owned(),
        ),
    ];
    for (words, kind, text) in cases {
        refuses(&mut driver, words, kind, &text);
    }
    let (opcode, words) = ceq(8, 1, memory);
    driver.good(opcode, words);
    let text = "CEQ destroyed with 7 entries; it was created with 8";
    warns(&mut driver, destroy(1, 7), "event-queue-size", text);
    let text = "AEQ destroyed with 255 entries; it was created with 256";
    let words = [0, 0, 255, 0, 0, 0, 0, 0];
    warns(&mut driver, (0x1b, words), "event-queue-size", text);
    let text = "DESTROY_AEQ: there is no AEQ";
    refuses(&mut driver, (0x1b, words), STATE, text);
}

#[test]
fn the_word_that_arms() {
    let mut driver = TestDriver::ready(Config::default());
    let cq = driver.create_cq(5, 64);
    driver
        .env
        .set_word(cq.shadow + 32, 1 << 20 | 1 << 16 | 1 << 14);
    driver.ring(Doorbell::CqArm, 5);
    let text = "CQ 5: arm word 0x114000 has undefined bits set";
    finds(&mut driver, "cq-arm", text);
}

/// The memory of a CEQ that a driver frees too early.
#[test]
fn an_event_without_its_entry() {
    let mut driver = TestDriver::ready(Config::default());
    let (_, shadow, _) = driver.ccq.unwrap();
    driver.env.set_word(shadow + 32, 1 << 16 | 1 << 14);
    driver.ring(Doorbell::CqArm, 0);
    // Completions before the arm already cause an event.
    driver.ring(Doorbell::CqAck, 0);
    driver.env.findings.clear();
    driver.env.unmap(driver.ceq);
    driver.env.set_word(shadow + 32, 2 << 16 | 1 << 14);
    driver.ring(Doorbell::CqArm, 0);
    driver.good(0x23, [0, 0, 4791, 1 << 62, 0, 0, 0, 0]);
    let found = found(&mut driver);
    let text = "the event of CQ 0 is lost with the entry of CEQ 0";
    let lost = (Class::Fault, "ceq-memory", text.to_owned());
    assert_eq!((found[0].1, found.last()), ("dma", Some(&lost)));
}

/// The context of a CQ that was overwritten.
#[test]
fn a_completion_without_its_queue() {
    let mut driver = TestDriver::ready(Config {
        write_through: true,
        ..Config::default()
    });
    let mut qp = TestQp::create(&mut driver, 3, 7, 1);
    qp.to_error(&mut driver);
    driver.env.findings.clear();
    qp.put(&mut driver, [0, 0, 0, 1 << 62 | 3 << 32], true);
    let context = driver.backing[0] + driver.base(8) + 128 * qp.send.id;
    assert_ne!(driver.env.word(context), 0);
    driver.env.set_word(context, 0);
    assert!(qp.flush(&mut driver, FLUSH_SQ).error);
    let text = format!("completion for CQ {}, which does not exist", qp.send.id);
    assert_eq!(found(&mut driver), [(Class::Fault, "cq-missing", text)]);
}
