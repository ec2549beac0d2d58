//! Completion vectors that come and go while messages are sent.

use e810::{Data, Error, Event, Notify, Object, Op, Platform, VectorEvents, WcStatus};

use super::signaled;
use crate::traffic::{End, Pair};

/// Queue pairs beside the first ones, whose completion queue is on a vector that
/// was added.
const LATE: [End; 2] = [End { side: 0, qp: 1 }, End { side: 1, qp: 1 }];
const BYTES: usize = 64;

/// A vector is added on the second side, tells of messages as those of the
/// bring-up do, is not removed while it is used, and comes again.
pub fn added_and_removed(pair: &mut Pair<impl Platform>) {
    let before = pair.side(1).control.completion_vectors();
    let mut first = None;
    for round in 0..3 {
        let mut added = add(pair);
        let number = added.completion_vector().expect("a number");
        assert_eq!(number, before);
        let reported = (number, added.vector());
        assert_eq!(*first.get_or_insert(reported), reported, "the same again");

        let side = pair.side(1);
        let cqe = side.cqs[0].entries();
        let cq = side.control.create_cq(cqe / 4, number).expect("a CQ");
        assert_eq!(cq.completion_vector(), number);
        side.cqs.push(cq);
        for side in &mut pair.sides {
            side.add_qp();
        }
        for end in LATE {
            pair.connect(end);
        }
        for message in 0..4 {
            tell(pair, &mut added, round << 8 | message);
        }

        let side = pair.side(1);
        let refused = side.control.remove_completion_vector(added);
        let (kept, error) = refused.expect_err("it is in use");
        let object = Object::CompletionVector;
        let id = number.into();
        assert_eq!(
            error,
            Error::InUse {
                object,
                id,
                users: 1
            }
        );
        added = kept;
        for side in &mut pair.sides {
            let qp = side.qps.pop().expect("the late one");
            side.control.destroy_qp(qp).map_err(|(_, e)| e).expect("QP");
        }
        let side = pair.side(1);
        let cq = side.cqs.pop().expect("the late one");
        side.control.destroy_cq(cq).map_err(|(_, e)| e).expect("CQ");
        let removed = side.control.remove_completion_vector(added);
        removed.map_err(|(_, e)| e).expect("it is not in use");
        assert_eq!(side.control.completion_vectors(), before);
    }
}

fn add<P: Platform>(pair: &mut Pair<P>) -> VectorEvents<P> {
    let added = pair.side(1).control.add_completion_vector();
    added.expect("a further vector")
}

/// A message to the late queue pair, told by `events` and by nobody else.
fn tell<P: Platform>(pair: &mut Pair<P>, events: &mut VectorEvents<P>, wr_id: u64) {
    let side = pair.side(1);
    let place = side.sge(side.incoming(), BYTES);
    side.post_recv(LATE[1].qp, wr_id, &[place]).expect("posted");
    let cq = side.cqs.last_mut().expect("the late one");
    let wanted = Event::Completion { cq: cq.number() };
    assert!(!cq.arm(Notify::Any), "it is empty");
    side.polling = false;
    let sge = pair.side(0).sge(0, BYTES);
    let op = Op::Send {
        data: Data::Sges(&[sge]),
        imm: None,
    };
    pair.side(0)
        .post_send(LATE[0].qp, &[signaled(wr_id, op)])
        .expect("posted");
    let mut reported = false;
    pair.until("the event", |_| {
        let _ = events.on_vector(&mut |event| reported |= event == wanted);
        reported
    });
    pair.side(1).polling = true;
    for side in 0..2 {
        let done = pair.completions(side, 1);
        let good = done.first().map(|wc| (wc.status, wc.wr_id));
        assert_eq!(good, Some((WcStatus::Success, wr_id)));
    }
}
