//! Waiting for an event: the only place where a program's thread sleeps as long as it wants to. So
//! it is a cancellation point, as the `read` of libibverbs is.
//!
//! A cancelled thread ends in the C library's `read`, which unwinds its frames without running Rust
//! destructors. So the frames from there up to the program's have none, and what the wait holds
//! belongs to the thread, which gives it back when it ends. That includes a unit that was read just
//! before (glibc before 2.41 may cancel a read that is complete).

use core::any::Any;
use core::cell::{RefCell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::mem::needs_drop;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::errno::{self, fail};
use crate::event_queue::{EventQueue, Taken};
use crate::panics::catch_panics;

unsafe extern "C-unwind" {
    // The declaration in `libc` promises that nothing unwinds.
    fn read(fd: c_int, into: *mut c_void, bytes: usize) -> isize;
}

/// A thread's wait.
struct Held<T> {
    queue: Arc<EventQueue<T>>,
    /// 0; 1 once the kernel has taken a unit for this thread.
    unit: UnsafeCell<u8>,
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if *self.unit.get_mut() != 0 {
            self.queue.give_back();
        }
    }
}

thread_local! {
    /// Waits of this thread, the outermost first: a signal handler may wait, too.
    static WAITS: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// What the read of a wait needs; valid until the wait has ended.
#[derive(Clone, Copy)]
struct Read {
    fd: RawFd,
    into: *mut u8,
}

/// Takes the oldest event of a `queue`; waits for one unless the program has made its descriptor
/// non-blocking. 0; or -1 and the errno of `read`, or EIO when no further events come.
///
/// `taken` is called with the event before anybody can purge it. Neither closure has a destructor.
pub fn take<T: Send + 'static, Q: Fn() -> Arc<EventQueue<T>>, F: Fn(&T)>(
    queue: Q,
    taken: F,
) -> c_int {
    const { assert!(!needs_drop::<(Q, F, Read)>()) };
    let Some(this) = catch_panics(None, || begin(queue())) else {
        return -1;
    };
    loop {
        // SAFETY: a descriptor and a byte of the wait, which this thread holds until its end.
        let read = unsafe { read(this.fd, this.into.cast(), 1) };
        let error = (read < 0).then(errno::now);
        if let Some(code) = catch_panics(Some(-1), || end(error, &taken)) {
            return code;
        }
    }
}

/// Begins a wait; `None` and errno if that fails.
fn begin<T: Send + 'static>(queue: Arc<EventQueue<T>>) -> Option<Read> {
    // A child of fork would take its parent's unit.
    if !queue.is_here() {
        fail(libc::EIO);
        return None;
    }
    let fd = queue.own_fd();
    let held = Box::new(Held {
        queue,
        unit: UnsafeCell::new(0),
    });
    let into = held.unit.get();
    // Fails in a thread that has already given back what it held.
    let is_held = WAITS.try_with(|waits| waits.borrow_mut().push(held));
    match is_held {
        Ok(()) => Some(Read { fd, into }),
        Err(_) => {
            fail(libc::EIO);
            None
        }
    }
}

/// Ends a wait whose read has returned; `error` becomes -1 and errno. `None` if the wait goes on.
fn end<T: Send + 'static>(error: Option<c_int>, taken: &impl Fn(&T)) -> Option<c_int> {
    let held = WAITS.with_borrow_mut(Vec::pop);
    let Some(Ok(mut held)) = held.map(|held| held.downcast::<Held<T>>()) else {
        return Some(fail(libc::EIO));
    };
    if let Some(number) = error {
        return Some(fail(number));
    }
    *held.unit.get_mut() = 0;
    let found = held.queue.take(taken);
    match found {
        Taken::Event(()) => {
            held.queue.report_lost(false);
            Some(0)
        }
        Taken::Closed => Some(fail(libc::EIO)),
        Taken::Nothing => {
            WAITS.with_borrow_mut(|waits| waits.push(held));
            None
        }
    }
}
