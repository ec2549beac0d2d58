//! Random numbers, machines, and what they are asked for.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use core::net::IpAddr;

use super::super::*;
use crate::ip::PortSpace;

/// Random numbers of a run (SplitMix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in so many of a thousand cases.
    pub(super) fn is(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}

pub(super) const PORT: u16 = 7174;
pub(super) const PATH: Path = Path {
    mtu: 3,
    traffic_class: 0,
    hop_limit: 64,
    service_level: 0,
    flow_label: 0,
};

pub(super) fn own_address(side: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, side as u8 + 1])
}

/// What a machine needs: each run of many uses the same.
pub(super) struct Memory {
    slots: Vec<Slot>,
    listeners: Vec<Listener>,
    words: Vec<u32>,
}

impl Memory {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots: vec![Slot::EMPTY; slots],
            listeners: vec![Listener::EMPTY; 4],
            words: vec![0; Tables::words(slots)],
        }
    }

    pub(super) fn machine(&mut self, config: Config, seed: u64) -> Machine<'_> {
        let tables = Tables {
            slots: &mut self.slots,
            listeners: &mut self.listeners,
            words: &mut self.words,
        };
        let mut random = [0; 16];
        random[..8].copy_from_slice(&seed.to_le_bytes());
        Machine::new(config, tables, random).unwrap()
    }
}

pub(super) fn machine(slots: usize, config: Config, seed: u64) -> Machine<'static> {
    Box::leak(Box::new(Memory::new(slots))).machine(config, seed)
}

pub(super) fn listen(machine: &mut Machine<'_>, space: PortSpace) -> ListenerId {
    let listen = Listen {
        space,
        port: PORT,
        address: IpAddr::from([0; 4]),
        only_family: false,
        backlog: 1000,
        context: 7,
    };
    machine.listen(listen).unwrap()
}

pub(super) fn connect_to<'a>(from: usize, to: usize, qpn: u32) -> Connect<'a> {
    Connect {
        space: PortSpace::Tcp,
        source: own_address(from),
        vlan: None,
        source_port: 40_000,
        destination: own_address(to),
        port: PORT,
        qpn,
        responder_resources: 4,
        initiator_depth: 3,
        retry_count: 7,
        rnr_retry_count: 7,
        flow_control: false,
        srq: false,
        path: PATH,
        private_data: b"request",
        context: 5,
    }
}

pub(super) fn accept_with<'a>(qpn: u32) -> Accept<'a> {
    Accept {
        qpn,
        responder_resources: 3,
        initiator_depth: 4,
        rnr_retry_count: 7,
        flow_control: false,
        srq: false,
        private_data: b"reply",
        context: 0,
    }
}
