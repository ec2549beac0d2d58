//! Destroying a queue pair, or taking it to RESET, causes nothing that a program can see, in
//! whatever state it is: no completion, no event, and nothing of another queue pair is lost.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use e810_verbs::abi::extended::CqEx;
use e810_verbs::abi::work::Wc;

use crate::harness::connection::{INCOMING, MEMORY};
use crate::harness::objects::{RC, UD, address, flag, opcode, state};
use crate::harness::{ALONE, Connection, Cq, Ctx, Qp, memory, readable, until};

/// A time in which nothing happens.
const QUIET: Duration = Duration::from_millis(60);
/// What the device has to flush is flushed by then, and software completes the rest (20 ms).
const FLUSHED: Duration = Duration::from_millis(100);
/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSH_ERR: i32 = 5;
const KEY: u32 = 0x1234_5678;

/// A queue pair that is about to end, and a connection that lives on the same completion queue.
struct Stage {
    live: Connection,
    cq: Cq,
    qp: Qp,
    /// What it is connected with.
    peer: Qp,
    peer_cq: Cq,
}

impl Stage {
    fn new(live: Connection, kind: i32) -> Self {
        let cq = live.cqs[0];
        let peer_cq = live.ctx.cq(256, 3, None);
        let qp = live.pd.qp(kind, cq, cq);
        let peer = live.pd.qp(RC, peer_cq, peer_cq);
        Self {
            live,
            cq,
            qp,
            peer,
            peer_cq,
        }
    }

    fn receives(&self) {
        for wr_id in 0..8 {
            let sge = self.live.mr.sge(INCOMING, 64);
            assert_eq!(self.qp.recv(DYING + wr_id, sge), 0);
        }
    }

    fn connect(&self) {
        let gid = self.live.ctx.gid(1);
        self.qp.init();
        self.receives();
        assert_eq!(self.qp.to_rtr(self.peer.number(), gid, 1), 0);
        assert_eq!(self.qp.to_rts(), 0);
    }

    /// SENDs and READs that the peer answers, if it is connected.
    fn requests(&self) {
        let mr = self.live.mr;
        let remote = (mr.sge(0, 8).addr, mr.key());
        for wr_id in 0..8 {
            let sge = mr.sge(0, 8);
            let posted = match wr_id % 2 {
                0 => self.qp.send_of(DYING + wr_id, sge, flag::SIGNALED),
                _ => self.qp.rdma(opcode::RDMA_READ, DYING + wr_id, sge, remote),
            };
            assert_eq!(posted, 0);
        }
    }

    fn answer(&self) {
        let (gid, mr) = (self.live.ctx.gid(1), self.live.mr);
        self.peer.connect(self.qp.number(), gid, 1);
        for wr_id in 0..8 {
            assert_eq!(self.peer.recv(wr_id, mr.sge(INCOMING, 64)), 0);
        }
    }

    /// Frees all but what lives.
    fn strike(self, destroys: bool) -> Connection {
        if !destroys {
            assert_eq!(self.qp.destroy(), 0);
        }
        assert_eq!([self.peer.destroy(), self.peer_cq.destroy()], [0; 2]);
        self.live
    }

    fn end(&self, destroys: bool) {
        let ended = match destroys {
            true => self.qp.destroy(),
            false => self.qp.go_to(state::RESET),
        };
        assert_eq!(ended, 0);
    }
}

/// Numbers of requests of a queue pair that ends, from here on.
const DYING: u64 = 1 << 32;

/// A state, how it is reached, and the kind of service.
type Way = (&'static str, i32, fn(&Stage));

/// Nothing completes here before the end.
const SILENT: &[Way] = &[
    ("RESET", RC, |_| {}),
    ("INIT", RC, |stage| {
        stage.qp.init();
        stage.receives();
    }),
    ("RTR", RC, |stage| {
        stage.qp.init();
        stage.receives();
        let gid = stage.live.ctx.gid(1);
        assert_eq!(stage.qp.to_rtr(stage.peer.number(), gid, 1), 0);
    }),
    ("RTS, idle", RC, Stage::connect),
    ("RTS, requests without an answer", RC, |stage| {
        stage.connect();
        stage.requests();
    }),
    ("SQD", RC, |stage| {
        stage.connect();
        assert_eq!(stage.qp.go_to(state::SQD), 0);
    }),
    ("a datagram queue pair", UD, |stage| {
        stage.qp.datagrams(KEY);
        stage.receives();
    }),
    ("ERR, flushed and polled", RC, |stage| {
        stage.connect();
        stage.requests();
        assert_eq!(stage.qp.go_to(state::ERR), 0);
        assert_eq!(stage.cq.wait(16).len(), 16);
        thread::sleep(FLUSHED);
    }),
];

/// Here something is under way.
const BUSY: &[Way] = &[
    ("RTS, requests under way", RC, |stage| {
        stage.answer();
        stage.connect();
        stage.requests();
    }),
    ("SQE", UD, |stage| {
        stage.qp.datagrams(KEY);
        stage.receives();
        let (pd, mr, ctx) = (stage.live.pd, stage.live.mr, stage.live.ctx);
        let ah = pd.try_ah(address(ctx.gid(1), 1)).unwrap();
        let mut sge = mr.sge(0, 8);
        sge.lkey ^= 1;
        assert_eq!(
            stage.qp.datagram(DYING, sge, ah, (stage.qp.number(), KEY)),
            0
        );
        until("SQE", || stage.qp.query().unwrap().qp_state == 5);
        assert_eq!(ah.destroy(), 0);
    }),
    ("ERR, nobody knows yet", RC, |stage| {
        stage.answer();
        stage.connect();
        let sge = stage.live.mr.sge(0, 8);
        let wrong = (sge.addr, stage.live.mr.key() ^ 1);
        assert_eq!(stage.qp.rdma(opcode::RDMA_WRITE, DYING, sge, wrong), 0);
    }),
    ("ERR, being flushed", RC, |stage| {
        stage.connect();
        stage.requests();
        assert_eq!(stage.qp.go_to(state::ERR), 0);
    }),
    ("ERR, flushed", RC, |stage| {
        stage.connect();
        stage.requests();
        assert_eq!(stage.qp.go_to(state::ERR), 0);
        thread::sleep(FLUSHED);
    }),
];

#[test]
fn the_end_of_a_queue_pair_is_no_event() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let mut live = Connection::new(ctx, Some(channel));
    for (what, kind, way) in SILENT {
        for destroys in [true, false] {
            let stage = Stage::new(live, *kind);
            way(&stage);
            // Entries of a flush that stand for nothing.
            assert_eq!(stage.cq.poll(8).len(), 0, "{what}");
            assert_eq!(stage.cq.arm(false), 0);
            assert!(!readable(channel.fd(), QUIET), "{what}: an event before");
            stage.end(destroys);
            assert!(
                !readable(channel.fd(), QUIET),
                "{what}, {destroys}: an event"
            );
            assert_eq!(stage.cq.poll(8).len(), 0, "{what}, {destroys}");
            // The request stands, for another one.
            live = stage.strike(destroys);
            live.send(1, 0);
            let (cq, _) = channel.take().unwrap();
            assert_eq!(cq, live.cqs[0], "{what}, {destroys}");
            cq.acknowledge(1);
            assert_eq!(live.cqs.map(|cq| cq.wait(1)[0].wr_id), [1; 2]);
        }
    }
    live.destroy();
    assert_eq!([channel.destroy(), ctx.close()], [0; 2]);
}

/// What a thread has polled.
#[derive(Default)]
struct Polled {
    of_live: Vec<u64>,
    of_dying: Vec<Wc>,
}

fn lock(polled: &Mutex<Polled>) -> MutexGuard<'_, Polled> {
    polled.lock().unwrap()
}

#[test]
fn who_polls_finds_nothing_of_a_queue_pair_that_has_ended() {
    let ctx = Ctx::open(ALONE);
    let mut live = Connection::new(ctx, None);
    let mut sent = 0;
    let ways = [SILENT, BUSY].concat();
    for ((what, kind, way), destroys) in ways.iter().flat_map(|way| [(way, true), (way, false)]) {
        // The thread polls here what the way waits for.
        if *what == "ERR, flushed and polled" {
            continue;
        }
        let stage = Stage::new(live, *kind);
        let (cq, is_over) = (stage.cq, AtomicBool::new(false));
        let polled = Mutex::<Polled>::default();
        let first = sent;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    // Nobody looks at them between a poll and what it has found.
                    let mut polled = lock(&polled);
                    for wc in cq.poll(4) {
                        match wc.wr_id {
                            DYING.. => polled.of_dying.push(wc),
                            wr_id => polled.of_live.push(wr_id),
                        }
                    }
                    drop(polled);
                    thread::yield_now();
                }
            });
            let mut post = || {
                for _ in 0..4 {
                    stage.live.send(sent, 0);
                    sent += 1;
                }
            };
            post();
            way(&stage);
            post();
            stage.end(destroys);
            let before = lock(&polled).of_dying.len();
            post();
            until("completions of who lives", || {
                let of_live = lock(&polled).of_live.len() as u64;
                stage.live.cqs[1].poll(8);
                of_live == sent - first
            });
            thread::sleep(QUIET);
            is_over.store(true, Ordering::Release);
            let polled = lock(&polled);
            assert_eq!(polled.of_dying.len(), before, "{what}, {destroys}: later");
            let flushed = polled.of_dying.iter().any(|wc| wc.status == FLUSH_ERR);
            let may_be = what.starts_with("ERR") || what.starts_with("SQE");
            assert!(may_be || !flushed, "{what}, {destroys}: flushed");
            let expected: Vec<_> = (first..sent).collect();
            assert_eq!(polled.of_live, expected, "{what}, {destroys}");
        });
        live = stage.strike(destroys);
    }
    live.destroy();
    assert_eq!(ctx.close(), 0);
}

/// A connection of a function with itself, whose completion queue is polled with the extended
/// interface: `ibv_start_poll` has returned 0.
fn begin_poll() -> (Connection, *mut CqEx) {
    let ctx = Ctx::open(ALONE);
    let polled = ctx.extended_cq(64);
    let (pd, cq) = (ctx.pd(), Cq(polled.cast()));
    let mr = pd.mr(memory(MEMORY));
    let [a, b] = [0; 2].map(|_| pd.qp(RC, cq, cq));
    let connection = Connection {
        ctx,
        pd,
        mr,
        cqs: [cq; 2],
        a,
        b,
    };
    connection.connect();
    for wr_id in 0..4 {
        connection.send(wr_id, 0);
    }
    until("a completion", || {
        // SAFETY: its functions, with the queue; no attributes are given.
        unsafe { (*polled).start_poll.unwrap()(polled, ptr::null_mut()) == 0 }
    });
    (connection, polled)
}

/// Its queue pairs are destroyed.
fn end(of: &Connection) {
    let ended = [of.mr.dereg(), of.cqs[0].destroy(), of.pd.free()];
    assert_eq!((ended, of.ctx.close()), ([0; 3], 0));
}

/// Between `ibv_start_poll` and `ibv_end_poll` the thread has the queue. What it destroys or takes
/// to RESET meanwhile completes no more.
#[test]
fn queue_pairs_end_while_their_thread_polls() {
    let polls = thread::spawn(|| {
        let (of, polled) = begin_poll();
        let cq = of.cqs[0];
        assert_eq!(of.a.go_to(state::RESET), 0);
        assert_eq!([of.a.destroy(), of.b.destroy()], [0; 2]);
        assert_eq!(cq.resize(128), 0);
        // SAFETY: the poll has begun.
        unsafe {
            assert_eq!((*polled).next_poll.unwrap()(polled), libc::ENOENT);
            (*polled).end_poll.unwrap()(polled);
        }
        assert_eq!(cq.poll(1), []);
        end(&of);
    });
    until("a thread that polls", || polls.is_finished());
    polls.join().unwrap();
}

/// Another thread takes a queue pair to RESET, to which the thread that polls gives receives back.
#[test]
fn who_polls_posts_to_a_queue_pair_that_is_being_reset() {
    let polls = thread::spawn(|| {
        let (of, polled) = begin_poll();
        let b = of.b;
        let resets = thread::spawn(move || b.go_to(state::RESET));
        // It waits until the poll has ended.
        for wr_id in 0..50 {
            assert_eq!(b.recv(wr_id, of.mr.sge(INCOMING, 8)), 0);
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!resets.is_finished());
        // SAFETY: the poll has begun.
        unsafe { (*polled).end_poll.unwrap()(polled) };
        assert_eq!(resets.join().unwrap(), 0);
        assert_eq!([of.a.destroy(), of.b.destroy()], [0; 2]);
        end(&of);
    });
    until("a thread that polls", || polls.is_finished());
    polls.join().unwrap();
}
