//! `e810 sim`: serves simulated functions on sockets until a signal stops it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow};
use e810_backends::host::plain;
use e810_backends::printable::printable;
use e810_backends::signals::Signals;
use e810_backends::spec::SimSpec;
use e810_card::selftest::Findings;
use e810_report::Document;
use e810_sim::link::mac_option;
use e810_sim::{Builder, Mode, Profile, RecordedCard, Sim, Variation};
use e810_sim_server::cables::Cables;
use e810_sim_server::files::{self, ReportFile};
use e810_sim_server::report::ServerReport;
use e810_sim_server::{Server, VECTORS};

use crate::cli::capture::Recording;
use crate::cli::{CardArgs, ProfileArg, SimArgs};
use crate::commands::report;
use crate::output::ending::Steps;
use crate::output::lasting::Lasting;
use crate::output::unwritten::{of_file, with_remedy};
use crate::pci_functions::simulated::link;
use crate::usage::refuse;

/// Characters of a foreign text that are told.
const TOLD: usize = 80;
/// Maximum bytes of a file of `e810 selftest`.
const LONGEST: u64 = 1 << 20;
/// The signal that writes the report.
const WRITE_REPORT: libc::c_int = libc::SIGUSR1;
/// The signal that unplugs the cables, or plugs them in again.
pub(super) const SWITCH_LINK: libc::c_int = libc::SIGUSR2;

/// Of links, as lines say it.
pub(super) const fn state(is_up: bool) -> &'static str {
    match is_up {
        true => "up",
        false => "down",
    }
}

/// The option that names the file of the report.
const REPORT: &str = "--report";

/// The card of a report.
fn card(path: &Path) -> Result<RecordedCard> {
    let of_file = || format!("--card {}", path.display());
    let bytes = plain::read(path, report::LONGEST).with_context(of_file)?;
    let document = Document::parse(&bytes).with_context(of_file)?;
    RecordedCard::from_document(&document).with_context(of_file)
}

/// Refuses more sockets than a card has functions.
fn check_sockets(sockets: &[PathBuf]) -> Result<()> {
    if sockets.len() > MAX_FUNCTIONS {
        refuse!(
            "--socket is given {} times, but a card has {MAX_FUNCTIONS} functions; start another `e810 sim` for the others, on the same --wire NAME",
            sockets.len()
        );
    }
    Ok(())
}

/// Maximum functions of a server.
const MAX_FUNCTIONS: usize = 8;

/// Runs the command.
///
/// # Errors
/// A socket that cannot be served, findings, or a file that cannot be written.
pub fn run(args: &SimArgs, out: &mut dyn Write) -> Result<()> {
    check_sockets(&args.socket)?;
    let signals = Signals::stop_and(&[WRITE_REPORT, SWITCH_LINK])?;
    let mut out = Lasting::new(out);
    let mut running = Running::start(args, &mut out)?;
    loop {
        match signals.wait()? {
            WRITE_REPORT => running.write_report(),
            SWITCH_LINK => {
                let state = state(running.cables.switch());
                out.say(|out| Ok(writeln!(out, "links {state}")?));
            }
            _ => break,
        }
    }
    running.end(out.out())
}

/// A running server and its output files.
struct Running {
    server: Server,
    cables: Cables,
    report: Option<(PathBuf, ReportFile)>,
    recording: Option<Recording>,
}

impl Running {
    fn start(args: &SimArgs, out: &mut Lasting<'_>) -> Result<Self> {
        let wire = args.to_others();
        let first_mac = match (args.mac, &wire) {
            (None, Some(wire)) => Some(wire.first_mac().context("--link")?),
            (given, _) => given,
        };
        // Before a user can connect.
        let report = args.report.as_ref().map(|path| {
            let file = ReportFile::create(path).map_err(|error| of_file(REPORT, path, error));
            Ok::<_, Error>((path.clone(), file?))
        });
        let report = report.transpose()?;
        if let Some(path) = &args.package {
            let package = files::write_once(path, &e810_sim::test_package());
            package.map_err(|error| of_file("--package", path, error))?;
        }
        let sim = simulator(args, first_mac)?;
        let recording = args.capture.record(&sim)?;
        let first_mac = sim.function(0).mac();
        let cables = Cables::new(sim.clone());
        let mut server = Server::start(sim, &args.socket).map_err(with_remedy)?;
        let local = wire.as_ref().map(|wire| server.join(wire)).transpose()?;
        out.say(|out| {
            for (function, path) in args.socket.iter().enumerate() {
                writeln!(out, "function {function} on {}", path.display())?;
            }
            if let (Some(name), Some(local)) = (&args.segment, local) {
                writeln!(
                    out,
                    "wire {name} from {local} to {}; function 0 is {}",
                    name.group(),
                    mac_option(first_mac)
                )?;
            }
            Ok(())
        });
        Ok(Self {
            server,
            cables,
            report,
            recording,
        })
    }

    /// Writes the report so far. An error is logged only: users are not affected.
    fn write_report(&mut self) {
        // First, so that a reader of the report finds the frames.
        let flushed = self.recording.as_ref().map(Recording::flush);
        let report = self.report.as_mut();
        let written = report.map(|file| write(file, &self.server.report()));
        let failed = [flushed.and_then(Result::err), written.and_then(Result::err)];
        for error in failed.into_iter().flatten() {
            log::error!("{error:#}");
        }
    }

    /// Stops the server and writes the rest: files first, standard output last.
    fn end(self, out: &mut dyn Write) -> Result<()> {
        let report = self.server.report();
        drop(self.server);
        let mut steps = Steps::default();
        steps.note(self.recording.map(Recording::finish).transpose());
        if let Some(mut file) = self.report {
            steps.note(write(&mut file, &report));
        }
        steps.note(match report.findings_in_all {
            0 => Ok(()),
            found => Err(anyhow!("the simulator recorded {found} findings")),
        });
        steps.note(report.write(out).and_then(|()| out.flush()));
        steps.end()
    }
}

fn write((path, file): &mut (PathBuf, ReportFile), report: &ServerReport) -> Result<()> {
    let written = file.write(report);
    written.map_err(|error| of_file(REPORT, path, error))
}

/// The simulator that `args` name.
fn simulator(args: &SimArgs, first_mac: Option<[u8; 6]>) -> Result<Sim> {
    let functions = u8::try_from(args.socket.len()).unwrap_or(u8::MAX);
    let of_link = SimSpec {
        classes: None,
        latency: args.latency,
        rate: args.rate,
        mac: first_mac,
        // The server joins the wire.
        wire: None,
    };
    let link = link(&of_link, Mode::Real, args.faults);
    let mut builder = of_link.builder(Mode::Real).quality(link);
    if !args.warm {
        builder = builder.cold();
    }
    let limits = args.transport.into();
    let builder = builder
        .engine(move |_, config| config.transport = limits)
        .functions(functions)
        .seed(args.seed);
    let variation = args.variation.unwrap_or_default();
    Ok(of_card(&args.card, variation, builder)?.build())
}

/// The choices of a simulated card: those of a card where experiments have found them, the others as
/// `usual` has them.
fn found(args: &CardArgs, usual: Variation) -> Result<Variation> {
    let Some(path) = &args.quirks else {
        return Ok(usual);
    };
    let of_file = || format!("--quirks {}", path.display());
    let bytes = plain::read(path, LONGEST).with_context(of_file)?;
    let findings = Findings::parse(&bytes).with_context(of_file)?;
    let mut variation = usual;
    let mut unknown = Vec::new();
    for (name, value) in findings.iter() {
        if variation.choose(name, value).is_err() {
            unknown.push(printable(&format!("{name}={value}"), TOLD));
        }
    }
    if let Some(first) = unknown.first() {
        let count = unknown.len();
        log::warn!(
            "{}: {count} choices are not known here, as {first}",
            of_file()
        );
    }
    Ok(variation)
}

/// The card that `args` name, with the choices of `variation` where they name none.
pub(super) fn of_card(args: &CardArgs, variation: Variation, builder: Builder) -> Result<Builder> {
    let builder = builder.variation(found(args, variation)?);
    let builder = match &args.card {
        Some(path) => builder.card(&card(path)?),
        None => builder.vectors(VECTORS).profile(match args.profile {
            ProfileArg::Card => Profile::card(),
            ProfileArg::Small => Profile::small(),
            ProfileArg::E810c => Profile::e810c(),
        }),
    };
    Ok(match args.vectors {
        Some(vectors) => builder.vectors(vectors),
        None => builder,
    })
}
