//! Completion channels: what a program reads, and what holds a destruction.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use crate::harness::objects::{RC, flag, opcode};
use crate::harness::{
    ALONE, Channel, Connection, Cq, Ctx, PATIENCE, WIRED, readable, set_nonblocking, until,
};

/// A time in which nothing happens.
const QUIET: Duration = Duration::from_millis(60);

/// A device, a channel, and a connection whose completions are told there.
fn in_a_channel() -> (Ctx, Channel, Connection) {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    (ctx, channel, Connection::new(ctx, Some(channel)))
}

fn end((ctx, channel, connection): (Ctx, Channel, Connection)) {
    connection.destroy();
    assert_eq!(channel.destroy(), 0);
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_descriptor_is_readable_until_each_event_was_taken() {
    let (ctx, channel, connection) = in_a_channel();
    set_nonblocking(channel.fd(), true);
    assert_eq!(channel.take(), Err(libc::EAGAIN));
    assert!(!readable(channel.fd(), QUIET));
    for cq in connection.cqs {
        assert_eq!(cq.arm(false), 0);
    }
    connection.send(7, 0);
    let mut words = Vec::new();
    for _ in 0..2 {
        assert!(readable(channel.fd(), PATIENCE));
        // Looking takes nothing.
        assert!(readable(channel.fd(), PATIENCE));
        let (cq, word) = channel.take().unwrap();
        assert_eq!(connection.cqs[word - 1], cq);
        words.push(word);
        cq.acknowledge(1);
    }
    words.sort_unstable();
    assert_eq!(words, [1, 2]);
    assert!(!readable(channel.fd(), QUIET), "one read an event");
    assert_eq!(channel.take(), Err(libc::EAGAIN));
    // A request is for one event.
    connection.send(8, 0);
    for cq in connection.cqs {
        assert_eq!(cq.wait(2).len(), 2);
    }
    assert!(!readable(channel.fd(), QUIET));
    end((ctx, channel, connection));
}

/// What a poll for everything finds at once.
fn found(fd: RawFd) -> i16 {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one descriptor.
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents
}

/// As with Linux (`ib_uverbs_event_poll`): programs wait for both, and take an event whenever they
/// wake.
#[test]
fn a_descriptor_is_never_writable() {
    let (ctx, channel, connection) = in_a_channel();
    let async_fd = ctx.async_fd();
    assert_eq!([channel.fd(), async_fd].map(found), [0, 0]);
    let [_, incoming] = connection.cqs;
    assert_eq!(incoming.arm(false), 0);
    connection.send(1, 0);
    assert!(readable(channel.fd(), PATIENCE));
    assert_eq!(found(channel.fd()), libc::POLLIN);
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.acknowledge(1);
    assert_eq!([channel.fd(), async_fd].map(found), [0, 0]);
    end((ctx, channel, connection));
}

#[test]
fn epoll_tells_each_event_once_it_is_there() {
    let (ctx, channel, connection) = in_a_channel();
    set_nonblocking(channel.fd(), true);
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 77,
    };
    // SAFETY: descriptors of this test, and an event that can be read.
    let epoll = unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let added = libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, channel.fd(), &raw mut event);
        assert_eq!(added, 0);
        epoll
    };
    let mut wait = |time: i32| {
        event.u64 = 0;
        // SAFETY: room for one event.
        let count = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, time) };
        (count, event.u64)
    };
    let [_, incoming] = connection.cqs;
    for turn in 0..20 {
        assert_eq!(wait(0), (0, 0));
        assert_eq!(incoming.arm(false), 0);
        connection.send(turn, 0);
        assert_eq!(wait(20_000), (1, 77));
        assert_eq!(wait(20_000), (1, 77), "by its level");
        assert_eq!(channel.take(), Ok((incoming, 2)));
        incoming.acknowledge(1);
        for cq in connection.cqs {
            assert_eq!(cq.wait(1)[0].wr_id, turn);
        }
    }
    // SAFETY: it is this test's.
    unsafe { libc::close(epoll) };
    end((ctx, channel, connection));
}

#[test]
fn a_signal_ends_a_wait_where_it_ends_a_read() {
    static SIGNALS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
    let (ctx, channel, connection) = in_a_channel();
    // With SA_RESTART, and without.
    for (signal, flags) in [(libc::SIGUSR2, libc::SA_RESTART), (libc::SIGUSR1, 0)] {
        // SAFETY: a handler that touches a number alone.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = flags;
            let set = libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            assert_eq!(set, 0);
        }
    }
    let (give, take) = mpsc::channel();
    let reader = thread::spawn(move || {
        // SAFETY: this thread's own names.
        give.send(unsafe { (libc::pthread_self(), libc::gettid()) })
            .unwrap();
        let interrupted = channel.take();
        (interrupted, SIGNALS.load(Ordering::Relaxed), channel.take())
    });
    let (thread, id) = take.recv().unwrap();
    // The signal comes to a thread that waits in read(2).
    until("the reader to sleep in its call", || {
        let state = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
        state.unwrap().contains(") S ")
    });
    assert!(!reader.is_finished());
    for (signal, count) in [(libc::SIGUSR2, 1), (libc::SIGUSR1, 2)] {
        // SAFETY: the thread runs.
        unsafe { libc::pthread_kill(thread, signal) };
        until("the handler", || SIGNALS.load(Ordering::Relaxed) == count);
        thread::sleep(QUIET);
    }
    assert!(!reader.is_finished());
    let [_, incoming] = connection.cqs;
    assert_eq!(incoming.arm(false), 0);
    connection.send(1, 0);
    let (interrupted, signals, taken) = reader.join().unwrap();
    assert_eq!((interrupted, signals), (Err(libc::EINTR), 2));
    assert_eq!(taken, Ok((incoming, 2)));
    incoming.acknowledge(1);
    end((ctx, channel, connection));
}

#[test]
fn events_of_many_queues_are_shared_by_many_readers() {
    const QUEUES: usize = 4;
    const TURNS: u32 = 100;
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connections: Vec<_> = (0..QUEUES)
        .map(|_| Connection::new(ctx, Some(channel)))
        .collect();
    let incoming: Vec<Cq> = connections.iter().map(|made| made.cqs[1]).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (is_over, incoming) = (is_over.clone(), incoming.clone());
            thread::spawn(move || {
                let mut taken = BTreeMap::new();
                while let Ok((cq, word)) = channel.take() {
                    assert_eq!(word, 2);
                    cq.acknowledge(1);
                    if is_over.load(Ordering::Acquire) {
                        break;
                    }
                    let index = incoming.iter().position(|known| *known == cq).unwrap();
                    // Who has asked for it waits until it is taken.
                    *taken.entry(index).or_insert(0) += 1;
                }
                taken
            })
        })
        .collect();
    for turn in 0..TURNS {
        for (connection, cq) in connections.iter().zip(&incoming) {
            assert_eq!(cq.arm(false), 0);
            connection.send(turn.into(), 0);
        }
        for connection in &connections {
            for cq in connection.cqs {
                cq.wait(1);
            }
        }
    }
    // Each turn may find its event told together with the one before: a last one for each reader.
    is_over.store(true, Ordering::Release);
    until("readers", || {
        for (connection, cq) in connections.iter().zip(&incoming) {
            cq.arm(false);
            connection.send(0, 0);
            for cq in connection.cqs {
                cq.wait(1);
            }
        }
        readers.iter().all(thread::JoinHandle::is_finished)
    });
    let mut sum = BTreeMap::new();
    for reader in readers {
        for (index, count) in reader.join().unwrap() {
            *sum.entry(index).or_insert(0) += count;
        }
    }
    assert!(sum.values().all(|count: &u32| *count <= TURNS), "{sum:?}");
    assert_eq!(sum.len(), QUEUES, "{sum:?}");
    // What nobody took goes with its queue.
    connections.into_iter().for_each(Connection::destroy);
    assert!(!readable(channel.fd(), QUIET));
    assert_eq!(channel.destroy(), 0);
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_queue_that_asks_for_solicited_ones_hears_of_no_others() {
    let (ctx, channel, connection) = in_a_channel();
    let [_, incoming] = connection.cqs;
    assert_eq!(incoming.arm(true), 0);
    connection.send(1, 0);
    incoming.wait(1);
    assert!(!readable(channel.fd(), QUIET));
    connection.send(2, flag::SOLICITED);
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.wait(1);
    // An error is told all the same.
    assert_eq!(incoming.arm(true), 0);
    assert_eq!(connection.b.recv(3, connection.mr.sge(4096, 8)), 0);
    assert_eq!(connection.b.go_to(6), 0);
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.acknowledge(2);
    end((ctx, channel, connection));
}

#[test]
fn an_event_that_waits_goes_with_its_queue() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let [gone, left] = [(), ()].map(|()| Connection::new(ctx, Some(channel)));
    for connection in [&gone, &left] {
        assert_eq!(connection.cqs[1].arm(false), 0);
        connection.send(1, 0);
        connection.cqs[1].wait(1);
        assert!(readable(channel.fd(), PATIENCE));
        thread::sleep(QUIET);
    }
    gone.destroy();
    let of_left = left.cqs[1];
    assert_eq!(channel.take(), Ok((of_left, 2)));
    of_left.acknowledge(1);
    assert!(!readable(channel.fd(), QUIET));
    end((ctx, channel, left));
}

#[test]
fn a_queue_is_not_destroyed_before_its_events_are_acknowledged() {
    let (ctx, channel, connection) = in_a_channel();
    let [_, incoming] = connection.cqs;
    for turn in 1..=3 {
        assert_eq!(incoming.arm(false), 0);
        connection.send(turn, 0);
        assert_eq!(channel.take(), Ok((incoming, 2)));
        incoming.wait(1);
    }
    incoming.acknowledge(1);
    assert_eq!([connection.a.destroy(), connection.b.destroy()], [0; 2]);
    let barrier = Arc::new(Barrier::new(2));
    let other = {
        let barrier = barrier.clone();
        thread::spawn(move || {
            barrier.wait();
            incoming.destroy()
        })
    };
    barrier.wait();
    thread::sleep(QUIET);
    assert!(!other.is_finished(), "two are open");
    incoming.acknowledge(1);
    thread::sleep(QUIET);
    assert!(!other.is_finished(), "one is open");
    incoming.acknowledge(1);
    assert_eq!(other.join().unwrap(), 0);
    assert_eq!(connection.cqs[0].destroy(), 0);
    assert_eq!(connection.mr.dereg(), 0);
    assert_eq!(connection.pd.free(), 0);
    assert_eq!(channel.destroy(), 0);
    assert_eq!(ctx.close(), 0);
}

#[test]
fn what_is_used_is_busy_and_stays() {
    let (ctx, channel, connection) = in_a_channel();
    let Connection {
        pd, mr, cqs, a, b, ..
    } = connection;
    // Everything that something else needs, twice: a refusal changes nothing.
    for _ in 0..2 {
        assert_eq!(channel.destroy(), libc::EBUSY);
        assert_eq!(cqs.map(Cq::destroy), [libc::EBUSY; 2]);
        assert_eq!(pd.free(), libc::EBUSY);
    }
    connection.send(5, 0);
    for cq in cqs {
        assert_eq!(cq.wait(1)[0].wr_id, 5);
    }
    // Queue pairs hold queues and the domain, regions the domain, queues the channel.
    assert_eq!(a.destroy(), 0);
    assert_eq!(cqs[0].destroy(), 0);
    assert_eq!(cqs[1].destroy(), libc::EBUSY);
    assert_eq!(pd.free(), libc::EBUSY);
    assert_eq!(channel.destroy(), libc::EBUSY);
    assert_eq!(b.destroy(), 0);
    assert_eq!(pd.free(), libc::EBUSY);
    assert_eq!(mr.dereg(), 0);
    assert_eq!(pd.free(), 0);
    assert_eq!(channel.destroy(), libc::EBUSY);
    assert_eq!(cqs[1].destroy(), 0);
    assert_eq!(channel.destroy(), 0);
    assert_eq!(ctx.close(), 0);
}

/// As perftest's latency tests do with events: each turn posts one, waits for one event, arms, and
/// polls for one. The answers of another function come when they come.
#[test]
fn a_program_that_polls_once_an_event_hears_of_every_completion() {
    let [one, two] = WIRED.map(Ctx::open);
    let channel = one.channel();
    let [of_one, of_two] = [(one, Some(channel)), (two, None)];
    let [of_one, of_two] = [of_one, of_two].map(|(ctx, channel)| Connection::new(ctx, channel));
    let cq = of_one.cqs[0];
    let [a, b] = [(&of_one, cq), (&of_two, of_two.cqs[0])].map(|(made, cq)| made.pd.qp(RC, cq, cq));
    a.connect(b.number(), two.gid(1), 1);
    b.connect(a.number(), one.gid(1), 1);
    let remote = (of_two.mr.sge(0, 8).addr, of_two.mr.key());
    assert_eq!(cq.arm(false), 0);
    let mut polled = 0;
    for turn in 0..1_000 {
        let posted = a.rdma(opcode::RDMA_READ, turn, of_one.mr.sge(0, 8), remote);
        assert_eq!(posted, 0, "turn {turn}, {polled} polled");
        let has_event = readable(channel.fd(), PATIENCE);
        assert!(has_event, "turn {turn}, {polled} polled");
        assert_eq!(channel.take(), Ok((cq, 1)));
        cq.acknowledge(1);
        assert_eq!(cq.arm(false), 0);
        polled += cq.poll(1).len();
    }
    assert_eq!([a.destroy(), b.destroy()], [0; 2]);
    of_one.destroy();
    of_two.destroy();
    assert_eq!(channel.destroy(), 0);
    assert_eq!([one.close(), two.close()], [0; 2]);
}
