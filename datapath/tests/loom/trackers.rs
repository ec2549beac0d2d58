//! Producer, device and poller on the same ring.

use std::sync::atomic::Ordering;

use e810_datapath::{QpState, Wc};
use e810_hal::{DmaWord, DmaWords};
use loom::sync::atomic::fence;
use loom::thread;

use crate::model;
use crate::rig::{post, rig, write_entry};

/// Producer, device and poller on three threads: what completes has the wr_id of
/// what was posted, although trackers are relaxed, and slots are reused.
#[test]
fn trackers_reach_the_poller_through_the_device() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, ring) = rig.open();
        let producer = thread::spawn(move || {
            assert!(post(&mut recv, 10));
            assert!(post(&mut recv, 11));
        });
        let cq_ring = rig.cq_ring.clone();
        let device = thread::spawn(move || {
            // Looks twice; takes what is valid.
            for slot in 0..2 {
                if ring.words()[slot * 4 + 3].observe() >> 63 == 0 {
                    break;
                }
                fence(Ordering::Acquire);
                write_entry(&cq_ring, slot, qp, 4 << 56 | (slot as u64) << 32);
            }
        });
        let mut wc = [Wc::default(); 2];
        let first = rig.cq.poll(&mut wc);
        let mut seen: Vec<u64> = wc[..first].iter().map(|wc| wc.wr_id).collect();
        producer.join().unwrap();
        device.join().unwrap();
        let more = rig.cq.poll(&mut wc);
        seen.extend(wc[..more].iter().map(|wc| wc.wr_id));
        assert!([10, 11].starts_with(&seen), "{seen:?}");
        assert_eq!(rig.cq.counters(), Default::default());
    });
}

/// The producer uses a tracker again only after the poller has read it.
#[test]
fn a_tracker_is_not_overwritten_before_it_was_read() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, _ring) = rig.open();
        for wr_id in 0..3 {
            assert!(post(&mut recv, wr_id));
        }
        // Slot 0 completes; the next but one post writes its tracker again.
        write_entry(&rig.cq_ring, 0, qp, 4 << 56);
        write_entry(&rig.cq_ring, 1, qp, 4 << 56 | 1 << 32);
        let producer = thread::spawn(move || {
            // Where there is room depends on how far the poller is.
            post(&mut recv, 100);
            post(&mut recv, 101);
        });
        let mut wc = [Wc::default(); 2];
        assert_eq!(rig.cq.poll(&mut wc), 2);
        assert_eq!((wc[0].wr_id, wc[1].wr_id), (0, 1));
        producer.join().unwrap();
    });
}

/// Posting to a QP that control sweeps meanwhile: every receive that was taken
/// completes exactly once.
#[test]
fn a_sweep_loses_nothing_and_doubles_nothing() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, _ring) = rig.open();
        assert!(post(&mut recv, 1));
        rig.registry.set_state(qp, QpState::Err).unwrap();
        let producer = thread::spawn(move || {
            assert!(post(&mut recv, 2));
            recv
        });
        let mut registry = rig.registry;
        let control = thread::spawn(move || {
            registry.sweep(qp).unwrap();
            registry
        });
        let mut seen = Vec::new();
        let mut wc = [Wc::default(); 1];
        // One flush entry of the device races with the sweep.
        write_entry(&rig.cq_ring, 0, qp, 1 << 55 | 1 << 16 | 1);
        for _ in 0..2 {
            if rig.cq.poll(&mut wc) == 1 {
                seen.push(wc[0].wr_id);
            }
        }
        let _recv = producer.join().unwrap();
        let _registry = control.join().unwrap();
        while rig.cq.poll(&mut wc) == 1 {
            seen.push(wc[0].wr_id);
        }
        assert_eq!(seen, [1, 2]);
    });
}
