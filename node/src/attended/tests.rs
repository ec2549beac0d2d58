use std::future::Future;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::Result;
use e810::{
    AccessFlags, Cq, Data, Mr, Op, Pd, Qp, QpCaps, QpInit, QpState, RecvWr, Remaining, SendFlags,
    SendWr, Sge, Wc, WcOpcode,
};
use e810_backends::buffer::{Buffer, Payload};
use e810_cm::Reason;
use e810_cm::machine::{Connect, Listen, State};
use e810_sim::{Mode, Profile, Sim, SimPlatform};

use super::*;
use crate::simulated;

#[cfg(feature = "serde")]
mod bytes;
mod given_up;

const PORT: u16 = 7471;
/// A loaded machine may take this long.
const LIMIT: Duration = Duration::from_secs(60);

/// A function with what a program makes on it.
struct Node {
    function: Attended<SimPlatform>,
    pd: Pd,
    memory: Buffer,
    mr: Mr<SimPlatform>,
    cq: Cq<SimPlatform>,
}

fn sim() -> Sim {
    let builder = Sim::builder().functions(2).mode(Mode::Real);
    builder.profile(Profile::small()).cold().build()
}

fn ip(number: u8) -> IpAddr {
    [192, 0, 2, 1 + number].into()
}

impl Node {
    fn start(sim: &Sim, number: u8) -> Self {
        let nic = sim.function(number);
        let start = simulated::start(&nic, 1500);
        let network = Network {
            addresses: vec![format!("{}/24", ip(number)).parse().unwrap()],
            resolve_limit: Ns::from_ms(2_000),
            ..Network::default()
        };
        let memory = nic.payload(8192).unwrap();
        let function = Attended::start(nic, &start, Sizes::default(), network).unwrap();
        let (pd, mr, cq) = function.control(|control| {
            let pd = control.alloc_pd().unwrap();
            let access = AccessFlags::LOCAL_WRITE;
            let mr = control.reg_mr(&pd, memory.bytes(), access).unwrap();
            (pd, mr, control.create_cq(64, 0).unwrap())
        });
        Self {
            function,
            pd,
            memory,
            mr,
            cq,
        }
    }

    fn sge(&self, offset: u64, length: u32) -> [Sge; 1] {
        [Sge {
            addr: self.mr.address() + offset,
            length,
            lkey: self.mr.lkey(),
        }]
    }

    /// A connection with a receive.
    fn connection(&self) -> Connection<SimPlatform> {
        let init = QpInit::rc(&self.cq, &self.cq, QpCaps::default());
        let qp = self
            .function
            .control(|control| control.create_qp(&self.pd, &init));
        let made = Connection::new(&self.function, qp.unwrap(), 4);
        let mut connection = made.map_err(|(_, error)| error).unwrap();
        let sges = self.sge(4096, 4096);
        let receive = RecvWr {
            wr_id: 0,
            sges: &sges,
        };
        connection.qp().post_recv(&[receive]).unwrap();
        connection
    }

    fn listen(&self) -> Listener<SimPlatform> {
        self.function.listen(ip(1), PORT, 4).unwrap()
    }

    fn peer() -> SocketAddr {
        (ip(1), PORT).into()
    }

    fn ask(&self, connection: &mut Connection<SimPlatform>, private_data: &[u8]) {
        let ask = Connect {
            private_data,
            ..self.function.ask(Self::peer()).unwrap()
        };
        connection.connect(&ask).unwrap();
    }

    fn send(&self, connection: &mut Connection<SimPlatform>, text: &[u8]) {
        self.memory.bytes().write(0, text).unwrap();
        let op = Op::Send {
            data: Data::Sges(&self.sge(0, text.len() as u32)),
            imm: None,
        };
        let flags = SendFlags::SIGNALED;
        let request = SendWr {
            wr_id: 1,
            op,
            flags,
        };
        connection.qp().post_send(&[request]).unwrap();
    }

    fn completion(&mut self, connection: &mut Connection<SimPlatform>) -> Wc {
        let mut wc = [Wc::default()];
        let found = connection.completions(&mut self.cq, &mut wc, LIMIT);
        assert_eq!(found.unwrap(), 1);
        assert!(wc[0].status.is_success(), "{:?}", wc[0]);
        wc[0]
    }

    fn end(self, connections: Vec<Connection<SimPlatform>>) {
        let qps: Vec<Qp<_>> = connections.into_iter().map(Connection::end).collect();
        self.destroy(qps).unwrap();
    }

    fn destroy(self, qps: Vec<Qp<SimPlatform>>) -> Result<()> {
        self.function.close_with(Remaining {
            qps,
            ahs: [],
            cqs: [self.cq],
            mrs: [self.mr],
            pds: [self.pd],
        })
    }
}

/// Polls a future in this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(LIMIT),
        }
    }
}

/// A message each way; the passive side may hear of it before it hears that the peer is ready.
fn talk(nodes: &mut [Node; 2], connections: &mut [Connection<SimPlatform>; 2]) {
    for (from, text) in [(0, b"to there"), (1, b"and back")] {
        nodes[from].send(&mut connections[from], text);
        assert_eq!(
            nodes[from].completion(&mut connections[from]).opcode,
            WcOpcode::Send
        );
        let there = 1 - from;
        let wc = nodes[there].completion(&mut connections[there]);
        assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::Recv, 8));
        let mut back = [0; 8];
        nodes[there].memory.bytes().read(4096, &mut back).unwrap();
        assert_eq!(&back, text);
    }
}

#[test]
fn two_programs_connect_talk_and_part() {
    let sim = sim();
    let mut nodes = [0, 1].map(|number| Node::start(&sim, number));
    let listener = nodes[1].listen();
    let taken = nodes[1].function.listen(ip(1), PORT, 4).unwrap_err();
    assert!(
        taken.to_string().contains("listens on port 7471"),
        "{taken}"
    );
    let mut active = nodes[0].connection();
    nodes[0].ask(&mut active, b"hello");
    let request = listener.next(LIMIT).unwrap();
    let News::Requested(requested) = &request.news else {
        panic!("{request:?}");
    };
    assert!(requested.private_data.starts_with(b"hello"));
    assert_eq!((requested.source, requested.destination), (ip(0), ip(1)));
    let mut passive = nodes[1].connection();
    let grant = Grant {
        private_data: b"welcome",
        ..Grant::default()
    };
    passive.accept(&request, &grant).unwrap();
    active.established(LIMIT).unwrap();
    assert!(active.private_data().starts_with(b"welcome"));
    let mut both = [active, passive];
    talk(&mut nodes, &mut both);
    let [mut active, mut passive] = both;
    passive.established(LIMIT).unwrap();
    for (n, connection) in [&mut active, &mut passive].into_iter().enumerate() {
        let shown = nodes[n].function.connections();
        let [shown] = shown.as_slice() else {
            panic!("{shown:?}");
        };
        assert_eq!(
            (shown.state, shown.port, shown.is_active),
            (State::Established, PORT, n == 0)
        );
        assert_eq!((shown.own, shown.peer), (ip(n as u8), ip(1 - n as u8)));
        assert_eq!(shown.queue_pairs[0], connection.qp().number().get());
        assert_eq!(shown.repeats, 0);
        assert!(shown.since > Ns::ZERO);
        // A REQ and an RTU; a REP.
        let sent: u64 = nodes[n].function.counters().sent.iter().sum();
        assert_eq!(sent, 2 - n as u64);
    }
    active.disconnect().unwrap();
    let mut wc = [Wc::default()];
    let ended = passive.completions(&mut nodes[1].cq, &mut wc, LIMIT);
    assert_eq!(
        ended.unwrap_err().downcast::<Ended>().unwrap(),
        Ended::Disconnected
    );
    for connection in [&mut active, &mut passive] {
        connection.over(LIMIT).unwrap();
        assert_eq!(connection.qp().state(), QpState::Err);
    }
    drop(listener);
    let [first, second] = nodes;
    first.end(vec![active]);
    second.end(vec![passive]);
    assert_eq!(sim.findings(), []);
}

#[test]
fn tasks_connect_without_an_executor_of_their_own() {
    let sim = sim();
    let mut nodes = [0, 1].map(|number| Node::start(&sim, number));
    let listener = nodes[1].listen();
    let [mut active, mut passive] = [0, 1].map(|n: usize| nodes[n].connection());
    nodes[0].ask(&mut active, &[]);
    let request = block_on(listener.request()).unwrap();
    passive.accept(&request, &Grant::default()).unwrap();
    block_on(active.ready()).unwrap();
    block_on(passive.ready()).unwrap();
    let mut both = [active, passive];
    talk(&mut nodes, &mut both);
    let [active, passive] = both;
    // Ended without a word: the peer hears of it.
    drop(active);
    let mut passive = passive;
    passive.over(LIMIT).unwrap();
    assert_eq!(passive.ended(), Some(Ended::Disconnected));
    drop(listener);
    let [first, second] = nodes;
    second.end(vec![passive]);
    // Its queue pair was dropped with the connection, and is the device's.
    assert!(first.destroy(Vec::new()).is_err());
}

#[test]
fn refusals_say_why() {
    let sim = sim();
    let nodes = [0, 1].map(|number| Node::start(&sim, number));
    let mut asked = Vec::new();
    let mut refused = |private_data: &[u8], then: &mut dyn FnMut()| {
        let mut connection = nodes[0].connection();
        nodes[0].ask(&mut connection, private_data);
        then();
        let error = connection.established(LIMIT).unwrap_err();
        asked.push(connection);
        error.downcast::<Ended>().unwrap()
    };
    let nobody = refused(&[], &mut || ());
    assert_eq!(
        nobody.to_string(),
        "the peer refuses: nobody listens there (reason 8)"
    );
    let listener = nodes[1].listen();
    let why = refused(&[], &mut || {
        let request = listener.next(LIMIT).unwrap();
        listener.reject(&request, b"not today").unwrap();
    });
    let Ended::Refused {
        reason,
        private_data,
    } = why
    else {
        panic!("{why}");
    };
    assert_eq!(reason, Reason::CONSUMER_DEFINED);
    assert!(private_data.starts_with(b"not today"));
    // A listener that ends refuses what waits for it.
    let mut listener = Some(listener);
    let why = refused(&[], &mut || drop(listener.take()));
    assert!(matches!(why, Ended::Refused { .. }), "{why}");
    // Nobody has this address.
    let mut connection = nodes[0].connection();
    let ask = nodes[0].function.ask((ip(200), PORT).into()).unwrap();
    connection.connect(&ask).unwrap();
    let error = connection.established(LIMIT).unwrap_err();
    assert_eq!(error.downcast::<Ended>().unwrap(), Ended::Unreachable);
    asked.push(connection);
    let v6 = nodes[0].function.ask("[fd00::1]:1".parse().unwrap());
    assert!(
        v6.unwrap_err()
            .to_string()
            .contains("no address of that family")
    );
    let [first, second] = nodes;
    first.end(asked);
    second.end(Vec::new());
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_wait_has_an_end() {
    let sim = sim();
    let node = Node::start(&sim, 1);
    let listener = node.listen();
    let soon = Duration::from_millis(20);
    let error = listener.next(soon).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a request for a connection: nothing within 20ms"
    );
    let mut connection = node.connection();
    assert!(connection.established(soon).is_err());
    assert_eq!(connection.phase(), Phase::New);
    // What still exists is named, and nothing hangs, not even a wait without an end.
    let (qp, cq) = (connection.end(), node.cq);
    let objects = Remaining {
        qps: [qp],
        ahs: [],
        cqs: [cq],
        mrs: [node.mr],
        pds: [node.pd],
    };
    let function = node.function;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.next(Duration::MAX).unwrap_err());
        let error = function.close_with(objects).unwrap_err();
        assert!(error.to_string().contains("still exists"), "{error}");
        let error = waiting.join().unwrap();
        assert!(error.to_string().contains("was closed"), "{error}");
    });
    drop(listener);
}

/// A completion queue may be of several connections.
#[test]
fn a_message_of_one_connection_says_nothing_of_another() {
    let sim = sim();
    let mut nodes = [0, 1].map(|number| Node::start(&sim, number));
    let listener = nodes[1].listen();
    let [(mut late, mut waits), (mut prompt, mut hears)] = [0, 1].map(|_| {
        let [mut active, mut passive] = [0, 1].map(|n: usize| nodes[n].connection());
        nodes[0].ask(&mut active, &[]);
        let request = listener.next(LIMIT).unwrap();
        passive.accept(&request, &Grant::default()).unwrap();
        (active, passive)
    });
    prompt.established(LIMIT).unwrap();
    nodes[0].send(&mut prompt, b"early");
    let wc = nodes[1].completion(&mut waits);
    assert_eq!(wc.qp_num, hears.qp().number().get());
    assert_eq!(waits.phase(), Phase::Accepted);
    late.established(LIMIT).unwrap();
    for connection in [&mut waits, &mut hears] {
        connection.established(LIMIT).unwrap();
    }
    drop(listener);
    let [first, second] = nodes;
    first.end(vec![late, prompt]);
    second.end(vec![waits, hears]);
    assert_eq!(sim.findings(), []);
}

#[test]
fn no_program_ends_a_listener_of_another() {
    let sim = sim();
    let node = Node::start(&sim, 1);
    let mut state = node.function.shared.lock();
    let super::State {
        control,
        tracker,
        connections,
        ..
    } = &mut *state;
    let [own, other] = [7, 8].map(Program);
    let mut call = |program, call| {
        connections
            .call(control, tracker.as_ref(), program, &call)
            .unwrap()
    };
    let listen = Listen {
        space: PortSpace::Tcp,
        port: PORT,
        address: ip(1),
        only_family: true,
        backlog: 4,
        context: 0,
    };
    let Answer::Listener(id, PORT) = call(own, Call::Listen(listen)) else {
        panic!("no listener");
    };
    assert_eq!(call(other, Call::Unlisten(id)), Answer::Done);
    // It is there still: it ends with its program, and the port is free.
    connections.gone(own, &mut |_| ());
    let again = connections.call(control, tracker.as_ref(), other, &Call::Listen(listen));
    assert!(again.is_ok(), "{again:?}");
    drop(state);
    node.end(Vec::new());
}

/// A task that nobody else has any more, and its listener with it.
#[test]
fn a_task_may_end_where_it_is_woken() {
    struct Task {
        _listener: Listener<SimPlatform>,
        _ended: mpsc::Sender<()>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    let sim = sim();
    // If its thread waits for itself, so does whoever drops it.
    let node = ManuallyDrop::new(Node::start(&sim, 1));
    let (sender, ended) = mpsc::channel();
    let task = Task {
        _listener: node.listen(),
        _ended: sender,
    };
    let mut state = node.function.shared.lock();
    state.wakers.push(Waker::from(Arc::new(task)));
    drop(state);
    assert_eq!(
        ended.recv_timeout(Duration::from_secs(20)),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
    ManuallyDrop::into_inner(node).end(Vec::new());
}

#[test]
fn waits_end_when_the_thread_panics() {
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any("a program's waker");
        }
    }

    let sim = sim();
    let node = Node::start(&sim, 1);
    let listener = node.listen();
    let mut state = node.function.shared.lock();
    state.wakers.push(Waker::from(Arc::new(Panics)));
    drop(state);
    let error = listener.next(LIMIT).unwrap_err();
    assert!(error.to_string().contains("has panicked"), "{error}");
}
