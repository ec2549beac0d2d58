//! `e810 report`: everything that a function reports about itself.

mod connections;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Error, Result};
use e810_backends::host::{Host, folder, plain};
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice, Properties};
use e810_card::config_space::ConfigSpace;
use e810_card::differences;
use e810_report::levels::{self, Levels};
use e810_report::passive::{self, Identities};
use e810_report::resets::Kind;
use e810_report::{Document, Header, Journal, Medium, Record, VERSION, page};
use e810_sim::{Mode, Sim};

use crate::cli::device::chosen;
use crate::cli::{BackendArgs, ReportArgs, ResetArg};
use crate::output::ending::Steps;
use crate::output::unwritten::of_file;
use crate::pci_functions::card_users::refuse_if_used;
use crate::pci_functions::open::open;
use crate::pci_functions::watch;
use crate::usage::refuse;
use e810_node::simulated::simulator;

/// Runs the command.
///
/// # Errors
/// Why the report is not complete; it has everything up to that point.
pub fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<()> {
    run_on(&Host::default(), args, out)
}

/// Runs the command on a given machine.
///
/// # Errors
/// As [`run`].
pub fn run_on(host: &Host, args: &ReportArgs, out: &mut dyn Write) -> Result<()> {
    let device = chosen(args.device.as_ref())?;
    if args.highest() == 0 && args.backend.trace.is_some() {
        refuse!("--trace: level 0 opens no device, so there is nothing to trace; leave it out");
    }
    let backend = args.backend.accepting(args.force && args.highest() > 0);
    // Before anything of the function is read, and before the file is created.
    if let Some(bdf) = device.bdf() {
        folder::check(host, &device.to_string(), bdf, backend.accept)?;
    }
    let is_of_the_card = |kind: &ResetArg| Kind::from(*kind).is_of_the_card();
    if let Some(bdf) = device.bdf()
        && args.reset.iter().any(is_of_the_card)
        && !args.force
    {
        refuse_if_used(host, bdf, "--reset")?;
    }
    // Before the card is touched, so that a wrong file is not found only at the end.
    let earlier = args.compare.as_deref().map(read_earlier).transpose()?;
    let connections = args.at.as_deref();
    let connections = connections.map(|path| connections::records(path, identities(args)));
    let connections = connections.transpose()?.unwrap_or_default();
    let header = Record::Report(Header {
        version: VERSION,
        program: concat!("e810 ", env!("CARGO_PKG_VERSION")).to_owned(),
        device: device.to_string(),
        transport: device.kind().name().to_owned(),
        level: args.highest(),
        identities: args.identities,
    });
    let asked = Asked {
        host,
        args,
        backend,
        connections,
    };
    match &args.out {
        None => {
            let journal = Journal::new(Cursor::new(Vec::new()), BTreeSet::new(), header)?;
            let (medium, result) = asked.run(&device, journal, out)?;
            let mut steps = Steps::default();
            steps.note(result);
            steps.note(show(medium.get_ref(), earlier.as_ref(), out));
            steps.note(writeln!(
                out,
                "\nNo file was written: --out FILE keeps the whole report."
            ));
            steps.end()
        }
        Some(path) => {
            let skipped = to_leave_out(path, args.skip_after_crash)?;
            let mut how = OpenOptions::new();
            how.read(true).write(true).create(true).truncate(false);
            let file = plain::open(path, &mut how);
            let file = file.map_err(|error| of_file("--out", path, error))?;
            let journal = Journal::new(file, skipped, header)?;
            let (mut file, result) = asked.run(&device, journal, out)?;
            let mut steps = Steps::default();
            steps.note(result);
            steps.note(contents(&mut file).and_then(|bytes| show(&bytes, earlier.as_ref(), out)));
            steps.note(writeln!(out, "\nThe whole report: {}", path.display()));
            steps.end()
        }
    }
}

/// Maximum bytes of a report that is read.
pub(super) const LONGEST: u64 = 256 << 20;

/// The report of `--compare`.
fn read_earlier(path: &Path) -> Result<Document> {
    let of_file = || format!("--compare {}", path.display());
    let bytes = plain::read(path, LONGEST).with_context(of_file)?;
    Document::parse(&bytes).with_context(of_file)
}

/// The accesses to skip, according to the report at `path`.
fn to_leave_out(path: &Path, goes_on: bool) -> Result<BTreeSet<String>> {
    let bytes = match plain::read(path, LONGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(of_file("--out", path, error)),
    };
    if !goes_on {
        refuse!(
            "--out {}: the file exists; choose another name, or give --skip-after-crash if it is the report of a machine that died",
            path.display()
        );
    }
    let document = Document::parse(&bytes)
        .with_context(|| format!("--skip-after-crash: {}", path.display()))?;
    Ok(Journal::<File>::to_skip(&document))
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Prints the page, and how the card differs from that of an earlier report.
fn show(bytes: &[u8], earlier: Option<&Document>, out: &mut dyn Write) -> Result<()> {
    let document = Document::parse(bytes)?;
    write!(out, "{}", page::page(&document))?;
    let Some(earlier) = earlier else {
        return Ok(());
    };
    let found = differences(earlier, &document);
    match found.len() {
        0 => writeln!(
            out,
            "\ncompared    this card says what the earlier one says"
        )?,
        1 => writeln!(out, "\ncompared    1 difference, the earlier card first:")?,
        many => writeln!(
            out,
            "\ncompared    {many} differences, the earlier card first:"
        )?,
    }
    for difference in found {
        writeln!(out, "  {difference}")?;
    }
    Ok(())
}

/// What was asked for, and the machine.
struct Asked<'a> {
    host: &'a Host,
    args: &'a ReportArgs,
    backend: BackendArgs,
    /// The records of `--at`.
    connections: Vec<Record>,
}

/// Whether addresses stay in the report.
const fn identities(args: &ReportArgs) -> Identities {
    match args.identities {
        true => Identities::Kept,
        false => Identities::Removed,
    }
}

impl Asked<'_> {
    /// Goes through the levels. The report is finished properly even after an error.
    fn run<M: Medium>(
        &self,
        device: &DeviceSpec,
        mut journal: Journal<M>,
        out: &mut dyn Write,
    ) -> Result<(M, Result<()>)> {
        let args = self.args;
        let identities = identities(args);
        let mut run = || {
            begin(&mut journal, 0, passive::DOES, out)?;
            match device.bdf() {
                Some(bdf) => {
                    passive::read(&mut journal, self.host, bdf, identities)?;
                }
                None => journal.put(&Record::Absent {
                    what: "files of the kernel".to_owned(),
                    why: format!("{device} is no PCI function of this machine"),
                })?,
            }
            connections::put(&mut journal, &self.connections)?;
            if args.highest() == 0 {
                return Ok(());
            }
            begin(&mut journal, 1, levels::OPENS, out)?;
            let opened = Opened {
                journal: &mut journal,
                identities,
                args,
                out,
            };
            open([device], &self.backend, opened)
        };
        let result: Result<()> = run();
        let why = result.as_ref().err().map(|error| format!("{error:#}"));
        Ok((journal.finish(why)?, result))
    }
}

/// Prints what a level does before it begins.
fn begin<M: Medium>(
    journal: &mut Journal<M>,
    level: u8,
    does: &str,
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "level {level}: {does}")?;
    out.flush()?;
    let does = does.to_owned();
    Ok(journal.put(&Record::Level { level, does })?)
}

/// A function that was opened.
struct Opened<'a, M> {
    journal: &'a mut Journal<M>,
    identities: Identities,
    args: &'a ReportArgs,
    out: &'a mut dyn Write,
}

impl<M: Medium> DeviceVisitor<1> for Opened<'_, M> {
    type Outcome = ();
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        Ok(simulator(spec, 1, Mode::Real, 1, false).build())
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<()> {
        function.on_failure(watch::silence_driver_log);
        let journal = self.journal;
        for (name, text) in function
            .properties()
            .map(transport_facts)
            .into_iter()
            .flatten()
        {
            let name = name.to_owned();
            journal.put(&Record::Fact { name, text })?;
        }
        match journal
            .access("configuration space, opened", || function.config_space())?
            .flatten()
        {
            None => {}
            Some(Ok(bytes)) => {
                let space = ConfigSpace(bytes);
                let space = match self.identities {
                    Identities::Kept => space,
                    Identities::Removed => space.without_serial(),
                };
                let bytes = space.to_hex();
                journal.put(&Record::Config { bytes })?;
            }
            Some(Err(error)) => journal.put(&Record::Absent {
                what: "configuration space".to_owned(),
                why: error.to_string(),
            })?,
        }
        let asked = Levels {
            highest: self.args.level,
            resets: self.args.reset.iter().copied().map(Kind::from).collect(),
            identities: self.identities,
        };
        let out = self.out;
        let result = levels::go(journal, &function, &asked, &mut |level, does| {
            // The report goes on when the reader of the output is gone.
            let _ = writeln!(out, "level {level}: {does}").and_then(|()| out.flush());
        });
        let result = result.map_err(Error::new);
        match (result, function.failure()) {
            // The transport knows why registers read as all-ones.
            (Err(_), Some(failure)) => Err(Error::new(failure.clone())),
            (result, _) => result,
        }
    }
}

/// What the kernel or the server offers for a function.
fn transport_facts(properties: &Properties) -> [(&'static str, String); 5] {
    let ranges = properties.iova_ranges.iter();
    let ranges: Vec<String> = ranges
        .map(|(first, last)| format!("{first:#x}-{last:#x}"))
        .collect();
    [
        ("transport/iova_ranges", ranges.join(" ")),
        ("transport/page", properties.page.to_string()),
        ("transport/vectors", properties.vectors.to_string()),
        (
            "transport/vectors_grow",
            properties.vectors_grow.to_string(),
        ),
        (
            "transport/maps_any_memory",
            properties.maps_any_memory.to_string(),
        ),
    ]
}

#[cfg(test)]
mod tests;
