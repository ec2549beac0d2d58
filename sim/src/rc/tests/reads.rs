//! RDMA reads: limits, order, repetition.

use super::*;
use crate::rc::requester::read_chunk_end;
use crate::rc::tests::testbed::End;
use crate::wire::{Aeth, Bth, Frame, Headers, Opcode, Packet, Reth, Syndrome};

fn testbed() -> Testbed {
    Testbed::new(PathMtu::B256)
}

fn headers(frames: &[Vec<u8>]) -> Vec<Headers> {
    frames
        .iter()
        .map(|frame| Packet::parse(frame).unwrap().headers)
        .collect()
}

fn opcodes(frames: &[Vec<u8>]) -> Vec<Opcode> {
    headers(frames)
        .iter()
        .map(|headers| headers.bth.opcode)
        .collect()
}

/// PSNs and RETHs (offset, length) of read requests.
fn requests(frames: &[Vec<u8>]) -> Vec<(u32, u64, u32)> {
    headers(frames)
        .iter()
        .filter_map(|headers| {
            headers
                .reth
                .map(|reth| (headers.bth.psn, reth.addr - BASE, reth.len))
        })
        .collect()
}

fn pass(frames: &[Vec<u8>], to: &mut End) -> Vec<Outcome> {
    frames.iter().map(|frame| to.take_in(frame)).collect()
}

#[test]
fn ord_limits_what_is_outstanding() {
    let mut testbed = testbed();
    testbed.a.state.config.ord = 3;
    for number in 0..7 {
        testbed.a.post(&Post::read(&[(number * 1000, 300)], 0));
    }
    let first = testbed.a.emit();
    assert_eq!(opcodes(&first), [Opcode::READ_REQUEST; 3]);
    pass(&first, &mut testbed.b);
    let responses = testbed.b.emit();
    assert_eq!(responses.len(), 6);
    // One answered read makes room for another.
    pass(&responses[..2], &mut testbed.a);
    assert_eq!(requests(&testbed.a.emit()), [(0x12_3456 + 6, 0, 300)]);
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 7);
}

#[test]
fn more_reads_than_ird_stop_the_responder() {
    let mut testbed = testbed();
    testbed.b.state.config.ird = 2;
    for _ in 0..3 {
        testbed.a.post(&Post::read(&[(0, 300)], 0));
    }
    let frames = testbed.a.emit();
    assert_eq!(
        pass(&frames, &mut testbed.b),
        [Outcome::Accepted, Outcome::Accepted, Outcome::Refused]
    );
    // Requests that were accepted are answered before the NAK.
    let answers = testbed.b.emit();
    assert_eq!(answers.len(), 5);
    assert_eq!(event(&testbed.b), (0x0207, 0xD, 0));
    pass(&answers, &mut testbed.a);
    assert_eq!(event(&testbed.a), (0x0208, 0x5, 2));
    assert_eq!(testbed.a.node.sent.len(), 2);
}

#[test]
fn read_fence_waits_for_reads_only() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.post(&Post::write(&[(0, 10)], 0).read_fence());
    testbed.a.post(&Post::read(&[(1000, 10)], 0));
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.post(&Post::write(&[(0, 10)], 0).read_fence());
    let frames = testbed.a.emit();
    let expected = [
        Opcode::WRITE_ONLY,
        Opcode::WRITE_ONLY,
        Opcode::READ_REQUEST,
        Opcode::WRITE_ONLY,
    ];
    assert_eq!(opcodes(&frames), expected);
    pass(&frames, &mut testbed.b);
    pass(&testbed.b.emit(), &mut testbed.a);
    assert_eq!(opcodes(&testbed.a.emit()), [Opcode::WRITE_ONLY]);
}

#[test]
fn an_empty_read_has_an_empty_response() {
    let mut testbed = testbed();
    testbed.a.post(&Post::read(&[(0, 0)], 0));
    let request = testbed.a.emit();
    assert_eq!(requests(&request), [(0x12_3456, 0, 0)]);
    pass(&request, &mut testbed.b);
    let response = testbed.b.emit();
    assert_eq!(opcodes(&response), [Opcode::READ_RESPONSE_ONLY]);
    assert_eq!(Packet::parse(&response[0]).unwrap().payload, b"");
    pass(&response, &mut testbed.a);
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 1);
}

#[test]
fn responses_carry_aeth_msn_and_psn() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.post(&Post::read(&[(0, 700)], 0));
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    pass(&testbed.a.emit(), &mut testbed.b);
    let answers = headers(&testbed.b.emit());
    let seen: Vec<_> = answers
        .iter()
        .map(|headers| {
            (
                headers.bth.opcode,
                headers.bth.psn - 0x12_3456,
                headers.aeth.map(|aeth| aeth.msn),
            )
        })
        .collect();
    // The last acknowledge also covers the writes before the read; it is sent after the responses.
    assert_eq!(
        seen,
        [
            (Opcode::READ_RESPONSE_FIRST, 1, Some(2)),
            (Opcode::READ_RESPONSE_MIDDLE, 2, None),
            (Opcode::READ_RESPONSE_LAST, 3, Some(2)),
            (Opcode::ACKNOWLEDGE, 4, Some(3)),
        ]
    );
    assert!(
        answers
            .iter()
            .flat_map(|headers| headers.aeth)
            .all(|aeth| aeth.syndrome == Syndrome::Ack(CREDITS))
    );
}

#[test]
fn an_acknowledge_before_a_read_leaves_before_its_responses() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.post(&Post::read(&[(0, 10)], 0));
    pass(&testbed.a.emit(), &mut testbed.b);
    assert_eq!(
        opcodes(&testbed.b.emit()),
        [Opcode::ACKNOWLEDGE, Opcode::READ_RESPONSE_ONLY]
    );
}

#[test]
fn only_the_missing_part_is_asked_for_again() {
    let mut testbed = testbed();
    testbed.a.post(&Post::read(&[(0, 1300)], 5000));
    pass(&testbed.a.emit(), &mut testbed.b);
    let mut responses = testbed.b.emit();
    assert_eq!(responses.len(), 6);
    responses.remove(2);
    let outcomes = pass(&responses, &mut testbed.a);
    assert_eq!(
        outcomes[..3],
        [Outcome::Accepted, Outcome::Accepted, Outcome::OutOfOrder]
    );
    let again = testbed.a.emit();
    assert_eq!(requests(&again), [(0x12_3456 + 2, 5512, 788)]);
    pass(&again, &mut testbed.b);
    let rest = testbed.b.emit();
    let place = [
        Opcode::READ_RESPONSE_FIRST,
        Opcode::READ_RESPONSE_MIDDLE,
        Opcode::READ_RESPONSE_MIDDLE,
        Opcode::READ_RESPONSE_LAST,
    ];
    assert_eq!(opcodes(&rest), place);
    pass(&rest, &mut testbed.a);
    clean(&testbed);
    assert_eq!(
        testbed.a.node.bytes(0, 1300),
        testbed.b.node.bytes(5000, 1300)
    );
    assert_eq!(testbed.a.node.sent.len(), 1);
}

#[test]
fn an_acknowledge_past_a_read_means_its_response_is_lost() {
    let mut testbed = testbed();
    testbed.a.post(&Post::read(&[(0, 10)], 5000));
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    pass(&testbed.a.emit(), &mut testbed.b);
    let answers = testbed.b.emit();
    assert_eq!(
        opcodes(&answers),
        [Opcode::READ_RESPONSE_ONLY, Opcode::ACKNOWLEDGE]
    );
    pass(&answers[1..], &mut testbed.a);
    assert_eq!(testbed.a.node.sent, []);
    // Both are sent again, without waiting for the timer.
    let again = testbed.a.emit();
    assert_eq!(opcodes(&again), [Opcode::READ_REQUEST, Opcode::WRITE_ONLY]);
    assert_eq!(
        pass(&again, &mut testbed.b),
        [Outcome::Duplicate, Outcome::Duplicate]
    );
    pass(&testbed.b.emit(), &mut testbed.a);
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 2);
}

#[test]
fn a_repeated_read_goes_in_front_of_later_ones() {
    let mut testbed = testbed();
    for number in 0..3 {
        testbed
            .a
            .post(&Post::read(&[(number * 1000, 600)], 10_000 + number * 1000));
    }
    let frames = testbed.a.emit();
    assert_eq!(frames.len(), 3);
    // The first is answered; the others wait.
    pass(&frames[..1], &mut testbed.b);
    assert_eq!(testbed.b.emit().len(), 3);
    pass(&frames[1..], &mut testbed.b);
    let outcomes = pass(&frames, &mut testbed.b);
    assert_eq!(outcomes, [Outcome::Duplicate; 3]);
    let psns: Vec<u32> = headers(&testbed.b.emit())
        .iter()
        .map(|headers| headers.bth.psn - 0x12_3456)
        .collect();
    assert_eq!(psns, (0..9).collect::<Vec<_>>());
}

#[test]
fn repeated_reads_never_crowd_out_a_new_one() {
    let mut testbed = testbed();
    testbed.b.state.config.ird = 2;
    let mut late = Vec::new();
    for number in 0..3 {
        testbed.a.post(&Post::read(&[(number * 100, 10)], 0));
        let request = testbed.a.emit();
        pass(&request, &mut testbed.b);
        pass(&testbed.b.emit(), &mut testbed.a);
        late.extend(request);
    }
    let outcomes = pass(&late, &mut testbed.b);
    assert_eq!(
        outcomes,
        [
            Outcome::Duplicate,
            Outcome::Duplicate,
            Outcome::Dropped(DropReason::Stale)
        ]
    );
    for number in 0..2 {
        testbed.a.post(&Post::read(&[(number * 100, 10)], 0));
    }
    assert_eq!(
        pass(&testbed.a.emit(), &mut testbed.b),
        [Outcome::Accepted; 2]
    );
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 5);
}

#[test]
fn a_late_copy_of_a_read_does_no_harm() {
    let mut testbed = testbed();
    testbed.a.post(&Post::read(&[(0, 10)], 0));
    let request = testbed.a.emit();
    pass(&request, &mut testbed.b);
    testbed.run();
    // The memory is taken back, which software may do.
    testbed.b.node.stags.remove(&RKEY);
    assert_eq!(
        pass(&request, &mut testbed.b),
        [Outcome::Dropped(DropReason::Stale)]
    );
    testbed.run();
    clean(&testbed);
}

#[test]
fn read_with_local_invalidate_invalidates_its_sink() {
    let mut testbed = testbed();
    let stag = testbed.a.node.stags[&LKEY].clone();
    testbed.a.node.stags.insert(0x400, stag);
    testbed
        .a
        .post(&Post::read(&[(0, 300)], 5000).lkey(0x400).opcode(0x0b));
    testbed.a.poll();
    assert!(testbed.a.node.stags[&0x400].valid);
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.node.invalidated, [(0x400, Invalidator::Local)]);
    assert_eq!(
        testbed.a.node.bytes(0, 300),
        testbed.b.node.bytes(5000, 300)
    );
}

#[test]
fn a_response_of_the_wrong_length() {
    let mut testbed = testbed();
    testbed.a.post(&Post::read(&[(0, 600)], 5000));
    let index = testbed.a.post(&Post::nop());
    let request = testbed.a.emit();
    // The responder is given a request for less.
    let Headers { bth, reth, .. } = headers(&request)[0];
    let mut short = Headers::new(bth);
    short.reth = reth.map(|reth| Reth { len: 500, ..reth });
    let frame = Frame::new(&testbed.a.state.config.path, &short, 0).unwrap();
    pass(&[frame.seal()], &mut testbed.b);
    pass(&testbed.b.emit(), &mut testbed.a);
    assert_eq!(event(&testbed.a), (0x0316, 0x9, 0));
    assert_eq!((index, testbed.a.node.sent.len()), (1, 0));
}

/// A read response made by hand, from `b` to `a`.
fn response(testbed: &Testbed, opcode: Opcode, offset: u32, payload: usize) -> Vec<u8> {
    let mut headers = Headers::new(Bth::new(
        opcode,
        testbed.a.state.config.qpn,
        0x12_3456 + offset,
    ));
    headers.aeth = opcode.has_aeth().then_some(Aeth {
        syndrome: Syndrome::Ack(31),
        msn: 1,
    });
    Frame::new(&testbed.b.state.config.path, &headers, payload)
        .unwrap()
        .seal()
}

#[test]
fn a_response_that_ends_too_early_or_too_late() {
    for (opcode, offset, payload) in [
        (Opcode::READ_RESPONSE_LAST, 1, 256),
        (Opcode::READ_RESPONSE_MIDDLE, 2, 88),
        (Opcode::READ_RESPONSE_LAST, 2, 87),
        (Opcode::READ_RESPONSE_MIDDLE, 1, 255),
    ] {
        let mut testbed = testbed();
        testbed.a.post(&Post::read(&[(0, 600)], 5000));
        testbed.a.emit();
        for number in 0..offset {
            let frame = response(&testbed, Opcode::READ_RESPONSE_MIDDLE, number, 256);
            assert_eq!(testbed.a.take_in(&frame), Outcome::Accepted);
        }
        let frame = response(&testbed, opcode, offset, payload);
        assert_eq!(testbed.a.take_in(&frame), Outcome::Refused);
        assert_eq!(event(&testbed.a), (0x0316, 0x9, 0));
    }
}

#[test]
fn a_response_to_something_else() {
    let mut testbed = testbed();
    testbed.b.receive(&[(0, 100)]);
    let index = testbed.a.post(&Post::send(&[(0, 10)]));
    testbed.a.emit();
    let frame = response(&testbed, Opcode::READ_RESPONSE_ONLY, 0, 0);
    testbed.a.take_in(&frame);
    assert_eq!(event(&testbed.a), (0x0314, 0x9, index));
}

#[test]
fn very_long_reads_are_split() {
    assert_eq!(read_chunk_end(0, 10), 10);
    assert_eq!(read_chunk_end(0, 1 << 23), 1 << 21);
    assert_eq!(read_chunk_end((1 << 21) - 1, 1 << 23), 1 << 21);
    assert_eq!(read_chunk_end(1 << 21, 1 << 23), 2 << 21);
    assert_eq!(read_chunk_end((1 << 23) - 1, 1 << 23), 1 << 23);
    // Four requests for the longest message; the third one exceeds what may be outstanding.
    let mut testbed = testbed();
    testbed.a.post(&Post::read(&[(0, 0x7FFF_FFFF)], 0));
    let chunk = 1 << 29;
    let sent = requests(&testbed.a.emit());
    let start = 0x12_3456;
    assert_eq!(
        sent,
        [
            (start, 0, chunk),
            (start + (1 << 21), u64::from(chunk), chunk)
        ]
    );
}
