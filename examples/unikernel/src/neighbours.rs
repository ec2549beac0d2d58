//! Two functions find each other. Nobody tells them a MAC address: each asks the other, by ARP
//! and by neighbour discovery, and then for echoes.

use core::net::IpAddr;

use e810_hal::Ns;
use metal::say;

use crate::lan::Lan;
use crate::node::Node;
use crate::report::{Failure, Report};

/// How long something of this may take: an IPv4 address is probed for up to seven seconds
/// (RFC 5227 2.1.1), and a multiple of that is no sign of life.
const LIMIT: Ns = Ns::from_ms(20_000);
/// Pings each way, to each address.
const PINGS: u16 = 10;
/// Payloads of pings: other programs' usual one, and nearly a full frame.
const LENGTHS: [u16; 2] = [56, 1400];

/// Which address of a function.
type Address = fn(&Lan<'_>) -> IpAddr;
/// Each kind of address, and the rows of what is done with it.
const FAMILIES: [(Address, &str, &str); 2] = [
    (|lan| lan.ipv4(), "MACs, by ARP", "pings, IPv4"),
    (|lan| lan.link_local(), "MACs, by ND", "pings, IPv6"),
];

/// Both functions, each at the other's end of the wire.
pub(crate) type Both<'a, 'm> = [&'a mut Node<'m>; 2];

/// Waits for both functions' addresses, has each find the other's MAC address at each of them,
/// and has each ping the other there.
pub(crate) fn find(mut nodes: Both<'_, '_>, report: &mut Report<'_>) -> Result<(), Failure> {
    until(&mut nodes, "addresses that nobody else has", |[a, b]| {
        Ok((a.lan.is_ready() && b.lan.is_ready()).then_some(()))
    })?;
    report.row("addresses", 4);
    for (address, by_name, echoes) in FAMILIES {
        let (mut found, mut answered) = (0, 0);
        for _ in 0..2 {
            found += resolve(&mut nodes, address)?;
            nodes.reverse();
        }
        report.row(by_name, found);
        for _ in 0..2 {
            answered += ping(&mut nodes, address)?;
            nodes.reverse();
        }
        report.row(echoes, answered);
    }
    Ok(())
}

/// The first function finds the second one.
fn resolve(nodes: &mut Both<'_, '_>, address: Address) -> Result<u64, Failure> {
    let [_, asked] = nodes;
    let ip = address(&asked.lan);
    let mac = until(nodes, "an answer of the neighbour", |[asker, _]| {
        asker.lan.resolve(ip)
    })?;
    say!("{ip} is at {}", mac);
    let [_, asked] = nodes;
    match mac == asked.control.lan().mac {
        true => Ok(1),
        false => Err(Failure::Misled(ip)),
    }
}

/// The first function pings the second one; how many echoes came back.
fn ping(nodes: &mut Both<'_, '_>, address: Address) -> Result<u64, Failure> {
    let [_, asked] = nodes;
    let (ip, before) = (address(&asked.lan), asked.lan.answered());
    let mut replies = 0;
    for (seq, length) in (0..PINGS).zip(LENGTHS.into_iter().cycle()) {
        let [asker, _] = nodes;
        asker.lan.ping(ip, seq, length)?;
        until(nodes, "an echo", |[asker, _]| {
            Ok(asker.lan.replied(ip, seq, length).then_some(()))
        })?;
        replies += 1;
    }
    let [_, asked] = nodes;
    let answered = asked.lan.answered() - before;
    match answered == replies {
        true => Ok(replies),
        false => Err(Failure::Echoes { answered, replies }),
    }
}

/// Lets both work until `done` has something.
fn until<'a, 'm, T>(
    nodes: &mut Both<'a, 'm>,
    what: &'static str,
    mut done: impl FnMut(&mut Both<'a, 'm>) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let [first, _] = &nodes;
    let machine = first.metal.machine();
    let end = machine.now() + LIMIT;
    loop {
        for node in nodes.iter_mut() {
            node.progress(None)?;
        }
        if let Some(done) = done(nodes)? {
            return Ok(done);
        }
        if machine.now() > end {
            return Err(Failure::Silence(what));
        }
    }
}
