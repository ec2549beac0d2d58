use e810_backends::host::fake::{FakeKernel, Tree, bdf};

use super::*;

const FIRST: &str = "0000:3b:00.0";
const SECOND: &str = "0000:3b:00.1";

fn args(functions: &[&str], force: bool) -> BindArgs {
    BindArgs {
        functions: functions.iter().map(|text| bdf(text)).collect(),
        force,
    }
}

fn bind_with(tree: &Tree, kernel: &mut FakeKernel, args: &BindArgs) -> Result<String> {
    let mut out = Vec::new();
    bind_on(tree.host(), kernel, args, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn unbind_with(tree: &Tree, args: &BindArgs) -> Result<String> {
    let mut out = Vec::new();
    unbind_on(tree.host(), &mut tree.kernel(), args, &mut out)?;
    Ok(String::from_utf8(out)?)
}

/// Binding is refused, in one line that contains `words`, and nothing is
/// written.
fn refused(tree: &Tree, args: &BindArgs, words: &[&str]) {
    let mut kernel = tree.kernel();
    let error = bind_with(tree, &mut kernel, args).unwrap_err();
    let text = format!("{error:#}");
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    assert!(!text.contains('\n'), "{text}");
    assert_eq!(kernel.writes, 0);
    assert!(!tree.host().exists("/run"));
}

#[test]
fn bound_and_restored() {
    let tree = Tree::with_card();
    let both = args(&[FIRST, SECOND, FIRST], false);
    let text = bind_with(&tree, &mut tree.kernel(), &both).unwrap();
    assert_eq!(
        text,
        "0000:3b:00.0: bound to vfio-pci (was on ice)\n\
         0000:3b:00.1: bound to vfio-pci (was on ice)\n"
    );
    let text = bind_with(&tree, &mut tree.kernel(), &args(&[FIRST], false)).unwrap();
    assert_eq!(text, "0000:3b:00.0: bound to vfio-pci (already there)\n");
    let text = unbind_with(&tree, &both).unwrap();
    assert_eq!(
        text,
        "0000:3b:00.0: back on ice\n0000:3b:00.1: back on ice\n"
    );
    let text = unbind_with(&tree, &args(&[FIRST], false)).unwrap();
    assert!(text.contains("nothing to do"), "{text}");
}

#[test]
fn only_an_e810_is_bound() {
    let tree = Tree::with_card();
    tree.function("0000:00:03.0", "0x8086", "0x100e");
    // What is not even one of Intel's Ethernet controllers: --force is of no use.
    tree.config("0000:00:03.0", "0x8086", "0x100e", 0x0108);
    refused(
        &tree,
        &args(&["00:03.0"], true),
        &["8086:100e", "not a physical function of an E810"],
    );
    refused(
        &tree,
        &args(&["00:04.0"], true),
        &["0000:00:04.0", "no such PCI function"],
    );
    refused(
        &tree,
        &args(&[FIRST, "00:03.0"], true),
        &["not a physical function of an E810"],
    );
}

#[test]
fn an_unknown_id_is_bound_where_it_is_asked_for_and_nothing_depends_on_it() {
    let tree = Tree::with_others();
    let [route, other] = ["0000:67:00.0", "0000:68:00.0"];
    for (address, group) in [(route, 30), (other, 31)] {
        tree.group(address, group);
        refused(
            &tree,
            &args(&[address], false),
            &["not a physical function"],
        );
    }
    refused(&tree, &args(&[route], true), &["eno1 carries the default"]);
    refused(&tree, &args(&[other], true), &["eno2 is a part of br1"]);
    tree.remove("/sys/devices/pci0000:00/0000:68:00.0/net/eno2/upper_br1");
    bind_with(&tree, &mut tree.kernel(), &args(&[other], true)).unwrap();
    let text = unbind_with(&tree, &args(&[other], false)).unwrap();
    assert_eq!(text, "0000:68:00.0: back on i40e\n");
    // On vfio-pci by another's hand.
    tree.bind(other, "vfio-pci");
    unbind_with(&tree, &args(&[other], true)).unwrap_err();
    assert_eq!(tree.driver(other).as_deref(), Some("vfio-pci"));
}

#[test]
fn the_default_route_is_kept() {
    let tree = Tree::with_card();
    tree.file(
        "/proc/net/route",
        "ens1f0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n",
    );
    refused(
        &tree,
        &args(&[FIRST], false),
        &["ens1f0 carries the default route;", "--force"],
    );
    bind_with(&tree, &mut tree.kernel(), &args(&[FIRST], true)).unwrap();
    assert_eq!(tree.driver(FIRST).as_deref(), Some("vfio-pci"));
}

#[test]
fn virtual_functions_are_kept() {
    let tree = Tree::with_card();
    let at = "/sys/bus/pci/devices/0000:3b:00.0";
    tree.file(&format!("{at}/sriov_numvfs"), "1\n");
    tree.function("0000:3b:01.0", "0x8086", "0x1889");
    tree.link(&format!("{at}/virtfn0"), "../0000:3b:01.0");
    refused(
        &tree,
        &args(&[FIRST], false),
        &["1 virtual functions", "echo 0 >", "sriov_numvfs"],
    );
    tree.bind("0000:3b:01.0", "vfio-pci");
    refused(
        &tree,
        &args(&[FIRST], false),
        &["disappear; 0000:3b:01.0 is on vfio-pci", "--force"],
    );
    bind_with(&tree, &mut tree.kernel(), &args(&[FIRST], true)).unwrap();
}

#[test]
fn a_group_with_others_in_it_is_refused_by_name() {
    let tree = Tree::with_card();
    tree.group(SECOND, 24);
    refused(
        &tree,
        &args(&[FIRST], true),
        &[
            "IOMMU group 24",
            "0000:3b:00.1 (ice)",
            "e810 bind 0000:3b:00.0 0000:3b:00.1",
        ],
    );
    bind_with(&tree, &mut tree.kernel(), &args(&[FIRST, SECOND], false)).unwrap();

    let tree = Tree::with_card();
    tree.function("0000:3b:00.2", "0x8086", "0x100e");
    tree.bind("0000:3b:00.2", "e1000");
    tree.folder("/sys/bus/pci/devices/0000:3b:00.2/net/eth9");
    tree.group("0000:3b:00.2", 24);
    refused(
        &tree,
        &args(&[FIRST], true),
        &["leave 0000:3b:00.2 (a network card, e1000) as it is"],
    );
    tree.bind("0000:3b:00.2", "pci-stub");
    bind_with(&tree, &mut tree.kernel(), &args(&[FIRST], false)).unwrap();
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let tree = Tree::with_card();
    tree.remove("/sys/bus/pci/devices/0000:3b:00.0/iommu_group");
    refused(
        &tree,
        &args(&[FIRST], true),
        &["no IOMMU group", "e810 doctor"],
    );
    let tree = Tree::with_card();
    tree.remove("/sys/bus/pci/drivers/vfio-pci");
    refused(&tree, &args(&[FIRST], true), &["no vfio-pci"]);
    tree.file("/proc/sys/kernel/osrelease", "6.12\n");
    tree.file("/lib/modules/6.12/modules.dep", "a/vfio-pci.ko.xz:\n");
    refused(&tree, &args(&[FIRST], true), &["modprobe vfio-pci"]);
}

#[test]
fn a_failure_at_the_second_puts_the_first_back() {
    let tree = Tree::with_card();
    let mut kernel = tree.kernel();
    // Three writes for the first function, then the second's own three.
    kernel.fails = vec![4];
    let error = bind_with(&tree, &mut kernel, &args(&[FIRST, SECOND], false)).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.starts_with(SECOND), "{text}");
    for address in [FIRST, SECOND] {
        assert_eq!(tree.driver(address).as_deref(), Some("ice"));
        assert_eq!(tree.driver_override(address), "(null)");
        assert!(!tree.host().exists(&format!("/run/e810/{address}")));
    }
}

/// What cannot be put back stays and is named; what can be goes back all the same.
#[test]
fn a_failure_of_undoing_leaves_only_the_one_that_it_is_of() {
    const THIRD: &str = "0000:3b:00.2";
    let tree = Tree::with_card();
    tree.function(THIRD, "0x8086", "0x1592");
    tree.bind(THIRD, "ice");
    tree.group(THIRD, 25);
    let all = [FIRST, SECOND, THIRD];
    let mut kernel = tree.kernel();
    // Three writes a function. The first of the third is refused, and one of putting back the
    // second.
    kernel.fails = vec![6, 7];
    let error = bind_with(&tree, &mut kernel, &args(&all, true)).unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.starts_with(&format!("{SECOND} is still on vfio-pci")),
        "{text}"
    );
    assert!(text.contains(THIRD) && !text.contains(FIRST), "{text}");
    let on = |address| tree.driver(address);
    assert_eq!(on(FIRST).as_deref(), Some("ice"));
    assert_eq!(on(SECOND).as_deref(), Some("vfio-pci"));

    bind_with(&tree, &mut tree.kernel(), &args(&all, true)).unwrap();
    let mut kernel = tree.kernel();
    // The first write for each of the first two; the third is given back.
    kernel.fails = vec![0, 1];
    let mut out = Vec::new();
    let wanted = args(&all, false);
    let error = unbind_on(tree.host(), &mut kernel, &wanted, &mut out).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains(FIRST) && text.contains(SECOND), "{text}");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!("{THIRD}: back on ice\n")
    );
    assert_eq!(on(FIRST).as_deref(), Some("vfio-pci"));
}

#[test]
fn a_function_in_use_is_not_taken_away() {
    let tree = Tree::with_card();
    bind_with(&tree, &mut tree.kernel(), &args(&[FIRST], false)).unwrap();
    tree.file("/proc/812/comm", "e810\n");
    tree.link("/proc/812/fd/4", "/dev/vfio/24");
    let error = unbind_with(&tree, &args(&[FIRST], false)).unwrap_err();
    assert!(error.to_string().contains("812 (e810)"), "{error}");
    assert_eq!(tree.driver(FIRST).as_deref(), Some("vfio-pci"));
    let text = unbind_with(&tree, &args(&[FIRST], true)).unwrap();
    assert!(text.contains("waiting for process 812 (e810)"), "{text}");
    assert!(text.ends_with("back on ice\n"), "{text}");
    // Through a file of its own and iommufd, it is in use as well.
    bind_with(&tree, &mut tree.kernel(), &args(&[FIRST], false)).unwrap();
    tree.folder("/sys/bus/pci/devices/0000:3b:00.0/vfio-dev/vfio3");
    tree.link("/proc/812/fd/4", "/dev/vfio/devices/vfio3");
    let error = unbind_with(&tree, &args(&[FIRST], false)).unwrap_err();
    assert!(error.to_string().contains("812 (e810)"), "{error}");
}
