//! Entries of completion queues as the device writes them.

use anyhow::{Context, Result, bail};
use e810_card::record::words_from_hex;
use e810_hal::Ns;
use e810_trace::Event;

use crate::bench::Bench;
use crate::experiment::{Experiment, Risk, Seen};

/// Receives that are flushed at a time.
const POSTED: usize = 4;
/// Flushes, where one says little.
const FLUSHES: usize = 12;
/// Time in which the device has written all entries of a flush.
const WRITTEN: Ns = Ns::from_ms(10);

/// The words of the completions in `lines`, but for those of the Control QP.
fn completions(lines: &[Event]) -> Vec<Vec<u64>> {
    let words = lines.iter().filter_map(|line| match line {
        Event::Cqe { cq: 1.., bytes, .. } => words_from_hex(bytes),
        _ => None,
    });
    words.collect()
}

/// The number of a queue pair with receives that were flushed, and the device's completions of them.
fn flushed(bench: &Bench, flushes: usize) -> Result<Vec<(u32, Vec<Vec<u64>>)>> {
    bench.engine(|engine| {
        let cq = engine.cq(64)?;
        let mut all = Vec::new();
        for _ in 0..flushes {
            let [qp, _] = engine.pair(cq)?;
            for _ in 0..POSTED {
                engine.receive(qp)?;
            }
            engine.happened();
            engine.fail(qp)?;
            engine.wait(WRITTEN)?;
            let number = engine.get(qp)?.number().get();
            all.push((number, completions(&engine.happened())));
            engine.completions(cq, POSTED)?;
        }
        Ok(all)
    })
}

pub(super) const FLUSH: Experiment = Experiment {
    name: "flush",
    assumes: "FLUSH_WQES writes one completion for each queue or one for each request: software takes both",
    does: "flushes four receives, several times, and counts the entries that the device writes",
    values: &["Mixed", "PerQueue", "PerWqe"],
    seconds: 10,
    risk: Risk::None,
    run: |bench| {
        let counts: Vec<usize> = flushed(bench, FLUSHES)?
            .iter()
            .map(|(_, completions)| completions.len())
            .collect();
        let are_all = |wanted| counts.iter().all(|count| *count == wanted);
        Ok(if are_all(1) {
            Seen::Value("PerQueue")
        } else if are_all(POSTED) {
            Seen::Value("PerWqe")
        } else if counts.iter().all(|count| [1, POSTED].contains(count)) {
            Seen::Value("Mixed")
        } else {
            Seen::Other(format!(
                "{POSTED} receives, and so many entries: {counts:?}"
            ))
        })
    },
};

pub(super) const FLUSH_QP_ID: Experiment = Experiment {
    name: "flush_qp_id",
    assumes: "completions of flushed requests have the number of their queue pair",
    does: "flushes receives, and looks at the entries that the device writes",
    values: &["Present", "Zero"],
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        let flushed = flushed(bench, 1)?;
        let (number, completions) = flushed.first().context("nothing was flushed")?;
        // QPID (data-path 4.1).
        let ids = completions
            .iter()
            .filter_map(|words| Some(words.get(2)? >> 32 & 0xFF_FFFF));
        let ids: Vec<u64> = ids.collect();
        let are_all = |wanted| ids.iter().all(|id| *id == wanted);
        Ok(if ids.is_empty() {
            bail!("the device writes no entry for flushed receives")
        } else if are_all(u64::from(*number)) {
            Seen::Value("Present")
        } else if are_all(0) {
            Seen::Value("Zero")
        } else {
            Seen::Other(format!("queue pair {number}, and these numbers: {ids:?}"))
        })
    },
};
