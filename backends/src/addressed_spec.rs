//! Devices with IP addresses, as `SPEC@IP,IP`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::spec::DeviceSpec;

/// A device, and the IP addresses that it gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressedSpec {
    /// The device.
    pub spec: DeviceSpec,
    /// Its addresses, in the order of the GID table behind the link-local one.
    pub addresses: Vec<IpAddr>,
}

impl FromStr for AddressedSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (spec, addresses) = text.split_once('@').unwrap_or((text, ""));
        let addresses = addresses.split(',').filter(|address| !address.is_empty());
        let spec: DeviceSpec = spec.parse()?;
        let addresses = addresses.map(|address| {
            let ip = address.parse::<IpAddr>();
            ip.map_err(|_| format!("`{address}` is no IP address"))
        });
        Ok(Self {
            spec,
            addresses: addresses.collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for AddressedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.spec)?;
        for (number, address) in self.addresses.iter().enumerate() {
            let before = if number == 0 { '@' } else { ',' };
            write!(f, "{before}{address}")?;
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
        assert!(error("eth0@10.8.1.1").starts_with("`eth0` names no device"));
    }
}
