//! Requests that are not in order, or not at their time: nothing of them is left.

use e810_datapath::{
    Atomic, Data, ExtraOps, Op, PostError, QpState, QpType, RecvWr, Remote, SendLimits, Sge,
    UdTarget, Wc,
};
use e810_types::WorkQueue;

use crate::common::{Bench, LIMITS, SGE};
use crate::recorded::{Event, rig, send};

/// Each limit has its own error, and nothing of the request is left anywhere.
#[test]
fn what_is_not_in_order_is_refused() {
    let limits = SendLimits {
        max_sge: 3,
        max_inline: 39,
        extra: ExtraOps::empty(),
        ..LIMITS
    };
    let long = Sge {
        length: 1 << 31,
        ..SGE
    };
    let half = Sge {
        length: 1 << 30,
        ..SGE
    };
    let bytes = [0u8; 40];
    let remote = Remote { addr: 0, rkey: 0 };
    let atomic = Atomic {
        into: SGE,
        remote,
        compare: None,
        value: 1,
    };
    let to = UdTarget {
        ah: 0,
        qpn: 0,
        qkey: 0,
    };
    let data = Data::Sges(&[]);
    let cases: &[(Op<'_>, PostError)] = &[
        (
            Op::Send {
                data: Data::Sges(&[SGE; 4]),
                imm: None,
            },
            PostError::TooManySges {
                queue: WorkQueue::Send,
                got: 4,
                limit: 3,
            },
        ),
        (
            Op::Send {
                data: Data::Inline(&[&bytes]),
                imm: None,
            },
            PostError::InlineTooLong { got: 40, limit: 39 },
        ),
        (
            Op::Read {
                into: &[SGE, long],
                remote,
            },
            PostError::SgeTooLong {
                index: 1,
                length: 1 << 31,
                limit: 0x7FFF_FFFF,
            },
        ),
        (
            Op::Write {
                data: Data::Sges(&[long]),
                remote,
                imm: None,
            },
            PostError::SgeTooLong {
                index: 0,
                length: 1 << 31,
                limit: 0x7FFF_FFFF,
            },
        ),
        (
            Op::Write {
                data: Data::Sges(&[half, half]),
                remote,
                imm: None,
            },
            PostError::MessageTooLong {
                bytes: 1 << 31,
                limit: 0x7FFF_FFFF,
            },
        ),
        (
            Op::UdSend {
                data,
                imm: None,
                to,
            },
            PostError::WrongOp {
                op: "UD SEND",
                qp_type: QpType::Rc,
            },
        ),
        (Op::Atomic(&atomic), PostError::NotOffered { op: "ATOMIC" }),
        (
            Op::ReadInv { into: &[], remote },
            PostError::NotOffered {
                op: "RDMA_READ_WITH_INV",
            },
        ),
    ];
    let mut rig = rig(limits);
    let good = send(Op::Send { data, imm: None });
    for (op, error) in cases {
        let free = rig.send.free_quanta();
        let refused = rig.send.post_send(&[send(*op), good]).unwrap_err();
        assert_eq!((refused.posted, refused.error), (0, *error));
        assert_eq!(rig.send.post_one(&send(*op)), Err(*error));
        assert_eq!(rig.events(), [], "nothing in the ring, no doorbell");
        assert_eq!(rig.send.free_quanta(), free);

        // Behind a good one: that is posted, and the doorbell rung for it once.
        let refused = rig.send.post_send(&[good, send(*op), good]).unwrap_err();
        assert_eq!((refused.posted, refused.error), (1, *error));
        let events = rig.events();
        let doorbells = events
            .iter()
            .filter(|event| matches!(event, Event::Doorbell(..)));
        assert_eq!(doorbells.count(), 1);
        assert_eq!(rig.send.free_quanta(), free - 1);
    }
    assert_eq!(rig.send.post_send(&[]), Ok(()));
    assert_eq!(rig.events(), [], "an empty list rings no doorbell");

    let recv = |sges| RecvWr { wr_id: 1, sges };
    assert_eq!(
        rig.recv.post_one(&recv(&[SGE, SGE])),
        Err(PostError::TooManySges {
            queue: WorkQueue::Recv,
            got: 2,
            limit: 1
        })
    );
    assert!(matches!(
        rig.recv.post_one(&recv(&[long])),
        Err(PostError::SgeTooLong { .. })
    ));
    assert_eq!(rig.events(), []);
}

#[test]
fn states_take_what_they_take() {
    let mut rig = rig(LIMITS);
    let data = Data::Sges(&[SGE]);
    let wr = send(Op::Send { data, imm: None });
    let recv = RecvWr {
        wr_id: 1,
        sges: &[SGE],
    };
    for (state, sends, receives) in [
        (QpState::Reset, false, false),
        (QpState::Init, false, true),
        (QpState::Rtr, false, true),
        (QpState::Rts, true, true),
        (QpState::Sqd, true, true),
        (QpState::Sqe, true, true),
        (QpState::Err, true, true),
    ] {
        rig.registry.set_state(rig.qp, state).unwrap();
        let wrong = |queue| PostError::WrongState { queue, state };
        let answer = rig.send.post_send(&[wr]).map_err(|refused| refused.error);
        assert_eq!(answer.is_ok(), sends, "{state}");
        if let Err(error) = answer {
            assert_eq!(error, wrong(WorkQueue::Send));
            assert_eq!(rig.send.post_one(&wr), Err(error));
        }
        let answer = rig.recv.post_recv(&[recv]).map_err(|refused| refused.error);
        assert_eq!(answer.is_ok(), receives, "{state}");
        if let Err(error) = answer {
            assert_eq!(error, wrong(WorkQueue::Recv));
            assert_eq!(rig.recv.post_one(&recv), Err(error));
        }
        assert_eq!(rig.send.post_send(&[]), Ok(()));
    }
}

/// A datagram queue only sends datagrams.
#[test]
fn a_datagram_queue_refuses_the_rest() {
    let mut rig = rig(SendLimits {
        qp_type: QpType::Ud,
        ..LIMITS
    });
    let remote = Remote { addr: 0, rkey: 0 };
    let data = Data::Sges(&[SGE]);
    for op in [
        Op::Send { data, imm: None },
        Op::Write {
            data,
            remote,
            imm: None,
        },
        Op::Read {
            into: &[SGE],
            remote,
        },
        Op::LocalInv { stag: 1 },
    ] {
        let wrong = PostError::WrongOp {
            op: op.name(),
            qp_type: QpType::Ud,
        };
        assert_eq!(rig.send.post_one(&send(op)), Err(wrong));
    }
    let to = UdTarget {
        ah: LIMITS.address_handles,
        qpn: 1,
        qkey: 1,
    };
    let op = Op::UdSend {
        data,
        imm: None,
        to,
    };
    let limit = LIMITS.address_handles;
    let no_such = PostError::NoSuchAh { ah: limit, limit };
    assert_eq!(rig.send.post_one(&send(op)), Err(no_such));
    assert_eq!(rig.events(), []);
}

#[test]
fn a_full_queue_says_so_and_recovers() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 64);
    let mut qp = bench.qp(0, cq.key, cq.key);
    for n in 0..255 {
        qp.post(n, 1, true).unwrap();
    }
    let refused = qp.post(255, 1, true).unwrap_err();
    assert_eq!(
        refused.error,
        PostError::Full {
            queue: WorkQueue::Send,
            needed: 1,
            free: 0
        }
    );
    for n in 0..15 {
        qp.post_recv(n).unwrap();
    }
    assert!(matches!(
        qp.post_recv(15).unwrap_err().error,
        PostError::Full {
            queue: WorkQueue::Recv,
            ..
        }
    ));
    cq.device.sent(qp.key, 3);
    cq.device.received(qp.key, 0);
    let mut wc = [Wc::default(); 4];
    assert_eq!(cq.cq.poll(&mut wc), 2);
    assert_eq!((wc[0].wr_id, wc[1].wr_id), (3, 0));
    assert_eq!((qp.send.free_quanta(), qp.recv.free_slots()), (4, 1));
    qp.post(255, 1, true).unwrap();
    qp.post_recv(15).unwrap();
}
