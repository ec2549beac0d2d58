//! The addresses of a command's functions, and how they reach each other.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::{MacAddr, Mtu, Path, v4};
use e810_backends::interrupts::HostPlatform;

use super::lifecycle::FUNCTIONS;
use crate::cli::PairArgs;
use crate::cli::address::Own;
use crate::measure::endpoint::Endpoint;
use crate::usage::{Usage, refuse};
use e810_node::address::{OwnAddress, refuse_twice};
use e810_node::neighbours::without_station;
use e810_node::start::Start;
use e810_node::station::{Network, RESOLVE_LIMIT};
use e810_node::tap::TapPlan;

/// The IP addresses of function `which` of this process.
fn own_addresses(args: &PairArgs, which: usize) -> Vec<OwnAddress> {
    let (given, last) = match which {
        0 => (&args.address.ip, 1),
        _ => (&args.peer_ip, 2),
    };
    let is_local = !args.rendezvous.is_given();
    match given.as_slice() {
        [] if is_local && args.address.gid_index.is_none() => {
            let ip = v4(10, 8, 10, last);
            // The host's stack has to know which addresses are on the link.
            let length = args.address.tap.as_ref().map(|_| 24);
            vec![OwnAddress { ip, length }]
        }
        given => given.to_vec(),
    }
}

/// The network of function `which` of this process.
fn network_of(args: &PairArgs, which: usize) -> Network {
    let addresses = own_addresses(args, which);
    // The functions may be on different networks: each gets the gateways that it can reach.
    let reached = |gateway: &&IpAddr| {
        let is_local = matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let mut own = addresses.iter();
        own.any(|own| own.length.is_some() && (is_local || own.has_on_link(**gateway)))
    };
    let gateways = args.address.gateway.iter().filter(reached).copied();
    Network {
        gateways: gateways.collect(),
        vlan: args.address.vlan,
        addresses,
        ..Network::default()
    }
}

/// Makes a function of this process answer for its addresses from its bring-up to its end, unless
/// another driver has its LAN queues or time is virtual. With `--tap` the host's stack answers for
/// the first function.
///
/// # Errors
/// The TAP interface cannot be opened.
pub(crate) fn start_station<P: HostPlatform>(
    args: &PairArgs,
    start: &Start,
    which: usize,
    endpoint: &mut Endpoint<P>,
) -> Result<()> {
    if let (Some(name), 0) = (&args.address.tap, which) {
        return endpoint.start_tap(&TapPlan {
            name: name.clone(),
            addresses: own_addresses(args, which),
            vlan: args.address.vlan,
            resolve_limit: RESOLVE_LIMIT,
        });
    }
    if !args.virtual_time && !matches!(start, Start::Warm { .. }) {
        endpoint.start_station(&network_of(args, which));
    }
    Ok(())
}

/// Checks the addresses that the options give to two functions of this process.
///
/// # Errors
/// [`Usage`]: one address for both, different families, or an index without an address. The
/// addresses of a TAP interface are not known yet.
pub(super) fn check_addresses(args: &PairArgs) -> Result<()> {
    refuse_twice(&args.peer_ip, "--peer-ip").map_err(Usage)?;
    let [here, there] = [0, 1].map(|which| own_addresses(args, which));
    if let Some(both) = here
        .iter()
        .find(|own| there.iter().any(|other| other.ip == own.ip))
    {
        refuse!(
            "both functions are {}: give them different addresses with --ip and --peer-ip",
            both.ip
        );
    }
    let address = &args.address;
    if address.tap.is_some() {
        return Ok(());
    }
    match (address.gid_index, here.first(), there.first()) {
        (Some(index), ..) if usize::from(index) > here.len().min(there.len()) => refuse!(
            "--gid-index {index}: the GID tables have no such entry; entry 0 is the link-local address, and those of --ip and --peer-ip follow"
        ),
        (None, Some(own), Some(other)) if own.ip.is_ipv4() != other.ip.is_ipv4() => refuse!(
            "{} and {} are not of one family: give --ip and --peer-ip of the same family",
            own.ip,
            other.ip
        ),
        _ => Ok(()),
    }
}

/// Gives two functions of this process their addresses, and returns the path from each to the
/// other.
pub(crate) fn paths<P: HostPlatform>(
    args: &PairArgs,
    [ask, answer]: [&mut Endpoint<P>; 2],
    idle: &dyn Fn() -> Result<()>,
) -> Result<([Path; 2], Mtu)> {
    let address = &args.address;
    let (here, there) = (ask.control().lan(), answer.control().lan());
    let mtu = address.mtu(here.mtu.min(there.mtu))?;
    let own = settle(args, ask, &own_addresses(args, 0));
    let own = own.context(FUNCTIONS[0])?;
    let theirs = settle(args, answer, &own_addresses(args, 1));
    let theirs = theirs.context(FUNCTIONS[1])?;
    if own.gid == theirs.gid {
        bail!(
            "both functions are {}: give them different addresses with --ip and --peer-ip",
            own.gid.ip()
        );
    }
    let mac = |endpoint, which: usize, peer, announced| {
        destination_mac(args, which, endpoint, peer, Some(announced), idle)
            .with_context(|| FUNCTIONS.get(which).copied().unwrap_or_default())
    };
    let to_answer = mac(ask, 0, theirs.gid.ip(), there.mac)?;
    let to_ask = mac(answer, 1, own.gid.ip(), here.mac)?;
    let paths = [
        address.path(own, theirs.gid, to_answer),
        address.path(theirs, own.gid, to_ask),
    ];
    Ok((paths, mtu))
}

/// Fills the function's GID table and returns the entry that it uses.
///
/// # Errors
/// As [`AddressArgs::settle`](crate::cli::address::AddressArgs::settle).
pub(crate) fn settle<P: HostPlatform>(
    args: &PairArgs,
    endpoint: &mut Endpoint<P>,
    own: &[OwnAddress],
) -> Result<Own> {
    let usual = endpoint.usual_gid(args.address.vlan)?;
    args.address.settle(endpoint.control(), own, usual)
}

/// The Ethernet address that packets of function `which` to a peer go to: the `announced` one if
/// the peer is on the link, else the answer of the next hop. Paths follow the next hop.
///
/// # Errors
/// [`Unresolved`](super::station::Unresolved), or the error of `idle`.
pub(crate) fn destination_mac<P: HostPlatform>(
    args: &PairArgs,
    which: usize,
    endpoint: &mut Endpoint<P>,
    peer: IpAddr,
    announced: Option<MacAddr>,
    idle: &dyn Fn() -> Result<()>,
) -> Result<MacAddr> {
    let announced = announced.filter(|_| network_of(args, which).is_on_link(peer));
    match (announced, endpoint.neighbours()) {
        (Some(mac), Some(neighbours)) => neighbours.follow_on_link(peer, mac, idle),
        (Some(mac), None) => Ok(mac),
        (None, Some(neighbours)) => neighbours.resolve(peer, idle),
        (None, None) => Err(without_station(peer).into()),
    }
}
