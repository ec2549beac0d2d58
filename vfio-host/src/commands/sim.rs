//! `e810 sim`: functions of a simulator, served on sockets until told to stop.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result, bail};
use e810_sim::{Mode, Profile, Sim};

use crate::capture::Recording;
use crate::cli::{ProfileArg, SimArgs};
use crate::faults::Faults;
use crate::link_spec::LinkSpec;
use crate::server::Server;
use crate::server::report::ServerReport;
use crate::signals::{STOP, Signals};

/// What has the report written, and nothing else.
const LOOK: libc::c_int = libc::SIGUSR1;

/// Runs the command.
///
/// # Errors
/// A socket that cannot be served, or findings.
pub fn run(args: &SimArgs, out: &mut dyn Write) -> Result<()> {
    let first_mac = match (args.mac, args.link) {
        (Some(mac), _) => Some(mac),
        (None, LinkSpec::InProcess) => None,
        (None, LinkSpec::Udp(ends)) => Some(ends.first_mac().context("--link")?),
    };
    let [one, other] = STOP;
    let signals = Signals::block(&[one, other, LOOK])?;
    // Made before anybody can be disappointed.
    if let Some(path) = &args.report {
        File::create(path).with_context(|| format!("creating {}", path.display()))?;
    }
    if let Some(path) = &args.package {
        let package = std::fs::write(path, e810_sim::test_package());
        package.with_context(|| format!("writing {}", path.display()))?;
    }
    let functions = u8::try_from(args.socket.len()).unwrap_or(u8::MAX);
    let mut builder = Sim::builder();
    if let Some(mac) = first_mac {
        builder = builder.first_mac(mac);
    }
    if !args.warm {
        builder = builder.cold();
    }
    if let Some(Faults(quality)) = args.faults {
        builder = builder.quality(quality);
    }
    let wire = args.wire.into();
    let sim = builder
        .engine(move |_, config| config.wire = wire)
        .functions(functions)
        .vectors(args.vectors)
        .seed(args.seed)
        .variation(args.variation.unwrap_or_default())
        .profile(match args.profile {
            ProfileArg::Card => Profile::Card,
            ProfileArg::Small => Profile::Small,
            ProfileArg::E810c => Profile::E810c,
        })
        .mode(Mode::Real)
        .build();
    let recording = args.capture.record(&sim)?;
    let mut server = Server::start(sim, &args.socket)?;
    if let LinkSpec::Udp(ends) = args.link {
        server.join_udp(ends)?;
    }
    for (function, path) in args.socket.iter().enumerate() {
        writeln!(out, "function {function} on {}", path.display())?;
    }
    out.flush()?;
    while signals.wait()? == LOOK {
        // First: whoever sees the report may then read the frames.
        if let Some(Err(error)) = recording.as_ref().map(Recording::flush) {
            log::error!("{error:#}");
        }
        write_report(args, &server.report())?;
    }
    let report = server.report();
    drop(server);
    report.write(out)?;
    write_report(args, &report)?;
    recording.map(Recording::finish).transpose()?;
    if report.findings_in_all > 0 {
        bail!("the simulator recorded {} findings", report.findings_in_all);
    }
    Ok(())
}

/// Writes the report where the user wants it, if anywhere. Whoever reads a file meanwhile sees the old one or the new.
fn write_report(args: &SimArgs, report: &ServerReport) -> Result<()> {
    let Some(path) = &args.report else {
        return Ok(());
    };
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let into = if is_file {
        path.with_extension("new")
    } else {
        path.clone()
    };
    let file = File::create(&into).with_context(|| format!("creating {}", into.display()))?;
    write_json(report, file).context("writing the report")?;
    if is_file {
        std::fs::rename(&into, path).with_context(|| format!("replacing {}", path.display()))?;
    }
    Ok(())
}

fn write_json(report: &ServerReport, file: File) -> Result<()> {
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, report)?;
    writeln!(file)?;
    file.flush()?;
    Ok(())
}
