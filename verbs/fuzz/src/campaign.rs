//! Sequences one after the other, or in several threads on shared objects.

use std::collections::BTreeSet;
use std::env;
use std::thread;
use std::time::{Duration, Instant};

use e810_sim::{MemoryCounts, Sim};
use e810_verbs::testing::simulators;

use crate::api::SYMBOLS;
use crate::draw::Draw;
use crate::engine::Engine;
use crate::run::{Apis, Run, Tally};

/// Calls of a sequence, about.
const SEQUENCE: u64 = 4000;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The functions.
    pub api: Apis,
    /// The first sequence's seed; each has the next one.
    pub seed: u64,
    /// Calls, at least.
    pub calls: u64,
    /// Threads on shared objects; 1: a sequence has all for itself.
    pub threads: u64,
    /// The simulators are this program's own, and can be asked.
    pub is_linked: bool,
}

/// Two functions on a wire, before the library is used.
pub fn prepare() {
    let wire = format!("calls{}", std::process::id());
    let function = |number: u8| format!("sim:wire={wire},mac=02:00:00:00:01:0{number}");
    let at = |number| {
        format!(
            "{}@10.8.1.{},fd00:8::{}",
            function(number),
            number + 1,
            number + 1
        )
    };
    let devices = format!("{} {}", at(0), at(1));
    // SAFETY: nothing else runs yet.
    unsafe {
        env::set_var("E810_VERBS", devices);
        env::set_var("E810_VERBS_PANICS", "1");
    }
}

/// What drivers hold, without counts that only grow.
pub(crate) fn held() -> Vec<(u64, u64, u64)> {
    let of = |sim: &Sim| {
        let MemoryCounts {
            dma_blocks,
            host_blocks,
            mappings,
            ..
        } = sim.memory(0);
        (dma_blocks, host_blocks, mappings)
    };
    simulators().iter().map(of).collect()
}

/// Ends the process if the simulators found something, or memory is held that was not.
pub(crate) fn inspect(run: &Run, before: &[(u64, u64, u64)]) {
    for sim in simulators() {
        let findings = sim.findings();
        if !findings.is_empty() {
            run.fail(&format!("the simulator found: {findings:#?}"));
        }
    }
    // What the thread of a function gives back follows.
    let since = Instant::now();
    while !before.is_empty() && held() != before {
        if since.elapsed() > Duration::from_secs(5) {
            run.fail(&format!("the driver holds {:?}, not {before:?}", held()));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

impl Campaign {
    #[must_use]
    pub fn run(&self) -> Tally {
        let mut tally = Tally::default();
        let mut seed = self.seed;
        // The first sequence brings the functions up, and leaves what they keep.
        let mut before = Vec::new();
        let mut printed = Instant::now();
        while tally.all() < self.calls {
            let run = match self.threads {
                0 | 1 => self.alone(seed),
                _ => self.together(seed),
            };
            if self.is_linked {
                inspect(&run, &before);
                before = held();
            }
            tally.add(&run.tally);
            seed += 1;
            if printed.elapsed() > Duration::from_secs(30) {
                printed = Instant::now();
                println!("{} calls, seed {seed}", tally.all());
            }
        }
        tally
    }

    /// Of a thread, from 1; 0 is that which begins and ends the sequence.
    fn begin(&self, seed: u64, thread: u64) -> Run {
        Run::new(self.api, Draw::seeded(seed ^ thread << 48), seed)
    }

    fn alone(&self, seed: u64) -> Run {
        let mut engine = Engine::new(self.begin(seed, 0));
        engine.begin();
        while engine.run.tally.all() < SEQUENCE {
            engine.step();
        }
        engine.end();
        engine.run
    }

    /// Threads on the contexts, protection domains, queues and queue pairs of one of them.
    fn together(&self, seed: u64) -> Run {
        let mut first = Engine::new(self.begin(seed, 0));
        for device in [0, 0, 1] {
            first.open(device);
        }
        while first.world.qps.len() < 4 && first.run.tally.all() < SEQUENCE / 2 {
            first.step();
        }
        /// The objects are live until all threads have ended.
        struct Shared<'a>(&'a Engine);
        // SAFETY: pointers of a library that is made for several threads, and plain data.
        unsafe impl Sync for Shared<'_> {}
        impl Shared<'_> {
            fn run(&self, run: Run) -> Tally {
                let mut engine = Engine::new(run);
                engine.share(self.0);
                engine.begin();
                while engine.run.tally.all() < SEQUENCE {
                    engine.step();
                }
                engine.end();
                engine.run.tally
            }
        }
        let shared = Shared(&first);
        let mut tallies = Vec::new();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|number| {
                    let run = self.begin(seed, number + 1);
                    let shared = &shared;
                    scope.spawn(move || shared.run(run))
                })
                .collect();
            for thread in threads {
                tallies.push(thread.join().expect("a thread that ends"));
            }
        });
        // Who polled its completions is not known.
        for at in first.world.cqs.iter().map(|(at, _)| at).collect::<Vec<_>>() {
            first.world.cqs.get_mut(at).shared = false;
        }
        first.without_flush();
        first.end();
        for tally in &tallies {
            first.run.tally.add(tally);
        }
        first.run
    }

    /// Runs a fuzzer's input once.
    pub fn input(&self, bytes: &[u8]) {
        let mut engine = Engine::new(Run::new(self.api, Draw::of_bytes(bytes), 0));
        engine.begin();
        while !engine.run.draw.is_at_end() {
            engine.step();
        }
        // The end is drawn as well, and has to come to one.
        engine.run.draw = Draw::seeded(bytes.len() as u64);
        engine.end();
        inspect(&engine.run, &[]);
    }
}

/// What a campaign reached, and what it has to.
///
/// # Errors
/// What it did not.
pub fn report(tally: &Tally) -> Result<(), String> {
    println!(
        "{} calls, {} % of them successful; {} transfers within a function, {} between two, {} bytes compared",
        tally.all(),
        tally.share(),
        tally.transfers[0],
        tally.transfers[1],
        tally.bytes,
    );
    let reached = tally.calls.iter().filter(|calls| **calls > 0).count();
    let edges: BTreeSet<_> = tally.edges.iter().filter(|(.., to)| *to < 100).collect();
    println!(
        "{reached} of {} functions, {} changes of state",
        SYMBOLS.len(),
        edges.len()
    );
    let missed = tally.missed();
    if !missed.is_empty() {
        return Err(format!("never reached: {}", missed.join(", ")));
    }
    if tally.share() < 34 {
        return Err("less than a third of the calls succeed".to_owned());
    }
    Ok(())
}
