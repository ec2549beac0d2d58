//! Why a wire cannot be joined.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use crate::name::WireName;

/// Why a wire cannot be joined.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The local address of a pair cannot be had.
    #[error("receiving frames at {at}: {cause}; name an address of this machine and a free port")]
    Local {
        /// The address.
        at: SocketAddr,
        /// The operating system's reason.
        cause: String,
        errno: Option<i32>,
    },
    /// The multicast group of a segment cannot be used.
    #[error("wire {name} (group {group} on the loopback interface): {during}: {cause}; {remedy}")]
    Group {
        /// The segment.
        name: WireName,
        /// Its group and port.
        group: SocketAddrV4,
        /// What was asked of the operating system.
        during: &'static str,
        /// Its reason.
        cause: String,
        errno: Option<i32>,
        /// What to do.
        remedy: &'static str,
    },
    /// What a frame was sent to does not reach this process itself.
    #[error(
        "wire {name}: nothing that is sent to group {group} comes back on the loopback interface: multicast is filtered here; allow it (`iptables -S`, `nft list ruleset`), or use a wire between two (`e810 sim --link udp:LOCAL,PEER`)"
    )]
    Silent {
        /// The segment.
        name: WireName,
        /// Its group and port.
        group: SocketAddrV4,
    },
    /// The operating system refused something that every wire needs.
    #[error("{during}: {cause}; end other programs, or raise the limit of this one (`ulimit -a`)")]
    System {
        /// What was asked.
        during: &'static str,
        /// The operating system's reason.
        cause: String,
        errno: Option<i32>,
    },
}

impl WireError {
    pub(crate) fn system(during: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System {
            during,
            errno: cause.raw_os_error(),
            cause: cause.to_string(),
        }
    }

    /// An error of a step to the group of `name`.
    pub(crate) fn group(name: &WireName, during: &'static str) -> impl FnOnce(io::Error) -> Self {
        let name = name.clone();
        move |cause| Self::Group {
            group: name.group(),
            name,
            during,
            remedy: remedy(&cause),
            errno: cause.raw_os_error(),
            cause: cause.to_string(),
        }
    }

    /// The operating system's error number, where that is the reason.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Local { errno, .. } | Self::Group { errno, .. } | Self::System { errno, .. } => {
                *errno
            }
            Self::Silent { .. } => None,
        }
    }
}

/// What to do about a refusal.
fn remedy(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENODEV | libc::EADDRNOTAVAIL | libc::ENETUNREACH) => {
            "the loopback interface is down: `ip link set lo up`"
        }
        Some(libc::EADDRINUSE) => {
            "another program has the port for itself: end it (`ss -ulnp`), or give the wire another name"
        }
        Some(libc::ENOBUFS) => "too many groups were joined: raise net.ipv4.igmp_max_memberships",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of descriptors (`ulimit -n`)",
        Some(libc::EPERM | libc::EACCES) => {
            "a filter forbids it (`iptables -S`, `nft list ruleset`): allow multicast on the loopback interface, or use a wire between two (`e810 sim --link udp:LOCAL,PEER`)"
        }
        _ => {
            "use a wire between two (`e810 sim --link udp:LOCAL,PEER`) where there is no multicast"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        for (number, part) in [
            (libc::ENODEV, "ip link set lo up"),
            (libc::EADDRINUSE, "ss -ulnp"),
            (libc::ENOBUFS, "igmp_max_memberships"),
            (libc::EPERM, "iptables"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EOPNOTSUPP, "--link udp"),
        ] {
            let name: WireName = "a".parse().unwrap();
            let cause = io::Error::from_raw_os_error(number);
            let error = WireError::group(&name, "joining the group")(cause);
            assert_eq!(error.errno(), Some(number));
            let text = error.to_string();
            let start = "wire a (group 239.98.48.192:64212 on the loopback interface): joining";
            assert!(text.starts_with(start), "{text}");
            assert!(text.contains(part), "{text}");
        }
    }
}
