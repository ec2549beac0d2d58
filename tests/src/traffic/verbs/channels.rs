//! Completion channels: waiting, acknowledging, and the end of what is waited for.

use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Poll, Waker};
use std::sync::Arc;

use e810::{Channel, CqEvent, Error, Notify, Platform, SendFlags, Wc};
use e810_hal::Ns;

use super::super::{End, Pair, Setup};

/// Far above the time of a message.
const LIMIT: Ns = Ns::from_ms(2_000);

/// Send and receive completions of a side in two queues on one channel.
#[must_use]
pub fn setup() -> Setup {
    Setup {
        separate_cqs: true,
        channel: true,
        ..Setup::default()
    }
}

fn channel<P: Platform>(pair: &mut Pair<P>, side: usize) -> Channel<P> {
    let side = pair.side(side);
    // Only who was told polls.
    side.polling = false;
    side.channel.clone().expect("a channel")
}

/// The next event of a side's channel; both sides are attended to meanwhile.
fn next<P: Platform>(pair: &mut Pair<P>, channel: &Channel<P>) -> CqEvent {
    let platform = pair.side(0).platform.clone();
    let event = channel.wait(&platform, LIMIT, || {
        pair.sides.iter_mut().for_each(|side| {
            side.progress();
        });
    });
    event.expect("an event")
}

/// Arms queue `cq` of a side, which is empty.
fn arm(pair: &mut Pair<impl Platform>, side: usize, cq: usize) {
    assert!(!pair.side(side).cqs[cq].arm(Notify::Any));
}

fn polled(pair: &mut Pair<impl Platform>, side: usize, cq: usize) -> usize {
    pair.side(side).cqs[cq].poll(&mut [Wc::default(); 4])
}

/// Each event names the queue that has something, and each queue gets its turn.
pub fn several_queues<P: Platform>(pair: &mut Pair<P>) {
    let (here, there) = (channel(pair, 0), channel(pair, 1));
    assert_eq!(there.try_next(), Ok(None));
    let keys = [0, 1].map(|cq| pair.side(1).cqs[cq].key());
    let mut last = None;
    for round in 0..8 {
        arm(pair, 0, 0);
        arm(pair, 1, 1);
        pair.message(SendFlags::empty());
        let event = next(pair, &there);
        assert_eq!(event.cq(), keys[1], "round {round}");
        assert_eq!(polled(pair, 1, 1), 1);
        // The sender is told too, by its own channel.
        let sent = next(pair, &here);
        assert_eq!(sent.cq(), pair.side(0).cqs[0].key());
        assert_eq!(polled(pair, 0, 0), 1);
        there.acknowledge(sent, 1).expect_err("another device's");
        here.acknowledge(sent, 1).expect("acknowledged");
        last = Some(event);
        assert_eq!((here.try_next(), there.try_next()), (Ok(None), Ok(None)));
    }
    // The receiver acknowledges all at once, and no more than it was told.
    let event = last.expect("eight rounds");
    there.acknowledge(event, 8).expect("acknowledged");
    there.acknowledge(event, 1).expect_err("one too many");
}

/// A queue whose events are not acknowledged is not destroyed, and works on; nor
/// is a channel closed while queues are on it.
pub fn unacknowledged<P: Platform>(pair: &mut Pair<P>) {
    let there = channel(pair, 1);
    let closed = pair.side(1).control.close_channel(&there);
    closed.expect_err("two queues are on it");
    let side = pair.side(1);
    let spare = side.control.create_cq_on(&there, 16, 0).expect("a CQ");
    side.control
        .destroy_cq(spare)
        .map_err(|(_, e)| e)
        .expect("unused");
    arm(pair, 1, 1);
    pair.message(SendFlags::empty());
    let event = next(pair, &there);
    assert_eq!(polled(pair, 1, 1), 1);
    // A queue with no queue pairs, whose event was taken: its own is not there, so
    // the one of the receives is destroyed with its queue pair out of the way.
    let side = pair.side(1);
    let qp = side.qps.remove(0);
    side.control
        .destroy_qp(qp)
        .map_err(|(_, e)| e)
        .expect("destroyed");
    let cq = side.cqs.remove(1);
    let (cq, error) = side.control.destroy_cq(cq).expect_err("one event is open");
    let number = cq.number();
    assert_eq!(
        error,
        Error::Unacknowledged {
            cq: number,
            events: 1
        }
    );
    there.acknowledge(event, 1).expect("acknowledged");
    side.control
        .destroy_cq(cq)
        .map_err(|(_, e)| e)
        .expect("now");
    there.acknowledge(event, 1).expect_err("it is gone");
    // Its number, and another generation.
    let cq = side.control.create_cq_on(&there, 64, 0).expect("a CQ");
    assert_ne!(cq.key(), event.cq());
    side.cqs.push(cq);
    side.add_qp();
    let peer = pair.side(0).qps.remove(0);
    let side = pair.side(0);
    side.control
        .destroy_qp(peer)
        .map_err(|(_, e)| e)
        .expect("destroyed");
    side.add_qp();
    for side in [0, 1] {
        pair.connect(End { side, qp: 0 });
    }
    assert_eq!(there.try_next(), Ok(None), "nothing of the old one");
    arm(pair, 1, 1);
    pair.message(SendFlags::empty());
    let event = next(pair, &there);
    assert_eq!(event.cq(), pair.side(1).cqs[1].key());
    there.acknowledge(event, 1).expect("acknowledged");
    assert_eq!(polled(pair, 1, 1), 1);
}

/// Counts how often a task is woken.
#[derive(Debug, Default)]
struct Woken(AtomicU32);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task is woken by the event, by software's as by the device's, and when the
/// channel is closed.
pub fn tasks<P: Platform>(pair: &mut Pair<P>) {
    let there = channel(pair, 1);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let count = || woken.0.load(Ordering::SeqCst);
    arm(pair, 1, 1);
    assert_eq!(there.poll_next(&waker), Poll::Pending);
    pair.message(SendFlags::empty());
    pair.until("the task is woken", |pair| {
        pair.sides.iter_mut().for_each(|side| {
            side.progress();
        });
        count() == 1
    });
    let Poll::Ready(Ok(event)) = there.poll_next(&waker) else {
        panic!("woken for nothing");
    };
    there.acknowledge(event, 1).expect("acknowledged");
    assert_eq!(polled(pair, 1, 1), 1);
    // A queue pair that fails completes its receives by software: asleep, the
    // program is told.
    pair.side(1).post_recv(0, 9, &[]).expect("posted");
    arm(pair, 1, 1);
    assert_eq!(there.poll_next(&waker), Poll::Pending);
    let side = pair.side(1);
    let qp = &mut side.qps[0];
    side.control
        .modify_qp(qp, &e810::QpAttr::to_error())
        .expect("to ERR");
    let event = next(pair, &there);
    assert!(count() >= 2, "woken");
    there.acknowledge(event, 1).expect("acknowledged");
    assert_eq!(polled(pair, 1, 1), 1);
    // Nor does the device say anything of what is posted to it afterwards.
    pair.during(Ns::from_ms(60));
    assert_eq!(polled(pair, 1, 1), 0);
    arm(pair, 1, 1);
    while let Poll::Ready(found) = there.poll_next(&waker) {
        let event = found.expect("open");
        there.acknowledge(event, 1).expect("acknowledged");
    }
    let before = count();
    pair.side(1).post_recv(0, 10, &[]).expect("taken in ERR");
    let event = next(pair, &there);
    assert_eq!(count(), before + 1, "woken");
    there.acknowledge(event, 1).expect("acknowledged");
    assert_eq!(polled(pair, 1, 1), 1);
    // The end: nothing is left on another channel, and it is closed.
    let side = pair.side(1);
    let other = side.control.create_channel().expect("another channel");
    assert_eq!(other.poll_next(&waker), Poll::Pending);
    let before = count();
    side.control
        .close_channel(&other)
        .expect("nothing is on it");
    assert_eq!(count(), before + 1);
    assert_eq!(
        other.poll_next(&waker),
        Poll::Ready(Err(e810::ChannelClosed))
    );
    assert!(
        side.control.close_channel(&other).is_err(),
        "closed already"
    );
    for end in [End { side: 0, qp: 0 }, End { side: 1, qp: 0 }] {
        pair.renew(end);
    }
}
