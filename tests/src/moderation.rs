//! What interrupt moderation saves and what it costs: a peer that sends at a
//! given rate, and a program that sleeps until an interrupt tells it of
//! completions. Everything is in virtual time: the same each time.
//!
//! How long a completion waits is counted from the device's write of its entry
//! to the poll that takes it. The time of the write is seen at the event of the
//! simulator that did it, or, while the program accesses a register, within that
//! access (100 ns).
#![expect(
    clippy::expect_used,
    reason = "a measurement that cannot go on fails by a panic"
)]

use std::collections::VecDeque;

use e810::{CqModeration, Data, Notify, Op, QpCaps, SendFlags, SendWr, Wc};
use e810_hal::Ns;
use e810_sim::{Rng, Sim, SimPlatform};

use crate::traffic::{Block, Pair, Setup, Watched};

/// From the card's message to the program's first step: interrupt, handler,
/// wake-up of a thread.
pub const WAKE: Ns = Ns(2_000);
/// What the program does with a completion.
pub const EACH: Ns = Ns(100);

/// How a vector is moderated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// What the completion queue is told.
    Queue(CqModeration),
    /// One interrupt in so many µs (INTRL).
    Limit(u32),
}

/// When messages are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// One after each period.
    Even,
    /// After a time drawn anew for each, up to two periods.
    Random,
    /// When the one before was polled, whatever the rate: it waits for moderation.
    OneByOne,
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Messages a second.
    pub rate: u32,
    pub arrivals: Arrivals,
    /// Messages before those that count, so that what adapts has done so.
    pub before: usize,
    /// Messages that count.
    pub counted: usize,
}

/// What was counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Completions polled.
    pub completions: u64,
    /// Interrupts of the function.
    pub interrupts: u64,
    /// Register writes of the program.
    pub writes: u64,
    /// Register reads of the program.
    pub reads: u64,
    /// How long completions waited in ns, ascending.
    pub waits: Vec<u64>,
    /// What the queue allowed in the end, in µs.
    pub allowed_us: u32,
}

impl Figures {
    /// Interrupts for 1000 completions.
    #[must_use]
    pub fn per_thousand(&self) -> f64 {
        self.interrupts as f64 * 1e3 / self.completions as f64
    }

    /// The mean wait in ns.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.waits.iter().sum::<u64>() as f64 / self.waits.len() as f64
    }

    /// The wait that so many percent are not above, in ns.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> u64 {
        let place = (self.waits.len() * percent).div_ceil(100).max(1) - 1;
        self.waits.get(place).copied().unwrap_or_default()
    }
}

/// Entries of the completion queue, watched as the device writes them.
#[derive(Debug)]
struct Written {
    ring: Block,
    entries: usize,
    /// Entries seen so far.
    seen: usize,
    /// When those came that were not polled yet.
    times: VecDeque<u64>,
}

impl Written {
    /// Words of an entry, and its valid bit, in the last one: 1 in the first lap
    /// (data-path 4.1).
    const WORDS: usize = 4;
    const VALID: u64 = 1 << 63;

    fn record(&mut self, now: Ns) {
        loop {
            let (lap, place) = (self.seen / self.entries, self.seen % self.entries);
            let word = self.ring.get(place * Self::WORDS + Self::WORDS - 1);
            if (word & Self::VALID != 0) == (lap % 2 == 1) {
                return;
            }
            self.seen += 1;
            self.times.push_back(now.0);
        }
    }
}

/// Sender, wire and program.
#[derive(Debug)]
struct Bench {
    sim: Sim,
    pair: Pair<Watched<SimPlatform>>,
    written: Written,
    load: Load,
    rng: Rng,
    /// When the next message is due, and how many are left.
    due: u64,
    left: usize,
    /// Sends so far; one queue pair after the other.
    sent: usize,
    polled: usize,
    waits: Vec<u64>,
}

/// With nothing to happen, time goes on by this much.
const IDLE: u64 = 100_000;

/// Queue pairs, so that none is a bottleneck.
const QPS: usize = 4;
/// Receives that wait on each.
const RECEIVES: u32 = 128;
/// Room of the completion queues.
const CQE: u32 = 4_000;

impl Bench {
    fn new(setting: Setting, load: Load, seed: u64) -> Self {
        let sim = Sim::builder().functions(2).seed(seed).build();
        let setup = Setup {
            // Receives complete on a vector of their own.
            separate_cqs: true,
            queue_pairs: QPS,
            cqe: CQE,
            caps: QpCaps {
                max_send_wr: RECEIVES,
                max_recv_wr: RECEIVES,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        let side = pair.side(1);
        let cq = side.cqs.get_mut(1).expect("the receive CQ");
        match setting {
            Setting::Queue(moderation) => side.control.modify_cq(cq, moderation).expect("set"),
            Setting::Limit(us) => side.control.limit_interrupts(1, us).expect("a limit"),
        }
        // Each holds one entry more than it has room for.
        let ring = side.platform.blocks().into_iter().rev();
        let ring = ring.filter(|block| block.align == 256 && block.words() > CQE as usize * 4);
        let ring = { ring }.next().expect("the ring of the receive CQ");
        for qp in 0..QPS {
            for _ in 0..RECEIVES {
                side.post_recv(qp, qp as u64, &[]).expect("room");
            }
        }
        let written = Written {
            entries: ring.words() / Written::WORDS,
            ring,
            seen: 0,
            times: VecDeque::new(),
        };
        let due = sim.now().0 + 10_000;
        Self {
            sim,
            pair,
            written,
            load,
            rng: Rng::new(seed),
            due,
            left: load.before + load.counted,
            sent: 0,
            polled: 0,
            waits: Vec::new(),
        }
    }

    fn send(&mut self) {
        let period = 1_000_000_000 / u64::from(self.load.rate);
        self.due += match self.load.arrivals {
            Arrivals::Even => period,
            Arrivals::Random => self.rng.below(2 * period + 1),
            Arrivals::OneByOne => IDLE,
        };
        self.left -= 1;
        let side = self.pair.side(0);
        let op = Op::Send {
            data: Data::Inline(&[]),
            imm: None,
        };
        let request = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
        };
        let qp = self.sent % QPS;
        self.sent += 1;
        let cq = side.cqs.first_mut().expect("the send CQ");
        while cq.poll(&mut [Wc::default(); 16]) > 0 {}
        side.post_send(qp, &[request]).expect("room for a send");
    }

    /// One thing happens: a message is due, or something in the simulator, or
    /// nothing until `end`.
    fn step(&mut self, end: u64) {
        let now = self.sim.now().0;
        if self.left > 0 && self.due <= now {
            self.send();
        } else {
            let due = if self.left > 0 { self.due } else { u64::MAX };
            let event = self.sim.next_event().map_or(u64::MAX, |at| at.0);
            let next = end.min(due).min(event).min(now + IDLE);
            self.sim.run(Ns(next - now));
        }
        self.written.record(self.sim.now());
    }

    /// The program is busy; the world goes on.
    fn pass(&mut self, time: Ns) {
        let end = self.sim.now().0 + time.0;
        while self.sim.now().0 < end {
            self.step(end);
        }
    }

    /// Sleeps until the vector fires; false when nothing comes any more.
    fn sleep(&mut self) -> bool {
        let vector = self.pair.side(1).events.get(2).expect("an event queue");
        let vector = vector.vector();
        let mut quiet = self.sim.now().0;
        loop {
            if self.sim.take_interrupts(1).contains(&vector) {
                return true;
            }
            if self.left > 0 {
                quiet = self.sim.now().0;
            } else if self.sim.now().0 - quiet > 10_000_000 {
                return false;
            }
            self.step(u64::MAX);
        }
    }

    /// The program wakes, takes everything, and asks for the next event.
    fn serve(&mut self) {
        self.pass(WAKE);
        let side = self.pair.side(1);
        let events = side.events.get_mut(2).expect("an event queue");
        while events.on_vector(&mut |_| {}).more {}
        self.written.record(self.sim.now());
        loop {
            while self.poll() > 0 {}
            let cq = self.pair.side(1).cqs.get_mut(1).expect("the receive CQ");
            let more = cq.arm(Notify::Any);
            self.written.record(self.sim.now());
            if !more {
                return;
            }
        }
    }

    fn poll(&mut self) -> usize {
        let mut wcs = [Wc::default(); 16];
        let side = self.pair.side(1);
        let done = side.cqs.get_mut(1).expect("the receive CQ").poll(&mut wcs);
        let now = self.sim.now().0;
        for wc in wcs.iter().take(done) {
            side.post_recv(wc.wr_id as usize, wc.wr_id, &[])
                .expect("room for a receive");
            let written = self.written.times.pop_front().expect("an entry");
            if self.polled >= self.load.before {
                self.waits.push(now - written);
            }
            self.polled += 1;
            if self.load.arrivals == Arrivals::OneByOne {
                self.due = now;
            }
        }
        for _ in 0..done {
            self.pass(EACH);
        }
        done
    }

    fn run(mut self) -> Figures {
        let arm = |bench: &mut Self| {
            let cq = bench.pair.side(1).cqs.get_mut(1).expect("the receive CQ");
            assert!(!cq.arm(Notify::Any), "nothing came yet");
        };
        arm(&mut self);
        // From the end of an interrupt's work to that of another one, while the
        // load lasts: no interval is cut.
        while self.polled < self.load.before && self.sleep() {
            self.serve();
        }
        let first = (self.polled, self.sim.stats(1));
        let mut last = first;
        while self.sleep() {
            self.serve();
            if self.left > 0 {
                last = (self.polled, self.sim.stats(1));
            }
        }
        self.waits.sort_unstable();
        let cq = self.pair.side(1).cqs.get(1).expect("the receive CQ");
        let figures = Figures {
            completions: (last.0 - first.0) as u64,
            interrupts: last.1.interrupts - first.1.interrupts,
            writes: last.1.register_writes - first.1.register_writes,
            reads: last.1.register_reads - first.1.register_reads,
            waits: self.waits,
            allowed_us: cq.moderation().wait_us,
        };
        // The sender's completions.
        let side = self.pair.side(0);
        let cq = side.cqs.first_mut().expect("the send CQ");
        while cq.poll(&mut [Wc::default(); 16]) > 0 {}
        assert_eq!(self.polled, self.load.before + self.load.counted);
        assert!(self.written.times.is_empty());
        self.pair.finish(&self.sim);
        figures
    }
}

/// Measures a setting under a load.
#[must_use]
pub fn measure(setting: Setting, load: Load, seed: u64) -> Figures {
    Bench::new(setting, load, seed).run()
}
