//! The responder against hand-built requests.

mod invalid;

use super::*;
use crate::rc::tests::testbed::End;
use crate::wire::{Aeth, Bth, Frame, Headers, Nak, Opcode, Packet, Reth, Syndrome};

/// PSN of the first packet expected.
const PSN: u32 = 0x12_3456;

/// A responder that expects [`PSN`], and the sender of packets to it.
struct Responder {
    testbed: Testbed,
}

impl Responder {
    fn new() -> Self {
        Self {
            testbed: Testbed::new(PathMtu::B256),
        }
    }

    fn end(&mut self) -> &mut End {
        &mut self.testbed.b
    }

    fn frame(&self, headers: &Headers, payload: usize) -> Vec<u8> {
        Frame::new(&self.testbed.a.state.config.path, headers, payload)
            .unwrap()
            .seal()
    }

    fn headers(&self, opcode: Opcode, offset: u32) -> Headers {
        let mut headers = Headers::new(Bth::new(
            opcode,
            self.testbed.b.state.config.qpn,
            PSN + offset,
        ));
        headers.bth.ack_request = true;
        headers.immediate = opcode.has_immediate().then_some(1);
        headers.invalidate = opcode.has_ieth().then_some(RKEY);
        headers.reth = opcode.has_reth().then_some(Reth {
            addr: BASE,
            rkey: RKEY,
            len: 0,
        });
        headers
    }

    fn request(&mut self, opcode: Opcode, offset: u32, payload: usize) -> Outcome {
        let frame = self.frame(&self.headers(opcode, offset), payload);
        self.end().take_in(&frame)
    }

    fn write(&mut self, opcode: Opcode, offset: u32, total: u32, payload: usize) -> Outcome {
        let mut headers = self.headers(opcode, offset);
        headers.reth = Some(Reth {
            addr: BASE,
            rkey: RKEY,
            len: total,
        });
        let frame = self.frame(&headers, payload);
        self.end().take_in(&frame)
    }

    /// PSN offset and syndrome of each response.
    fn answers(&mut self) -> Vec<(u32, Syndrome)> {
        let frames = self.end().emit();
        let parse = |frame: &Vec<u8>| {
            let headers = Packet::parse(frame).unwrap().headers;
            (headers.bth.psn - PSN, headers.aeth.unwrap().syndrome)
        };
        frames.iter().map(parse).collect()
    }

    /// The last request was refused as invalid, with this event.
    fn refused_as_invalid(&mut self, offset: u32, code: u16) {
        assert_eq!(
            self.answers(),
            [(offset, Syndrome::Nak(Nak::InvalidRequest))]
        );
        assert_eq!(event(self.end()).0, code);
    }
}

const ACK: Syndrome = Syndrome::Ack(CREDITS);
const MISSING: Syndrome = Syndrome::Nak(Nak::Sequence);

#[test]
fn what_is_not_meant_for_the_qp_is_dropped() {
    let outcome = |change: &dyn Fn(&mut Headers, &mut Testbed)| {
        let mut responder = Responder::new();
        responder.end().receive(&[(0, 100)]);
        let mut headers = responder.headers(Opcode::SEND_ONLY, 0);
        change(&mut headers, &mut responder.testbed);
        let frame = responder.frame(&headers, 4);
        let outcome = responder.end().take_in(&frame);
        if matches!(outcome, Outcome::Dropped(_)) {
            assert_eq!(
                (responder.answers(), responder.end().node.received.len()),
                (vec![], 0)
            );
        }
        outcome
    };
    assert_eq!(outcome(&|_, _| ()), Outcome::Accepted);
    assert_eq!(
        outcome(&|headers, _| headers.bth.pkey = 0x7FFF),
        Outcome::Accepted
    );
    let dropped = |change: &dyn Fn(&mut Headers, &mut Testbed)| match outcome(change) {
        Outcome::Dropped(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        dropped(&|headers, _| headers.bth.dest_qp += 1),
        DropReason::Qp
    );
    assert_eq!(
        dropped(&|headers, _| headers.bth.pkey = 0x8001),
        DropReason::Partition
    );
    // Both are limited members.
    let limited = |headers: &mut Headers, testbed: &mut Testbed| {
        headers.bth.pkey = 0x7FFF;
        testbed.b.state.config.pkey = 0x7FFF;
    };
    assert_eq!(dropped(&limited), DropReason::Partition);
    assert_eq!(
        dropped(&|headers, _| headers.bth.version = 1),
        DropReason::Version
    );
    assert_eq!(
        dropped(&|_, testbed| testbed.a.state.config.path.vlan = Some(5)),
        DropReason::Vlan
    );
    assert_eq!(
        dropped(&|_, testbed| testbed.b.state.config.path.vlan = Some(5)),
        DropReason::Vlan
    );
    // The priority is not compared, and a tag without a VLAN id does not count.
    let priorities = |_: &mut Headers, testbed: &mut Testbed| {
        testbed.a.state.config.path.vlan = Some(0xE005);
        testbed.b.state.config.path.vlan = Some(5);
    };
    assert_eq!(outcome(&priorities), Outcome::Accepted);
    let priority = |_: &mut Headers, testbed: &mut Testbed| {
        testbed.a.state.config.path.vlan = Some(0x6000);
    };
    assert_eq!(outcome(&priority), Outcome::Accepted);
    assert_eq!(
        dropped(&|headers, _| headers.bth.opcode = Opcode(0x24)),
        DropReason::Service
    );
    assert_eq!(
        dropped(&|_, testbed| testbed.b.state.set_mode(Mode::Idle)),
        DropReason::Mode
    );
    assert_eq!(
        dropped(&|_, testbed| testbed.b.state.set_mode(Mode::Error)),
        DropReason::Mode
    );
    assert_eq!(
        dropped(&|_, testbed| testbed.a.state.config.path.ip = testbed.b.state.config.path.ip),
        DropReason::Address
    );
    let ack = |headers: &mut Headers| {
        headers.bth.opcode = Opcode::ACKNOWLEDGE;
        headers.aeth = Some(Aeth {
            syndrome: ACK,
            msn: 0,
        });
    };
    assert_eq!(
        dropped(&|headers, testbed| (ack(headers), testbed.b.state.set_mode(Mode::Rtr)).1),
        DropReason::Mode
    );
    assert_eq!(dropped(&|headers, _| ack(headers)), DropReason::Stale);
}

#[test]
fn a_gap_causes_one_nak() {
    let mut responder = Responder::new();
    for _ in 0..4 {
        responder.end().receive(&[(0, 100)]);
    }
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 0, 1),
        Outcome::Accepted
    );
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 2, 1),
        Outcome::OutOfOrder
    );
    // The NAK acknowledges what came before it.
    assert_eq!(responder.answers(), [(1, MISSING)]);
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 3, 1),
        Outcome::OutOfOrder
    );
    assert_eq!(responder.answers(), []);
    // Earlier packets are still acknowledged when they arrive again.
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 0, 1),
        Outcome::Duplicate
    );
    assert_eq!(responder.answers(), [(0, ACK)]);
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 1, 1),
        Outcome::Accepted
    );
    assert_eq!(responder.answers(), [(1, ACK)]);
    // A new gap causes another NAK.
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 4, 1),
        Outcome::OutOfOrder
    );
    assert_eq!(responder.answers(), [(2, MISSING)]);
    assert_eq!(responder.end().node.received.len(), 2);
}

#[test]
fn a_gap_that_closes_before_its_nak() {
    let mut responder = Responder::new();
    for _ in 0..2 {
        responder.end().receive(&[(0, 100)]);
    }
    responder.request(Opcode::SEND_ONLY, 1, 1);
    responder.request(Opcode::SEND_ONLY, 0, 1);
    // Packet 1 was dropped, so it is missing now.
    assert_eq!(responder.answers(), [(1, MISSING)]);
}

#[test]
fn duplicates_are_acknowledged_and_not_executed() {
    let mut responder = Responder::new();
    responder.end().receive(&[(0, 1000)]);
    assert_eq!(
        responder.request(Opcode::SEND_FIRST, 0, 256),
        Outcome::Accepted
    );
    assert_eq!(
        responder.request(Opcode::SEND_LAST, 1, 4),
        Outcome::Accepted
    );
    assert_eq!(responder.answers(), [(1, ACK)]);
    assert_eq!(
        responder.request(Opcode::SEND_FIRST, 0, 256),
        Outcome::Duplicate
    );
    assert_eq!(
        responder.request(Opcode::SEND_LAST, 1, 4),
        Outcome::Duplicate
    );
    assert_eq!(
        responder.request(Opcode::SEND_FIRST, 0, 256),
        Outcome::Duplicate
    );
    assert_eq!(responder.answers(), [(1, ACK)]);
    assert_eq!(responder.end().node.received.len(), 1);
}

#[test]
fn a_repeated_read_must_lie_in_the_past() {
    let mut responder = Responder::new();
    responder.write(Opcode::READ_REQUEST, 0, 300, 0);
    responder.end().emit();
    assert_eq!(
        responder.write(Opcode::READ_REQUEST, 1, 44, 0),
        Outcome::Duplicate
    );
    let longer = responder.write(Opcode::READ_REQUEST, 1, 300, 0);
    assert_eq!(longer, Outcome::Dropped(DropReason::Stale));
}

#[test]
fn no_acknowledge_that_nobody_asked_for() {
    let mut responder = Responder::new();
    responder.end().receive(&[(0, 1000)]);
    let mut headers = responder.headers(Opcode::SEND_FIRST, 0);
    headers.bth.ack_request = false;
    let frame = responder.frame(&headers, 256);
    responder.end().take_in(&frame);
    assert_eq!(responder.answers(), []);
    responder.request(Opcode::SEND_LAST, 1, 1);
    assert_eq!(responder.answers(), [(1, ACK)]);
}

#[test]
fn rnr_silences_what_follows_until_the_packet_comes_again() {
    let mut responder = Responder::new();
    let turned_away = [(0, Syndrome::RnrNak(RNR_TIMER_CODE))];
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 0, 1),
        Outcome::NotReady
    );
    assert_eq!(responder.answers(), turned_away);
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 1, 1),
        Outcome::OutOfOrder
    );
    assert_eq!(responder.answers(), []);
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 0, 1),
        Outcome::NotReady
    );
    assert_eq!(responder.answers(), turned_away);
    responder.end().receive(&[(0, 10)]);
    assert_eq!(
        responder.request(Opcode::SEND_ONLY, 0, 1),
        Outcome::Accepted
    );
    assert_eq!(responder.answers(), [(0, ACK)]);
}

#[test]
fn acknowledges_and_responses_carry_the_credits_of_the_context() {
    for credits in [0, 2, CREDITS, 31] {
        let mut responder = Responder::new();
        responder.end().state.config.credits = credits;
        responder.end().receive(&[(0, 100)]);
        responder.request(Opcode::SEND_ONLY, 0, 4);
        assert_eq!(responder.answers(), [(0, Syndrome::Ack(credits))]);
        let mut headers = responder.headers(Opcode::READ_REQUEST, 1);
        headers.reth = headers.reth.map(|reth| Reth { len: 300, ..reth });
        let frame = responder.frame(&headers, 0);
        responder.end().take_in(&frame);
        assert_eq!(
            responder.answers(),
            [(1, Syndrome::Ack(credits)), (2, Syndrome::Ack(credits))]
        );
    }
}

#[test]
fn the_rnr_timer_is_a_choice() {
    let mut responder = Responder::new();
    responder.end().state.config.rnr_timer = 3;
    responder.request(Opcode::SEND_ONLY, 0, 4);
    assert_eq!(responder.answers(), [(0, Syndrome::RnrNak(3))]);
}

#[test]
fn a_duplicate_is_acknowledged_with_the_newest_packet() {
    let mut responder = Responder::new();
    for _ in 0..3 {
        responder.end().receive(&[(0, 100)]);
    }
    for offset in 0..3 {
        responder.request(Opcode::SEND_ONLY, offset, 1);
    }
    assert_eq!(responder.answers(), [(2, ACK)]);
    for (ack_request, offset) in [(true, 0), (false, 0), (false, 1)] {
        let mut headers = responder.headers(Opcode::SEND_ONLY, offset);
        headers.bth.ack_request = ack_request;
        let frame = responder.frame(&headers, 1);
        assert_eq!(responder.end().take_in(&frame), Outcome::Duplicate);
        assert_eq!(responder.answers(), [(2, ACK)]);
    }
}

#[test]
fn an_acknowledge_counts_the_messages_up_to_its_packet() {
    let mut responder = Responder::new();
    responder.end().receive(&[(0, 100)]);
    responder.request(Opcode::SEND_ONLY, 0, 1);
    responder.write(Opcode::READ_REQUEST, 1, 300, 0);
    let frames = responder.end().emit();
    let counted: Vec<_> = frames
        .iter()
        .map(|frame| {
            let headers = Packet::parse(frame).unwrap().headers;
            (headers.bth.psn - PSN, headers.aeth.unwrap().msn)
        })
        .collect();
    // The acknowledge of the send, then the two responses of the read.
    assert_eq!(counted, [(0, 1), (1, 2), (2, 2)]);
}
