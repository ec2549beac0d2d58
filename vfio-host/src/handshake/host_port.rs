//! Where to listen or connect, on the command line.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use super::HandshakeError;

/// The default port, as in existing tools.
pub const PORT: u16 = 18515;

/// A host, by address or name, and a port; either may be left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// An IP address without brackets, or a name.
    host: Option<String>,
    port: Option<u16>,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` {why}: give HOST:PORT, HOST or :PORT, like 192.0.2.1:{PORT} or [2001:db8::1]:{PORT}"
            )
        };
        if text.is_empty() {
            return Err(wrong("names no host"));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!(
                "`{text}` is a number, not a host: a port alone is :{text}"
            ));
        }
        // An IPv6 address is full of colons.
        if text.parse::<Ipv6Addr>().is_ok() {
            return Ok(Self {
                host: Some(text.to_owned()),
                port: None,
            });
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => {
                if host.parse::<Ipv6Addr>().is_err() {
                    return Err(wrong("has no IPv6 address in its brackets"));
                }
                match (rest, rest.strip_prefix(':')) {
                    ("", _) => (host, None),
                    (_, Some(port)) => (host, Some(port)),
                    (_, None) => return Err(wrong("has text after its brackets")),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            None => None,
            Some(digits) => {
                let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                let port = digits.parse().ok().filter(|_| plain);
                Some(port.ok_or_else(|| wrong("has no port from 0 to 65535 after its colon"))?)
            }
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if !host.chars().all(allowed) {
            return Err(wrong("is not a host"));
        }
        Ok(Self {
            host: Some(host.to_owned()).filter(|host| !host.is_empty()),
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]")?,
            Some(host) => f.write_str(host)?,
            None => {}
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<SocketAddr> for HostPort {
    fn from(at: SocketAddr) -> Self {
        Self {
            host: Some(at.ip().to_string()),
            port: Some(at.port()),
        }
    }
}

impl HostPort {
    /// The address, if one is named, and the port; `port` is the default port. `None`: the host is a
    /// name.
    pub(crate) fn address(&self, port: u16) -> Option<(Option<IpAddr>, u16)> {
        let address = match &self.host {
            Some(host) => Some(host.parse().ok()?),
            None => None,
        };
        Some((address, self.port.unwrap_or(port)))
    }

    /// The addresses to try to listen at, in order; `port` is the default port.
    ///
    /// # Errors
    /// A host that is not found.
    pub(super) fn listening(&self, port: u16) -> Result<Vec<SocketAddr>, HandshakeError> {
        let port = self.port.unwrap_or(port);
        match &self.host {
            Some(host) => self.find(host, port),
            // Both families, if there is IPv6.
            None => Ok(vec![
                (IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into(),
                (IpAddr::from(Ipv4Addr::UNSPECIFIED), port).into(),
            ]),
        }
    }

    /// The address to connect to.
    ///
    /// # Errors
    /// No host, or one that is not found.
    pub(super) fn connecting(&self, port: u16) -> Result<SocketAddr, HandshakeError> {
        let lost = |error| HandshakeError::Host {
            host: self.to_string(),
            error,
        };
        let none = || lost(io::Error::other("no host is named"));
        let host = self.host.as_deref().ok_or_else(none)?;
        let found = self.find(host, self.port.unwrap_or(port))?;
        found.first().copied().ok_or_else(none)
    }

    fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, HandshakeError> {
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|error| HandshakeError::Host {
            host: self.to_string(),
            error,
        })?;
        let mut found: Vec<SocketAddr> = found.collect();
        // Names often have both families; prefer IPv4, on which listeners without a name listen.
        found.sort_by_key(SocketAddr::is_ipv6);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_may_be_left_out() {
        for (text, host, port) in [
            ("127.0.0.1:5", Some("127.0.0.1"), Some(5)),
            ("127.0.0.1", Some("127.0.0.1"), None),
            (":0", None, Some(0)),
            ("::1", Some("::1"), None),
            ("[::1]", Some("::1"), None),
            ("[::1]:65535", Some("::1"), Some(65535)),
            ("localhost:18515", Some("localhost"), Some(18515)),
            ("node-7.example", Some("node-7.example"), None),
        ] {
            let at: HostPort = text.parse().unwrap();
            assert_eq!((at.host.as_deref(), at.port), (host, port), "{text}");
            assert_eq!(at.to_string().parse::<HostPort>(), Ok(at));
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_there_is() {
        for text in [
            "", "18515", "a:b", "a:65536", "a:+1", "[::1", "[x]:1", "[::1]1", "a b", "a:",
        ] {
            let error = text.parse::<HostPort>().unwrap_err();
            assert!(error.contains(':'), "{text}: {error}");
            assert!(!error.contains("invalid"), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_are_found() {
        let at = |text: &str| text.parse::<HostPort>().unwrap();
        let v4: SocketAddr = "127.0.0.1:7".parse().unwrap();
        assert_eq!(at("localhost").connecting(7).unwrap(), v4);
        assert_eq!(at("127.0.0.1:7").connecting(9).unwrap(), v4);
        assert_eq!(at(":7").listening(9).unwrap().len(), 2);
        assert!(matches!(
            at(":7").connecting(9),
            Err(HandshakeError::Host { .. })
        ));
    }
}
