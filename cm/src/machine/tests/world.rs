//! Both ends of connections, their programs, and what is on its way between them, in virtual time.

use std::boxed::Box;
use std::collections::{BTreeMap, BinaryHeap};
use std::vec::Vec;

use core::cmp::Reverse;

use e810_types::Ns;

use super::super::*;
use super::rig::{Dice, Memory, accept_with, connect_to, listen, machine, own_address};
use crate::ip::{self, PortSpace};

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
    /// Queue pair and id of the peer, once they are known.
    pub(super) peer: Option<(u32, u32)>,
    pub(super) known: Known,
    is_end_told: bool,
}

impl Link {
    const fn new(qpn: u32, peer: Option<(u32, u32)>) -> Self {
        Self {
            qpn,
            peer,
            known: Known::Waiting,
            is_end_told: false,
        }
    }
}

/// A function and its program.
pub(super) struct Side<'t> {
    pub(super) machine: Machine<'t>,
    /// Its connections; each has a queue pair.
    pub(super) links: BTreeMap<ConnectionId, Link>,
    /// Queue pairs that no connection has.
    pub(super) free_qps: Vec<u32>,
    pub(super) established: u64,
    /// How often each queue pair was given to a connection.
    pub(super) uses: BTreeMap<u32, u64>,
    config: Config,
    restarts: u64,
}

impl Side<'_> {
    /// Any free queue pair.
    fn take_qp(&mut self, dice: &mut Dice) -> Option<u32> {
        let count = self.free_qps.len() as u64;
        let at = (count > 0).then(|| dice.below(count))?;
        let qpn = self.free_qps.swap_remove(at as usize);
        *self.uses.entry(qpn).or_default() += 1;
        Some(qpn)
    }

    fn link(&mut self, id: ConnectionId) -> &mut Link {
        self.links.get_mut(&id).unwrap()
    }

    /// The end of a connection is told once.
    fn end_is_told(&mut self, id: ConnectionId) {
        let link = self.link(id);
        assert!(!link.is_end_told, "an end is told twice");
        link.is_end_told = true;
    }
}

enum Way {
    Datagram(Box<Mad>, Origin),
    Data(Data),
}

/// A message of a connection's queue pair to another one: numbers and ids of both.
struct Data {
    from: (u32, u32),
    to: (u32, u32),
    /// Restarts of the receiver when it was sent, if the receiver had the connection then.
    restarts: Option<u64>,
}

/// Both ends: two functions, or one that connects with itself.
pub(super) struct World<'t> {
    pub(super) sides: Vec<Side<'t>>,
    pub(super) now: Ns,
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    /// Programs send at once when they are connected.
    pub(super) sends_data: bool,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    on_way: BTreeMap<u64, Way>,
    serial: u64,
}

impl<'t> World<'t> {
    /// A function for each memory, with so many queue pairs.
    pub(super) fn new(
        memories: &'t mut [Memory],
        seed: u64,
        qps: u32,
        faults: Faults,
        retries: u8,
    ) -> Self {
        let side = |(n, memory): (usize, &'t mut Memory)| {
            let config = Config {
                retries,
                ..Config::new(0x0200_0000_0000_0001 + n as u64)
            };
            let mut machine = memory.machine(config, seed ^ n as u64);
            listen(&mut machine, PortSpace::Tcp);
            Side {
                machine,
                links: BTreeMap::new(),
                free_qps: (0..qps).map(|qp| 3 + qp).collect(),
                established: 0,
                uses: BTreeMap::new(),
                config,
                restarts: 0,
            }
        };
        Self {
            sides: memories.iter_mut().enumerate().map(side).collect(),
            now: Ns::ZERO,
            dice: Dice(seed),
            faults,
            sends_data: true,
            queue: BinaryHeap::new(),
            on_way: BTreeMap::new(),
            serial: 0,
        }
    }

    /// The side at the other end of a side's connections.
    fn other(&self, side: usize) -> usize {
        self.sides.len() - 1 - side
    }

    pub(super) fn connect(&mut self, from: usize) -> Option<ConnectionId> {
        let to = self.other(from);
        let side = &mut self.sides[from];
        let qpn = side.take_qp(&mut self.dice)?;
        let id = side.machine.connect(&connect_to(from, to, qpn)).unwrap();
        assert!(side.links.insert(id, Link::new(qpn, None)).is_none());
        Some(id)
    }

    /// A function begins anew and knows nothing of its connections, whose peers are not told.
    pub(super) fn restart(&mut self, side: usize, slots: usize) {
        let this = &mut self.sides[side];
        this.restarts += 1;
        this.machine = machine(slots, this.config, self.dice.next());
        listen(&mut this.machine, PortSpace::Tcp);
        let lost = core::mem::take(&mut this.links);
        this.free_qps
            .extend(lost.into_values().map(|link| link.qpn));
    }

    /// The program ends a connection.
    pub(super) fn disconnect(&mut self, from: usize, id: ConnectionId) {
        let side = &mut self.sides[from];
        side.link(id).known = Known::Failed;
        side.machine.disconnect(id, self.now).unwrap();
    }

    fn put(&mut self, to: usize, way: Way, delay: u64) {
        self.serial += 1;
        let at = self.now.0 + delay;
        self.queue.push(Reverse((at, self.serial, to)));
        self.on_way.insert(self.serial, way);
    }

    fn send(&mut self, from: usize, mad: &Mad, to: &Origin) {
        let own = ip::gid(own_address(from));
        let mut sides = 0..self.sides.len();
        let to_side = sides.find(|side| ip::gid(own_address(*side)) == to.remote);
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
        for side in 0..self.sides.len() {
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
            match self.on_way.remove(&serial).unwrap() {
                Way::Datagram(mad, origin) => {
                    self.sides[to].machine.receive(&mad[..], &origin, self.now);
                }
                Way::Data(data) => self.deliver(to, &data),
            }
            self.programs(to);
        }
        true
    }

    /// A message reaches the queue pair, if that is connected with the sender's.
    fn deliver(&mut self, to: usize, data: &Data) {
        let side = &mut self.sides[to];
        for (id, link) in &side.links {
            let is_from = link.peer.filter(|(peer, _)| *peer == data.from.0);
            if let Some((_, peer)) = is_from
                && link.qpn == data.to.0
                && link.known != Known::Failed
            {
                if id.number() == data.to.1 {
                    assert_eq!(peer, data.from.1);
                    side.machine.data_arrived(*id);
                } else {
                    // One that has forgotten the connection may have another one with the same
                    // REQ, of which the network had two copies: the PSN does not fit.
                    assert_ne!(data.restarts, Some(side.restarts), "an older connection's");
                }
            }
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
        let (now, other) = (self.now, self.other(side));
        let this = &mut self.sides[side];
        match event {
            Event::Requested { id, .. } => {
                let request = this.machine.request(id).unwrap();
                assert!(request.private_data.starts_with(b"request"));
                let req = request.req.unwrap();
                let peer = Some((req.local_qpn, req.local_comm_id));
                let mut peers = this.links.values().map(|link| link.peer);
                assert!(peers.all(|known| known != peer), "delivered twice");
                let Some(qpn) = this.take_qp(&mut self.dice) else {
                    this.machine
                        .reject(id, crate::Reason::NO_QP, &[], now)
                        .unwrap();
                    return this.machine.release(id, now).unwrap();
                };
                let link = Link::new(qpn, peer);
                assert!(this.links.insert(id, link).is_none(), "delivered twice");
                this.machine.accept(id, &accept_with(qpn)).unwrap();
            }
            Event::Accepted(id) => {
                let Some(Reply::Rep(rep)) = this.machine.reply(id) else {
                    panic!("no reply");
                };
                assert!(rep.private_data.starts_with(b"reply"));
                let link = this.link(id);
                assert_eq!((link.known, link.peer), (Known::Waiting, None));
                link.peer = Some((rep.local_qpn, rep.local_comm_id));
                link.known = Known::Established;
                let (from, to) = (link.qpn, (rep.local_qpn, rep.local_comm_id));
                this.established += 1;
                this.machine.ready(id).unwrap();
                if self.sends_data {
                    // A queue pair repeats what is lost.
                    let delay = 1_000 + self.dice.below(3_000_000);
                    let there = &self.sides[other];
                    let is_there = there.links.contains_key(&ConnectionId(to.1));
                    let data = Data {
                        from: (from, id.number()),
                        to,
                        restarts: is_there.then_some(there.restarts),
                    };
                    self.put(other, Way::Data(data), delay);
                }
            }
            Event::Established(id) => {
                let link = this.link(id);
                assert_eq!(link.known, Known::Waiting);
                link.known = Known::Established;
                this.established += 1;
            }
            Event::Disconnected(id) => {
                this.end_is_told(id);
                this.link(id).known = Known::Failed;
                if this.machine.state(id) == Some(State::DreqReceived) {
                    this.machine.disconnect(id, now).unwrap();
                }
            }
            Event::Rejected { id, .. } | Event::Unreachable(id) => {
                this.end_is_told(id);
                if this.machine.state(id) == Some(State::Idle) {
                    self.over(side, id);
                } else {
                    this.link(id).known = Known::Failed;
                }
            }
            Event::Over(id) => self.over(side, id),
        }
    }

    /// The queue pair of a connection is free.
    fn over(&mut self, side: usize, id: ConnectionId) {
        let this = &mut self.sides[side];
        let link = this.links.remove(&id).unwrap();
        this.free_qps.push(link.qpn);
        this.machine.release(id, self.now).unwrap();
    }

    /// The first connection of a side that its program has.
    pub(super) fn established(&self, side: usize) -> Option<ConnectionId> {
        let mut links = self.sides[side].links.iter();
        let found = links.find(|(_, link)| link.known == Known::Established);
        found.map(|(id, _)| *id)
    }

    /// Each connection that both programs have has two ends that know each other, and no queue pair
    /// is in two connections.
    pub(super) fn assert_pairs(&self) {
        for (n, side) in self.sides.iter().enumerate() {
            let others = &self.sides[self.other(n)].links;
            let own = side.links.iter();
            let established = own.filter(|(_, link)| link.known == Known::Established);
            let mut peers = Vec::new();
            for (id, link) in established {
                let (qpn, peer) = link.peer.unwrap();
                assert!(!peers.contains(&qpn), "two connections with one queue pair");
                peers.push(qpn);
                let of_qp = others
                    .iter()
                    .filter(|(_, other)| other.qpn == qpn && other.known == Known::Established);
                for (there, other) in of_qp {
                    let found = (there.number(), other.peer);
                    assert_eq!(found, (peer, Some((link.qpn, id.number()))));
                }
            }
        }
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
