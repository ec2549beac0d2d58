//! What the thread of a program that polls does for the engine of its function.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use e810_hal::Ns;

use super::RealTime;
use crate::runtime::shared_function::SharedFunction;

/// Idle polls in a row before a program's thread yields its processor: some microseconds.
const SPINS: u32 = 128;
/// Idle polls in a row before each further one pauses the processor, for some 40 cycles. A program
/// that polls two functions in turn finds one of them idle all the time.
const PAUSES: u32 = 8;
/// A program's thread does not yield its processor when a timer of its function expires within this
/// time, in ns: on a busy machine it would get the processor back much later.
const SOON: u64 = 20_000;
/// Inaccuracy of a sleep; shorter delays are waited for by polling.
const SLEEP: Duration = Duration::from_micros(100);
/// One of this many idle polls reads the clock.
const CLOCK_EVERY: u32 = 8;

impl RealTime {
    /// One empty turn of the loop of a polling program.
    pub(in crate::runtime) fn relax(&self, index: usize) {
        let Some(shared) = self.functions.get(index) else {
            return;
        };
        let idle = shared.idle.load(Ordering::Relaxed);
        let yields = idle >= SPINS;
        let sees_clock = yields || idle % CLOCK_EVERY == CLOCK_EVERY - 1;
        let (did, soon) = self.turn(index, shared, sees_clock);
        let idle = if did { 0 } else { idle.saturating_add(1) };
        shared.idle.store(idle, Ordering::Relaxed);
        if yields && !did && !soon {
            // The thread at the other end of the wire may need this very CPU.
            std::thread::yield_now();
        } else if idle > PAUSES {
            std::hint::spin_loop();
        }
    }

    /// Does the pending work of function `index`. Returns whether there was any, and whether one of
    /// its timers expires soon. The clock is read if there is no work.
    fn turn(&self, index: usize, shared: &SharedFunction, sees_clock: bool) -> (bool, bool) {
        if !shared.polled.load(Ordering::Relaxed) {
            shared.polled.store(true, Ordering::Relaxed);
        }
        self.take_from_uplink(index);
        if shared.engine.has_work() {
            return (self.run(index), false);
        }
        if !sees_clock {
            return (false, false);
        }
        let mut did = false;
        let now = self.now().0;
        if self.shared_due.load(Ordering::Relaxed) <= now {
            self.run_shared_events();
            did = true;
        }
        if shared.is_due(now) {
            did |= self.run(index);
        }
        (did, shared.is_due(now.saturating_add(SOON)))
    }

    /// Lets `time` pass for the program of function `index`.
    pub(in crate::runtime) fn delay(&self, index: usize, time: Ns) {
        let start = Instant::now();
        let time = Duration::from_nanos(time.0);
        if time >= SLEEP {
            std::thread::sleep(time);
        }
        let Some(shared) = self.functions.get(index) else {
            return std::thread::sleep(time.saturating_sub(start.elapsed()));
        };
        let mut did = false;
        let mut soon = false;
        while start.elapsed() < time {
            let (now, next) = self.turn(index, shared, true);
            (did, soon) = (did || now, next);
            std::hint::spin_loop();
        }
        // A pause counts as one idle poll, not as many as fit into it. Otherwise, on a busy
        // machine, a program that waits for a command would yield its processor at each pause and
        // get it back much later.
        let idle = shared.idle.load(Ordering::Relaxed);
        let idle = if did { 0 } else { idle.saturating_add(1) };
        shared.idle.store(idle, Ordering::Relaxed);
        if idle >= SPINS && !soon {
            std::thread::yield_now();
        }
    }
}
