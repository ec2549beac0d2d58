//! An interface of `e810-net` on a port that the compiler cannot see through;
//! `tests/rules/asm.rs` looks for panic paths in the object.
//!
//! Not an example of use, and never run. Generic code exists in machine code
//! only where it is used: what is not called from here is not checked.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use e810_net::{
    Address, AddressError, Claim, Config, Event, Full, GroupError, Interface, Neighbour, NextHop,
    Ns, Ping, PingError, Port, Prefix, Resolution, RouteError,
};

/// A port behind pointers.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    receive: fn(&mut [u8]) -> Option<usize>,
    transmit: fn(&[u8]) -> Result<(), Full>,
}

impl Port for Wire {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        (self.receive)(into)
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        (self.transmit)(frame)
    }
}

/// Frames in and out, and time.
#[inline(never)]
pub fn probe_poll(interface: &mut Interface, now: Ns, wire: &mut Wire) -> (bool, Option<Ns>) {
    (interface.poll(now, wire), interface.next_deadline())
}

/// One frame in.
#[inline(never)]
pub fn probe_handle(
    interface: &mut Interface,
    now: Ns,
    frame: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    interface.handle(now, frame, out)
}

/// One frame out.
#[inline(never)]
pub fn probe_next_frame(interface: &mut Interface, now: Ns, out: &mut [u8]) -> Option<usize> {
    interface.next_frame(now, out)
}

/// An interface and its addresses.
#[inline(never)]
pub fn probe_addresses(
    config: Config,
    (v4, v6): (Ipv4Addr, Ipv6Addr),
    claim: Claim,
    now: Ns,
) -> Result<Interface, AddressError> {
    let mut interface = Interface::new(config, now);
    interface.add_ipv4(v4, 24, claim, now)?;
    interface.add_ipv6(v6, 64, now)?;
    interface.remove_address(v4.into(), now)?;
    interface.link_up(now);
    Ok(interface)
}

/// Neighbours and paths.
#[inline(never)]
pub fn probe_neighbours(
    interface: &mut Interface,
    ip: IpAddr,
    old: NextHop,
    now: Ns,
) -> (Resolution, Option<NextHop>, u16) {
    interface.confirm(old, now);
    interface.unwatch(old);
    let _ = interface.lookup(ip, now);
    let (resolution, hop) = interface.watch(ip, now);
    (resolution, hop, interface.path_mtu(ip))
}

/// Routes.
#[inline(never)]
pub fn probe_routes(
    interface: &mut Interface,
    prefix: Prefix,
    gateway: IpAddr,
    old: Prefix,
) -> Result<(), RouteError> {
    interface.set_route(prefix, gateway)?;
    interface.remove_route(old)
}

/// Groups.
#[inline(never)]
pub fn probe_groups(
    interface: &mut Interface,
    group: IpAddr,
    old: IpAddr,
    now: Ns,
) -> Result<(), GroupError> {
    interface.join(group, now)?;
    interface.leave(old, now)
}

/// Pings and events.
#[inline(never)]
pub fn probe_ping(
    interface: &mut Interface,
    ping: Ping,
    now: Ns,
) -> Result<Option<Event>, PingError> {
    interface.ping_with(ping, now)?;
    interface.ping(ping.ip, ping.ident, ping.seq, now)?;
    Ok(interface.next_event())
}

/// What there is.
#[inline(never)]
pub fn probe_tables(
    interface: &Interface,
    address: fn(&Address),
    neighbour: fn(Neighbour),
    ip: fn(IpAddr),
) {
    interface.addresses().for_each(address);
    interface.neighbours().for_each(neighbour);
    interface.groups().for_each(ip);
    interface.routers().for_each(|router| ip(router.into()));
}

fn main() {}
