//! Finding and loading the provider library.

// UNSAFETY: loads a C library and calls it.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::fs;
use std::io::{Write, stderr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::abi::DeviceOps;
use crate::answers;

/// Number of libibverbs' private interface that this room knows, part of the
/// library's file name.
const INTERFACE: &str = "34";
/// Names the folder that packages were unpacked into, where they are not
/// installed.
const ROOT: &str = "E810_PEER_ROOT";
/// Where distributions put libraries, below the root.
const FOLDERS: &[&str] = &[
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
];
/// What the library is linked with, in the order of loading. Found by the
/// loader itself where packages are installed.
const BELOW: &[&str] = &["libnl-3.so.200", "libnl-route-3.so.200", "libibverbs.so.1"];

/// Why nothing was run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotRun {
    /// There is no such library.
    Missing,
    /// There is one, of an interface that this room does not know.
    OtherInterface(PathBuf),
    /// The loader refused it.
    NotLoaded(String),
    /// It is not what the table of this room says.
    OtherShape(&'static str),
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(
                f,
                "NOT RUN: package missing: no libirdma-rdmav{INTERFACE}.so (Debian 12: ibverbs-providers); \
                 tests/peer/run fetches it"
            ),
            Self::OtherInterface(path) => write!(
                f,
                "NOT RUN: {} is not of libibverbs' private interface {INTERFACE}, the one known here",
                path.display()
            ),
            Self::NotLoaded(why) => write!(f, "NOT RUN: the loader says: {why}"),
            Self::OtherShape(what) => write!(f, "NOT RUN: the library is another one: {what}"),
        }
    }
}

/// The library, loaded.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    pub(crate) driver: &'static DeviceOps,
}

impl Library {
    /// Finds and loads it. It stays loaded.
    ///
    /// # Errors
    /// Why it cannot be used; the caller says so and does not count as run.
    pub fn load() -> Result<Self, NotRun> {
        answers::keep();
        let root = std::env::var_os(ROOT).map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let path = find(&root)?;
        if root != Path::new("/") {
            for name in BELOW {
                let place = FOLDERS.iter().map(|folder| root.join(folder).join(name));
                if let Some(path) = place.into_iter().find(|path| path.exists()) {
                    open(&path)?;
                }
            }
        }
        open(&path)?;
        // SAFETY: the library's constructor left its own constant table there,
        // or nothing did; the library is never unloaded.
        let driver = unsafe { answers::driver().as_ref() };
        let driver = driver.ok_or(NotRun::OtherShape("it registered no driver"))?;
        if driver.name.is_null() || driver.alloc_context.is_none() {
            return Err(NotRun::OtherShape("its driver has no name or no contexts"));
        }
        // SAFETY: a C string of the library.
        if unsafe { CStr::from_ptr(driver.name) } != c"irdma" {
            return Err(NotRun::OtherShape("its driver is not called irdma"));
        }
        Ok(Self { driver })
    }

    /// The same for a test, which has nothing to return an error to: says
    /// loudly, past the capture of test output, why there is no library.
    #[must_use]
    pub fn load_or_tell() -> Option<Self> {
        Self::load()
            .inspect_err(|why| {
                let _ = stderr().write_all(format!("\n{why}\n").as_bytes());
            })
            .ok()
    }
}

fn find(root: &Path) -> Result<PathBuf, NotRun> {
    let wanted = format!("libirdma-rdmav{INTERFACE}.so");
    let mut other = None;
    for folder in FOLDERS {
        let folder = root.join(folder).join("libibverbs");
        let path = folder.join(&wanted);
        if path.exists() {
            return Ok(path);
        }
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.file_name().as_bytes().starts_with(b"libirdma-rdmav") {
                other = Some(entry.path());
            }
        }
    }
    Err(other.map_or(NotRun::Missing, NotRun::OtherInterface))
}

fn open(path: &Path) -> Result<(), NotRun> {
    let name = CString::new(OsStr::as_bytes(path.as_os_str()))
        .map_err(|_| NotRun::NotLoaded("a path with a zero byte".to_owned()))?;
    // SAFETY: runs the library's constructors. This library's registers its
    // driver with us, the others do nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if !handle.is_null() {
        return Ok(());
    }
    // SAFETY: no arguments; the text is copied before the next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return Err(NotRun::NotLoaded("nothing".to_owned()));
    }
    // SAFETY: a C string.
    let text = unsafe { CStr::from_ptr(text) };
    Err(NotRun::NotLoaded(text.to_string_lossy().into_owned()))
}
