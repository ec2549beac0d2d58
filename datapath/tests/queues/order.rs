//! Order of publication.

use e810_datapath::{Data, Notify, Op, QpKey, RecvWr, Remote, Wc};
use e810_hal::DmaWord;

use crate::common::{LIMITS, SGE};
use crate::recorded::{Event, Recording, record, rig, send};

const WQEALLOC: u32 = 0x50_4400;

/// Body words, barrier, header, barrier, doorbell: for every kind of WQE, each
/// WQE's body entirely before its header, and the doorbell once, last.
#[test]
fn body_barrier_header_barrier_doorbell() {
    let sges = [SGE; 13];
    let bytes = [7u8; 101];
    let remote = Remote { addr: 9, rkey: 8 };
    for count in [0, 1, 2, 5, 13] {
        let data = Data::Sges(&sges[..count]);
        let pieces = [&bytes[..count * 7]];
        for op in [
            Op::Send { data, imm: None },
            Op::Send { data, imm: Some(1) },
            Op::SendInv { data, rkey: 1 },
            Op::Write {
                data,
                remote,
                imm: None,
            },
            Op::Read {
                into: &sges[..count],
                remote,
            },
            Op::Send {
                data: Data::Inline(&pieces),
                imm: Some(2),
            },
            Op::LocalInv { stag: 4 },
        ] {
            let mut rig = rig(LIMITS);
            for _ in 0..3 {
                rig.send.post_send(&[send(op)]).unwrap();
                let events = rig.events();
                let [before @ .., Event::ToDevice, Event::Doorbell(off, value)] = &events[..]
                else {
                    panic!("{op:?} ends with {:?}", events.last());
                };
                assert_eq!((*off, *value), (WQEALLOC, 3));
                let mut barrier = true;
                let mut header = 0;
                for (n, event) in before.iter().enumerate() {
                    match event {
                        Event::Body(_) => barrier = false,
                        Event::ToDevice => barrier = true,
                        Event::Publish(index) => {
                            assert!(barrier, "a body word after the barrier: {events:?}");
                            assert_eq!(before[n - 1], Event::ToDevice);
                            header = *index;
                        }
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(header % 4, 3, "the last published word is a header");
                assert!(matches!(before.last(), Some(Event::Publish(_))));
            }
        }
    }
}

#[test]
fn a_receive_has_no_doorbell() {
    let mut rig = rig(LIMITS);
    rig.recv
        .post_recv(&[RecvWr {
            wr_id: 1,
            sges: &[SGE],
        }])
        .unwrap();
    assert_eq!(
        rig.events(),
        [
            Event::Body(0),
            Event::Body(1),
            Event::Body(2),
            Event::ToDevice,
            Event::Publish(3)
        ]
    );
}

/// Valid word, barrier, the rest, then the head index; one that is not valid is
/// not read further.
#[test]
fn a_completion_is_read_after_its_valid_bit() {
    let mut rig = rig(LIMITS);
    let mut wc = [Wc::default()];
    assert_eq!(rig.cq.poll(&mut wc), 0);
    // The short and the slow path each look once.
    assert!(rig.events().iter().all(|event| *event == Event::Observe(3)));

    let data = Data::Sges(&[SGE]);
    rig.send
        .post_send(&[send(Op::Send { data, imm: None })])
        .unwrap();
    for (n, word) in [0, rig.qp.bits(), 3 << 32, 3 << 62 | 3 << 56]
        .iter()
        .enumerate()
    {
        rig.cq_ring[n].word.set(*word);
    }
    rig.events();
    assert_eq!(rig.cq.poll(&mut wc), 1);
    let events = rig.events();
    let polls = events
        .iter()
        .take_while(|event| **event == Event::Observe(3))
        .count();
    assert!(polls > 0);
    assert_eq!(events[polls], Event::FromDevice);
    assert_eq!(events.last(), Some(&Event::Publish(0)), "head index last");
    let reads = &events[polls + 1..events.len() - 1];
    assert!(!reads.is_empty());
    assert!(
        reads
            .iter()
            .all(|event| matches!(event, Event::Read(0..=2)))
    );
}

#[test]
fn an_arm_word_precedes_its_doorbell() {
    let mut rig = rig(LIMITS);
    assert!(!rig.cq.arm(Notify::Any));
    let mut events = rig.events();
    // Then the ring is looked at.
    assert_eq!(events.pop(), Some(Event::Observe(3)));
    assert_eq!(
        events,
        [
            Event::Publish(4),
            Event::ToDevice,
            Event::Doorbell(0x50_2C00, 0)
        ]
    );
}

/// The device reads head and count of drained rings as two words: a head of the
/// old ring must never be taken for one of the new.
#[test]
fn a_new_ring_begins_with_its_head() {
    let mut rig = rig(LIMITS);
    // The old ring is somewhere in the middle.
    let complete = |ring: &[Recording], at: usize, index: u64, key: QpKey| {
        let words = [0, key.bits(), u64::from(key.id()) << 32];
        for (n, word) in words.into_iter().enumerate() {
            ring[4 * at + n].word.set(word);
        }
        let header = 1 << 63 | 1 << 62 | 3 << 56 | index << 32;
        ring[4 * at + 3].word.publish(header);
    };
    let op = Op::Send {
        data: Data::Sges(&[SGE]),
        imm: None,
    };
    for _ in 0..2 {
        rig.send.post_one(&send(op)).unwrap();
    }
    let mut wc = [Wc::default(); 4];
    complete(rig.cq_ring, 0, 0, rig.qp);
    assert_eq!(rig.cq.poll(&mut wc), 1);
    let new = record(&rig.log, 100..116);
    assert!(rig.cq.resized(new, 4).is_ok());
    complete(new, 0, 1, rig.qp);
    rig.events();
    assert_eq!(rig.cq.poll(&mut wc), 1);
    let events = rig.events();
    let stores: Vec<Event> = events
        .into_iter()
        .filter(|event| matches!(event, Event::Publish(_) | Event::ToDevice))
        .collect();
    let head = Event::Publish(0);
    assert_eq!(stores, [head, Event::ToDevice, Event::Publish(4), head]);
}
