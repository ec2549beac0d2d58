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

type Kept = Vec<(String, OwnedFd)>;

/// Takes over the function that `spec` names with its files among those that were kept. If they are
/// of no use, they are closed, and kept no longer; then the server starts as without them.
pub(super) fn take_over(spec: &DeviceSpec, kept: &mut Kept) -> Option<Vfio> {
    let DeviceSpec::Vfio(bdf, VfioApi::Container) = *spec else {
        return None;
    };
    let its = KINDS.map(|kind| name(kind, bdf));
    let of_function = kept.extract_if(.., |(name, _)| its.contains(name));
    let of_function: Kept = of_function.collect();
    if of_function.is_empty() {
        return None;
    }
    let names: Vec<String> = of_function.iter().map(|(name, _)| name.clone()).collect();
    let taken = sorted(bdf, of_function).and_then(|files| {
        let taken = Vfio::take_over(bdf, Accept::E810, files);
        taken.map_err(|error| error.to_string())
    });
    match taken {
        Ok(vfio) => {
            say(&format!(
                "e810 serve: {spec} is taken over from the server before"
            ));
            Some(vfio)
        }
        Err(why) => {
            give_back(&names, &why);
            None
        }
    }
}

/// Gives back what is left: files of functions that this server does not serve.
pub(super) fn give_back_rest(kept: Kept) {
    if !kept.is_empty() {
        let names: Vec<String> = kept.into_iter().map(|(name, _)| name).collect();
        give_back(&names, "no function that is served needs it");
    }
}

fn give_back(names: &[String], why: &str) {
    let all = names.join(", ");
    say(&format!(
        "e810 serve: what the service manager kept ({all}) is not used: {why}"
    ));
    names.iter().for_each(|name| forget_one(name));
}

/// The files of the function at `bdf`.
fn sorted(bdf: Bdf, mut kept: Kept) -> Result<KeptFiles, String> {
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
        Some((name, _)) => Err(format!("{name} is there twice")),
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
                &[(DEVICE, one), (CONTAINER, one), (DEVICE, one)],
                "e810-device-0000-3b-00.0 is there twice",
            ),
        ] {
            let why = sorted(one, kept(few)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        // Those of another function stay, for that one.
        let mut others = kept(&[(DEVICE, other), (CONTAINER, other)]);
        let spec = DeviceSpec::Vfio(one, VfioApi::Container);
        assert!(take_over(&spec, &mut others).is_none());
        assert_eq!(others.len(), 2);
    }
}
