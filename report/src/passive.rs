//! Level 0: what can be seen of a function without touching it.
//!
//! Files of sysfs, configuration space, the kernel's log, and BAR 0 beside whatever driver
//! has the function. Nothing is written. Only this level sees what another driver or the
//! firmware left, because opening a function resets it.

use std::fs;

use e810_backends::host::{Host, kernel_log, pci, resource::PassiveBar};
use e810_backends::spec::Bdf;

use crate::config_space::ConfigSpace;
use crate::identities::without_addresses;
use crate::journal::{Journal, JournalError, Medium};
use crate::record::{Record, State};
use crate::registers::sweep;

/// What level 0 does, said before it begins.
pub const DOES: &str = "reads files of the kernel about the function, its configuration space, \
    the kernel's log, and its registers beside the driver that it is bound to; writes nothing";

/// Files in a function's folder of sysfs.
const FILES: &[&str] = &[
    "vendor",
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "revision",
    "class",
    "resource",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "aer_dev_correctable",
    "aer_dev_nonfatal",
    "aer_dev_fatal",
    "power_state",
    "d3cold_allowed",
    "power/runtime_status",
    "reset_method",
    "numa_node",
    "local_cpulist",
    "enable",
    "msi_bus",
    "dma_mask_bits",
    "consistent_dma_mask_bits",
    "ari_enabled",
    "link/clkpm",
    "link/l0s_aspm",
    "link/l1_aspm",
    "link/l1_1_aspm",
    "link/l1_2_aspm",
    "sriov_totalvfs",
    "sriov_numvfs",
    "iommu_group/type",
    "iommu_group/reserved_regions",
];

/// Files of the machine.
const MACHINE: &[&str] = &[
    "/proc/version",
    "/proc/cmdline",
    "/sys/module/ice/version",
    "/sys/module/irdma/version",
    "/sys/kernel/security/lockdown",
    "/sys/module/pcie_aspm/parameters/policy",
    "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts",
    "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
];

/// What of a report may show who and where somebody is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identities {
    /// Ethernet addresses and serial numbers stay in.
    Kept,
    /// They are taken out.
    Removed,
}

impl Identities {
    fn of(self, text: &str) -> String {
        match self {
            Self::Kept => text.to_owned(),
            Self::Removed => without_addresses(text),
        }
    }
}

/// Reads level 0 of the function at `bdf`.
///
/// # Errors
/// The report's file; a function that does not answer any more.
pub fn read<M: Medium>(
    journal: &mut Journal<M>,
    host: &Host,
    bdf: Bdf,
    identities: Identities,
) -> Result<(), JournalError> {
    let folder = format!("{}/{bdf}", pci::DEVICES);
    let function = pci::Function::read(host, bdf);
    fact(
        journal,
        "driver",
        function
            .as_ref()
            .map(|function| function.driver_name().to_owned()),
    )?;
    let group = function.as_ref().and_then(|function| function.group);
    fact(journal, "iommu_group", group.map(|group| group.to_string()))?;
    for name in FILES {
        let text = journal.access(&format!("file {name}"), || {
            host.text(&format!("{folder}/{name}"))
        })?;
        fact(journal, name, text.flatten())?;
    }
    for path in MACHINE {
        let text = journal.access(&format!("file {path}"), || host.text(path))?;
        fact(
            journal,
            path,
            text.flatten().map(|text| identities.of(&text)),
        )?;
    }
    let bytes = journal.access("configuration space", || {
        fs::read(host.path(&format!("{folder}/config")))
    })?;
    match bytes {
        None => {}
        Some(Ok(bytes)) => {
            let space = ConfigSpace(bytes);
            let space = match identities {
                Identities::Kept => space,
                Identities::Removed => space.without_serial(),
            };
            journal.put(&Record::Config {
                bytes: space.to_hex(),
            })?;
        }
        Some(Err(error)) => absent(journal, "configuration space", &error.to_string())?,
    }
    let also = [bdf.to_string()];
    match journal.access("the kernel's log", || kernel_log::lines(host, &also))? {
        None => {}
        Some(Ok(lines)) => {
            for line in lines {
                let line = identities.of(&line);
                journal.put(&Record::Log { line })?;
            }
        }
        Some(Err(why)) => absent(journal, "the kernel's log", &why)?,
    }
    match journal.access("mapping BAR 0", || PassiveBar::open(host, bdf))? {
        None => Ok(()),
        Some(Ok(bar)) => sweep(journal, State::AsFound, &|off| bar.read(off)),
        Some(Err(why)) => absent(journal, "registers as found", &why.to_string()),
    }
}

fn fact<M: Medium>(
    journal: &mut Journal<M>,
    name: &str,
    text: Option<String>,
) -> Result<(), JournalError> {
    let name = name.to_owned();
    journal.put(&match text {
        Some(text) => Record::Fact { name, text },
        None => Record::Absent {
            what: name,
            why: "not there".to_owned(),
        },
    })
}

fn absent<M: Medium>(journal: &mut Journal<M>, what: &str, why: &str) -> Result<(), JournalError> {
    journal.put(&Record::Absent {
        what: what.to_owned(),
        why: why.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Cursor;

    use e810_backends::host::fake::{Tree, bdf};
    use e810_hal::bus::BAR0_LEN;

    use super::*;
    use crate::document::Document;
    use crate::page::page;
    use crate::record::{Header, Run};

    const AT: &str = "/sys/bus/pci/devices/0000:3b:00.0";

    fn machine() -> Tree {
        let tree = Tree::with_card();
        tree.file(&format!("{AT}/current_link_width"), "8\n");
        tree.file("/proc/cmdline", "console=ttyS0 mac=3c:fd:fe:01:02:03\n");
        tree.file(
            "/dev/kmsg",
            "6,1,1000000,-;ice 0000:3b:00.0: MAC 3c:fd:fe:01:02:03\n",
        );
        let mut config = vec![0; 4096];
        config[..6].copy_from_slice(&[0x86, 0x80, 0x92, 0x15, 2, 0]);
        config[0x100..0x104].copy_from_slice(&0x0001_0003_u32.to_le_bytes());
        config[0x104..0x10C].copy_from_slice(&[9; 8]);
        fs::write(tree.host().path(&format!("{AT}/config")), &config).unwrap();
        let mut bar = vec![0; BAR0_LEN as usize];
        bar[0xB_6008..0xB_600C].copy_from_slice(&[1, 2, 3, 4]);
        fs::write(tree.host().path(&format!("{AT}/resource0")), bar).unwrap();
        tree
    }

    fn reported(tree: &Tree, identities: Identities) -> Document {
        let header = Record::Report(Header {
            version: 1,
            program: "test".to_owned(),
            device: "vfio:0000:3b:00.0".to_owned(),
            transport: "vfio".to_owned(),
            level: 0,
            identities: identities == Identities::Kept,
        });
        let medium = Cursor::new(Vec::new());
        let mut journal = Journal::new(medium, BTreeSet::new(), header).unwrap();
        read(&mut journal, tree.host(), bdf("3b:00.0"), identities).unwrap();
        let medium = journal.finish(None).unwrap();
        Document::parse(medium.get_ref()).unwrap()
    }

    #[test]
    fn a_function_is_reported_beside_its_driver() {
        let document = reported(&machine(), Identities::Removed);
        let expected = Record::Register {
            name: "GLNVM_ULD".to_owned(),
            offset: 0xB_6008,
            values: vec![Run {
                value: Some(0x0403_0201),
                count: 1,
            }],
        };
        assert!(document.records.contains(&expected));
        let text = page(&document);
        for line in [
            "driver      ice",
            "PCIe link   x8",
            "1 lines about the function",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn identities_are_taken_out_unless_they_are_asked_for() {
        let tree = machine();
        for (identities, expected) in [(Identities::Removed, false), (Identities::Kept, true)] {
            let text = format!("{:?}", reported(&tree, identities));
            assert_eq!(text.contains("3c:fd:fe:01:02:03"), expected);
            assert_eq!(text.contains("0909090909090909"), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_and_the_rest_goes_on() {
        let tree = machine();
        tree.remove("/dev/kmsg");
        tree.remove(&format!("{AT}/resource0"));
        let document = reported(&tree, Identities::Removed);
        let absent = |name: &str| {
            document
                .records
                .iter()
                .any(|record| matches!(record, Record::Absent { what, .. } if what == name))
        };
        assert!(
            absent("the kernel's log") && absent("registers as found") && absent("aer_dev_fatal")
        );
        assert!(matches!(
            document.records.last(),
            Some(Record::End { complete: true, .. })
        ));
    }
}
