//! `e810 sim`: functions of a simulator, served on sockets until a signal stops it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use e810_backends::signals::{STOP, Signals};
use e810_backends::spec::SimSpec;
use e810_report::Document;
use e810_sim::link::mac_option;
use e810_sim::{Mode, Profile, RecordedCard};
use e810_sim_server::cables::Cables;
use e810_sim_server::files::{self, ReportFile};
use e810_sim_server::{Server, VECTORS};

use crate::cli::capture::Recording;
use crate::cli::usage::refuse;
use crate::cli::{ProfileArg, SimArgs};
use crate::functions::simulated::link;

/// What has the report written, and nothing else.
const WRITE_REPORT: libc::c_int = libc::SIGUSR1;
/// What takes the cables out, or puts them back.
const SWITCH_LINK: libc::c_int = libc::SIGUSR2;
/// What was done when the report could not be written.
const WRITING: &str = "writing the report";

/// The card of a report.
fn card(path: &Path) -> Result<RecordedCard> {
    let of_file = || format!("--card {}", path.display());
    let bytes = fs::read(path).with_context(of_file)?;
    let document = Document::parse(&bytes).with_context(of_file)?;
    RecordedCard::from_document(&document).with_context(of_file)
}

/// Checks the sockets of a server.
fn check_sockets(sockets: &[PathBuf]) -> Result<()> {
    if sockets.len() > MAX_FUNCTIONS {
        refuse!(
            "{} of --socket: a card has {MAX_FUNCTIONS} functions; start another `e810 sim` for the others, on the same --wire NAME",
            sockets.len()
        );
    }
    for (at, socket) in sockets.iter().enumerate() {
        if sockets.iter().take(at).any(|before| before == socket) {
            refuse!("--socket {}: it is given twice", socket.display());
        }
    }
    Ok(())
}

/// Functions of a server, at most.
const MAX_FUNCTIONS: usize = 8;

/// Runs the command.
///
/// # Errors
/// A socket that cannot be served, or findings.
pub fn run(args: &SimArgs, out: &mut dyn Write) -> Result<()> {
    check_sockets(&args.socket)?;
    let wire = args.to_others();
    let first_mac = match (args.mac, &wire) {
        (None, Some(wire)) => Some(wire.first_mac().context("--link")?),
        (given, _) => given,
    };
    let [one, other] = STOP;
    let signals = Signals::block(&[one, other, WRITE_REPORT, SWITCH_LINK])?;
    // Made before anybody can be disappointed.
    let report_file = args.report.as_ref().map(|path| {
        ReportFile::create(path).with_context(|| format!("creating {}", path.display()))
    });
    let mut report_file = report_file.transpose()?;
    if let Some(path) = &args.package {
        let package = files::write_once(path, &e810_sim::test_package());
        package.with_context(|| format!("writing {}", path.display()))?;
    }
    let functions = u8::try_from(args.socket.len()).unwrap_or(u8::MAX);
    let of_link = SimSpec {
        classes: None,
        latency: args.latency,
        rate: args.rate,
        mac: first_mac,
        // The server joins it.
        wire: None,
    };
    let link = link(&of_link, Mode::Real, args.faults);
    let mut builder = of_link.builder(Mode::Real).quality(link);
    if !args.warm {
        builder = builder.cold();
    }
    let limits = args.wire.into();
    let builder = builder
        .engine(move |_, config| config.wire = limits)
        .functions(functions)
        .seed(args.seed)
        .variation(args.variation.unwrap_or_default());
    let builder = match &args.card {
        Some(path) => builder.card(&card(path)?),
        None => builder.vectors(VECTORS).profile(match args.profile {
            ProfileArg::Card => Profile::card(),
            ProfileArg::Small => Profile::small(),
            ProfileArg::E810c => Profile::e810c(),
        }),
    };
    let builder = match args.vectors {
        Some(vectors) => builder.vectors(vectors),
        None => builder,
    };
    let sim = builder.build();
    let recording = args.capture.record(&sim)?;
    let first_mac = sim.function(0).mac();
    let mut cables = Cables::new(sim.clone());
    let mut server = Server::start(sim, &args.socket)?;
    let local = wire.as_ref().map(|wire| server.join(wire)).transpose()?;
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
    out.flush()?;
    loop {
        match signals.wait()? {
            WRITE_REPORT => {
                // First: a reader of the report may then read the frames.
                if let Some(Err(error)) = recording.as_ref().map(Recording::flush) {
                    log::error!("{error:#}");
                }
                if let Some(file) = &mut report_file {
                    file.write(&server.report()).context(WRITING)?;
                }
            }
            SWITCH_LINK => {
                let state = if cables.switch() { "up" } else { "down" };
                writeln!(out, "links {state}")?;
                out.flush()?;
            }
            _ => break,
        }
    }
    let report = server.report();
    drop(server);
    report.write(out)?;
    if let Some(file) = &mut report_file {
        file.write(&report).context(WRITING)?;
    }
    recording.map(Recording::finish).transpose()?;
    if report.findings_in_all > 0 {
        bail!("the simulator recorded {} findings", report.findings_in_all);
    }
    Ok(())
}
