//! A function that other processes still have open.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::open;
use crate::accept::Accept;
use crate::error::BackendError;
use crate::host::Host;
use crate::host::group::holders;
use crate::spec::Bdf;

/// How often the group is looked at.
const AGAIN: Duration = Duration::from_millis(50);

/// What an open device's descriptor points at. Whoever has one keeps the group, although the
/// group's own file may be closed.
const DEVICE: &str = "anon_inode:[vfio-device]";

/// Waits until no process has the group of the function at `bdf`, for `limit` at most: the programs
/// of an owner that has died close it when they hear of its death.
///
/// # Errors
/// [`BackendError::NotOpened`], which names the processes that may have it; and why the function
/// cannot be opened at all.
pub fn wait_until_free(bdf: Bdf, limit: Duration) -> Result<(), BackendError> {
    let (host, name) = (Host::default(), format!("vfio:{bdf}"));
    let place = open::place(&host, &name, bdf, Accept::E810)?;
    let path = host.path(&format!("/dev/vfio/{}", place.group));
    wait(&host, &name, &path, limit)
}

fn wait(host: &Host, name: &str, path: &PathBuf, limit: Duration) -> Result<(), BackendError> {
    let began = Instant::now();
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                if began.elapsed() < limit {
                    thread::sleep(AGAIN);
                    continue;
                }
                let file = path.display().to_string();
                let mut who = holders(host, &file);
                who.extend(holders(host, DEVICE));
                who.sort();
                who.dedup();
                return Err(BackendError::NotOpened {
                    device: name.to_owned(),
                    what: format!(
                        "other processes have {file} or its device: {}; end them, or wait until they end",
                        if who.is_empty() {
                            "none that this one may see".to_owned()
                        } else {
                            who.join(", ")
                        }
                    ),
                    errno: error.raw_os_error(),
                });
            }
            // Anything else is said when the function is opened.
            _ => return Ok(()),
        }
    }
}
