//! `e810 list`: the E810 functions of this machine.

use std::io::Write;

use anyhow::Result;
use e810_backends::host::Host;
use e810_backends::host::group::Group;
use e810_backends::host::pci::{Function, e810s};
use e810_backends::host::routes;
use serde::Serialize;

use crate::cli::ListArgs;
use crate::output::json;
use crate::output::terminal::Paint;

/// The JSON of `e810 list`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ListReport {
    /// The E810 functions of the machine.
    pub functions: Vec<FunctionReport>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FunctionReport {
    /// Address.
    pub bdf: String,
    /// Vendor and device id, as `8086:1592`.
    pub id: String,
    /// Name of the adapter.
    pub name: &'static str,
    /// Driver it is bound to.
    pub driver: Option<String>,
    /// IOMMU group; absent while the IOMMU is off.
    pub iommu_group: Option<u32>,
    /// The other functions of the group.
    pub group_members: Vec<MemberReport>,
    /// NUMA node, if the machine has several.
    pub numa_node: Option<u32>,
    /// Virtual functions that are enabled; absent if the function cannot have any.
    pub vfs: Option<u32>,
    /// Virtual functions that the function can have.
    pub vfs_total: Option<u32>,
    /// Network interfaces; none while it is on vfio-pci.
    pub interfaces: Vec<InterfaceReport>,
}

/// Another function of the group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemberReport {
    /// Address.
    pub bdf: String,
    /// Driver it is bound to.
    pub driver: Option<String>,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InterfaceReport {
    pub name: String,
    /// Operational state, in Linux' words.
    pub state: String,
    /// Speed in Mb/s, if the link is up.
    pub speed_mbps: Option<u32>,
    /// Whether a default route depends on it.
    pub default_route: bool,
}

/// Runs the command.
///
/// # Errors
/// Only those of `out`.
pub fn run(args: &ListArgs, out: &mut dyn Write) -> Result<()> {
    run_on(&Host::default(), args, out)
}

/// Runs the command on a given machine.
///
/// # Errors
/// Only those of `out`.
pub fn run_on(host: &Host, args: &ListArgs, out: &mut dyn Write) -> Result<()> {
    let routes = routes::default_interfaces(host);
    let functions: Vec<FunctionReport> = e810s(host)
        .into_iter()
        .filter_map(|function| report(host, &routes, function))
        .collect();
    if args.json {
        return json::write_line(out, "list", &ListReport { functions });
    }
    if functions.is_empty() {
        writeln!(out, "no E810 function in this machine")?;
    }
    for report in &functions {
        print(report, out)?;
    }
    Ok(())
}

fn report(host: &Host, routes: &[String], function: Function) -> Option<FunctionReport> {
    let name = function.adapter()?;
    let group = function.group.map(|number| Group::read(host, number));
    let members = group.as_ref().map_or_else(Vec::new, |group| {
        group
            .others(function.bdf)
            .map(|member| MemberReport {
                bdf: member.bdf.to_string(),
                driver: member.driver.clone(),
            })
            .collect()
    });
    let interfaces = function
        .interfaces
        .into_iter()
        .map(|interface| InterfaceReport {
            default_route: routes::carries(host, &interface.name, routes).is_some(),
            name: interface.name,
            state: interface.state,
            speed_mbps: interface.speed,
        })
        .collect();
    Some(FunctionReport {
        bdf: function.bdf.to_string(),
        id: format!("{:04x}:{:04x}", function.vendor, function.device),
        name,
        driver: function.driver,
        iommu_group: function.group,
        group_members: members,
        numa_node: function.numa_node,
        vfs: function.vfs.map(|vfs| vfs.enabled),
        vfs_total: function.vfs.map(|vfs| vfs.total),
        interfaces,
    })
}

fn print(report: &FunctionReport, out: &mut dyn Write) -> Result<()> {
    let bdf = Paint::Head.on(&report.bdf);
    writeln!(out, "{bdf}  {}  {}", report.id, report.name)?;
    let driver = |driver: &Option<String>| driver.as_deref().unwrap_or("none").to_owned();
    let mut line = format!("  driver {}", driver(&report.driver));
    match report.iommu_group {
        Some(number) => line.push_str(&format!(", IOMMU group {number}")),
        None => line.push_str(", no IOMMU group"),
    }
    if !report.group_members.is_empty() {
        let members: Vec<String> = report
            .group_members
            .iter()
            .map(|member| format!("{} ({})", member.bdf, driver(&member.driver)))
            .collect();
        line.push_str(&format!(" with {}", members.join(", ")));
    }
    if let Some(node) = report.numa_node {
        line.push_str(&format!(", NUMA node {node}"));
    }
    if let (Some(enabled), Some(total)) = (report.vfs, report.vfs_total) {
        line.push_str(&format!(", {enabled} of {total} VFs"));
    }
    writeln!(out, "{line}")?;
    for interface in &report.interfaces {
        let mut line = format!("  {}: {}", interface.name, interface.state);
        if let Some(speed) = interface.speed_mbps {
            line.push_str(&format!(", {speed} Mb/s"));
        }
        if interface.default_route {
            line.push_str(&format!(", {}", Paint::Odd.on("carries the default route")));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use e810_backends::host::fake::Tree;

    use super::*;

    fn list(tree: &Tree, json: bool) -> String {
        let mut out = Vec::new();
        run_on(tree.host(), &ListArgs { json }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn functions_as_text() {
        let tree = Tree::with_card();
        tree.group("0000:3b:00.1", 24);
        tree.file(
            "/proc/net/route",
            "ens1f0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\n",
        );
        assert_eq!(
            list(&tree, false),
            "0000:3b:00.0  8086:1592  E810-C for QSFP\n  \
             driver ice, IOMMU group 24 with 0000:3b:00.1 (ice), NUMA node 1, 0 of 128 VFs\n  \
             ens1f0: up, 100000 Mb/s, carries the default route\n\
             0000:3b:00.1  8086:1592  E810-C for QSFP\n  \
             driver ice, IOMMU group 24 with 0000:3b:00.0 (ice)\n  \
             ens1f1: up, 100000 Mb/s\n"
        );
    }

    #[test]
    fn functions_as_json() {
        let tree = Tree::with_card();
        let value: serde_json::Value = serde_json::from_str(&list(&tree, true)).unwrap();
        let functions = &value["functions"];
        assert_eq!(functions[0]["bdf"], "0000:3b:00.0");
        assert_eq!(functions[0]["driver"], "ice");
        assert_eq!(functions[0]["iommu_group"], 24);
        assert_eq!(functions[0]["interfaces"][0]["default_route"], false);
        assert_eq!(functions[1]["numa_node"], serde_json::Value::Null);
        assert_eq!(functions.as_array().unwrap().len(), 2);
    }

    #[test]
    fn no_card_is_said() {
        let tree = Tree::bare();
        assert_eq!(list(&tree, false), "no E810 function in this machine\n");
        assert_eq!(
            list(&tree, true),
            "{\"version\":1,\"report\":\"list\",\"functions\":[]}\n"
        );
    }
}
