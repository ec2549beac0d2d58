//! Payload that is read ahead is that of entries that were there before.

use std::collections::BTreeMap;

use super::node::SIZE;
use super::testbed::End;
use super::*;
use crate::wire::Packet;

/// Two ends, one of which sends; each access to its memory takes long.
fn far() -> Testbed {
    let mut testbed = Testbed::new(PathMtu::B1024);
    testbed.a.node.ahead = Some(BTreeMap::new());
    testbed
}

/// The payloads that an end sends now.
fn payloads(end: &mut End) -> Vec<Vec<u8>> {
    let frames = end.emit();
    let payload = |frame: &Vec<u8>| Packet::parse(frame).unwrap().payload.to_vec();
    frames.iter().map(payload).collect()
}

#[test]
fn neighbours_are_read_together() {
    let mut testbed = far();
    let a = &mut testbed.a;
    // Three pages, in turn; an entry of two pieces and one across pages are not plain neighbours.
    let places = [0, 64, 5000, 128, 5064, 9000];
    for at in places {
        a.post(&Post::write(&[(at, 8)], at));
    }
    let expected: Vec<_> = places.map(|at| a.node.bytes(at, 8).to_vec()).into();
    assert_eq!(payloads(a), expected);
    assert_eq!(a.node.payload_reads, 3);
    a.post(&Post::write(&[(4090, 8)], 0));
    a.post(&Post::write(&[(0, 8), (8, 8)], 0));
    a.post(&Post::write(&[(16, 8)], 0));
    let pieces = [(4090, 8), (0, 16), (16, 8)];
    let expected: Vec<_> = pieces
        .map(|(at, len)| a.node.bytes(at, len).to_vec())
        .into();
    assert_eq!(payloads(a), expected);
    assert_eq!(a.node.payload_reads, 3 + 1 + 2 + 1);
}

#[test]
fn an_entry_that_comes_meanwhile_sends_what_is_there_then() {
    let mut testbed = far();
    let a = &mut testbed.a;
    a.post(&Post::write(&[(0, 8)], 0));
    a.post(&Post::write(&[(128, 8)], 0));
    // Between the two, as far as the page goes.
    let mut later = a.clone();
    later.node.memory[64..72].fill(7);
    later.post(&Post::write(&[(64, 8)], 0));
    a.node.meanwhile = Some((later.node.sq, later.node.memory));
    let sent = payloads(a);
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[2], [7; 8]);
    // Nothing is kept for the next time.
    a.software = later.software;
    a.node.memory[0..8].fill(9);
    a.post(&Post::write(&[(0, 8)], 0));
    assert_eq!(payloads(a), [[9; 8]]);
}

#[test]
fn what_may_not_be_read_fails_when_it_is_sent() {
    let mut testbed = far();
    let a = &mut testbed.a;
    a.post(&Post::write(&[(0, 8)], 0));
    for at in [SIZE, SIZE + 8] {
        a.post(&Post::write(&[(at, 8)], 0));
    }
    assert_eq!(payloads(a).len(), 1);
    assert_eq!(a.state.mode(), Mode::Error);
    assert_eq!(a.node.events.len(), 1);
    assert_eq!(a.node.events[0].wqe_index, 1);
}
