//! Requests outside the limits of their queue.

use e810::{Data, Op, QpState, SendFlags, SendWr, Sge, WcStatus};
use e810_datapath::error::{PostError, Refused};
use e810_hal::Ns;
use e810_sim::link::Verdict;
use e810_tests::traffic::{Kind, Pair, Setup, Transfer};
use e810_types::WorkQueue;

use crate::failures::requests::{A, B, refused, send, sim, write};

#[test]
fn posts_outside_the_limits() {
    let sim = sim(1);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let remote = pair.remote(A, 0);
    let side = &mut pair.sides[0];
    let sge = side.sge(0, 8);
    let five = [sge; 5];
    let too_many = |queue| PostError::TooManySges {
        queue,
        got: 5,
        limit: 4,
    };
    assert_eq!(
        side.post_send(0, &[send(1, &five)]),
        refused(too_many(WorkQueue::Send))
    );
    assert_eq!(
        side.post_recv(0, 1, &five),
        refused(too_many(WorkQueue::Recv))
    );
    let long = Sge {
        length: 1 << 31,
        ..sge
    };
    let sge_too_long = PostError::SgeTooLong {
        index: 1,
        length: 1 << 31,
        limit: (1 << 31) - 1,
    };
    assert_eq!(
        side.post_send(0, &[write(1, &[sge, long], remote)]),
        refused(sge_too_long)
    );
    assert_eq!(side.post_recv(0, 1, &[sge, long]), refused(sge_too_long));
    let half = Sge {
        length: 1 << 30,
        ..sge
    };
    let message_too_long = PostError::MessageTooLong {
        bytes: 1 << 31,
        limit: (1 << 31) - 1,
    };
    assert_eq!(
        side.post_send(0, &[send(1, &[half, half])]),
        refused(message_too_long)
    );
    let bytes = [7; 102];
    let inline = SendWr {
        wr_id: 1,
        op: Op::Send {
            data: Data::Inline(&[&bytes]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    let inline_too_long = PostError::InlineTooLong {
        got: 102,
        limit: 101,
    };
    assert_eq!(side.post_send(0, &[inline]), refused(inline_too_long));
    // Of a list, those before the refused one are posted, and they alone.
    let incoming = side.incoming();
    let remote = pair.remote(A, incoming);
    let one = [sge];
    let good = write(5, &one, remote);
    let list = [good, send(6, &five), good];
    assert_eq!(
        pair.sides[0].post_send(0, &list),
        Err(Refused {
            posted: 1,
            error: too_many(WorkQueue::Send)
        })
    );
    let done = pair.completions(0, 1);
    assert_eq!((done[0].wr_id, done[0].status), (5, WcStatus::Success));
    pair.during(Ns::from_ms(1));
    assert_eq!(pair.sides[0].done, []);
    pair.transfer(A, &Transfer::new(Kind::Send, 5000));
    pair.transfer(B, &Transfer::new(Kind::Send, 5000));
    pair.finish(&sim);
}

#[test]
fn queues_hold_exactly_what_was_granted() {
    let sim = sim(2);
    let setup = Setup {
        retry_cnt: 7,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let caps = pair.sides[0].qps[0].caps();
    assert!(caps.max_send_wr >= 64 && caps.max_recv_wr >= 64);
    // No answer for now, so nothing leaves the send queue.
    sim.set_link_hook(Some(Box::new(|_| Verdict::Drop)));
    let incoming = pair.sides[0].incoming();
    let remote = pair.remote(A, incoming);
    let bytes = [9; 101];
    let pieces: [&[u8]; 1] = [&bytes];
    let side = &mut pair.sides[0];
    let request = |wr_id| SendWr {
        wr_id,
        op: Op::Write {
            data: Data::Inline(&pieces),
            remote,
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    let mut sends = 0;
    let full = loop {
        match side.post_send(0, &[request(sends)]) {
            Ok(()) => sends += 1,
            Err(refused) => break refused.error,
        }
    };
    assert_eq!(sends, u64::from(caps.max_send_wr));
    assert!(
        matches!(full, PostError::Full { queue: WorkQueue::Send, needed: 4, free } if free < 4)
    );
    let mut receives = 0;
    let sge = side.sge(incoming, 4);
    let full = loop {
        match side.post_recv(0, 1000 + receives, &[sge]) {
            Ok(()) => receives += 1,
            Err(refused) => break refused.error,
        }
    };
    assert_eq!(receives, u64::from(caps.max_recv_wr));
    assert_eq!(
        full,
        PostError::Full {
            queue: WorkQueue::Recv,
            needed: 1,
            free: 0
        }
    );
    sim.set_link_hook(None);
    let done = pair.completions(0, sends as usize);
    assert!((0..).zip(&done).all(|(id, wc)| wc.wr_id == id));
    assert!(done.iter().all(|wc| wc.status == WcStatus::Success));
    // There is room again.
    pair.transfer(A, &Transfer::new(Kind::Write, 5000));
    pair.finish(&sim);
}

#[test]
fn states_that_take_no_requests() {
    let sim = sim(3);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.renew(A);
    let steps = pair.steps(A);
    let side = &mut pair.sides[0];
    let sge = side.sge(0, 8);
    let wrong = |queue, state| refused(PostError::WrongState { queue, state });
    assert_eq!(
        side.post_recv(0, 1, &[sge]),
        wrong(WorkQueue::Recv, QpState::Reset)
    );
    for (state, step) in [QpState::Reset, QpState::Init, QpState::Rtr]
        .into_iter()
        .zip(&steps)
    {
        assert_eq!(side.qps[0].state(), state);
        assert_eq!(
            side.post_send(0, &[send(1, &[sge])]),
            wrong(WorkQueue::Send, state)
        );
        side.control.modify_qp(&mut side.qps[0], step).unwrap();
    }
    // Connected at last, it works; the peer is to know the new number.
    pair.renew(B);
    let number = pair.number(B);
    assert!(number > 0);
    pair.connect(B);
    pair.renew(A);
    pair.connect(A);
    assert_eq!(pair.sides[0].qps[0].state(), QpState::Rts);
    pair.finish(&sim);
}
