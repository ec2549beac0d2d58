//! Calls of the connection manager in any order, with any numbers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use e810_attach::owner::{AskedLimits, Owner};
use e810_backends::HostDevice;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Accept, Connect, ConnectionId, Listen};
use e810_connect::{Answer, Call, News};

use crate::greedy::{OTHER, OWN, USER, ask, connect, listen, reception, with_qp};
use crate::hostile_commands::Draw;
use crate::program::Client;
use crate::{Scenario, with_function};

/// By two programs.
#[derive(Clone, Copy)]
struct AnyCalls;

fn ip(draw: &mut Draw) -> IpAddr {
    match draw.below(14) {
        0 => [224, 0, 0, 1].into(),
        1 => [255; 4].into(),
        2 => [0; 4].into(),
        3 => [127, 0, 0, 1].into(),
        4 => Ipv6Addr::LOCALHOST.into(),
        5 => Ipv6Addr::UNSPECIFIED.into(),
        6 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(),
        7 => Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a08, 0x0101).into(),
        8 => [10, 8, 1, draw.below(256) as u8].into(),
        _ => OWN.into(),
    }
}

fn space(draw: &mut Draw) -> PortSpace {
    draw.of(&[
        PortSpace::Tcp,
        PortSpace::Tcp,
        PortSpace::Udp,
        PortSpace::Ib,
        PortSpace::Ipoib,
    ])
}

impl Scenario for AnyCalls {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        let seeds: u64 = std::env::var("E810_HOSTILE").map_or(10, |n| n.parse().unwrap());
        let mut carried_out = BTreeSet::new();
        for seed in 1..=seeds {
            let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let both = [USER, OTHER].map(|uid| Client::received(&reception, uid).unwrap());
            let queues = both.each_ref().map(with_qp);
            let mut ids: Vec<ConnectionId> = Vec::new();
            let mut listeners = Vec::new();
            let bytes = [0x5A; 300];
            for _ in 0..1500 {
                let who = draw.below(2);
                let client = &both[who];
                while !client.is_told_nothing() {
                    ids.push(client.is_told().id);
                }
                let most = draw.below(2);
                let data = &bytes[..[draw.below(60), draw.below(300)][most]];
                let qpn = match draw.below(4) {
                    0 => draw.odd() as u32,
                    _ => queues[who].2.number.get(),
                };
                let id = match ids.len() {
                    0 => None,
                    n => Some(ids[n - 1 - draw.below(n.min(6))]),
                };
                let call = match (draw.below(16), id) {
                    (0 | 1, _) => Call::Listen(Listen {
                        space: space(&mut draw),
                        port: [7, 7, 8, 0, draw.odd() as u16][draw.below(5)],
                        address: ip(&mut draw),
                        only_family: draw.below(2) == 0,
                        backlog: draw.odd() as u32,
                        context: draw.odd(),
                    }),
                    (2, _) if !listeners.is_empty() => {
                        Call::Unlisten(listeners[draw.below(listeners.len())])
                    }
                    (4, Some(id)) => Call::Attributes(id, [draw.odd() as u8, draw.odd() as u8]),
                    (5 | 6, Some(id)) => Call::Accept(
                        id,
                        Accept {
                            qpn,
                            responder_resources: draw.odd() as u8,
                            initiator_depth: draw.odd() as u8,
                            rnr_retry_count: draw.odd() as u8,
                            flow_control: true,
                            srq: true,
                            private_data: data,
                            context: draw.odd(),
                        },
                    ),
                    (7, Some(id)) => Call::Ready(id),
                    (8, Some(id)) => Call::Reject(id, e810_cm::Reason(draw.odd() as u16), data),
                    (9, Some(id)) => Call::Answer(
                        id,
                        match draw.below(3) {
                            0 => Err(draw.odd() as u8),
                            _ => Ok((qpn, draw.odd() as u32)),
                        },
                        data,
                    ),
                    (10, Some(id)) => Call::Path(id),
                    (11, Some(id)) => Call::DataArrived(id),
                    (12, Some(id)) => Call::Disconnect(id),
                    (13, Some(id)) => Call::Release(id),
                    _ => Call::Connect(Connect {
                        space: space(&mut draw),
                        source: ip(&mut draw),
                        vlan: [None, None, None, Some(draw.odd() as u16)][draw.below(4)],
                        source_port: draw.odd() as u16,
                        destination: ip(&mut draw),
                        port: [7, 7, 8, draw.odd() as u16][draw.below(4)],
                        qpn,
                        responder_resources: draw.odd() as u8,
                        initiator_depth: draw.odd() as u8,
                        retry_count: draw.odd() as u8,
                        rnr_retry_count: draw.odd() as u8,
                        flow_control: false,
                        srq: false,
                        path: e810_cm::machine::Path {
                            mtu: draw.odd() as u8,
                            traffic_class: draw.odd() as u8,
                            hop_limit: draw.odd() as u8,
                            service_level: draw.odd() as u8,
                            flow_label: draw.odd() as u32,
                        },
                        private_data: data,
                        context: draw.odd(),
                    }),
                };
                let name = format!("{call:?}");
                let name = name.split(['(', ' ']).next().unwrap().to_owned();
                let answered = ask(client, call);
                if matches!(answered, Ok(Ok(_))) {
                    carried_out.insert(name);
                }
                match answered {
                    Ok(Ok(Answer::Connection(id))) => ids.push(id),
                    Ok(Ok(Answer::Listener(listener, _))) => listeners.push(listener),
                    Err(refused) => {
                        assert_ne!(refused.errno, libc::EIO, "seed {seed}: {call:?}: {refused}");
                    }
                    _ => {}
                }
            }
            for client in both {
                client.die();
            }
            assert_eq!(owner.programs().len(), 0, "seed {seed}");
        }
        for name in [
            "Listen",
            "Unlisten",
            "Connect",
            "Attributes",
            "Accept",
            "Ready",
            "Reject",
            "Answer",
            "Path",
            "DataArrived",
            "Disconnect",
            "Release",
        ] {
            assert!(carried_out.contains(name), "no {name} was carried out");
        }
        let client = Client::received(&reception, USER).unwrap();
        listen(&client, 8);
        let theirs = with_qp(&client);
        connect(&client, theirs.2.number.get(), OWN.into(), OWN.into())
            .unwrap()
            .unwrap();
        assert!(matches!(client.is_told().news, News::Requested(_)));
    }
}

#[test]
fn calls_in_any_order_harm_nobody() {
    with_function(AnyCalls);
}
