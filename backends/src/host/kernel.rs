//! Properties of the running kernel: its command line, modules and lockdown.

use super::Host;
use super::pci::{DRIVERS, VFIO_PCI};

/// The maker of the processor, which decides how the IOMMU is switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Processor {
    /// VT-d.
    Intel,
    /// AMD-Vi.
    Amd,
    /// An SMMU or something else.
    Other,
}

/// The maker of the processor.
#[must_use]
pub fn processor(host: &Host) -> Processor {
    let info = host.text("/proc/cpuinfo").unwrap_or_default();
    if info.contains("GenuineIntel") {
        Processor::Intel
    } else if info.contains("AuthenticAMD") || info.contains("HygonGenuine") {
        Processor::Amd
    } else {
        Processor::Other
    }
}

/// Whether the kernel runs in a virtual machine, by the processor's flags.
#[must_use]
pub fn is_virtual(host: &Host) -> bool {
    let info = host.text("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| {
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "hypervisor")
    })
}

/// Whether the kernel was started with `argument`.
#[must_use]
pub fn was_started_with(host: &Host, argument: &str) -> bool {
    let line = host.text("/proc/cmdline").unwrap_or_default();
    line.split_ascii_whitespace().any(|word| word == argument)
}

/// The state of a kernel module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Module {
    /// Loaded, or built in.
    Here,
    /// Installed, not loaded.
    Installed,
    /// Neither.
    Missing,
}

/// The state of module `name` (with `-` or `_`).
#[must_use]
pub fn module(host: &Host, name: &str) -> Module {
    let plain = name.replace('-', "_");
    let loaded =
        host.exists(&format!("/sys/module/{plain}")) || host.exists(&format!("{DRIVERS}/{name}"));
    if loaded {
        return Module::Here;
    }
    let release = host.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    for (list, found) in [
        ("modules.builtin", Module::Here),
        ("modules.dep", Module::Installed),
    ] {
        let text = host.text(&format!("/lib/modules/{release}/{list}"));
        if text
            .unwrap_or_default()
            .lines()
            .any(|line| names(line, &plain))
        {
            return found;
        }
    }
    Module::Missing
}

/// The running kernel's major and minor number.
#[must_use]
pub fn release(host: &Host) -> Option<(u32, u32)> {
    let release = host.text("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Whether a line of `modules.dep` or `modules.builtin` names `module`.
fn names(line: &str, module: &str) -> bool {
    let path = line.split(':').next().unwrap_or(line);
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file);
    stem.replace('-', "_") == module
}

/// Whether vfio-pci accepts functions now.
#[must_use]
pub fn has_vfio_pci(host: &Host) -> bool {
    host.exists(&format!("{DRIVERS}/{VFIO_PCI}"))
}

/// Lockdown mode: `none`, `integrity`, `confidentiality`; `None` if the kernel does not say.
#[must_use]
pub fn lockdown(host: &Host) -> Option<String> {
    let text = host.text("/sys/kernel/security/lockdown")?;
    let (_, rest) = text.split_once('[')?;
    let (mode, _) = rest.split_once(']')?;
    Some(mode.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    #[test]
    fn modules_are_loaded_built_in_installed_or_missing() {
        let tree = Tree::with_card();
        assert_eq!(module(tree.host(), "vfio-pci"), Module::Here);
        tree.remove("/sys/bus/pci/drivers/vfio-pci");
        assert_eq!(module(tree.host(), "vfio-pci"), Module::Missing);
        tree.file("/proc/sys/kernel/osrelease", "6.12.1\n");
        assert_eq!(release(tree.host()), Some((6, 12)));
        tree.file(
            "/lib/modules/6.12.1/modules.dep",
            "kernel/drivers/vfio/pci/vfio-pci-core.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n",
        );
        assert_eq!(module(tree.host(), "vfio-pci"), Module::Missing);
        tree.file(
            "/lib/modules/6.12.1/modules.dep",
            "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n",
        );
        assert_eq!(module(tree.host(), "vfio-pci"), Module::Installed);
        tree.file(
            "/lib/modules/6.12.1/modules.builtin",
            "kernel/drivers/vfio/vfio_iommu_type1.ko\n",
        );
        assert_eq!(module(tree.host(), "vfio_iommu_type1"), Module::Here);
    }

    #[test]
    fn lockdown_is_the_marked_word() {
        let tree = Tree::with_card();
        assert_eq!(lockdown(tree.host()), None);
        let file = "/sys/kernel/security/lockdown";
        tree.file(file, "none [integrity] confidentiality\n");
        assert_eq!(lockdown(tree.host()).as_deref(), Some("integrity"));
        tree.file(file, "garbage\n");
        assert_eq!(lockdown(tree.host()), None);
    }

    #[test]
    fn processors_and_the_command_line() {
        let tree = Tree::with_card();
        assert_eq!(processor(tree.host()), Processor::Intel);
        assert!(was_started_with(tree.host(), "intel_iommu=on"));
        assert!(!was_started_with(tree.host(), "intel_iommu"));
        tree.file("/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
        assert_eq!(processor(tree.host()), Processor::Amd);
        tree.remove("/proc/cpuinfo");
        assert_eq!(processor(tree.host()), Processor::Other);
    }
}
