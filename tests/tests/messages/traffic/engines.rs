//! Every scenario with engines that look everything up each time, with engines that use again what
//! they found, with engines that check each access to mapped memory, and with engines in real time
//! on threads: the same frames, completions and findings.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use e810_sim::link::Frame;
use e810_sim::wire::{Headers, Packet, Path, Verb};
use e810_sim::{Mode, Sim, Stats};
use e810_tests::traffic::scenarios::{Scenario, scenarios};
use e810_tests::traffic::{Pair, Watched};

type Platform = Watched<e810_sim::SimPlatform>;

/// A frame as far as two runs agree: addresses of memory differ between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Seen {
    from: Option<u8>,
    opcode: u8,
    text: String,
    payload: Vec<u8>,
}

impl Seen {
    fn new(frame: &Frame<'_>) -> Option<Self> {
        let Packet {
            path,
            mut headers,
            payload,
        } = Packet::parse(frame.bytes).ok()?;
        if let Some(reth) = &mut headers.reth {
            reth.addr = 0;
        }
        Some(Self {
            from: frame.from,
            opcode: headers.bth.opcode.0,
            text: Self::text(&path, &headers),
            payload: payload.to_vec(),
        })
    }

    fn text(path: &Path, headers: &Headers) -> String {
        format!("{path:?} {headers:?}")
    }

    /// Whether it does not depend on when things happen: how many messages an acknowledge is for
    /// does, and so does a request for one.
    fn is_of_every_run(&self) -> bool {
        let verb = e810_sim::wire::Opcode(self.opcode).rc();
        !matches!(verb, Some((Verb::Acknowledge, _)))
    }
}

/// What a run of a scenario came to.
struct Outcome {
    frames: Vec<(u64, Seen)>,
    stats: [Stats; 2],
}

fn run(scenario: &Scenario<Platform>, mode: Mode, shortcuts: bool, checked: bool) -> Outcome {
    let sim = Sim::builder()
        .functions(2)
        .seed(33)
        .mode(mode)
        .checked_access(checked)
        .engine(move |_, config| config.shortcuts = shortcuts)
        .build();
    let frames = Arc::new(Mutex::new(Vec::new()));
    let tap = Arc::clone(&frames);
    sim.set_capture(Some(Box::new(move |frame| {
        if let Some(seen) = Seen::new(&frame) {
            tap.lock().unwrap().push((frame.time.0, seen));
        }
    })));
    let mut pair = Pair::simulated(&sim, scenario.setup);
    (scenario.run)(&mut pair);
    let stats = [sim.stats(0), sim.stats(1)];
    // Everything is given back, and nothing was found.
    pair.finish(&sim);
    sim.set_capture(None);
    let frames = std::mem::take(&mut *frames.lock().unwrap());
    Outcome { frames, stats }
}

/// Counts that do not depend on what the engine remembers: it reads memory less often.
fn counts(stats: &Stats) -> [u64; 9] {
    [
        stats.register_writes,
        stats.doorbells,
        stats.frames_sent,
        stats.frames_received,
        stats.commands,
        stats.ceqes,
        stats.arms,
        stats.interrupts,
        stats.dma_faults,
    ]
}

#[test]
fn what_is_remembered_changes_nothing() {
    let mut frames = 0;
    for scenario in scenarios::<Platform>() {
        let run = |shortcuts, checked| run(&scenario, Mode::Virtual, shortcuts, checked);
        let (plain, remembered, checked) = (run(false, false), run(true, false), run(true, true));
        frames += plain.frames.len();
        assert_eq!(
            plain.frames.len(),
            remembered.frames.len(),
            "{}",
            scenario.name
        );
        for (one, other) in plain.frames.iter().zip(&remembered.frames) {
            assert_eq!(one, other, "{}", scenario.name);
        }
        assert_eq!(remembered.frames, checked.frames, "{}", scenario.name);
        assert_eq!(remembered.stats, checked.stats, "{}", scenario.name);
        for (one, other) in plain.stats.iter().zip(&remembered.stats) {
            assert_eq!(counts(one), counts(other), "{}", scenario.name);
            assert!(other.dma_reads <= one.dma_reads, "{}", scenario.name);
        }
    }
    assert!(frames > 0);
}

/// In real time packets may be sent again, and acknowledges are for more or fewer messages, when a
/// thread gets no processor; what is asked for and answered is the same.
#[test]
fn real_time_carries_the_same() {
    let requests = |outcome: &Outcome| -> BTreeSet<Seen> {
        let frames = outcome.frames.iter().map(|(_, seen)| seen.clone());
        frames.filter(Seen::is_of_every_run).collect()
    };
    for scenario in scenarios::<Platform>() {
        let [virtual_time, real_time] =
            [Mode::Virtual, Mode::Real].map(|mode| requests(&run(&scenario, mode, true, false)));
        let only = |a: &BTreeSet<Seen>, b: &BTreeSet<Seen>| a.difference(b).next().cloned();
        assert_eq!(only(&virtual_time, &real_time), None, "{}", scenario.name);
        assert_eq!(only(&real_time, &virtual_time), None, "{}", scenario.name);
    }
}
