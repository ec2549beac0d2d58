//! CQs, CEQs and the AEQ: arming, acknowledging, overflow, resize.

use super::qp::TestQp;
use super::test_driver::{GOOD, Rig, TestCq};
use crate::pe::{Config, Doorbell, PeReg};
use crate::variation::{FlushStyle, Variation};

/// GEN_AE with this code for QP 3, to get events without traffic.
fn generate(rig: &mut Rig, code: u64) {
    assert_eq!(
        rig.command(0x22, [0, code | 5 << 16, 0, 1 << 59 | 3, 0, 0, 0, 0]),
        GOOD
    );
}

/// A rig with an idle QP in ERROR whose receives can be flushed one CQE each.
fn flushable() -> (Rig, TestQp, u32) {
    let mut rig = Rig::ready(Config {
        variation: Variation {
            flush: FlushStyle::PerWqe,
            ..Variation::default()
        },
        ..Config::default()
    });
    let qp = TestQp::create(&mut rig, 3, 7, 1);
    let (stag, _) = rig.register(9, 7, 0x1000, 4096, 3);
    qp.to_error(&mut rig);
    (rig, qp, stag)
}

/// One CQE (an error) on the receive CQ.
fn one_cqe(rig: &mut Rig, qp: &mut TestQp, stag: u32) {
    qp.post_receive(rig, 0x1000, 8, stag);
    assert!(!qp.flush(rig, super::qp::FLUSH_RQ).error);
}

fn arm(rig: &mut Rig, cq: &TestCq, word: u64) {
    rig.env.set_word(cq.shadow + 32, word);
    rig.ring(Doorbell::CqArm, cq.id as u32);
}

/// Empties a CQ.
fn drain(rig: &mut Rig, cq: &mut TestCq) {
    while cq.poll(&mut rig.env).is_some() {}
}

#[test]
fn one_event_an_arm_and_one_until_acknowledged() {
    let (mut rig, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    arm(&mut rig, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    assert!(rig.env.ceqs.is_empty(), "nothing to tell");
    one_cqe(&mut rig, &mut qp, stag);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0]);
    drain(&mut rig, &mut qp.receive);
    // Armed again but not acknowledged: the event waits.
    arm(&mut rig, &qp.receive, 2 << 16 | 1 << 15 | 1 << 14);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0]);
    rig.ring(Doorbell::CqAck, id);
    assert_eq!(rig.env.ceqs, [0, 0]);
    rig.ring(Doorbell::CqAck, id);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0, 0], "the second arm is used up");
    assert_eq!(rig.env.findings, []);
    // No new ARM_SEQ_NUM, nothing to acknowledge.
    arm(&mut rig, &qp.receive, 2 << 16 | 1 << 14);
    rig.ring(Doorbell::CqAck, id);
    assert_eq!(rig.env.ceqs, [0, 0]);
    assert_eq!(rig.env.kinds(), ["cq-ack"]);
}

#[test]
fn what_was_not_taken_is_an_event_as_soon_as_one_is_asked_for() {
    let (mut rig, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    one_cqe(&mut rig, &mut qp, stag);
    assert!(rig.env.ceqs.is_empty(), "not armed");
    arm(&mut rig, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    assert_eq!(rig.env.ceqs, [0]);
    rig.ring(Doorbell::CqAck, id);
    // It is still there: another event, though nothing new was written.
    arm(&mut rig, &qp.receive, 2 << 16 | 1 << 15 | 1 << 14);
    assert_eq!(rig.env.ceqs, [0, 0]);
    rig.ring(Doorbell::CqAck, id);
    drain(&mut rig, &mut qp.receive);
    arm(&mut rig, &qp.receive, 3 << 16 | 1 << 15 | 1 << 14);
    assert_eq!(rig.env.ceqs, [0, 0], "taken");
    assert_eq!(rig.env.findings, []);
}

/// Who can ring for a CQ and cannot write its shadow area neither asks for an event nor takes a request back.
#[test]
fn a_doorbell_without_a_new_number_changes_no_request() {
    let (mut rig, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    one_cqe(&mut rig, &mut qp, stag);
    rig.ring(Doorbell::CqArm, id);
    assert!(rig.env.ceqs.is_empty(), "nobody asked");
    drain(&mut rig, &mut qp.receive);
    arm(&mut rig, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    rig.ring(Doorbell::CqArm, id);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0], "the request stands");
    rig.ring(Doorbell::CqAck, id);
    rig.ring(Doorbell::CqArm, id);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0], "and was answered");
    assert_eq!(rig.env.findings, []);
}

#[test]
fn a_solicited_request_looks_back_to_the_last_event() {
    let (mut rig, mut qp, stag) = flushable();
    let id = qp.receive.id as u32;
    // An error counts as solicited.
    one_cqe(&mut rig, &mut qp, stag);
    arm(&mut rig, &qp.receive, 1 << 16 | 1 << 15);
    assert_eq!(rig.env.ceqs, [0]);
    rig.ring(Doorbell::CqAck, id);
    // It is not taken, but was told of.
    arm(&mut rig, &qp.receive, 2 << 16 | 1 << 15);
    assert_eq!(rig.env.ceqs, [0]);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0, 0]);
    assert_eq!(rig.env.findings, []);
}

#[test]
fn a_solicited_arm_fires_for_errors() {
    let (mut rig, mut qp, stag) = flushable();
    arm(&mut rig, &qp.receive, 1 << 16 | 1 << 15);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.ceqs, [0]);
    // The CEQE: CQCTX (the CQ's id here) and VALID.
    let ceqe = rig.env.word(rig.ceq);
    assert_eq!(ceqe, 1 << 63 | qp.receive.id);
}

#[test]
fn a_full_cq_stops_with_an_event() {
    let (mut rig, mut qp, stag) = flushable();
    let mut small = rig.create_cq(15, 8);
    // Another QP on the small CQ.
    let word = small.id | small.id << 32;
    qp = {
        let mut other = TestQp::create(&mut rig, 4, 7, 1);
        rig.env.set_word(other.context + 136, word);
        // An idle one may refuse to go to ERROR. CQNUMVALID takes the new numbers.
        other.connect(&mut rig);
        assert_eq!(other.modify(&mut rig, 6, 1 << 47), GOOD);
        other.send.id = small.id;
        let _ = qp;
        other
    };
    for n in 0..7 {
        one_cqe(&mut rig, &mut qp, stag);
        assert_eq!(rig.aeqe(0), None, "{n}");
    }
    // Seven of eight are in use; nothing was consumed.
    qp.post_receive(&mut rig, 0x1000, 8, stag);
    assert!(qp.flush(&mut rig, super::qp::FLUSH_RQ).error);
    assert_eq!(
        rig.aeqe(0).map(|(code, id, source, ..)| (code, id, source)),
        Some((0x0203, 15, 2))
    );
    // COMPCTX << 1 is the CQ's context.
    assert_eq!(rig.env.word(rig.aeq), 15 >> 1);
    assert_eq!(rig.env.reg(PeReg::CqDropCount), 1);
    // It takes nothing any more, though room is made.
    while small.poll(&mut rig.env).is_some() {}
    qp.post_receive(&mut rig, 0x1000, 8, stag);
    assert!(qp.flush(&mut rig, super::qp::FLUSH_RQ).error);
    assert_eq!(rig.env.reg(PeReg::CqDropCount), 2);
}

#[test]
fn a_consumer_that_keeps_up_never_overflows() {
    let (mut rig, mut qp, stag) = flushable();
    for _ in 0..80 {
        one_cqe(&mut rig, &mut qp, stag);
        assert!(qp.receive.poll(&mut rig.env).is_some());
    }
    assert_eq!(rig.env.findings, []);
    assert_eq!(rig.aeqe(0), None);
}

#[test]
fn a_consumer_index_from_nowhere_is_found() {
    let (mut rig, mut qp, stag) = flushable();
    // Threshold 16: the shadow is looked at when 16 entries or fewer are free.
    rig.env.set_word(qp.receive.shadow, 30);
    for _ in 0..20 {
        one_cqe(&mut rig, &mut qp, stag);
    }
    assert!(rig.env.kinds().iter().all(|kind| *kind == "cq-shadow"));
    assert!(!rig.env.findings.is_empty());
}

#[test]
fn a_resize_goes_on_in_the_new_buffer() {
    let (mut rig, mut qp, stag) = flushable();
    for _ in 0..5 {
        one_cqe(&mut rig, &mut qp, stag);
    }
    let memory = rig.env.alloc(16 * 32, 256);
    let (id, shadow) = (qp.receive.id, qp.receive.shadow);
    // CQRESIZE [43], ENCEQEMASK [48], CHKOVERFLOW [46].
    let header = 1 << 43 | 1 << 48 | 1 << 46 | id;
    assert_eq!(
        rig.command(0x04, [16, id, 8, header, memory, shadow, 0, 0]),
        GOOD
    );
    for _ in 0..12 {
        one_cqe(&mut rig, &mut qp, stag);
    }
    // First lap again, from entry 0.
    assert_eq!(rig.env.word(memory + 24) >> 63, 1);
    assert_eq!(rig.env.word(memory + 11 * 32 + 24) >> 63, 1);
    // The consumer drains the old buffer; its index there says nothing about the new one.
    rig.env.set_word(shadow, 5);
    one_cqe(&mut rig, &mut qp, stag);
    assert_eq!(rig.env.findings, []);
    // It has gone over to the new buffer and taken ten.
    rig.env.set_word(shadow, 10);
    rig.env.set_word(shadow + 32, 1);
    for _ in 0..10 {
        one_cqe(&mut rig, &mut qp, stag);
    }
    assert_eq!(rig.env.findings, []);
    assert_eq!(rig.aeqe(0), None);
}

#[test]
fn an_index_of_the_old_buffer_frees_nothing_in_the_new_one() {
    let (mut rig, mut qp, stag) = flushable();
    let memory = rig.env.alloc(16 * 32, 256);
    let (id, shadow) = (qp.receive.id, qp.receive.shadow);
    let header = 1 << 43 | 1 << 48 | 1 << 46 | id;
    assert_eq!(
        rig.command(0x04, [16, id, 8, header, memory, shadow, 0, 0]),
        GOOD
    );
    // The consumer is at entry 5 of the old buffer (SW_CQ_SELECT is still 0).
    rig.env.set_word(shadow, 5);
    for _ in 0..15 {
        one_cqe(&mut rig, &mut qp, stag);
    }
    assert_eq!(rig.aeqe(0), None);
    qp.post_receive(&mut rig, 0x1000, 8, stag);
    assert!(qp.flush(&mut rig, super::qp::FLUSH_RQ).error);
    assert_eq!(rig.aeqe(0).map(|event| event.0), Some(0x0203));
}

#[test]
fn an_aeq_without_room_keeps_the_last_event_for_the_overflow_bit() {
    let mut rig = Rig::new(Config::default());
    rig.create_cqp();
    rig.hmc();
    rig.events(4);
    rig.nodes();
    let _qp = TestQp::create(&mut rig, 3, 7, 1);
    for code in 0x0501..0x0507 {
        generate(&mut rig, code);
    }
    let codes: Vec<u64> = (0..4)
        .filter_map(|n| rig.aeqe(n))
        .map(|event| event.0)
        .collect();
    assert_eq!(codes, [0x0501, 0x0502, 0x0503, 0x0504]);
    assert_eq!(rig.env.reg(PeReg::AeqDropCount), 2);
    // One entry returned: the last event lost goes out, with OVERFLOW, in the second lap.
    rig.ring(Doorbell::AeqAlloc, 1);
    let word = rig.env.word(rig.aeq + 8);
    assert_eq!(
        (word >> 63, word >> 33 & 1, word >> 34 & 0xFFF),
        (0, 1, 0x0506)
    );
    assert_eq!(rig.env.findings, []);
    // More than is outstanding cannot be returned.
    rig.ring(Doorbell::AeqAlloc, 5);
    assert_eq!(rig.env.kinds(), ["aeq-credit"]);
}

#[test]
fn an_event_of_the_ccq_waits_for_its_ceq() {
    let mut rig = Rig::new(Config::default());
    rig.create_cqp();
    rig.hmc();
    let (memory, shadow) = (rig.env.alloc(64 * 32, 256), rig.env.alloc(64, 128));
    rig.ccq = Some((memory, shadow, 0));
    rig.good(0x03, [64, 0, 16, 1 << 49 | 1 << 46, memory, shadow, 0, 0]);
    rig.env.set_word(shadow + 32, 1 << 16 | 1 << 14);
    rig.ring(Doorbell::CqArm, 0);
    rig.good(0x23, [0, 0, 1, 1 << 62, 0, 0, 0, 0]);
    assert!(rig.env.ceqs.is_empty());
    let ceq = rig.env.alloc(64, 256);
    rig.good(0x16, [0, 0, 8, 0, ceq, 0, 0, 0]);
    assert_eq!(
        (rig.env.ceqs.as_slice(), rig.env.word(ceq)),
        ([0].as_slice(), 1 << 63)
    );
    // Other CQs name a CEQ that exists.
    assert!(
        rig.command(
            0x03,
            [64, 5, 32, 1 << 49 | 1 << 22 | 5, memory, shadow, 0, 0]
        )
        .error
    );
    assert_eq!(rig.env.kinds(), ["cqp-state"]);
}

#[test]
fn the_valid_bit_of_events_turns_with_each_lap() {
    const CONTEXT: u64 = 0x1234;
    let mut rig = Rig::new(Config::default());
    rig.create_cqp();
    rig.hmc();
    let (memory, shadow) = (rig.env.alloc(64 * 32, 256), rig.env.alloc(64, 128));
    rig.ccq = Some((memory, shadow, 0));
    let flags = 1 << 49 | 1 << 46;
    rig.good(0x03, [64, CONTEXT, 16, flags, memory, shadow, 0, 0]);
    let ceq = rig.env.alloc(3 * 8, 256);
    rig.good(0x16, [0, 0, 3, 0, ceq, 0, 0, 0]);
    for n in 0..9 {
        let lap_bit = if n / 3 % 2 == 0 { 1 << 63 } else { 0 };
        let at = ceq + n % 3 * 8;
        assert_ne!(rig.env.word(at), lap_bit | CONTEXT, "not yet {n}");
        rig.env.set_word(shadow + 32, ((n + 1) % 4) << 16 | 1 << 14);
        rig.ring(Doorbell::CqArm, 0);
        rig.good(0x23, [0, 0, 1, 1 << 62, 0, 0, 0, 0]);
        assert_eq!(rig.env.word(at), lap_bit | CONTEXT, "event {n}");
        rig.ring(Doorbell::CqAck, 0);
    }
    assert_eq!(rig.env.ceqs.len(), 9);
    assert_eq!(rig.env.findings, []);
}

#[test]
fn a_full_ceq_drops_and_counts() {
    let mut rig = Rig::ready(Config {
        variation: Variation {
            flush: FlushStyle::PerWqe,
            ..Variation::default()
        },
        ..Config::default()
    });
    let ceq = rig.env.alloc(8, 256);
    rig.good(0x16, [0, 0, 1, 1, ceq, 0, 0, 0]);
    let mut qp = TestQp::create(&mut rig, 3, 7, 1);
    // Both CQs on the CEQ of one entry.
    for cq in [qp.send.id, qp.receive.id] {
        assert_eq!(qp.destroy(&mut rig), GOOD);
        let (memory, shadow) = if cq == qp.send.id {
            (qp.send.memory, qp.send.shadow)
        } else {
            (qp.receive.memory, qp.receive.shadow)
        };
        rig.good(0x05, [32, cq, 0, cq, 0, shadow, 0, 0]);
        let flags = 1 << 49 | 1 << 22 | 1 << 48 | cq;
        rig.good(0x03, [32, cq, 16, flags, memory, shadow, 0, 0]);
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
        rig.good(0x00, words);
    }
    let (stag, _) = rig.register(9, 7, 0x1000, 4096, 3);
    qp.to_error(&mut rig);
    arm(&mut rig, &qp.receive, 1 << 16 | 1 << 15 | 1 << 14);
    arm(&mut rig, &qp.send, 1 << 16 | 1 << 15 | 1 << 14);
    one_cqe(&mut rig, &mut qp, stag);
    qp.post(&mut rig, 3, (0x1000, 8, stag), (0, 0));
    qp.flush(&mut rig, super::qp::FLUSH_SQ);
    assert_eq!(rig.env.ceqs, [1]);
    assert_eq!(rig.env.reg(PeReg::CeqDropCount), 1);
    assert_eq!(rig.env.kinds(), ["ceq-overflow"]);
}
