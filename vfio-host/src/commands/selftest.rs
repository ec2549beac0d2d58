//! `e810 selftest`: experiments that decide what is only assumed of a card.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Error, Result, bail};
use e810::Quirks;
use e810_backends::host::{Host, plain};
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice};
use e810_card::selftest::{Line, Outcome, Verdict};
use e810_node::simulated::simulator;
use e810_node::start::{MTU, Source, Start, usual_ceqs};
use e810_report::Medium as _;
use e810_selftest::{Bench, EXPERIMENTS, Experiment, Risk};
use e810_sim::{Mode, Sim};

use crate::cli::SelftestArgs;
use crate::cli::device::chosen;
use crate::output::unwritten::of_file;
use crate::pci_functions::card_users::refuse_if_used;
use crate::pci_functions::checks::warn_of_memlock;
use crate::pci_functions::open::open;
use crate::pci_functions::simulated::refuse_for_sim;
use crate::pci_functions::start::start_with;
use crate::stop::Stop;
use crate::usage::refuse;

/// Runs the command.
///
/// # Errors
/// The function cannot be opened, a file cannot be written, or no experiment could be tried.
pub fn run(args: &SelftestArgs, out: &mut dyn Write) -> Result<()> {
    let experiments = selected(args)?;
    if args.list {
        return list(&experiments, out);
    }
    for (option, is_given) in [
        ("--quirks", args.start.quirks.is_some()),
        ("--warm", args.start.warm),
    ] {
        if is_given {
            refuse!(
                "{option}: experiments begin with a reset and ask the card itself; leave it out"
            );
        }
    }
    let device = chosen(args.device.as_ref())?;
    let resets_card = experiments
        .iter()
        .any(|experiment| experiment.risk == Risk::ResetsCard);
    if let (Some(bdf), true, false) = (device.bdf(), resets_card, args.force) {
        refuse_if_used(&Host::default(), bdf, "--risk card")?;
    }
    warn_of_memlock(&[&device]);
    let stop = Stop::on_signals()?;
    let mut file = Lines::create(args.out.as_deref(), &device)?;
    let seconds: u32 = experiments
        .iter()
        .map(|experiment| experiment.seconds)
        .sum();
    writeln!(
        out,
        "{} on {device}, at most {} on a card",
        counted(experiments.len(), "experiment"),
        counted(seconds.div_ceil(60) as usize, "minute")
    )?;
    let performing = Performing {
        args,
        experiments: &experiments,
        file: &mut file,
        is_simulated: false,
        stop: &stop,
        out,
    };
    let outcomes = open([&device], &args.backend.accepting(args.force), performing);
    let why = outcomes.as_ref().err().map(|error| format!("{error:#}"));
    file.put(&Line::Ended { why })?;
    end(&outcomes?, args, out)
}

fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

/// The experiments that are asked for.
fn selected(args: &SelftestArgs) -> Result<Vec<Experiment>> {
    for (option, names) in [("--only", &args.only), ("--except", &args.except)] {
        let unknown = |name: &&String| !EXPERIMENTS.iter().any(|known| is_named(known, name));
        if let Some(name) = names.iter().find(unknown) {
            refuse!("{option} {name:?}: there is no such experiment; --list has their names");
        }
    }
    let is_wanted = |known: &&Experiment| {
        let is_in = |names: &[String]| names.iter().any(|name| is_named(known, name));
        (args.only.is_empty() || is_in(&args.only)) && !is_in(&args.except)
    };
    let wanted = EXPERIMENTS.iter().filter(is_wanted).copied();
    if args.list {
        return Ok(wanted.collect());
    }
    let highest = Risk::from(args.risk);
    let (allowed, risky): (Vec<_>, Vec<_>) = wanted.partition(|known| known.risk <= highest);
    if let (Some(first), false) = (risky.first(), args.only.is_empty()) {
        refuse!(
            "--only {}: its risk is {}; allow it with --risk {}",
            first.name,
            first.risk,
            first.risk
        );
    }
    Ok(allowed)
}

fn is_named(experiment: &Experiment, name: &str) -> bool {
    experiment.name == name.trim()
}

fn list(experiments: &[Experiment], out: &mut dyn Write) -> Result<()> {
    for experiment in experiments {
        let Experiment {
            name,
            assumes,
            does,
            values,
            if_not,
            seconds,
            risk,
            ..
        } = experiment;
        writeln!(out, "{name}")?;
        writeln!(out, "  assumed  {assumes}")?;
        writeln!(out, "  done     {does}")?;
        writeln!(out, "  values   {}", values.join(", "))?;
        writeln!(out, "  if not   {if_not}")?;
        writeln!(out, "  takes    {seconds} s; risk: {risk}")?;
    }
    Ok(())
}

/// The file of `--out`.
struct Lines<'a> {
    file: Option<(&'a Path, File)>,
}

impl<'a> Lines<'a> {
    fn create(path: Option<&'a Path>, device: &DeviceSpec) -> Result<Self> {
        let create = |path: &'a Path| {
            let mut how = OpenOptions::new();
            how.write(true).create_new(true);
            match plain::open(path, &mut how) {
                Ok(file) => Ok((path, file)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    refuse!(
                        "--out {}: the file exists; choose another name",
                        path.display()
                    )
                }
                Err(error) => Err(of_file("--out", path, error)),
            }
        };
        let mut lines = Self {
            file: path.map(create).transpose()?,
        };
        lines.put(&Line::begin(
            concat!("e810 ", env!("CARGO_PKG_VERSION")),
            &device.to_string(),
        ))?;
        Ok(lines)
    }

    /// Returns when the line is on the disk.
    fn put(&mut self, line: &Line) -> Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = file.write_all(text.as_bytes()).and_then(|()| file.settle());
        written.map_err(|error| of_file("--out", path, error))
    }
}

/// An open function, and what is done with it.
struct Performing<'a, 'b> {
    args: &'a SelftestArgs,
    experiments: &'a [Experiment],
    file: &'a mut Lines<'b>,
    /// In this process.
    is_simulated: bool,
    stop: &'a Stop,
    out: &'a mut dyn Write,
}

impl DeviceVisitor<1> for Performing<'_, '_> {
    type Outcome = Vec<Outcome>;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        refuse_for_sim(&self.args.start, &self.args.backend)?;
        self.is_simulated = true;
        Ok(simulator(spec, 1, Mode::Virtual, 1, false).build())
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<Self::Outcome> {
        // Quirks would hide what the card does.
        let start = match self.is_simulated && self.args.start.ddp.is_none() {
            true => Start::Cold {
                package: Source::simulated(),
                mtu: self.args.start.mtu.unwrap_or(MTU),
                ceqs: usual_ceqs(),
                leave_link: false,
                quirks: Quirks::NONE,
            },
            false => start_with(&function, &self.args.start, Quirks::NONE)?,
        };
        let bench = Bench::new(function, start)?;
        let Self {
            file, out, stop, ..
        } = self;
        e810_selftest::run(&bench, self.experiments, &mut |experiment, outcome| {
            let name = experiment.name.to_owned();
            match outcome {
                None => {
                    stop.check()?;
                    file.put(&Line::Begins { name })
                }
                Some(outcome) => {
                    // The file first: nobody may read the output any more.
                    file.put(&Line::Outcome(outcome.clone()))?;
                    say(experiment, outcome, out)
                }
            }
        })
    }
}

fn say(experiment: &Experiment, outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let verdict = match outcome.verdict {
        Verdict::Holds => "holds",
        Verdict::Differs => "DIFFERS",
        Verdict::NotTried => "not tried",
    };
    let seen = match (&outcome.value, outcome.verdict) {
        (Some(value), _) => value,
        (None, Verdict::Differs) => &format!("none of the known values: {}", outcome.note),
        (None, _) => &outcome.note,
    };
    writeln!(out, "{:<22} {verdict:<10} {seen}", outcome.name)?;
    if outcome.verdict == Verdict::Differs {
        writeln!(out, "  assumed  {}", experiment.assumes)?;
    }
    if outcome.verdict == Verdict::Differs && outcome.value.is_some() {
        writeln!(out, "  follows  {}", experiment.if_not)?;
    }
    Ok(out.flush()?)
}

fn end(outcomes: &[Outcome], args: &SelftestArgs, out: &mut dyn Write) -> Result<()> {
    let count = |wanted| {
        let of_kind = outcomes.iter().filter(|outcome| outcome.verdict == wanted);
        of_kind.count()
    };
    let (holds, differs) = (count(Verdict::Holds), count(Verdict::Differs));
    let not_tried = count(Verdict::NotTried);
    writeln!(
        out,
        "{holds} assumptions hold, {differs} differ, {not_tried} not tried"
    )?;
    if let Some(path) = &args.out {
        writeln!(out, "What was found: {}", path.display())?;
    }
    if holds + differs == 0 {
        bail!("no experiment could be tried; each line says why");
    }
    Ok(())
}
