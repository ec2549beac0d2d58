//! The checks of the machine as a whole.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};

use anyhow::{Context, Result};
use e810::Package;
use e810_backends::host::Host;
use e810_backends::host::group::iommu_is_on;
use e810_backends::host::kernel::{self, Module, Processor, processor, was_started_with};
use e810_backends::host::limits::{self, Memlock};
use e810_backends::host::package::{self, NoPackage};

use super::Check;
use crate::output::units::human_bytes;
use crate::pci_functions::memory_need::{self, Need};

/// The file through which every VFIO container is opened.
const CONTAINER: &str = "/dev/vfio/vfio";
/// The file through which iommufd is opened.
const IOMMUFD: &str = "/dev/iommu";
/// Bytes of a huge page that saves IOTLB entries.
const HUGE_PAGE: u64 = 2 << 20;

pub(super) fn checks(host: &Host) -> Result<Vec<Check>> {
    let need = memory_need::need().context("measuring the memory a function needs")?;
    Ok(vec![
        iommu(host),
        vfio_pci(host),
        iommu_type1(host),
        container(host),
        iommufd(host),
        lockdown(host),
        ddp(host),
        memlock(limits::memlock(host), need),
        huge_pages(limits::huge_pages(host), need),
    ])
}

/// The package that a cold start needs. This does not look for a package of one card only.
fn ddp(host: &Host) -> Check {
    const NAME: &str = "package";
    let file = match package::find(host, [0; 8]) {
        Ok(file) => file,
        Err(error @ NoPackage::Nowhere { .. }) => {
            return Check::error(
                NAME,
                error.to_string(),
                "apt-get install firmware-intel-misc (Fedora: dnf install linux-firmware), or give --ddp FILE",
            );
        }
        Err(error) => {
            return Check::error(NAME, error.to_string(), "make the file readable");
        }
    };
    let path = file.path.display();
    match Package::parse(&file.bytes) {
        Ok(package) => Check::ok(NAME, format!("{path}: version {}", package.version())),
        Err(error) => Check::error(
            NAME,
            format!("{path}: {error}"),
            "install your distribution's Intel firmware again",
        ),
    }
}

fn iommu(host: &Host) -> Check {
    const NAME: &str = "iommu";
    if iommu_is_on(host) {
        return Check::ok(NAME, "on");
    }
    let text = "off: the kernel has no IOMMU groups";
    if kernel::is_virtual(host) {
        return Check::error(
            NAME,
            format!("{text}, and this is a virtual machine"),
            "start the machine with a virtual IOMMU (QEMU: -device intel-iommu,intremap=on or -device virtio-iommu-pci), or use the card on its host",
        );
    }
    let argument = match processor(host) {
        Processor::Intel => "intel_iommu=on",
        Processor::Amd => {
            return Check::error(
                NAME,
                text,
                "switch AMD-Vi (IOMMU) on in the firmware setup; make sure that neither amd_iommu=off nor iommu=off is on the kernel command line (cat /proc/cmdline)",
            );
        }
        Processor::Other => {
            return Check::error(
                NAME,
                text,
                "switch the IOMMU (SMMU) on in the firmware setup",
            );
        }
    };
    if was_started_with(host, argument) {
        return Check::error(
            NAME,
            format!("{text}, although it was started with {argument}"),
            "switch VT-d on in the firmware setup",
        );
    }
    let remedy = if host.exists("/usr/sbin/grubby") {
        format!("grubby --update-kernel=ALL --args={argument}, then restart the machine")
    } else {
        format!(
            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{argument} /' /etc/default/grub && update-grub, then restart the machine (with VT-d on in the firmware setup)"
        )
    };
    Check::error(NAME, text, remedy)
}

fn vfio_pci(host: &Host) -> Check {
    const NAME: &str = "vfio-pci";
    match kernel::module(host, "vfio-pci") {
        Module::Here => Check::ok(NAME, "loaded"),
        Module::Installed => Check::error(
            NAME,
            "installed, not loaded",
            "modprobe vfio-pci (at every start: echo vfio-pci > /etc/modules-load.d/e810.conf)",
        ),
        Module::Missing => Check::error(
            NAME,
            "this kernel has none",
            "install the distribution's full kernel package (Debian: linux-image-amd64; cloud kernels leave VFIO out)",
        ),
    }
}

fn iommu_type1(host: &Host) -> Check {
    const NAME: &str = "iommu-type1";
    match kernel::module(host, "vfio_iommu_type1") {
        Module::Here => Check::ok(NAME, "loaded"),
        Module::Installed => Check::error(
            NAME,
            "vfio_iommu_type1 is installed, not loaded",
            "modprobe vfio_iommu_type1",
        ),
        Module::Missing => Check::error(
            NAME,
            "this kernel has no vfio_iommu_type1",
            "install the distribution's full kernel package",
        ),
    }
}

fn container(host: &Host) -> Check {
    const NAME: &str = "container";
    match can_open(host, CONTAINER) {
        Ok(()) => Check::ok(NAME, format!("{CONTAINER} can be opened")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Check::error(NAME, format!("no {CONTAINER}"), "modprobe vfio-pci")
        }
        Err(error) => Check::error(
            NAME,
            format!("{CONTAINER} cannot be opened: {error}"),
            format!("as root: chmod 0666 {CONTAINER} (it gives access to no device by itself)"),
        ),
    }
}

/// Always ok: `vfio:BDF` does not need it.
fn iommufd(host: &Host) -> Check {
    let text = if host.exists(IOMMUFD) {
        format!("{IOMMUFD} is there")
    } else {
        format!("no {IOMMUFD}; only iommufd:BDF needs it")
    };
    Check::ok("iommufd", text)
}

/// Opens `file` for reading and writing, and closes it.
pub(super) fn can_open(host: &Host, file: &str) -> io::Result<()> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(host.path(file));
    opened.map(drop)
}

fn lockdown(host: &Host) -> Check {
    const NAME: &str = "lockdown";
    match kernel::lockdown(host).as_deref() {
        None => Check::ok(NAME, "this kernel reports none"),
        Some("none") => Check::ok(NAME, "none"),
        Some(mode) => Check::ok(
            NAME,
            format!("{mode}: VFIO behind an IOMMU is allowed; only signed modules load"),
        ),
    }
}

pub(super) fn memlock(limit: Option<Memlock>, need: Need) -> Check {
    const NAME: &str = "memlock";
    let bytes = need.bytes();
    let wanted = format!(
        "a function takes {bytes} bytes ({} for its queues and objects, {} for page lists) before any memory is registered",
        human_bytes(need.device),
        human_bytes(need.page_lists)
    );
    match limit {
        Some(Memlock::Unlimited) => Check::ok(NAME, format!("no limit for this process; {wanted}")),
        Some(Memlock::Bytes(limit)) if limit >= bytes => {
            Check::ok(NAME, format!("{limit} bytes; {wanted}"))
        }
        Some(Memlock::Bytes(limit)) => Check::error(
            NAME,
            format!("this process may pin {limit} bytes; {wanted}"),
            format!(
                "sudo prlimit --pid $$ --memlock={bytes}:{bytes} for this shell, adding what the program registers; permanently: see docs/binding.md"
            ),
        ),
        None => Check::warning(
            NAME,
            format!("the limit cannot be read; {wanted}"),
            "mount -t proc proc /proc",
        ),
    }
}

fn huge_pages(pages: Option<limits::HugePages>, need: Need) -> Check {
    const NAME: &str = "hugepages";
    let wanted = need.bytes().div_ceil(HUGE_PAGE);
    match pages {
        Some(pages) if pages.bytes == HUGE_PAGE && pages.free >= wanted => Check::ok(
            NAME,
            format!(
                "{} of {} free, {} each",
                pages.free,
                pages.total,
                human_bytes(pages.bytes)
            ),
        ),
        Some(pages) => Check::warning(
            NAME,
            format!(
                "{} of {} free, {} each; {wanted} of 2 MiB would hold what a function takes. It works without them, with more IOTLB misses",
                pages.free,
                pages.total,
                human_bytes(pages.bytes)
            ),
            // The pool belongs to the machine: add to it, so that others keep their pages.
            match pages.bytes {
                HUGE_PAGE => format!(
                    "echo {} > /proc/sys/vm/nr_hugepages",
                    pages.total + wanted.saturating_sub(pages.free)
                ),
                _ => "hugepagesz=2M hugepages=N on the kernel's command line adds pages of 2 MiB"
                    .to_owned(),
            },
        ),
        None => Check::warning(
            NAME,
            "this kernel reports none. It works without them, with more IOTLB misses",
            "boot a kernel with CONFIG_HUGETLBFS",
        ),
    }
}
