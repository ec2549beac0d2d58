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

mod inflow;
mod polling;

use crate::findings::Log;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use e810_hal::{Ns, RegOffset};

use super::combining_lock::{Attempt, Guard};
use super::deliver;
use super::helper::Helper;
use super::shared_function::{EngineState, NEVER, SharedFunction, SharedFunctions, Turn};
use super::uplink::Inlet;
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

/// Who does what is left of the work of a function that a thread has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaves {
    ToHelper,
    /// The thread itself, soon.
    ToCaller,
}

/// The functions of a card in real time.
#[derive(Debug)]
pub(super) struct RealTime {
    /// The machine without its functions, which are in `functions`.
    machine: Mutex<Machine>,
    functions: SharedFunctions,
    /// Time of the next event that the machine has to execute.
    shared_due: AtomicU64,
    helper: Helper,
    /// Interrupts for the helper to deliver.
    deferred: Mutex<Fired>,
    has_deferred: AtomicBool,
    /// Where frames come from that no function here has sent.
    pub(super) uplink: Inlet,
    start: Instant,
}

impl RealTime {
    pub(super) fn new(machine: Machine) -> Self {
        let functions = SharedFunctions::new(machine.link.macs().to_vec());
        let time = Self {
            machine: Mutex::new(machine),
            functions,
            shared_due: AtomicU64::new(NEVER),
            helper: Helper::default(),
            deferred: Mutex::new(Fired::new()),
            has_deferred: AtomicBool::new(false),
            uplink: Inlet::default(),
            start: Instant::now(),
        };
        // Gives the functions to their threads.
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
        let mut engines: Vec<Guard<'_, EngineState>> = self
            .functions
            .all
            .iter()
            .map(|shared| shared.engine.lock())
            .collect();
        machine.set_now(self.now());
        for engine in &mut engines {
            // After a panic the machine has the functions already.
            machine.functions.extend(engine.function.take());
            machine.log.absorb(&mut engine.log);
            machine.link.absorb_counts(&mut engine.counts);
        }
        machine.link.absorb_counts(&mut self.uplink.take_counts());
        for (index, shared) in self.functions.all.iter().enumerate() {
            while let Some((off, value)) = shared.next_posted() {
                machine.write32(index, off, value);
            }
        }
        let result = f(&mut machine);
        let fired = machine.take_fired();
        self.give_back(&mut machine, &mut engines);
        drop(engines);
        drop(machine);
        for index in 0..self.functions.all.len() {
            self.leave_if_work(index);
        }
        (result, fired)
    }

    /// Gives the functions back to their threads, with the state they depend on.
    fn give_back(&self, machine: &mut Machine, engines: &mut [Guard<'_, EngineState>]) {
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
        self.uplink.set_direct(direct);
        let uplink = machine.link.uplink();
        let functions = machine.functions.drain(..);
        for ((shared, engine), function) in self.functions.all.iter().zip(engines).zip(functions) {
            shared.set_due(&function, &self.helper);
            let state = &function.state;
            if function.runnable || !state.outbox.is_empty() || !state.lan_outbox.is_empty() {
                shared.engine.announce();
            }
            engine.function = Some(function);
            engine.card = card.clone();
            engine.direct = direct;
            let is_same = match (&engine.uplink, uplink) {
                (Some(had), Some(has)) => Arc::ptr_eq(had, has),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                engine.uplink = uplink.cloned();
            }
        }
    }

    /// Calls `f` with one function after all earlier posted writes; `None` if there is no such
    /// function.
    pub(super) fn with_function<R>(
        &self,
        index: usize,
        f: impl FnOnce(&mut Function, &mut Log, u64) -> R,
    ) -> Option<R> {
        let shared = self.functions.get(index)?;
        let mut guard = shared.engine.lock();
        let engine: &mut EngineState = &mut guard;
        let function = engine.function.as_deref_mut()?;
        let now = self.now().0;
        if shared.drain(function, &mut engine.log, now) {
            shared.engine.announce();
        }
        let result = f(function, &mut engine.log, now);
        shared.set_due(function, &self.helper);
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
        if let Some(shared) = self.functions.get(index)
            && shared.was_due_before(long_ago.0, now.0)
        {
            self.run(index);
        }
    }

    pub(super) fn read32(&self, index: usize, off: RegOffset) -> u32 {
        if self
            .functions
            .get(index)
            .is_some_and(SharedFunction::has_left_work)
        {
            self.catch_up(index, self.now());
        }
        self.with_function(index, |function, log, now| function.read32(off, log, now))
            .unwrap_or(u32::MAX)
    }

    pub(super) fn write32(&self, index: usize, off: RegOffset, value: u32) {
        let Some(shared) = self.functions.get(index).filter(|_| is_posted(off)) else {
            let ((), fired) = self.machine_call(|machine| machine.write32(index, off, value));
            return self.raise_all(fired);
        };
        self.post(index, shared, off, value);
        self.leave(shared);
    }

    fn post(&self, index: usize, shared: &SharedFunction, off: RegOffset, value: u32) {
        while !shared.post(off, value) {
            // Nobody had the time for so many writes: they are executed here.
            let _ = self.with_function(index, |_, _, _| ());
        }
        shared.engine.announce();
    }

    /// As [`write32`](Self::write32), by a thread that [attends](Self::attend) to the function
    /// next: nobody else is woken.
    pub(super) fn ring(&self, index: usize, off: RegOffset, value: u32) {
        match self.functions.get(index).filter(|_| is_posted(off)) {
            Some(shared) => self.post(index, shared, off, value),
            None => self.write32(index, off, value),
        }
    }

    /// Does pending work of function `index` on this thread. While it returns true, there may be
    /// more, for which this thread comes again.
    pub(super) fn attend(&self, index: usize) -> bool {
        let due = |shared: &SharedFunction| shared.is_due(self.now().0);
        self.functions.get(index).is_some_and(due) && self.run_as(index, Leaves::ToCaller)
    }

    /// There is work that this thread does not do. It was announced, or found, after a fence.
    fn leave(&self, shared: &SharedFunction) {
        shared.leave_work();
        self.helper.notify_behind_fence();
    }

    /// The function was locked: work announced meanwhile is left to others.
    fn leave_if_work(&self, index: usize) {
        if let Some(shared) = self
            .functions
            .get(index)
            .filter(|shared| shared.engine.has_work_after())
        {
            self.leave(shared);
        }
    }

    /// Does the pending work of function `index` on this thread.
    pub(super) fn execute(&self, index: usize) {
        if self
            .functions
            .get(index)
            .is_some_and(|shared| shared.engine.has_work())
        {
            self.run(index);
        }
    }

    /// Does the pending work of function `index`, and waits for a thread that is doing it already.
    pub(super) fn settle(&self, index: usize) {
        let Some(shared) = self.functions.get(index) else {
            return;
        };
        // An engine under traffic always has more to do; by then it has had its turns.
        for _ in 0..CHAIN {
            drop(shared.engine.lock());
            if !shared.is_due(self.now().0) {
                return;
            }
            self.run(index);
        }
        self.leave(shared);
    }

    /// Runs the engine of function `first`, and the engines that get frames because of it and are
    /// not polled by a program. False when there was nothing to do.
    fn run(&self, first: usize) -> bool {
        self.run_as(first, Leaves::ToHelper)
    }

    fn run_as(&self, first: usize, leaves: Leaves) -> bool {
        let mut did = false;
        let mut todo = 1_u64 << first;
        let mut left = CHAIN;
        while todo != 0 {
            let index = todo.trailing_zeros() as usize;
            todo &= todo - 1;
            let Some(shared) = self.functions.get(index) else {
                continue;
            };
            let others = index != first && shared.polled.load(Ordering::Relaxed);
            if others || left == 0 {
                self.leave(shared);
                continue;
            }
            left -= 1;
            let mut for_machine = false;
            let attempt = shared.engine.try_run(|engine| {
                let turn = self.functions.turn(index, engine, self.now().0);
                if let Some(function) = &engine.function {
                    shared.set_due(function, &self.helper);
                }
                did |= turn.did;
                todo |= turn.destinations;
                for_machine |= turn.for_machine;
                let more = turn.more;
                self.follow_up(index, engine, turn);
                more
            });
            if for_machine {
                self.run_shared_events();
            }
            if attempt == Attempt::Left {
                match leaves {
                    Leaves::ToCaller if index == first => did = true,
                    _ => self.leave(shared),
                }
            }
        }
        did
    }

    /// Applies the results of a turn outside of its function.
    fn follow_up(&self, index: usize, engine: &EngineState, turn: Turn) {
        let mut others = turn.destinations;
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            if let Some(shared) = self.functions.get(other).filter(|_| other != index) {
                shared.engine.announce();
            }
        }
        if let Some(function) = engine.function.as_ref().filter(|_| !turn.fired.is_empty()) {
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
            for (index, shared) in self.functions.all.iter().enumerate() {
                if shared.polled.load(Ordering::Relaxed) {
                    // The program has until the next tick.
                    shared.polled.store(false, Ordering::Relaxed);
                    polled = true;
                } else if shared.is_due(self.now().0) {
                    // A device has received what came before such work. Other functions that get
                    // frames are due then, and have their turn in this loop.
                    if self.uplink.is_set() {
                        self.take_frames();
                    }
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
        let all = || self.functions.all.iter();
        let due = all()
            .map(|shared| shared.due.load(Ordering::Relaxed))
            .min()
            .unwrap_or(NEVER)
            .min(self.shared_due.load(Ordering::Relaxed));
        self.helper.sleep(self.now().0, due, || {
            all().any(|shared| shared.is_due(due.saturating_sub(1)))
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
