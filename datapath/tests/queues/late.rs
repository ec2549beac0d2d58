//! Requests to a queue in error: who waits for them is told, because the device
//! says nothing of them; nothing is reported of what was not posted.

use e810_datapath::slot::Cause;
use e810_datapath::wr::{Data, Op, RecvWr, SendFlags, SendWr, UdTarget};
use e810_datapath::{Notify, QpState};
use e810_types::{FlushCode, WorkQueue};

use crate::common::{Bench, SGE, TestCq, TestQp};

/// How requests are posted.
#[derive(Clone, Copy, Debug)]
enum Way {
    One,
    List,
}

fn datagram<'a>(data: Data<'a>) -> SendWr<'a> {
    SendWr {
        wr_id: 1,
        op: Op::UdSend {
            data,
            imm: None,
            to: UdTarget {
                ah: 1,
                qpn: 2,
                qkey: 3,
            },
        },
        flags: SendFlags::SIGNALED,
    }
}

/// A datagram QP that failed by `queue`: in SQE if it is the send queue, else in
/// ERR.
fn failed(queue: Option<WorkQueue>) -> (Bench, [TestCq; 2], TestQp) {
    let mut bench = Bench::new();
    let cqs = [bench.cq(0, 16), bench.cq(1, 16)];
    let qp = bench.datagram_qp(2, cqs[0].key, cqs[1].key);
    let code = FlushCode::GENERAL;
    bench
        .registry
        .slots()
        .mark_failed(qp.key, Cause { queue, code });
    (bench, cqs, qp)
}

/// The CQs that are told of what `post` does.
fn notified(cqs: &mut [TestCq; 2], post: impl FnOnce()) -> [bool; 2] {
    for cq in &mut *cqs {
        assert!(!cq.cq.arm(Notify::Any));
    }
    post();
    cqs.each_mut().map(|cq| cq.cq.take_event())
}

#[test]
fn sends_in_err_and_sqe_tell_their_queue() {
    for (queue, state) in [(None, QpState::Err), (Some(WorkQueue::Send), QpState::Sqe)] {
        for way in [Way::One, Way::List] {
            let (bench, mut cqs, mut qp) = failed(queue);
            assert_eq!(bench.registry.slots().qp_state(qp.key), Some(state));
            let wr = datagram(Data::Sges(&[SGE]));
            let notified = notified(&mut cqs, || match way {
                Way::One => qp.send.post_one(&wr).unwrap(),
                Way::List => qp.send.post_send(&[wr, wr]).unwrap(),
            });
            assert_eq!(notified, [true, false], "{state}, {way:?}");
        }
    }
}

#[test]
fn receives_in_err_tell_their_queue() {
    for way in [Way::One, Way::List] {
        let (_bench, mut cqs, mut qp) = failed(None);
        let wr = RecvWr {
            wr_id: 1,
            sges: &[SGE],
        };
        let notified = notified(&mut cqs, || match way {
            Way::One => qp.recv.post_one(&wr).unwrap(),
            Way::List => qp.recv.post_recv(&[wr, wr]).unwrap(),
        });
        assert_eq!(notified, [false, true], "{way:?}");
    }
}

/// In SQE the receive queue works on: the device completes what it is given.
#[test]
fn receives_in_sqe_are_the_device_s() {
    let (_bench, mut cqs, mut qp) = failed(Some(WorkQueue::Send));
    let notified = notified(&mut cqs, || qp.post_recv(1).unwrap());
    assert_eq!(notified, [false, false]);
}

#[test]
fn what_was_not_posted_tells_nobody() {
    let sges = [SGE; 14];
    let too_many = datagram(Data::Sges(&sges));
    for queue in [None, Some(WorkQueue::Send)] {
        let (_bench, mut cqs, mut qp) = failed(queue);
        let none = notified(&mut cqs, || {
            qp.send.post_send(&[]).unwrap();
            qp.send.post_one(&too_many).unwrap_err();
            qp.send.post_send(&[too_many]).unwrap_err();
        });
        assert_eq!(none, [false, false], "sends, {queue:?}");
        // A list is posted up to the one that is refused.
        let some = notified(&mut cqs, || {
            let list = [datagram(Data::Sges(&[SGE])), too_many];
            assert_eq!(qp.send.post_send(&list).unwrap_err().posted, 1);
        });
        assert_eq!(some, [true, false], "{queue:?}");
    }
    let (_bench, mut cqs, mut qp) = failed(None);
    let too_many = RecvWr {
        wr_id: 1,
        sges: &sges,
    };
    let none = notified(&mut cqs, || {
        qp.recv.post_recv(&[]).unwrap();
        qp.recv.post_one(&too_many).unwrap_err();
        qp.recv.post_recv(&[too_many]).unwrap_err();
    });
    assert_eq!(none, [false, false], "receives");
}
