//! Real time: each function is run by the threads that have work for it.
//!
//! A program that polls runs the engine of its function itself when it has nothing else to do. It
//! also runs the engines that receive frames from that engine, unless their own programs poll. The
//! helper thread does what nobody else runs. Most of the card's state is in the functions. What
//! they share (firmware, resets, a link that delays or changes frames) belongs to the machine,
//! which takes all functions for as long as it needs them.
//!
//! Locks are taken in one order: the machine, then the functions by number. A thread that runs an
//! engine holds one function and never waits.

use crate::findings::Log;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use e810_hal::{Ns, RegOffset};

use super::deliver;
use super::helper::Helper;
use super::lane::{Lane, Lanes, NEVER, Seat, Turn};
use super::turnstile::{Attempt, Guard};
use crate::bar::is_posted;
use crate::function::Function;
use crate::interrupt_lines::InterruptLines;
use crate::machine::{Fired, Machine};

/// How long work may be pending before a thread that reads a register or the time executes it. A
/// shorter time would hide a driver that polls too early. A card has finished its work by then; the
/// helper thread fails to do so only if the host gave it no CPU time.
const MAX_PENDING_TIME: Ns = Ns::from_ms(1);
/// How long the helper leaves work to a program that polls, initially.
const TICK: Duration = Duration::from_micros(100);
/// The same after programs have done all of the work for some time: a wake-up takes a processor
/// from them.
const LONG_TICK: Duration = Duration::from_micros(800);
/// How long the helper looks for more work before it sleeps: about the cost of a wake-up.
const SPIN: Duration = Duration::from_micros(20);
/// Engines that one call runs, one after another.
const CHAIN: u32 = 16;
/// Rounds of shared events in one call.
const ROUNDS: u32 = 16;
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

/// The functions of a card in real time.
#[derive(Debug)]
pub(super) struct RealTime {
    /// The machine without its functions, which are in the lanes.
    machine: Mutex<Machine>,
    lanes: Lanes,
    /// Time of the next event that the machine has to execute.
    shared_due: AtomicU64,
    helper: Helper,
    /// Interrupts for the helper to deliver.
    deferred: Mutex<Fired>,
    has_deferred: AtomicBool,
    start: Instant,
}

impl RealTime {
    pub(super) fn new(machine: Machine) -> Self {
        let lanes = Lanes::new(machine.link.macs().to_vec());
        let time = Self {
            machine: Mutex::new(machine),
            lanes,
            shared_due: AtomicU64::new(NEVER),
            helper: Helper::default(),
            deferred: Mutex::new(Fired::new()),
            has_deferred: AtomicBool::new(false),
            start: Instant::now(),
        };
        // Gives the functions to the lanes.
        time.with_machine(|_| ());
        time
    }

    pub(super) fn now(&self) -> Ns {
        Ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn set_helper(&self, thread: Thread) {
        self.helper.set_thread(thread);
    }

    pub(super) fn stop_helper(&self) {
        self.helper.stop();
    }

    /// Calls `f` with the machine and all functions, after all earlier posted writes, and delivers
    /// the resulting interrupts. Not for calls of a driver.
    pub(super) fn with_machine<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        let (result, fired) = self.machine_call(f);
        deliver(fired);
        result
    }

    /// Calls `f` with the machine and all functions, after all earlier posted writes. The caller
    /// must raise the vectors that fired.
    fn machine_call<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> (R, Fired) {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seats: Vec<Guard<'_, Seat>> = self
            .lanes
            .lanes
            .iter()
            .map(|lane| lane.seat.lock())
            .collect();
        machine.set_now(self.now());
        for seat in &mut seats {
            // After a panic the machine has the functions already.
            machine.functions.extend(seat.function.take());
            machine.log.absorb(&mut seat.log);
            machine.link.absorb_counts(&mut seat.counts);
        }
        for (index, lane) in self.lanes.lanes.iter().enumerate() {
            while let Some((off, value)) = lane.next_posted() {
                machine.write32(index, off, value);
            }
        }
        let result = f(&mut machine);
        let fired = machine.take_fired();
        self.give_back(&mut machine, &mut seats);
        drop(seats);
        drop(machine);
        for index in 0..self.lanes.lanes.len() {
            self.leave_if_work(index);
        }
        (result, fired)
    }

    /// Gives the functions back to the lanes, with the state they depend on.
    fn give_back(&self, machine: &mut Machine, seats: &mut [Guard<'_, Seat>]) {
        let shared_due = machine.next_shared_event().unwrap_or(NEVER);
        if shared_due < self.shared_due.swap(shared_due, Ordering::SeqCst) {
            self.helper.notify_of(shared_due);
        }
        let card = machine.card_view();
        let direct = machine.link.is_transparent()
            && !machine
                .functions
                .iter()
                .any(|function| function.is_looped());
        let functions = machine.functions.drain(..);
        for ((lane, seat), function) in self.lanes.lanes.iter().zip(seats).zip(functions) {
            lane.set_due(&function, &self.helper);
            let state = &function.state;
            if function.runnable || !state.outbox.is_empty() || !state.lan_outbox.is_empty() {
                lane.seat.announce();
            }
            seat.function = Some(function);
            seat.card = card.clone();
            seat.direct = direct;
        }
    }

    /// Calls `f` with one function after all earlier posted writes; `None` if there is no such
    /// function.
    pub(super) fn with_function<R>(
        &self,
        index: usize,
        f: impl FnOnce(&mut Function, &mut Log, u64) -> R,
    ) -> Option<R> {
        let lane = self.lanes.get(index)?;
        let mut guard = lane.seat.lock();
        let seat: &mut Seat = &mut guard;
        let function = seat.function.as_deref_mut()?;
        let now = self.now().0;
        if lane.drain(function, &mut seat.log, now) {
            lane.seat.announce();
        }
        let result = f(function, &mut seat.log, now);
        lane.set_due(function, &self.helper);
        let fired = function.take_fired();
        let lines = (!fired.is_empty()).then(|| Arc::clone(&function.state.lines));
        drop(guard);
        if let Some(lines) = lines {
            self.raise(&lines, fired);
        }
        self.leave_if_work(index);
        Some(result)
    }

    /// The time that the program of function `index` sees. When the program sees time pass, the
    /// device has used that time.
    pub(super) fn now_of(&self, index: usize) -> Ns {
        let now = self.now();
        self.catch_up(index, now);
        now
    }

    /// Does what a function should have done long before `now` but did not for lack of a processor.
    fn catch_up(&self, index: usize, now: Ns) {
        let long_ago = now - MAX_PENDING_TIME;
        if self.shared_due.load(Ordering::Relaxed) < long_ago.0 {
            self.run_shared_events();
        }
        if let Some(lane) = self.lanes.get(index)
            && lane.was_due_before(long_ago.0, now.0)
        {
            self.run(index);
        }
    }

    pub(super) fn read32(&self, index: usize, off: RegOffset) -> u32 {
        if self.lanes.get(index).is_some_and(Lane::has_left_work) {
            self.catch_up(index, self.now());
        }
        self.with_function(index, |function, log, now| function.read32(off, log, now))
            .unwrap_or(u32::MAX)
    }

    pub(super) fn write32(&self, index: usize, off: RegOffset, value: u32) {
        let Some(lane) = self.lanes.get(index).filter(|_| is_posted(off)) else {
            let ((), fired) = self.machine_call(|machine| machine.write32(index, off, value));
            return self.raise_all(fired);
        };
        while !lane.post(off, value) {
            // Nobody had the time for so many writes: they are executed here.
            let _ = self.with_function(index, |_, _, _| ());
        }
        lane.seat.announce();
        self.leave(lane);
    }

    /// There is work that this thread does not do. It was announced, or found, after a fence.
    fn leave(&self, lane: &Lane) {
        lane.leave_work();
        self.helper.notify_behind_fence();
    }

    /// The function was locked: work announced meanwhile is left to others.
    fn leave_if_work(&self, index: usize) {
        if let Some(lane) = self
            .lanes
            .get(index)
            .filter(|lane| lane.seat.has_work_after())
        {
            self.leave(lane);
        }
    }

    /// Does the pending work of function `index` on this thread.
    pub(super) fn execute(&self, index: usize) {
        if self
            .lanes
            .get(index)
            .is_some_and(|lane| lane.seat.has_work())
        {
            self.run(index);
        }
    }

    /// Does the pending work of function `index`, and waits for a thread that is doing it already.
    pub(super) fn settle(&self, index: usize) {
        let Some(lane) = self.lanes.get(index) else {
            return;
        };
        // An engine under traffic always has more to do; by then it has had its turns.
        for _ in 0..CHAIN {
            drop(lane.seat.lock());
            if !lane.is_due(self.now().0) {
                return;
            }
            self.run(index);
        }
        self.leave(lane);
    }

    /// Runs the engine of function `first`, and the engines that get frames because of it and are
    /// not polled by a program. False when there was nothing to do.
    fn run(&self, first: usize) -> bool {
        let mut did = false;
        let mut todo = 1_u64 << first;
        let mut left = CHAIN;
        while todo != 0 {
            let index = todo.trailing_zeros() as usize;
            todo &= todo - 1;
            let Some(lane) = self.lanes.get(index) else {
                continue;
            };
            let others = index != first && lane.polled.load(Ordering::Relaxed);
            if others || left == 0 {
                self.leave(lane);
                continue;
            }
            left -= 1;
            let mut for_machine = false;
            let attempt = lane.seat.try_run(|seat| {
                let turn = self.lanes.turn(index, seat, self.now().0);
                if let Some(function) = &seat.function {
                    lane.set_due(function, &self.helper);
                }
                did |= turn.did;
                todo |= turn.destinations;
                for_machine |= turn.for_machine;
                let more = turn.more;
                self.follow_up(index, seat, turn);
                more
            });
            if for_machine {
                self.run_shared_events();
            }
            if attempt == Attempt::Left {
                self.leave(lane);
            }
        }
        did
    }

    /// Applies the results of a turn outside of its function.
    fn follow_up(&self, index: usize, seat: &Seat, turn: Turn) {
        let mut others = turn.destinations;
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            if let Some(lane) = self.lanes.get(other).filter(|_| other != index) {
                lane.seat.announce();
            }
        }
        if let Some(function) = seat.function.as_ref().filter(|_| !turn.fired.is_empty()) {
            self.raise(&function.state.lines, turn.fired);
        }
    }

    /// Raises the lines of vectors that fired. The helper calls a hook, and never from inside a
    /// call of the driver: the hook may want a lock that the driver's caller holds, and it makes
    /// such calls itself.
    fn raise(&self, lines: &Arc<InterruptLines>, vectors: Vec<u16>) {
        if !lines.has_hook() {
            return lines.raise(&vectors);
        }
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        deferred.push((Arc::clone(lines), vectors));
        drop(deferred);
        self.has_deferred.store(true, Ordering::SeqCst);
        self.helper.notify();
    }

    fn raise_all(&self, fired: Fired) {
        for (lines, vectors) in fired {
            self.raise(&lines, vectors);
        }
    }

    /// Sends what goes over the machine's link, and executes the machine's events that are due.
    pub(super) fn run_shared_events(&self) {
        let ((), fired) = self.machine_call(|machine| {
            for _ in 0..ROUNDS {
                for index in 0..machine.functions.len() {
                    machine.collect_frames(index);
                }
                machine.set_now(self.now());
                if !machine.run_due_events() {
                    break;
                }
            }
        });
        self.raise_all(fired);
    }

    /// One empty turn of the loop of a polling program.
    pub(super) fn relax(&self, index: usize) {
        let Some(lane) = self.lanes.get(index) else {
            return;
        };
        let idle = lane.idle.load(Ordering::Relaxed);
        let yields = idle >= SPINS;
        let sees_clock = yields || idle % CLOCK_EVERY == CLOCK_EVERY - 1;
        let (did, soon) = self.turn(index, lane, sees_clock);
        let idle = if did { 0 } else { idle.saturating_add(1) };
        lane.idle.store(idle, Ordering::Relaxed);
        if yields && !did && !soon {
            // The thread at the other end of the wire may need this very CPU.
            std::thread::yield_now();
        } else if idle > PAUSES {
            std::hint::spin_loop();
        }
    }

    /// Does the pending work of function `index`. Returns whether there was any, and whether one of
    /// its timers expires soon. The clock is read if there is no work.
    fn turn(&self, index: usize, lane: &Lane, sees_clock: bool) -> (bool, bool) {
        if !lane.polled.load(Ordering::Relaxed) {
            lane.polled.store(true, Ordering::Relaxed);
        }
        if lane.seat.has_work() {
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
        if lane.is_due(now) {
            did |= self.run(index);
        }
        (did, lane.is_due(now.saturating_add(SOON)))
    }

    /// Lets `time` pass for the program of function `index`.
    pub(super) fn delay(&self, index: usize, time: Ns) {
        let start = Instant::now();
        let time = Duration::from_nanos(time.0);
        if time >= SLEEP {
            std::thread::sleep(time);
        }
        let Some(lane) = self.lanes.get(index) else {
            return std::thread::sleep(time.saturating_sub(start.elapsed()));
        };
        let mut did = false;
        let mut soon = false;
        while start.elapsed() < time {
            let (now, next) = self.turn(index, lane, true);
            (did, soon) = (did || now, next);
            std::hint::spin_loop();
        }
        // A pause counts as one idle poll, not as many as fit into it. Otherwise, on a busy
        // machine, a program that waits for a command would yield its processor at each pause and
        // get it back much later.
        let idle = lane.idle.load(Ordering::Relaxed);
        let idle = if did { 0 } else { idle.saturating_add(1) };
        lane.idle.store(idle, Ordering::Relaxed);
        if idle >= SPINS && !soon {
            std::thread::yield_now();
        }
    }

    /// Main loop of the helper thread.
    pub(super) fn help(&self) {
        let mut idle_since = Instant::now();
        let mut tick = TICK;
        while !self.helper.is_stopped() {
            let mut did = self.deliver_deferred();
            if self.shared_due.load(Ordering::Relaxed) <= self.now().0 {
                self.run_shared_events();
                did = true;
            }
            let mut polled = false;
            for (index, lane) in self.lanes.lanes.iter().enumerate() {
                if lane.polled.load(Ordering::Relaxed) {
                    // The program has until the next tick.
                    lane.polled.store(false, Ordering::Relaxed);
                    polled = true;
                } else if lane.is_due(self.now().0) {
                    did |= self.run(index);
                }
            }
            if did {
                idle_since = Instant::now();
                tick = TICK;
            } else if polled {
                Helper::nap(tick);
                tick = LONG_TICK.min(tick * 2);
                idle_since = Instant::now();
            } else if idle_since.elapsed() < SPIN {
                std::thread::yield_now();
            } else {
                self.sleep();
            }
        }
    }

    /// The helper sleeps until there is something to do.
    fn sleep(&self) {
        let lanes = || self.lanes.lanes.iter();
        let due = lanes()
            .map(|lane| lane.due.load(Ordering::Relaxed))
            .min()
            .unwrap_or(NEVER)
            .min(self.shared_due.load(Ordering::Relaxed));
        self.helper.sleep(self.now().0, due, || {
            lanes().any(|lane| lane.is_due(due.saturating_sub(1)))
                || self.has_deferred.load(Ordering::Relaxed)
                || self.shared_due.load(Ordering::Relaxed) < due
        });
    }

    /// Delivers the interrupts that were left to the helper.
    fn deliver_deferred(&self) -> bool {
        if !self.has_deferred.swap(false, Ordering::SeqCst) {
            return false;
        }
        let fired =
            std::mem::take(&mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner));
        deliver(fired);
        true
    }
}
