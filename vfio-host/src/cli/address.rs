//! Addresses: which address a function uses, and how packets reach the peer.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use clap::Args;
use e810::{Control, Gid, GidEntry, Mtu, Path, Platform, addr};

use crate::cli::number::number;
use crate::usage::{Usage, refuse};
use e810_node::address::{OwnAddress, refuse_twice, why_no_gateway};

/// The addresses of a function.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Addresses")]
pub struct AddressArgs {
    /// IP addresses of the function, separated by commas. They become entries of its GID table,
    /// from index 1 on.
    ///
    /// Index 0 is always the link-local IPv6 address derived from the Ethernet address. A prefix
    /// length (192.0.2.1/24) says which addresses are on the link; without one, all addresses of
    /// that family are. While the command runs, it answers ARP requests, neighbour solicitations
    /// and pings for these addresses, except with --virtual or --warm.
    #[arg(long, value_name = "ADDR[/LEN],..", value_delimiter = ',')]
    pub ip: Vec<OwnAddress>,
    /// The router to addresses that are not on the link: at most one of each family, separated by a
    /// comma.
    ///
    /// It must be in a network of --ip, or link-local.
    #[arg(long, value_name = "ADDR[,ADDR]", value_delimiter = ',')]
    pub gateway: Vec<IpAddr>,
    /// Connect the function's LAN queues to a network interface of this name (a TAP). The host's
    /// own network stack then answers there and resolves addresses.
    ///
    /// The command creates the interface and removes it at the end, or uses a persistent TAP of
    /// that name (`ip tuntap`). It sets the interface up with the port's Ethernet address, MTU and
    /// link, and adds the addresses of --ip. Each address of the interface is a GID while it
    /// exists, and so are addresses of VLAN interfaces on it, with their VLAN. This needs
    /// CAP_NET_ADMIN.
    #[arg(long, value_name = "NAME", value_parser = interface_name, conflicts_with_all = ["gateway", "warm", "virtual_time"])]
    pub tap: Option<String>,
    /// Index of the GID to use [default: the first address of --ip, if any].
    #[arg(short = 'x', long, value_name = "N", value_parser = number::<u8>(0, 31))]
    pub gid_index: Option<u8>,
    /// VLAN of the addresses; packets carry its tag.
    #[arg(long, value_name = "ID", value_parser = number::<u16>(1, 4094))]
    pub vlan: Option<u16>,
    /// Priority of packets: it selects the queue set, and the VLAN tag carries it.
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::<u8>(0, 7))]
    pub priority: u8,
    /// Path MTU (payload bytes of a full packet): 256, 512, 1024, 2048 or 4096 [default: the
    /// largest that fits both interfaces].
    #[arg(short = 'm', long, value_name = "BYTES", value_parser = parse_path_mtu)]
    pub path_mtu: Option<Mtu>,
}

/// Maximum bytes of an interface name.
const INTERFACE_NAME: usize = 15;

/// Parses an interface name that the kernel accepts.
///
/// # Errors
/// The kernel would refuse the name.
pub fn interface_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    let is_fine = text.bytes().all(is_plain) && !["", ".", ".."].contains(&text);
    if is_fine && text.len() <= INTERFACE_NAME {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is not an interface name: give 1 to {INTERFACE_NAME} letters, digits, `-`, `_` or `.`"
    ))
}

fn parse_path_mtu(text: &str) -> Result<Mtu, String> {
    let bytes = text.parse().ok().and_then(Mtu::of_bytes);
    bytes.ok_or_else(|| format!("`{text}` is not a path MTU: use 256, 512, 1024, 2048 or 4096"))
}

/// The address that a function uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its index in the GID table.
    pub index: u8,
    /// The address.
    pub gid: Gid,
}

impl AddressArgs {
    /// Checks that the options fit together.
    ///
    /// # Errors
    /// Options that contradict each other, or a gateway that cannot be reached or is never used.
    pub fn check(&self) -> Result<()> {
        if let (None, Some(index), Some(vlan)) = (&self.tap, self.gid_index, self.vlan)
            && index == 0
        {
            refuse!(
                "--gid-index 0 --vlan {vlan}: the link-local address at index 0 is on no VLAN; choose an address of --ip, or leave out --vlan"
            );
        }
        if let (Some(tap), Some(vlan), false) = (&self.tap, self.vlan, self.ip.is_empty()) {
            refuse!(
                "--ip with --vlan and --tap: the address belongs to the VLAN's interface; before this command, make a persistent TAP (`ip tuntap add dev {tap} mode tap`) and the interface on it (`ip link add link {tap} name {tap}.{vlan} type vlan id {vlan}`), and give that the address"
            );
        }
        refuse_twice(&self.ip, "--ip").map_err(Usage)?;
        for (at, gateway) in self.gateway.iter().enumerate() {
            let is_same = |other: &IpAddr| other.is_ipv4() == gateway.is_ipv4();
            let mut before = self.gateway.iter().take(at);
            if let Some(other) = before.find(|other| is_same(other)) {
                refuse!("--gateway {other},{gateway}: give at most one of each family");
            }
            if let Some(why) = why_no_gateway(*gateway, &self.ip, "--ip") {
                refuse!("--gateway {gateway}: {why}");
            }
        }
        Ok(())
    }

    /// Adds `ips` to the GID table and returns the entry to use: the one that was asked for, the
    /// first of `ips`, or the `usual` one.
    ///
    /// # Errors
    /// An address that no interface can have, a full table, or an index without an entry or whose
    /// entry does not fit `--vlan`.
    pub fn settle<P: Platform>(
        &self,
        control: &mut Control<P>,
        ips: &[OwnAddress],
        usual: Option<u8>,
    ) -> Result<Own> {
        let mut first = None;
        let local = addr::link_local(control.lan().mac);
        let local = [OwnAddress::alone(local.into())];
        // The link-local address of index 0 is on no VLAN.
        let tagged_local =
            ips.is_empty() && self.vlan.is_some() && self.gid_index.is_none() && usual.is_none();
        for OwnAddress { ip, .. } in if tagged_local { &local } else { ips } {
            let entry = GidEntry {
                gid: (*ip).into(),
                vlan: self.vlan,
            };
            let index = control
                .add_gid(entry)
                .with_context(|| format!("address {ip}"))?;
            first.get_or_insert(index);
        }
        let index = self.gid_index.or(first).or(usual).unwrap_or(0);
        let Some(entry) = control.query_gid(index) else {
            let known = (0..32).filter_map(|index| Some((index, control.query_gid(index)?)));
            let known: Vec<_> = known
                .map(|(index, entry)| format!("{index} {}", entry.gid.ip()))
                .collect();
            bail!(
                "--gid-index {index}: the GID table has no such entry, only {}",
                known.join(", ")
            );
        };
        if self.vlan.is_some() && entry.vlan != self.vlan {
            bail!(
                "--gid-index {index}: {} is on no VLAN; choose an address of --ip, or leave out --vlan",
                entry.gid.ip()
            );
        }
        Ok(Own {
            index,
            gid: entry.gid,
        })
    }

    /// The largest path MTU of an interface with MTU `mtu`, or the one that was asked for if it
    /// fits.
    ///
    /// # Errors
    /// The interface MTU is too small; the text says what to do.
    pub fn mtu(&self, mtu: u16) -> Result<Mtu> {
        let Some(fits) = Mtu::fitting(mtu) else {
            refuse!(
                "the interface MTU of {mtu} bytes is below 256 bytes plus headers: give a larger --mtu"
            );
        };
        match self.path_mtu {
            Some(asked) if asked > fits => refuse!(
                "--path-mtu {}: packets of the interface MTU {mtu} carry at most {}; give a larger --mtu, or a smaller path MTU",
                asked.bytes(),
                fits.bytes()
            ),
            Some(asked) => Ok(asked),
            None => Ok(fits),
        }
    }

    /// The path from entry `own` to a peer.
    #[must_use]
    pub fn path(&self, own: Own, peer: Gid, mac: addr::MacAddr) -> Path {
        Path {
            priority: self.priority,
            ..Path::new(own.index, peer.ip(), mac)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_mtu_fits_the_interface() {
        let args = |path_mtu| AddressArgs {
            path_mtu,
            ..AddressArgs::default()
        };
        assert_eq!(args(None).mtu(1500).unwrap(), Mtu::Mtu1024);
        assert_eq!(args(Some(Mtu::Mtu256)).mtu(1500).unwrap(), Mtu::Mtu256);
        let error = args(Some(Mtu::Mtu4096)).mtu(1500).unwrap_err().to_string();
        assert!(error.contains("1500") && error.contains("--mtu"), "{error}");
        assert!(args(None).mtu(300).unwrap_err().to_string().contains("300"));
    }

    #[test]
    fn interfaces_have_short_names() {
        for name in ["lab0", "e810-p0", "x", "123456789012345"] {
            assert_eq!(interface_name(name), Ok(name.to_owned()));
        }
        for name in [
            "",
            ".",
            "..",
            "a b",
            "a/b",
            "tap%d",
            "a:1",
            "1234567890123456",
            "ä",
        ] {
            let error = interface_name(name).unwrap_err();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn path_mtus_are_five() {
        assert_eq!(parse_path_mtu("2048"), Ok(Mtu::Mtu2048));
        for bad in ["", "1500", "-256", "256 "] {
            assert!(parse_path_mtu(bad).unwrap_err().contains("1024"));
        }
    }
}
