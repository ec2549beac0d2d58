//! A program that reaches the connection manager through bytes alone, as one in another process
//! would; only its queues are its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use e810::{QpAttr, QpControl, QpRecv, QpSend, QpState, Qpn, SharedBytes};
use e810_connect::{Attributes, Call};
use serde::{Deserialize, Serialize};

use super::*;
use crate::connections::{Connections, Program};

const PROGRAM: Program = Program(7);

#[derive(Serialize, Deserialize)]
enum ToOwner<'a> {
    #[serde(borrow)]
    Call(Call<'a>),
    Modify(QpAttr),
}

#[derive(Serialize, Deserialize)]
enum FromOwner {
    Told(Told),
    Answer(Result<Answer, Refused>),
    Modified(bool),
}

/// The process that has the function, and the queue pair of its one program.
struct Owner {
    state: Up,
    qp: QpControl<SimPlatform>,
    connections: Connections<SimPlatform>,
    tracker: NeighbourTracker<SimPlatform>,
    to_program: Sender<Vec<u8>>,
    from_program: Receiver<Vec<u8>>,
}

type Up = (Control<SimPlatform>, EventSet<SimPlatform>);

impl Owner {
    fn say(&self, message: &FromOwner) {
        // A program that has gone hears nothing.
        let _ = self
            .to_program
            .send(postcard::to_allocvec(message).unwrap());
    }

    fn progress(&mut self) {
        let (control, events) = &mut self.state;
        e810::progress(control, events, |_| {}).unwrap();
        self.tracker.progress(control).unwrap();
        let tracker = Some(&self.tracker);
        self.connections.progress(control, tracker).unwrap();
        while let Some(told) = self.connections.next(PROGRAM) {
            self.say(&FromOwner::Told(told));
        }
    }

    /// Serves the program until it is gone, and what it leaves behind until `is_done`.
    fn serve(&mut self, is_done: &AtomicBool) {
        let mut is_gone = false;
        while !is_done.load(Ordering::Relaxed) {
            self.progress();
            match self.from_program.try_recv() {
                Ok(bytes) => self.answer(&bytes),
                Err(TryRecvError::Disconnected) if !is_gone => {
                    is_gone = true;
                    let (control, qp) = (&mut self.state.0, &mut self.qp);
                    self.connections.gone(PROGRAM, &mut |qpn| {
                        assert_eq!(qpn, qp.number());
                        let to_error = QpAttr {
                            state: Some(QpState::Err),
                            ..QpAttr::default()
                        };
                        control.modify_qp(qp, &to_error).unwrap();
                    });
                }
                Err(_) => thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    fn answer(&mut self, bytes: &[u8]) {
        let control = &mut self.state.0;
        let message = match postcard::from_bytes(bytes).unwrap() {
            ToOwner::Call(call) => {
                let tracker = Some(&self.tracker);
                let answer = self.connections.call(control, tracker, PROGRAM, &call);
                // Another program cannot name what is this one's.
                if let Some(id) = call.connection() {
                    let stranger =
                        self.connections
                            .call(control, tracker, Program(8), &Call::Disconnect(id));
                    assert!(stranger.is_err());
                }
                FromOwner::Answer(answer)
            }
            ToOwner::Modify(attr) => {
                let done = control.modify_qp(&mut self.qp, &attr);
                FromOwner::Modified(done.is_ok())
            }
        };
        self.say(&message);
    }
}

/// The program's end.
struct Client {
    to_owner: Sender<Vec<u8>>,
    from_owner: Receiver<Vec<u8>>,
    told: VecDeque<Told>,
    qpn: Qpn,
    send: QpSend<SimPlatform>,
    recv: QpRecv<SimPlatform>,
    cq: Cq<SimPlatform>,
}

impl Client {
    fn hear(&mut self) -> FromOwner {
        let bytes = self.from_owner.recv_timeout(LIMIT).unwrap();
        postcard::from_bytes(&bytes).unwrap()
    }

    /// Says something, and takes the answer; news come in between.
    fn say(&mut self, message: &ToOwner<'_>) -> FromOwner {
        let bytes = postcard::to_allocvec(message).unwrap();
        self.to_owner.send(bytes).unwrap();
        loop {
            match self.hear() {
                FromOwner::Told(told) => self.told.push_back(told),
                answer => return answer,
            }
        }
    }

    fn call(&mut self, call: Call<'_>) -> Answer {
        match self.say(&ToOwner::Call(call)) {
            FromOwner::Answer(answer) => answer.unwrap(),
            _ => panic!("no answer to {call:?}"),
        }
    }

    fn modify(&mut self, attr: QpAttr) {
        let answer = self.say(&ToOwner::Modify(attr));
        assert!(matches!(answer, FromOwner::Modified(true)), "{attr:?}");
    }

    fn told(&mut self) -> Told {
        if let Some(told) = self.told.pop_front() {
            return told;
        }
        match self.hear() {
            FromOwner::Told(told) => told,
            _ => panic!("an answer without a question"),
        }
    }

    fn completion(&mut self) -> Wc {
        let mut wc = [Wc::default()];
        let end = Instant::now() + LIMIT;
        while self.cq.poll(&mut wc) == 0 {
            assert!(Instant::now() < end, "no completion");
            thread::sleep(Duration::from_micros(200));
        }
        assert!(wc[0].status.is_success(), "{:?}", wc[0]);
        wc[0]
    }

    /// Connects, has a message sent back, and goes without a word.
    fn run(mut self, memory: SharedBytes, [own, there]: [Sge; 2]) {
        self.modify(Attributes::to_init(0));
        let sges = [there];
        let receive = RecvWr {
            wr_id: 0,
            sges: &sges,
        };
        self.recv.post_recv(&[receive]).unwrap();
        let ask = Connect {
            qpn: self.qpn.get(),
            private_data: b"through bytes",
            ..Connect::new(ip(0), Node::peer())
        };
        let Answer::Connection(id) = self.call(Call::Connect(ask)) else {
            panic!("no connection");
        };
        let told = self.told();
        assert_eq!(told.id, id);
        assert!(matches!(told.news, News::Accepted { .. }), "{told:?}");
        let Answer::Attributes(attributes) = self.call(Call::Attributes(id, [0, 0])) else {
            panic!("no attributes");
        };
        self.modify(attributes.to_rtr);
        self.modify(attributes.to_rts);
        assert_eq!(self.call(Call::Ready(id)), Answer::Done);
        memory.write(0, b"echo").unwrap();
        let sges = [Sge { length: 4, ..own }];
        let op = Op::Send {
            data: Data::Sges(&sges),
            imm: None,
        };
        let request = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
        };
        self.send.post_send(&[request]).unwrap();
        let mut seen = [self.completion().opcode, self.completion().opcode];
        seen.sort_by_key(|opcode| *opcode == WcOpcode::Recv);
        assert_eq!(seen, [WcOpcode::Send, WcOpcode::Recv]);
        let mut back = [0; 4];
        memory.read(4096, &mut back).unwrap();
        assert_eq!(&back, b"echo");
    }
}

#[test]
fn a_program_behind_a_byte_channel_connects_and_dies() {
    let sim = sim();
    let mut node = Node::start(&sim, 1);
    let listener = node.listen();
    let nic = sim.function(0);
    let memory = nic.payload(8192).unwrap();
    let up = simulated::start(&nic, 1500).bring_up_for(
        nic.clone(),
        Sizes::default(),
        LinkPolicy::GoOn,
        &mut |_| {},
    );
    let (mut control, events) = up.unwrap().split();
    let network = Network {
        addresses: vec![format!("{}/24", ip(0)).parse().unwrap()],
        ..Network::default()
    };
    let set_up = Attended::set_up(&nic, &mut control, &network);
    let (tracker, connections) = set_up.unwrap();
    let pd = control.alloc_pd().unwrap();
    let access = AccessFlags::LOCAL_WRITE;
    let mr = control.reg_mr(&pd, memory.bytes(), access).unwrap();
    let cq = control.create_cq(64, 0).unwrap();
    let init = QpInit::rc(&cq, &cq, QpCaps::default());
    let (qp, send, recv) = control.create_qp(&pd, &init).unwrap().into_parts();
    let qpn = qp.number();
    let sge = |offset| Sge {
        addr: mr.address() + offset,
        length: 4096,
        lkey: mr.lkey(),
    };
    let sges = [sge(0), sge(4096)];
    let (to_owner, from_program) = channel();
    let (to_program, from_owner) = channel();
    let mut owner = Owner {
        state: (control, events),
        qp,
        connections,
        tracker,
        to_program,
        from_program,
    };
    let program = Client {
        to_owner,
        from_owner,
        told: VecDeque::new(),
        qpn,
        send,
        recv,
        cq,
    };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let window = memory.bytes();
        let program = scope.spawn(move || program.run(window, sges));
        let serving = scope.spawn(|| owner.serve(&is_done));
        let request = listener.next(LIMIT).unwrap();
        let mut connection = node.connection();
        connection.accept(&request, &Grant::default()).unwrap();
        let wc = node.completion(&mut connection);
        assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::Recv, 4));
        let mut text = [0; 4];
        node.memory.bytes().read(4096, &mut text).unwrap();
        node.send(&mut connection, &text);
        assert_eq!(node.completion(&mut connection).opcode, WcOpcode::Send);
        program.join().unwrap();
        // Its process is gone: the peer hears it from the owner.
        connection.over(LIMIT).unwrap();
        assert_eq!(connection.ended(), Some(Ended::Disconnected));
        is_done.store(true, Ordering::Relaxed);
        serving.join().unwrap();
        drop(listener);
        node.end(vec![connection]);
    });
    assert_eq!(owner.qp.state(), QpState::Err);
    assert_eq!(sim.findings(), []);
}
