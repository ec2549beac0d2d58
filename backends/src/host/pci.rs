//! PCI functions as sysfs shows them.

use std::fmt;
use std::path::PathBuf;

use e810_hal::pci_ids;
use serde::Serialize;

use super::{Host, link_name, names, read};
use crate::spec::Bdf;

/// Where sysfs lists PCI functions.
pub const DEVICES: &str = "/sys/bus/pci/devices";
/// Where sysfs lists the drivers of PCI functions.
pub const DRIVERS: &str = "/sys/bus/pci/drivers";

/// The driver to which a function is bound for use from user space.
pub const VFIO_PCI: &str = "vfio-pci";

/// A PCI function, as sysfs described it when it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its address.
    pub bdf: Bdf,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class and subclass, as `0x0200` for Ethernet.
    pub class: Option<u16>,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// The only driver it may be bound to, if one was set.
    pub driver_override: Option<String>,
    /// Number of its IOMMU group.
    pub group: Option<u32>,
    /// NUMA node, if the machine has several.
    pub numa_node: Option<u32>,
    /// Virtual functions: enabled and possible; absent if it can have none.
    pub vfs: Option<Vfs>,
    /// Network interfaces on it.
    pub interfaces: Vec<Interface>,
}

/// Virtual functions of a physical function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vfs {
    /// Enabled now.
    pub enabled: u32,
    /// Possible.
    pub total: u32,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Operational state in Linux' words (`up`, `down`, `unknown` …).
    pub state: String,
    /// Speed in Mb/s, if the link is up.
    pub speed: Option<u32>,
}

impl Function {
    /// The function at `bdf`, if there is one.
    #[must_use]
    pub fn read(host: &Host, bdf: Bdf) -> Option<Self> {
        let at = folder(host, bdf);
        let text = |file: &str| read(&at.join(file));
        let number = |file: &str| text(file)?.parse::<u32>().ok();
        let id = |file: &str| u16::from_str_radix(text(file)?.trim_start_matches("0x"), 16).ok();
        let interfaces = names(&at.join("net"))
            .into_iter()
            .map(|name| Interface::read(host, name))
            .collect();
        Some(Self {
            bdf,
            vendor: id("vendor")?,
            device: id("device")?,
            class: text("class").and_then(|text| {
                let whole = u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
                u16::try_from(whole >> 8).ok()
            }),
            driver: link_name(&at.join("driver")),
            driver_override: text("driver_override")
                .filter(|name| !name.is_empty() && name != "(null)"),
            group: link_name(&at.join("iommu_group")).and_then(|name| name.parse().ok()),
            // -1 if there is only one node: no number.
            numa_node: number("numa_node"),
            vfs: number("sriov_totalvfs").map(|total| Vfs {
                enabled: number("sriov_numvfs").unwrap_or(0),
                total,
            }),
            interfaces,
        })
    }

    /// The name of the adapter; `None` if it is no E810.
    #[must_use]
    pub fn adapter(&self) -> Option<&'static str> {
        pci_ids::name(self.vendor, self.device)
    }

    /// Whether it is an Intel Ethernet controller and no virtual function. An E810 with an id that
    /// is unknown here would be one.
    #[must_use]
    pub fn is_intel_ethernet(&self) -> bool {
        let class = self.class.unwrap_or_default();
        let (vendor, device) = (self.vendor, self.device);
        self.adapter().is_some()
            || pci_ids::PciIds {
                vendor,
                device,
                class,
            }
            .is_intel_ethernet()
    }

    /// Whether it is bound to vfio-pci.
    #[must_use]
    pub fn is_on_vfio(&self) -> bool {
        self.driver.as_deref() == Some(VFIO_PCI)
    }

    /// Its driver, or a word for none.
    #[must_use]
    pub fn driver_name(&self) -> &str {
        self.driver.as_deref().unwrap_or("no driver")
    }
}

impl Interface {
    fn read(host: &Host, name: String) -> Self {
        let of = |file: &str| host.text(&format!("/sys/class/net/{name}/{file}"));
        let state = of("operstate").unwrap_or_else(|| "unknown".to_owned());
        // -1, or an error on reading, while there is no link.
        let speed = of("speed").and_then(|speed| speed.parse().ok());
        Self { name, state, speed }
    }
}

/// The link between a function and the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PcieLink {
    /// Speed in sysfs' words, such as `16.0 GT/s PCIe`.
    pub speed: String,
    /// Lanes.
    pub width: u32,
    /// The highest speed of the function.
    pub max_speed: String,
    /// Its largest number of lanes.
    pub max_width: u32,
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            speed,
            width,
            max_speed,
            max_width,
        } = self;
        write!(f, "x{width} at {speed} (of x{max_width} at {max_speed})")
    }
}

/// The link of a function, if sysfs has it.
#[must_use]
pub fn link(host: &Host, bdf: Bdf) -> Option<PcieLink> {
    let at = folder(host, bdf);
    let text = |file: &str| read(&at.join(file));
    let lanes = |file: &str| text(file)?.parse().ok();
    Some(PcieLink {
        speed: text("current_link_speed")?,
        width: lanes("current_link_width")?,
        max_speed: text("max_link_speed")?,
        max_width: lanes("max_link_width")?,
    })
}

/// The folder of a function.
#[must_use]
pub fn folder(host: &Host, bdf: Bdf) -> PathBuf {
    host.path(DEVICES).join(bdf.to_string())
}

/// The PCI functions of the machine, in the order of their addresses.
#[must_use]
pub fn functions(host: &Host) -> Vec<Function> {
    host.names(DEVICES)
        .iter()
        .filter_map(|name| Function::read(host, name.parse().ok()?))
        .collect()
}

/// The functions of E810s among them.
#[must_use]
pub fn e810s(host: &Host) -> Vec<Function> {
    let mut functions = functions(host);
    functions.retain(|function| function.adapter().is_some());
    functions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    #[test]
    fn a_function_is_read_from_its_files() {
        let tree = Tree::with_card();
        let function = Function::read(tree.host(), bdf("3b:00.0")).unwrap();
        assert_eq!(function.adapter(), Some("E810-C for QSFP"));
        assert_eq!(function.driver.as_deref(), Some("ice"));
        assert_eq!(function.class, Some(0x0200));
        assert_eq!(function.driver_override, None);
        assert_eq!((function.group, function.numa_node), (Some(24), Some(1)));
        let vfs = Vfs {
            enabled: 0,
            total: 128,
        };
        assert_eq!(function.vfs, Some(vfs));
        let [net] = &function.interfaces[..] else {
            panic!("{:?}", function.interfaces)
        };
        assert_eq!(
            (&*net.name, &*net.state, net.speed),
            ("ens1f0", "up", Some(100_000))
        );
    }

    #[test]
    fn what_is_not_there_is_absent() {
        let tree = Tree::with_card();
        assert_eq!(Function::read(tree.host(), bdf("3c:00.0")), None);
        tree.file(
            "/sys/bus/pci/devices/0000:3b:00.0/driver_override",
            "(null)\n",
        );
        tree.file("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "-1\n");
        tree.file("/sys/class/net/ens1f0/speed", "-1\n");
        tree.remove("/sys/bus/pci/devices/0000:3b:00.0/iommu_group");
        let function = Function::read(tree.host(), bdf("3b:00.0")).unwrap();
        assert_eq!(function.driver_override, None);
        assert_eq!((function.group, function.numa_node), (None, None));
        assert_eq!(function.interfaces[0].speed, None);
    }

    #[test]
    fn the_link_is_as_sysfs_tells() {
        let tree = Tree::with_card();
        assert_eq!(link(tree.host(), bdf("3b:00.0")), None);
        for (file, text) in [
            ("current_link_speed", "8.0 GT/s PCIe\n"),
            ("current_link_width", "8\n"),
            ("max_link_speed", "16.0 GT/s PCIe\n"),
            ("max_link_width", "16\n"),
        ] {
            tree.file(&format!("/sys/bus/pci/devices/0000:3b:00.0/{file}"), text);
        }
        let link = link(tree.host(), bdf("3b:00.0")).unwrap();
        let text = "x8 at 8.0 GT/s PCIe (of x16 at 16.0 GT/s PCIe)";
        assert_eq!(link.to_string(), text);
    }

    #[test]
    fn only_e810s_are_listed() {
        let tree = Tree::with_card();
        tree.function("0000:00:03.0", "0x8086", "0x100e");
        tree.function("0000:00:04.0", "0x15b3", "0x1592");
        // Addresses as VMD makes them, and a name that is no address.
        tree.function("10000:e1:00.0", "0x8086", "0x1592");
        tree.function("nonsense", "0x8086", "0x1592");
        let found: Vec<String> = e810s(tree.host())
            .iter()
            .map(|function| function.bdf.to_string())
            .collect();
        assert_eq!(found, ["0000:3b:00.0", "0000:3b:00.1", "10000:e1:00.0"]);
    }
}
