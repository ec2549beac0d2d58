//! A fake sysfs, procfs and devfs in a folder: a machine with a card, for tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests use it, and a test fails by panicking"
)]

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::binding::Kernel;
use super::{Host, link_name, read};
use crate::spec::Bdf;

/// The address `text`.
pub fn bdf(text: &str) -> Bdf {
    text.parse().unwrap()
}

/// A machine in a folder of its own, which is removed at the end.
pub struct Tree {
    host: Host,
    root: PathBuf,
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Tree {
    /// A machine with drivers ice and vfio-pci and nothing else.
    pub fn bare() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("e810-host-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir(&root).unwrap();
        let tree = Self {
            host: Host::new(&root),
            root,
        };
        for driver in ["ice", "vfio-pci"] {
            tree.folder(&format!("/sys/bus/pci/drivers/{driver}"));
        }
        tree.file("/sys/bus/pci/drivers_probe", "");
        tree.folder("/sys/bus/pci/devices");
        tree.file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
        tree.file("/proc/cmdline", "quiet intel_iommu=on\n");
        tree.file(
            "/proc/meminfo",
            "HugePages_Total:      16\nHugePages_Free:       12\nHugepagesize:       2048 kB\n",
        );
        tree.file(
            "/proc/self/limits",
            "Max locked memory         unlimited            unlimited            bytes\n",
        );
        tree.folder("/sys/module/vfio_iommu_type1");
        tree.file("/dev/vfio/vfio", "");
        tree
    }

    /// A machine with the two functions of an E810 on ice, each in its group, and
    /// the card's package.
    pub fn with_card() -> Self {
        let tree = Self::bare();
        for (address, group) in [("0000:3b:00.0", 24), ("0000:3b:00.1", 25)] {
            tree.function(address, "0x8086", "0x1592");
            tree.bind(address, "ice");
            tree.group(address, group);
        }
        let first = "/sys/bus/pci/devices/0000:3b:00.0";
        for (file, text) in [
            ("numa_node", "1\n"),
            ("sriov_totalvfs", "128\n"),
            ("sriov_numvfs", "0\n"),
        ] {
            tree.file(&format!("{first}/{file}"), text);
        }
        for (address, interface) in [("0000:3b:00.0", "ens1f0"), ("0000:3b:00.1", "ens1f1")] {
            tree.folder(&format!("/sys/bus/pci/devices/{address}/net/{interface}"));
            tree.file(&format!("/sys/class/net/{interface}/operstate"), "up\n");
            tree.file(&format!("/sys/class/net/{interface}/speed"), "100000\n");
        }
        let package = "/lib/firmware/intel/ice/ddp/ice.pkg";
        tree.file(package, "");
        fs::write(tree.host.path(package), e810_sim::test_package()).unwrap();
        tree
    }

    /// A machine with a card and also a disk behind a bridge, a graphics card, the card of the
    /// default route, a card with virtual machines, a keyboard, and a card that a program uses.
    pub fn with_others() -> Self {
        let tree = Self::with_card();
        for (address, vendor, device, class, driver) in [
            ("0000:64:00.0", "0x8086", "0x2030", 0x0604, "shpchp"),
            ("0000:65:00.0", "0x8086", "0x0a54", 0x0108, "nvme"),
            ("0000:66:00.0", "0x10de", "0x2204", 0x0300, "nvidia"),
            ("0000:67:00.0", "0x8086", "0x15fc", 0x0200, "e1000e"),
            ("0000:68:00.0", "0x8086", "0x1572", 0x0200, "i40e"),
            ("0000:69:00.0", "0x8086", "0xa36d", 0x0c03, "xhci_hcd"),
            (
                "0000:6a:00.0",
                "0x8086",
                "0x158b",
                0x0200,
                "uio_pci_generic",
            ),
        ] {
            tree.function(address, vendor, device);
            tree.config(address, vendor, device, class);
            tree.bind(address, driver);
        }
        for disk in ["nvme0n1", "nvme0n1p1"] {
            tree.device("block", disk, "0000:64:00.0/0000:65:00.0");
        }
        tree.device("drm", "card0", "0000:66:00.0");
        tree.device("graphics", "fb0", "0000:66:00.0");
        tree.device("input", "input3", "0000:69:00.0");
        for (interface, bridge, address) in [
            ("eno1", "br0", "0000:67:00.0"),
            ("eno2", "br1", "0000:68:00.0"),
        ] {
            let target = format!("../../devices/pci0000:00/{address}/net/{interface}");
            let net = format!("/sys/devices/pci0000:00/{address}/net/{interface}");
            tree.folder(&net);
            tree.link(&format!("/sys/class/net/{interface}"), &target);
            tree.link(&format!("{net}/upper_{bridge}"), &format!("../{bridge}"));
            tree.folder(&format!("/sys/class/net/{bridge}"));
        }
        tree.file(
            "/proc/net/route",
            "br0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n",
        );
        tree.folder("/sys/bus/pci/devices/0000:6a:00.0/uio/uio0");
        tree.file("/proc/900/comm", "dpdk-testpmd\n");
        tree.link("/proc/900/fd/7", "/dev/uio0");
        tree
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Creates a folder and its parents.
    pub fn folder(&self, path: &str) {
        fs::create_dir_all(self.host.path(path)).unwrap();
    }

    /// Writes a file and creates its parent folders.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.host.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a symbolic link, replacing what is there.
    pub fn link(&self, path: &str, target: &str) {
        let path = self.host.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    /// Removes a file, a link or a folder.
    pub fn remove(&self, path: &str) {
        let path = self.host.path(path);
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// A PCI function with these ids: an Ethernet controller without a driver.
    pub fn function(&self, address: &str, vendor: &str, device: &str) {
        let at = format!("/sys/bus/pci/devices/{address}");
        self.file(&format!("{at}/vendor"), vendor);
        self.file(&format!("{at}/device"), device);
        self.file(&format!("{at}/driver_override"), "(null)\n");
        self.config(address, vendor, device, 0x0200);
    }

    /// The head of a function's configuration space, with these ids; memory is not decoded.
    pub fn config(&self, address: &str, vendor: &str, device: &str, class: u16) {
        let id = |text: &str| u16::from_str_radix(text.trim().trim_start_matches("0x"), 16);
        let mut space = [0; 64];
        space[..2].copy_from_slice(&id(vendor).unwrap().to_le_bytes());
        space[2..4].copy_from_slice(&id(device).unwrap().to_le_bytes());
        space[10..12].copy_from_slice(&class.to_le_bytes());
        let at = format!("/sys/bus/pci/devices/{address}");
        fs::write(self.host.path(&format!("{at}/config")), space).unwrap();
        self.file(&format!("{at}/class"), &format!("0x{class:04x}00\n"));
    }

    /// An entry of /sys/class that belongs to a function.
    pub fn device(&self, class: &str, name: &str, address: &str) {
        let target = format!("../../devices/pci0000:00/{address}/{class}/{name}");
        self.link(&format!("/sys/class/{class}/{name}"), &target);
    }

    /// Binds a function to a driver, which is created if it does not exist.
    pub fn bind(&self, address: &str, driver: &str) {
        self.folder(&format!("/sys/bus/pci/drivers/{driver}"));
        let target = format!("../../drivers/{driver}");
        self.link(&format!("/sys/bus/pci/devices/{address}/driver"), &target);
    }

    /// Moves a function to an IOMMU group, out of its former one.
    pub fn group(&self, address: &str, number: u32) {
        let link = format!("/sys/bus/pci/devices/{address}/iommu_group");
        if let Some(old) = link_name(&self.host.path(&link)) {
            self.remove(&format!("/sys/kernel/iommu_groups/{old}/devices/{address}"));
        }
        let groups = "../../../../kernel/iommu_groups";
        self.link(&link, &format!("{groups}/{number}"));
        self.folder(&format!(
            "/sys/kernel/iommu_groups/{number}/devices/{address}"
        ));
    }

    /// The driver a function is bound to.
    pub fn driver(&self, address: &str) -> Option<String> {
        link_name(
            &self
                .host
                .path(&format!("/sys/bus/pci/devices/{address}/driver")),
        )
    }

    /// A function's driver_override.
    pub fn driver_override(&self, address: &str) -> String {
        self.host
            .text(&format!("/sys/bus/pci/devices/{address}/driver_override"))
            .unwrap()
    }

    /// The kernel of this machine.
    pub fn kernel(&self) -> FakeKernel {
        FakeKernel {
            root: self.root.clone(),
            writes: 0,
            fails: Vec::new(),
            fails_from: None,
            refusing: None,
        }
    }
}

/// Reacts to the writes as Linux' PCI core does.
pub struct FakeKernel {
    root: PathBuf,
    /// Writes so far.
    pub writes: u32,
    /// The numbers of the writes, from 0, that are refused without effect.
    pub fails: Vec<u32>,
    /// The first write from which on all are refused.
    pub fails_from: Option<u32>,
    /// A driver that accepts no function.
    pub refusing: Option<&'static str>,
}

impl Kernel for FakeKernel {
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let number = self.writes;
        self.writes += 1;
        if self.fails.contains(&number) || self.fails_from.is_some_and(|first| number >= first) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let path = path.strip_prefix(&self.root).unwrap();
        let parts: Vec<&str> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let text = text.trim();
        match parts[3..] {
            ["devices", address, "driver_override"] => {
                let shown = if text.is_empty() { "(null)" } else { text };
                fs::write(self.device(address).join("driver_override"), shown)
            }
            ["drivers", driver, "unbind"] => {
                let link = self.device(text).join("driver");
                if link_name(&link).as_deref() != Some(driver) {
                    return Err(io::Error::from_raw_os_error(19)); // ENODEV
                }
                fs::remove_file(link)
            }
            ["drivers", driver, "bind"] => self.attach(text, driver),
            ["drivers_probe"] => {
                let chosen = self.overridden(text).unwrap_or_else(|| "ice".to_owned());
                // A missing driver, or one that does not accept it: no error.
                let _ = self.attach(text, &chosen);
                Ok(())
            }
            _ => panic!("a write to {}", path.display()),
        }
    }
}

impl FakeKernel {
    fn device(&self, address: &str) -> PathBuf {
        self.root.join("sys/bus/pci/devices").join(address)
    }

    fn overridden(&self, address: &str) -> Option<String> {
        read(&self.device(address).join("driver_override")).filter(|name| name != "(null)")
    }

    fn attach(&self, address: &str, driver: &str) -> io::Result<()> {
        let no_device = || io::Error::from_raw_os_error(19);
        let link = self.device(address).join("driver");
        let folder = self.root.join("sys/bus/pci/drivers").join(driver);
        let other = self.overridden(address).is_some_and(|name| name != driver);
        if !folder.exists() || link_name(&link).is_some() || other {
            return Err(no_device());
        }
        if self.refusing == Some(driver) {
            return Err(io::Error::from_raw_os_error(22)); // EINVAL
        }
        symlink(folder, link)
    }
}
