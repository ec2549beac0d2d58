//! A function's own addresses, with or without their networks.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use e810_backends::spec::AddressedSpec;
use e810_net::Prefix;

/// An address of a function, as `192.0.2.1/24` or `192.0.2.1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of it that name the network; `None`: not given, and every address of the family is
    /// assumed to be on the link.
    pub length: Option<u8>,
}

impl OwnAddress {
    /// An address whose network was not given.
    #[must_use]
    pub const fn alone(ip: IpAddr) -> Self {
        Self { ip, length: None }
    }

    /// The length of its network's prefix: 0, which is every address, if none was given.
    #[must_use]
    pub fn prefix_length(&self) -> u8 {
        self.length.unwrap_or(0)
    }

    /// Whether another address is in its network.
    #[must_use]
    pub fn has_on_link(&self, ip: IpAddr) -> bool {
        Prefix::new(self.ip, self.prefix_length()).is_some_and(|network| network.contains(ip))
    }
}

/// Refuses an address that `option` names twice: only one of the two networks would count.
///
/// # Errors
/// Which address that is, as text for the user.
pub fn refuse_twice(own: &[OwnAddress], option: &str) -> Result<(), String> {
    for (at, address) in own.iter().enumerate() {
        let mut before = own.iter().take(at);
        if let Some(other) =
            before.find(|other| other.ip.to_canonical() == address.ip.to_canonical())
        {
            return Err(format!(
                "{option} {other},{address}: this is the same address twice; leave one out"
            ));
        }
    }
    Ok(())
}

/// The addresses of a function that a specification names, after a check that its gateways fit
/// them.
///
/// # Errors
/// An address that no function can have, or a gateway that cannot be one: which, and why.
pub fn addresses_of(said: &AddressedSpec) -> Result<Vec<OwnAddress>, String> {
    let own = said.addresses.iter().map(|own| own.to_string().parse());
    let own: Vec<OwnAddress> = own.collect::<Result<_, _>>()?;
    for gateway in &said.gateways {
        let why = match said.tap {
            Some(_) => {
                Some("with `tap=` routes are those of the interface (`ip route`)".to_owned())
            }
            None => why_no_gateway(*gateway, &own, "its addresses"),
        };
        if let Some(why) = why {
            return Err(format!("`gateway={gateway}`: {why}"));
        }
    }
    Ok(own)
}

/// Why an address, given with `option`, is no gateway of a function with `own` addresses; `None` if
/// it is one.
#[must_use]
pub fn why_no_gateway(gateway: IpAddr, own: &[OwnAddress], option: &str) -> Option<String> {
    if gateway.is_unspecified() || gateway.is_multicast() {
        return Some("it is not the address of one host".to_owned());
    }
    let is_local = matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut networks = own
        .iter()
        .filter(|own| own.length.is_some() && own.ip.is_ipv4() == gateway.is_ipv4());
    let is_reached = networks.any(|own| is_local || own.has_on_link(gateway));
    (!is_reached).then(|| {
        format!(
            "it is in no network of {option}; give the prefix length there (ADDR/LEN): without one, all addresses are on the link"
        )
    })
}

impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => write!(f, "{}/{length}", self.ip),
            None => write!(f, "{}", self.ip),
        }
    }
}

impl FromStr for OwnAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, length) = match text.split_once('/') {
            Some((ip, length)) => (ip, Some(length)),
            None => (text, None),
        };
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| format!("`{text}` is not an IP address: give it like 192.0.2.1/24"))?;
        let Some(length) = length else {
            return Ok(Self::alone(ip));
        };
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let plain = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| plain);
        let network = length.and_then(|length| Prefix::new(ip, length));
        let Some(network) = network else {
            return Err(format!("`{text}`: the prefix length is 0 to {most}"));
        };
        // RFC 919 7, RFC 3021: no host has the first or the last address of an IPv4 network.
        let is_first = network.length() < 31 && network.ip() == ip && network.length() > 0;
        let is_last = network.broadcast().map(IpAddr::V4) == Some(ip);
        if ip.is_ipv4() && (is_first || is_last) {
            return Err(format!(
                "`{text}` is the network or broadcast address of its network: give the address of a host"
            ));
        }
        Ok(Self {
            ip,
            length: Some(network.length()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_network_or_none() {
        for text in [
            "192.0.2.1",
            "192.0.2.1/24",
            "10.0.0.0/31",
            "10.0.0.0/0",
            "2001:db8::1/64",
            "fe80::1",
        ] {
            assert_eq!(text.parse::<OwnAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "192.0.2.1/",
            "192.0.2.1/33",
            "192.0.2.1/+8",
            "192.0.2.0/24",
            "192.0.2.255/24",
            "2001:db8::1/129",
            "host/24",
        ] {
            let error = text.parse::<OwnAddress>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn without_a_network_every_address_of_the_family_is_on_the_link() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let own: OwnAddress = "192.0.2.1/24".parse().unwrap();
        assert!(own.has_on_link(ip("192.0.2.200")));
        assert!(!own.has_on_link(ip("192.0.3.1")));
        let own = OwnAddress::alone(own.ip);
        assert!(own.has_on_link(ip("203.0.113.1")));
        assert!(!own.has_on_link(ip("2001:db8::1")));
    }
}
