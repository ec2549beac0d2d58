//! Two ends, their programs, and what is on its way between them, in virtual time.

use std::collections::{BTreeMap, BinaryHeap};
use std::vec::Vec;
use std::{boxed::Box, vec};

use core::cmp::Reverse;
use core::net::IpAddr;

use e810_types::Ns;

use super::super::*;
use crate::ip::{self, PortSpace};

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

pub(super) fn machine(slots: usize, config: Config, seed: u64) -> Machine<'static> {
    let tables = Tables {
        slots: Box::leak(vec![Slot::EMPTY; slots].into_boxed_slice()),
        listeners: Box::leak(vec![Listener::EMPTY; 4].into_boxed_slice()),
        words: Box::leak(vec![0; Tables::words(slots)].into_boxed_slice()),
    };
    let mut random = [0; 16];
    random[..8].copy_from_slice(&seed.to_le_bytes());
    Machine::new(config, tables, random).unwrap()
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
    }
}

/// What a network does, in thousandths.
#[derive(Clone, Copy)]
pub(super) struct Faults {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Comes up to ten seconds late.
    pub(super) late: u64,
}

impl Faults {
    pub(super) const NONE: Self = Self {
        lost: 0,
        doubled: 0,
        late: 0,
    };
}

/// What a program knows of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    Waiting,
    Established,
    /// The queue pair is in ERROR.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) qpn: u32,
    pub(super) peer_qpn: u32,
    pub(super) known: Known,
}

pub(super) struct Side {
    pub(super) machine: Machine<'static>,
    /// Its connections; each has a queue pair.
    pub(super) links: BTreeMap<ConnectionId, Link>,
    /// Queue pairs that no connection has.
    pub(super) free_qps: Vec<u32>,
    pub(super) ends: Vec<(ConnectionId, Event)>,
    pub(super) established: u64,
}

enum Way {
    Datagram(Box<Mad>, Origin),
    /// A message of a queue pair to another one.
    Data {
        from: u32,
        to: u32,
    },
}

/// Both ends.
pub(super) struct World {
    pub(super) sides: [Side; 2],
    pub(super) now: Ns,
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    /// Programs send at once when they are connected.
    pub(super) sends_data: bool,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    on_way: BTreeMap<u64, (usize, Way)>,
    serial: u64,
}

impl World {
    pub(super) fn new(seed: u64, slots: usize, qps: u32, faults: Faults) -> Self {
        Self::with_retries(seed, slots, qps, faults, 15)
    }

    pub(super) fn with_retries(
        seed: u64,
        slots: usize,
        qps: u32,
        faults: Faults,
        retries: u8,
    ) -> Self {
        let side = |n: u64| {
            let config = Config {
                retries,
                ..Config::new(0x0200_0000_0000_0001 + n)
            };
            let mut machine = machine(slots, config, seed ^ n);
            listen(&mut machine, PortSpace::Tcp);
            Side {
                machine,
                links: BTreeMap::new(),
                free_qps: (0..qps).map(|qp| 3 + qp).collect(),
                ends: Vec::new(),
                established: 0,
            }
        };
        Self {
            sides: [side(0), side(1)],
            now: Ns::ZERO,
            dice: Dice(seed),
            faults,
            sends_data: true,
            queue: BinaryHeap::new(),
            on_way: BTreeMap::new(),
            serial: 0,
        }
    }

    pub(super) fn connect(&mut self, from: usize) -> Option<ConnectionId> {
        let side = &mut self.sides[from];
        let qpn = side.free_qps.pop()?;
        let connect = connect_to(from, 1 - from, qpn);
        let id = side.machine.connect(&connect).unwrap();
        let link = Link {
            qpn,
            peer_qpn: 0,
            known: Known::Waiting,
        };
        assert!(side.links.insert(id, link).is_none());
        Some(id)
    }

    /// The program ends a connection.
    pub(super) fn disconnect(&mut self, from: usize, id: ConnectionId) {
        let side = &mut self.sides[from];
        side.links.get_mut(&id).unwrap().known = Known::Failed;
        side.machine.disconnect(id, self.now).unwrap();
    }

    fn put(&mut self, to: usize, way: Way, delay: u64) {
        self.serial += 1;
        let at = self.now.0 + delay;
        self.queue.push(Reverse((at, self.serial, to)));
        self.on_way.insert(self.serial, (to, way));
    }

    fn send(&mut self, from: usize, mad: &Mad, to: &Origin) {
        let own = ip::gid(own_address(from));
        let to_side = (0..2).find(|side| ip::gid(own_address(*side)) == to.remote);
        let origin = Origin {
            remote: own,
            local: to.remote,
            ..Origin::NOWHERE
        };
        let copies = 1 + u64::from(self.dice.is(self.faults.doubled));
        for _ in 0..copies {
            if self.dice.is(self.faults.lost) {
                continue;
            }
            let mut delay = 1_000 + self.dice.below(100_000);
            if self.dice.is(self.faults.late) {
                delay += self.dice.below(10_000_000_000);
            }
            self.put(
                to_side.unwrap(),
                Way::Datagram(Box::new(*mad), origin),
                delay,
            );
        }
    }

    /// Everything that can be done at this time; false when nothing happens any more.
    pub(super) fn step(&mut self) -> bool {
        for side in 0..2 {
            while self.sides[side].machine.poll(self.now) {}
            self.programs(side);
            let mut mad = [0; 256];
            while let Some(to) = self.sides[side].machine.transmit(self.now, &mut mad) {
                self.send(side, &mad, &to.origin);
            }
        }
        let deadlines = self.sides.iter().filter_map(|side| side.machine.deadline());
        let arrival = self.queue.peek().map(|Reverse((at, ..))| Ns(*at));
        let Some(next) = deadlines.chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(next);
        if let Some(Reverse((at, serial, to))) = self.queue.peek().copied()
            && at <= self.now.0
        {
            self.queue.pop();
            match self.on_way.remove(&serial).unwrap().1 {
                Way::Datagram(mad, origin) => {
                    self.sides[to].machine.receive(&mad[..], &origin, self.now);
                }
                Way::Data { from, to: qpn } => self.deliver(to, from, qpn),
            }
            self.programs(to);
        }
        true
    }

    /// A message reaches the queue pair, if that is connected with the sender's.
    fn deliver(&mut self, to: usize, from: u32, qpn: u32) {
        let side = &mut self.sides[to];
        let links = side.links.iter();
        let mut there = links.filter(|(_, link)| link.qpn == qpn && link.peer_qpn == from);
        if let Some((id, link)) = there.next()
            && link.known != Known::Failed
        {
            side.machine.data_arrived(*id);
        }
    }

    fn programs(&mut self, side: usize) {
        let machine = &mut self.sides[side].machine;
        while let Some((id, _)) = machine.unreached(0) {
            machine.reached(id, self.now).unwrap();
        }
        while let Some(event) = self.sides[side].machine.event() {
            self.program(side, event);
        }
    }

    fn program(&mut self, side: usize, event: Event) {
        let now = self.now;
        let this = &mut self.sides[side];
        match event {
            Event::Requested { id, .. } => {
                let request = this.machine.request(id).unwrap();
                assert!(request.private_data.starts_with(b"request"));
                let peer_qpn = request.req.unwrap().local_qpn;
                let Some(qpn) = this.free_qps.pop() else {
                    this.machine.reject(id, crate::Reason::NO_QP, &[]).unwrap();
                    return this.machine.release(id, now).unwrap();
                };
                let link = Link {
                    qpn,
                    peer_qpn,
                    known: Known::Waiting,
                };
                assert!(this.links.insert(id, link).is_none(), "delivered twice");
                this.machine.accept(id, &accept_with(qpn)).unwrap();
            }
            Event::Accepted(id) => {
                let Some(Reply::Rep(rep)) = this.machine.reply(id) else {
                    panic!("no reply");
                };
                assert!(rep.private_data.starts_with(b"reply"));
                let link = this.links.get_mut(&id).unwrap();
                assert_eq!((link.known, link.peer_qpn), (Known::Waiting, 0));
                link.peer_qpn = rep.local_qpn;
                link.known = Known::Established;
                this.established += 1;
                this.machine.ready(id).unwrap();
                if self.sends_data {
                    let (from, to) = (link.qpn, link.peer_qpn);
                    // A queue pair repeats what is lost.
                    let delay = 1_000 + self.dice.below(3_000_000);
                    self.put(1 - side, Way::Data { from, to }, delay);
                }
            }
            Event::Established(id) => {
                let link = this.links.get_mut(&id).unwrap();
                assert_eq!(link.known, Known::Waiting);
                link.known = Known::Established;
                this.established += 1;
            }
            Event::Disconnected(id) => {
                this.ends.push((id, event));
                this.links.get_mut(&id).unwrap().known = Known::Failed;
                if this.machine.state(id) == Some(State::DreqReceived) {
                    this.machine.disconnect(id, now).unwrap();
                }
            }
            Event::Rejected { id, .. } | Event::Unreachable(id) => {
                this.ends.push((id, event));
                if this.machine.state(id) == Some(State::Idle) {
                    self.over(side, id);
                } else {
                    this.links.get_mut(&id).unwrap().known = Known::Failed;
                }
            }
            Event::Over(id) => self.over(side, id),
        }
    }

    /// The queue pair of a connection is free.
    fn over(&mut self, side: usize, id: ConnectionId) {
        let this = &mut self.sides[side];
        let link = this.links.remove(&id).unwrap();
        this.free_qps.insert(0, link.qpn);
        this.machine.release(id, self.now).unwrap();
    }

    /// Nothing is left of any connection.
    pub(super) fn assert_empty(&self, slots: usize) {
        for side in &self.sides {
            assert!(side.links.is_empty(), "{:?}", side.links);
            assert_eq!(side.machine.free_slots(), slots);
            assert_eq!(side.machine.deadline(), None);
        }
    }
}
