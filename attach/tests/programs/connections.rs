//! Connections of programs that share a function, over the one connection manager.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use e810::{AccessFlags, Platform, QpAttr, QpState};
use e810_attach::messages::{CallBytes, Connecting, Held, Refused, Resource, Whose};
use e810_attach::owner::{AskedLimits, Owner};
use e810_attach::reception::Reception;
use e810_backends::HostDevice;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Accept, Connect, ConnectionId, Error, Listen, ListenerId};
use e810_connect::{Answer, Call, News, Refused as NotNow, Told};

use crate::program::{Client, Completions, Queue};
use crate::shares::limit;
use crate::{Scenario, with_function};

const OWN: [u8; 4] = [10, 8, 1, 1];
const PORT: u16 = 7471;
const USER: u32 = 54_321;
const LIMIT: Duration = Duration::from_secs(60);

/// A program with a queue pair that can be connected.
struct Side<P: Platform> {
    client: Client<P>,
    pd: u32,
    cq: Completions<P>,
    qp: Queue<P>,
}

impl<P: Platform + Send + Sync + 'static> Side<P> {
    fn of(client: Client<P>) -> Self {
        let pd = client.pd();
        let cq = client.cq(16);
        let qp = client.qp(pd, &cq);
        let side = Self { client, pd, cq, qp };
        side.init();
        side
    }

    fn init(&self) {
        let init = QpAttr::to_init(AccessFlags::REMOTE_WRITE);
        self.client.modify(self.qp.number, init).unwrap();
    }

    /// With another queue pair.
    fn renew(&mut self) {
        let qp = self.client.qp(self.pd, &self.cq);
        let old = std::mem::replace(&mut self.qp, qp);
        self.client.destroy_qp(old);
        self.init();
    }

    fn ask(&self, call: Call<'_>) -> Result<Result<Answer, NotNow>, Refused> {
        let call = CallBytes::of(&call);
        let answered = self.client.ask(Connecting { call })?;
        Ok(answered.map(|answer| *answer))
    }

    #[track_caller]
    fn call(&self, call: Call<'_>) -> Answer {
        self.ask(call).unwrap().unwrap()
    }

    fn listen(&self, context: u64) -> ListenerId {
        let listen = Listen {
            space: PortSpace::Tcp,
            port: PORT,
            address: OWN.into(),
            only_family: false,
            backlog: 8,
            context,
        };
        match self.call(Call::Listen(listen)) {
            Answer::Listener(listener, PORT) => listener,
            other => panic!("{other:?}"),
        }
    }

    fn ask_of(&self, qpn: u32, context: u64) -> Result<Result<Answer, NotNow>, Refused> {
        let ask = Connect {
            qpn,
            context,
            private_data: b"hello",
            ..Connect::new(IpAddr::from(OWN), SocketAddr::from((OWN, PORT)))
        };
        self.ask(Call::Connect(ask))
    }

    fn connect(&self, context: u64) -> ConnectionId {
        match self.ask_of(self.qp.number.get(), context).unwrap().unwrap() {
            Answer::Connection(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Brings the queue pair of a connection to RTS.
    fn bring_up(&self, id: ConnectionId) {
        let Answer::Attributes(attributes) = self.call(Call::Attributes(id, [1, 1])) else {
            panic!("no attributes");
        };
        for attr in [attributes.to_rtr, attributes.to_rts] {
            self.client.modify(self.qp.number, attr).unwrap();
        }
    }

    fn stop(&self) {
        let attr = QpAttr {
            state: Some(QpState::Err),
            ..QpAttr::default()
        };
        self.client.modify(self.qp.number, attr).unwrap();
    }

    #[track_caller]
    fn requested(&self) -> Told {
        let told = self.client.is_told();
        assert!(matches!(told.news, News::Requested(_)), "{told:?}");
        told
    }

    /// Accepts the next request; both sides are ready afterwards.
    fn accept(&self, other: &Self) -> ConnectionId {
        let id = self.requested().id;
        self.bring_up(id);
        let accept = Accept {
            qpn: self.qp.number.get(),
            responder_resources: 1,
            initiator_depth: 1,
            rnr_retry_count: 7,
            flow_control: false,
            srq: false,
            private_data: b"welcome",
            context: 3,
        };
        self.call(Call::Accept(id, accept));
        let told = other.client.is_told();
        let News::Accepted { private_data, .. } = &told.news else {
            panic!("{told:?}");
        };
        assert!(private_data.starts_with(b"welcome"));
        other.bring_up(told.id);
        other.call(Call::Ready(told.id));
        let told = self.client.is_told();
        assert_eq!((told.context, told.news), (3, News::Established));
        id
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < limit, "{what}: never");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Connections and listeners of the program that has joined as the `n`th.
pub(crate) fn meets<D: HostDevice>(owner: &Owner<D>, n: usize) -> (usize, usize) {
    let Held {
        connections,
        listeners,
        ..
    } = owner.programs()[n].1;
    (connections, listeners)
}

#[derive(Clone, Copy)]
struct Meets;

impl Scenario for Meets {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let mut passive = Side::of(Client::attached(owner, function));
        let mut active = Side::of(Client::attached(owner, function));
        let listener = passive.listen(1);
        let connection = active.connect(2);
        let request = passive.requested();
        assert_eq!(request.context, 1);
        let News::Requested(asked) = &request.news else {
            panic!("{request:?}");
        };
        assert_eq!(asked.qpn, active.qp.number.get());
        assert!(asked.private_data.starts_with(b"hello"));
        // Refused, and asked again.
        let reason = e810_cm::Reason::CONSUMER_DEFINED;
        passive.call(Call::Reject(request.id, reason, b"no"));
        passive.call(Call::Release(request.id));
        let told = active.client.is_told();
        assert_eq!((told.id, told.context), (connection, 2));
        assert!(matches!(told.news, News::Rejected { .. }), "{told:?}");
        active.call(Call::Release(connection));
        let connection = active.connect(2);
        let accepted = passive.accept(&active);
        assert_eq!([meets(owner, 0), meets(owner, 1)], [(1, 1), (1, 0)]);
        let [here, there] = [&active, &passive].map(|side| side.client.region(side.pd));
        here.start[..5].copy_from_slice(b"first");
        passive.qp.receive(7, there.sge(100, 64));
        active.qp.send(8, here.sge(0, 5));
        let received = passive.cq.wait(1);
        assert_eq!((received[0].wr_id, received[0].byte_len), (7, 5));
        assert_eq!(active.cq.wait(1)[0].wr_id, 8);
        assert_eq!(&there.start[100..105], b"first");
        // What is another program's is not there.
        for call in [Call::Disconnect(accepted), Call::Release(accepted)] {
            let refused = active.ask(call).unwrap().unwrap_err();
            assert_eq!(refused, NotNow::Machine(Error::NoSuch(accepted)));
        }
        active.call(Call::Unlisten(listener));
        let theirs = passive.qp.number.get();
        assert!(
            active.ask_of(theirs, 9).is_err(),
            "it asks for another's queue pair"
        );
        assert_eq!(meets(owner, 0), (1, 1));
        // An end.
        active.stop();
        active.call(Call::Disconnect(connection));
        let told = passive.client.is_told();
        assert_eq!((told.id, told.news), (accepted, News::Disconnected));
        passive.stop();
        passive.call(Call::Disconnect(accepted));
        active.call(Call::Release(connection));
        passive.call(Call::Release(accepted));
        passive.call(Call::Unlisten(listener));
        assert_eq!([meets(owner, 0), meets(owner, 1)], [(0, 0); 2]);
        // Nobody listens any more.
        let again = active.connect(4);
        loop {
            let told = active.client.is_told();
            // What is still told of the one before.
            if told.id == again {
                assert!(matches!(told.news, News::Rejected { .. }), "{told:?}");
                break;
            }
        }
        for side in [&mut passive, &mut active] {
            assert_eq!(side.cq.ring.poll(&mut [e810::Wc::default()]), 0);
        }
    }
}

#[test]
fn programs_connect_on_one_function() {
    with_function(Meets);
}

#[derive(Clone, Copy)]
struct Dies;

impl Scenario for Dies {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let mut passive = Side::of(Client::attached(owner, function));
        passive.listen(1);
        for round in 0..3 {
            // An established one, one that is asked for, and a listener.
            let active = Side::of(Client::attached(owner, function));
            active.connect(2);
            let accepted = passive.accept(&active);
            let other = Side::of(Client::attached(owner, function));
            other.connect(3);
            let asked = passive.requested();
            active.client.die();
            other.client.die();
            let told = passive.client.is_told();
            assert_eq!(
                (told.id, told.news),
                (accepted, News::Disconnected),
                "{round}"
            );
            let told = passive.client.is_told();
            assert_eq!(told.id, asked.id, "{round}");
            assert!(matches!(told.news, News::Rejected { .. }), "{told:?}");
            passive.call(Call::Release(accepted));
            passive.call(Call::Release(asked.id));
            passive.renew();
        }
        assert_eq!(owner.programs().len(), 1);
        assert_eq!(meets(owner, 0), (0, 1));
        assert!(passive.client.is_told_nothing());
    }
}

#[test]
fn peers_of_the_dead_are_told() {
    with_function(Dies);
}

#[derive(Clone, Copy)]
struct Limited;

impl Scenario for Limited {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = Arc::new(Reception::new(owner.clone(), function.clone()));
        owner.limit(&AskedLimits {
            program: vec![(Resource::Connections, 2), (Resource::Listeners, 1)],
            user: vec![(Resource::Connections, 4)],
            programs: None,
        });
        let come = || Side::of(Client::received(&reception, USER).unwrap());
        let (passive, active, other) = (come(), come(), come());
        passive.listen(1);
        let listen = Listen {
            space: PortSpace::Tcp,
            port: 0,
            address: OWN.into(),
            only_family: false,
            backlog: 8,
            context: 0,
        };
        let refused = limit(passive.ask(Call::Listen(listen)));
        assert_eq!(refused, (Resource::Listeners, Whose::Program, 1));
        // Both sides of a connection count.
        let second = active.client.qp(active.pd, &active.cq);
        let own = active.qp.number.get();
        for qpn in [own, second.number.get()] {
            active.ask_of(qpn, 2).unwrap().unwrap();
            passive.requested();
        }
        let third = limit(active.ask_of(own, 2));
        assert_eq!(third, (Resource::Connections, Whose::Program, 2));
        let fifth = limit(other.ask_of(other.qp.number.get(), 2));
        assert_eq!(fifth, (Resource::Connections, Whose::User(USER), 4));
        // What others ask for is refused, too, and the program hears nothing of it.
        let root = Side::of(Client::received(&reception, 0).unwrap());
        root.connect(5);
        let told = root.client.is_told();
        let News::Rejected { reason, .. } = told.news else {
            panic!("{told:?}");
        };
        assert_eq!(reason, e810_cm::Reason::NO_RESOURCES);
        assert!(passive.client.is_told_nothing());
        // They come back with their program.
        active.client.die();
        for _ in 0..2 {
            let gone = passive.client.is_told();
            passive.call(Call::Release(gone.id));
        }
        until("connections that are given up", || {
            meets(owner, 0) == (0, 1)
        });
        other.connect(2);
        passive.requested();
    }
}

#[test]
fn a_program_has_no_more_connections_than_its_share() {
    with_function(Limited);
}

/// The datagrams that end a connection leave before the program goes on.
#[derive(Clone, Copy)]
struct LastWord;

impl Scenario for LastWord {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let passive = Side::of(Client::attached(owner, function));
        let active = Side::of(Client::attached(owner, function));
        passive.listen(1);
        let connection = active.connect(2);
        passive.accept(&active);
        active.stop();
        active.call(Call::Disconnect(connection));
        let program = owner.programs()[1].0;
        assert!(owner.let_datagrams_leave(program, Duration::from_secs(30)));
        assert!(owner.let_datagrams_leave(program, Duration::ZERO));
        assert_eq!(passive.client.is_told().news, News::Disconnected);
    }
}

#[test]
fn what_ends_a_connection_leaves() {
    with_function(LastWord);
}

/// A program has given up its queue pair, and waits for the end of its connection. Another program gets the
/// queue pair's number: the first hears of the end all the same.
#[derive(Clone, Copy)]
struct NumberOfAnother;

impl Scenario for NumberOfAnother {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let passive = Side::of(Client::attached(owner, function));
        let mut active = Side::of(Client::attached(owner, function));
        passive.listen(1);
        let connection = active.connect(2);
        let accepted = passive.accept(&active);
        active.stop();
        active.call(Call::Disconnect(connection));
        assert_eq!(passive.client.is_told().news, News::Disconnected);
        let number = active.qp.number;
        active.renew();
        while active.cq.ring.poll(&mut [e810::Wc::default()]) > 0 {}
        // Any other program that makes queue pairs.
        let other = Client::attached(owner, function);
        let pd = other.pd();
        let mut made = 1;
        let (same, cq) = loop {
            let cq = other.cq(16);
            let qp = other.qp(pd, &cq);
            if qp.number == number {
                break (qp, cq);
            }
            assert!(made < 10_000, "nobody has got the number");
            made += 1;
            other.destroy_qp(qp);
            other.destroy_cq(cq);
        };
        // The peer answers.
        passive.stop();
        passive.call(Call::Disconnect(accepted));
        let limit = Instant::now() + Duration::from_secs(10);
        while active.client.is_told_nothing() {
            assert!(
                Instant::now() < limit,
                "it never hears of the end of its connection"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let told = active.client.is_told();
        assert_eq!((told.id, told.news), (connection, News::Disconnected));
        other.destroy_qp(same);
        other.destroy_cq(cq);
    }
}

#[test]
fn a_number_that_another_program_gets_ends_no_connection_in_silence() {
    with_function(NumberOfAnother);
}
