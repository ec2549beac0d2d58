//! `e810 trace`: a trace of `--trace` as text, and two of them compared.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use e810_backends::host::plain;
use e810_trace::{Trace, diff, show};

use crate::cli::{TraceAction, TraceArgs};

/// Runs the command.
///
/// # Errors
/// A file that is not a trace, or two traces that differ.
pub fn run(args: &TraceArgs, out: &mut dyn Write) -> Result<()> {
    match &args.action {
        TraceAction::Show { file, only } => Ok(show(&read(file)?, only.kinds(), out)?),
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

/// Maximum bytes of a trace that is read: it is held in memory.
const LONGEST: u64 = 4 << 30;

fn read(path: &Path) -> Result<Trace> {
    let of_file = || path.display().to_string();
    let bytes = plain::read(path, LONGEST).with_context(of_file)?;
    Trace::parse(&bytes).with_context(of_file)
}
