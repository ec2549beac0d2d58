//! IOMMU groups: which functions can only be assigned together.

use super::pci::{Function, VFIO_PCI};
use super::{Host, process};
use crate::spec::Bdf;

/// Where sysfs lists IOMMU groups.
pub const GROUPS: &str = "/sys/kernel/iommu_groups";

/// Drivers that leave DMA to the owner of the group. The kernel lets a group be used from user
/// space if each member has one of these drivers or none.
const HARMLESS: [&str; 3] = [VFIO_PCI, "pci-stub", "pcieport"];

/// An IOMMU group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its number, also the name of its file in `/dev/vfio`.
    pub number: u32,
    /// Its PCI functions, in the order of their addresses.
    pub members: Vec<Member>,
    /// RAM that the firmware has reserved for a member, as `first last`. A group with such a range
    /// cannot be given to user space.
    pub firmware_ranges: Vec<String>,
}

/// A member of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its address.
    pub bdf: Bdf,
    /// Its driver.
    pub driver: Option<String>,
    /// Whether it is an E810 function.
    pub is_e810: bool,
}

impl Member {
    /// Whether its driver would use DMA beside the owner of the group.
    #[must_use]
    pub fn is_in_the_way(&self) -> bool {
        self.driver
            .as_deref()
            .is_some_and(|driver| !HARMLESS.contains(&driver))
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let driver = self.driver.as_deref().unwrap_or("no driver");
        write!(f, "{} ({driver})", self.bdf)
    }
}

impl Group {
    /// Reads group `number`.
    #[must_use]
    pub fn read(host: &Host, number: u32) -> Self {
        let members = host
            .names(&format!("{GROUPS}/{number}/devices"))
            .iter()
            .filter_map(|name| Function::read(host, name.parse().ok()?))
            .map(|function| Member {
                bdf: function.bdf,
                is_e810: function.adapter().is_some(),
                driver: function.driver,
            })
            .collect();
        let reserved = host.text(&format!("{GROUPS}/{number}/reserved_regions"));
        let firmware_ranges = reserved
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.strip_suffix(" direct"))
            .map(str::to_owned)
            .collect();
        Self {
            number,
            members,
            firmware_ranges,
        }
    }

    /// The members other than `bdf`.
    pub fn others(&self, bdf: Bdf) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.bdf != bdf)
    }

    /// The character device that gives access to the group.
    #[must_use]
    pub fn file(&self) -> String {
        format!("/dev/vfio/{}", self.number)
    }
}

/// Whether the IOMMU is in use: then there is at least one group.
#[must_use]
pub fn iommu_is_on(host: &Host) -> bool {
    !host.names(GROUPS).is_empty()
}

/// The processes that have `file` open, as `PID (name)`, without those that may not be inspected.
#[must_use]
pub fn holders(host: &Host, file: &str) -> Vec<String> {
    let mut holders = Vec::new();
    for pid in host.names("/proc") {
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let folder = format!("/proc/{pid}/fd");
        let holds = host.names(&folder).iter().any(|fd| {
            let target = std::fs::read_link(host.path(&format!("{folder}/{fd}")));
            target.is_ok_and(|target| target.as_os_str() == file)
        });
        if holds {
            let name = process::name(host, &pid);
            holders.push(format!("{pid} ({})", name.as_deref().unwrap_or("?")));
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    #[test]
    fn members_and_their_drivers() {
        let tree = Tree::with_card();
        tree.function("0000:3a:00.0", "0x8086", "0x2030");
        tree.bind("0000:3a:00.0", "pcieport");
        tree.group("0000:3a:00.0", 24);
        tree.group("0000:3b:00.1", 24);
        let group = Group::read(tree.host(), 24);
        let shown: Vec<String> = group.members.iter().map(Member::to_string).collect();
        assert_eq!(
            shown,
            [
                "0000:3a:00.0 (pcieport)",
                "0000:3b:00.0 (ice)",
                "0000:3b:00.1 (ice)"
            ]
        );
        let in_the_way: Vec<Bdf> = group
            .others(bdf("3b:00.0"))
            .filter(|member| member.is_in_the_way())
            .map(|member| member.bdf)
            .collect();
        assert_eq!(in_the_way, [bdf("3b:00.1")]);
        assert!(group.firmware_ranges.is_empty());
    }

    #[test]
    fn ranges_the_firmware_holds() {
        let tree = Tree::with_card();
        tree.file(
            "/sys/kernel/iommu_groups/24/reserved_regions",
            "0x00000000000a0000 0x00000000000bffff direct\n\
             0x00000000000c0000 0x00000000000cffff direct-relaxable\n\
             0x00000000fee00000 0x00000000feefffff msi\n",
        );
        let group = Group::read(tree.host(), 24);
        assert_eq!(
            group.firmware_ranges,
            ["0x00000000000a0000 0x00000000000bffff"]
        );
    }

    #[test]
    fn who_has_the_group_open() {
        let tree = Tree::with_card();
        tree.file("/proc/812/comm", "e810\n");
        tree.link("/proc/812/fd/3", "/dev/vfio/vfio");
        tree.link("/proc/812/fd/4", "/dev/vfio/24");
        tree.link("/proc/813/fd/4", "/dev/vfio/25");
        assert_eq!(holders(tree.host(), "/dev/vfio/24"), ["812 (e810)"]);
        assert!(holders(tree.host(), "/dev/vfio/26").is_empty());
        // Names that a process chose: with characters that control or reorder a line, and one that
        // would end the name.
        for (name, shown) in [
            (&b"\x1b[2J\xff\n"[..], "?[2J\u{fffd}"),
            (b"a) b\nc ((d\n", "a? b?c ??d"),
            ("a\u{202e}b\n".as_bytes(), "a?b"),
            (&[b'x'; 1000], &"x".repeat(64)),
        ] {
            std::fs::write(tree.host().path("/proc/813/comm"), name).unwrap();
            let expected = [format!("813 ({shown})")];
            assert_eq!(holders(tree.host(), "/dev/vfio/25"), expected);
        }
    }
}
