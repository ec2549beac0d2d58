//! The connection manager: any datagrams, calls and times leave tables of a fixed size, and when
//! the programs have gone and the peers do not answer, all of it is given back.

#![no_main]

use std::net::IpAddr;

use e810_cm::ip::PortSpace;
use e810_cm::machine::{
    Accept, Config, Connect, ConnectionId, Event, Listen, Listener, Machine, Origin, Path, Slot,
    Tables,
};
use e810_cm::{Mad, Message, Reason};
use e810_types::{MacAddr, Ns};
use libfuzzer_sys::fuzz_target;

const SLOTS: usize = 8;
const PORT: u16 = 7174;

/// Where datagrams come from.
const ORIGIN: Origin = Origin {
    remote: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 1],
    local: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 2],
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    vlan: None,
    flow_label: 0,
    traffic_class: 0,
};

fn connect(space: PortSpace) -> Connect<'static> {
    Connect {
        space,
        source: IpAddr::from([10, 0, 0, 2]),
        vlan: None,
        source_port: 1,
        destination: IpAddr::from([10, 0, 0, 1]),
        port: PORT,
        qpn: 5,
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        flow_control: false,
        srq: false,
        path: Path {
            mtu: 3,
            traffic_class: 0,
            hop_limit: 64,
            service_level: 0,
            flow_label: 0,
        },
        private_data: &[],
        context: 0,
    }
}

fuzz_target!(|data: &[u8]| {
    let (mut slots, mut listeners) = ([Slot::EMPTY; SLOTS], [Listener::EMPTY; 3]);
    let mut words = [0; Tables::words(SLOTS)];
    let tables = Tables {
        slots: &mut slots,
        listeners: &mut listeners,
        words: &mut words,
    };
    let mut machine = Machine::new(Config::new(1), tables, [7; 16]).expect("tables that fit");
    let spaces = [PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];
    for space in spaces {
        let listen = Listen {
            space,
            port: PORT,
            address: IpAddr::from([0; 4]),
            only_family: false,
            backlog: 3,
            context: 0,
        };
        machine.listen(listen).expect("a place");
    }
    let mut ids: Vec<ConnectionId> = Vec::new();
    let mut now = Ns::from_secs(1);
    let mut rest = data;
    while let Some((&[what, which], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        let id = ids.get(usize::from(which) % ids.len().max(1)).copied();
        match (what % 16, id) {
            (0 | 1, _) => {
                // A datagram, of which one word may be an id that a peer can know.
                let (given, after) = rest.split_at(rest.len().min(256));
                rest = after;
                let mut mad: Mad = [0; 256];
                mad[..given.len()].copy_from_slice(given);
                if what & 16 != 0 {
                    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
                    mad[16..18].copy_from_slice(&(0x10 + u16::from(what >> 5)).to_be_bytes());
                }
                if let Some(id) = id {
                    mad[28..32].copy_from_slice(&id.number().to_be_bytes());
                }
                if let Ok((header, message)) = Message::decode(&mad) {
                    let again = message.encode(header);
                    assert_eq!(Message::decode(&again), Ok((header, message)));
                }
                machine.receive(&mad, &ORIGIN, now);
            }
            (2, _) => ids.extend(machine.connect(&connect(spaces[usize::from(which % 3)]))),
            (3, _) => now = now + Ns::from_ms(u64::from(which) * 300),
            (4 | 5, _) => {
                machine.transmit(now, &mut [0; 256]);
            }
            (6, _) => ids.extend(machine.unreached(usize::from(which)).map(|(id, _)| id)),
            (_, None) => {}
            (7, Some(id)) => {
                let _ = machine.reached(id, now);
            }
            (8, Some(id)) => {
                let accept = Accept {
                    qpn: 6,
                    responder_resources: 1,
                    initiator_depth: 1,
                    rnr_retry_count: 7,
                    flow_control: false,
                    srq: false,
                    private_data: &[],
                    context: 0,
                };
                let _ = machine.accept(id, &accept);
            }
            (9, Some(id)) => {
                let _ = machine.reject(id, Reason::CONSUMER_DEFINED, &[], now);
            }
            (10, Some(id)) => {
                let _ = machine.ready(id);
            }
            (11, Some(id)) => machine.data_arrived(id),
            (12, Some(id)) => {
                let _ = machine.disconnect(id, now);
            }
            (13, Some(id)) => {
                let _ = machine.release(id, now);
            }
            (14, Some(id)) => {
                let _ = machine.ignore(id);
            }
            (_, Some(id)) => {
                let _ = machine.answer(id, Ok((5, 6)), &[]);
            }
        }
        while machine.poll(now) {}
        while let Some(event) = machine.event() {
            if let Event::Requested { id, .. } = event {
                ids.push(id);
            }
        }
    }
    // What was never reached is known to nobody.
    while let Some((id, _)) = machine.unreached(0) {
        machine.ignore(id).expect("it is there");
    }
    for id in ids {
        let _ = machine.release(id, now);
    }
    loop {
        while machine.transmit(now, &mut [0; 256]).is_some() {}
        let Some(at) = machine.deadline() else {
            break;
        };
        now = now.max(at);
        while machine.poll(now) {}
    }
    assert_eq!(machine.free_slots(), SLOTS);
});
