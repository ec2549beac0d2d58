//! A flood of requests from invented senders.

use std::println;

use core::net::IpAddr;

use e810_types::Ns;

use super::super::*;
use super::rig::{Dice, accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, IpHeader, PortSpace};
use crate::{Header, Message, Req};

/// A REQ whose sender, GUID, id and queue pair nobody else has.
fn invented(dice: &mut Dice) -> (Mad, Origin) {
    let source = IpAddr::from((0x0B00_0000_u32 | dice.below(1 << 24) as u32).to_be_bytes());
    let mut private_data = [0; 92];
    let ip = IpHeader {
        port: dice.next() as u16,
        source,
        destination: own_address(1),
    };
    private_data[..ip::HEADER].copy_from_slice(&ip.encode());
    let req = Req {
        local_comm_id: dice.next() as u32,
        service_id: PortSpace::Tcp.service_id(super::rig::PORT),
        local_ca_guid: dice.next(),
        local_qpn: dice.next() as u32,
        partition_key: 0xFFFF,
        primary_local_port_gid: ip::gid(source),
        primary_remote_port_gid: ip::gid(own_address(1)),
        private_data,
        ..Req::default()
    };
    let origin = Origin {
        remote: ip::gid(source),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    };
    (req.encode(Header::default()), origin)
}

/// A million requests a second, whose senders never answer: a good peer, which answers within a
/// millisecond, gets in within its own repeats, and the tables stay as they are.
#[test]
fn a_good_peer_gets_in() {
    const SLOTS: usize = 4096;
    let mut dice = Dice(99);
    let mut server = machine(SLOTS, Config::new(1), 1);
    listen(&mut server, PortSpace::Tcp);
    let mut client = machine(4, Config::new(2), 2);
    client.connect(&connect_to(0, 1, 77)).unwrap();
    let mut mad = [0; 256];
    client.transmit(Ns::ZERO, &mut mad).unwrap();
    let good = Origin {
        remote: ip::gid(own_address(0)),
        local: ip::gid(own_address(1)),
        ..Origin::NOWHERE
    };
    let (mut now, mut repeats, mut answered) = (Ns::ZERO, 0, None);
    let mut asked = None;
    for n in 0..1_000_000_u64 {
        now = Ns(n * 1_000);
        // Its first repeat comes with the next flood; time until then passes unseen.
        if answered.is_none() && asked.is_none() && n % 50_000 == 0 {
            server.receive(&mad, &good, now);
            repeats += 1;
        }
        let (flood, origin) = invented(&mut dice);
        server.receive(&flood, &origin, now);
        if asked.is_none() && answered.is_none() && n % 50_000 == 0 {
            let mut places = 0..server.unreached_len();
            let found = places.find_map(|place| {
                let (id, origin) = server.unreached(place)?;
                (origin.remote == good.remote).then_some(id)
            });
            asked = found.map(|id| (id, now + Ns::from_us(1_000)));
        }
        if let Some((id, at)) = asked
            && now >= at
        {
            asked = None;
            if server.reached(id, now).is_ok() {
                server.accept(id, &accept_with(5)).unwrap();
                answered = Some(now);
            }
        }
    }
    let counters = *server.counters();
    let at = answered.expect("it got in");
    println!(
        "in after {} requests of its own, {at:?}; {counters:?}",
        repeats
    );
    assert!(repeats <= 16);
    assert!(SLOTS - server.free_slots() <= SLOTS / 4 + 1);
    // The flood is over: the reply goes out, and everything else is forgotten by who has it.
    let mut found = false;
    while let Some(to) = server.transmit(now, &mut mad) {
        found |= to.origin.remote == good.remote
            && matches!(Message::decode(&mad), Ok((_, Message::Rep(_))));
    }
    assert!(found);
}

/// One source has its share only.
#[test]
fn one_source_does_not_fill_the_tables() {
    let mut dice = Dice(3);
    let mut server = machine(1024, Config::new(1), 1);
    listen(&mut server, PortSpace::Tcp);
    let (_, source) = invented(&mut dice);
    for _ in 0..1000 {
        let (mad, _) = invented(&mut dice);
        server.receive(&mad, &source, Ns::ZERO);
    }
    assert_eq!(server.free_slots(), 1024 - 64);
    assert_eq!(server.counters().source_full, 1000 - 64);
    while let Some((id, _)) = server.unreached(0) {
        server.ignore(id).unwrap();
    }
    assert_eq!(server.free_slots(), 1024);
    let (mad, _) = invented(&mut dice);
    server.receive(&mad, &source, Ns::ZERO);
    assert_eq!(server.free_slots(), 1023);
}
