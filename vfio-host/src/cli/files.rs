//! The files that a command line names: no two options may write one file, or one write what
//! another reads.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::capture::CaptureArgs;
use super::{BackendArgs, Command, PairArgs, StartArgs};
use crate::usage::refuse;

/// An option and the file that it names.
struct Named<'a> {
    option: &'static str,
    path: &'a Path,
    is_written: bool,
}

/// Which file a path names.
#[derive(PartialEq)]
enum Identity {
    /// One that is there: device and inode.
    Is(u64, u64),
    /// One that is to be made.
    WillBe(PathBuf),
}

/// Refuses a command line that would write one file twice.
///
/// # Errors
/// Which options name it.
pub(crate) fn check(command: &Command) -> Result<()> {
    let named = files(command);
    for (place, one) in named.iter().enumerate() {
        for other in named.iter().skip(place + 1) {
            if (one.is_written || other.is_written)
                && identity(one.path).is_some_and(|file| Some(file) == identity(other.path))
            {
                refuse!(
                    "{} {} and {} {} are one file: name another for one of them",
                    one.option,
                    one.path.display(),
                    other.option,
                    other.path.display()
                );
            }
        }
    }
    Ok(())
}

/// `None` for what can be written by several, such as `/dev/null`.
fn identity(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(there) if there.file_type().is_char_device() => None,
        Ok(there) => Some(Identity::Is(there.dev(), there.ino())),
        Err(_) => {
            let folder = match path.parent() {
                None => return None,
                Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
                Some(folder) => folder,
            };
            let folder = fs::canonicalize(folder).ok()?;
            Some(Identity::WillBe(folder.join(path.file_name()?)))
        }
    }
}

fn files(command: &Command) -> Vec<Named<'_>> {
    let mut files = Files(Vec::new());
    match command {
        Command::List(_)
        | Command::Doctor(_)
        | Command::Bind(_)
        | Command::Unbind(_)
        | Command::Run(_)
        | Command::Trace(_) => {}
        Command::Pingpong(args) => files.of_pair(&args.pair),
        Command::Perf(args) => {
            files.of_pair(&args.pair);
            files.writes("--plot", args.plot.as_deref());
        }
        Command::Monitor(args) => files.of_pair(&args.pair),
        Command::Ping(args) => files.of_function(&args.start, &args.backend, Some(&args.capture)),
        Command::Tap(args) => files.of_function(&args.start, &args.backend, Some(&args.capture)),
        Command::Up(args) => files.of_function(&args.start, &args.backend, Some(&args.capture)),
        Command::Stat(args) => files.of_function(&args.start, &args.backend, None),
        Command::Report(args) => {
            files.writes("--out", args.out.as_deref());
            files.reads("--compare", args.compare.as_deref());
            files.writes("--trace", args.backend.trace.as_deref());
        }
        Command::Sim(args) => {
            files.writes("--report", args.report.as_deref());
            files.writes("--package", args.package.as_deref());
            files.reads("--card", args.card.as_deref());
            files.writes("--pcap", args.capture.pcap.as_deref());
        }
    }
    files.0
}

struct Files<'a>(Vec<Named<'a>>);

impl<'a> Files<'a> {
    fn of_pair(&mut self, pair: &'a PairArgs) {
        self.of_function(&pair.start, &pair.backend, Some(&pair.capture));
    }

    fn of_function(
        &mut self,
        start: &'a StartArgs,
        backend: &'a BackendArgs,
        capture: Option<&'a CaptureArgs>,
    ) {
        self.reads("--ddp", start.ddp.as_deref());
        self.writes("--trace", backend.trace.as_deref());
        self.writes(
            "--pcap",
            capture.and_then(|capture| capture.pcap.as_deref()),
        );
    }

    fn writes(&mut self, option: &'static str, path: Option<&'a Path>) {
        self.add(option, path, true);
    }

    fn reads(&mut self, option: &'static str, path: Option<&'a Path>) {
        self.add(option, path, false);
    }

    fn add(&mut self, option: &'static str, path: Option<&'a Path>, is_written: bool) {
        self.0.extend(path.map(|path| Named {
            option,
            path,
            is_written,
        }));
    }
}
