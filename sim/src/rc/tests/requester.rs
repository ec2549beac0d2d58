//! The requester against hand-built responses.

use super::*;
use crate::wire::{Aeth, Bth, Frame, Headers, Nak, Opcode, Packet, Syndrome};

/// PSN of the first packet sent.
const PSN: u32 = 0x12_3456;

const ACK: Syndrome = Syndrome::Ack(31);
const MISSING: Syndrome = Syndrome::Nak(Nak::Sequence);

/// A requester with one write of three packets outstanding, and the sender of responses to it.
struct Requester {
    testbed: Testbed,
}

impl Requester {
    fn new() -> Self {
        let mut testbed = Testbed::new(PathMtu::B256);
        testbed.a.post(&Post::write(&[(0, 600)], 0));
        assert_eq!(testbed.a.emit().len(), 3);
        Self { testbed }
    }

    fn answer(&mut self, offset: u32, syndrome: Syndrome) -> Outcome {
        let mut headers = Headers::new(Bth::new(
            Opcode::ACKNOWLEDGE,
            0x101,
            PSN.wrapping_add(offset),
        ));
        headers.aeth = Some(Aeth { syndrome, msn: 0 });
        let frame = Frame::new(&self.testbed.b.state.config.path, &headers, 0)
            .unwrap()
            .seal();
        self.testbed.a.take_in(&frame)
    }

    /// PSN offsets of the packets sent now.
    fn sends(&mut self) -> Vec<u32> {
        let frames = self.testbed.a.emit();
        frames
            .iter()
            .map(|frame| Packet::parse(frame).unwrap().headers.bth.psn - PSN)
            .collect()
    }
}

#[test]
fn acknowledges_of_other_psns_are_stale() {
    let mut requester = Requester::new();
    for offset in [u32::MAX, 3, 4, 1 << 22] {
        assert_eq!(
            requester.answer(offset, ACK),
            Outcome::Dropped(DropReason::Stale)
        );
    }
    assert_eq!(requester.answer(1, ACK), Outcome::Accepted);
    assert_eq!(
        requester.answer(0, ACK),
        Outcome::Dropped(DropReason::Stale)
    );
    assert_eq!(requester.testbed.a.node.sent, []);
    assert_eq!(requester.answer(2, ACK), Outcome::Accepted);
    assert_eq!(requester.testbed.a.node.sent.len(), 1);
    assert_eq!(
        requester.answer(2, ACK),
        Outcome::Dropped(DropReason::Stale)
    );
}

#[test]
fn a_sequence_nak_goes_back_once() {
    let mut requester = Requester::new();
    assert_eq!(requester.answer(1, MISSING), Outcome::Accepted);
    assert_eq!(requester.sends(), [1, 2]);
    // Copies of it have no effect.
    requester.answer(1, MISSING);
    assert_eq!(requester.sends(), [0; 0]);
    requester.answer(2, MISSING);
    assert_eq!(requester.sends(), [2]);
    requester.answer(3, MISSING);
    assert_eq!(
        (requester.sends(), requester.testbed.a.node.sent.len()),
        (vec![], 1)
    );
    clean(&requester.testbed);
}

#[test]
fn an_acknowledge_that_overtakes_sending_again() {
    let mut requester = Requester::new();
    requester.answer(0, MISSING);
    requester.answer(1, ACK);
    assert_eq!(requester.sends(), [2]);
}

#[test]
fn naks_name_their_event() {
    let table = [
        (Nak::InvalidRequest, 0x0208),
        (Nak::RemoteAccess, 0x020D),
        (Nak::RemoteOperation, 0x020E),
        // A code that has no meaning.
        (Nak::Other(4), 0x020E),
        (Nak::Other(31), 0x020E),
    ];
    for (nak, code) in table {
        let mut requester = Requester::new();
        assert_eq!(requester.answer(1, Syndrome::Nak(nak)), Outcome::Refused);
        assert_eq!(event(&requester.testbed.a), (code, 0x5, 0));
    }
}

#[test]
fn answers_without_meaning_are_dropped() {
    for syndrome in [Syndrome::Reserved(0x40), Syndrome::Reserved(0xFF)] {
        let mut requester = Requester::new();
        assert_eq!(
            requester.answer(1, syndrome),
            Outcome::Dropped(DropReason::Meaningless)
        );
        assert_eq!(requester.sends(), [0; 0]);
    }
}

#[test]
fn copies_of_an_rnr_nak_count_once() {
    let mut requester = Requester::new();
    requester.testbed.a.state.config.rnr_retry = 1;
    assert_eq!(requester.answer(1, Syndrome::RnrNak(1)), Outcome::NotReady);
    assert_eq!(requester.answer(1, Syndrome::RnrNak(1)), Outcome::Duplicate);
    let end = &mut requester.testbed.a;
    assert_eq!(end.state.next_deadline(), Some(10_000));
    end.node.now = 9_999;
    assert!(!timer(&mut end.state, &mut end.node));
    end.node.now = 10_000;
    assert!(timer(&mut end.state, &mut end.node));
    assert_eq!(requester.sends(), [1, 2]);
}

/// What rdma_rxe answers to packets in flight when no receive is posted: an RNR NAK for the first,
/// then for the second a sequence NAK that names the same PSN (rxe_resp.c: the RNR NAK does not set
/// `sent_psn_nak`).
#[test]
fn a_sequence_nak_does_not_end_an_rnr_wait() {
    let mut requester = Requester::new();
    requester.testbed.a.state.config.retry = 0;
    let rnr_nak = Syndrome::RnrNak(RNR_TIMER_CODE);
    let wait = rnr_ns(RNR_TIMER_CODE);
    assert_eq!(requester.answer(0, rnr_nak), Outcome::NotReady);
    assert_eq!(requester.answer(0, MISSING), Outcome::Duplicate);
    assert_eq!(requester.testbed.a.node.events, []);
    assert_eq!(requester.testbed.a.state.next_deadline(), Some(wait));
    assert_eq!(requester.sends(), [0; 0]);
    // It still acknowledges everything before it.
    assert_eq!(requester.answer(1, MISSING), Outcome::Duplicate);
    assert_eq!(requester.testbed.a.state.psns().1, PSN + 1);
    assert_eq!(requester.testbed.a.state.next_deadline(), Some(wait));
    assert_eq!(requester.sends(), [0; 0]);
    let end = &mut requester.testbed.a;
    end.node.now = wait;
    assert!(timer(&mut end.state, &mut end.node));
    assert_eq!(requester.sends(), [1, 2]);
    assert_eq!(requester.testbed.a.node.events, []);
}

#[test]
fn one_rnr_retry_waits_before_it_gives_up() {
    let mut requester = Requester::new();
    requester.testbed.a.state.config.rnr_retry = 1;
    let rnr_nak = Syndrome::RnrNak(RNR_TIMER_CODE);
    requester.answer(0, rnr_nak);
    requester.answer(0, MISSING);
    // The same again before the time is over: copies.
    assert_eq!(requester.answer(0, rnr_nak), Outcome::Duplicate);
    assert_eq!(requester.answer(0, MISSING), Outcome::Duplicate);
    assert_eq!(requester.testbed.a.node.events, []);
    let end = &mut requester.testbed.a;
    end.node.now = rnr_ns(RNR_TIMER_CODE);
    assert!(timer(&mut end.state, &mut end.node));
    assert_eq!(requester.sends(), [0, 1, 2]);
    assert_eq!(requester.answer(0, rnr_nak), Outcome::Refused);
    assert_eq!(event(&requester.testbed.a).0, 0x050F);
}
