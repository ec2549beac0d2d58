//! The rows of a measurement, each printed when it is measured.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use e810_sim_server::files;

use crate::cli::PerfArgs;
use crate::handshake::Role;
use crate::measure::ended::{Ended, Ending};
use crate::measure::perf::{self, Layout, PerfReport, Plan, Run, Table, Test, core_to_core};
use crate::output::file::OutputFile;
use crate::output::progress::Progress;
use crate::output::unwritten::of_file;
use crate::output::{json, terminal};
use crate::pci_functions::workload::TransportLabel;

/// Receives the outcome of each size.
pub(in crate::commands) trait Sink {
    /// Called before the messages; this side has `role`.
    ///
    /// # Errors
    /// It cannot be shown.
    fn begin(&self, transport: &TransportLabel, role: Role) -> Result<()>;

    /// Called with the outcome of messages of `size` bytes.
    ///
    /// # Errors
    /// It cannot be shown.
    fn add(&self, size: u32, run: &Run) -> Result<()>;

    /// Called when `done` messages of `size` bytes are done.
    fn at(&self, size: u32, done: u64);

    /// Called at the end, with the number of interrupts and what carried the messages.
    fn carried(&self, interrupts: u64, transport: TransportLabel);
}

/// Discards everything.
pub(in crate::commands) struct DiscardRows;

impl Sink for DiscardRows {
    fn begin(&self, _: &TransportLabel, _: Role) -> Result<()> {
        Ok(())
    }

    fn add(&self, _: u32, _: &Run) -> Result<()> {
        Ok(())
    }

    fn at(&self, _: u32, _: u64) {}

    fn carried(&self, _: u64, _: TransportLabel) {}
}

/// The file of `--plot`. An existing file stays until there is a picture.
pub(super) struct Plot<'a> {
    path: &'a Path,
    file: OutputFile,
    /// The file that the picture is written to, beside the regular file that it replaces.
    part: Option<PathBuf>,
}

impl<'a> Plot<'a> {
    /// Opens the file.
    pub(super) fn create(path: &'a Path) -> Result<Self> {
        let unwritten = |error: Error| of_file("--plot", path, error);
        // A FIFO or a device is written to, not replaced.
        let is_other = fs::metadata(path).is_ok_and(|there| !there.is_file());
        let (part, file) = match is_other {
            true => {
                let file = OutputFile::create(path);
                (None, file.map_err(|error| unwritten(error.into()))?)
            }
            false => {
                let (part, file) = files::part_beside(path).map_err(unwritten)?;
                (Some(part), file.into())
            }
        };
        Ok(Self { path, file, part })
    }

    pub(super) fn draw(mut self, report: &PerfReport) -> Result<()> {
        let Some(picture) = perf::svg(report) else {
            return Ok(());
        };
        let mut drawn = self.file.write_all(picture.as_bytes());
        if let Some(part) = &self.part {
            drawn = drawn.and_then(|()| fs::rename(part, self.path));
        }
        drawn.map_err(|error| of_file("--plot", self.path, error))?;
        self.part = None;
        Ok(())
    }
}

impl Drop for Plot<'_> {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

/// The rows of the report, each printed when it is measured.
pub(super) struct Rows<'a> {
    args: &'a PerfArgs,
    plan: &'a Plan,
    shown: RefCell<Shown<'a>>,
}

struct Shown<'a> {
    out: &'a mut dyn Write,
    /// `None` until it is known what carries the messages.
    report: Option<(Table, PerfReport)>,
    progress: Progress,
}

impl<'a> Rows<'a> {
    /// Rows that go to `out`.
    pub(super) fn new(args: &'a PerfArgs, plan: &'a Plan, out: &'a mut dyn Write) -> Self {
        Self {
            args,
            plan,
            shown: RefCell::new(Shown {
                out,
                report: None,
                progress: Progress::new(),
            }),
        }
    }

    /// Prints the end of the report of a run that ended like this. Returns the report, if it was
    /// begun, and whether it could be printed.
    pub(super) fn end(self, ending: Ending) -> (Option<PerfReport>, Result<()>) {
        let Shown { out, report, .. } = self.shown.into_inner();
        let Some((table, mut report)) = report else {
            return (None, Ok(()));
        };
        report.ending = ending;
        // After a failure too, if there are rows.
        let is_shown = report.ending.ended != Ended::Failed || !report.rows.is_empty();
        let printed = match (is_shown, self.args.json) {
            (false, _) => Ok(()),
            (true, true) => json::write_line(out, "perf", &report),
            (true, false) => table.foot(&report, out),
        };
        // Before the error goes to standard error.
        let printed = printed.and_then(|()| Ok(out.flush()?));
        (Some(report), printed)
    }
}

impl Sink for Rows<'_> {
    fn begin(&self, transport: &TransportLabel, role: Role) -> Result<()> {
        let measured = role == Role::Client;
        let timed = measured && !self.args.pair.virtual_time;
        let floor = (timed && self.plan.test == Test::Latency).then(core_to_core);
        let mut report = PerfReport::new(self.plan, transport.name, floor.flatten());
        report.wire.clone_from(&transport.wire);
        report.asked = self
            .args
            .pair
            .asked(self.plan.iterations, self.plan.duration);
        let layout = Layout {
            csv: self.args.csv,
            gbits: self.args.report_gbits,
            width: terminal::size().map(|size| size.columns),
        };
        let table = Table::new(self.plan.test, timed, layout);
        let label = match (measured, timed) {
            (false, _) => "measured by the side that connects",
            (true, false) => "virtual time: no times",
            (true, true) => transport.label,
        };
        let mut shown = self.shown.borrow_mut();
        if !self.args.json {
            table.head(&report, transport.text, label, shown.out)?;
        }
        shown.report = Some((table, report));
        Ok(())
    }

    fn add(&self, size: u32, run: &Run) -> Result<()> {
        let shown = &mut *self.shown.borrow_mut();
        let (table, report) = shown.report.as_mut().context("rows before their head")?;
        let timed = table.is_timed();
        let mut run = run.clone();
        if !self.args.histogram {
            run.histogram.clear();
        }
        report.add(self.plan, size, &run, timed);
        shown.progress.clear();
        if let Some(row) = report.rows.last().filter(|_| !self.args.json) {
            table.row(row, shown.out)?;
            if self.args.histogram {
                perf::histogram(row, shown.out)?;
            }
        }
        Ok(())
    }

    fn at(&self, size: u32, done: u64) {
        let sizes = &self.plan.sizes;
        let place = sizes.iter().position(|at| *at == size).unwrap_or(0) + 1;
        let text = || {
            let all = self.plan.iterations.saturating_mul(self.plan.qps as u64);
            let of = match self.plan.duration {
                Some(time) => format!("messages, {time} in all"),
                None => format!("of {all} messages"),
            };
            format!("size {place} of {}, {size} bytes: {done} {of}", sizes.len())
        };
        self.shown.borrow_mut().progress.at(text);
    }

    fn carried(&self, interrupts: u64, transport: TransportLabel) {
        if let Some((_, report)) = &mut self.shown.borrow_mut().report {
            report.interrupts = self.args.pair.events.then_some(interrupts);
            report.wire = transport.wire;
        }
    }
}
