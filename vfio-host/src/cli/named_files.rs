//! Checks that no two options name one file: the command would overwrite what it reads or has
//! written.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{
    BackendArgs, Command, MonitorArgs, PairArgs, PerfArgs, PingArgs, ProxyArgs, ReportArgs,
    SelftestArgs, ServeArgs, SimArgs, StartArgs, StatArgs, TapArgs, UpArgs,
};
use crate::cli::capture::CaptureArgs;
use crate::usage::Usage;

/// Maximum number of links that are followed to a file that does not exist, as in the kernel.
const MOST_LINKS: usize = 40;

/// A file that an option names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedFile {
    option: &'static str,
    path: PathBuf,
    is_written: bool,
}

/// Two options that name one file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SameFile {
    /// One option was given twice with the same name.
    #[error("{option} {}: it is given twice", path.display())]
    Twice {
        /// The option.
        option: &'static str,
        /// What it names.
        path: PathBuf,
    },
    /// Under any names: a link counts as its target.
    #[error(
        "{one} {} and {other} {}: they are one file, and one would overwrite the other; name two files",
        one_path.display(), other_path.display()
    )]
    Overwritten {
        /// An option.
        one: &'static str,
        /// What it names.
        one_path: PathBuf,
        /// Another one.
        other: &'static str,
        /// What it names.
        other_path: PathBuf,
    },
    /// Standard output or standard error goes there too.
    #[error(
        "{option} {}: {stream} also goes to this file, and one would overwrite the other; name another file",
        path.display()
    )]
    Stream {
        /// The option.
        option: &'static str,
        /// What it names.
        path: PathBuf,
        /// Which stream.
        stream: &'static str,
    },
}

impl From<SameFile> for Usage {
    fn from(same: SameFile) -> Self {
        Self(same.to_string())
    }
}

/// The streams of this process.
const STREAMS: [(&str, &str); 2] = [
    ("standard output", "/proc/self/fd/1"),
    ("standard error", "/proc/self/fd/2"),
];

/// Refuses a file that two options name, if one of them writes it.
///
/// # Errors
/// The first two such options.
pub fn check(files: &[NamedFile]) -> Result<(), SameFile> {
    let identities: Vec<_> = files.iter().map(|file| Identity::of(&file.path)).collect();
    let mut known = files.iter().zip(&identities);
    while let Some((one, identity)) = known.next() {
        let Some(identity) = identity else { continue };
        let is_same = |(other, there): &(&NamedFile, &Option<Identity>)| {
            (one.is_written || other.is_written) && there.as_ref() == Some(identity)
        };
        if let Some((other, _)) = known.clone().find(is_same) {
            return Err(same(one, other));
        }
        let is_this = |(_, at): &&(&str, &str)| {
            let there = fs::metadata(at).ok().filter(Metadata::is_file);
            there.is_some_and(|there| Identity::There(there.dev(), there.ino()) == *identity)
        };
        if let Some((stream, _)) = STREAMS.iter().filter(|_| one.is_written).find(is_this) {
            return Err(SameFile::Stream {
                option: one.option,
                path: one.path.clone(),
                stream,
            });
        }
    }
    Ok(())
}

fn same(one: &NamedFile, other: &NamedFile) -> SameFile {
    if (one.option, &one.path) == (other.option, &other.path) {
        return SameFile::Twice {
            option: one.option,
            path: one.path.clone(),
        };
    }
    SameFile::Overwritten {
        one: one.option,
        one_path: one.path.clone(),
        other: other.option,
        other_path: other.path.clone(),
    }
}

/// The file that a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Identity {
    /// An existing file: device and inode number.
    There(u64, u64),
    /// A new file: its folder, and its name there.
    New((u64, u64), OsString),
}

impl Identity {
    /// `None` if the folder does not exist (another check reports that), and for a character
    /// device, which keeps nothing that could be overwritten.
    fn of(path: &Path) -> Option<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            match fs::metadata(&path) {
                Ok(there) if there.file_type().is_char_device() => return None,
                Ok(there) => return Some(Self::There(there.dev(), there.ino())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return None,
            }
            let folder = match path.parent()? {
                here if here.as_os_str().is_empty() => Path::new("."),
                folder => folder,
            };
            match fs::read_link(&path) {
                Ok(to) => path = folder.join(to),
                Err(_) => {
                    let there = fs::metadata(folder).ok()?;
                    let name = path.file_name()?.to_owned();
                    return Some(Self::New((there.dev(), there.ino()), name));
                }
            }
        }
        None
    }
}

/// The files that some options name.
#[derive(Default)]
struct Files(Vec<NamedFile>);

impl Files {
    fn add<'a>(
        mut self,
        option: &'static str,
        paths: impl IntoIterator<Item = &'a PathBuf>,
        is_written: bool,
    ) -> Self {
        let named = paths.into_iter().map(|path| NamedFile {
            option,
            path: path.clone(),
            is_written,
        });
        self.0.extend(named);
        self
    }

    fn writes<'a>(
        self,
        option: &'static str,
        paths: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Self {
        self.add(option, paths, true)
    }

    fn reads<'a>(self, option: &'static str, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.add(option, paths, false)
    }

    fn device(self, start: &StartArgs, backend: &BackendArgs) -> Self {
        self.reads("--ddp", &start.ddp)
            .reads("--quirks", &start.quirks)
            .writes("--trace", &backend.trace)
    }

    fn capture(self, capture: &CaptureArgs) -> Self {
        self.writes("--pcap", &capture.pcap)
    }

    fn pair(self, pair: &PairArgs) -> Self {
        self.device(&pair.start, &pair.backend)
            .capture(&pair.capture)
            .writes("--monitor", &pair.monitor)
    }
}

impl Command {
    /// The files that its options name, except those of a program that it runs.
    #[must_use]
    pub fn named_files(&self) -> Vec<NamedFile> {
        let files = Files::default();
        let files = match self {
            Self::Pingpong(args) => files.pair(&args.pair),
            Self::Perf(PerfArgs { pair, plot, .. }) => files.pair(pair).writes("--plot", plot),
            Self::Monitor(MonitorArgs { pair, .. }) => files.pair(pair),
            Self::Ping(PingArgs {
                start,
                backend,
                capture,
                ..
            })
            | Self::Tap(TapArgs {
                start,
                backend,
                capture,
                ..
            })
            | Self::Up(UpArgs {
                start,
                backend,
                capture,
                ..
            }) => files.device(start, backend).capture(capture),
            Self::Selftest(SelftestArgs {
                out,
                start,
                backend,
                ..
            }) => files.device(start, backend).writes("--out", out),
            Self::Stat(StatArgs { start, backend, .. }) => files.device(start, backend),
            Self::Report(ReportArgs {
                out,
                compare,
                backend,
                ..
            }) => files
                .reads("--compare", compare)
                .writes("--out", out)
                .writes("--trace", &backend.trace),
            Self::Sim(SimArgs {
                socket,
                report,
                package,
                card,
                capture,
                ..
            }) => files
                .writes("--socket", socket)
                .reads("--card", &card.card)
                .reads("--quirks", &card.quirks)
                .writes("--report", report)
                .writes("--package", package)
                .capture(capture),
            Self::Proxy(ProxyArgs { socket, trace, .. }) => files
                .writes("--socket", [socket])
                .writes("--trace", [trace]),
            Self::Serve(ServeArgs { at, .. }) => files.writes("--at", at),
            Self::List(_)
            | Self::Doctor(_)
            | Self::Bind(_)
            | Self::Unbind(_)
            | Self::Run(_)
            | Self::Ps(_)
            | Self::Connections(_)
            | Self::Trace(_) => files,
        };
        files.0
    }
}
