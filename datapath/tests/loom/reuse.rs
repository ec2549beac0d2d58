//! Slots that are given to another queue pair while their completion queue is
//! polled.

use e810_datapath::Wc;
use loom::thread;

use crate::model;
use crate::rig::{Cq, Rig, open, post, rig, write_entry};

/// Destroying a QP while its CQ is polled: the id is opened again only when the
/// poller is past everything of the old one. Otherwise the poller, in the middle
/// of the old QP's last entry, would complete the new one's request by it.
#[test]
fn a_slot_is_not_reused_under_the_poller() {
    model(|| reuse::<1>(2, poll));
}

/// The same with a poller that takes both entries in one go, and looks at the
/// slot for the first of them only.
#[test]
fn a_slot_is_not_reused_under_a_run_of_entries() {
    model(|| reuse::<2>(1, poll));
}

/// The same with an owner of the queue who polls and then, in place of a poll, lets go of who is
/// gone.
#[test]
fn a_slot_is_not_reused_under_who_lets_go_of_it() {
    model(|| {
        reuse::<1>(2, |cq, wc, at| {
            if at == 0 {
                return cq.poll(wc);
            }
            cq.forget_gone();
            0
        });
    });
}

fn poll(cq: &mut Cq, wc: &mut [Wc], _: usize) -> usize {
    cq.poll(wc)
}

/// `turns` of `turn`, a poll for `N` completions for example, beside the destruction.
fn reuse<const N: usize>(turns: usize, turn: fn(&mut Cq, &mut [Wc], usize) -> usize) {
    let mut rig = rig();
    let (old, mut recv, _ring) = rig.open();
    for slot in 0..N {
        assert!(post(&mut recv, 1 + slot as u64));
        write_entry(&rig.cq_ring, slot, old, 4 << 56 | (slot as u64) << 32);
    }
    drop(recv);
    let mut cq = rig.cq;
    let poller = thread::spawn(move || {
        let mut seen = Vec::new();
        let mut wc = [Wc::default(); N];
        for at in 0..turns {
            let got = turn(&mut cq, &mut wc, at);
            seen.extend(wc[..got].iter().map(|wc| wc.wr_id));
        }
        (cq, seen)
    });
    let mut registry = rig.registry;
    registry.hide_qp(old).unwrap();
    registry.retire(old).unwrap();
    // Beside the poller, if it has confirmed.
    let mut new = None;
    if registry.reap().is_some() {
        new = Some(open(&mut registry, rig.cq_key));
        let (_, recv, _) = new.as_mut().unwrap();
        assert!(post(recv, 7));
    }
    let (mut cq, seen) = poller.join().unwrap();
    assert!([1, 2][..N].starts_with(&seen), "{seen:?}");
    let mut wc = [Wc::default(); N];
    match new {
        Some((new, ..)) => {
            write_entry(&rig.cq_ring, N, new, 4 << 56);
            assert_eq!(cq.poll(&mut wc), 1);
            assert_eq!(wc[0].wr_id, 7);
        }
        None => {
            assert_eq!(cq.poll(&mut wc), 0);
            assert_eq!(registry.reap(), Some(0), "an idle poll confirms");
        }
    }
}

/// Opening a slot while the poller looks at entries of its former QP, which it
/// has confirmed: the new QP's trackers and tail stay its own.
#[test]
fn a_reopened_slot_is_untouched_by_stale_entries() {
    model(|| {
        let mut rig = rig();
        let (old, recv, _ring) = rig.open();
        drop(recv);
        rig.registry.hide_qp(old).unwrap();
        rig.registry.retire(old).unwrap();
        assert_eq!(rig.cq.poll(&mut [Wc::default()]), 0);
        assert_eq!(rig.registry.reap(), Some(0));
        // A device gone wrong repeats an old entry while the slot is opened.
        write_entry(&rig.cq_ring, 0, old, 4 << 56);
        let Rig {
            mut registry,
            mut cq,
            cq_key,
            cq_ring,
            ..
        } = rig;
        let poller = thread::spawn(move || {
            assert_eq!(cq.poll(&mut [Wc::default()]), 0);
            cq
        });
        let (new, mut recv, _ring) = open(&mut registry, cq_key);
        assert!(post(&mut recv, 7));
        let mut cq = poller.join().unwrap();
        write_entry(&cq_ring, 1, new, 4 << 56);
        let mut wc = [Wc::default()];
        assert_eq!(cq.poll(&mut wc), 1);
        assert_eq!(wc[0].wr_id, 7);
        assert_eq!(cq.counters().stale, 1);
    });
}
