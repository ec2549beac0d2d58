//! Random schedules of a program that sleeps: whether it is ever left asleep.
//!
//! A peer sends, plain and solicited messages; the program polls its completion
//! queue, asks for an event (any or solicited, whichever it likes), looks again
//! if told to, and sleeps until one comes; an interrupt handler runs some time
//! after its interrupt, or looks by itself. Who goes next and how much time
//! passes in between is drawn from a seed, in virtual time: a schedule is the
//! same each time.

use std::collections::VecDeque;

use e810::{Event, Notify, Polled, SendFlags, Wc};
use e810_hal::Ns;
use e810_sim::{Rng, Sim, SimPlatform, Stats};

use crate::traffic::{Pair, Setup, Watched};

/// Messages of one schedule, at most.
const MESSAGES: u64 = 4;
/// Time that passes between two steps, at most: a message takes about as long.
const STEP: u64 = 3_000;
/// Long after the last message, its acknowledgement and every interrupt.
const QUIET: Ns = Ns(60_000);

/// What schedules did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub schedules: u64,
    /// Completions that the program polled.
    pub completions: u64,
    /// Times it asked for an event.
    pub requests: u64,
    /// Times it slept and was told.
    pub events: u64,
    /// Completions that were there while it slept on, although it had asked to
    /// be told of them: never more than 0.
    pub slept_over: u64,
    /// Events without a request since the last: never more than 0.
    pub unasked: u64,
    /// Events that the handler took for a queue that had been told already.
    pub surplus: u64,
    /// Event queue entries of queues that do not exist: there are none here.
    pub skipped: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Polls,
    Asks,
    Sleeps,
}

/// Two functions, a program on the second one.
#[derive(Debug)]
pub struct Schedules {
    sim: Sim,
    pair: Pair<Watched<SimPlatform>>,
    rng: Rng,
    requests: &'static [Notify],
    program: Program,
    /// Since the last event it has asked, and whether for any completion.
    asked: bool,
    wants_any: bool,
    /// Whether each message on its way, or there and not polled, is solicited.
    unread: VecDeque<bool>,
    tally: Tally,
}

impl Schedules {
    /// Brings both functions of `sim` up; schedules follow from `seed`, and the
    /// program asks for one of `requests` each time.
    #[must_use]
    pub fn new(sim: Sim, seed: u64, requests: &'static [Notify]) -> Self {
        let mut pair = Pair::simulated(&sim, Setup::default());
        // Only the schedule polls.
        pair.sides.iter_mut().for_each(|side| side.polling = false);
        Self {
            sim,
            pair,
            rng: Rng::new(seed),
            requests,
            program: Program::Polls,
            asked: false,
            wants_any: false,
            unread: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// Carries out one schedule.
    pub fn run_one(&mut self) {
        let mut left = 1 + self.rng.below(MESSAGES);
        while left > 0 {
            match self.rng.below(8) {
                0 | 1 => {
                    self.send();
                    left -= 1;
                }
                2 | 3 => {
                    let time = self.rng.below(STEP);
                    self.sim.run(Ns(time));
                }
                4..=6 => {
                    self.step();
                }
                // A handler that looks without an interrupt.
                _ => self.handle(false),
            }
            if self.rng.chance(500_000) {
                self.handle(true);
            }
        }
        // The program goes on until it sleeps for good.
        loop {
            while self.step() {
                let time = self.rng.below(STEP);
                self.sim.run(Ns(time));
                self.handle(true);
            }
            self.sim.run(QUIET);
            self.handle(true);
            if !self.step() {
                break;
            }
        }
        let wants_any = self.wants_any;
        let missed = self.unread.iter().filter(|one| wants_any || **one);
        self.tally.slept_over += missed.count() as u64;
        self.tally.schedules += 1;
        // What it did not want to hear of, or should have.
        self.program = Program::Polls;
        while self.poll() {}
        self.settle_sender();
    }

    /// What was done so far.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What passed between the program's driver and its function.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.sim.stats(1)
    }

    /// Gives everything back, and checks that nothing was found.
    pub fn finish(self) {
        self.pair.finish(&self.sim);
    }

    fn send(&mut self) {
        let solicited = self.rng.chance(400_000);
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SOLICITED, solicited);
        self.pair.message(flags);
        self.unread.push_back(solicited);
    }

    /// One step of the program; false when it sleeps.
    fn step(&mut self) -> bool {
        let Some(cq) = self
            .pair
            .sides
            .get_mut(1)
            .and_then(|side| side.cqs.first_mut())
        else {
            return false;
        };
        match self.program {
            Program::Polls => {
                if !self.poll() {
                    self.program = Program::Asks;
                }
            }
            Program::Asks => {
                let wish = self.rng.below(self.requests.len() as u64) as usize;
                let notify = self.requests.get(wish).copied().unwrap_or(Notify::Any);
                self.asked = true;
                self.wants_any |= notify == Notify::Any;
                self.tally.requests += 1;
                let more = cq.arm(notify);
                // One that does not look again is told all the same.
                let polls = more && self.rng.chance(500_000);
                self.program = match polls {
                    true => Program::Polls,
                    false => Program::Sleeps,
                };
            }
            Program::Sleeps if cq.take_event() => {
                self.tally.events += 1;
                self.tally.unasked += u64::from(!self.asked);
                self.asked = false;
                self.wants_any = false;
                self.program = Program::Polls;
            }
            Program::Sleeps => return false,
        }
        true
    }

    /// Polls once; false when there was nothing.
    fn poll(&mut self) -> bool {
        let mut wcs = [Wc::default(); 2];
        let room = 1 + self.rng.below(2) as usize;
        let Some(cq) = self
            .pair
            .sides
            .get_mut(1)
            .and_then(|side| side.cqs.first_mut())
        else {
            return false;
        };
        let done = cq.poll(wcs.get_mut(..room).unwrap_or_default());
        self.unread.drain(..done);
        self.tally.completions += done as u64;
        done > 0
    }

    /// The interrupt handler: of the vectors that fired, or, without an
    /// interrupt, a look at all queues.
    fn handle(&mut self, interrupts: bool) {
        let fired = match interrupts {
            true => self.sim.take_interrupts(1),
            false => Vec::new(),
        };
        let Some(side) = self.pair.sides.get_mut(1) else {
            return;
        };
        let mut all = Polled::default();
        for events in &mut side.events {
            let mut nothing = |_: Event| {};
            let polled = match interrupts {
                true if fired.contains(&events.vector()) => events.on_vector(&mut nothing),
                true => continue,
                false => events.poll(&mut nothing),
            };
            all.surplus += polled.surplus;
            all.skipped += polled.skipped;
        }
        self.tally.surplus += u64::from(all.surplus);
        self.tally.skipped += u64::from(all.skipped);
    }

    /// The peer's own completions are of no interest, but have to be taken.
    fn settle_sender(&mut self) {
        if let Some(cq) = self
            .pair
            .sides
            .first_mut()
            .and_then(|side| side.cqs.first_mut())
        {
            while cq.poll(&mut [Wc::default(); 8]) > 0 {}
        }
    }
}
