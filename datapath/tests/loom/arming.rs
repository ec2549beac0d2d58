//! Arming: what the program, the event handler and the device write for each
//! other, with the orderings that it is written with. That no order of whole
//! steps is wrong is for the model beside the arm word.

use e810_datapath::slot::NotifyResult;
use e810_datapath::{CqKey, Notify, Slots, Wc};
use e810_hal::{DmaWord, DmaWords};
use loom::thread;

use crate::memory::Memory;
use crate::model;
use crate::rig::{Platform, post, rig, write_entry};

/// What the device needs to take a request, and the handler to tell of it.
struct Device {
    platform: Platform,
    shadow: Memory,
    slots: Slots<Memory>,
    cq: CqKey,
    /// Doorbells taken.
    seen: u64,
    /// Entries written.
    written: u64,
    notified: u32,
}

impl Device {
    /// Takes a request, if there is one, and raises the event at once when there
    /// are entries that were not polled.
    fn take_request(&mut self) {
        let rung = self.platform.rung();
        if rung == self.seen {
            return;
        }
        self.seen = rung;
        let (head, word) = (&self.shadow.words()[0], &self.shadow.words()[4]);
        assert_ne!(
            word.get() >> 14 & 1,
            0,
            "the request is there before its doorbell"
        );
        if head.get() < self.written && self.slots.signal_cq(self.cq).is_delivered() {
            self.notified += 1;
        }
    }
}

/// A completion that comes while the program arms is seen by it, or told to it.
#[test]
fn a_completion_beside_the_request_is_seen_or_notified() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, _ring) = rig.open();
        assert!(post(&mut recv, 7));
        let mut device = Device {
            platform: rig.platform.clone(),
            shadow: rig.cq_shadow.clone(),
            slots: rig.registry.slots().clone(),
            cq: rig.cq_key,
            seen: 0,
            written: 0,
            notified: 0,
        };
        let cq_ring = rig.cq_ring.clone();
        let device = thread::spawn(move || {
            write_entry(&cq_ring, 0, qp, 4 << 56);
            device.written = 1;
            device.take_request();
            device
        });
        let mut wc = [Wc::default(); 2];
        let mut polled = rig.cq.poll(&mut wc);
        if rig.cq.arm(Notify::Any) {
            polled += rig.cq.poll(&mut wc);
        }
        // It would sleep now, or did so already: what is still on its way to the
        // device arrives.
        let mut device = device.join().unwrap();
        device.take_request();
        let notified = rig.cq.take_event();
        assert!(polled == 1 || notified, "slept over");
        assert_eq!(u32::from(notified), device.notified);
        assert_eq!(polled + rig.cq.poll(&mut wc), 1);
        assert_eq!(rig.cq.counters(), Default::default());
    });
}

/// The event of a request and one that control raises meanwhile are one.
#[test]
fn one_request_is_notified_once() {
    model(|| {
        let mut rig = rig();
        let slots = rig.registry.slots().clone();
        let cq = rig.cq_key;
        assert!(!rig.cq.arm(Notify::Any));
        let handler = thread::spawn({
            let slots = slots.clone();
            move || slots.signal_cq(cq)
        });
        let here = slots.signal_cq(cq);
        let there = handler.join().unwrap();
        let notified = [here, there].map(|one| usize::from(one.is_delivered()));
        assert_eq!(notified.iter().sum::<usize>(), 1);
        assert!(rig.cq.take_event());
        assert!(!rig.cq.take_event());
        // The count of events is a word of the slots: nothing else moved.
        assert_eq!(slots.signal_cq(cq), NotifyResult::Spurious);
    });
}
