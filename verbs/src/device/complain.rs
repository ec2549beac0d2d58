//! Lines on standard error: verbs has no other way to say why a device is missing.

use std::mem;
use std::ptr;

/// Writes a line in one piece. If nobody reads, nothing happens: no signal, no panic.
pub(crate) fn complain(line: &str) {
    let line = format!("e810: {line}\n");
    without_sigpipe(|| {
        // SAFETY: the bytes are the line's.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    });
}

/// Runs `write` without letting its SIGPIPE reach the program. One that was pending before stays
/// pending.
fn without_sigpipe(write: impl FnOnce()) {
    // SAFETY: sets of signals, which are filled before they are used; the mask is this thread's own
    // and is put back.
    unsafe {
        let mut pipe: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        let was_pending = is_sigpipe_pending();
        let mut before: libc::sigset_t = mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        write();
        if !was_pending && is_sigpipe_pending() {
            let now: libc::timespec = mem::zeroed();
            libc::sigtimedwait(&raw const pipe, ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
    }
}

fn is_sigpipe_pending() -> bool {
    // SAFETY: a set of signals, which is filled before it is read.
    unsafe {
        let mut pending: libc::sigset_t = mem::zeroed();
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_no_signal() {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, of which one is closed; the signal's action is that of
        // a program that has chosen none, and the child of this test is the only one it could end.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::close(ends[0]);
            let child = libc::fork();
            if child == 0 {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::dup2(ends[1], libc::STDERR_FILENO);
                complain("nobody reads this");
                libc::_exit(7);
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            assert!(libc::WIFEXITED(status), "ended by {status}");
            assert_eq!(libc::WEXITSTATUS(status), 7);
            libc::close(ends[1]);
        }
    }
}
