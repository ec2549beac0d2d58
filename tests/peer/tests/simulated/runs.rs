//! Many batches both ways.

use e810_peer::Library;
use e810_peer::generate::Rng;
use e810_sim::{Quality, Sim};
use e810_verbs::abi::constants::qp_type;

use crate::deliveries::{Batch, Says};
use crate::end::{End, wait};

/// Lists of requests in a run: enough for several laps of every ring.
const BATCHES: u64 = 300;
/// Worlds.
const SEEDS: u64 = 4;

struct Counts {
    requests: u64,
    receives: usize,
    events: usize,
    /// Queue pairs in page lists, of two.
    listed: usize,
}

fn run(kind: i32, seed: u64, quality: Quality, batches: u64) -> Option<Counts> {
    let library = Library::load_or_tell()?;
    let sim = Sim::builder().functions(2).seed(seed).build();
    let mut ends = [0, 1].map(|function| End::new(&library, &sim, function, kind));
    let datagrams = kind == qp_type::UD;
    let addresses = [0, 1].map(|n: usize| (ends[n].address(), ends[n].qp.id));
    for n in 0..2 {
        let (address, qp) = addresses[1 - n];
        ends[n].connect(address, qp, datagrams);
    }
    sim.set_quality(quality);
    let mut rng = Rng(seed);
    let mut counts = Counts {
        requests: 0,
        receives: 0,
        events: 0,
        listed: 0,
    };
    for end in &ends {
        counts.listed += end.node.kernel.borrow().listed_queue_pairs();
    }
    for _ in 0..batches {
        let from = rng.below(2) as usize;
        let count = 1 + u64::from(rng.below(8));
        let batch = Batch::new(
            &mut rng,
            &ends,
            from,
            datagrams,
            count,
            seed << 32 | counts.requests,
        );
        counts.requests += count;
        counts.receives += batch.receives.len();
        for (wr_id, sges) in &batch.receives {
            ends[1 - from].post_recv(*wr_id, sges);
        }
        ends[from].arm();
        ends[from].post(&batch.list);
        let mut wanted = [0; 2];
        wanted[from] = batch.sends_say.len();
        wanted[1 - from] = batch.receives_say.len();
        let said = wait(&ends, wanted);
        let says = |n: usize| said[n].iter().map(Says::of).collect::<Vec<_>>();
        assert_eq!(says(from), batch.sends_say, "{:#?}", batch.list);
        assert_eq!(says(1 - from), batch.receives_say, "{:#?}", batch.list);
        batch.check_memory(&ends);
        for (end, mr) in batch.gone {
            ends[end].node.opened.dereg_mr(mr).unwrap();
        }
        let events = ends[from].node.kernel.borrow_mut().take_events();
        let cq = u64::from(ends[from].cq.id);
        // Others are the kernel's own: its CQ has id 0.
        let own = events.iter().filter(|event| **event == cq).count();
        assert_eq!(own, 1, "one event for one request to be told");
        ends[from].node.opened.event_taken(&ends[from].cq).unwrap();
        counts.events += own;
    }
    assert_eq!(sim.findings(), [], "seed {seed}");
    for end in ends {
        let opened = &end.node.opened;
        opened.destroy_qp(end.qp).unwrap();
        opened.destroy_cq(end.cq).unwrap();
        opened.dereg_mr(end.mr).unwrap();
        if let Some(ah) = end.ah {
            opened.destroy_ah(ah).unwrap();
        }
    }
    assert_eq!(sim.findings(), [], "seed {seed}, at the end");
    Some(counts)
}

fn runs(what: &str, kind: i32, quality: Quality) {
    let mut listed = 0;
    for seed in 1..=SEEDS {
        let Some(counts) = run(kind, seed, quality, BATCHES) else {
            return;
        };
        println!(
            "{what}, seed {seed}: {} requests carried out, {} receives, {} events, \
             {} of 2 queue pairs in page lists, no finding",
            counts.requests, counts.receives, counts.events, counts.listed
        );
        assert!(counts.requests > 1000 && counts.receives > 500);
        assert_eq!(counts.events, BATCHES as usize);
        listed += counts.listed;
    }
    // By seed a mapping is one run or several.
    assert!((1..2 * SEEDS as usize).contains(&listed), "{listed}");
}

#[test]
#[cfg_attr(
    provider_missing,
    ignore = "NOT RUN: ibverbs-providers is missing; tests/peer/run fetches it"
)]
fn the_simulator_carries_out_what_the_library_posts() {
    runs("RC", qp_type::RC, Quality::PERFECT);
}

#[test]
#[cfg_attr(
    provider_missing,
    ignore = "NOT RUN: ibverbs-providers is missing; tests/peer/run fetches it"
)]
fn and_over_a_bad_wire() {
    let bad = Quality {
        loss: 20_000,
        duplicate: 20_000,
        reorder: 20_000,
        corrupt: 10_000,
        ..Quality::PERFECT
    };
    runs("RC, bad wire", qp_type::RC, bad);
}

#[test]
#[cfg_attr(
    provider_missing,
    ignore = "NOT RUN: ibverbs-providers is missing; tests/peer/run fetches it"
)]
fn the_simulator_carries_out_the_librarys_datagrams() {
    runs("UD", qp_type::UD, Quality::PERFECT);
}
