//! How long the wire's thread waits: rings are read by programs that poll, and by this thread while
//! none does.

use std::time::{Duration, Instant};

use e810_sim::FromUplink;

use crate::rings::Incoming;

/// Polls between two looks of the thread of a program that spins. One that sleeps between messages
/// polls less often.
const POLLS: u32 = 64;
/// How long rings are left to programs that poll, at first; and after some time in which they have
/// read all. A wake-up takes a processor from them.
const TICK: Duration = Duration::from_micros(100);
const LONG_TICK: Duration = Duration::from_micros(800);
/// How long the thread looks for more frames before it sleeps: about the cost of a wake-up.
const SPIN: Duration = Duration::from_micros(20);

/// How long the thread waits the next time.
#[derive(Debug)]
pub(crate) struct Pace {
    limit: Option<Duration>,
    tick: Duration,
    last_frame: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            limit: None,
            tick: TICK,
            last_frame: None,
        }
    }
}

impl Pace {
    /// How long to wait at most; `None`: until something happens.
    pub(crate) const fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Waits no longer than this.
    pub(crate) fn at_most(&mut self, limit: Option<Duration>) {
        self.limit = match (self.limit, limit) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// The thread has looked, and found this. Returns whether it looks again at once: then it offers
    /// its processor to others first, without the lock of `incoming`, which they need in order to look
    /// for themselves.
    #[must_use]
    pub(crate) fn follow(&mut self, found: FromUplink, incoming: &Incoming, now: Instant) -> bool {
        self.limit = self.next(found, incoming, now);
        self.limit == Some(Duration::ZERO)
    }

    fn next(&mut self, found: FromUplink, incoming: &Incoming, now: Instant) -> Option<Duration> {
        if incoming.is_told() {
            return Some(Duration::ZERO);
        }
        if incoming.count() == 0 {
            return None;
        }
        if found.polls >= POLLS {
            incoming.end_sleep();
            self.tick = match found.frames {
                0 => LONG_TICK.min(self.tick * 2),
                _ => TICK,
            };
            return Some(self.tick);
        }
        self.tick = TICK;
        if found.frames > 0 {
            self.last_frame = Some(now);
        }
        let spins = self.last_frame.is_some_and(|last| now - last < SPIN);
        if spins {
            return Some(Duration::ZERO);
        }
        match incoming.begin_sleep() {
            true => None,
            false => Some(Duration::ZERO),
        }
    }
}
