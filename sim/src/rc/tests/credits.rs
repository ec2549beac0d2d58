//! Sends limited by the credits of the peer.

use super::*;
use crate::wire::{Aeth, Bth, Frame, Headers, Opcode, Packet, Syndrome};

const PSN: u32 = 0x12_3456;

/// PSN offset, and whether an acknowledge is requested, of the packets sent now.
fn sends(testbed: &mut Testbed) -> Vec<(u32, bool)> {
    let frames = testbed.a.emit();
    let parse = |frame: &Vec<u8>| {
        let bth = Packet::parse(frame).unwrap().headers.bth;
        (bth.psn - PSN, bth.ack_request)
    };
    frames.iter().map(parse).collect()
}

/// An acknowledge of packet `offset` with `msn` messages completed and a credit code.
fn acknowledge(testbed: &mut Testbed, offset: u32, msn: u32, credits: u8) {
    let mut headers = Headers::new(Bth::new(Opcode::ACKNOWLEDGE, 0x101, PSN + offset));
    let syndrome = Syndrome::Ack(credits);
    headers.aeth = Some(Aeth { syndrome, msn });
    let path = &testbed.b.state.config.path;
    let frame = Frame::new(path, &headers, 0).unwrap().seal();
    assert_eq!(testbed.a.take_in(&frame), Outcome::Accepted);
}

/// A requester with credit for one message, and with three sends of three packets and a write
/// posted.
fn testbed() -> Testbed {
    let mut testbed = Testbed::new(PathMtu::B256);
    // So that no packet in the middle of a message requests an acknowledge because of its position
    // in the window.
    testbed.a.state.config.window = 256;
    testbed.a.state.set_send_limit(1);
    for _ in 0..3 {
        testbed.a.post(&Post::send(&[(0, 600)]));
    }
    testbed.a.post(&Post::write(&[(0, 100)], 0));
    testbed
}

#[test]
fn sends_beyond_the_credits_go_one_packet_at_a_time() {
    let mut testbed = testbed();
    assert_eq!(sends(&mut testbed), [(0, false), (1, false), (2, true)]);
    acknowledge(&mut testbed, 1, 0, 1);
    assert_eq!(
        sends(&mut testbed),
        [],
        "message 2 is beyond the limit of 1"
    );
    acknowledge(&mut testbed, 2, 1, 0);
    assert_eq!(sends(&mut testbed), [(3, true)]);
    assert_eq!(sends(&mut testbed), []);
    acknowledge(&mut testbed, 3, 1, 0);
    assert_eq!(sends(&mut testbed), [(4, true)]);
    // Two receives: messages 2 and 3. A write needs none.
    acknowledge(&mut testbed, 4, 1, 2);
    assert_eq!(
        sends(&mut testbed),
        [(5, true), (6, false), (7, false), (8, true), (9, true)]
    );
}

#[test]
fn code_31_allows_everything() {
    let mut testbed = testbed();
    assert_eq!(sends(&mut testbed).len(), 3);
    acknowledge(&mut testbed, 0, 0, 31);
    assert_eq!(sends(&mut testbed).len(), 7);
}

#[test]
fn a_requester_that_does_not_count_credits() {
    let mut testbed = testbed();
    testbed.a.state.config.obeys_credits = false;
    assert_eq!(sends(&mut testbed).len(), 10);
}

#[test]
fn a_write_with_immediate_counts_and_a_read_does_not() {
    let mut testbed = Testbed::new(PathMtu::B256);
    testbed.a.state.set_send_limit(0);
    testbed.a.post(&Post::read(&[(0, 100)], 0));
    testbed.a.post(&Post::write(&[(0, 100)], 0));
    testbed.a.post(&Post::write(&[(0, 100)], 0).immediate(1));
    assert_eq!(sends(&mut testbed), [(0, true), (1, true)]);
}

#[test]
fn every_credit_code_gets_everything_across() {
    for credits in 0..32 {
        for stored in [false, true] {
            let mut testbed = Testbed::new(PathMtu::B256);
            testbed.stored = stored;
            testbed.a.state.set_send_limit(0);
            testbed.b.state.config.credits = credits;
            for number in 0..6 {
                testbed.b.receive(&[(5000, 600)]);
                testbed.a.post(&Post::send(&[(0, 600)]));
                testbed.a.post(&Post::read(&[(9000, 10 * number)], 0));
            }
            testbed.run();
            clean(&testbed);
            assert_eq!(
                (testbed.a.node.sent.len(), testbed.b.node.received.len()),
                (12, 6)
            );
            assert_eq!(testbed.a.node.now, 0, "nothing waited for the clock");
        }
    }
}
