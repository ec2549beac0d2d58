//! Entries of completion queues as the device writes them.

use anyhow::{Context, Result, bail};
use e810_card::record::words_from_hex;
use e810_cqp::Opcode;
use e810_hal::{Clock as _, Ns};
use e810_trace::Event;

use super::STOPS;
use crate::bench::{Bench, Raw};
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
    if_not: "Nothing: the driver takes both.",
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
    if_not: "Nothing: the driver goes by the context.",
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

/// Entries of the smallest completion queue, and of the send queue that fills it.
const FEW: u32 = 1;
const REQUESTS: u32 = 15;

pub(super) const CQ_FULL: Experiment = Experiment {
    name: "cq_full",
    assumes: "one entry of a completion queue's ring stays free: the indexes do not tell a full ring from an empty one",
    does: "fills a completion queue that nobody polls, and counts the entries that are written",
    values: &["OneFree", "NoneFree"],
    if_not: "Nothing: the driver leaves one entry free.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(FEW)?;
            let [qp, _] = engine.pair(cq)?;
            let made = Raw::last(&engine.happened(), Opcode::CreateCq)?;
            let entries = made.word(0) & 0x1F_FFFF;
            if entries >= u64::from(REQUESTS) {
                bail!("the smallest completion queue has {entries} entries");
            }
            for _ in 0..REQUESTS {
                engine.write(qp)?;
            }
            // The driver does not see the event: it would flush queue pairs to a queue that takes nothing.
            bench.device().delay(STOPS);
            let written = completions(&engine.happened()).len() as u64;
            if written == 0 {
                bail!("no request completes");
            }
            Ok(if written + 1 == entries {
                Seen::Value("OneFree")
            } else if written == entries {
                Seen::Value("NoneFree")
            } else {
                Seen::Other(format!("{written} of {entries} entries are written"))
            })
        })
    },
};
