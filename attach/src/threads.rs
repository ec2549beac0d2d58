//! Threads that serve a program which does not know of them.

use std::io;
use std::mem;
use std::ptr;
use std::thread;

/// Starts a thread that takes no signals: they are for the program's own threads.
///
/// # Errors
/// The system has no thread.
pub fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || {
        take_no_signals();
        work();
    });
    spawned.map(drop)
}

/// Blocks signals in this thread, and in threads that it starts.
fn take_no_signals() {
    // SAFETY: a set of signals, which is filled before it is used; the mask is this thread's own.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
    }
}
