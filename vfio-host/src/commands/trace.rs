//! `e810 trace`: a trace of `--trace` as text, and two of them compared.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use e810_backends::host::plain;
use e810_replay::{Recording, Volatile};
use e810_sim::{Sim, Variation};
use e810_trace::{Trace, anonymised, diff, show};

use super::sim::of_card;
use crate::cli::{CardArgs, TraceAction, TraceArgs};
use crate::usage::refuse;

/// Runs the command.
///
/// # Errors
/// A file that is not a trace, or two traces that differ.
pub fn run(args: &TraceArgs, out: &mut dyn Write) -> Result<()> {
    match &args.action {
        TraceAction::Show {
            file,
            anonymise: true,
            ..
        } => {
            for record in anonymised(&read(file)?) {
                writeln!(out, "{}", serde_json::to_string(&record)?)?;
            }
            Ok(())
        }
        TraceAction::Show { file, only, .. } => Ok(show(&read(file)?, only.kinds(), out)?),
        TraceAction::Check {
            files,
            again,
            card,
            most,
        } => check(files, again, card, *most, out),
        TraceAction::Diff { one, other, only } => {
            let (old, new) = (read(one)?, read(other)?);
            let (one, other) = (one.display().to_string(), other.display().to_string());
            let differences = diff((&one, &old), (&other, &new), only.kinds());
            if differences.is_empty() {
                writeln!(out, "no difference")?;
                return Ok(());
            }
            out.write_all(differences.as_bytes())?;
            out.flush()?;
            bail!("the traces differ");
        }
    }
}

fn recordings(files: &[PathBuf]) -> Result<Vec<Recording>> {
    let recording = |file: &PathBuf| {
        let (name, trace) = (file.display().to_string(), read(file)?);
        Ok(Recording { name, trace })
    };
    files.iter().map(recording).collect()
}

/// The seed of `e810 sim` unless another is given: it chooses what the reference leaves open.
const SEED: u64 = 1;

fn check(
    files: &[PathBuf],
    again: &[PathBuf],
    card: &CardArgs,
    most: usize,
    out: &mut dyn Write,
) -> Result<()> {
    if !again.is_empty() && again.len() != files.len() {
        let (files, again) = (files.len(), again.len());
        refuse!(
            "--again is given {again} times for {files} recordings: give it once for each, in their order"
        );
    }
    let all = recordings(files)?;
    let volatile = match again {
        [] => Volatile::default(),
        again => Volatile::between(&all, &recordings(again)?),
    };
    let card = of_card(card, Variation::default(), Sim::builder().seed(SEED).cold())?;
    let outcome = e810_replay::check(&all, card, &volatile)?;
    writeln!(out, "reads: {}", outcome.reads)?;
    writeln!(
        out,
        "reads of configuration space: {}",
        outcome.config_reads
    )?;
    writeln!(out, "interrupts: {}", outcome.interrupts)?;
    for (what, compared) in &outcome.written {
        writeln!(out, "{what}: {compared}")?;
    }
    writeln!(
        out,
        "of received LAN frames, not compared: {} descriptors, {} interrupts",
        outcome.given, outcome.given_interrupts
    )?;
    for (what, (count, why)) in &outcome.left_out {
        writeln!(out, "not compared: {count} of {what}: {why}")?;
    }
    writeln!(
        out,
        "entries that the recordings do not have: {}",
        outcome.not_seen
    )?;
    for finding in outcome.findings.iter().take(most) {
        writeln!(out, "finding: {finding}")?;
    }
    for difference in outcome.differences.iter().take(most) {
        writeln!(out, "{difference}")?;
    }
    if let Some(line) = outcome.stopped_at {
        writeln!(out, "too much differs: ended at line {line}")?;
    }
    if !outcome.differences.is_empty() {
        writeln!(
            out,
            "the simulated card must be the recorded one (--card, --profile, --vectors), and the files in the order of its functions"
        )?;
    }
    match outcome.differences.len() {
        0 => Ok(writeln!(out, "no difference")?),
        1 => bail!("1 difference"),
        count => bail!("{count} differences"),
    }
}

/// Maximum bytes of a trace that is read: it is held in memory.
const LONGEST: u64 = 4 << 30;

fn read(path: &Path) -> Result<Trace> {
    let of_file = || path.display().to_string();
    let bytes = plain::read(path, LONGEST).with_context(of_file)?;
    Trace::parse(&bytes).with_context(of_file)
}
