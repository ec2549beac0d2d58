use e810_hal::Iova;
use e810_types::MacAddr;

use super::*;
use crate::Error;

fn context() -> RoceContext {
    let memory = QueueMemory::Contiguous(Iova(0x1_0000));
    let sq = SqContext {
        memory,
        quanta: 64,
        cq: 3,
    };
    let rq = RqContext {
        memory,
        quanta: 32,
        wqe_shift: 0,
        cq: 3,
    };
    RoceContext::new(sq, rq, MacAddr([2, 0, 0, 0, 0, 1]), 9)
}

#[test]
fn every_field_is_checked() {
    let good = context();
    assert!(good.encode().is_ok());
    let field = |bad: RoceContext| match bad.encode() {
        Err(Error::OutOfRange { field, .. }) => field,
        Err(Error::Invalid { what }) => what,
        other => panic!("{other:?}"),
    };
    let peer = good.peer;
    assert_eq!(
        field(RoceContext {
            pd: 1 << 18,
            ..good
        }),
        "PD id"
    );
    assert_eq!(
        field(RoceContext { ird: 128, ..good }),
        "inbound reads (IRD)"
    );
    assert_eq!(
        field(RoceContext { ord: 256, ..good }),
        "outbound reads (ORD)"
    );
    assert_eq!(
        field(RoceContext {
            psn_next: 1 << 24,
            ..good
        }),
        "next PSN"
    );
    assert_eq!(
        field(RoceContext {
            rnr_retries: 8,
            ..good
        }),
        "RNR retry count"
    );
    assert_eq!(
        field(RoceContext {
            path_mtu: 1 << 14,
            ..good
        }),
        "path MTU"
    );
    assert_eq!(
        field(RoceContext {
            push_page: Some(1024),
            ..good
        }),
        "push page"
    );
    assert_eq!(
        field(RoceContext {
            qs_handle: 1024,
            ..good
        }),
        "queue-set handle"
    );
    assert_eq!(
        field(RoceContext {
            peer: Peer {
                flow_label: 1 << 20,
                ..peer
            },
            ..good
        }),
        "flow label"
    );
    let sq = SqContext {
        quanta: 1 << 18,
        ..good.sq
    };
    assert_eq!(field(RoceContext { sq, ..good }), "send queue size code");
    let sq = SqContext {
        quanta: 48,
        ..good.sq
    };
    assert!(field(RoceContext { sq, ..good }).starts_with("a work queue"));
    let sq = SqContext {
        memory: QueueMemory::Pbles(1 << 28),
        ..good.sq
    };
    assert_eq!(field(RoceContext { sq, ..good }), "send queue");
}

#[test]
fn the_words_that_roce_does_not_have_stay_zero() {
    let words = context().encode().unwrap();
    for (index, word) in words.iter().enumerate() {
        if matches!(index * 8, 72 | 104 | 120) || index * 8 > 208 {
            assert_eq!(*word, 0, "word {}", index * 8);
        }
    }
}
