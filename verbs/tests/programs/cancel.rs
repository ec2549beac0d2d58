//! Threads that are cancelled (`pthread_cancel`), as many programs end those that wait for events.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use e810_verbs::abi::device::Context;
use e810_verbs::abi::objects::{CompChannel, Cq as ProgramCq};
use e810_verbs::abi::work::AsyncEvent;
use e810_verbs::async_events::get_async_event;
use e810_verbs::channel::get_cq_event;

use crate::harness::objects::{address, flag, state};
use crate::harness::{ALONE, Connection, Ctx, PATIENCE, WIRED, readable, set_nonblocking, until};

/// What a thread does. Its frames have no destructors where it may be cancelled: that unwinds them.
type Body = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const c_void,
        body: Body,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_testcancel();
}

/// `PTHREAD_CANCELED`.
const CANCELED: usize = usize::MAX;

/// A thread of a program in C.
struct Thread(libc::pthread_t);

impl Thread {
    fn new(body: Body, argument: *mut c_void) -> Self {
        let mut thread = 0;
        // SAFETY: a place for the thread; what the argument is, the body knows.
        let made = unsafe { pthread_create(&raw mut thread, ptr::null(), body, argument) };
        assert_eq!(made, 0);
        Self(thread)
    }

    fn cancel(&self) {
        // SAFETY: it is not joined.
        assert_eq!(unsafe { libc::pthread_cancel(self.0) }, 0);
    }

    /// Waits until it has ended: what it gave.
    fn join(self) -> usize {
        let mut value = ptr::null_mut();
        until("a thread that was cancelled", || {
            // SAFETY: it is not joined, and there is a place for its value.
            unsafe { libc::pthread_tryjoin_np(self.0, &raw mut value) == 0 }
        });
        value as usize
    }
}

extern "C-unwind" fn waits_for_completions(channel: *mut c_void) -> *mut c_void {
    let (mut cq, mut word) = (ptr::null_mut::<ProgramCq>(), ptr::null_mut());
    let channel = channel.cast::<CompChannel>();
    // SAFETY: the channel that the test has given, and places for both.
    let taken = unsafe { get_cq_event(channel, &raw mut cq, &raw mut word) };
    if taken == 0 {
        cq.cast()
    } else {
        ptr::null_mut()
    }
}

extern "C-unwind" fn waits_for_events(context: *mut c_void) -> *mut c_void {
    // SAFETY: numbers.
    let mut event: AsyncEvent = unsafe { zeroed() };
    let context = context.cast::<Context>();
    // SAFETY: the context that the test has given, and a place for the event.
    unsafe { get_async_event(context, &raw mut event) };
    ptr::null_mut()
}

/// A time in which a thread begins to wait.
const BEGINS: Duration = Duration::from_millis(30);

#[test]
fn a_thread_that_waits_is_cancelled_and_leaves_nothing() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    for _ in 0..3 {
        let threads = [
            Thread::new(waits_for_completions, channel.0.cast()),
            Thread::new(waits_for_completions, channel.0.cast()),
            Thread::new(waits_for_events, ctx.0.cast()),
        ];
        thread::sleep(BEGINS);
        threads.iter().for_each(Thread::cancel);
        assert_eq!(threads.map(Thread::join), [CANCELED; 3]);
    }
    // Both work on.
    let connection = Connection::new(ctx, Some(channel));
    let [_, incoming] = connection.cqs;
    assert_eq!(incoming.arm(false), 0);
    connection.send(1, 0);
    assert!(readable(channel.fd(), PATIENCE));
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.acknowledge(1);
    let sge = connection.mr.sge(0, 8);
    let wrong = (sge.addr, connection.mr.key() ^ 1);
    assert_eq!(connection.a.rdma(0, 1, sge, wrong), 0);
    crate::harness::acknowledge(ctx.event());
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}

/// The event comes while the thread is cancelled: it is the thread's, or it waits for the next.
#[test]
fn an_event_is_not_lost_with_the_thread_that_was_waiting_for_it() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let [outgoing, incoming] = connection.cqs;
    set_nonblocking(channel.fd(), false);
    let mut cancelled = 0;
    for turn in 0..100 {
        assert_eq!(incoming.arm(false), 0);
        let thread = Thread::new(waits_for_completions, channel.0.cast());
        connection.send(turn, 0);
        // Sometimes before it is there, sometimes when it is.
        for _ in 0..turn % 10 {
            thread::yield_now();
        }
        thread.cancel();
        let value = thread.join();
        if value == CANCELED {
            cancelled += 1;
            assert!(readable(channel.fd(), PATIENCE), "turn {turn}");
            assert_eq!(channel.take(), Ok((incoming, 2)));
        } else {
            assert_eq!(value, incoming.0 as usize);
        }
        incoming.acknowledge(1);
        for cq in [outgoing, incoming] {
            assert_eq!(cq.wait(1)[0].wr_id, turn);
        }
        assert!(!readable(channel.fd(), Duration::ZERO), "turn {turn}");
    }
    assert!(cancelled > 0);
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}

/// What a thread works with that is to be cancelled: the test's own part makes system calls, too,
/// and is done before.
struct Work {
    connection: Connection,
    done: AtomicU32,
}

/// Calls functions that read, write and close descriptors, give commands, and send packets.
extern "C-unwind" fn works(work: *mut c_void) -> *mut c_void {
    // SAFETY: this thread's own.
    unsafe { libc::pthread_cancel(libc::pthread_self()) };
    // SAFETY: what the test has given.
    do_work(unsafe { &*work.cast::<Work>() });
    // SAFETY: this thread ends here.
    unsafe { pthread_testcancel() };
    ptr::null_mut()
}

fn do_work(work: &Work) {
    let Connection { cqs, pd, a, .. } = work.connection;
    // One that needs to be brought up, and one that is.
    for device in WIRED {
        let ctx = Ctx::open(device);
        let channel = ctx.channel();
        assert!(ctx.try_attributes().is_ok());
        // Nobody has it, at another function: it is asked for.
        let away = pd.try_ah(address(ctx.gid(1), 1));
        assert!(away.is_ok_and(|ah| ah.destroy() == 0));
        assert_eq!((channel.destroy(), ctx.close()), (0, 0));
    }
    for turn in 0..50 {
        assert_eq!(cqs[1].arm(false), 0);
        work.connection.send(turn, flag::SOLICITED);
        for cq in cqs {
            while cq.poll(1).is_empty() {
                thread::yield_now();
            }
        }
    }
    assert_eq!(a.go_to(state::RESET), 0);
    assert_eq!(a.query().map(|attr| attr.qp_state), Ok(state::RESET));
    work.done.store(1, Ordering::Relaxed);
}

#[test]
fn nothing_but_a_wait_for_events_is_a_cancellation_point() {
    let ctx = Ctx::open(WIRED[0]);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let done = AtomicU32::new(0);
    let mut work = Work { connection, done };
    let thread = Thread::new(works, (&raw mut work).cast());
    assert_eq!(thread.join(), CANCELED);
    assert_eq!(work.done.into_inner(), 1);
    work.connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}
