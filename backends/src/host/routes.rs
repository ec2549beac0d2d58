//! The network interfaces through which the machine is reached.

use super::Host;

/// Flag of an IPv6 route that refuses packets.
const REJECT: u32 = 0x200;

/// The interfaces that carry a default route of IPv4 or IPv6.
#[must_use]
pub fn default_interfaces(host: &Host) -> Vec<String> {
    let v4 = host.text("/proc/net/route").unwrap_or_default();
    let v6 = host.text("/proc/net/ipv6_route").unwrap_or_default();
    let mut found: Vec<String> = v4
        .lines()
        .filter_map(default_v4)
        .chain(v6.lines().filter_map(default_v6))
        .filter(|interface| *interface != "lo")
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask …
fn default_v4(line: &str) -> Option<&str> {
    let mut columns = line.split_ascii_whitespace();
    let interface = columns.next()?;
    let destination = columns.next()?;
    let mask = columns.nth(5)?;
    (destination == "00000000" && mask == "00000000").then_some(interface)
}

/// Columns: destination, prefix, source, prefix, next hop, metric, references,
/// use, flags, interface.
fn default_v6(line: &str) -> Option<&str> {
    let mut columns = line.split_ascii_whitespace();
    let destination = columns.next()?;
    let prefix = columns.next()?;
    let flags = u32::from_str_radix(columns.nth(6)?, 16).ok()?;
    let interface = columns.next()?;
    let default = destination.bytes().all(|digit| digit == b'0') && prefix == "00";
    (default && flags & REJECT == 0).then_some(interface)
}

/// Whether `interface`, or one built on it (a VLAN, a bond, a bridge), is in `wanted`; returns the
/// name of that one.
#[must_use]
pub fn carries(host: &Host, interface: &str, wanted: &[String]) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut next = vec![interface.to_owned()];
    while let Some(name) = next.pop() {
        if wanted.contains(&name) {
            return Some(name);
        }
        if seen.contains(&name) {
            continue;
        }
        next.extend(upper(host, &name));
        seen.push(name);
    }
    None
}

/// The interfaces that are built on `interface`: bridges, bonds, VLANs.
#[must_use]
pub fn upper(host: &Host, interface: &str) -> Vec<String> {
    let entries = host.names(&format!("/sys/class/net/{interface}"));
    let upper = entries
        .iter()
        .filter_map(|entry| entry.strip_prefix("upper_"));
    upper.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    const V6_TAIL: &str = "00000400 00000001 00000000";

    #[test]
    fn default_routes_of_both_families() {
        let tree = Tree::with_card();
        tree.file(
            "/proc/net/route",
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
             eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             eth1\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n",
        );
        let zero = "0".repeat(32);
        let gateway = format!("fe80{}1", "0".repeat(27));
        let net = format!("2001{}", "0".repeat(28));
        tree.file(
            "/proc/net/ipv6_route",
            &format!(
                "{zero} 00 {zero} 00 {gateway} {V6_TAIL} 00450003    eth2\n\
                 {zero} 00 {zero} 00 {zero} {V6_TAIL} 00200200    eth3\n\
                 {net} 40 {zero} 00 {zero} {V6_TAIL} 00000001    eth4\n"
            ),
        );
        assert_eq!(default_interfaces(tree.host()), ["eth0", "eth2"]);
    }

    #[test]
    fn a_route_on_a_vlan_on_a_bond_is_found() {
        let tree = Tree::with_card();
        tree.link("/sys/class/net/ens1f0/upper_bond0", "../bond0");
        tree.link("/sys/class/net/bond0/lower_ens1f0", "../ens1f0");
        tree.link("/sys/class/net/bond0/upper_bond0.7", "../bond0.7");
        // A loop of links must not hang the search.
        tree.link("/sys/class/net/bond0.7/upper_bond0", "../bond0");
        let wanted = ["bond0.7".to_owned()];
        let found = carries(tree.host(), "ens1f0", &wanted);
        assert_eq!(found.as_deref(), Some("bond0.7"));
        assert_eq!(carries(tree.host(), "ens1f0", &["eth9".to_owned()]), None);
    }
}
