//! Events that software raises, beside a poller that is just asking for one.
//!
//! Both sides write a word and then read the other's: the poller its request and
//! then whether there is something to complete, software what is to be completed
//! and then the request. One of them has to see the other.

use e810_datapath::slot::NextEvent;
use e810_datapath::{CompletionQueue, Notify, QpState, Wc};
use loom::thread;

use crate::memory::memory;
use crate::model;
use crate::rig::{Cq, Rig, channel_rig, post, rig};

/// Polls and arms as a program does that then waits: what it polled.
fn poll_until_it_would_sleep(cq: &mut Cq) -> usize {
    let mut wc = [Wc::default(); 2];
    for _ in 0..3 {
        let polled = cq.poll(&mut wc);
        if polled > 0 || !cq.arm(Notify::Any) {
            return polled;
        }
    }
    0
}

/// Control hands the flush of a queue pair in ERR to its poller.
#[test]
fn a_sweep_beside_the_request_is_seen_or_notified() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, _ring) = rig.open();
        assert!(post(&mut recv, 7));
        rig.registry.set_state(qp, QpState::Err).unwrap();
        let slots = rig.registry.slots().clone();
        let Rig {
            mut registry,
            mut cq,
            ..
        } = rig;
        let control = thread::spawn(move || {
            let pending = registry.sweep(qp).unwrap();
            for cq in [pending.send_cq, pending.recv_cq].into_iter().flatten() {
                let _ = slots.signal_by_software(cq);
            }
            registry
        });
        let polled = poll_until_it_would_sleep(&mut cq);
        let _registry = control.join().unwrap();
        assert!(polled == 1 || cq.take_event(), "slept over");
    });
}

/// A receive is posted to a queue pair in ERR that was swept long before.
#[test]
fn a_post_in_error_beside_the_request_is_seen_or_notified() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, _ring) = rig.open();
        rig.registry.set_state(qp, QpState::Err).unwrap();
        let _ = rig.registry.sweep(qp).unwrap();
        let Rig {
            registry, mut cq, ..
        } = rig;
        assert_eq!(cq.poll(&mut [Wc::default(); 2]), 0);
        let producer = thread::spawn(move || {
            assert!(post(&mut recv, 7));
            recv
        });
        let polled = poll_until_it_would_sleep(&mut cq);
        let _recv = producer.join().unwrap();
        assert!(polled == 1 || cq.take_event(), "slept over");
        drop(registry);
    });
}

/// The same when the request of before stands: nothing is written to the device
/// then, only that the program wants to be told by it.
#[test]
fn a_post_in_error_beside_a_pending_request_is_seen_or_notified() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, _ring) = rig.open();
        rig.registry.set_state(qp, QpState::Err).unwrap();
        let _ = rig.registry.sweep(qp).unwrap();
        let Rig {
            registry,
            mut cq,
            cq_key,
            ..
        } = rig;
        assert_eq!(cq.poll(&mut [Wc::default(); 2]), 0);
        assert!(!cq.arm(Notify::Any));
        assert!(registry.slots().signal_by_software(cq_key).is_delivered());
        assert!(cq.take_event());
        let producer = thread::spawn(move || {
            assert!(post(&mut recv, 7));
            recv
        });
        let polled = poll_until_it_would_sleep(&mut cq);
        let _recv = producer.join().unwrap();
        assert!(polled == 1 || cq.take_event(), "slept over");
        drop(registry);
    });
}

/// A handler that found a CQ is held up while the CQ is destroyed and its number
/// given to another one, which asks for an event: the handler neither takes that
/// request, nor tells the other one anything, nor calls it failed.
#[test]
fn a_late_handler_leaves_the_next_life_alone() {
    model(|| {
        let (rig, channel) = channel_rig();
        let Rig {
            mut registry,
            mut cq,
            cq_key: old,
            platform,
            ..
        } = rig;
        let slots = registry.slots().clone();
        assert!(!cq.arm(Notify::Any));
        let handler = thread::spawn({
            let slots = slots.clone();
            move || {
                let _ = slots.signal_cq(old);
                let _ = slots.mark_cq_failed(old);
            }
        });
        drop(cq);
        // What `Control::destroy_cq` waits for.
        assert!(registry.begin_close_cq(old).unwrap().is_nothing());
        registry.close_cq(old).unwrap();
        let new = registry.open_cq_on(0, channel).unwrap();
        let made = CompletionQueue::new(platform, memory(16), memory(8), slots.clone(), new, 4);
        let mut cq = made.unwrap();
        assert!(!cq.take_event());
        assert!(!cq.arm(Notify::Any));
        handler.join().unwrap();
        assert!(!cq.take_event(), "told of an event of the former");
        assert!(!cq.has_failed());
        // The device answers the new request.
        assert!(slots.signal_cq(new).is_delivered(), "the request is gone");
        assert_eq!(slots.take_event(channel), NextEvent::Event(new));
        assert_eq!(slots.take_event(channel), NextEvent::Nothing);
    });
}
