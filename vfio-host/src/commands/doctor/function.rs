//! The checks of one function.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use e810_backends::host::Host;
use e810_backends::host::dependents::{Dependents, used_virtual_function};
use e810_backends::host::group::{Group, holders};
use e810_backends::host::kernel_log;
use e810_backends::host::pci::{Function, folder};
use e810_report::errata::Card;

use super::Check;
use super::machine::can_open;
use crate::pci_functions::shared_group::advice;

pub(super) fn checks(host: &Host, function: &Function) -> Vec<Check> {
    let group = function.group.map(|number| Group::read(host, number));
    let mut checks = vec![
        card(function),
        driver(host, function),
        viable(host, function, group.as_ref()),
    ];
    checks.extend(group.as_ref().map(firmware));
    if function.is_on_vfio() {
        checks.extend(group.as_ref().map(|group| access(host, group)));
    }
    checks.extend(vfs(host, function));
    checks.push(Check::ok(
        "msi-x",
        "whether vectors can be added at run time (NORESIZE) is known only after opening",
    ));
    checks.extend(errata(host, function));
    for check in &mut checks {
        check.function = Some(function.bdf.to_string());
    }
    checks
}

/// Rows of `docs/errata.md`: those whose symptom is in the kernel's log for this function, and the
/// others for its card.
fn errata(host: &Host, function: &Function) -> Vec<Check> {
    const NAME: &str = "errata";
    let bdf = function.bdf.to_string();
    let lines = kernel_log::lines(host, std::slice::from_ref(&bdf));
    let lines = lines.unwrap_or_default();
    let of_function = lines.iter().filter(|line| line.contains(&bdf));
    let card = Card::of_log(
        function.adapter(),
        of_function.map(String::as_str).collect(),
    );
    let symptoms = card.symptoms().map(|(erratum, line)| {
        Check::warning(
            NAME,
            format!("{} {}: {line}", erratum.id, erratum.title),
            format!("docs/errata.md, {}", erratum.id),
        )
    });
    let mut checks: Vec<Check> = symptoms.collect();
    let rows: Vec<&str> = card.rows().map(|erratum| erratum.id).collect();
    if !rows.is_empty() {
        let text = format!("docs/errata.md has rows for this card: {}", rows.join(" "));
        checks.push(Check::ok(NAME, text));
    }
    checks
}

fn card(function: &Function) -> Check {
    let name = function.adapter().unwrap_or("not an E810");
    Check::ok("card", name)
}

fn driver(host: &Host, function: &Function) -> Check {
    const NAME: &str = "driver";
    if function.is_on_vfio() {
        return Check::ok(NAME, "vfio-pci");
    }
    let driver = function.driver_name();
    let dependents = Dependents::of(host, function);
    if dependents.is_free() {
        let remedy = format!("e810 bind {}", function.bdf);
        return Check::error(NAME, format!("{driver}, not vfio-pci"), remedy);
    }
    Check::error(
        NAME,
        format!(
            "{driver}, not vfio-pci, and in use: {}",
            dependents.uses.join(", ")
        ),
        "use another function, or move what depends on this one first (`ip route` and `ip link` show routes and bridges)",
    )
}

fn viable(host: &Host, function: &Function, group: Option<&Group>) -> Check {
    const NAME: &str = "group";
    let Some(group) = group else {
        return Check::error(
            NAME,
            "in no IOMMU group",
            "switch the IOMMU on, as described under iommu",
        );
    };
    let number = group.number;
    let others: Vec<String> = group
        .others(function.bdf)
        .map(|member| member.to_string())
        .collect();
    let in_the_way: Vec<_> = group
        .others(function.bdf)
        .filter(|member| member.is_in_the_way())
        .collect();
    let Some(first) = in_the_way.first() else {
        return Check::ok(
            NAME,
            if others.is_empty() {
                format!("{number}, alone in it")
            } else {
                format!("{number}, with {}", others.join(", "))
            },
        );
    };
    Check::error(
        NAME,
        format!(
            "{number} cannot be used: {} must be on vfio-pci, pci-stub or no driver; its other functions are {}",
            first,
            others.join(", ")
        ),
        advice(host, function.bdf, &in_the_way),
    )
}

fn firmware(group: &Group) -> Check {
    const NAME: &str = "firmware-ram";
    if group.firmware_ranges.is_empty() {
        return Check::ok(NAME, "the firmware holds no memory for this group");
    }
    Check::error(
        NAME,
        format!(
            "the firmware holds memory for this group ({}), so the kernel refuses it to user space",
            group.firmware_ranges.join(", ")
        ),
        "in the firmware setup, switch off features that share memory with the card (management by the card, pre-boot RDMA), or ask the machine's vendor for firmware without an RMRR for it",
    )
}

fn access(host: &Host, group: &Group) -> Check {
    const NAME: &str = "access";
    let file = group.file();
    match can_open(host, &file) {
        Ok(()) => Check::ok(NAME, format!("{file} can be opened")),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            let who = holders(host, &file);
            let who = if who.is_empty() {
                "another process".to_owned()
            } else {
                format!("process {}", who.join(", "))
            };
            Check::warning(
                NAME,
                format!("{file} is in use by {who}"),
                "use another function, or ask who runs it",
            )
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Check::error(
            NAME,
            format!("no {file}, although the function is on vfio-pci"),
            format!("this /dev is not the kernel's: give the container the file (--device {file})"),
        ),
        Err(error) => Check::error(
            NAME,
            format!("{file} cannot be opened: {error}"),
            match owner(host, &file) {
                Some(owner) => format!("it belongs to user {owner}: ask that user"),
                None => format!(
                    "sudo chown $USER {file} (access to this group only; permanently: docs/binding.md, 6)"
                ),
            },
        ),
    }
}

/// The owner of the file, if it is neither root nor the user who runs this.
fn owner(host: &Host, file: &str) -> Option<u32> {
    let owner = fs::metadata(host.path(file)).ok()?.uid();
    let own = fs::metadata("/proc/self").ok()?.uid();
    (owner != 0 && owner != own).then_some(owner)
}

fn vfs(host: &Host, function: &Function) -> Option<Check> {
    const NAME: &str = "vfs";
    let vfs = function.vfs?;
    if vfs.enabled == 0 {
        return Some(Check::ok(NAME, format!("none of {} enabled", vfs.total)));
    }
    let remedy = match used_virtual_function(host, function) {
        Some(used) => format!("leave them while {used}"),
        None => {
            let file = folder(host, function.bdf).join("sriov_numvfs");
            format!("echo 0 > {}", file.display())
        }
    };
    Some(Check::warning(
        NAME,
        format!(
            "{} of {} enabled: they depend on this function and may share its group",
            vfs.enabled, vfs.total
        ),
        remedy,
    ))
}
