//! A `/dev/infiniband` and a `/sys/class/infiniband` that only this process sees.
//!
//! Some programs check that `/dev/infiniband/uverbsN` is a character device before they ask the
//! library (UCX); they find a link to `/dev/null`. Programs that read `/sys/class/infiniband`
//! themselves find the contents of a folder. Both are in a mount namespace of the process and of
//! those that it starts; nobody else sees them.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::ptr;

use anyhow::{Context as _, Result};

use super::user_folder::user_folder;

const DEV: &str = "/dev";
const CLASS: &str = "/sys/class";
const FOLDER: &str = "infiniband";
/// Classes of RDMA devices.
const CLASSES: [&str; 2] = [FOLDER, "infiniband_verbs"];

/// Gives the process a mount namespace. Its `/dev` is unchanged except for `infiniband`, which has
/// `count` links `uverbs0` and so on to `/dev/null`; its `/sys/class` is unchanged except for the
/// classes of RDMA devices, which come from `sysfs`. It needs root, or a system where users may
/// make user namespaces.
///
/// The process must have no other thread.
///
/// # Errors
/// Which step failed.
pub fn add(count: usize, sysfs: &Path) -> Result<()> {
    leave_namespace().context("making a mount namespace: run as root, or allow user namespaces")?;
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE).context("/")?;
    replace(DEV, &[FOLDER], |staged| {
        let folder = staged.join(FOLDER);
        fs::create_dir(&folder)?;
        (0..count)
            .try_for_each(|number| symlink("/dev/null", folder.join(format!("uverbs{number}"))))
    })?;
    // A container may have none.
    if !Path::new(CLASS).is_dir() {
        return Ok(());
    }
    replace(CLASS, &CLASSES, |staged| {
        CLASSES
            .iter()
            .try_for_each(|class| copy(&sysfs.join("class").join(class), &staged.join(class)))
    })
}

/// Replaces `folder` by a copy without `others` and with what `fill` creates.
fn replace(
    folder: &str,
    others: &[&str],
    fill: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<()> {
    let staged = user_folder()?.join("staged");
    fs::create_dir_all(&staged).with_context(|| staged.display().to_string())?;
    mount(
        Some(Path::new("tmpfs")),
        &staged,
        Some("tmpfs"),
        libc::MS_NOSUID,
    )
    .context("tmpfs")?;
    for entry in fs::read_dir(folder).context(folder.to_owned())? {
        let entry = entry?;
        if !others.iter().any(|other| entry.file_name() == *other) {
            copy(&entry.path(), &staged.join(entry.file_name()))
                .with_context(|| entry.path().display().to_string())?;
        }
    }
    fill(&staged).context(folder.to_owned())?;
    mount(Some(&staged), Path::new(folder), None, libc::MS_MOVE).context(folder.to_owned())
}

/// Enters a new mount namespace. Without root this is inside a user namespace, in which users and
/// groups keep their numbers.
fn leave_namespace() -> io::Result<()> {
    // SAFETY: they read numbers of the process, and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if unshare(libc::CLONE_NEWNS).is_ok() {
        return Ok(());
    }
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: it takes flags, and changes what the process sees, not its memory.
    match unsafe { libc::unshare(what) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Copies a device, folder or link to another place.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    match kind.is_dir() {
        true => fs::create_dir(to)?,
        false => drop(File::create(to)?),
    }
    mount(Some(from), to, None, libc::MS_BIND | libc::MS_REC)
}

fn mount(
    from: Option<&Path>,
    to: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let text = |path: &Path| Ok::<_, io::Error>(CString::new(path.as_os_str().as_bytes())?);
    let from = from.map(text).transpose()?;
    let to = text(to)?;
    let kind = kind.map(PathBuf::from);
    let kind = kind.as_deref().map(text).transpose()?;
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    // SAFETY: strings that live until it returns, or none; the kind of mount takes no data.
    let done = unsafe {
        libc::mount(
            pointer(&from),
            to.as_ptr(),
            pointer(&kind),
            flags,
            ptr::null(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
