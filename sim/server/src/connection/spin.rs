//! Polling a socket for a moment before the thread sleeps.

use std::hint;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

/// How long a socket is polled at a time. A user that reads one register after the other sends its
/// next request within ten microseconds; if both sides sleep and are woken, it takes fifty.
const SPIN: Duration = Duration::from_micros(50);

/// The most exchanges without polling after polling was in vain.
const MOST_LEFT_OUT: u32 = 255;

/// Polls a socket if that was useful lately. If the processors have other work, the other side does
/// not run meanwhile: each time polling is in vain, the number of exchanges without polling
/// doubles.
#[derive(Debug)]
pub(super) struct Spin {
    enabled: bool,
    /// How many exchanges to skip after the next vain poll, and how many of the current ones are
    /// left.
    pause: u32,
    left: u32,
}

impl Spin {
    pub(super) fn new() -> Self {
        // On one processor the other side cannot send anything meanwhile.
        let several = thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Self {
            enabled: several,
            pause: 0,
            left: 0,
        }
    }

    /// Waits a moment until `socket` has bytes, or not at all.
    pub(super) fn wait(&mut self, socket: BorrowedFd<'_>) {
        if !self.enabled || self.left > 0 {
            self.left = self.left.saturating_sub(1);
            return;
        }
        let mut poll = libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let end = Instant::now() + SPIN;
        // SAFETY: one structure, and no time to wait.
        while unsafe { libc::poll(&raw mut poll, 1, 0) } == 0 {
            if Instant::now() >= end {
                self.pause = (2 * self.pause + 1).min(MOST_LEFT_OUT);
                self.left = self.pause;
                return;
            }
            hint::spin_loop();
        }
        self.pause /= 2;
    }
}
