//! Traffic of two connected queue pairs: data, completions, errors, drains.

use super::engine_pair::{BYTES, EnginePair, HALF, PD, VA, header};
use super::qp::{FLUSH_SQ, RING, TestQp, mac};
use super::test_driver::{GOOD, TestDriver};
use crate::findings::Class;
use crate::pe::{Config, ResetKind};

/// A send, a write and a read; returns the CQEs and payloads.
fn exchange(config: Config) -> (Vec<[u64; 4]>, [Vec<u8>; 2]) {
    let mut pair = EnginePair::new(config);
    let mut cqes = Vec::new();
    let sent = pair.fill(0, 1);
    let stag = pair.regions[1].0;
    pair.qps[1].post_receive(&mut pair.rigs[1], VA, BYTES, stag);
    assert_eq!(pair.post(3, BYTES), 0);
    pair.settle();
    assert_eq!(pair.memory(1, BYTES), sent);
    let cqe = pair.receive_cqe().unwrap();
    // PAYLDLEN; the receive has the wire opcode of its last packet, SEND last 0x02.
    assert_eq!(
        (cqe[0] as u32, header(cqe)),
        (BYTES as u32, (0, 2, false, 0, 0))
    );
    assert_eq!((cqe[1], cqe[2] >> 32), (0xc0de_0003, 3));
    assert_eq!(cqe[3] >> 62 & 1, 0);
    cqes.push(cqe);
    let cqe = pair.send_cqe().unwrap();
    assert_eq!((cqe[1], header(cqe)), (0xc0de_0003, (0, 3, false, 0, 0)));
    assert_eq!(cqe[3] >> 62 & 1, 1);
    cqes.push(cqe);

    let written = pair.fill(0, 77);
    assert_eq!(pair.post(0, HALF), 1);
    pair.settle();
    assert_eq!(pair.memory(1, HALF), written[..HALF as usize]);
    let cqe = pair.send_cqe().unwrap();
    assert_eq!(header(cqe), (1, 0, false, 0, 0));
    cqes.push(cqe);

    let remote = pair.fill(1, 200);
    assert_eq!(pair.post(1, BYTES), 2);
    pair.settle();
    assert_eq!(pair.memory(0, BYTES), remote);
    let cqe = pair.send_cqe().unwrap();
    assert_eq!(header(cqe), (2, 1, false, 0, 0));
    cqes.push(cqe);
    assert!(pair.send_cqe().is_none() && pair.receive_cqe().is_none());

    // What crossed the wire was counted: one send, one write, one read request, from 0 to 1.
    for (side, offsets) in [(0, [280, 264, 272]), (1, [256, 240, 248])] {
        let driver = &mut pair.rigs[side];
        let buffer = driver.env.alloc(1024, 4096);
        driver.good(0x2e, [0, 0, 0, 0, buffer, 0, 0, 0]);
        assert_eq!(
            offsets.map(|offset| driver.env.word(buffer + offset)),
            [1; 3]
        );
    }
    for (side, qp) in [(0, 0), (1, 1)] {
        let driver = &mut pair.rigs[side];
        pair.qps[qp].to_error(driver);
        assert_eq!(pair.qps[qp].destroy(driver), GOOD);
        driver.good(0x0d, [0, PD << 46, [9, 11][side] << 8, 1 << 43, 0, 0, 0, 0]);
    }
    pair.no_findings();
    let memories = [pair.memory(0, BYTES), pair.memory(1, BYTES)];
    (cqes, memories)
}

#[test]
fn send_write_and_read_arrive_and_complete() {
    exchange(Config::default());
}

#[test]
fn contexts_read_anew_after_each_step_change_nothing() {
    let through = Config {
        write_through: true,
        ..Config::default()
    };
    assert_eq!(exchange(through), exchange(Config::default()));
}

#[test]
fn immediate_data_takes_a_second_cqe() {
    let mut pair = EnginePair::new(Config::default());
    let remote = pair.regions[1].0;
    // One plain completion first, so that the CQ of 32 entries wraps between the two entries of a
    // message.
    for n in 0..20_u64 {
        pair.qps[1].post_receive(&mut pair.rigs[1], VA, BYTES, remote);
        // The immediate is q0; a fragment would be in the second quantum, so there is none.
        let immediate = u64::from(n > 0);
        let header = 1 << 62 | immediate << 47 | 3 << 32;
        let [a, _] = &mut pair.rigs;
        pair.qps[0].put(a, [immediate * (1000 + n), 0, 0, header], true);
        pair.qps[0].doorbell(a);
        pair.settle();
        let (cqe, extension) = pair.qps[1].receive.poll(&mut pair.rigs[1].env).unwrap();
        assert_eq!((cqe[0] as u32, cqe[3] >> 50 & 1), (0, immediate));
        let data = extension.map(|entry| (entry[0], entry[3] >> 62 & 1));
        assert_eq!(data, (n > 0).then_some((1000 + n, 1)));
        assert!(pair.send_cqe().is_some());
    }
    pair.no_findings();
}

#[test]
fn a_stale_valid_bit_is_executed() {
    let mut pair = EnginePair::new(Config::default());
    // Software posts one entry and rings; an old entry that was not cleared follows it.
    let (local, remote) = (pair.regions[0].0, pair.regions[1].0);
    let [a, _] = &mut pair.rigs;
    pair.qps[0].post(a, 0, (VA, 8, local), (VA, remote));
    let stale = pair.qps[0].post(a, 0, (VA + 8, 8, local), (VA + 100, remote));
    pair.qps[0].posted = 1;
    pair.qps[0].doorbell(a);
    pair.settle();
    assert_eq!(header(pair.send_cqe().unwrap()).0, 0);
    assert_eq!(header(pair.send_cqe().unwrap()).0, stale);
}

/// A driver that elides doorbells makes an entry valid while the device writes HW_SQ_TAIL. It still
/// reads the old tail, from which the device has yet to come to this entry, and so it does not ring.
#[test]
fn an_entry_that_came_before_the_tail_needs_no_doorbell() {
    let mut pair = EnginePair::new(Config::default());
    let (local, remote) = (pair.regions[0].0, pair.regions[1].0);
    let [a, _] = &mut pair.rigs;
    let qp = &mut pair.qps[0];
    qp.post(a, 0, (VA, 8, local), (VA, remote));
    let second = qp.post(a, 0, (VA + 8, 8, local), (VA + 100, remote));
    let valid = qp.sq + second * 32 + 24;
    a.env.before_store = Some((qp.shadow, (valid, a.env.word(valid))));
    a.env.set_word(valid, 0);
    qp.doorbell(a);
    pair.settle();
    assert_eq!(header(pair.send_cqe().unwrap()).0, 0);
    assert_eq!(header(pair.send_cqe().unwrap()).0, second);
    assert_eq!(pair.rigs[0].env.word(pair.qps[0].shadow), 2);
    pair.no_findings();
}

#[test]
fn rings_wrap() {
    let mut pair = EnginePair::new(Config::default());
    let remote = pair.regions[1].0;
    for n in 0..RING + 5 {
        pair.qps[1].post_receive(&mut pair.rigs[1], VA, 16, remote);
        assert_eq!(pair.post(3, 16), n % RING);
        pair.settle();
        assert_eq!(header(pair.receive_cqe().unwrap()).0, n % RING);
        assert_eq!(header(pair.send_cqe().unwrap()).0, n % RING);
    }
    // HW_SQ_TAIL of the QP shadow.
    assert_eq!(pair.rigs[0].env.word(pair.qps[0].shadow), 5);
    pair.no_findings();
}

#[test]
fn a_bad_lkey_stops_the_qp_with_an_event_and_no_cqe() {
    let mut pair = EnginePair::new(Config::default());
    let key = pair.regions[0].0 ^ 1;
    pair.qps[0].post(&mut pair.rigs[0], 3, (VA, 8, key), (0, 0));
    pair.qps[0].doorbell(&mut pair.rigs[0]);
    pair.settle();
    // AMP_BAD_STAG_KEY from the SQ, IWSTATE error, entry 0.
    assert_eq!(pair.rigs[0].aeqe(0), Some((0x0106, 3, 5, 6, 0, false)));
    assert_eq!(pair.rigs[0].env.word(pair.rigs[0].aeq), 0xc0de_0003);
    assert_eq!(pair.rigs[0].env.aeq_raised, 1);
    assert!(pair.send_cqe().is_none());
    // A driver that does not know yet is refused without a finding; it may move the QP to ERROR.
    let driver = &mut pair.rigs[0];
    let done = pair.qps[0].modify(driver, 2, 0);
    assert_eq!((done.error, done.minor), (true, 0x8002));
    pair.qps[0].to_error(driver);
    assert_eq!(pair.qps[0].flush(driver, FLUSH_SQ).minor, 3);
    assert!(pair.send_cqe().is_some());
    pair.no_findings();
}

#[test]
fn a_remote_access_error_stops_both_sides() {
    let mut pair = EnginePair::new(Config::default());
    let local = pair.regions[0].0;
    pair.qps[0].post(&mut pair.rigs[0], 0, (VA, 8, local), (VA, 0xdead));
    pair.qps[0].doorbell(&mut pair.rigs[0]);
    pair.settle();
    let (code, id, ..) = pair.rigs[0].aeqe(0).unwrap();
    assert_eq!((code, id), (0x020D, 3));
    let (code, _, _, state, ..) = pair.rigs[1].aeqe(0).unwrap();
    assert!((0x0102..=0x010A).contains(&code), "{code:#x}");
    assert_eq!(state, 6);
    pair.no_findings();
}

#[test]
fn a_missing_arp_entry_stops_the_sender() {
    let mut pair = EnginePair::new(Config::default());
    pair.rigs[0].good(0x0f, [0, 0, 0, 3, 0, 0, 0, 0]);
    pair.post(0, 8);
    pair.settle();
    let (code, id, _, state, ..) = pair.rigs[0].aeqe(0).unwrap();
    assert_eq!((code, id, state), (0x0401, 3, 6));
    assert!(pair.rigs[0].env.frames.is_empty());
    pair.no_findings();
}

#[test]
fn frames_carry_the_macs_of_context_and_arp_table() {
    let mut pair = EnginePair::new(Config::default());
    pair.post(0, 8);
    let frame = &pair.rigs[0].env.frames[0];
    assert_eq!(frame[..6], mac(1).to_be_bytes()[2..]);
    assert_eq!(frame[6..12], mac(0).to_be_bytes()[2..]);
}

#[test]
fn suspend_ends_with_an_event_and_resume_goes_on() {
    let mut pair = EnginePair::new(Config::default());
    pair.rigs[0].good(0x29, [0, 0, 0, 3, 0, 0, 0, 0]);
    let (code, id, _, state, ..) = pair.rigs[0].aeqe(0).unwrap();
    assert_eq!((code, id, state), (0x0900, 3, 3));
    pair.post(0, 8);
    pair.settle();
    assert!(pair.send_cqe().is_none());
    let queue_set = pair.rigs[0].queue_set;
    pair.rigs[0].good(0x2a, [0, 0, queue_set, 3, 0, 0, 0, 0]);
    pair.settle();
    assert!(pair.send_cqe().is_some());
    // Resuming twice is a mistake.
    assert!(
        pair.rigs[0]
            .command(0x2a, [0, 0, queue_set, 3, 0, 0, 0, 0])
            .error
    );
}

#[test]
fn sqd_waits_for_what_is_outstanding() {
    let mut pair = EnginePair::new(Config::default());
    pair.post(0, 8);
    // The acknowledge has not arrived yet.
    assert_eq!(pair.qps[0].modify(&mut pair.rigs[0], 3, 0), GOOD);
    assert_eq!(pair.rigs[0].aeqe(0), None);
    pair.settle();
    assert_eq!(pair.rigs[0].aeqe(0).map(|event| event.0), Some(0x0900));
    assert!(pair.send_cqe().is_some());
    assert_eq!(pair.qps[0].modify(&mut pair.rigs[0], 2, 0), GOOD);
    // The old PSNs of the rebuilt context are not taken again: traffic continues.
    pair.post(0, 8);
    pair.settle();
    assert!(pair.send_cqe().is_some());
    pair.no_findings();
}

#[test]
fn a_lost_frame_is_sent_again_after_the_deadline() {
    let mut pair = EnginePair::new(Config::default());
    pair.post(0, 8);
    pair.rigs[0].env.frames.clear();
    pair.settle();
    assert!(pair.send_cqe().is_none());
    let deadline = pair.rigs[0].engine.next_deadline().unwrap();
    assert!(deadline > pair.rigs[0].env.now);
    pair.rigs[0].env.now = deadline;
    pair.settle();
    assert!(pair.send_cqe().is_some());
    pair.rigs[0].engine.reset(ResetKind::Core);
    assert_eq!(pair.rigs[0].engine.next_deadline(), None);
}

#[test]
fn state_changes_that_cannot_be() {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, PD, 1);
    // RC reaches RTS through RTR.
    let done = qp.modify(&mut driver, 2, 0);
    assert_eq!((done.error, done.minor), (true, 0x8002));
    qp.connect(&mut driver);
    for state in [1, 4, 5] {
        assert!(qp.modify(&mut driver, state, 0).error);
    }
    qp.to_error(&mut driver);
    assert!(qp.modify(&mut driver, 2, 0).error);
    assert_eq!(driver.env.kinds(), ["cqp-state"; 5]);
    assert!(
        driver
            .env
            .findings
            .iter()
            .all(|(class, ..)| *class == Class::Fault)
    );
    // CQs in use stay; a QP is destroyed once.
    assert!(driver.command(0x05, [64, 0, 0, 9, 0, 0, 0, 0]).error);
    assert_eq!(qp.destroy(&mut driver), GOOD);
    assert!(qp.destroy(&mut driver).error);
    assert!(!driver.command(0x05, [64, 0, 0, 9, 0, 0, 0, 0]).error);
}

/// A peer sends at any time: also while there is no backing for contexts, before the first SD and
/// after the last.
#[test]
fn a_packet_for_a_queue_pair_without_backing_is_dropped() {
    let mut pair = EnginePair::new(Config::default());
    pair.post(3, 100);
    pair.rigs[0].settle();
    let frames = std::mem::take(&mut pair.rigs[0].env.frames);
    assert!(!frames.is_empty());
    let mut bare = TestDriver::new(Config {
        pf: 1,
        ..Config::default()
    });
    bare.create_cqp();
    bare.commit();
    for frame in &frames {
        bare.engine.receive(frame, &mut bare.env);
    }
    bare.settle();
    assert_eq!(bare.env.findings, []);
    assert!(bare.env.frames.is_empty(), "nobody answers");
}
