//! Why an address is not resolved.

use std::net::IpAddr;

use e810_hal::Ns;

/// Why the MAC address for packets to a destination is unknown. Each message is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unresolved {
    /// The next hop does not answer.
    #[error(
        "resolving {destination}: {via} answered no {} within {limit}; check that it is up, that its address is right (`e810 ping`) and that both ports are in one VLAN, or, where a command has --peer-mac, give it its Ethernet address", question(*via)
    )]
    NoAnswer {
        /// Where packets are to go.
        destination: IpAddr,
        /// The neighbour that was asked: the destination itself, or the gateway.
        via: IpAddr,
        /// For how long.
        limit: Ns,
    },
    /// None of our addresses could send to it.
    #[error(
        "resolving {destination}: no address of the function has a route there; give it one of that family (--ip ADDR/LEN, or ADDR/LEN after the `@`), and a gateway (--gateway, or gateway=IP) if the peer is in none of these networks"
    )]
    NoRoute {
        /// Where packets are to go.
        destination: IpAddr,
    },
    /// The host's stack has no route through the TAP interface.
    #[error(
        "resolving {destination}: the host has no route there through {interface}; see `ip route get {destination}`, and give that interface an address in its network, or a route"
    )]
    NoKernelRoute {
        /// Where packets are to go.
        destination: IpAddr,
        /// The interface.
        interface: String,
    },
    /// The host's stack has no room for one more neighbour.
    #[error(
        "resolving {destination}: the neighbour table of the host's stack is full; make it larger (`sysctl net.{family}.neigh.default.gc_thresh3`), or use fewer peers"
    )]
    KernelTableFull {
        /// Where packets are to go.
        destination: IpAddr,
        /// `ipv4` or `ipv6`, as in the name of the setting.
        family: &'static str,
    },
    /// Our address could not be used: it was not found out whether another station has it.
    #[error(
        "resolving {destination}: the check that no other host has the function's address has not ended after {limit}; check whether the link is up, and the log for a duplicate"
    )]
    NoSource {
        /// Where packets are to go.
        destination: IpAddr,
        /// How long that was waited for.
        limit: Ns,
    },
    /// Too many neighbours are in use.
    #[error(
        "resolving {destination}: the table of neighbours is full: all {neighbours} places are in use by queue pairs and address handles; use fewer peers, or destroy those that are not needed"
    )]
    NoRoom {
        /// Where packets are to go.
        destination: IpAddr,
        /// The number of places.
        neighbours: usize,
    },
    /// This function has no resolver.
    #[error(
        "{destination}: its Ethernet address is not known, and this function cannot ask for it ({why}); give it with --peer-mac, where a command has that"
    )]
    NoStation {
        /// Where packets are to go.
        destination: IpAddr,
        /// Why not.
        why: &'static str,
    },
    /// The resolving thread has ended.
    #[error(
        "resolving {destination}: the thread that resolves addresses has ended; the log says why, please report it"
    )]
    Ended {
        /// Where packets are to go.
        destination: IpAddr,
    },
}

/// The kind of question that asks for an address of this family.
const fn question(ip: IpAddr) -> &'static str {
    match ip {
        IpAddr::V4(_) => "ARP request",
        IpAddr::V6(_) => "neighbour solicitation",
    }
}
