//! The slot protocol under a model checker: every interleaving of the parts.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p e810-datapath --release --test loom`
//!
//! The slot table's words and the rings' words are loom's atomics; the queues
//! and the registry are the crate's own. Rings are as small as they may be (four
//! receive slots, four completion entries), because a receive queue has no
//! reserve; a send queue differs only in what is written into its ring.

#![cfg(loom)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

use std::ops::Deref;
use std::sync::atomic::Ordering;

use e810_datapath::sizing::RqSize;
use e810_datapath::slot::{Atom, Cause, Layout, Marked, QpShape, SlotMemory};
use e810_datapath::{
    CompletionQueue, CqKey, FlushCode, QpKey, QpState, RecvQueue, RecvWr, Registry, Service, Sge,
    Wc,
};
use e810_hal::{Barrier, Bus, Cell, Off, Words};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

struct Word(AtomicU64);

impl Atom for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, Ordering::AcqRel)
    }
    fn fetch_add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::AcqRel)
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.0
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

impl Cell for Word {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    fn observe(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
    fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

/// Shared words.
#[derive(Clone)]
struct Memory(Arc<Vec<Word>>);

fn memory(words: usize) -> Memory {
    Memory(Arc::new(
        (0..words).map(|_| Word(AtomicU64::new(0))).collect(),
    ))
}

impl SlotMemory for Memory {
    type Atom = Word;
    type Lines<const N: usize, const L: usize> = Lines<N, L>;
    type Groups<const N: usize> = Groups<N>;
    fn atoms(&self) -> &[Word] {
        &self.0
    }
    fn lines<const N: usize, const L: usize>(&self, start: usize) -> Option<Lines<N, L>> {
        (start + N * L <= self.0.len()).then(|| Lines(self.clone(), start))
    }
    fn groups<const N: usize>(&self, start: usize, count: usize) -> Option<Groups<N>> {
        (start + N * count <= self.0.len()).then(|| Groups(self.clone(), start, count))
    }
}

/// Lines of [`Memory`], and the word they start at.
struct Lines<const N: usize, const L: usize>(Memory, usize);

impl<const N: usize, const L: usize> Deref for Lines<N, L> {
    type Target = [[Word; N]; L];
    fn deref(&self) -> &[[Word; N]; L] {
        let Self(memory, start) = self;
        memory.0[*start..].as_chunks().0.first_chunk().unwrap()
    }
}

/// Groups of [`Memory`], the word they start at and how many.
struct Groups<const N: usize>(Memory, usize, usize);

impl<const N: usize> Deref for Groups<N> {
    type Target = [[Word; N]];
    fn deref(&self) -> &[[Word; N]] {
        let Self(memory, start, count) = self;
        &memory.0[*start..].as_chunks().0[..*count]
    }
}

impl Words for Memory {
    type Cell = Word;
    fn cells(&self) -> &[Word] {
        &self.0
    }
}

#[derive(Clone)]
struct Platform;

impl Bus for Platform {
    fn read32(&self, _: Off) -> u32 {
        0
    }
    fn write32(&self, _: Off, _: u32) {}
}

impl Barrier for Platform {
    fn to_device(&self) {
        fence(Ordering::Release);
    }
    fn from_device(&self) {
        fence(Ordering::Acquire);
    }
}

type Cq = CompletionQueue<Platform, Memory, Memory>;
type Recv = RecvQueue<Platform, Memory, Memory>;

const RQ: RqSize = RqSize {
    slots: 4,
    shift: 0,
    max_wr: 3,
};

struct Rig {
    registry: Registry<Memory>,
    cq: Cq,
    cq_key: CqKey,
    cq_ring: Memory,
}

fn rig() -> Rig {
    let layout = Layout {
        cqs: 1,
        qps: 1,
        tracker_words: QpShape::tracker_words(2, 4),
    };
    let mut registry = Registry::new(memory(layout.words()), layout).unwrap();
    let cq_key = registry.open_cq(0).unwrap();
    let cq_ring = memory(4 * 4);
    let slots = registry.slots().clone();
    let cq = CompletionQueue::new(Platform, cq_ring.clone(), memory(8), slots, cq_key, 4);
    Rig {
        registry,
        cq: cq.unwrap(),
        cq_key,
        cq_ring,
    }
}

impl Rig {
    fn open(&mut self) -> (QpKey, Recv, Memory) {
        open(&mut self.registry, self.cq_key)
    }
}

/// Opens QP 0: its key, receive queue and ring.
fn open(registry: &mut Registry<Memory>, cq: CqKey) -> (QpKey, Recv, Memory) {
    let shape = QpShape {
        sq_quanta: 2,
        rq_quanta: 4,
        service: Service::Rc,
        send_cq: cq,
        recv_cq: cq,
    };
    let qp = registry.open_qp(0, &shape).unwrap();
    registry.set_state(qp, QpState::Rts).unwrap();
    let ring = memory(4 * 4);
    let slots = registry.slots().clone();
    let recv = RecvQueue::new(Platform, ring.clone(), slots, qp, RQ, 1).unwrap();
    (qp, recv, ring)
}

fn post(recv: &mut Recv, wr_id: u64) -> bool {
    let sges = &[Sge::default()];
    recv.post_one(&RecvWr { wr_id, sges }).is_ok()
}

/// The device writes completion entry `entry` of the first lap.
fn write_entry(ring: &Memory, entry: usize, qp: QpKey, q3: u64) {
    let cells = &ring.cells()[entry * 4..];
    cells[0].set(64);
    cells[1].set(qp.bits());
    cells[2].set(u64::from(qp.id()) << 32);
    fence(Ordering::Release);
    cells[3].publish(q3 | 1 << 63);
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(3);
    }
    builder.max_branches = 20_000;
    builder.check(test);
}

/// Poster, device and poller on three threads: what completes has the wr_id of
/// what was posted, although trackers are relaxed, and slots are reused.
#[test]
fn trackers_reach_the_poller_through_the_device() {
    model(|| {
        let mut rig = rig();
        let (qp, mut recv, ring) = rig.open();
        let poster = thread::spawn(move || {
            assert!(post(&mut recv, 10));
            assert!(post(&mut recv, 11));
        });
        let cq_ring = rig.cq_ring.clone();
        let device = thread::spawn(move || {
            // Looks twice; takes what is valid.
            for slot in 0..2 {
                if ring.cells()[slot * 4 + 3].observe() >> 63 == 0 {
                    break;
                }
                fence(Ordering::Acquire);
                write_entry(&cq_ring, slot, qp, 4 << 56 | (slot as u64) << 32);
            }
        });
        let mut wc = [Wc::default(); 2];
        let first = rig.cq.poll(&mut wc);
        let mut seen: Vec<u64> = wc[..first].iter().map(|wc| wc.wr_id).collect();
        poster.join().unwrap();
        device.join().unwrap();
        let more = rig.cq.poll(&mut wc);
        seen.extend(wc[..more].iter().map(|wc| wc.wr_id));
        assert!([10, 11].starts_with(&seen), "{seen:?}");
        assert_eq!(rig.cq.counters(), Default::default());
    });
}

/// The poster uses a tracker again only after the poller has read it.
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
        let poster = thread::spawn(move || {
            // Where there is room depends on how far the poller is.
            post(&mut recv, 100);
            post(&mut recv, 101);
        });
        let mut wc = [Wc::default(); 2];
        assert_eq!(rig.cq.poll(&mut wc), 2);
        assert_eq!((wc[0].wr_id, wc[1].wr_id), (0, 1));
        poster.join().unwrap();
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
        let poster = thread::spawn(move || {
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
        for _ in 0..3 {
            if rig.cq.poll(&mut wc) == 1 {
                seen.push(wc[0].wr_id);
            }
        }
        let _recv = poster.join().unwrap();
        let _registry = control.join().unwrap();
        while rig.cq.poll(&mut wc) == 1 {
            seen.push(wc[0].wr_id);
        }
        assert_eq!(seen, [1, 2]);
    });
}

/// Destroying a QP while its CQ is polled: the id is opened again only when the
/// poller is past everything of the old one. Otherwise the poller, in the middle
/// of the old QP's last entry, would complete the new one's request by it.
#[test]
fn a_slot_is_not_reused_under_the_poller() {
    model(|| reuse::<1>(2));
}

/// The same with a poller that takes both entries in one go, and looks at the
/// slot for the first of them only.
#[test]
fn a_slot_is_not_reused_under_a_run_of_entries() {
    model(|| reuse::<2>(1));
}

/// `polls` polls for `N` completions beside the destruction.
fn reuse<const N: usize>(polls: usize) {
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
        for _ in 0..polls {
            let got = cq.poll(&mut wc);
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

/// Two event handlers and control: a failure is attended to exactly once, with
/// one of the causes, and never comes back to life.
#[test]
fn a_failure_is_attended_to_once() {
    model(|| {
        let mut rig = rig();
        let (qp, _recv, _ring) = rig.open();
        let handlers: Vec<_> = [2, 3]
            .into_iter()
            .map(|code| {
                let slots = rig.registry.slots().clone();
                thread::spawn(move || {
                    let cause = Cause {
                        queue: None,
                        code: FlushCode(code),
                    };
                    slots.mark_failed(qp, cause)
                })
            })
            .collect();
        let early = rig.registry.take_attention();
        let modified = rig.registry.set_state(qp, QpState::Rts);
        let marks: Vec<Marked> = handlers.into_iter().map(|h| h.join().unwrap()).collect();
        assert_eq!(marks.iter().filter(|mark| **mark == Marked::Now).count(), 1);
        let late = rig.registry.take_attention();
        assert_eq!(early.iter().chain(&late).count(), 1);
        assert_eq!(rig.registry.slots().qp_state(qp), Some(QpState::Err));
        assert!(early.is_none() || modified.is_err());
    });
}

/// A failure racing with the QP's destruction: it finds the QP or it does not,
/// and the slot is free in the end.
#[test]
fn a_failure_does_not_hit_the_next_qp() {
    model(|| {
        let mut rig = rig();
        let (old, recv, _ring) = rig.open();
        let slots = rig.registry.slots().clone();
        let handler = thread::spawn(move || {
            let cause = Cause {
                queue: None,
                code: FlushCode(2),
            };
            slots.mark_failed(old, cause)
        });
        drop(recv);
        rig.registry.hide_qp(old).unwrap();
        rig.registry.retire(old).unwrap();
        assert_eq!(rig.cq.poll(&mut [Wc::default()]), 0);
        let early = rig.registry.reap();
        if early.is_some() {
            let (new, _recv, _ring) = rig.open();
            assert_ne!(handler.join().unwrap(), Marked::Now);
            assert_eq!(rig.registry.slots().qp_state(new), Some(QpState::Rts));
            assert_eq!(rig.registry.take_attention(), None);
        } else {
            assert_eq!(handler.join().unwrap(), Marked::Now);
            assert_eq!(rig.registry.take_attention(), None, "the dead get none");
            assert_eq!(rig.registry.reap(), Some(0));
        }
    });
}
