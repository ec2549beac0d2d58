//! Many threads: queue pairs of their own, one that all share, and one that is reset meanwhile.
//! `E810_OPERATIONS` says how many requests are posted in all, of which 10,000 are usual.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::connection::INCOMING;
use crate::harness::objects::{RC, flag, state};
use crate::harness::{ALONE, Connection, Cq, Ctx, PATIENCE, Qp, until};

const THREADS: u64 = 4;

fn operations() -> u64 {
    let asked = env::var("E810_OPERATIONS").ok();
    asked.map_or(10_000, |asked| asked.parse().unwrap())
}

/// How often something was posted, or has completed, and the sum of its numbers.
#[derive(Default)]
struct Count {
    times: AtomicU64,
    sum: AtomicU64,
}

impl Count {
    fn add(&self, wr_id: u64) {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(wr_id, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (
            self.times.load(Ordering::Relaxed),
            self.sum.load(Ordering::Relaxed),
        )
    }
}

/// A connection that all threads use: what was posted and polled, of sends and receives.
struct Shared {
    connection: Connection,
    posted: [Count; 2],
    polled: [Count; 2],
}

impl Shared {
    fn new(ctx: Ctx) -> Arc<Self> {
        Arc::new(Self {
            connection: Connection::new(ctx, None),
            posted: Default::default(),
            polled: Default::default(),
        })
    }

    /// Polls both queues; errors are counted as completions.
    fn poll(&self) {
        for (cq, polled) in self.connection.cqs.iter().zip(&self.polled) {
            for wc in cq.poll(8) {
                polled.add(wc.wr_id);
            }
        }
    }

    /// Posts until there is room, and polls meanwhile.
    fn post(&self, which: usize, wr_id: u64, post: impl Fn() -> i32) {
        loop {
            match post() {
                0 => break self.posted[which].add(wr_id),
                libc::ENOMEM => self.poll(),
                other => panic!("post: {other}"),
            }
        }
    }

    /// A receive and a SEND to it.
    fn message(&self, wr_id: u64) {
        let Connection { a, b, mr, .. } = self.connection;
        self.post(1, wr_id, || b.recv(wr_id, mr.sge(INCOMING, 64)));
        let sge = mr.sge(0, 16);
        self.post(0, wr_id, || a.send_of(wr_id, sge, flag::SIGNALED));
    }

    #[track_caller]
    fn all_are_polled(&self) {
        until("all that was posted completes", || {
            self.poll();
            let counts = |counts: &[Count; 2]| counts.each_ref().map(Count::get);
            counts(&self.posted) == counts(&self.polled)
        });
    }
}

#[test]
fn threads_with_queue_pairs_of_their_own_and_a_shared_one() {
    let ctx = Ctx::open(ALONE);
    let shared = Shared::new(ctx);
    // Of each message two requests: half of them are the shared queue pairs'.
    let messages = operations() / 2 / THREADS / 2;
    let begin = Instant::now();
    let threads = (0..THREADS).map(|thread| {
        let shared = shared.clone();
        thread::spawn(move || {
            let channel = ctx.channel();
            let own = Connection::new(ctx, Some(channel));
            let mut done = 0;
            while done < messages {
                let batch = (messages - done).min(16);
                assert_eq!(own.cqs[1].arm(false), 0);
                for message in done..done + batch {
                    own.send(message, 0);
                    shared.message(message * THREADS + thread);
                }
                let (cq, _) = channel.take().unwrap();
                cq.acknowledge(1);
                for cq in own.cqs {
                    let polled = cq.wait(batch as usize).into_iter();
                    assert!(polled.map(|wc| wc.wr_id).eq(done..done + batch));
                }
                // Objects come and go beside it.
                if done % 256 == 0 {
                    let cq = ctx.cq(16, 0, Some(channel));
                    let qp = own.pd.qp(RC, cq, own.cqs[0]);
                    qp.init();
                    assert_eq!((qp.destroy(), cq.destroy()), (0, 0));
                }
                shared.poll();
                done += batch;
            }
            own.destroy();
            assert_eq!(channel.destroy(), 0);
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    shared.all_are_polled();
    let posted = shared.posted[0].get().0;
    assert_eq!(posted, messages * THREADS);
    println!(
        "{} requests in {:.2} s",
        posted * 4,
        begin.elapsed().as_secs_f32()
    );
    Arc::into_inner(shared).unwrap().connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn the_two_queues_of_a_queue_pair_are_posted_to_at_once() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let messages = operations() / 4;
    let Connection { a, b, mr, cqs, .. } = connection;
    let is_over = &AtomicBool::new(false);
    let mut completions = [0; 2];
    thread::scope(|scope| {
        // Each side receives in one thread and sends in another, and this one polls.
        for (qp, at) in [(a, INCOMING), (b, INCOMING + 64)] {
            let post = move |post: &dyn Fn(u64) -> i32| {
                for wr_id in 0..messages {
                    while match post(wr_id) {
                        0 => false,
                        libc::ENOMEM => !is_over.load(Ordering::Acquire),
                        other => panic!("post: {other}"),
                    } {
                        thread::yield_now();
                    }
                }
            };
            scope.spawn(move || post(&|wr_id| qp.recv(wr_id, mr.sge(at, 64))));
            let sge = mr.sge(0, 8);
            scope.spawn(move || post(&|wr_id| qp.send_of(wr_id, sge, flag::SIGNALED)));
        }
        let mut limit = Instant::now() + PATIENCE;
        while completions != [2 * messages; 2] && Instant::now() < limit {
            for (cq, count) in cqs.iter().zip(&mut completions) {
                for wc in cq.poll(16) {
                    assert_eq!(wc.status, 0);
                    *count += 1;
                    limit = Instant::now() + PATIENCE;
                }
            }
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(completions, [2 * messages; 2]);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

/// Threads that post to a connection and poll, as long as they are wanted.
fn busy(shared: &Arc<Shared>, is_over: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<()>> {
    let Connection { a, b, mr, .. } = shared.connection;
    let threads = (0..3).map(|thread| {
        let (shared, is_over) = (shared.clone(), is_over.clone());
        thread::spawn(move || {
            let mut wr_id = thread;
            while !is_over.load(Ordering::Acquire) {
                // What is refused was not posted: there is no room, or it is in RESET.
                let sge = mr.sge(0, 16);
                if b.recv(wr_id, mr.sge(INCOMING, 64)) == 0 {
                    shared.posted[1].add(wr_id);
                }
                if a.send_of(wr_id, sge, flag::SIGNALED) == 0 {
                    shared.posted[0].add(wr_id);
                }
                shared.poll();
                wr_id += 3;
            }
        })
    });
    threads.collect()
}

#[test]
fn a_queue_pair_that_fails_completes_all_that_threads_have_posted() {
    let ctx = Ctx::open(ALONE);
    for _ in 0..10 {
        let shared = Shared::new(ctx);
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = busy(&shared, &is_over);
        thread::sleep(Duration::from_millis(5));
        for qp in [shared.connection.a, shared.connection.b] {
            assert_eq!(qp.go_to(state::ERR), 0);
        }
        thread::sleep(Duration::from_millis(5));
        is_over.store(true, Ordering::Release);
        for thread in threads {
            thread.join().unwrap();
        }
        shared.all_are_polled();
        Arc::into_inner(shared).unwrap().connection.destroy();
    }
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_queue_pair_is_reset_and_its_queues_resized_while_threads_post_and_poll() {
    let ctx = Ctx::open(ALONE);
    let shared = Shared::new(ctx);
    let is_over = Arc::new(AtomicBool::new(false));
    let threads = busy(&shared, &is_over);
    let Connection { a, b, cqs, .. } = shared.connection;
    for turn in 0..40 {
        thread::sleep(Duration::from_millis(2));
        let (first, last) = if turn % 2 == 0 { (a, b) } else { (b, a) };
        assert_eq!(cqs[turn as usize % 2].resize(2000 + turn), 0);
        if turn % 3 == 0 {
            assert_eq!(first.go_to(state::ERR), 0);
        }
        assert_eq!([first, last].map(|qp| qp.go_to(state::RESET)), [0; 2]);
        // Sends fail while the receives are none yet: that is what RNR retries are for.
        shared.connection.connect();
    }
    is_over.store(true, Ordering::Release);
    for thread in threads {
        thread.join().unwrap();
    }
    // What was posted before is gone, and nothing of it completes later.
    assert_eq!([a, b].map(|qp| qp.go_to(state::RESET)), [0; 2]);
    assert_eq!(cqs.map(|cq| cq.poll(1).len()), [0; 2]);
    shared.connection.connect();
    shared.connection.send(99, 0);
    for cq in cqs {
        let wc = cq.wait(1)[0];
        assert_eq!((wc.wr_id, wc.status), (99, 0));
    }
    Arc::into_inner(shared).unwrap().connection.destroy();
    assert_eq!(ctx.close(), 0);
}

/// A queue and a pair of it, made and destroyed again and again by all threads at once.
#[test]
fn objects_are_made_and_destroyed_by_all_threads() {
    let ctx = Ctx::open(ALONE);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || {
                for _ in 0..operations() / 1000 {
                    let (channel, pd) = (ctx.channel(), ctx.pd());
                    let cq = ctx.cq(16, 0, Some(channel));
                    let qp: Qp = pd.qp(RC, cq, cq);
                    assert_eq!(cq.arm(false), 0);
                    qp.init();
                    assert_eq!(qp.go_to(state::ERR), 0);
                    assert_eq!((qp.destroy(), Cq::destroy(cq)), (0, 0));
                    assert_eq!((pd.free(), channel.destroy()), (0, 0));
                }
            });
        }
    });
    assert_eq!(ctx.close(), 0);
}

/// Puts this thread on the first processor that it may have.
fn on_one_processor() {
    // SAFETY: a set that is filled before it is read; the mask is this thread's own.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of_val(&may);
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut may), 0);
        let usual = libc::CPU_SETSIZE as usize;
        let first = (0..usual).find(|cpu| libc::CPU_ISSET(*cpu, &may)).unwrap();
        libc::CPU_ZERO(&mut may);
        libc::CPU_SET(first, &mut may);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const may), 0);
    }
}

/// A thread that polls an empty completion queue shares a processor with one that asks for events
/// of it and resizes it. The bound is in polls, of which a machine with more work does fewer.
#[test]
fn who_polls_keeps_no_other_from_a_queue_on_one_processor() {
    const POLLS: u64 = 5_000_000;
    let ctx = Ctx::open(ALONE);
    let cq = ctx.cq(64, 0, None);
    let (polls, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            on_one_processor();
            while !done.load(Ordering::Relaxed) && polls.fetch_add(1, Ordering::Relaxed) < POLLS {
                assert!(cq.poll(1).is_empty());
            }
        });
        on_one_processor();
        for n in 0..60 {
            // The other has the processor now and then.
            let before = polls.load(Ordering::Relaxed);
            while before < POLLS && polls.load(Ordering::Relaxed) == before {
                thread::yield_now();
            }
            assert_eq!(cq.arm(false), 0);
            if n % 20 == 0 {
                assert_eq!(cq.resize(65 + n), 0);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(
        polls.load(Ordering::Relaxed) < POLLS,
        "not in so many polls"
    );
    assert_eq!(cq.destroy(), 0);
    assert_eq!(ctx.close(), 0);
}
