//! `e810 selftest`: experiments that decide what is only assumed of a card.

use std::io::Write;
use std::path::Path;

use anyhow::{Error, Result, bail};
use e810_backends::host::Host;
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice};
use e810_card::selftest::{Line, Outcome, Verdict};
use e810_node::simulated::simulator;
use e810_node::start::{MTU, Start};
use e810_selftest::{Bench, EXPERIMENTS, Experiment, Risk};
use e810_sim::{Mode, Sim};

use crate::cli::SelftestArgs;
use crate::cli::device::chosen;
use crate::output::file::OutputFile;
use crate::output::unwritten::of_file;
use crate::pci_functions::card_users::refuse_if_used;
use crate::pci_functions::checks::warn_of_memlock;
use crate::pci_functions::open::open;
use crate::pci_functions::start::start;
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
    let mut file = Lines::create(args.out.as_deref(), &device)?;
    let seconds: u32 = experiments
        .iter()
        .map(|experiment| experiment.seconds)
        .sum();
    let count = experiments.len();
    writeln!(
        out,
        "{count} experiments on {device}, at most {} minutes on a card",
        seconds.div_ceil(60)
    )?;
    let performing = Performing {
        args,
        experiments: &experiments,
        file: &mut file,
        is_simulated: false,
        out,
    };
    let outcomes = open([&device], &args.backend.accepting(args.force), performing)?;
    end(&outcomes, args, out)
}

/// The experiments that are asked for.
fn selected(args: &SelftestArgs) -> Result<Vec<Experiment>> {
    for name in &args.only {
        if !EXPERIMENTS.iter().any(|known| known.name == name) {
            refuse!("--only {name}: there is no such experiment; --list has their names");
        }
    }
    let is_wanted = |known: &&Experiment| {
        args.only.is_empty() || args.only.iter().any(|name| known.name == name)
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
        writeln!(
            out,
            "  takes    {seconds} s; risk: {risk}; needs: nothing but the function"
        )?;
    }
    Ok(())
}

/// The file of `--out`.
struct Lines<'a> {
    file: Option<(&'a Path, OutputFile)>,
}

impl<'a> Lines<'a> {
    fn create(path: Option<&'a Path>, device: &DeviceSpec) -> Result<Self> {
        let create = |path: &'a Path| {
            let file = OutputFile::create(path).map_err(|error| of_file("--out", path, error))?;
            Ok::<_, Error>((path, file))
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

    fn put(&mut self, line: &Line) -> Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
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
    out: &'a mut dyn Write,
}

impl DeviceVisitor<1> for Performing<'_, '_> {
    type Outcome = Vec<Outcome>;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        self.is_simulated = true;
        Ok(simulator(spec, 1, Mode::Virtual, 1, false).build())
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<Self::Outcome> {
        let mut start = match self.is_simulated {
            true => Start::usual(&function, MTU)?,
            false => start(&function, &self.args.start)?,
        };
        // Those of E810_QUIRKS would hide what the card does.
        start.without_quirks();
        let bench = Bench::new(function, start)?;
        let Self { file, out, .. } = self;
        let mut written = Ok(());
        let outcomes = e810_selftest::run(&bench, self.experiments, &mut |experiment, outcome| {
            let said = match outcome {
                None => file.put(&Line::Begins {
                    name: experiment.name.to_owned(),
                }),
                Some(outcome) => say(experiment, outcome, out)
                    .and_then(|()| file.put(&Line::Outcome(outcome.clone()))),
            };
            if written.is_ok() {
                written = said;
            }
        });
        written?;
        Ok(outcomes)
    }
}

fn say(experiment: &Experiment, outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let verdict = match outcome.verdict {
        Verdict::Holds => "holds",
        Verdict::Differs => "DIFFERS",
        Verdict::NotTried => "not tried",
    };
    let seen = outcome.value.as_deref().unwrap_or(&outcome.note);
    writeln!(out, "{:<22} {verdict:<10} {seen}", outcome.name)?;
    if outcome.verdict == Verdict::Differs {
        writeln!(out, "  assumed  {}", experiment.assumes)?;
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
