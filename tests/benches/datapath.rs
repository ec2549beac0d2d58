//! What posting and polling cost the CPU, on plain memory.
//!
//! The loop of the published baseline: rings of 1024, one batch posts 64, the
//! bench plays the device and completes 64, then polls 64; only the phase named
//! is timed. Doorbells are plain stores, completions are in the cache: on a
//! card both cost more, for any driver.
//!
//! The rows of single posts build a request for each and keep the whole `Result`
//! (`black_box`): both are copies, of 72 and of 40 bytes, of what was written
//! field by field just before, which processors do not forward from store to
//! load, so that most of the time is spent waiting for that. In the rows
//! "checked" a request is made once and gets its wr_id for each post, and the
//! result is looked at, as callers do and as the loop of the baseline does.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use e810_datapath::{Data, Op, RecvWr, Remote, SendFlags, SendWr, Sge, Wc};
use e810_tests::plain::{Queues, Spec};

type Rig = Queues<false>;

const BATCH: u64 = 64;
const SGE: Sge = Sge {
    addr: 0x1000_0000,
    length: 64,
    lkey: 0x500,
};
const REMOTE: Remote = Remote {
    addr: 0x2000_0000,
    rkey: 0x600,
};

fn wr<'a>(wr_id: u64, op: Op<'a>) -> SendWr<'a> {
    SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
    }
}

/// Times `timed` over whole batches; `posted` and `polled` are the other
/// phases.
fn batches(
    iterations: u64,
    mut before: impl FnMut(),
    mut timed: impl FnMut(),
    mut after: impl FnMut(),
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..iterations {
        before();
        let start = Instant::now();
        timed();
        total += start.elapsed();
        after();
    }
    total
}

struct Loop {
    rig: std::cell::RefCell<Rig>,
    next: std::cell::Cell<u64>,
}

impl Loop {
    fn new() -> Self {
        Self {
            rig: std::cell::RefCell::new(Rig::new(&Spec::default())),
            next: std::cell::Cell::new(0),
        }
    }

    fn post_each(&self, post: impl Fn(&mut Rig, u64)) {
        let rig = &mut *self.rig.borrow_mut();
        for i in 0..BATCH {
            post(rig, i);
        }
    }

    /// Completes the last 64 requests of `quanta` quanta each.
    fn complete(&self, quanta: u64) {
        let rig = &mut *self.rig.borrow_mut();
        for i in 0..BATCH {
            rig.complete_send((self.next.get() + i * quanta) % 1024);
        }
        self.next.set(self.next.get() + BATCH * quanta);
    }

    fn complete_recv(&self) {
        let rig = &mut *self.rig.borrow_mut();
        for i in 0..BATCH {
            rig.complete_recv((self.next.get() + i) % 1024);
        }
        self.next.set(self.next.get() + BATCH);
    }

    fn poll<const N: usize>(&self) {
        let rig = &mut *self.rig.borrow_mut();
        let mut wc = [Wc::default(); N];
        let mut left = BATCH as usize;
        while left > 0 {
            let got = rig.cq.poll(black_box(&mut wc));
            assert!(got > 0);
            left -= got;
        }
    }
}

fn post_send(rig: &mut Rig, i: u64) {
    let sges = [SGE];
    let op = Op::Send {
        data: Data::Sges(&sges),
        imm: None,
    };
    let _ = black_box(rig.send.post_one(black_box(&wr(i, op))));
}

fn post_write(rig: &mut Rig, i: u64) {
    let sges = [SGE];
    let op = Op::Write {
        data: Data::Sges(&sges),
        remote: REMOTE,
        imm: None,
    };
    let _ = black_box(rig.send.post_one(black_box(&wr(i, op))));
}

fn post_inline(rig: &mut Rig, i: u64) {
    let bytes = [7u8; 32];
    let pieces = [&bytes[..]];
    let op = Op::Send {
        data: Data::Inline(&pieces),
        imm: None,
    };
    let _ = black_box(rig.send.post_one(black_box(&wr(i, op))));
}

fn post_recv(rig: &mut Rig, i: u64) {
    let sges = [SGE];
    let wr = RecvWr {
        wr_id: i,
        sges: &sges,
    };
    let _ = black_box(rig.recv.post_one(black_box(&wr)));
}

fn post_checked(rig: &mut Rig, op: Op<'_>) {
    let mut wr = wr(0, op);
    for i in 0..BATCH {
        wr.wr_id = i;
        assert!(rig.send.post_one(black_box(&wr)).is_ok());
    }
}

fn send_checked(rig: &mut Rig) {
    let op = Op::Send {
        data: Data::Sges(&[SGE]),
        imm: None,
    };
    post_checked(rig, op);
}

fn write_checked(rig: &mut Rig) {
    let op = Op::Write {
        data: Data::Sges(&[SGE]),
        remote: REMOTE,
        imm: None,
    };
    post_checked(rig, op);
}

fn inline_checked(rig: &mut Rig) {
    let op = Op::Send {
        data: Data::Inline(&[&[7u8; 32]]),
        imm: None,
    };
    post_checked(rig, op);
}

fn recv_checked(rig: &mut Rig) {
    let mut wr = RecvWr {
        wr_id: 0,
        sges: &[SGE],
    };
    for i in 0..BATCH {
        wr.wr_id = i;
        assert!(rig.recv.post_one(black_box(&wr)).is_ok());
    }
}

fn post_list(rig: &mut Rig) {
    let sges = [SGE];
    let op = Op::Send {
        data: Data::Sges(&sges),
        imm: None,
    };
    let list: [SendWr<'_>; BATCH as usize] = std::array::from_fn(|i| wr(i as u64, op));
    let _ = black_box(rig.send.post_send(black_box(&list)));
}

/// Queue depth of an inline batch is two quanta a request.
fn all(c: &mut Criterion) {
    let mut group = c.benchmark_group("datapath");
    group.throughput(Throughput::Elements(BATCH));
    let poll = |l: &Loop| l.poll::<16>();

    for (name, post, quanta) in [
        (
            "post SEND 1 SGE, doorbell each",
            post_send as fn(&mut Rig, u64),
            1,
        ),
        ("post RDMA WRITE 1 SGE, doorbell each", post_write, 1),
        ("post inline SEND 32 B, doorbell each", post_inline, 2),
    ] {
        let l = Loop::new();
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                batches(
                    n,
                    || (),
                    || l.post_each(post),
                    || {
                        l.complete(quanta);
                        poll(&l);
                    },
                )
            });
        });
    }
    let l = Loop::new();
    group.bench_function("post SEND 1 SGE, list of 64", |b| {
        b.iter_custom(|n| {
            batches(
                n,
                || (),
                || post_list(&mut l.rig.borrow_mut()),
                || {
                    l.complete(1);
                    poll(&l);
                },
            )
        });
    });
    for (name, post, quanta) in [
        (
            "post SEND 1 SGE, checked",
            send_checked as fn(&mut Rig),
            Some(1),
        ),
        ("post RDMA WRITE 1 SGE, checked", write_checked, Some(1)),
        ("post inline SEND 32 B, checked", inline_checked, Some(2)),
        ("post_recv 1 SGE, checked", recv_checked, None),
    ] {
        let l = Loop::new();
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                batches(
                    n,
                    || (),
                    || post(&mut l.rig.borrow_mut()),
                    || {
                        match quanta {
                            Some(quanta) => l.complete(quanta),
                            None => l.complete_recv(),
                        }
                        poll(&l);
                    },
                )
            });
        });
    }
    let l = Loop::new();
    group.bench_function("post_recv 1 SGE", |b| {
        b.iter_custom(|n| {
            batches(
                n,
                || (),
                || l.post_each(post_recv),
                || {
                    l.complete_recv();
                    poll(&l);
                },
            )
        });
    });
    for (name, one) in [
        ("poll SQ CQE, one a call", true),
        ("poll SQ CQE, 16 a call", false),
    ] {
        let l = Loop::new();
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                batches(
                    n,
                    || {
                        l.post_each(post_send);
                        l.complete(1);
                    },
                    || if one { l.poll::<1>() } else { l.poll::<16>() },
                    || (),
                )
            });
        });
    }
    for (name, one) in [
        ("poll RQ CQE, one a call", true),
        ("poll RQ CQE, 16 a call", false),
    ] {
        let l = Loop::new();
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                batches(
                    n,
                    || {
                        l.post_each(post_recv);
                        l.complete_recv();
                    },
                    || if one { l.poll::<1>() } else { l.poll::<16>() },
                    || (),
                )
            });
        });
    }
    let l = Loop::new();
    group.bench_function("poll an empty CQ", |b| {
        b.iter_custom(|n| {
            batches(
                n,
                || (),
                || {
                    let rig = &mut *l.rig.borrow_mut();
                    for _ in 0..BATCH {
                        black_box(rig.cq.poll(black_box(&mut [Wc::default(); 1])));
                    }
                },
                || (),
            )
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = all
}
criterion_main!(benches);
