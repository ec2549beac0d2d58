//! State shared by all handles of one simulator: the locked machine, time, posted writes, and the
//! device thread.
//!
//! Writes are posted, as on PCI Express: in real time they are queued until the device thread
//! executes them, and a read first executes all earlier writes. Virtual time has no queue: a write
//! takes effect before it returns.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use e810_hal::{Ns, RegOffset};

use crate::interrupt_lines::InterruptLines;
use crate::machine::{Fired, Machine};

/// How time passes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Virtual time: the driver's calls advance it. There is no thread, and the same seed gives the
    /// same run.
    ///
    /// A register access takes 100 ns, a step of an engine some tens to hundreds of ns, a delay its
    /// duration. Each `relax` executes one event; without a near event, time advances in
    /// increments of 1 µs that grow to 100 µs. These are choices of the model: nothing measured
    /// in virtual time says how fast a card or a driver is.
    #[default]
    Virtual,
    /// Wall-clock time: a thread runs the device, and ends with the last handle.
    Real,
}

/// Virtual time that one register access takes.
const ACCESS: Ns = Ns(100);
/// Turns that the thread runs before it releases the machine's lock.
const BATCH: u32 = 16;
/// How long the thread polls for work before it sleeps: about the cost of waking it.
const SPIN: Duration = Duration::from_micros(20);
/// How long work may be pending before a reader executes some of it. A shorter time would hide a
/// driver that polls too early. A card has finished its work by then; the device thread has not
/// only if the host gave it no CPU time.
const MAX_PENDING_TIME: Ns = Ns::from_ms(1);
/// Longest sleep of the thread.
const MAX_SLEEP: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Posted {
    writes: VecDeque<(u8, RegOffset, u32)>,
    /// The thread sleeps and must be woken.
    asleep: bool,
}

/// Shared by the handles and, in real time, the thread.
#[derive(Debug)]
pub(crate) struct Runtime {
    mode: Mode,
    machine: Mutex<Machine>,
    /// Copy of virtual time, to be read without the lock.
    virtual_now: AtomicU64,
    start: Instant,
    posted: Mutex<Posted>,
    /// There are posted writes, or the thread is to stop.
    pending: AtomicBool,
    /// Incremented on every notification. A reader may also execute the posted writes and clear
    /// `pending`; the thread compares this number, so that it cannot miss new work.
    notify_seq: AtomicU64,
    /// Wall time, in ns, since when work has been pending for the thread; 0 when there is none.
    due_since: AtomicU64,
    stop: AtomicBool,
    wake: Condvar,
    /// Threads that wait for the machine's lock; the device thread yields to them.
    waiting: AtomicU32,
    pub(crate) lines: Vec<Arc<InterruptLines>>,
}

impl Runtime {
    pub(crate) fn new(mode: Mode, machine: Machine, lines: Vec<Arc<InterruptLines>>) -> Self {
        Self {
            mode,
            machine: Mutex::new(machine),
            virtual_now: AtomicU64::new(0),
            start: Instant::now(),
            posted: Mutex::new(Posted::default()),
            pending: AtomicBool::new(false),
            notify_seq: AtomicU64::new(0),
            due_since: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            wake: Condvar::new(),
            waiting: AtomicU32::new(0),
            lines,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn now(&self) -> Ns {
        match self.mode {
            Mode::Virtual => Ns(self.virtual_now.load(Ordering::Relaxed)),
            Mode::Real => self.wall(),
        }
    }

    fn wall(&self) -> Ns {
        Ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Calls `f` with the machine after all earlier posted writes, and delivers the resulting
    /// interrupts.
    pub(crate) fn with_machine<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut machine = self.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.mode == Mode::Real {
            machine.set_now(self.wall());
            self.drain(&mut machine);
        }
        let result = f(&mut machine);
        self.virtual_now.store(machine.now().0, Ordering::Relaxed);
        let fired = machine.take_fired();
        drop(machine);
        deliver(fired);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        // A panic inside the model is a bug of its own; what it left is still good enough to clean
        // up with.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn posted(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read32(&self, function: u8, off: RegOffset) -> u32 {
        self.with_machine(|machine| {
            match self.mode {
                Mode::Virtual => machine.advance(ACCESS),
                Mode::Real if self.is_late() => drop(self.batch(machine)),
                Mode::Real => {}
            }
            machine.read32(usize::from(function), off)
        })
    }

    pub(crate) fn write32(&self, function: u8, off: RegOffset, value: u32) {
        match self.mode {
            Mode::Virtual => self.with_machine(|machine| {
                machine.write32(usize::from(function), off, value);
                machine.advance(ACCESS);
            }),
            Mode::Real => {
                let mut posted = self.posted();
                posted.writes.push_back((function, off, value));
                self.notify(&mut posted);
            }
        }
    }

    /// Puts frames from outside on the link; returns the number of those with a destination here.
    pub(crate) fn inject_frames<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        let found = self.with_machine(|machine| {
            let now = machine.now().0;
            frames
                .filter(|frame| machine.link.inject_frame(now, frame))
                .count()
        });
        // The thread may sleep until the next event that it knew of.
        self.notify(&mut self.posted());
        found
    }

    /// Wakes the thread for new work; `posted` is the locked queue.
    fn notify(&self, posted: &mut Posted) {
        self.pending.store(true, Ordering::Release);
        self.notify_seq.fetch_add(1, Ordering::Release);
        if self.due_since.load(Ordering::Relaxed) == 0 {
            self.due_since
                .store(self.wall().0.max(1), Ordering::Relaxed);
        }
        if std::mem::take(&mut posted.asleep) {
            self.wake.notify_one();
        }
    }

    /// Whether work has been pending for longer than [`MAX_PENDING_TIME`].
    fn is_late(&self) -> bool {
        let since = self.due_since.load(Ordering::Relaxed);
        since != 0 && self.wall() - Ns(since) > MAX_PENDING_TIME
    }

    /// Lets `time` pass.
    pub(crate) fn delay(&self, time: Ns) {
        match self.mode {
            Mode::Virtual => self.with_machine(|machine| machine.advance(time)),
            Mode::Real => {
                /// Sleeping is this inexact; shorter delays are waited for.
                const SLEEP: Duration = Duration::from_micros(100);
                let start = Instant::now();
                let time = Duration::from_nanos(time.0);
                if time >= SLEEP {
                    std::thread::sleep(time);
                }
                while start.elapsed() < time {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// One empty turn of a loop.
    pub(crate) fn relax(&self) {
        match self.mode {
            Mode::Virtual => self.with_machine(Machine::relax),
            // The thread that is the device may need this very CPU.
            Mode::Real => std::thread::yield_now(),
        }
    }

    /// Carries out the posted writes in the order they were made.
    ///
    /// The queue is not locked meanwhile; the machine is, so no other thread drains.
    fn drain(&self, machine: &mut Machine) {
        // Loaded before the swap: the thread comes here all the time, and a swap takes the cache
        // line from writers.
        while self.pending.load(Ordering::Relaxed) && self.pending.swap(false, Ordering::Acquire) {
            let writes = std::mem::take(&mut self.posted().writes);
            for (function, off, value) in writes {
                machine.write32(usize::from(function), off, value);
            }
        }
    }

    /// Main loop of the device thread.
    fn run(&self) {
        let mut idle_since = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            self.yield_to_waiters();
            let notify_seq = self.notify_seq.load(Ordering::Acquire);
            let mut machine = self.lock();
            let did = self.batch(&mut machine);
            // Where it did something there may be more.
            let due_since = if did { self.wall().0 } else { 0 };
            self.due_since.store(due_since, Ordering::Relaxed);
            let next = machine.next_event();
            let fired = machine.take_fired();
            drop(machine);
            if did || !fired.is_empty() {
                idle_since = Instant::now();
                deliver(fired);
            } else if !self.spin_for_work(idle_since, next, notify_seq) {
                self.sleep(next, notify_seq);
            }
        }
    }

    /// Runs some turns; false when there was nothing to do.
    fn batch(&self, machine: &mut Machine) -> bool {
        for done in 0..BATCH {
            machine.set_now(self.wall());
            self.drain(machine);
            if self.waiting.load(Ordering::Relaxed) != 0 || !machine.run_due_events() {
                return done != 0;
            }
        }
        true
    }

    /// Yields to threads that wait for the machine's lock: locks are not fair.
    fn yield_to_waiters(&self) {
        while self.waiting.load(Ordering::Relaxed) != 0 {
            std::thread::yield_now();
        }
    }

    /// Whether there was a notification after `notify_seq`, even if a reader has executed its
    /// writes.
    fn has_new_work(&self, notify_seq: u64) -> bool {
        self.notify_seq.load(Ordering::Relaxed) != notify_seq
    }

    /// Spins until something is to be done; false when it is time to sleep.
    ///
    /// `notify_seq` was read before the thread last locked the machine.
    fn spin_for_work(&self, idle_since: Instant, next: Option<u64>, notify_seq: u64) -> bool {
        while idle_since.elapsed() < SPIN {
            if self.has_new_work(notify_seq) || next.is_some_and(|due| due <= self.wall().0) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Sleeps until a notification after `notify_seq` or until `next`.
    fn sleep(&self, next: Option<u64>, notify_seq: u64) {
        let until_next = |due: u64| Duration::from_nanos(due.saturating_sub(self.wall().0));
        let sleep_time = next.map_or(MAX_SLEEP, |due| until_next(due).min(MAX_SLEEP));
        let mut posted = self.posted();
        // Under the lock that `notify` is called with: a notification is seen here, or finds
        // `asleep`.
        if !self.has_new_work(notify_seq) {
            posted.asleep = true;
            let waited = self.wake.wait_timeout(posted, sleep_time);
            waited.unwrap_or_else(PoisonError::into_inner).0.asleep = false;
        }
    }
}

fn deliver(fired: Fired) {
    for (lines, vectors) in fired {
        lines.raise(&vectors);
    }
}

/// The last handle ends the thread.
#[derive(Debug)]
pub(crate) struct RuntimeOwner {
    pub(crate) runtime: Arc<Runtime>,
    thread: Option<JoinHandle<()>>,
}

impl RuntimeOwner {
    /// # Errors
    /// If the thread cannot be created.
    pub(crate) fn new(runtime: Runtime) -> std::io::Result<Self> {
        let runtime = Arc::new(runtime);
        let thread = match runtime.mode {
            Mode::Virtual => None,
            Mode::Real => {
                let device = Arc::clone(&runtime);
                let builder = std::thread::Builder::new().name("e810-sim".to_owned());
                Some(builder.spawn(move || device.run())?)
            }
        };
        Ok(Self { runtime, thread })
    }
}

impl Drop for RuntimeOwner {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.runtime.stop.store(true, Ordering::Relaxed);
        let mut posted = self.runtime.posted();
        self.runtime.notify(&mut posted);
        drop(posted);
        // An interrupt hook may hold the last handle: the thread cannot wait for itself, and ends
        // anyway.
        if thread.thread().id() != std::thread::current().id() {
            // A panic of the model was already printed; handles are gone, so there is no one to
            // report it to.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Link, Quality};
    use crate::rng::Rng;

    /// A reader executes only work that has been pending for long.
    #[test]
    fn a_thread_that_gets_no_processor_is_late() {
        let rng = Rng::new(0);
        let link = Link::new(Vec::new(), Quality::PERFECT, rng.clone());
        let machine = Machine::new(Vec::new(), link, false, rng);
        let runtime = Runtime::new(Mode::Real, machine, Vec::new());
        assert!(!runtime.is_late(), "nothing to do");
        std::thread::sleep(Duration::from_millis(3));
        assert!(!runtime.is_late(), "nothing to do for long");
        runtime.write32(0, RegOffset::new(0), 1);
        let since = runtime.due_since.load(Ordering::Relaxed);
        assert_ne!(since, 0);
        runtime.write32(0, RegOffset::new(0), 1);
        assert_eq!(
            runtime.due_since.load(Ordering::Relaxed),
            since,
            "the oldest counts"
        );
        runtime.due_since.store(1, Ordering::Relaxed);
        assert!(runtime.is_late());
    }

    /// The read executes the posted write before the thread sees it: the thread must not sleep.
    #[test]
    fn a_write_that_a_reader_carried_out_is_news_to_the_thread() {
        let rng = Rng::new(0);
        let link = Link::new(Vec::new(), Quality::PERFECT, rng.clone());
        let machine = Machine::new(Vec::new(), link, false, rng);
        let runtime = Runtime::new(Mode::Real, machine, Vec::new());
        let notify_seq = runtime.notify_seq.load(Ordering::Relaxed);
        assert!(!runtime.has_new_work(notify_seq));
        runtime.write32(0, RegOffset::new(0), 1);
        assert!(runtime.has_new_work(notify_seq));
        runtime.read32(0, RegOffset::new(0));
        assert!(
            runtime.posted().writes.is_empty(),
            "the read pushed the write"
        );
        assert!(runtime.has_new_work(notify_seq));
    }
}
