//! Connections by the connection manager, between two functions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use e810::{
    Data, MacAddr, Op, Platform, QpAttr, SendFlags, SendWr, SharedBytes, WcOpcode, WcStatus,
};
use e810_cm::Machine;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{
    Accept, Config, Connect, ConnectionId, Event, Listen, Listener, Path, Slot, State, Tables,
};
use e810_connect::{Attributes, Gsi, Happened, Lookup, Manager, Neighbours};
use e810_hal::Ns;
use e810_tests::traffic::{Pair, Setup};

use crate::verbs::sim;

const PORT: u16 = 7174;
const SLOTS: usize = 16;

/// Neighbours that are known, or not yet.
struct Known {
    macs: BTreeMap<IpAddr, MacAddr>,
    /// Looks that find nothing yet.
    pending: u32,
}

impl Neighbours for Known {
    fn lookup(&mut self, _own: IpAddr, destination: IpAddr) -> Lookup {
        if let Some(left) = self.pending.checked_sub(1) {
            self.pending = left;
            return Lookup::Pending;
        }
        match self.macs.get(&destination) {
            Some(mac) => Lookup::Known(*mac, 64),
            None => Lookup::Unreachable,
        }
    }
}

/// The managers of both sides of a pair. Queue pair 1 of each side is the connection's.
struct World<P: Platform> {
    pair: Pair<P>,
    managers: [Manager<'static, P>; 2],
    neighbours: Known,
    events: [Vec<Event>; 2],
}

fn leak<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    vec![value; count].leak()
}

impl<P: Platform> World<P> {
    fn new(mut pair: Pair<P>) -> Self {
        let managers = [0, 1].map(|n| {
            let side = pair.side(n);
            let memory = SharedBytes::from_static(leak(0_u64, Gsi::<P>::bytes(32) / 8));
            let gsi = Gsi::open(&mut side.control, memory, 0).unwrap();
            let tables = Tables {
                slots: leak(Slot::EMPTY, SLOTS),
                listeners: leak(Listener::EMPTY, 4),
                words: leak(0, Tables::words(SLOTS)),
            };
            let config = Config::new(0x0200_00FF_FE00_0001 + n as u64);
            let machine = Machine::new(config, tables, [n as u8 + 1; 16]).unwrap();
            Manager::new(machine, gsi)
        });
        let macs = pair.sides.iter();
        let macs = macs
            .map(|side| (side.ip(), side.control.lan().mac))
            .collect();
        for side in &mut pair.sides {
            side.add_qp();
        }
        Self {
            pair,
            managers,
            neighbours: Known { macs, pending: 0 },
            events: [Vec::new(), Vec::new()],
        }
    }

    fn now(&self) -> Ns {
        self.pair.now()
    }

    /// Lets both managers work, and time pass.
    fn turn(&mut self) {
        for n in 0..2 {
            let now = self.now();
            let side = self.pair.side(n);
            let happened = self.managers[n]
                .progress(&mut side.control, &mut self.neighbours, now)
                .unwrap();
            if let Happened::Event(event) = happened {
                self.events[n].push(event);
            }
        }
        self.pair.pump();
    }

    /// The next event of a side.
    fn event(&mut self, n: usize) -> Event {
        let begin = self.now();
        while self.events[n].is_empty() {
            assert!(self.now() - begin < Ns::from_secs(100), "no event");
            self.turn();
        }
        self.events[n].remove(0)
    }

    fn modify(&mut self, n: usize, attr: &QpAttr) {
        let side = self.pair.side(n);
        side.control.modify_qp(&mut side.qps[1], attr).unwrap();
    }

    fn initialise(&mut self, n: usize) {
        self.modify(n, &Attributes::to_init(4));
        let side = self.pair.side(n);
        let sges = [side.sge(side.incoming(), 100)];
        side.post_recv(1, 7, &sges).unwrap();
    }

    fn listen(&mut self) {
        let listen = Listen {
            space: PortSpace::Tcp,
            port: PORT,
            address: IpAddr::from([0; 4]),
            only_family: false,
            backlog: 4,
            context: 0,
        };
        self.managers[1].machine().listen(listen).unwrap();
    }

    fn ask(&mut self) -> ConnectionId {
        self.initialise(0);
        let [source, destination] = [0, 1].map(|n| self.pair.sides[n].ip());
        let connect = Connect {
            space: PortSpace::Tcp,
            source,
            source_port: self.managers[0].machine().port(),
            destination,
            port: PORT,
            qpn: self.pair.sides[0].qps[1].number().get(),
            responder_resources: 4,
            initiator_depth: 3,
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
            private_data: b"hello",
            context: 1,
        };
        self.managers[0].connect(&connect).unwrap()
    }

    fn accept(&mut self, id: ConnectionId) {
        self.initialise(1);
        let accept = Accept {
            qpn: self.pair.sides[1].qps[1].number().get(),
            responder_resources: 3,
            initiator_depth: 4,
            rnr_retry_count: 7,
            flow_control: false,
            srq: false,
            private_data: b"welcome",
        };
        let side = self.pair.side(1);
        let (control, qp) = (&mut side.control, &mut *side.qps[1]);
        self.managers[1]
            .accept(control, &mut self.neighbours, (id, qp), &accept)
            .unwrap();
    }

    /// A message, which is compared.
    fn message(&mut self, from: usize) {
        let text = [b'a' + from as u8; 50];
        let request = SendWr {
            wr_id: 9,
            op: Op::Send {
                data: Data::Inline(&[&text]),
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        self.pair.side(from).post_send(1, &[request]).unwrap();
        let sent = self.pair.completions(from, 1)[0];
        assert_eq!((sent.status, sent.wr_id), (WcStatus::Success, 9));
        let received = self.pair.completions(1 - from, 1)[0];
        assert_eq!(
            (received.status, received.opcode, received.byte_len),
            (WcStatus::Success, WcOpcode::Recv, 50)
        );
        let there = self.pair.side(1 - from);
        assert_eq!(there.buffer.read(there.incoming(), 50), text);
    }

    fn complete(&mut self, id: ConnectionId) {
        let side = self.pair.side(0);
        let (control, qp) = (&mut side.control, &mut *side.qps[1]);
        self.managers[0]
            .complete(control, &mut self.neighbours, (id, qp))
            .unwrap();
    }

    fn disconnect(&mut self, n: usize, id: ConnectionId) {
        let now = self.now();
        let side = self.pair.side(n);
        let (control, qp) = (&mut side.control, &mut *side.qps[1]);
        self.managers[n].disconnect(control, (id, qp), now).unwrap();
    }

    fn end(mut self, sim: &e810_sim::Sim)
    where
        Pair<P>: Finish,
    {
        for (n, manager) in self.managers.into_iter().enumerate() {
            let side = self.pair.side(n);
            manager.close(&mut side.control).unwrap();
            let qp = side.qps.pop().unwrap();
            let destroyed = side.control.destroy_qp(qp);
            destroyed.map_err(|(_, error)| error).unwrap();
            for cq in &mut side.cqs {
                cq.forget_gone();
            }
            side.take();
        }
        self.pair.end(sim);
    }
}

/// What only a pair on the simulator has.
trait Finish {
    fn end(self, sim: &e810_sim::Sim);
}

impl<P: Platform> Finish for Pair<P> {
    fn end(self, sim: &e810_sim::Sim) {
        self.close();
        assert_eq!(sim.findings(), []);
    }
}

#[test]
fn connect_talk_and_part() {
    let sim = sim(45);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    let mut parted = 0;
    for round in 0..2 {
        let asked = world.ask();
        // The passive side has to look for the sender first.
        world.neighbours.pending = 0;
        let Event::Requested { id, .. } = world.event(1) else {
            panic!("no request");
        };
        let request = world.managers[1].machine().request(id).unwrap();
        assert!(request.private_data.starts_with(b"hello"));
        assert_eq!(request.ip.unwrap().destination, world.pair.sides[1].ip());
        world.accept(id);
        assert_eq!(world.event(0), Event::Accepted(asked));
        world.complete(asked);
        assert_eq!(world.event(1), Event::Established(id));
        for from in 0..2 {
            world.message(from);
        }
        // Either side ends it.
        let ender = round % 2;
        let ids = [asked, id];
        world.disconnect(ender, ids[ender]);
        assert_eq!(world.event(1 - ender), Event::Disconnected(ids[1 - ender]));
        world.disconnect(1 - ender, ids[1 - ender]);
        assert_eq!(world.event(ender), Event::Disconnected(ids[ender]));
        for (n, id) in ids.into_iter().enumerate() {
            assert_eq!(world.event(n), Event::Over(id));
            let now = world.now();
            assert_eq!(world.managers[n].machine().state(id), Some(State::Idle));
            world.managers[n].machine().release(id, now).unwrap();
            parted += 1;
            // Another queue pair for the next round.
            let side = world.pair.side(n);
            let qp = side.qps.pop().unwrap();
            let destroyed = side.control.destroy_qp(qp);
            destroyed.map_err(|(_, error)| error).unwrap();
            side.take();
            side.add_qp();
        }
    }
    assert_eq!(parted, 4);
    for manager in &mut world.managers {
        assert_eq!(manager.machine().free_slots(), SLOTS);
        assert_eq!((manager.not_sent(), manager.gsi().strangers()), (0, 0));
    }
    world.end(&sim);
}

/// Nobody listens; and the sender of a request that does not answer is forgotten.
#[test]
fn nobody_is_there() {
    let sim = sim(46);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    let asked = world.ask();
    let Event::Rejected { id, reason } = world.event(0) else {
        panic!("not refused");
    };
    assert_eq!((id, reason.0), (asked, 8));
    let now = world.now();
    world.managers[0].machine().release(asked, now).unwrap();
    world.listen();
    let own = world.pair.sides[0].ip();
    let mac = world.neighbours.macs.remove(&own);
    assert!(mac.is_some());
    let [source, destination] = [0, 1].map(|n| world.pair.sides[n].ip());
    let connect = Connect {
        space: PortSpace::Tcp,
        source,
        source_port: 1,
        destination,
        port: PORT,
        qpn: 77,
        responder_resources: 0,
        initiator_depth: 0,
        retry_count: 0,
        rnr_retry_count: 0,
        flow_control: false,
        srq: false,
        path: Path {
            mtu: 3,
            traffic_class: 0,
            hop_limit: 1,
            service_level: 0,
            flow_label: 0,
        },
        private_data: &[],
        context: 1,
    };
    let asked = world.managers[0].connect(&connect).unwrap();
    let begin = world.now();
    while world.now() - begin < Ns::from_ms(100) {
        world.turn();
    }
    assert_eq!(world.events, [Vec::new(), Vec::new()]);
    assert_eq!(world.managers[1].machine().free_slots(), SLOTS);
    let now = world.now();
    world.managers[0].machine().release(asked, now).unwrap();
    world.turn();
    world.end(&sim);
}
