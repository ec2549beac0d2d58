//! Which process has a function: one lock for each function, from when the process first lists its
//! devices until it ends.
//!
//! The lock is a POSIX record lock, so it belongs to the process: a child of `fork` does not have
//! it, and the end of the process, also by a signal, frees it. The records of all functions are in
//! one file, so that functions which are made for one run leave no files behind.

use std::collections::HashSet;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use e810_backends::host::user_folder::user_folder;
use e810_backends::spec::DeviceSpec;

/// The environment variable with the folder of the locks; without it they are in the
/// [user's folder](user_folder).
pub const LOCKS: &str = "E810_LOCKS";

/// The file in that folder.
const FILE: &str = "functions.lock";

/// Why the process cannot have a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// Another process has it; its number, if it is visible from here.
    Of(Option<u32>),
    /// This process has it, as another of its devices.
    Here,
    NoLock(String),
}

/// The functions that this process has locked.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// Opened once: closing any descriptor of the file would free all locks.
    file: Option<File>,
    held: HashSet<String>,
}

impl Locks {
    /// Takes a function for this process.
    pub(super) fn take(&mut self, spec: &DeviceSpec) -> Result<(), Refusal> {
        let Some(name) = name(spec) else {
            return Ok(());
        };
        if self.held.contains(&name) {
            return Err(Refusal::Here);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => folder()
                .and_then(|folder| open(&folder))
                .map_err(Refusal::NoLock)?,
        };
        let file = self.file.insert(file);
        let no_lock = |error: io::Error| Refusal::NoLock(format!("{FILE}: {error}"));
        let record = record(&name);
        loop {
            match lock(file, record) {
                Ok(()) => break,
                Err(error) if is_held(&error) => {}
                Err(error) => return Err(no_lock(error)),
            }
            // Nobody: the lock was freed between the two calls.
            if let Some(holder) = holder(file, record).map_err(no_lock)? {
                let holder = u32::try_from(holder).ok();
                return Err(Refusal::Of(holder.filter(|pid| *pid > 0)));
            }
        }
        self.held.insert(name);
        Ok(())
    }
}

fn open(folder: &Path) -> Result<File, String> {
    let path = folder.join(FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let options = options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&path);
    file.map_err(|error| format!("{}: {error}", path.display()))
}

/// The folder of the locks, created if it does not exist.
fn folder() -> Result<PathBuf, String> {
    let Some(folder) = env::var_os(LOCKS).filter(|folder| !folder.is_empty()) else {
        return user_folder().map_err(|error| format!("{error}, or name another one with {LOCKS}"));
    };
    let folder = PathBuf::from(folder);
    // The user is responsible for a folder that they name: several users may share it.
    match DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
    {
        Ok(()) => Ok(folder),
        Err(error) => Err(format!("{LOCKS}: {}: {error}", folder.display())),
    }
}

/// The name of a function, the same for every way to reach it. `None` if only one process can name
/// it: a simulated function without a wire, or with a random address on it.
fn name(spec: &DeviceSpec) -> Option<String> {
    match spec {
        DeviceSpec::Sim(sim) => {
            let (wire, [a, b, c, d, e, f]) = (sim.wire.as_ref()?, sim.mac?);
            Some(format!(
                "sim:wire={wire},mac={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"
            ))
        }
        DeviceSpec::VfioUser(socket) => {
            let socket = fs::canonicalize(socket).unwrap_or_else(|_| socket.clone());
            Some(format!("vfio-user:{}", socket.display()))
        }
        DeviceSpec::Vfio(bdf, _) => Some(format!("vfio:{bdf}")),
    }
}

/// The record of a function: a write lock of the byte at the hash (FNV-1a) of its name. The file is
/// not that long, which does not matter to locks.
fn record(name: &str) -> libc::flock {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // SAFETY: numbers.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = libc::F_WRLCK as libc::c_short;
    record.l_whence = libc::SEEK_SET as libc::c_short;
    // Offsets are signed.
    record.l_start = (hash >> 2) as libc::off_t;
    record.l_len = 1;
    record
}

fn lock(file: &File, record: libc::flock) -> io::Result<()> {
    // SAFETY: an open file, and a record that is read.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const record) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn is_held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN))
}

/// The process that holds the lock; 0 for a process that is not visible from here.
fn holder(file: &File, mut record: libc::flock) -> io::Result<Option<libc::pid_t>> {
    // SAFETY: an open file, and a record that is read and written.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut record) } {
        -1 => Err(io::Error::last_os_error()),
        _ if record.l_type == libc::F_UNLCK as libc::c_short => Ok(None),
        _ => Ok(Some(record.l_pid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> DeviceSpec {
        text.parse().unwrap()
    }

    #[test]
    fn a_function_has_one_name_and_private_ones_have_none() {
        let mac = "mac=02:00:00:00:01:00";
        for (text, expected) in [
            ("sim", None),
            ("sim:mac=02:00:00:00:01:00", None),
            ("sim:wire=lab", None),
            ("vfio:3b:00.1", Some("vfio:0000:3b:00.1")),
            ("vfio-user:/no/socket", Some("vfio-user:/no/socket")),
        ] {
            assert_eq!(name(&spec(text)).as_deref(), expected, "{text}");
        }
        let one = name(&spec(&format!("sim:wire=lab,{mac}")));
        assert_eq!(one.as_deref(), Some("sim:wire=lab,mac=02:00:00:00:01:00"));
        assert_eq!(one, name(&spec(&format!("sim:{mac},latency=2us,wire=lab"))));
    }

    #[test]
    fn records_of_functions_differ() {
        let place = |name: &str| record(name).l_start;
        let [one, other] = ["vfio:0000:3b:00.0", "vfio:0000:3b:00.1"].map(place);
        assert!(one > 0 && other > 0 && one != other);
        // The hash of "a" is in the description of FNV.
        assert_eq!(
            place("a"),
            0xaf63_dc4c_8601_ec8c_u64 as i64 >> 2 & (i64::MAX >> 1)
        );
    }

    #[test]
    fn a_child_of_fork_does_not_have_it_and_its_end_frees_nothing() {
        let folder = env::temp_dir().join(format!("e810-locks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let locks = || Locks {
            file: Some(open(&folder).unwrap()),
            held: HashSet::new(),
        };
        let [function, other] = ["vfio:3b:00.0", "vfio:3b:00.1"].map(spec);
        let mut own = locks();
        assert_eq!(own.take(&spec("sim")), Ok(()));
        assert_eq!(own.take(&function), Ok(()));
        assert_eq!(own.take(&function), Err(Refusal::Here));
        for _ in 0..2 {
            // SAFETY: the child makes a few calls of the system and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let parent = std::os::unix::process::parent_id();
                let mut own = locks();
                let taken = [own.take(&function), own.take(&other)];
                let expected = [Err(Refusal::Of(Some(parent))), Ok(())];
                // SAFETY: nothing of the parent's is run.
                unsafe { libc::_exit(i32::from(taken != expected)) };
            }
            let mut status = -1;
            // SAFETY: a child that was made above, and a place for its status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }
        assert!(open(&folder.join("none")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
