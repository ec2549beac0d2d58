//! The flush law: every request that was posted and not completed, completes
//! exactly once and in order, whichever way the device flushes.

use e810_datapath::slot::{Cause, Marked};
use e810_datapath::{Data, Op, QpState, SendFlags, SendWr, Wc, WcStatus};
use e810_types::{FlushCode, WorkQueue};
use proptest::prelude::*;

use crate::common::{Bench, ERROR_BIT, FLUSH, SGE, SQ_BIT, TestCq, TestQp};

fn poll(cq: &mut TestCq, most: usize) -> Vec<Wc> {
    let mut wc = vec![Wc::default(); most];
    let count = cq.cq.poll(&mut wc);
    wc.truncate(count);
    wc
}

fn poll_all(cq: &mut TestCq) -> Vec<Wc> {
    let mut all = Vec::new();
    loop {
        let some = poll(cq, 5);
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

fn ids(completions: &[Wc]) -> Vec<u64> {
    completions.iter().map(|wc| wc.wr_id).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    /// One flush entry for each queue that has anything outstanding.
    PerQueue,
    /// One for each request.
    PerRequest,
    /// None: only the sweep completes.
    Silent,
}

#[derive(Clone, Debug)]
enum Step {
    Post {
        recv: bool,
        sges: u64,
        signaled: bool,
    },
    /// The device completes the oldest request of a queue, while it works.
    Complete {
        recv: bool,
    },
    Poll {
        recv_cq: bool,
        most: usize,
    },
    /// The device writes one more of the flush entries it has to write.
    FlushEntry,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 1u64..14, any::<bool>())
            .prop_map(|(recv, sges, signaled)| Step::Post { recv, sges, signaled }),
        2 => any::<bool>().prop_map(|recv| Step::Complete { recv }),
        4 => (any::<bool>(), 0usize..6).prop_map(|(recv_cq, most)| Step::Poll { recv_cq, most }),
        3 => Just(Step::FlushEntry),
    ]
}

struct Rig {
    bench: Bench,
    cqs: Vec<TestCq>,
    qp: TestQp,
    /// wr_id, ring index, signaled; oldest first. [sends, receives]
    outstanding: [Vec<(u64, u64, bool)>; 2],
    posted: [Vec<u64>; 2],
    got: [Vec<u64>; 2],
    entries: Vec<u64>,
}

impl Rig {
    fn new(two_cqs: bool) -> Self {
        let mut bench = Bench::new();
        let mut cqs = vec![bench.cq(0, 700)];
        if two_cqs {
            cqs.push(bench.cq(1, 700));
        }
        let recv_cq = cqs.last().unwrap().key;
        let qp = bench.qp(2, cqs[0].key, recv_cq);
        Self {
            bench,
            cqs,
            qp,
            outstanding: Default::default(),
            posted: Default::default(),
            got: Default::default(),
            entries: Vec::new(),
        }
    }

    fn cq_of(&mut self, recv: bool) -> &mut TestCq {
        let last = self.cqs.len() - 1;
        &mut self.cqs[if recv { last } else { 0 }]
    }

    fn post(&mut self, wr_id: u64, recv: bool, sges: u64, signaled: bool) {
        let index = if recv {
            let index = self.posted[1].len() as u64 % 16;
            if self.qp.post_recv(wr_id).is_err() {
                return;
            }
            index
        } else {
            if self.qp.post(wr_id, sges as usize, signaled).is_err() {
                return;
            }
            u64::MAX
        };
        self.posted[usize::from(recv)].push(wr_id);
        self.outstanding[usize::from(recv)].push((wr_id, index, signaled || recv));
    }

    fn collect(&mut self, recv_cq: bool, most: usize) {
        for wc in poll(self.cq_of(recv_cq), most) {
            let recv = wc.opcode as u8 >= 128;
            self.got[usize::from(recv)].push(wc.wr_id);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_request_completes_once_and_in_order(
        style in prop_oneof![
            Just(Style::PerQueue), Just(Style::PerRequest), Just(Style::Silent)
        ],
        two_cqs in any::<bool>(),
        working in prop::collection::vec(step(), 0..if cfg!(miri) { 12 } else { 60 }),
        failed in prop::collection::vec(step(), 0..if cfg!(miri) { 12 } else { 60 }),
    ) {
        let mut rig = Rig::new(two_cqs);
        let mut id = 0;
        // While it works, receives complete in order.
        for step in working {
            id += 1;
            match step {
                Step::Post { recv, sges, signaled } => rig.post(id, recv, sges, signaled),
                Step::Complete { recv: true } if !rig.outstanding[1].is_empty() => {
                    let (_, index, _) = rig.outstanding[1].remove(0);
                    let key = rig.qp.key;
                    rig.cq_of(true).device.received(key, index);
                }
                Step::Poll { recv_cq, most } => rig.collect(recv_cq, most),
                _ => {}
            }
        }
        // The device stops; control moves the QP to ERR and flushes.
        let key = rig.qp.key;
        rig.bench.registry.set_state(key, QpState::Err).unwrap();
        for recv in [false, true] {
            let bit = if recv { 0 } else { SQ_BIT };
            let count = match style {
                Style::PerQueue => usize::from(!rig.outstanding[usize::from(recv)].is_empty()),
                Style::PerRequest => rig.outstanding[usize::from(recv)].len(),
                Style::Silent => 0,
            };
            rig.entries.extend(std::iter::repeat_n(bit, count));
        }
        for step in failed {
            id += 1;
            match step {
                // Requests are taken, and are flushed as well.
                Step::Post { recv, sges, signaled } => rig.post(id, recv, sges, signaled),
                Step::Poll { recv_cq, most } => rig.collect(recv_cq, most),
                Step::FlushEntry if !rig.entries.is_empty() => {
                    let bit = rig.entries.remove(0);
                    rig.cq_of(bit == 0).device.complete(key, bit | FLUSH);
                }
                _ => {}
            }
        }
        for bit in std::mem::take(&mut rig.entries) {
            rig.cq_of(bit == 0).device.complete(key, bit | FLUSH);
        }
        rig.bench.registry.sweep(key).unwrap();
        id += 1;
        rig.post(id, false, 1, false);
        rig.post(id, true, 1, false);
        // Until both are empty.
        for _ in 0..2 {
            for recv_cq in [false, true] {
                for _ in 0..200 {
                    rig.collect(recv_cq, 7);
                }
            }
        }
        prop_assert_eq!(&rig.got[1], &rig.posted[1], "receives");
        prop_assert_eq!(&rig.got[0], &rig.posted[0], "sends");
        for cq in &rig.cqs {
            let counters = cq.cq.counters();
            prop_assert_eq!((counters.stale, counters.malformed), (0, 0));
        }
    }
}

#[test]
fn a_late_flush_entry_does_not_stop_the_batch() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 32);
    let mut qp = bench.qp(2, cq.key, cq.key);
    let mut other = bench.qp(3, cq.key, cq.key);
    for n in 0..3 {
        qp.post(n, 1, true).unwrap();
    }
    other.post(9, 1, true).unwrap();
    for _ in 0..3 {
        cq.device.complete(qp.key, SQ_BIT | FLUSH);
    }
    cq.device.sent(other.key, 0);
    assert_eq!(ids(&poll(&mut cq, 8)), [0, 1, 2, 9]);
    assert_eq!(cq.cq.counters().late_flushes, 2);
}

/// The cause is told by the first completion, once, whether the device's entry
/// or the sweep makes it.
#[test]
fn the_first_completion_tells_the_cause() {
    for by_device in [true, false] {
        let mut bench = Bench::new();
        let mut cq = bench.cq(0, 32);
        let mut qp = bench.qp(2, cq.key, cq.key);
        for n in 0..3 {
            qp.post(n, 1, true).unwrap();
            qp.post_recv(10 + n).unwrap();
        }
        let slots = bench.registry.slots().clone();
        let cause = Cause {
            queue: Some(WorkQueue::Send),
            code: FlushCode(3),
        };
        assert_eq!(slots.mark_failed(qp.key, cause), Marked::Now);
        assert_eq!(slots.mark_failed(qp.key, cause), Marked::Before);
        assert_eq!(slots.qp_state(qp.key), Some(QpState::Err));
        let attention = bench.registry.take_attention().unwrap();
        assert_eq!((attention.qp, attention.cause), (qp.key, cause));
        assert_eq!(bench.registry.take_attention(), None);
        assert!(bench.registry.set_state(qp.key, QpState::Rts).is_err());

        if by_device {
            let code = SQ_BIT | FLUSH & !0xFFFF | 3;
            cq.device.complete(qp.key, code);
        }
        let pending = bench.registry.sweep(qp.key).unwrap();
        assert_eq!(pending.send_cq, Some(cq.key));
        let statuses: Vec<(u64, WcStatus)> = poll_all(&mut cq)
            .iter()
            .map(|wc| (wc.wr_id, wc.status))
            .collect();
        let flushed = WcStatus::WrFlushErr;
        for (id, status) in [
            (0, WcStatus::RemAccessErr),
            (1, flushed),
            (2, flushed),
            (10, flushed),
            (11, flushed),
            (12, flushed),
        ] {
            assert!(statuses.contains(&(id, status)), "{by_device} {statuses:?}");
        }
        assert_eq!(statuses.len(), 6);
        // Posted later, completed later, without any more entries.
        qp.post(20, 1, false).unwrap();
        let later = poll_all(&mut cq);
        assert_eq!(ids(&later), [20]);
        assert_eq!(later[0].status, flushed);
        assert_eq!(bench.registry.sweep(qp.key).unwrap().send_cq, None);
    }
}

/// Small batches: the flush goes on where it stopped, and requests posted
/// meanwhile are part of it.
#[test]
fn a_flush_goes_on_over_many_polls() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 32);
    let mut qp = bench.qp(2, cq.key, cq.key);
    for n in 0..4 {
        qp.post(n, 13, false).unwrap();
    }
    cq.device.complete(qp.key, SQ_BIT | FLUSH);
    assert_eq!(ids(&poll(&mut cq, 1)), [0]);
    qp.post(4, 1, false).unwrap();
    assert_eq!(ids(&poll(&mut cq, 2)), [1, 2]);
    assert_eq!(ids(&poll(&mut cq, 2)), [3, 4]);
    assert_eq!(ids(&poll(&mut cq, 2)), []);
}

/// What the device completes after software did is known for what it is.
#[test]
fn a_completion_after_the_flush_is_late() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 32);
    let mut qp = bench.qp(2, cq.key, cq.key);
    for n in 0..2 {
        qp.post(n, 1, true).unwrap();
        qp.post_recv(10 + n).unwrap();
    }
    bench.registry.set_state(qp.key, QpState::Err).unwrap();
    let _ = bench.registry.sweep(qp.key).unwrap();
    assert_eq!(poll_all(&mut cq).len(), 4);
    cq.device.sent(qp.key, 0);
    cq.device.received(qp.key, 1);
    cq.device
        .complete(qp.key, SQ_BIT | ERROR_BIT | 2 << 16 | 1 << 32);
    cq.device.complete(qp.key, ERROR_BIT | 2 << 16);
    assert_eq!(poll_all(&mut cq), []);
    let counters = cq.cq.counters();
    assert_eq!((counters.late, counters.malformed), (4, 0));
}

/// A queue in error has its turn on a CQ that another one never lets be empty.
#[test]
fn a_busy_queue_does_not_starve_a_flush() {
    for batch in [1, 4] {
        let mut bench = Bench::new();
        let mut cq = bench.cq(0, 16);
        let mut qp = bench.qp(2, cq.key, cq.key);
        let mut busy = bench.qp(3, cq.key, cq.key);
        bench.registry.set_state(qp.key, QpState::Err).unwrap();
        let _ = bench.registry.sweep(qp.key).unwrap();
        assert_eq!(poll_all(&mut cq).len(), 0);
        let mut wc = [Wc::default(); 4];
        let mut found = Vec::new();
        for n in 0..100 {
            if n % 40 == 0 {
                qp.post(1000 + n, 1, true).unwrap();
            }
            // One more than is polled is always there.
            while cq.device.written < n * batch as u64 + batch as u64 + 1 {
                busy.post(n, 1, true).unwrap();
                let index = cq.device.written % 512;
                cq.device.sent(busy.key, index);
            }
            let got = cq.cq.poll(&mut wc[..batch]);
            assert_eq!(got, batch);
            found.extend(ids(&wc[..got]).into_iter().filter(|id| *id >= 1000));
        }
        assert_eq!(found, [1000, 1040, 1080], "{batch} a call");
        assert_eq!(cq.cq.counters(), Default::default());
    }
}

/// A list that began before the change to ERR tells nobody what it posts. It is found all the same,
/// within a few polls, and what is posted in ERR by the next poll.
#[test]
fn a_post_that_began_before_the_error_is_found() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    let mut qp = bench.qp(2, cq.key, cq.key);
    let mut list = qp.send.list().unwrap();
    bench.registry.set_state(qp.key, QpState::Err).unwrap();
    let _ = bench.registry.sweep(qp.key).unwrap();
    // The sweep is over, and the list of queues was gone through.
    for _ in 0..3 {
        assert_eq!(poll(&mut cq, 4), []);
    }
    let request = SendWr {
        wr_id: 5,
        op: Op::Send {
            data: Data::Sges(&[SGE]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    list.post(&request).unwrap();
    drop(list);
    let polls = (1..100).find(|_| match poll(&mut cq, 4)[..] {
        [] => false,
        [ref wc] => wc.wr_id == 5,
        _ => unreachable!("more than was posted"),
    });
    assert!(polls.is_some_and(|polls| polls <= 16), "{polls:?}");
    qp.post(6, 1, true).unwrap();
    assert_eq!(ids(&poll(&mut cq, 4)), [6]);
}
