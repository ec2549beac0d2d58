//! Handlers of signals that do not return, as those that call `siglongjmp`: what they interrupt
//! holds nothing that others wait for.

use std::ffi::c_int;
use std::mem::zeroed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use e810_verbs::abi::objects::Qp as ProgramQp;
use e810_verbs::abi::work::AsyncEvent;

use crate::harness::{ALONE, Connection, Ctx, acknowledge, until};

type Rest = Box<dyn FnOnce() + Send>;

/// What the handler does in place of returning.
static REST: Mutex<Option<Rest>> = Mutex::new(None);
static IS_DONE: AtomicBool = AtomicBool::new(false);
/// A time in which a thread begins to wait.
const BEGINS: Duration = Duration::from_millis(30);

struct QpEvent(AsyncEvent);

// SAFETY: objects may be used by any thread.
unsafe impl Send for QpEvent {}

impl QpEvent {
    fn of(&self) -> *mut ProgramQp {
        // SAFETY: it is of a queue pair.
        unsafe { self.0.element.qp }
    }

    fn acknowledge(self) {
        acknowledge(self.0);
    }
}

/// The frames below it are as after a jump out of them: nothing of them goes on.
extern "C" fn does_not_return(_: c_int) {
    let rest = REST.lock().unwrap().take().unwrap();
    rest();
    IS_DONE.store(true, Ordering::Release);
    loop {
        thread::park();
    }
}

/// A thread waits, and the signal takes it away to the `rest`.
fn out_of(wait: impl FnOnce() + Send + 'static, rest: impl FnOnce() + Send + 'static) {
    *REST.lock().unwrap() = Some(Box::new(rest));
    IS_DONE.store(false, Ordering::Release);
    let (say, said) = mpsc::channel();
    let waits = thread::spawn(move || {
        // SAFETY: a number.
        say.send(unsafe { libc::pthread_self() }).unwrap();
        wait();
    });
    let thread = said.recv().unwrap();
    thread::sleep(BEGINS);
    assert!(!waits.is_finished());
    // SAFETY: the thread is there.
    assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
    until("what follows a jump", || IS_DONE.load(Ordering::Acquire));
}

#[test]
fn a_jump_out_of_a_wait_leaves_no_lock() {
    // SAFETY: numbers, and the handler of this test.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = does_not_return as extern "C" fn(c_int) as usize;
        let set = libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        assert_eq!(set, 0);
    }
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let Connection { cqs, a, b, .. } = connection;
    let [outgoing, incoming] = cqs;
    let (mr, pd) = (connection.mr, connection.pd);

    let take = move || assert_eq!(channel.take(), Ok((incoming, 2)));
    out_of(take, move || {
        assert_eq!(incoming.arm(false), 0);
        connection.send(1, 0);
        take();
    });

    // Of a wrong key, to both.
    let take = move || acknowledge(ctx.take_event().unwrap());
    let (say, said) = mpsc::channel();
    out_of(take, move || {
        let sge = mr.sge(0, 8);
        assert_eq!(a.rdma(0, 1, sge, (sge.addr, mr.key() ^ 1)), 0);
        take();
        say.send(QpEvent(ctx.take_event().unwrap())).unwrap();
    });

    // One event of a queue pair is not acknowledged, and one of a completion queue.
    let event = said.recv().unwrap();
    let (open, other) = if event.of() == a.0 { (a, b) } else { (b, a) };
    assert_eq!(other.destroy(), 0);
    let destroy = move || assert_eq!(open.destroy(), 0);
    out_of(destroy, move || {
        event.acknowledge();
        destroy();
    });
    let destroy = move || assert_eq!(incoming.destroy(), 0);
    out_of(destroy, move || {
        incoming.acknowledge(1);
        destroy();
    });
    assert_eq!([outgoing.destroy(), channel.destroy(), mr.dereg()], [0; 3]);
    assert_eq!([pd.free(), ctx.close()], [0; 2]);
}
