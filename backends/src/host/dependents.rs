//! What on the machine depends on a PCI function and would be lost with its driver.

use std::fmt;
use std::fs;

use super::group::{Group, holders};
use super::pci::{DEVICES, Function};
use super::{Host, routes};
use crate::spec::Bdf;

/// Classes of sysfs whose devices show that something is used, and their names. Only the interfaces
/// of a network card are examined one by one.
const CLASSES: [(&str, &str); 6] = [
    ("block", "block devices"),
    ("drm", "screens"),
    ("graphics", "screens"),
    ("tty", "terminals"),
    ("input", "keyboards and mice"),
    ("sound", "sound devices"),
];
/// The most names shown of a class.
const SHOWN: usize = 4;

/// The dependents of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependents {
    /// The kind of function: the base class, in words.
    pub kind: String,
    /// Its driver.
    pub driver: Option<String>,
    /// The dependents, each in words.
    pub uses: Vec<String>,
}

impl Dependents {
    /// The dependents of `function`, and of the functions behind it if it is a bridge.
    #[must_use]
    pub fn of(host: &Host, function: &Function) -> Self {
        let mut uses = Vec::new();
        // A terminal of an E810 belongs to its clock (GNSS), and is nobody's console.
        let is_e810 = function.adapter().is_some();
        for (class, what) in CLASSES.into_iter().filter(|_| !is_e810) {
            let names = below(host, class, function.bdf);
            if !names.is_empty() {
                uses.push(format!("{what} {}", some_of(&names)));
            }
        }
        uses.extend(networks(host, function));
        let users = users(host, function);
        if !users.is_empty() {
            uses.push(format!("process {}", users.join(", ")));
        }
        Self {
            kind: kind(function.class),
            driver: function.driver.clone(),
            uses,
        }
    }

    /// Nothing was found that depends on it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.uses.is_empty()
    }
}

impl fmt::Display for Dependents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = self.driver.as_deref().unwrap_or("no driver");
        write!(f, "{}, {driver}", self.kind)?;
        for one in &self.uses {
            write!(f, ", {one}")?;
        }
        Ok(())
    }
}

/// The base classes that are found beside a network card (PCI Code and ID Assignment).
fn kind(class: Option<u16>) -> String {
    let name = match class.map(|class| class >> 8) {
        Some(0x01) => "storage",
        Some(0x02) => "a network card",
        Some(0x03) => "a graphics card",
        Some(0x04) => "sound or video",
        Some(0x06) => "a bridge",
        Some(0x07) => "a serial or parallel port",
        Some(0x0c) => "a controller of a bus like USB",
        Some(0x12) => "an accelerator",
        Some(_) => return format!("class {:04x}", class.unwrap_or_default()),
        None => "of unknown class",
    };
    name.to_owned()
}

/// The devices of a class whose path goes through the function at `bdf`.
fn below(host: &Host, class: &str, bdf: Bdf) -> Vec<String> {
    let folder = format!("/sys/class/{class}");
    let address = bdf.to_string();
    let goes_through = |name: &String| {
        let target = fs::read_link(host.path(&format!("{folder}/{name}")));
        target.is_ok_and(|target| target.iter().any(|part| *part == *address))
    };
    let names = host.names(&folder);
    names.into_iter().filter(goes_through).collect()
}

fn some_of(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether the function's driver makes a network interface of it.
fn has_interface(function: &Function) -> bool {
    let is_network = function.class.is_some_and(|class| class >> 8 == 0x02);
    let driver = function.driver.as_deref();
    is_network && driver.is_some_and(|driver| driver != "pci-stub" && !is_for_programs(driver))
}

/// Whether the driver passes the function to programs, and does not use it itself.
fn is_for_programs(driver: &str) -> bool {
    driver.contains("vfio") || driver.contains("uio")
}

/// Uses of its network interfaces by others than whoever would bind it.
fn networks(host: &Host, function: &Function) -> Vec<String> {
    let own = function.interfaces.iter();
    let mut interfaces: Vec<String> = own.map(|interface| interface.name.clone()).collect();
    interfaces.extend(below(host, "net", function.bdf));
    interfaces.sort();
    interfaces.dedup();
    let default = routes::default_interfaces(host);
    let mut uses = Vec::new();
    // sysfs shows the interfaces of one network namespace.
    if interfaces.is_empty() && has_interface(function) {
        uses.push(
            "its interface is not in this network namespace: a container may have it".to_owned(),
        );
    }
    for interface in &interfaces {
        let carrier = routes::carries(host, interface, &default);
        let through = match &carrier {
            Some(carrier) if carrier != interface => format!(" through {carrier}"),
            _ => String::new(),
        };
        let upper = routes::upper(host, interface);
        if carrier.is_some() {
            uses.push(format!(
                "its interface {interface} carries the default route{through}"
            ));
        } else if !upper.is_empty() {
            uses.push(format!(
                "its interface {interface} is a part of {}",
                some_of(&upper)
            ));
        }
    }
    uses
}

/// The processes that use the function by one of its files, as `PID (name)`.
#[must_use]
pub fn users(host: &Host, function: &Function) -> Vec<String> {
    let files = files(host, function);
    let mut users: Vec<String> = files.iter().flat_map(|file| holders(host, file)).collect();
    users.sort();
    users.dedup();
    users
}

/// Files by which a process uses the function: those of VFIO, UIO and libibverbs.
pub(super) fn files(host: &Host, function: &Function) -> Vec<String> {
    let at = format!("{DEVICES}/{}", function.bdf);
    let mut files = Vec::new();
    if let Some(group) = function.group.filter(|_| function.is_on_vfio()) {
        files.push(Group::read(host, group).file());
    }
    for (folder, place) in [
        ("vfio-dev", "/dev/vfio/devices"),
        ("uio", "/dev"),
        ("infiniband_verbs", "/dev/infiniband"),
    ] {
        let names = host.names(&format!("{at}/{folder}"));
        files.extend(names.iter().map(|name| format!("{place}/{name}")));
    }
    files
}

/// Why the virtual functions of `function` must not be removed: the dependents of the first one
/// that is used. `None` if none is.
#[must_use]
pub fn used_virtual_function(host: &Host, function: &Function) -> Option<String> {
    let enabled = function.vfs.map_or(0, |vfs| vfs.enabled);
    let at = format!("{DEVICES}/{}", function.bdf);
    for number in 0..enabled {
        let link = fs::read_link(host.path(&format!("{at}/virtfn{number}")));
        let bdf = link.ok().and_then(|target| {
            let name = target.file_name()?.to_str()?;
            name.parse::<Bdf>().ok()
        });
        let Some(function) = bdf.and_then(|bdf| Function::read(host, bdf)) else {
            return Some(format!("virtual function {number} is not found"));
        };
        let dependents = Dependents::of(host, &function);
        let bdf = function.bdf;
        if !dependents.is_free() {
            return Some(format!("{bdf} is in use: {dependents}"));
        }
        let Some(driver) = &function.driver else {
            continue;
        };
        let mut names = function.interfaces.iter();
        if let Some(interface) = names.find(|interface| interface.state == "up") {
            return Some(format!("{bdf} is in use: {} is up", interface.name));
        }
        if function.interfaces.is_empty() {
            return Some(format!(
                "{bdf} is on {driver}, and may be a virtual machine's"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    fn of(tree: &Tree, address: &str) -> String {
        let function = Function::read(tree.host(), bdf(address)).unwrap();
        Dependents::of(tree.host(), &function).to_string()
    }

    #[test]
    fn what_a_device_is_and_what_hangs_on_it() {
        let tree = Tree::with_others();
        for (address, expected) in [
            (
                "0000:65:00.0",
                "storage, nvme, block devices nvme0n1, nvme0n1p1",
            ),
            (
                "0000:66:00.0",
                "a graphics card, nvidia, screens card0, screens fb0",
            ),
            (
                "0000:67:00.0",
                "a network card, e1000e, its interface eno1 carries the default route through br0",
            ),
            // The functions behind it depend on it.
            (
                "0000:64:00.0",
                "a bridge, shpchp, block devices nvme0n1, nvme0n1p1",
            ),
            (
                "0000:68:00.0",
                "a network card, i40e, its interface eno2 is a part of br1",
            ),
            (
                "0000:69:00.0",
                "a controller of a bus like USB, xhci_hcd, keyboards and mice input3",
            ),
            (
                "0000:6a:00.0",
                "a network card, uio_pci_generic, process 900 (dpdk-testpmd)",
            ),
            ("0000:3b:00.1", "a network card, ice"),
        ] {
            assert_eq!(of(&tree, address), expected);
        }
    }

    #[test]
    fn an_interface_in_another_network_namespace_is_one_that_is_used() {
        let tree = Tree::with_card();
        tree.remove("/sys/bus/pci/devices/0000:3b:00.0/net/ens1f0");
        let expected = "a network card, ice, its interface is not in this network namespace: a container may have it";
        assert_eq!(of(&tree, "0000:3b:00.0"), expected);
        for driver in ["vfio-pci", "uio_pci_generic", "pci-stub"] {
            tree.bind("0000:3b:00.0", driver);
            let expected = format!("a network card, {driver}");
            assert_eq!(of(&tree, "0000:3b:00.0"), expected);
        }
        tree.remove("/sys/bus/pci/devices/0000:3b:00.0/driver");
        assert_eq!(of(&tree, "0000:3b:00.0"), "a network card, no driver");
    }

    #[test]
    fn a_name_that_is_no_text_hides_no_default_route() {
        let tree = Tree::with_card();
        let routes = b"\xff 00000000 00000000 0003 0 0 0 000000FF 0 0 0\n\
            ens1f0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n";
        tree.file("/proc/net/route", "");
        fs::write(tree.host().path("/proc/net/route"), routes).unwrap();
        let text = of(&tree, "0000:3b:00.0");
        assert!(text.contains("ens1f0 carries the default route"), "{text}");
    }

    #[test]
    fn long_lists_are_cut() {
        let tree = Tree::with_others();
        for number in 2..9 {
            tree.device("block", &format!("nvme0n1p{number}"), "0000:65:00.0");
        }
        let expected =
            "storage, nvme, block devices nvme0n1, nvme0n1p1, nvme0n1p2, nvme0n1p3 and 5 more";
        assert_eq!(of(&tree, "0000:65:00.0"), expected);
    }

    #[test]
    fn virtual_functions_of_others_are_seen() {
        let tree = Tree::with_card();
        let used = || {
            let function = Function::read(tree.host(), bdf("3b:00.0")).unwrap();
            used_virtual_function(tree.host(), &function)
        };
        assert_eq!(used(), None);
        let at = "/sys/bus/pci/devices/0000:3b:00.0";
        tree.file(&format!("{at}/sriov_numvfs"), "1\n");
        assert!(used().unwrap().contains("not found"));
        tree.function("0000:3b:01.0", "0x8086", "0x1889");
        tree.link(&format!("{at}/virtfn0"), "../0000:3b:01.0");
        assert_eq!(used(), None);
        tree.bind("0000:3b:01.0", "vfio-pci");
        assert!(used().unwrap().contains("virtual machine's"));
        tree.bind("0000:3b:01.0", "iavf");
        assert!(used().unwrap().contains("a container may have it"));
        tree.folder("/sys/bus/pci/devices/0000:3b:01.0/net/ens1f0v0");
        tree.file("/sys/class/net/ens1f0v0/operstate", "down\n");
        assert_eq!(used(), None);
        tree.file("/sys/class/net/ens1f0v0/operstate", "up\n");
        assert!(used().unwrap().contains("ens1f0v0 is up"));
    }
}
