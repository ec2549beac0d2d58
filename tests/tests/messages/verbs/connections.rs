//! Connections by the connection manager, between two functions.

mod queue_pair_1;
mod refusals;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use e810::{
    AccessFlags, Data, GidEntry, MacAddr, Op, Path, Platform, QpAttr, QpControl, RecvWr, SendFlags,
    SendWr, SharedBytes, WcOpcode, WcStatus,
};
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Config, Connect, Listen, Listener, Slot, State, Tables};
use e810_cm::{Machine, Reason};
use e810_connect::{
    Answer, Call, Connection, Grant, Gsi, GsiError, Happened, Local, Lookup, Manager, Neighbours,
    News, NotConnected, Phase, Question, Refused, Requested, Service, Told,
};
use e810_hal::Ns;
use e810_sim::pe::{Breakage, Subject};
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
    fn lookup(&mut self, question: &Question) -> Lookup {
        if let Some(left) = self.pending.checked_sub(1) {
            self.pending = left;
            return Lookup::Pending;
        }
        match self.macs.get(&question.destination) {
            Some(mac) => Lookup::Known(*mac, 64),
            None => Lookup::Unreachable,
        }
    }
}

/// The managers of both sides of a pair.
struct World<P: Platform> {
    pair: Pair<P>,
    managers: [Manager<'static, P>; 2],
    neighbours: Known,
    told: [Vec<Told>; 2],
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
            let config = Config::new(side.control.query_device().node_guid);
            let machine = Machine::new(config, tables, [n as u8 + 1; 16]).unwrap();
            Manager::new(machine, gsi)
        });
        let macs = pair.sides.iter();
        let macs = macs
            .map(|side| (side.ip(), side.control.lan().mac))
            .collect();
        Self {
            pair,
            managers,
            neighbours: Known { macs, pending: 0 },
            told: [Vec::new(), Vec::new()],
        }
    }

    fn now(&self) -> Ns {
        self.pair.now()
    }

    fn local(&mut self, n: usize) -> Local<'_, 'static, P> {
        let now = self.now();
        Local {
            manager: &mut self.managers[n],
            control: &mut self.pair.sides[n].control,
            neighbours: &mut self.neighbours,
            now,
        }
    }

    /// Lets both managers work, and time pass.
    fn turn(&mut self) {
        for n in 0..2 {
            let Local {
                manager,
                control,
                neighbours,
                now,
            } = self.local(n);
            let happened = manager.progress(control, neighbours, now).unwrap();
            if let Happened::Told(told) = happened {
                self.told[n].push(told);
            }
        }
        self.pair.pump();
    }

    /// What a side is told next.
    fn told(&mut self, n: usize) -> Told {
        let begin = self.now();
        while self.told[n].is_empty() {
            assert!(self.now() - begin < Ns::from_secs(100), "nothing is told");
            self.turn();
        }
        self.told[n].remove(0)
    }

    /// What a side is told next, heard by its connection.
    fn hear(&mut self, n: usize, connection: &mut Connection<P>) -> News {
        let told = self.told(n);
        connection.hear(&mut self.local(n), &told).unwrap();
        assert_eq!(Some(told.id), connection.id());
        told.news
    }

    /// A connection of a side with one receive.
    fn connection(&mut self, n: usize) -> Connection<P> {
        self.pair.side(n).add_qp();
        let qp = self.pair.side(n).qps.pop().unwrap();
        let made = Connection::new(&mut self.local(n), qp, 4);
        let mut connection = made.map_err(|(_, error)| error).unwrap();
        let side = self.pair.side(n);
        let sges = [side.sge(side.incoming(), 100)];
        let receive = RecvWr {
            wr_id: 7,
            sges: &sges,
        };
        connection.qp().post_recv(&[receive]).unwrap();
        connection
    }

    fn listen(&mut self) {
        let listen = Listen {
            space: PortSpace::Tcp,
            port: PORT,
            address: IpAddr::from([0; 4]),
            only_family: false,
            backlog: 4,
            context: 44,
        };
        let answer = self.local(1).call(&Call::Listen(listen)).unwrap();
        assert!(matches!(answer, Answer::Listener(_, PORT)));
    }

    /// The address of the side that is asked.
    fn there(&self) -> SocketAddr {
        (self.pair.sides[1].ip(), PORT).into()
    }

    fn ask(&mut self) -> Connection<P> {
        let mut connection = self.connection(0);
        let ask = Connect {
            responder_resources: 4,
            initiator_depth: 3,
            private_data: b"hello",
            context: 33,
            ..Connect::new(self.pair.sides[0].ip(), self.there())
        };
        connection.connect(&mut self.local(0), &ask).unwrap();
        connection
    }

    fn request(&mut self) -> Told {
        let told = self.told(1);
        assert_eq!(told.context, 44);
        assert!(matches!(told.news, News::Requested(_)));
        told
    }

    fn accept(&mut self, request: &Told) -> Connection<P> {
        let mut connection = self.connection(1);
        let grant = Grant {
            responder_resources: 2,
            private_data: b"welcome",
            ..Grant::default()
        };
        let local = &mut self.local(1);
        connection.accept(local, request, &grant).unwrap();
        connection
    }

    /// Two connected ends.
    fn connect(&mut self) -> [Connection<P>; 2] {
        let mut active = self.ask();
        let request = self.request();
        let mut passive = self.accept(&request);
        let News::Accepted { private_data, .. } = self.hear(0, &mut active) else {
            unreachable!("not accepted");
        };
        assert!(private_data.starts_with(b"welcome"));
        assert_eq!(self.hear(1, &mut passive), News::Established);
        [active, passive]
    }

    /// A message from one end to the other, which is compared.
    fn message(&mut self, connections: &mut [Connection<P>; 2], from: usize) {
        let text = [b'a' + from as u8; 50];
        let request = SendWr {
            wr_id: 9,
            op: Op::Send {
                data: Data::Inline(&[&text]),
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        connections[from].qp().post_send(&[request]).unwrap();
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

    /// Gives a connection back, and what it was on.
    fn give_back(&mut self, n: usize, connection: Connection<P>) {
        let qp = connection.end(&mut self.local(n));
        let side = self.pair.side(n);
        let destroyed = side.control.destroy_qp(qp);
        destroyed.map_err(|(_, error)| error).unwrap();
        side.take();
    }

    fn end(mut self, sim: &e810_sim::Sim) {
        for (n, mut manager) in self.managers.into_iter().enumerate() {
            assert_eq!(manager.machine().free_slots(), SLOTS);
            assert_eq!(manager.gsi().strangers(), 0);
            let side = self.pair.side(n);
            manager.close(&mut side.control).1.unwrap();
            for cq in &mut side.cqs {
                cq.forget_gone();
            }
        }
        self.pair.close();
        assert_eq!(sim.findings(), []);
    }
}

#[test]
fn connect_talk_and_part() {
    let sim = sim(45);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    for ender in 0..2 {
        let mut ends = world.connect();
        assert_eq!(
            ends.each_ref().map(Connection::phase),
            [Phase::Established; 2]
        );
        for from in 0..2 {
            world.message(&mut ends, from);
        }
        // Either side ends it.
        ends[ender].disconnect(&mut world.local(ender)).unwrap();
        for n in [1 - ender, ender] {
            assert_eq!(world.hear(n, &mut ends[n]), News::Disconnected);
        }
        for (n, mut end) in ends.into_iter().enumerate() {
            assert_eq!(end.phase(), Phase::Ending);
            assert_eq!(world.hear(n, &mut end), News::Over);
            assert_eq!(end.phase(), Phase::Over);
            let id = end.id().unwrap();
            assert_eq!(world.managers[n].machine().state(id), Some(State::Idle));
            world.give_back(n, end);
        }
    }
    assert_eq!(world.managers.each_ref().map(Manager::not_sent), [0; 2]);
    world.end(&sim);
}

/// Each side reads as much as the other answers, and what it asked for itself.
#[test]
fn depths_are_agreed() {
    let sim = sim(47);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    let mut active = world.ask();
    let request = world.request();
    let News::Requested(Requested {
        responder_resources,
        initiator_depth,
        private_data,
        source,
        ..
    }) = &request.news
    else {
        panic!("no request");
    };
    assert_eq!((*responder_resources, *initiator_depth), (4, 3));
    assert!(private_data.starts_with(b"hello"));
    assert_eq!(*source, world.pair.sides[0].ip());
    let mut passive = world.accept(&request);
    let News::Accepted {
        responder_resources,
        initiator_depth,
        ..
    } = world.hear(0, &mut active)
    else {
        panic!("not accepted");
    };
    // It grants 2, and would read 16 times where the peer answers 4.
    assert_eq!((responder_resources, initiator_depth), (2, 4));
    let depths = |connection: &mut Connection<_>, control: &e810::Control<_>| {
        let queried = control
            .query_qp(connection.qp(), e810::AttrMask::all())
            .unwrap();
        [queried.attr.max_dest_rd_atomic, queried.attr.max_rd_atomic]
    };
    let control = &world.pair.sides[0].control;
    assert_eq!(depths(&mut active, control), [Some(4), Some(2)]);
    let control = &world.pair.sides[1].control;
    assert_eq!(depths(&mut passive, control), [Some(2), Some(4)]);
    assert_eq!(world.hear(1, &mut passive), News::Established);
    world.give_back(0, active);
    world.give_back(1, passive);
    // Both are told of by nobody any more; they end in TIMEWAIT.
    let begin = world.now();
    while world.now() - begin < Ns::from_secs(2) {
        world.turn();
    }
    world.end(&sim);
}

/// A connection goes a way of its own, by its flow label, as one of Linux does (cm-path 6.4).
#[test]
fn the_ports_give_the_flow_label() {
    let sim = sim(52);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    let mut active = world.ask();
    let request = world.request();
    let News::Requested(asked) = &request.news else {
        panic!("no request");
    };
    let label = (u32::from(asked.source_port) * 31 + u32::from(PORT)) & 0xF_FFFF;
    let (origin, _) = world.managers[1].machine().origin(request.id).unwrap();
    assert_eq!(origin.flow_label, label);
    let mut passive = world.accept(&request);
    world.hear(0, &mut active);
    assert_eq!(world.hear(1, &mut passive), News::Established);
    let mut ends = [active, passive];
    for (n, end) in ends.iter_mut().enumerate() {
        let control = &world.pair.sides[n].control;
        let queried = control.query_qp(end.qp(), e810::AttrMask::all()).unwrap();
        assert_eq!(queried.attr.path.unwrap().flow_label, label);
    }
    ends[0].disconnect(&mut world.local(0)).unwrap();
    for n in [1, 0] {
        assert_eq!(world.hear(n, &mut ends[n]), News::Disconnected);
    }
    for (n, mut end) in ends.into_iter().enumerate() {
        assert_eq!(world.hear(n, &mut end), News::Over);
        world.give_back(n, end);
    }
    world.end(&sim);
}

/// Nobody listens; and the sender of a request that does not answer is forgotten.
#[test]
fn nobody_is_there() {
    let sim = sim(46);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    let mut asked = world.ask();
    let News::Rejected { reason, .. } = world.hear(0, &mut asked) else {
        panic!("not refused");
    };
    assert_eq!(reason, Reason::INVALID_SERVICE_ID);
    assert_eq!(asked.phase(), Phase::Refused(reason));
    world.give_back(0, asked);
    world.listen();
    // The passive side does not find the sender; the active side finds its peer.
    let own = world.pair.sides[0].ip();
    assert!(world.neighbours.macs.remove(&own).is_some());
    let asked = world.ask();
    let begin = world.now();
    while world.now() - begin < Ns::from_ms(100) {
        world.turn();
    }
    assert_eq!(world.told, [Vec::new(), Vec::new()]);
    assert_eq!(world.managers[1].machine().free_slots(), SLOTS);
    world.give_back(0, asked);
    world.turn();
    world.turn();
    world.end(&sim);
}

/// A request waits for its neighbour and no longer, and fails at once where there is none.
#[test]
fn a_request_goes_when_its_neighbour_is_known() {
    let sim = sim(48);
    let mut world = World::new(Pair::simulated(&sim, Setup::default()));
    world.listen();
    world.neighbours.pending = 40;
    let begin = world.now();
    let asked = world.ask();
    let request = world.request();
    assert!(world.now() - begin < Ns::from_secs(1), "it was sent again");
    let counters = world.managers[0].machine().counters();
    assert_eq!(counters.repeated, 0);
    let reject = Call::Reject(request.id, Reason::CONSUMER_DEFINED, b"full");
    assert_eq!(world.local(1).call(&reject), Ok(Answer::Done));
    let mut asked = asked;
    let News::Rejected {
        reason,
        private_data,
    } = world.hear(0, &mut asked)
    else {
        panic!("not refused");
    };
    assert_eq!(reason, Reason::CONSUMER_DEFINED);
    assert!(private_data.starts_with(b"full"));
    world.give_back(0, asked);
    let release = Call::Release(request.id);
    assert_eq!(world.local(1).call(&release), Ok(Answer::Done));
    let there = world.there().ip();
    assert!(world.neighbours.macs.remove(&there).is_some());
    let begin = world.now();
    let mut asked = world.ask();
    assert_eq!(world.hear(0, &mut asked), News::Unreachable);
    assert_eq!(asked.phase(), Phase::Unreachable);
    assert!(world.now() - begin < Ns::from_ms(100), "it took long");
    world.give_back(0, asked);
    world.end(&sim);
}
