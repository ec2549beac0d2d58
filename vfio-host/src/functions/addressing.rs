//! How two functions of this process reach each other.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::{Control, Mtu, Path, v4};
use e810_backends::interrupts::HostPlatform;

use super::lifecycle::FUNCTIONS;
use crate::cli::PairArgs;

/// Names two functions of this process, and gives the path from each to the
/// other.
pub(crate) fn paths<P: HostPlatform>(
    args: &PairArgs,
    [ask, answer]: [&mut Control<P>; 2],
) -> Result<([Path; 2], Mtu)> {
    let address = &args.address;
    let (here, there) = (ask.lan(), answer.lan());
    let mtu = address.mtu(here.mtu.min(there.mtu))?;
    let or_else = |given: &[IpAddr], last| match given {
        [] if address.gid_index.is_none() => vec![v4(10, 8, 10, last)],
        given => given.to_vec(),
    };
    let own = address.settle(ask, &or_else(&address.ip, 1));
    let own = own.context(FUNCTIONS[0])?;
    let theirs = address.settle(answer, &or_else(&args.peer_ip, 2));
    let theirs = theirs.context(FUNCTIONS[1])?;
    if own.gid == theirs.gid {
        bail!(
            "both functions are {}: give them different addresses with --ip and --peer-ip",
            own.gid.ip()
        );
    }
    let paths = [
        address.path(own, theirs.gid, there.mac),
        address.path(theirs, own.gid, here.mac),
    ];
    Ok((paths, mtu))
}
