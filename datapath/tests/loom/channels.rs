//! Channels: an event is told while another one is taken, and while its queue goes.

use e810_datapath::CqKey;
use e810_datapath::Notify;
use e810_datapath::slot::NextEvent;
use loom::thread;

use crate::model;
use crate::rig::{Rig, channel_rig};

/// An event that comes while the waiter takes the one before is found too, by it
/// or the next time.
#[test]
fn no_event_is_left_in_a_channel() {
    model(|| {
        let (mut rig, channel) = channel_rig();
        let slots = rig.registry.slots().clone();
        let cq = rig.cq_key;
        assert!(!rig.cq.arm(Notify::Any));
        let handler = thread::spawn({
            let slots = slots.clone();
            move || slots.signal_cq(cq)
        });
        let mut seen = 0;
        let take = || matches!(slots.take_event(channel), NextEvent::Event(key) if key == cq);
        if take() {
            seen += 1;
            // Taken, asked for again, and told before the handler thread ends.
            assert!(!rig.cq.arm(Notify::Any));
            assert!(slots.signal_by_software(cq).is_delivered());
        }
        assert!(handler.join().unwrap().is_delivered());
        while take() {
            seen += 1;
        }
        assert!(!slots.has_event(channel));
        assert!(seen >= 1);
        slots.acknowledge_events(cq, seen).unwrap();
        slots.acknowledge_events(cq, 1).unwrap_err();
    });
}

/// Either the handler tells of the queue and its destruction sees that, or it
/// does not tell at all.
#[test]
fn nothing_is_delivered_of_a_queue_that_is_gone() {
    model(|| {
        let (rig, _) = channel_rig();
        let Rig {
            mut registry,
            cq,
            cq_key,
            ..
        } = rig;
        let gone = loom::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let handler = thread::spawn({
            let (slots, gone) = (registry.slots().clone(), gone.clone());
            move || {
                let is_gone = || gone.load(std::sync::atomic::Ordering::Acquire);
                slots.notify_cq(cq_key, || assert!(!is_gone(), "told of the dead"))
            }
        });
        drop(cq);
        if registry.begin_close_cq(cq_key).unwrap().is_nothing() {
            registry.close_cq(cq_key).unwrap();
            gone.store(true, std::sync::atomic::Ordering::Release);
        }
        handler.join().unwrap();
        if !gone.load(std::sync::atomic::Ordering::Acquire) {
            assert!(registry.begin_close_cq(cq_key).unwrap().is_nothing());
        }
    });
}

/// A taker and the destruction: what was taken is seen as not acknowledged, or
/// nothing was taken.
#[test]
fn an_event_is_taken_or_its_queue_goes() {
    model(|| {
        let (mut rig, channel) = channel_rig();
        let slots = rig.registry.slots().clone();
        let cq: CqKey = rig.cq_key;
        assert!(!rig.cq.arm(Notify::Any));
        assert!(slots.signal_cq(cq).is_delivered());
        let taker = thread::spawn(move || slots.take_event(channel));
        let left = rig.registry.begin_close_cq(cq).unwrap();
        let taken = taker.join().unwrap();
        let again = rig.registry.begin_close_cq(cq).unwrap();
        let was_taken = taken == NextEvent::Event(cq);
        assert_eq!(again.unacknowledged, u32::from(was_taken));
        assert_eq!(left, again, "nothing is taken after it was begun");
        if !was_taken {
            // It lives on after all, and the event is found.
            rig.registry.keep_cq(cq);
            let slots = rig.registry.slots();
            assert_eq!(slots.take_event(channel), NextEvent::Event(cq));
        }
    });
}
