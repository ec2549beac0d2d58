//! The functions of one card.

use std::io;

use super::Host;
use super::dependents::files;
use super::group::holders;
use super::pci::{self, Function};
use crate::spec::Bdf;

/// The users of functions of the card other than the one at `bdf`: functions bound to a driver of
/// the kernel, functions that a process has open through VFIO, each with its user, and virtual
/// functions, also those of `bdf`.
///
/// The functions of one card are the Intel Ethernet controllers of one slot: one with an unknown id
/// may be reset with a sibling, too. A function on vfio-pci that nobody has open is unused.
#[must_use]
pub fn users_beside(host: &Host, bdf: Bdf) -> Vec<String> {
    let slot = |bdf: Bdf| (bdf.domain, bdf.bus, bdf.device);
    pci::functions(host)
        .iter()
        .filter(|other| other.is_intel_ethernet())
        .filter(|other| slot(other.bdf) == slot(bdf))
        .filter_map(|other| {
            let is_other = other.bdf != bdf;
            let user = is_other.then(|| user(host, other)).flatten();
            user.or_else(|| virtual_functions(other))
        })
        .collect()
}

fn virtual_functions(function: &Function) -> Option<String> {
    let vfs = function.vfs.filter(|vfs| vfs.enabled > 0)?;
    Some(format!(
        "{} (virtual functions, {} of them)",
        function.bdf, vfs.enabled
    ))
}

fn user(host: &Host, function: &Function) -> Option<String> {
    let (bdf, driver) = (function.bdf, function.driver.as_deref()?);
    if !function.is_on_vfio() {
        return Some(format!("{bdf} (driver {driver})"));
    }
    let open = files(host, function)
        .iter()
        .find_map(|file| opened(host, file))?;
    Some(format!("{bdf} ({open})"))
}

/// The processes that have VFIO's file open. The kernel lets only one open it, so a refusal also
/// reveals a process that this one may not inspect.
fn opened(host: &Host, file: &str) -> Option<String> {
    if let Some(holder) = holders(host, file).into_iter().next() {
        return Some(format!("open in process {holder}"));
    }
    match std::fs::File::open(host.path(file)) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Some("open in some process".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    #[test]
    fn a_function_on_a_driver_of_the_kernel_is_in_use() {
        let tree = Tree::with_card();
        let users = || users_beside(tree.host(), bdf("3b:00.0"));
        assert_eq!(users(), ["0000:3b:00.1 (driver ice)"]);
        tree.bind("0000:3b:00.1", "vfio-pci");
        assert!(users().is_empty(), "{:?}", users());
        // Another card.
        tree.function("0000:3c:00.0", "0x8086", "0x1592");
        tree.bind("0000:3c:00.0", "ice");
        assert!(users().is_empty());
    }

    #[test]
    fn a_function_with_an_unknown_id_is_one_of_the_card() {
        let tree = Tree::with_card();
        tree.bind("0000:3b:00.1", "vfio-pci");
        // An E810 that is newer than this program, and devices that a hypervisor puts beside it.
        for (address, id, class, driver) in [
            ("0000:3b:00.2", "0x15ff", 0x0200, "ice"),
            ("0000:3b:00.3", "0x0a54", 0x0108, "nvme"),
        ] {
            tree.function(address, "0x8086", id);
            tree.config(address, "0x8086", id, class);
            tree.bind(address, driver);
        }
        for function in ["3b:00.0", "3b:00.1"] {
            let users = users_beside(tree.host(), bdf(function));
            let seen = users.iter().any(|user| user == "0000:3b:00.2 (driver ice)");
            assert!(seen, "{users:?}");
            assert!(!format!("{users:?}").contains("nvme"), "{users:?}");
        }
    }

    #[test]
    fn virtual_functions_are_uses_of_their_card() {
        let tree = Tree::with_card();
        for function in ["0000:3b:00.0", "0000:3b:00.1"] {
            tree.bind(function, "vfio-pci");
        }
        tree.file("/sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "4\n");
        for function in ["3b:00.0", "3b:00.1"] {
            let users = users_beside(tree.host(), bdf(function));
            assert_eq!(users, ["0000:3b:00.0 (virtual functions, 4 of them)"]);
        }
    }

    #[test]
    fn a_function_that_a_process_has_open_is_in_use() {
        let tree = Tree::with_card();
        tree.bind("0000:3b:00.1", "vfio-pci");
        tree.file("/proc/812/comm", "e810\n");
        tree.link("/proc/812/fd/4", "/dev/vfio/25");
        let users = users_beside(tree.host(), bdf("3b:00.0"));
        assert_eq!(users, ["0000:3b:00.1 (open in process 812 (e810))"]);
    }
}
