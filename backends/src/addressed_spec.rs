//! Devices with IP addresses, as `SPEC@IP,IP`, or with those of an interface, as `SPEC@tap=NAME`,
//! and with the MTU of their network, as `SPEC@mtu=9000`.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::spec::DeviceSpec;

/// A device, and the IP addresses that it gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressedSpec {
    /// The device.
    pub spec: DeviceSpec,
    /// Its addresses, in the order of the GID table behind the link-local one.
    pub addresses: Vec<IpAddr>,
    /// The TAP interface that has its LAN queues, and whose addresses are its own.
    pub tap: Option<String>,
    /// Bytes of the longest IP packet on the link, if it is said.
    pub mtu: Option<u16>,
}

/// Bytes of an IP packet that a link may have: IPv6 wants the first, a frame has room for the last.
const MTUS: RangeInclusive<u16> = 1280..=9702;

/// Bytes of an interface's name, with the zero behind it.
const INTERFACE_NAME: usize = 16;

/// What an interface can be called, and needs no quotes in a list of devices.
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

impl FromStr for AddressedSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (spec, addresses) = text.split_once('@').unwrap_or((text, ""));
        let mut made = Self {
            spec: spec.parse()?,
            addresses: Vec::new(),
            tap: None,
            mtu: None,
        };
        for word in addresses.split(',').filter(|word| !word.is_empty()) {
            if let Some(name) = word.strip_prefix("tap=") {
                made.tap = Some(interface(name)?);
                continue;
            }
            if let Some(bytes) = word.strip_prefix("mtu=") {
                let mtu = bytes.parse().ok().filter(|mtu| MTUS.contains(mtu));
                let (least, most) = MTUS.into_inner();
                let wrong = || format!("`{word}`: an MTU is {least} to {most}");
                made.mtu = Some(mtu.ok_or_else(wrong)?);
                continue;
            }
            let ip = word.parse::<IpAddr>();
            made.addresses
                .push(ip.map_err(|_| format!("`{word}` is no IP address"))?);
        }
        Ok(made)
    }
}

impl fmt::Display for AddressedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.spec)?;
        let tap = self.tap.iter().map(|name| format!("tap={name}"));
        let mtu = self.mtu.iter().map(|mtu| format!("mtu={mtu}"));
        let words = tap
            .chain(mtu)
            .chain(self.addresses.iter().map(ToString::to_string));
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
    fn addresses_follow_the_device() {
        for (text, addresses) in [
            ("vfio:0000:3b:00.0", 0),
            ("vfio:0000:3b:00.0@10.8.1.1", 1),
            ("vfio-user:/run/e810.sock@10.8.1.1,fd00:8::1", 2),
            ("vfio:0000:3b:00.0@tap=e810tap", 0),
            ("vfio:0000:3b:00.0@tap=e810tap,10.8.1.1", 1),
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
        assert_eq!(error("3b:00.0@10.8.1"), "`10.8.1` is no IP address");
        assert_eq!(
            error("3b:00.0@10.8.1.1/24"),
            "`10.8.1.1/24` is no IP address"
        );
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
