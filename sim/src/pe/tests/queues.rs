//! CQs, CEQs and the AEQ: arming, acknowledging, overflow, resize.

use super::qp::TestQp;
use super::test_driver::{GOOD, TestCq, TestDriver};
use crate::pe::{Config, Doorbell, PeReg};
use crate::variation::{FlushStyle, Variation};

/// GEN_AE with this code for QP 3, to get events without traffic.
fn generate(driver: &mut TestDriver, code: u64) {
    assert_eq!(
        driver.command(0x22, [0, code | 5 << 16, 0, 1 << 59 | 3, 0, 0, 0, 0]),
        GOOD
    );
}

/// A rig with an idle QP in ERROR whose receives can be flushed one CQE each.
fn flushable() -> (TestDriver, TestQp, u32) {
    let mut driver = TestDriver::ready(Config {
        variation: Variation {
            flush: FlushStyle::PerWqe,
            ..Variation::default()
        },
        ..Config::default()
    });
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    let (stag, _) = driver.register(9, 7, 0x1000, 4096, 3);
    qp.to_error(&mut driver);
    (driver, qp, stag)
}

/// One CQE (an error) on the receive CQ.
fn one_cqe(driver: &mut TestDriver, qp: &mut TestQp, stag: u32) {
    qp.post_receive(driver, 0x1000, 8, stag);
    assert!(!qp.flush(driver, super::qp::FLUSH_RQ).error);
}

fn arm(driver: &mut TestDriver, cq: &TestCq, word: u64) {
    driver.env.set_word(cq.shadow + 32, word);
    driver.ring(Doorbell::CqArm, cq.id as u32);
}

/// Empties a CQ.
fn drain(driver: &mut TestDriver, cq: &mut TestCq) {
    while cq.poll(&mut driver.env).is_some() {}
}

#[test]
fn one_event_an_arm_and_one_until_acknowledged() {
    let (mut driver, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    arm(&mut driver, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    assert!(driver.env.ceqs.is_empty(), "nothing to tell");
    one_cqe(&mut driver, &mut qp, stag);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0]);
    drain(&mut driver, &mut qp.receive);
    // Armed again but not acknowledged: the event waits.
    arm(&mut driver, &qp.receive, 2 << 16 | 1 << 15 | 1 << 14);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0]);
    driver.ring(Doorbell::CqAck, id);
    assert_eq!(driver.env.ceqs, [0, 0]);
    driver.ring(Doorbell::CqAck, id);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0, 0], "the second arm is used up");
    assert_eq!(driver.env.findings, []);
    // No new ARM_SEQ_NUM, nothing to acknowledge.
    arm(&mut driver, &qp.receive, 2 << 16 | 1 << 14);
    driver.ring(Doorbell::CqAck, id);
    assert_eq!(driver.env.ceqs, [0, 0]);
    assert_eq!(driver.env.kinds(), ["cq-ack"]);
}

#[test]
fn what_was_not_taken_is_an_event_as_soon_as_one_is_asked_for() {
    let (mut driver, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    one_cqe(&mut driver, &mut qp, stag);
    assert!(driver.env.ceqs.is_empty(), "not armed");
    arm(&mut driver, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    assert_eq!(driver.env.ceqs, [0]);
    driver.ring(Doorbell::CqAck, id);
    // It is still there: another event, although nothing new was written.
    arm(&mut driver, &qp.receive, 2 << 16 | 1 << 15 | 1 << 14);
    assert_eq!(driver.env.ceqs, [0, 0]);
    driver.ring(Doorbell::CqAck, id);
    drain(&mut driver, &mut qp.receive);
    arm(&mut driver, &qp.receive, 3 << 16 | 1 << 15 | 1 << 14);
    assert_eq!(driver.env.ceqs, [0, 0], "taken");
    assert_eq!(driver.env.findings, []);
}

/// A caller that can ring for a CQ but cannot write its shadow area neither requests an event nor
/// takes a request back.
#[test]
fn a_doorbell_without_a_new_number_changes_no_request() {
    let (mut driver, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    one_cqe(&mut driver, &mut qp, stag);
    driver.ring(Doorbell::CqArm, id);
    assert!(driver.env.ceqs.is_empty(), "nobody asked");
    drain(&mut driver, &mut qp.receive);
    arm(&mut driver, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    driver.ring(Doorbell::CqArm, id);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0], "the request stands");
    driver.ring(Doorbell::CqAck, id);
    driver.ring(Doorbell::CqArm, id);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0], "and was answered");
    assert_eq!(driver.env.findings, []);
}

#[test]
fn a_solicited_request_covers_entries_since_the_last_event() {
    let (mut driver, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    // An error counts as solicited.
    one_cqe(&mut driver, &mut qp, stag);
    arm(&mut driver, &qp.receive, 1 << 16 | 1 << 15);
    assert_eq!(driver.env.ceqs, [0]);
    driver.ring(Doorbell::CqAck, id);
    // It was not polled, but its event was raised.
    arm(&mut driver, &qp.receive, 2 << 16 | 1 << 15);
    assert_eq!(driver.env.ceqs, [0]);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0, 0]);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn a_solicited_arm_fires_for_errors() {
    let (mut driver, mut qp, stag) = flushable();
    arm(&mut driver, &qp.receive, 1 << 16 | 1 << 15);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.ceqs, [0]);
    // The CEQE: CQCTX (the CQ's id here) and VALID.
    let ceqe = driver.env.word(driver.ceq);
    assert_eq!(ceqe, 1 << 63 | qp.receive.id);
}

#[test]
fn a_full_cq_stops_with_an_event() {
    let (mut driver, mut qp, stag) = flushable();
    let mut small = driver.create_cq(15, 8);
    // Another QP on the small CQ.
    let word = small.id | small.id << 32;
    qp = {
        let mut other = TestQp::create(&mut driver, 4, 7, 1);
        driver.env.set_word(other.context + 136, word);
        // An idle QP may refuse to go to ERROR. CQNUMVALID takes the new numbers.
        other.connect(&mut driver);
        assert_eq!(other.modify(&mut driver, 6, 1 << 47), GOOD);
        other.send.id = small.id;
        let _ = qp;
        other
    };
    for n in 0..7 {
        one_cqe(&mut driver, &mut qp, stag);
        assert_eq!(driver.aeqe(0), None, "{n}");
    }
    // Seven of eight are in use; nothing was consumed.
    qp.post_receive(&mut driver, 0x1000, 8, stag);
    assert!(qp.flush(&mut driver, super::qp::FLUSH_RQ).error);
    assert_eq!(
        driver
            .aeqe(0)
            .map(|(code, id, source, ..)| (code, id, source)),
        Some((0x0203, 15, 2))
    );
    // COMPCTX << 1 is the CQ's context.
    assert_eq!(driver.env.word(driver.aeq), 15 >> 1);
    assert_eq!(driver.env.reg(PeReg::CqDropCount), 1);
    // It accepts no more entries, even after room is made.
    while small.poll(&mut driver.env).is_some() {}
    qp.post_receive(&mut driver, 0x1000, 8, stag);
    assert!(qp.flush(&mut driver, super::qp::FLUSH_RQ).error);
    assert_eq!(driver.env.reg(PeReg::CqDropCount), 2);
}

#[test]
fn a_consumer_that_keeps_up_never_overflows() {
    let (mut driver, mut qp, stag) = flushable();
    for _ in 0..80 {
        one_cqe(&mut driver, &mut qp, stag);
        assert!(qp.receive.poll(&mut driver.env).is_some());
    }
    assert_eq!(driver.env.findings, []);
    assert_eq!(driver.aeqe(0), None);
}

#[test]
fn a_consumer_index_from_nowhere_is_found() {
    let (mut driver, mut qp, stag) = flushable();
    // Threshold 16: the shadow is read when 16 entries or fewer are free.
    driver.env.set_word(qp.receive.shadow, 30);
    for _ in 0..20 {
        one_cqe(&mut driver, &mut qp, stag);
    }
    assert!(driver.env.kinds().iter().all(|kind| *kind == "cq-shadow"));
    assert!(!driver.env.findings.is_empty());
}

#[test]
fn a_resize_goes_on_in_the_new_buffer() {
    let (mut driver, mut qp, stag) = flushable();
    for _ in 0..5 {
        one_cqe(&mut driver, &mut qp, stag);
    }
    let memory = driver.env.alloc(16 * 32, 256);
    let (id, shadow) = (qp.receive.id, qp.receive.shadow);
    // CQRESIZE [43], ENCEQEMASK [48], CHKOVERFLOW [46].
    let header = 1 << 43 | 1 << 48 | 1 << 46 | id;
    assert_eq!(
        driver.command(0x04, [16, id, 8, header, memory, shadow, 0, 0]),
        GOOD
    );
    for _ in 0..12 {
        one_cqe(&mut driver, &mut qp, stag);
    }
    // First lap again, from entry 0.
    assert_eq!(driver.env.word(memory + 24) >> 63, 1);
    assert_eq!(driver.env.word(memory + 11 * 32 + 24) >> 63, 1);
    // The consumer drains the old buffer; its index there does not apply to the new one.
    driver.env.set_word(shadow, 5);
    one_cqe(&mut driver, &mut qp, stag);
    assert_eq!(driver.env.findings, []);
    // It has moved to the new buffer and consumed ten entries.
    driver.env.set_word(shadow, 10);
    driver.env.set_word(shadow + 32, 1);
    for _ in 0..10 {
        one_cqe(&mut driver, &mut qp, stag);
    }
    assert_eq!(driver.env.findings, []);
    assert_eq!(driver.aeqe(0), None);
}

#[test]
fn an_index_of_the_old_buffer_frees_nothing_in_the_new_one() {
    let (mut driver, mut qp, stag) = flushable();
    let memory = driver.env.alloc(16 * 32, 256);
    let (id, shadow) = (qp.receive.id, qp.receive.shadow);
    let header = 1 << 43 | 1 << 48 | 1 << 46 | id;
    assert_eq!(
        driver.command(0x04, [16, id, 8, header, memory, shadow, 0, 0]),
        GOOD
    );
    // The consumer is at entry 5 of the old buffer (SW_CQ_SELECT is still 0).
    driver.env.set_word(shadow, 5);
    for _ in 0..15 {
        one_cqe(&mut driver, &mut qp, stag);
    }
    assert_eq!(driver.aeqe(0), None);
    qp.post_receive(&mut driver, 0x1000, 8, stag);
    assert!(qp.flush(&mut driver, super::qp::FLUSH_RQ).error);
    assert_eq!(driver.aeqe(0).map(|event| event.0), Some(0x0203));
}

#[test]
fn an_aeq_without_room_keeps_the_last_event_for_the_overflow_bit() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.hmc();
    driver.events(4);
    driver.nodes();
    let _qp = TestQp::create(&mut driver, 3, 7, 1);
    for code in 0x0501..0x0507 {
        generate(&mut driver, code);
    }
    let codes: Vec<u64> = (0..4)
        .filter_map(|n| driver.aeqe(n))
        .map(|event| event.0)
        .collect();
    assert_eq!(codes, [0x0501, 0x0502, 0x0503, 0x0504]);
    assert_eq!(driver.env.reg(PeReg::AeqDropCount), 2);
    // One entry is returned: the last lost event is written, with OVERFLOW, in the second lap.
    driver.ring(Doorbell::AeqAlloc, 1);
    let word = driver.env.word(driver.aeq + 8);
    assert_eq!(
        (word >> 63, word >> 33 & 1, word >> 34 & 0xFFF),
        (0, 1, 0x0506)
    );
    assert_eq!(driver.env.findings, []);
    // No more entries than are outstanding can be returned.
    driver.ring(Doorbell::AeqAlloc, 5);
    assert_eq!(driver.env.kinds(), ["aeq-credit"]);
}

#[test]
fn an_event_of_the_ccq_waits_for_its_ceq() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.hmc();
    let (memory, shadow) = (driver.env.alloc(64 * 32, 256), driver.env.alloc(64, 128));
    driver.ccq = Some((memory, shadow, 0));
    driver.good(0x03, [64, 0, 16, 1 << 49 | 1 << 46, memory, shadow, 0, 0]);
    driver.env.set_word(shadow + 32, 1 << 16 | 1 << 14);
    driver.ring(Doorbell::CqArm, 0);
    driver.good(0x23, [0, 0, 1, 1 << 62, 0, 0, 0, 0]);
    assert!(driver.env.ceqs.is_empty());
    let ceq = driver.env.alloc(64, 256);
    driver.good(0x16, [0, 0, 8, 0, ceq, 0, 0, 0]);
    assert_eq!(
        (driver.env.ceqs.as_slice(), driver.env.word(ceq)),
        ([0].as_slice(), 1 << 63)
    );
    // Other CQs name a CEQ that exists.
    assert!(
        driver
            .command(
                0x03,
                [64, 5, 32, 1 << 49 | 1 << 22 | 5, memory, shadow, 0, 0]
            )
            .error
    );
    assert_eq!(driver.env.kinds(), ["cqp-state"]);
}

#[test]
fn the_valid_bit_of_events_turns_with_each_lap() {
    const CONTEXT: u64 = 0x1234;
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.hmc();
    let (memory, shadow) = (driver.env.alloc(64 * 32, 256), driver.env.alloc(64, 128));
    driver.ccq = Some((memory, shadow, 0));
    let flags = 1 << 49 | 1 << 46;
    driver.good(0x03, [64, CONTEXT, 16, flags, memory, shadow, 0, 0]);
    let ceq = driver.env.alloc(3 * 8, 256);
    driver.good(0x16, [0, 0, 3, 0, ceq, 0, 0, 0]);
    for n in 0..9 {
        let lap_bit = if n / 3 % 2 == 0 { 1 << 63 } else { 0 };
        let at = ceq + n % 3 * 8;
        assert_ne!(driver.env.word(at), lap_bit | CONTEXT, "not yet {n}");
        driver
            .env
            .set_word(shadow + 32, ((n + 1) % 4) << 16 | 1 << 14);
        driver.ring(Doorbell::CqArm, 0);
        driver.good(0x23, [0, 0, 1, 1 << 62, 0, 0, 0, 0]);
        assert_eq!(driver.env.word(at), lap_bit | CONTEXT, "event {n}");
        driver.ring(Doorbell::CqAck, 0);
    }
    assert_eq!(driver.env.ceqs.len(), 9);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn a_full_ceq_drops_and_counts() {
    let mut driver = TestDriver::ready(Config {
        variation: Variation {
            flush: FlushStyle::PerWqe,
            ..Variation::default()
        },
        ..Config::default()
    });
    let ceq = driver.env.alloc(8, 256);
    driver.good(0x16, [0, 0, 1, 1, ceq, 0, 0, 0]);
    let mut qp = TestQp::create(&mut driver, 3, 7, 1);
    // Both CQs on the CEQ of one entry.
    for cq in [qp.send.id, qp.receive.id] {
        assert_eq!(qp.destroy(&mut driver), GOOD);
        let (memory, shadow) = if cq == qp.send.id {
            (qp.send.memory, qp.send.shadow)
        } else {
            (qp.receive.memory, qp.receive.shadow)
        };
        driver.good(0x05, [32, cq, 0, cq, 0, shadow, 0, 0]);
        let flags = 1 << 49 | 1 << 22 | 1 << 48 | cq;
        driver.good(0x03, [32, cq, 16, flags, memory, shadow, 0, 0]);
        let words = [
            0,
            0,
            qp.context,
            3 << 48 | 1 << 51 | 1 << 47 | 1 << 60 | 3,
            0,
            qp.shadow,
            0,
            0,
        ];
        driver.good(0x00, words);
    }
    let (stag, _) = driver.register(9, 7, 0x1000, 4096, 3);
    qp.to_error(&mut driver);
    arm(&mut driver, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    arm(&mut driver, &qp.send, 1 << 16 | 1 << 15 | 1 << 14);
    one_cqe(&mut driver, &mut qp, stag);
    qp.post(&mut driver, 3, (0x1000, 8, stag), (0, 0));
    qp.flush(&mut driver, super::qp::FLUSH_SQ);
    assert_eq!(driver.env.ceqs, [1]);
    assert_eq!(driver.env.reg(PeReg::CeqDropCount), 1);
    assert_eq!(driver.env.kinds(), ["ceq-overflow"]);
}
