//! The program's own word of a queue: what verbs call `cq_context` and `qp_context`.

use e810::{AccessFlags, AttrMask, CqInit, Notify, QpAttr, QpInit, SendFlags, Wc};
use e810_hal::Ns;
use e810_tests::traffic::{Pair, Setup};

use crate::verbs::{A, B, sim};

const OF_CQ: u64 = u64::MAX - 4;
const OF_QP: u64 = 1 << 63 | 7;

#[test]
fn a_queue_and_its_events_give_back_the_programs_own_word() {
    let sim = sim(43);
    let setup = Setup {
        separate_cqs: true,
        channel: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[1];
    side.polling = false;
    let channel = side.channel.clone().unwrap();
    let (qp, cq) = (side.qps.remove(0), side.cqs.pop().unwrap());
    assert_eq!(
        (qp.user_context(), cq.user_context()),
        (0, 0),
        "of the default"
    );
    side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
    let init = CqInit {
        channel: Some(&channel),
        user_context: OF_CQ,
        ..CqInit::new(64, 1)
    };
    let mut cq = side.control.create_cq_with(&init).unwrap();
    assert_eq!((cq.user_context(), cq.completion_vector()), (OF_CQ, 1));
    let init = QpInit {
        user_context: OF_QP,
        ..QpInit::rc(&side.cqs[0], &cq, Setup::default().caps)
    };
    let mut qp = side.control.create_qp(&side.pd, &init).unwrap();
    let to_init = QpAttr::to_init(AccessFlags::empty());
    side.control.modify_qp(&mut qp, &to_init).unwrap();
    let cqs = &mut [&mut side.cqs[0], &mut cq];
    let _ = side.control.reset_qp(&mut qp, cqs).unwrap();
    side.cqs.push(cq);
    side.qps.push(qp);
    pair.renew(A);
    pair.connect(A);
    pair.connect(B);
    let side = &mut pair.sides[1];
    // It was reset on the way.
    assert_eq!(side.qps[0].user_context(), OF_QP);
    let said = side.control.query_qp(&side.qps[0], AttrMask::empty());
    assert_eq!(said.unwrap().init.user_context, OF_QP);
    assert!(!side.cqs[1].arm(Notify::Any));
    pair.message(SendFlags::empty());
    let platform = pair.sides[1].platform.clone();
    let event = channel.wait(&platform, Ns::from_ms(10), || {
        pair.sides.iter_mut().for_each(|side| {
            side.progress();
        });
    });
    let event = event.unwrap();
    let side = &mut pair.sides[1];
    let of_event = (event.cq(), event.user_context());
    assert_eq!(of_event, (side.cqs[1].key(), OF_CQ));
    assert_eq!(side.cqs[1].poll(&mut [Wc::default(); 4]), 1);
    channel.acknowledge(event, 1).unwrap();
    // Whatever queue has the place of one that had a word begins without.
    let cqs = (0..).map(|_| side.control.create_cq_on(&channel, 16, 0).unwrap());
    let mut cqs: Vec<_> = cqs.take(4).collect();
    assert!(cqs.iter().all(|cq| cq.user_context() == 0));
    for cq in cqs.drain(..) {
        side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
    }
    drop(channel);
    pair.finish(&sim);
}
