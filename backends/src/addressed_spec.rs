//! Devices with IP addresses, as `SPEC@IP/LEN,IP`; with the addresses of an interface, as
//! `SPEC@tap=NAME`; and with the MTU of their network, as `SPEC@mtu=9000`.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::spec::DeviceSpec;

/// An address of a device, as `IP` or `IP/LEN`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpecAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of it that name its network; `None`: every address of the family is on the link.
    pub length: Option<u8>,
}

impl From<IpAddr> for SpecAddress {
    fn from(ip: IpAddr) -> Self {
        Self { ip, length: None }
    }
}

impl FromStr for SpecAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, length) = match text.split_once('/') {
            Some((ip, length)) => (ip, Some(length)),
            None => (text, None),
        };
        let ip = ip.parse::<IpAddr>();
        let ip = ip.map_err(|_| format!("`{text}` is not an IP address"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let length = length.map(|length| {
            let length = length.parse().ok().filter(|length| *length <= most);
            length.ok_or_else(|| format!("`{text}`: the prefix length is 0 to {most}"))
        });
        Ok(Self {
            ip,
            length: length.transpose()?,
        })
    }
}

impl fmt::Display for SpecAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => write!(f, "{}/{length}", self.ip),
            None => write!(f, "{}", self.ip),
        }
    }
}

/// A device, and the IP addresses that it gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressedSpec {
    /// The device.
    pub spec: DeviceSpec,
    /// Its addresses, in the order of the GID table after the link-local one.
    pub addresses: Vec<SpecAddress>,
    /// The TAP interface that has its LAN queues, and whose addresses it uses.
    pub tap: Option<String>,
    /// Gateways to destinations on none of its networks, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Seconds to wait for a peer's address, if given.
    pub wait: Option<u16>,
    /// Bytes of the longest IP packet on the link, if given.
    pub mtu: Option<u16>,
}

/// The longest time to wait for a peer, in seconds.
pub const MOST_WAIT: u16 = 3600;

fn gateway(text: &str, before: &[IpAddr]) -> Result<IpAddr, String> {
    let ip = text.parse::<IpAddr>();
    let ip = ip.map_err(|_| format!("`gateway={text}`: `{text}` is not an IP address"))?;
    if before.iter().any(|other| other.is_ipv4() == ip.is_ipv4()) {
        return Err(format!(
            "`gateway={text}`: there is already one of this family; leave one out"
        ));
    }
    Ok(ip)
}

fn wait(text: &str) -> Result<u16, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| (1..=MOST_WAIT).contains(seconds));
    seconds.ok_or_else(|| format!("`wait={text}`: seconds are 1 to {MOST_WAIT}"))
}

/// Bytes of an IP packet that a link may have: IPv6 requires the first, and a frame has room for
/// the last.
const MTUS: RangeInclusive<u16> = 1280..=9702;

fn mtu(text: &str) -> Result<u16, String> {
    let mtu = text.parse().ok().filter(|mtu| MTUS.contains(mtu));
    let (least, most) = MTUS.into_inner();
    mtu.ok_or_else(|| format!("`mtu={text}`: an MTU is {least} to {most}"))
}

/// Bytes of an interface's name, with the terminating zero.
const INTERFACE_NAME: usize = 16;

/// Checks that a name can be that of an interface and needs no quotes in a list of devices.
fn interface(name: &str) -> Result<String, String> {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_dots = matches!(name, "." | "..");
    if name.is_empty() || name.len() >= INTERFACE_NAME || !name.bytes().all(is_usual) || is_dots {
        return Err(format!(
            "`tap={name}`: an interface's name is 1 to 15 letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok(name.to_owned())
}

/// Stores a value that may be given only once; `word` is its name.
fn once<T>(place: &mut Option<T>, value: T, word: &str) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{word}`: there is already one; leave one out")),
    }
}

impl FromStr for AddressedSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (spec, addresses) = text.split_once('@').unwrap_or((text, ""));
        let mut made = Self {
            spec: spec.parse()?,
            addresses: Vec::new(),
            tap: None,
            gateways: Vec::new(),
            wait: None,
            mtu: None,
        };
        for word in addresses.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("tap", name)) => once(&mut made.tap, interface(name)?, word)?,
                Some(("gateway", ip)) => made.gateways.push(gateway(ip, &made.gateways)?),
                Some(("wait", seconds)) => once(&mut made.wait, wait(seconds)?, word)?,
                Some(("mtu", bytes)) => once(&mut made.mtu, mtu(bytes)?, word)?,
                Some((name, _)) => {
                    return Err(format!(
                        "`{word}`: there is no {name}=; after the @ come IP addresses, gateway=IP, wait=SECONDS, tap=NAME and mtu=BYTES"
                    ));
                }
                None => {
                    let address: SpecAddress = word.parse()?;
                    let own = address.ip.to_canonical();
                    if made
                        .addresses
                        .iter()
                        .any(|other| other.ip.to_canonical() == own)
                    {
                        return Err(format!(
                            "`{word}`: the address is given twice; leave one out"
                        ));
                    }
                    made.addresses.push(address);
                }
            }
        }
        Ok(made)
    }
}

impl fmt::Display for AddressedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.spec)?;
        let tap = self.tap.iter().map(|name| format!("tap={name}"));
        let addresses = self.addresses.iter().map(ToString::to_string);
        let gateways = self.gateways.iter().map(|ip| format!("gateway={ip}"));
        let wait = self.wait.iter().map(|seconds| format!("wait={seconds}"));
        let mtu = self.mtu.iter().map(|mtu| format!("mtu={mtu}"));
        let words = tap.chain(mtu).chain(addresses).chain(gateways).chain(wait);
        for (number, word) in words.enumerate() {
            let before = if number == 0 { '@' } else { ',' };
            write!(f, "{before}{word}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "sim")]
    fn addresses_follow_the_device() {
        for (text, addresses) in [
            ("vfio:0000:3b:00.0", 0),
            ("vfio:0000:3b:00.0@10.8.1.1", 1),
            ("vfio-user:/run/e810.sock@10.8.1.1,fd00:8::1", 2),
            ("vfio:0000:3b:00.0@tap=e810tap", 0),
            ("vfio:0000:3b:00.0@tap=e810tap,10.8.1.1", 1),
            (
                "sim@10.8.1.1/24,fd00::1/64,gateway=10.8.1.254,gateway=fd00::fe,wait=10",
                2,
            ),
            ("sim@wait=1", 0),
            ("vfio:0000:3b:00.0@tap=e810tap,mtu=9000,10.8.1.1", 1),
            ("vfio:0000:3b:00.0@mtu=1500", 0),
        ] {
            let spec: AddressedSpec = text.parse().unwrap();
            assert_eq!(spec.addresses.len(), addresses);
            assert_eq!(spec.to_string(), text);
        }
        let bare: AddressedSpec = "3b:00.0@".parse().unwrap();
        assert_eq!(bare.to_string(), "vfio:0000:3b:00.0");
    }

    #[test]
    fn what_is_no_address_is_named() {
        let error = |text: &str| text.parse::<AddressedSpec>().unwrap_err();
        assert_eq!(error("3b:00.0@10.8.1"), "`10.8.1` is not an IP address");
        for (word, why) in [
            ("10.8.1/24", "`10.8.1/24` is not an IP address"),
            ("10.8.1.1/33", "`10.8.1.1/33`: the prefix length is 0 to 32"),
            (
                "fd00::1/129",
                "`fd00::1/129`: the prefix length is 0 to 128",
            ),
            ("10.8.1.1/", "`10.8.1.1/`: the prefix length is 0 to 32"),
            ("gateway=x", "`gateway=x`: `x` is not an IP address"),
            (
                "gateway=10.0.0.1,gateway=10.0.0.2",
                "`gateway=10.0.0.2`: there is already one of this family; leave one out",
            ),
            ("wait=0", "`wait=0`: seconds are 1 to 3600"),
            ("wait=3601", "`wait=3601`: seconds are 1 to 3600"),
            (
                "tip=10.8.1.1",
                "`tip=10.8.1.1`: there is no tip=; after the @ come IP addresses, gateway=IP, wait=SECONDS, tap=NAME and mtu=BYTES",
            ),
            (
                "tap=a,tap=b",
                "`tap=b`: there is already one; leave one out",
            ),
            (
                "mtu=1500,10.8.1.1,mtu=1500",
                "`mtu=1500`: there is already one; leave one out",
            ),
            (
                "wait=1,wait=2",
                "`wait=2`: there is already one; leave one out",
            ),
            (
                "10.8.1.1/24,::ffff:10.8.1.1/120",
                "`::ffff:10.8.1.1/120`: the address is given twice; leave one out",
            ),
            (
                "10.8.1.1/24,fd00::1,10.8.1.1/16",
                "`10.8.1.1/16`: the address is given twice; leave one out",
            ),
        ] {
            assert_eq!(error(&format!("3b:00.0@{word}")), why);
        }
        for name in ["", "longer-than-15-b", "a/b", "tap%d", ".."] {
            let error = error(&format!("3b:00.0@tap={name}"));
            assert!(error.starts_with(&format!("`tap={name}`: ")), "{error}");
        }
        for mtu in ["", "0", "1279", "9703", "70000", "1500B"] {
            let line = format!("`mtu={mtu}`: an MTU is 1280 to 9702");
            assert_eq!(error(&format!("3b:00.0@mtu={mtu}")), line);
        }
        assert!(error("eth0@10.8.1.1").starts_with("`eth0` names no device"));
    }
}
