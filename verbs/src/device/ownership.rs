//! Which process has a function: a lock a function, from when the process first lists its devices
//! until it ends.
//!
//! It is a record lock of POSIX on a file of the function, so it is the process's: a child of
//! `fork` does not have it, and the end of the process, also by a signal, frees it.

use std::collections::HashMap;
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

/// Bytes of the name of a file, at most: less than any file system allows.
const LONGEST: usize = 200;

/// Why the process cannot have a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// A process has it, by its number if it can be seen from here.
    Of(Option<u32>),
    /// This process has it, as another of its devices.
    Here,
    /// There is no lock.
    NoLock(String),
}

/// The functions that this process has locked.
#[derive(Debug, Default)]
pub(super) struct Locks {
    folder: Option<PathBuf>,
    /// Open as long as they are locked: whoever closes a file, frees it.
    held: HashMap<String, File>,
}

impl Locks {
    /// With files in `folder`, instead of where the environment says.
    #[cfg(test)]
    fn within(folder: &Path) -> Self {
        Self {
            folder: Some(folder.to_owned()),
            held: HashMap::new(),
        }
    }

    /// Takes a function for this process.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn take(&mut self, spec: &DeviceSpec) -> Result<(), Refusal> {
        let Some(name) = name(spec) else {
            return Ok(());
        };
        // Not opened again: the lock goes when any descriptor of its file is closed.
        if self.held.contains_key(&name) {
            return Err(Refusal::Here);
        }
        let path = self.folder()?.join(file_name(&name));
        let no_lock = |error: io::Error| Refusal::NoLock(format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let options = options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(no_lock)?;
        loop {
            match lock(&file) {
                Ok(()) => break,
                Err(error) if is_held(&error) => {}
                Err(error) => return Err(no_lock(error)),
            }
            // Nobody: it was freed between the two.
            if let Some(holder) = holder(&file).map_err(no_lock)? {
                return Err(Refusal::Of(
                    u32::try_from(holder).ok().filter(|pid| *pid > 0),
                ));
            }
        }
        self.held.insert(name, file);
        Ok(())
    }

    fn folder(&mut self) -> Result<&Path, Refusal> {
        if self.folder.is_none() {
            self.folder = Some(folder().map_err(Refusal::NoLock)?);
        }
        Ok(self.folder.as_deref().unwrap_or(Path::new("/")))
    }
}

/// Where the locks are: made if it is not there.
fn folder() -> Result<PathBuf, String> {
    let Some(folder) = env::var_os(LOCKS).filter(|folder| !folder.is_empty()) else {
        return user_folder().map_err(|error| format!("{error}, or name another one with {LOCKS}"));
    };
    let folder = PathBuf::from(folder);
    // What the user names is the user's to judge: it may be shared by several.
    match DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
    {
        Ok(()) => Ok(folder),
        Err(error) => Err(format!("{LOCKS}: {}: {error}", folder.display())),
    }
}

/// What a function is called, however it is reached; `None` if only one process can name it: a
/// simulated one without a wire, or with an address on it that is drawn.
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

/// The name as that of a file: what a path has is written as numbers, and names that are too long
/// end in a hash.
fn file_name(name: &str) -> String {
    let mut file = String::new();
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b':' | b'=' | b',' => {
                file.push(char::from(byte));
            }
            _ => file.push_str(&format!("%{byte:02x}")),
        }
    }
    if file.len() > LONGEST {
        // FNV-1a.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        file.truncate(LONGEST - 17);
        file.push_str(&format!("-{hash:016x}"));
    }
    file + ".lock"
}

/// The whole file, for writing.
fn record() -> libc::flock {
    // SAFETY: numbers.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = libc::F_WRLCK as libc::c_short;
    record.l_whence = libc::SEEK_SET as libc::c_short;
    record
}

fn lock(file: &File) -> io::Result<()> {
    let record = record();
    // SAFETY: an open file, and a record that is read.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const record) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn is_held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN))
}

/// The process that has it locked; 0 where it is one that is not seen from here.
fn holder(file: &File) -> io::Result<Option<libc::pid_t>> {
    let mut record = record();
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
    fn names_of_files_are_short_and_differ() {
        assert_eq!(file_name("vfio:0000:3b:00.1"), "vfio:0000:3b:00.1.lock");
        assert_eq!(file_name("vfio-user:/a b"), "vfio-user:%2fa%20b.lock");
        let long = |end: &str| file_name(&format!("vfio-user:{}{end}", "/".repeat(90)));
        assert_eq!(long("a").len(), LONGEST + ".lock".len());
        assert_ne!(long("a"), long("b"));
    }

    #[test]
    fn a_child_of_fork_does_not_have_it_and_its_end_frees_nothing() {
        let folder = env::temp_dir().join(format!("e810-locks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let function = spec("vfio:3b:00.0");
        let mut locks = Locks::within(&folder);
        assert_eq!(locks.take(&spec("sim")), Ok(()));
        assert_eq!(locks.take(&function), Ok(()));
        assert_eq!(locks.take(&function), Err(Refusal::Here));
        for _ in 0..2 {
            // SAFETY: the child makes a few calls of the system and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let parent = std::os::unix::process::parent_id();
                let taken = Locks::within(&folder).take(&function);
                let expected = taken == Err(Refusal::Of(Some(parent)));
                // SAFETY: nothing of the parent's is run.
                unsafe { libc::_exit(i32::from(!expected)) };
            }
            let mut status = -1;
            // SAFETY: a child that was made above, and a place for its status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }
        let missing = Locks::within(&folder.join("none")).take(&function);
        assert!(matches!(missing, Err(Refusal::NoLock(_))), "{missing:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
