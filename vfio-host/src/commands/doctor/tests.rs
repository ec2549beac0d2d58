use e810_backends::host::fake::{Tree, bdf};
use e810_backends::host::limits::Memlock;

use super::machine::memlock;
use super::*;
use crate::pci_functions::memory_need::Need;

const FIRST: &str = "0000:3b:00.0";

/// A machine on which everything is as it should be.
fn healthy() -> Tree {
    let tree = Tree::with_card();
    for (address, group) in [(FIRST, 24), ("0000:3b:00.1", 25)] {
        tree.bind(address, "vfio-pci");
        tree.file(&format!("/dev/vfio/{group}"), "");
    }
    tree
}

fn doctor(tree: &Tree, function: Option<&str>) -> (Vec<serde_json::Value>, Result<()>) {
    let args = DoctorArgs {
        function: function.map(bdf),
        json: true,
    };
    let mut out = Vec::new();
    let result = run_on(tree.host(), &args, &mut out);
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        (&report["version"], &report["report"]),
        (&1.into(), &"doctor".into())
    );
    (report["checks"].as_array().unwrap().clone(), result)
}

/// The first function's checks end in `level` for `check`, and its remedy
/// contains `remedy`.
fn finds(tree: &Tree, check: &str, level: &str, remedy: &str) {
    let (checks, result) = doctor(tree, Some(FIRST));
    let found = checks
        .iter()
        .find(|found| found["check"] == check)
        .unwrap_or_else(|| panic!("no {check} in {checks:?}"));
    assert_eq!(found["level"], level, "{found}");
    let said = found["remedy"].as_str().unwrap();
    assert!(said.contains(remedy), "no `{remedy}` in: {said}");
    assert_eq!(result.is_err(), level == "error", "{checks:?}");
    // Nothing else is wrong.
    let wrong: Vec<_> = checks
        .iter()
        .filter(|check| check["level"] != "ok")
        .collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

#[test]
fn a_package_that_is_missing_or_broken() {
    let package = "/lib/firmware/intel/ice/ddp/ice.pkg";
    let tree = healthy();
    tree.file(package, "not one");
    finds(&tree, "package", "error", "again");
    std::fs::remove_file(tree.host().path(package)).unwrap();
    finds(&tree, "package", "error", "firmware-intel-misc");
}

#[test]
fn a_healthy_machine_passes() {
    let tree = healthy();
    let (checks, result) = doctor(&tree, None);
    result.unwrap();
    assert!(
        checks.iter().all(|check| check["level"] == "ok"),
        "{checks:?}"
    );
    let about = |address: &str| {
        checks
            .iter()
            .filter(|check| check["function"] == address)
            .count()
    };
    assert!(about(FIRST) >= 6, "{checks:?}");
    assert!(about("0000:3b:00.1") >= 5, "{checks:?}");
}

/// As VMD makes them: a domain of more than four digits.
#[test]
fn members_of_a_group_are_named_whatever_their_domain_is() {
    let tree = healthy();
    let [card, other] = ["10000:01:00.0", "10000:02:00.0"];
    for (address, device, driver) in [(card, "0x1592", "vfio-pci"), (other, "0x0a54", "nvme")] {
        tree.function(address, "0x8086", device);
        tree.bind(address, driver);
        tree.group(address, 30);
    }
    tree.file("/dev/vfio/30", "");
    let (checks, result) = doctor(&tree, None);
    assert!(result.is_err(), "{checks:?}");
    let group = checks
        .iter()
        .find(|check| check["check"] == "group" && check["function"] == card)
        .unwrap_or_else(|| panic!("{checks:?}"));
    let text = "30 cannot be used: 10000:02:00.0 (nvme) must be on vfio-pci, pci-stub or no driver; its other functions are 10000:02:00.0 (nvme)";
    assert_eq!(
        (&group["level"], &group["text"]),
        (&"error".into(), &text.into())
    );
}

#[test]
fn iommufd_is_reported_and_not_asked_for() {
    let says = |tree: &Tree| {
        let (checks, result) = doctor(tree, None);
        result.unwrap();
        let check = checks.iter().find(|check| check["check"] == "iommufd");
        check.unwrap()["text"].as_str().unwrap().to_owned()
    };
    let tree = healthy();
    assert_eq!(says(&tree), "no /dev/iommu; only iommufd:BDF needs it");
    tree.file("/dev/iommu", "");
    assert_eq!(says(&tree), "/dev/iommu is there");
}

#[test]
fn each_fault_of_the_machine_has_its_remedy() {
    let tree = healthy();
    tree.remove("/sys/module/vfio_iommu_type1");
    finds(&tree, "iommu-type1", "error", "full kernel package");
    let tree = healthy();
    tree.remove("/dev/vfio/vfio");
    finds(&tree, "container", "error", "modprobe vfio-pci");
    let tree = healthy();
    tree.remove("/dev/vfio/vfio");
    // Not a file that can be opened, for whatever reason.
    tree.folder("/dev/vfio/vfio");
    finds(&tree, "container", "error", "chmod 0666 /dev/vfio/vfio");
    let tree = healthy();
    tree.file(
        "/proc/meminfo",
        "HugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n",
    );
    finds(&tree, "hugepages", "warning", "/proc/sys/vm/nr_hugepages");
    // Pages of others stay.
    let tree = healthy();
    tree.file(
        "/proc/meminfo",
        "HugePages_Total: 512\nHugePages_Free: 0\nHugepagesize: 2048 kB\n",
    );
    let (checks, _) = doctor(&tree, Some(FIRST));
    let pages = checks.iter().find(|check| check["check"] == "hugepages");
    let remedy = pages.unwrap()["remedy"].as_str().unwrap();
    let written: u64 = remedy.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((513..600).contains(&written), "{remedy}");
    let tree = healthy();
    tree.file(
        "/proc/self/limits",
        "Max locked memory         8388608              8388608              bytes\n",
    );
    finds(&tree, "memlock", "error", "prlimit");
}

#[test]
fn vfio_pci_that_is_not_loaded() {
    let tree = Tree::with_card();
    tree.remove("/sys/bus/pci/drivers/vfio-pci");
    tree.file("/proc/sys/kernel/osrelease", "6.12\n");
    tree.file("/lib/modules/6.12/modules.dep", "a/vfio-pci.ko.xz:\n");
    let (checks, result) = doctor(&tree, Some(FIRST));
    let error = result.unwrap_err().to_string();
    // It, and the function that is on ice.
    assert!(error.starts_with("2 of "), "{error}: {checks:?}");
    let module = checks
        .iter()
        .find(|check| check["check"] == "vfio-pci")
        .unwrap();
    assert!(
        module["remedy"]
            .as_str()
            .unwrap()
            .starts_with("modprobe vfio-pci")
    );
}

#[test]
fn each_fault_of_a_function_has_its_remedy() {
    let tree = healthy();
    tree.bind(FIRST, "ice");
    finds(&tree, "driver", "error", "e810 bind 0000:3b:00.0");
    tree.file(
        "/proc/net/route",
        "ens1f0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n",
    );
    finds(&tree, "driver", "error", "move what depends on this one");
    let tree = healthy();
    tree.bind("0000:3b:00.1", "ice");
    tree.group("0000:3b:00.1", 24);
    finds(
        &tree,
        "group",
        "error",
        "e810 bind 0000:3b:00.0 0000:3b:00.1",
    );
    let tree = healthy();
    tree.remove("/dev/vfio/24");
    finds(&tree, "access", "error", "--device /dev/vfio/24");
    tree.folder("/dev/vfio/24");
    finds(&tree, "access", "error", "chown $USER /dev/vfio/24");
    let tree = healthy();
    let at = "/sys/bus/pci/devices/0000:3b:00.0";
    tree.file(&format!("{at}/sriov_numvfs"), "1\n");
    tree.function("0000:3b:01.0", "0x8086", "0x1889");
    tree.link(&format!("{at}/virtfn0"), "../0000:3b:01.0");
    finds(&tree, "vfs", "warning", "echo 0 > ");
    tree.bind("0000:3b:01.0", "vfio-pci");
    finds(&tree, "vfs", "warning", "leave them while 0000:3b:01.0");
    let tree = healthy();
    tree.file(
        "/sys/kernel/iommu_groups/24/reserved_regions",
        "0x0 0x1000 direct\n",
    );
    finds(&tree, "firmware-ram", "error", "firmware");
}

/// Words of a command that takes something from a driver, a user or the machine.
const TAKES: [&str; 9] = [
    "unbind",
    "echo ",
    "e810 bind",
    "chown",
    "chmod",
    "kill",
    "mount",
    "rmmod",
    "reboot",
];

#[test]
fn no_command_takes_away_what_others_need() {
    // In the card's group, one by one: disk, graphics card, the route's card, one of virtual
    // machines, keyboard, another program's card, the bridge before the disk.
    for address in ["64", "65", "66", "67", "68", "69", "6a"] {
        let address = format!("0000:{address}:00.0");
        let tree = Tree::with_others();
        for (first, group) in [(FIRST, 24), ("0000:3b:00.1", 25)] {
            tree.bind(first, "vfio-pci");
            tree.file(&format!("/dev/vfio/{group}"), "");
        }
        tree.group(&address, 24);
        let driver = tree.driver(&address).unwrap();
        finds(&tree, "group", "error", "a slot with a group of its own");
        // What it is, and what hangs on it.
        for part in [&*address, &*driver] {
            finds(&tree, "group", "error", part);
        }
        let (checks, _) = doctor(&tree, None);
        for remedy in checks.iter().filter_map(|check| check["remedy"].as_str()) {
            let takes = TAKES.iter().find(|word| remedy.contains(**word));
            assert_eq!(takes, None, "{remedy}");
        }
    }
    // The card's own function, and the other one of the card in its group.
    let uses: [fn(&Tree); 3] = [
        |tree| {
            tree.file(
                "/proc/net/route",
                "ens1f0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n",
            );
        },
        |tree| tree.link("/sys/class/net/ens1f0/upper_br0", "../br0"),
        |tree| {
            let at = "/sys/bus/pci/devices/0000:3b:00.0/infiniband_verbs/uverbs0";
            tree.folder(at);
            tree.file("/proc/812/comm", "ib_read_lat\n");
            tree.link("/proc/812/fd/3", "/dev/infiniband/uverbs0");
        },
    ];
    for uses in uses {
        let tree = healthy();
        tree.bind(FIRST, "ice");
        uses(&tree);
        finds(&tree, "driver", "error", "use another function");
        let tree = healthy();
        tree.bind(FIRST, "ice");
        uses(&tree);
        tree.group(FIRST, 25);
        let (checks, _) = doctor(&tree, Some("0000:3b:00.1"));
        let group = checks.iter().find(|check| check["check"] == "group");
        let remedy = group.unwrap()["remedy"].as_str().unwrap();
        assert!(remedy.starts_with("leave 0000:3b:00.0"), "{remedy}");
    }
}

#[test]
fn a_group_that_another_user_was_given_stays_theirs() {
    let tree = healthy();
    let file = "/dev/vfio/24";
    tree.remove(file);
    // Not a file that can be opened, for whatever reason.
    tree.folder(file);
    let given = std::os::unix::fs::chown(tree.host().path(file), Some(1234), None);
    if given.is_err() {
        println!("NOT RUN: only root gives a file to another user");
        return;
    }
    finds(&tree, "access", "error", "it belongs to user 1234");
}

#[test]
fn a_symptom_in_the_kernels_log_names_its_row() {
    let tree = healthy();
    tree.file(
        "/dev/kmsg",
        "6,1,1,-;ice 0000:3b:00.1: HMC Error\n6,2,2,-;ice 0000:3b:00.0: up\n",
    );
    let (checks, _) = doctor(&tree, Some(FIRST));
    let errata: Vec<_> = checks
        .iter()
        .filter(|check| check["check"] == "errata")
        .collect();
    // That of the other function is not this one's.
    assert_eq!(errata.len(), 1, "{checks:?}");
    assert!(errata[0]["text"].as_str().unwrap().contains(" E16 "));
    tree.file("/dev/kmsg", "6,1,1,-;ice 0000:3b:00.0: HMC Error\n");
    finds(&tree, "errata", "warning", "docs/errata.md, E16");
}

#[test]
fn an_iommu_that_is_off() {
    let remedy = |cpu: &str, line: &str, grubby: bool| {
        let tree = Tree::bare();
        tree.file("/proc/cpuinfo", cpu);
        tree.file("/proc/cmdline", line);
        if grubby {
            tree.file("/usr/sbin/grubby", "");
        }
        let (checks, result) = doctor(&tree, None);
        assert!(result.is_err());
        let iommu = checks
            .iter()
            .find(|check| check["check"] == "iommu")
            .unwrap();
        assert_eq!(iommu["level"], "error");
        iommu["remedy"].as_str().unwrap().to_owned()
    };
    let intel = "vendor_id : GenuineIntel\n";
    assert!(remedy(intel, "quiet", false).contains("intel_iommu=on /' /etc/default/grub"));
    assert!(remedy(intel, "quiet", true).starts_with("grubby"));
    assert!(remedy(intel, "intel_iommu=on", false).contains("firmware setup"));
    assert!(remedy("vendor_id : AuthenticAMD\n", "", false).contains("AMD-Vi"));
    let guest = "vendor_id : AuthenticAMD\nflags : fpu hypervisor lahf_lm\n";
    let remedy_of_guest = remedy(guest, "", false);
    assert!(
        remedy_of_guest.contains("virtual IOMMU"),
        "{remedy_of_guest}"
    );
    assert!(
        !remedy_of_guest.contains("firmware setup"),
        "{remedy_of_guest}"
    );
    assert!(remedy("CPU implementer : 0x41\n", "", false).contains("SMMU"));
}

#[test]
fn what_is_no_e810_is_no_patient() {
    let tree = Tree::with_card();
    tree.function("0000:00:03.0", "0x8086", "0x100e");
    for (address, word) in [
        ("00:03.0", "8086:100e, not an E810"),
        ("00:04.0", "no such PCI function"),
    ] {
        let args = DoctorArgs {
            function: Some(bdf(address)),
            json: false,
        };
        let mut out = Vec::new();
        let error = run_on(tree.host(), &args, &mut out).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(out.is_empty());
    }
    let bare = Tree::bare();
    let (checks, result) = doctor(&bare, None);
    assert!(result.is_err());
    assert!(checks.iter().any(|check| check["check"] == "card"));
}

#[test]
fn memlock_says_the_number() {
    let need = Need {
        device: 11 << 20,
        page_lists: 2 << 20,
    };
    let bytes = need.bytes();
    let short = memlock(Some(Memlock::Bytes(bytes - 1)), need);
    assert_eq!(short.level, Level::Error);
    assert!(short.text.contains(&bytes.to_string()), "{}", short.text);
    let enough = memlock(Some(Memlock::Bytes(bytes)), need);
    assert_eq!((enough.level, enough.remedy), (Level::Ok, None));
    assert_eq!(memlock(None, need).level, Level::Warning);
}

#[test]
fn text_has_a_line_a_check_and_one_a_remedy() {
    let tree = healthy();
    tree.bind(FIRST, "ice");
    let args = DoctorArgs {
        function: Some(bdf(FIRST)),
        json: false,
    };
    let mut out = Vec::new();
    run_on(tree.host(), &args, &mut out).unwrap_err();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("\n0000:3b:00.0\n"), "{text}");
    let expected = "error    driver         ice, not vfio-pci\n                        fix: e810 bind 0000:3b:00.0\n";
    assert!(text.contains(expected), "{text}");
}
