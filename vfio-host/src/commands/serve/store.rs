//! What the service manager keeps for the next server (sd_notify(3), FDSTORE=1): the files of a
//! function behind VFIO. As long as somebody has one of them, the kernel lets nobody open the
//! function, and a program that is stopped may have one for ever.

use std::os::fd::{AsFd as _, OwnedFd};

use e810_backends::spec::{Bdf, DeviceSpec, VfioApi};
use e810_backends::transport::KeptFiles;
use e810_backends::vfio::Vfio;
use e810_backends::{Accept, Shares};

use super::notify;
use crate::output::terminal::say;

/// How the names of the files begin.
const KINDS: [&str; 2] = [CONTAINER, DEVICE];
const CONTAINER: &str = "e810-container-";
const DEVICE: &str = "e810-device-";

/// A name of the store, which has no colons.
fn name(kind: &str, bdf: Bdf) -> String {
    format!("{kind}{}", bdf.to_string().replace(':', "-"))
}

/// Whether a descriptor of this name is a file that a server has had kept.
pub(super) fn is_kept(name: &str) -> bool {
    KINDS.iter().any(|kind| name.starts_with(kind))
}

/// Takes over the function that `spec` names with the files that were kept. What is of no use is
/// closed, and kept no longer; then the server starts as without it.
pub(super) fn take_over(spec: &DeviceSpec, kept: Vec<(String, OwnedFd)>) -> Option<Vfio> {
    if kept.is_empty() {
        return None;
    }
    let names: Vec<String> = kept.iter().map(|(name, _)| name.clone()).collect();
    let taken = match *spec {
        DeviceSpec::Vfio(bdf, VfioApi::Container) => sorted(bdf, kept).and_then(|files| {
            let taken = Vfio::take_over(bdf, Accept::E810, files);
            taken.map_err(|error| error.to_string())
        }),
        _ => Err(format!("{spec} needs no files")),
    };
    match taken {
        Ok(vfio) => {
            say(&format!(
                "e810 serve: {spec} is taken over from the server before"
            ));
            Some(vfio)
        }
        Err(why) => {
            let all = names.join(", ");
            say(&format!(
                "e810 serve: what the service manager kept ({all}) is not used: {why}"
            ));
            names.iter().for_each(|name| forget_one(name));
            None
        }
    }
}

/// The files of the function at `bdf`.
fn sorted(bdf: Bdf, mut kept: Vec<(String, OwnedFd)>) -> Result<KeptFiles, String> {
    let mut take = |kind| {
        let wanted = name(kind, bdf);
        let at = kept.iter().position(|(name, _)| *name == wanted);
        let at = at.ok_or_else(|| format!("{wanted} is not there"))?;
        Ok::<_, String>(kept.swap_remove(at).1)
    };
    let files = KeptFiles {
        container: take(CONTAINER)?,
        device: take(DEVICE)?,
    };
    match kept.first() {
        None => Ok(files),
        Some((name, _)) => Err(format!("{name} is of no use beside them")),
    }
}

/// Has the files of the function at `bdf` kept until this server ends in order.
pub(super) fn keep(bdf: Bdf, shares: &dyn Shares) {
    if !notify::is_wanted() {
        return;
    }
    let files = match shares.keep() {
        Ok(Some(files)) => files,
        Ok(None) => return,
        // It can serve, and the next server waits for the programs.
        Err(error) => return log::warn!("nothing is kept for the next server: {error}"),
    };
    for (kind, file) in [(CONTAINER, files.container), (DEVICE, files.device)] {
        // A function's files have nothing to be polled for.
        let what = format!("FDSTORE=1\nFDNAME={}\nFDPOLL=0", name(kind, bdf));
        notify::give(&what, file.as_fd());
    }
}

/// This server ends in order: nothing of its function is kept.
pub(super) fn forget(spec: &DeviceSpec) {
    if let DeviceSpec::Vfio(bdf, VfioApi::Container) = *spec {
        KINDS.iter().for_each(|kind| forget_one(&name(kind, bdf)));
    }
}

fn forget_one(name: &str) {
    notify::tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn files_are_those_of_one_function_by_their_names() {
        let (one, other): (Bdf, Bdf) = ("3b:00.0".parse().unwrap(), "3b:00.1".parse().unwrap());
        assert_eq!(name(DEVICE, one), "e810-device-0000-3b-00.0");
        let kept = |all: &[(&str, Bdf)]| {
            let file = || OwnedFd::from(File::open("/dev/null").unwrap());
            let named = all.iter().map(|(kind, bdf)| (name(kind, *bdf), file()));
            named.collect::<Vec<_>>()
        };
        let all = [(DEVICE, one), (CONTAINER, one)];
        assert!(kept(&all).iter().all(|(name, _)| is_kept(name)));
        assert!(!is_kept("e810.socket") && !is_kept(""));
        sorted(one, kept(&all)).unwrap();
        for (few, says) in [
            (&all[..1], "e810-container-0000-3b-00.0 is not there"),
            (
                &[(DEVICE, other), (CONTAINER, other)],
                "e810-container-0000-3b-00.0 is not there",
            ),
            (
                &[(DEVICE, one), (CONTAINER, one), (DEVICE, one)],
                "e810-device-0000-3b-00.0 is of no use",
            ),
        ] {
            let why = sorted(one, kept(few)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
