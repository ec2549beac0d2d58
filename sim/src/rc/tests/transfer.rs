//! Every operation and every size on a perfect link.

use super::*;
use crate::wire::Packet;

const MTU: u32 = 256;

/// Sizes around the borders of packets.
const SIZES: &[u32] = if cfg!(miri) {
    &[0, 1, MTU, MTU + 1]
} else {
    &[
        0,
        1,
        3,
        4,
        MTU - 1,
        MTU,
        MTU + 1,
        2 * MTU - 1,
        2 * MTU,
        2 * MTU + 1,
        5 * MTU + 7,
        100 * MTU,
    ]
};

fn testbed() -> Testbed {
    Testbed::new(PathMtu::B256)
}

#[test]
fn send_of_every_size() {
    for &size in SIZES {
        let mut testbed = testbed();
        let slot = testbed.b.receive(&[(1000, 200_000)]);
        let index = testbed.a.post(&Post::send(&[(50_000, size)]));
        testbed.run();
        clean(&testbed);
        assert_eq!(sent(&testbed.a), [(index, 3)], "{size}");
        let received = testbed.b.node.received[0];
        assert_eq!(
            (received.wqe_index, received.byte_len, received.solicited),
            (slot, size, false)
        );
        assert_eq!((received.immediate, received.invalidated), (None, None));
        let last = if size > MTU { 0x02 } else { 0x04 };
        assert_eq!(received.op, last, "{size}");
        let size = size as usize;
        assert_eq!(
            testbed.b.node.bytes(1000, size),
            testbed.a.node.bytes(50_000, size)
        );
        // The memory behind it is unchanged.
        assert_eq!(testbed.b.node.bytes(1000 + size, 10), {
            let mut fresh = testbed.b.node.clone();
            fresh.fill(0x3C);
            fresh.bytes(1000 + size, 10).to_vec()
        });
        let packets = (size as u32).div_ceil(MTU).max(1);
        let (next, oldest, _) = testbed.a.state.psns();
        assert_eq!((next, oldest), (0x12_3456 + packets, 0x12_3456 + packets));
        assert_eq!(
            (received.psn, testbed.a.node.sent[0].psn),
            (next - 1, next - 1)
        );
        assert_eq!(testbed.b.state.psns().2, next);
    }
}

#[test]
fn write_of_every_size() {
    for &size in SIZES {
        let mut testbed = testbed();
        let index = testbed.a.post(&Post::write(&[(50_000, size)], 333));
        testbed.run();
        clean(&testbed);
        assert_eq!(sent(&testbed.a), [(index, 0)]);
        assert_eq!(testbed.b.node.received, []);
        let size = size as usize;
        assert_eq!(
            testbed.b.node.bytes(333, size),
            testbed.a.node.bytes(50_000, size)
        );
    }
}

#[test]
fn read_of_every_size() {
    for &size in SIZES {
        let mut testbed = testbed();
        let index = testbed.a.post(&Post::read(&[(10, size)], 70_001));
        testbed.run();
        clean(&testbed);
        assert_eq!(sent(&testbed.a), [(index, 1)]);
        let size = size as usize;
        assert_eq!(
            testbed.a.node.bytes(10, size),
            testbed.b.node.bytes(70_001, size)
        );
    }
}

#[test]
fn immediate_solicited_and_invalidate() {
    let mut testbed = testbed();
    for _ in 0..6 {
        testbed.b.receive(&[(0, 5000)]);
    }
    let posts = [
        Post::send(&[(0, 700)]).immediate(0xDEAD_BEEF),
        Post::send(&[(0, 10)]).immediate(7).solicited(),
        Post::write(&[(0, 700)], 100).immediate(0x0102_0304),
        Post::write(&[], 0).immediate(9).solicited(),
        Post::send(&[(0, 700)]).opcode(4).low(RKEY),
        Post::send(&[(0, 1)]).solicited(),
    ];
    for post in &posts {
        testbed.a.post(post);
    }
    testbed.run();
    clean(&testbed);
    let got: Vec<_> = testbed
        .b
        .node
        .received
        .iter()
        .map(|r| (r.op, r.byte_len, r.immediate, r.invalidated, r.solicited))
        .collect();
    assert_eq!(
        got,
        [
            (0x03, 700, Some(0xDEAD_BEEF), None, false),
            (0x05, 10, Some(7), None, true),
            (0x09, 700, Some(0x0102_0304), None, false),
            (0x0b, 0, Some(9), None, true),
            (0x16, 700, None, Some(RKEY), false),
            (0x04, 1, None, None, true),
        ]
    );
    assert_eq!(testbed.b.node.invalidated, [(RKEY, Invalidator::Remote)]);
    let ops: Vec<u8> = testbed
        .a
        .node
        .sent
        .iter()
        .map(|completion| completion.op)
        .collect();
    assert_eq!(ops, [3, 5, 0, 0x0d, 4, 5]);
}

#[test]
fn only_the_last_packet_is_solicited() {
    let mut testbed = testbed();
    testbed.a.post(&Post::send(&[(0, 700)]).solicited());
    let bits = |frames: &[Vec<u8>]| -> Vec<bool> {
        frames
            .iter()
            .map(|frame| Packet::parse(frame).unwrap().headers.bth.solicited)
            .collect()
    };
    assert_eq!(bits(&testbed.a.emit()), [false, false, true]);
}

#[test]
fn fields_become_completion_entries() {
    let mut testbed = testbed();
    testbed.b.receive(&[(0, 100)]);
    testbed.a.post(&Post::send(&[(0, 8)]).immediate(5));
    testbed.run();
    let cqe = testbed.b.node.received[0].cqe(0x102, 0xABCD);
    assert_eq!((cqe.op, cqe.payload_len, cqe.immediate), (5, 8, Some(5)));
    assert_eq!(
        (cqe.qp_id, cqe.context, cqe.send_queue, cqe.error),
        (0x102, 0xABCD, false, false)
    );
    let cqe = testbed.a.node.sent[0].cqe(0x101, 0x1234);
    assert_eq!(
        (cqe.op, cqe.qp_id, cqe.context, cqe.send_queue),
        (3, 0x101, 0x1234, true)
    );
}

#[test]
fn many_fragments_on_both_sides() {
    let sizes = [1, 0, 100, 255, 256, 257, 3, 511, 1, 1, 700, 2, 9];
    let mut at = 0;
    let pieces: Vec<_> = sizes
        .iter()
        .map(|&len| {
            at += 1000;
            (at, len)
        })
        .collect();
    let total: u32 = sizes.iter().sum();
    let mut testbed = testbed();
    testbed
        .b
        .receive(&[(300_000, 10), (310_000, 300), (320_000, 5000)]);
    testbed.a.post(&Post::send(&pieces));
    testbed.a.post(&Post::write(&pieces, 400_000));
    testbed.a.post(&Post::read(&pieces, 500_000));
    let expected: Vec<u8> = pieces
        .iter()
        .flat_map(|&(offset, len)| testbed.a.node.bytes(offset, len as usize).to_vec())
        .collect();
    testbed.run();
    clean(&testbed);
    let b = &testbed.b.node;
    let received = [
        b.bytes(300_000, 10),
        b.bytes(310_000, 300),
        b.bytes(320_000, total as usize - 310),
    ]
    .concat();
    assert!(received == expected);
    assert!(b.bytes(400_000, total as usize) == expected);
    let read: Vec<u8> = pieces
        .iter()
        .flat_map(|&(offset, len)| testbed.a.node.bytes(offset, len as usize).to_vec())
        .collect();
    assert!(read == b.bytes(500_000, total as usize));
}

#[test]
fn inline_payload_is_sent_without_reading_memory() {
    for size in [0, 1, 8, 9, 39, 40, 101] {
        let data: Vec<u8> = (1..=size).collect();
        let mut testbed = testbed();
        testbed.b.receive(&[(64, 200)]);
        testbed.a.node.broken_memory = true;
        testbed.a.post(&Post::send_inline(&data));
        testbed.run();
        clean(&testbed);
        assert_eq!(testbed.b.node.bytes(64, data.len()), data);
        assert_eq!(testbed.b.node.received[0].byte_len, u32::from(size));
    }
}

#[test]
fn psn_wraps_at_24_bits() {
    let mut testbed = Testbed::with_psns(PathMtu::B256, 0xFF_FFFE, 0xFF_FFFF);
    testbed.b.receive(&[(0, 100_000)]);
    testbed.a.receive(&[(0, 100_000)]);
    testbed.a.post(&Post::send(&[(200_000, 5000)]));
    testbed.a.post(&Post::read(&[(300_000, 5000)], 400_000));
    testbed.a.post(&Post::write(&[(200_000, 5000)], 500_000));
    testbed.b.post(&Post::send(&[(200_000, 1)]));
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.state.psns(), (58, 58, 0));
    assert!(testbed.b.node.bytes(0, 5000) == testbed.a.node.bytes(200_000, 5000));
    assert!(testbed.b.node.bytes(500_000, 5000) == testbed.a.node.bytes(200_000, 5000));
    assert!(testbed.b.node.bytes(400_000, 5000) == testbed.a.node.bytes(300_000, 5000));
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn both_directions_at_once() {
    let mut testbed = Testbed::new(PathMtu::B1024);
    for number in 0..10 {
        for end in [&mut testbed.a, &mut testbed.b] {
            end.receive(&[(number * 10_000, 10_000)]);
            end.post(&Post::send(&[(500_000, 9999)]));
            end.post(&Post::read(&[(700_000 + number * 10_000, 4000)], 600_000));
        }
    }
    testbed.run();
    clean(&testbed);
    for (end, peer) in [(&testbed.a, &testbed.b), (&testbed.b, &testbed.a)] {
        assert_eq!((end.node.sent.len(), end.node.received.len()), (20, 10));
        assert!(end.node.bytes(0, 9999) == peer.node.bytes(500_000, 9999));
        assert!(end.node.bytes(790_000, 4000) == peer.node.bytes(600_000, 4000));
    }
}

#[test]
fn only_what_takes_a_receive_is_solicited() {
    let requests = [
        (Post::send(&[(0, 600)]).solicited(), true),
        (Post::write(&[(0, 600)], 0).solicited().immediate(1), true),
        (Post::write(&[(0, 600)], 0).solicited(), false),
    ];
    for (post, expected) in requests {
        let mut testbed = Testbed::new(PathMtu::B256);
        testbed.a.post(&post);
        let frames = testbed.a.emit();
        let solicited: Vec<_> = frames
            .iter()
            .map(|frame| {
                let packet = Packet::parse(frame).unwrap();
                packet.headers.bth.solicited
            })
            .collect();
        assert_eq!(solicited, [false, false, expected]);
    }
}
