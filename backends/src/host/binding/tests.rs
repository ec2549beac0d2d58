use super::*;
use crate::host::fake::{Tree, bdf};

const ADDRESS: &str = "0000:3b:00.0";
const STATE_FILE: &str = "/run/e810/0000:3b:00.0";

fn function(tree: &Tree) -> Function {
    Function::read(tree.host(), bdf(ADDRESS)).unwrap()
}

fn shown(tree: &Tree) -> (Option<String>, String, bool) {
    (
        tree.driver(ADDRESS),
        tree.driver_override(ADDRESS),
        tree.host().exists(STATE_FILE),
    )
}

fn on(
    driver: Option<&str>,
    driver_override: &str,
    remembered: bool,
) -> (Option<String>, String, bool) {
    (
        driver.map(str::to_owned),
        driver_override.to_owned(),
        remembered,
    )
}

#[test]
fn there_and_back() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    assert_eq!(shown(&tree), on(Some("vfio-pci"), "vfio-pci", true));
    let former = Former::load(tree.host(), bdf(ADDRESS)).unwrap();
    assert_eq!(former.driver.as_deref(), Some("ice"));
    assert_eq!(former.driver_override, None);
    let restored = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    assert_eq!(restored, Restored::Former(Some("ice".to_owned())));
    assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
}

#[test]
fn doing_it_again_writes_nothing() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    let writes = kernel.writes;
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    assert_eq!(kernel.writes, writes);
    let former = Former::load(tree.host(), bdf(ADDRESS)).unwrap();
    assert_eq!(former.driver.as_deref(), Some("ice"));
    unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    let writes = kernel.writes;
    let again = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    assert_eq!(again, Restored::Nothing);
    assert_eq!(kernel.writes, writes);
}

#[test]
fn an_override_and_no_driver_are_restored_too() {
    let tree = Tree::with_card();
    tree.remove("/sys/bus/pci/devices/0000:3b:00.0/driver");
    tree.file(
        "/sys/bus/pci/devices/0000:3b:00.0/driver_override",
        "none\n",
    );
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    assert_eq!(shown(&tree), on(Some("vfio-pci"), "vfio-pci", true));
    let restored = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    assert_eq!(restored, Restored::Former(None));
    assert_eq!(shown(&tree), on(None, "none", false));
}

#[test]
fn a_failure_at_any_write_of_bind_leaves_it_as_it_was() {
    // Override, unbind, probe.
    for fails in 0..3 {
        let tree = Tree::with_card();
        let mut kernel = tree.kernel();
        kernel.fails = vec![fails];
        let error = bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("left as it was"), "{text}");
        assert!(text.contains("as root"), "{text}");
        assert_eq!(shown(&tree), on(Some("ice"), "(null)", false), "{fails}");
    }
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    assert_eq!(kernel.writes, 3, "a write that no failure was tried at");
}

#[test]
fn a_failure_at_any_write_of_unbind_leaves_it_on_vfio() {
    // Unbind, override, bind.
    for fails in 0..3 {
        let tree = Tree::with_card();
        let mut kernel = tree.kernel();
        bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
        kernel.fails = vec![kernel.writes + fails];
        let error = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("on vfio-pci as before"), "{text}");
        let expected = on(Some("vfio-pci"), "vfio-pci", true);
        assert_eq!(shown(&tree), expected, "{fails}");
        // And the next attempt succeeds.
        unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
        assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
    }
}

#[test]
fn without_any_right_nothing_changes_and_that_is_said() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    kernel.fails_from = Some(0);
    let error = bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("left as it was"), "{text}");
    assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
    bind(
        tree.host(),
        &mut tree.kernel(),
        &function(&tree),
        Accept::E810,
    )
    .unwrap();
    let error = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("on vfio-pci as before"), "{text}");
    assert_eq!(shown(&tree), on(Some("vfio-pci"), "vfio-pci", true));
}

/// A record that cannot be written: nothing is bound, no partial record stays, and only a lack of
/// rights is reported as such.
#[test]
fn a_record_is_whole_or_not_there() {
    let tree = Tree::with_card();
    let record = format!("/run/e810/{}", function(&tree).bdf);
    let new = format!("{record}.new");
    tree.folder(&new);
    let mut kernel = tree.kernel();
    let mut bind = || bind(tree.host(), &mut kernel, &function(&tree), Accept::E810);
    let text = format!("{:#}", bind().unwrap_err());
    assert!(text.contains(&record) && !text.contains("root"), "{text}");
    assert!(!tree.host().exists(&record));
    assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
    tree.remove(&new);
    bind().unwrap();
    assert!(tree.host().exists(&record) && !tree.host().exists(&new));
}

#[test]
fn a_failure_that_cannot_be_undone_is_reported_with_both_causes() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    // The override is set, and from then on everything fails.
    kernel.fails_from = Some(1);
    let error = bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("restoring it failed"), "{text}");
    assert!(text.contains("drivers/ice/unbind"), "{text}");
    // Its former binding is still recorded.
    assert_eq!(shown(&tree), on(Some("ice"), "vfio-pci", true));
}

#[test]
fn a_driver_that_does_not_take_it_is_reported() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    kernel.refusing = Some("vfio-pci");
    let error = bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("no driver instead of vfio-pci"), "{text}");
    assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
}

#[test]
fn a_former_driver_that_was_unloaded_changes_nothing() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    tree.remove("/sys/bus/pci/drivers/ice");
    let writes = kernel.writes;
    let error = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap_err();
    assert!(error.to_string().contains("modprobe ice"), "{error}");
    assert_eq!(kernel.writes, writes);
    assert_eq!(shown(&tree), on(Some("vfio-pci"), "vfio-pci", true));
}

#[test]
fn a_bind_cut_short_is_taken_up_with_the_driver_it_remembered() {
    let tree = Tree::with_card();
    tree.remove("/sys/bus/pci/devices/0000:3b:00.0/driver");
    tree.file(
        "/sys/bus/pci/devices/0000:3b:00.0/driver_override",
        "vfio-pci\n",
    );
    tree.file(STATE_FILE, "ids=8086:1592\ndriver=ice\noverride=\n");
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    assert_eq!(tree.driver(ADDRESS).as_deref(), Some("vfio-pci"));
    unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
}

#[test]
fn without_a_memory_the_kernel_chooses() {
    let tree = Tree::with_card();
    tree.bind(ADDRESS, "vfio-pci");
    let mut kernel = tree.kernel();
    let restored = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    assert_eq!(restored, Restored::Chosen(Some("ice".to_owned())));
    assert_eq!(shown(&tree), on(Some("ice"), "(null)", false));
}

#[test]
fn a_driver_bound_by_someone_else_stays() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    tree.bind(ADDRESS, "pci-stub");
    let restored = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap();
    assert_eq!(restored, Restored::Former(Some("pci-stub".to_owned())));
    assert_eq!(shown(&tree), on(Some("pci-stub"), "(null)", false));
}

#[test]
fn a_damaged_memory_names_no_path() {
    let tree = Tree::with_card();
    tree.file(
        STATE_FILE,
        "ids=8086:1592\ndriver=../../etc\noverride=a/b\nmore\n",
    );
    let former = Former::load(tree.host(), bdf(ADDRESS)).unwrap();
    assert_eq!(former, Former::default());
}

#[test]
fn what_is_no_e810_keeps_its_driver() {
    let tree = Tree::with_others();
    for (address, driver, forced) in [
        ("0000:65:00.0", "nvme", false),
        ("0000:66:00.0", "nvidia", false),
        ("0000:68:00.0", "i40e", true),
    ] {
        let read = || Function::read(tree.host(), bdf(address)).unwrap();
        let mut kernel = tree.kernel();
        let refused = bind(tree.host(), &mut kernel, &read(), Accept::E810).unwrap_err();
        assert!(refused.to_string().contains("not a physical function"));
        // Not even if it is on vfio-pci: it belongs to someone else.
        unbind(tree.host(), &mut kernel, &read()).unwrap_err();
        assert_eq!(kernel.writes, 0);
        let result = bind(tree.host(), &mut kernel, &read(), Accept::IntelEthernet);
        assert_eq!(result.is_ok(), forced, "{address}");
        if forced {
            unbind(tree.host(), &mut kernel, &read()).unwrap();
        }
        assert_eq!(tree.driver(address).as_deref(), Some(driver));
    }
}

#[test]
fn a_record_is_of_the_device_that_was_moved_and_of_no_other_at_its_address() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    bind(tree.host(), &mut kernel, &function(&tree), Accept::E810).unwrap();
    // It is pulled out, and a graphics card for a virtual machine is put in.
    tree.function(ADDRESS, "0x10de", "0x2204");
    tree.config(ADDRESS, "0x10de", "0x2204", 0x0300);
    assert_eq!(Former::load(tree.host(), bdf(ADDRESS)), None);
    let writes = kernel.writes;
    let error = unbind(tree.host(), &mut kernel, &function(&tree)).unwrap_err();
    assert!(error.to_string().contains("10de:2204"), "{error}");
    assert_eq!(kernel.writes, writes);
    assert_eq!(tree.driver(ADDRESS).as_deref(), Some("vfio-pci"));
}
