//! Passes frames between the LAN port and the interface, in a thread that has both.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e810::{LanError, LanPort, Platform};
use serde::Serialize;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::device::TapFrames;

/// The most frames of one direction in a row.
const BATCH: usize = 64;
/// How long after a frame the thread looks for the next one without sleeping.
const SPIN: Duration = Duration::from_micros(200);
/// How long the thread looks at the port every [`BUSY`] after a frame.
const BUSY_FOR: Duration = Duration::from_millis(50);
/// Time between two looks at the port while frames come and go, in milliseconds.
const BUSY: i32 = 1;
/// The same when nothing happens. A frame that the host sends is noticed at once.
const IDLE: i32 = 10;
/// Time between two tries while the port's transmit ring is full.
const FULL: Duration = Duration::from_micros(100);

/// Counters of frames that passed and that were dropped.
#[derive(Debug, Default)]
pub(super) struct ForwardingCounts {
    to_tap: AtomicU64,
    from_tap: AtomicU64,
    too_long: AtomicU64,
    stalled: AtomicU64,
    interface_down: AtomicU64,
    refused: AtomicU64,
}

/// Numbers of frames through a TAP interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TapCounts {
    /// Received by the port and taken by the host's stack.
    pub to_tap: u64,
    /// Sent by the host's stack and given to the port.
    pub from_tap: u64,
    /// From the stack, and longer than the port takes: dropped.
    pub too_long: u64,
    /// From the stack, while the port's transmit queue hung: dropped.
    pub stalled: u64,
    /// Received while the interface was down or gone: dropped.
    pub interface_down: u64,
    /// Received, and refused by the stack for another cause: dropped.
    pub refused: u64,
    /// Received, and damaged, without their tag or otherwise unusable: dropped; known only at the
    /// end.
    pub unusable: u64,
}

impl ForwardingCounts {
    pub(super) fn read(&self) -> TapCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TapCounts {
            to_tap: read(&self.to_tap),
            from_tap: read(&self.from_tap),
            too_long: read(&self.too_long),
            stalled: read(&self.stalled),
            interface_down: read(&self.interface_down),
            refused: read(&self.refused),
            unusable: 0,
        }
    }
}

/// Counts one frame; returns whether it is the first.
fn count(counter: &AtomicU64) -> bool {
    counter.fetch_add(1, Ordering::Relaxed) == 0
}

/// The thread's state.
pub(super) struct Forwarder<P: Platform, T> {
    port: LanPort<P>,
    tap: T,
    wait: Epoll,
    counts: Arc<ForwardingCounts>,
    stop: Arc<AtomicBool>,
    frame: Vec<u8>,
    /// A frame of the stack for which the port has no room yet.
    pending: Vec<u8>,
    /// The interface was deleted.
    is_gone: bool,
}

impl<P: Platform, T: TapFrames> Forwarder<P, T> {
    /// # Errors
    /// The port, with the system's error.
    pub(super) fn new(
        port: LanPort<P>,
        tap: T,
        counts: Arc<ForwardingCounts>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, (LanPort<P>, anyhow::Error)> {
        let wait = Epoll::new().and_then(|epoll| {
            let event = EpollEvent::new(EventSet::IN, 0);
            epoll.ctl(ControlOperation::Add, tap.fd(), event)?;
            Ok(epoll)
        });
        let wait = match wait.context("waiting for frames of the TAP interface") {
            Ok(wait) => wait,
            Err(error) => return Err((port, error)),
        };
        // A byte more than any frame: one that fills it is too long.
        let bytes = port.max_frame() + 1;
        Ok(Self {
            port,
            tap,
            wait,
            counts,
            stop,
            frame: vec![0; bytes],
            pending: Vec::with_capacity(bytes),
            is_gone: false,
        })
    }

    /// Works until it is stopped, and returns the port. A frame that waits for room in the port is
    /// lost then.
    pub(super) fn run(mut self) -> LanPort<P> {
        let mut last = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let moved = self.give() + self.take();
            let now = Instant::now();
            if moved > 0 {
                last = now;
            } else if !self.pending.is_empty() {
                thread::sleep(FULL);
            } else {
                self.pause(now.saturating_duration_since(last));
            }
        }
        self.port
    }

    /// Returns the port, if the thread does not work.
    pub(super) fn into_port(self) -> LanPort<P> {
        self.port
    }

    fn pause(&self, quiet: Duration) {
        if quiet < SPIN {
            return thread::yield_now();
        }
        let limit = if quiet < BUSY_FOR { BUSY } else { IDLE };
        if self.is_gone {
            return thread::sleep(Duration::from_millis(limit.unsigned_abs().into()));
        }
        // An interrupted wait is a short one.
        let _ = self.wait.wait(limit, &mut [EpollEvent::default()]);
    }

    /// Passes received frames from the port to the stack; returns how many.
    fn give(&mut self) -> usize {
        for done in 0..BATCH {
            let Some(length) = self.port.receive(&mut self.frame) else {
                return done;
            };
            let frame = self.frame.get(..length).unwrap_or_default();
            let counter = match self.tap.write(frame) {
                Ok(_) => &self.counts.to_tap,
                // The kernel's errors for an interface that is down, and for one that was deleted.
                Err(error) if is_down(&error) => &self.counts.interface_down,
                Err(error) => {
                    if count(&self.counts.refused) {
                        log::warn!("the host's stack refuses a frame of {length} bytes: {error}");
                    }
                    continue;
                }
            };
            count(counter);
        }
        BATCH
    }

    /// Passes frames from the stack to the port; returns how many. If there is no room, one frame
    /// waits here, and the others in the kernel's queue of the interface.
    fn take(&mut self) -> usize {
        for done in 0..BATCH {
            if self.pending.is_empty() && !self.read() {
                return done;
            }
            match self.port.transmit(&self.pending) {
                Ok(()) => {
                    count(&self.counts.from_tap);
                }
                Err(LanError::Full { .. }) => return done,
                Err(error @ LanError::Stalled { .. }) => {
                    if count(&self.counts.stalled) {
                        log::warn!("frames of the host's stack are dropped: {error}");
                    }
                }
                Err(error) => {
                    if count(&self.counts.too_long) {
                        log::warn!(
                            "a frame of the host's stack is dropped: {error}; set the interface's MTU back, or start with a larger --mtu"
                        );
                    }
                }
            }
            self.pending.clear();
        }
        BATCH
    }

    /// Reads the next frame of the stack; `false`: there is none.
    fn read(&mut self) -> bool {
        if self.is_gone {
            return false;
        }
        match self.tap.read(&mut self.frame) {
            Ok(length) => {
                let frame = self.frame.get(..length).unwrap_or_default();
                self.pending.extend_from_slice(frame);
                length > 0
            }
            Err(error) => {
                self.is_gone = error.raw_os_error() == Some(libc::EBADFD);
                false
            }
        }
    }
}

fn is_down(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EBADFD))
}
