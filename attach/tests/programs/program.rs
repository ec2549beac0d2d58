//! A program: its end of a link that can be cut, and its objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e810::{
    AccessFlags, CqRing, Data, MacAddr, Mtu, Notify, Op, Path, Platform, QpAttr, QpCaps, QpRecv,
    QpSend, QpType, Qpn, RecvWr, SendFlags, SendWr, Sge, Wc,
};
use e810_attach::link::{ChannelEnd, Ended, Link, Message};
use e810_attach::messages::{
    AllocPd, ControlEvent, CreateCq, CreateQp, DestroyCq, DestroyQp, EventSink, Hello, Memory,
    ModifyQp, Operation, QueryGids, Refused, RegMr, Resolve, Token, encode,
};
use e810_attach::owner::{MemoryOf, Owner};
use e810_attach::platform::AttachedPlatform;
use e810_attach::program::{Attached, Program};
use e810_attach::reception::Reception;
use e810_attach::session::Session;
use e810_attach::socket::{Peer, Socket};
use e810_backends::HostDevice;
use e810_connect::Told;

const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const BYTES: usize = 1 << 14;

/// An end of a channel that a test cuts, as the kernel does when a process is killed.
#[derive(Debug)]
struct Cuttable<L> {
    end: L,
    cut: Arc<AtomicBool>,
}

impl<L: Link> Link for Cuttable<L> {
    fn send(&self, message: Message) -> Result<(), Ended> {
        match self.cut.load(Ordering::Acquire) {
            true => Err(Ended),
            false => self.end.send(message),
        }
    }

    fn receive(&self, limit: Duration) -> Result<Option<Message>, Ended> {
        let began = Instant::now();
        while !self.cut.load(Ordering::Acquire) {
            let slice = Duration::from_millis(5).min(limit.saturating_sub(began.elapsed()));
            match self.end.receive(slice)? {
                None if began.elapsed() < limit => {}
                received => return Ok(received),
            }
        }
        Err(Ended)
    }
}

/// This process, as if it were this user's.
pub(crate) fn peer(uid: u32) -> Peer {
    Peer {
        pid: std::process::id(),
        uid,
        gid: uid,
    }
}

/// What a program has heard.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<ControlEvent>>, Mutex<Vec<Told>>);

impl EventSink for Heard {
    fn notify(&self, event: ControlEvent) {
        self.0.lock().unwrap().push(event);
    }

    fn connection(&self, told: &Told) {
        self.1.lock().unwrap().push(told.clone());
    }
}

/// `P` has its rings.
pub(crate) struct Client<P: Platform> {
    pub(crate) program: Arc<Program<P>>,
    link: Arc<dyn Link>,
    cut: Arc<AtomicBool>,
    heard: Arc<Heard>,
    session: thread::JoinHandle<()>,
}

/// Its memory, which is never freed: a test lends it for good.
pub(crate) struct Region {
    pub(crate) start: &'static mut [u8],
    pub(crate) key: u32,
}

pub(crate) struct Queue<P: Platform> {
    pub(crate) number: Qpn,
    pub(crate) send: QpSend<P>,
    pub(crate) recv: QpRecv<P>,
    pub(crate) token: Token,
}

/// A completion queue.
pub(crate) struct Completions<P: Platform> {
    pub(crate) number: u32,
    pub(crate) ring: CqRing<P>,
    pub(crate) token: Token,
}

fn simulated(attached: Attached) -> Program<AttachedPlatform> {
    match attached {
        Attached::Simulated(program) => program,
        Attached::Function(_) => unreachable!("the owner simulates it"),
    }
}

impl Client<AttachedPlatform> {
    /// As a program of this user that comes to the reception.
    ///
    /// # Errors
    /// It is not attached.
    pub(crate) fn received<D: HostDevice>(
        reception: &Arc<Reception<D>>,
        uid: u32,
    ) -> Result<Self, Refused> {
        let cut = Arc::new(AtomicBool::new(false));
        let [of_owner, of_program] = Socket::pair().unwrap().map(|end| Cuttable {
            end,
            cut: cut.clone(),
        });
        let (reception, of_owner) = (reception.clone(), Arc::new(of_owner));
        let session = thread::spawn(move || {
            let _ = reception.receive(of_owner, peer(uid));
        });
        let link: Arc<dyn Link> = Arc::new(of_program);
        link.send(encode(&Hello::Attach).into()).unwrap();
        let program = simulated(Attached::over(link.clone())?);
        program.lend_process()?;
        Ok(Self::at(link, cut, session, |_| program))
    }

    /// As a program of another process, whose memory the device reaches through the kernel.
    pub(crate) fn attached<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D) -> Self {
        let ends = Socket::pair().unwrap();
        let client = Self::over(owner, function, ends, MemoryOf::Nobody, |link| {
            simulated(Attached::over(link).unwrap())
        });
        client.program.lend_process().unwrap();
        client
    }
}

impl<D: HostDevice> Client<D> {
    pub(crate) fn new(owner: &Arc<Owner<D>>, function: &D) -> Self {
        Self::over(
            owner,
            function,
            ChannelEnd::pair(),
            MemoryOf::Owner,
            |link| Program::new(link, function.clone()).unwrap(),
        )
    }
}

impl<P: Platform + Send + Sync + 'static> Client<P> {
    fn over<D: HostDevice, L: Link + 'static>(
        owner: &Arc<Owner<D>>,
        function: &D,
        ends: [L; 2],
        memory: MemoryOf,
        program: impl FnOnce(Arc<dyn Link>) -> Program<P>,
    ) -> Self {
        let cut = Arc::new(AtomicBool::new(false));
        let [of_owner, of_program] = ends.map(|end| Cuttable {
            end,
            cut: cut.clone(),
        });
        let session = Session::begin(owner.clone(), function.clone(), Arc::new(of_owner), memory);
        let session = session.unwrap();
        let session = thread::spawn(move || session.run());
        Self::at(Arc::new(of_program), cut, session, program)
    }

    /// With this session at the other end.
    fn at(
        link: Arc<dyn Link>,
        cut: Arc<AtomicBool>,
        session: thread::JoinHandle<()>,
        program: impl FnOnce(Arc<dyn Link>) -> Program<P>,
    ) -> Self {
        let program = Arc::new(program(link.clone()));
        let heard = Arc::new(Heard::default());
        let sink: Arc<dyn EventSink> = heard.clone();
        program.listen(&sink);
        let hears = program.clone();
        thread::spawn(move || hears.hear());
        Self {
            program,
            link,
            cut,
            heard,
            session,
        }
    }

    /// Dies, with all that it has.
    pub(crate) fn die(self) {
        self.cut.store(true, Ordering::Release);
        self.session.join().unwrap();
    }

    /// Sends a message, past what the program's own end knows.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        self.link.send(bytes.into()).unwrap();
    }

    /// Sends bytes that need not be a message, and waits for the end of its session.
    pub(crate) fn send_and_end(self, bytes: &[u8]) {
        self.link.send(bytes.to_vec().into()).unwrap();
        self.session.join().unwrap();
    }

    pub(crate) fn ask<O: Operation>(&self, operation: O) -> Result<O::Answer, Refused> {
        let answer = self.program.call(operation.command())?;
        O::answer(answer).map_err(Refused::unexpected)
    }

    pub(crate) fn pd(&self) -> u32 {
        self.ask(AllocPd {}).unwrap()
    }

    pub(crate) fn region(&self, pd: u32) -> Region {
        self.ask_region(pd).unwrap()
    }

    pub(crate) fn ask_region(&self, pd: u32) -> Result<Region, Refused> {
        let start = Vec::leak(vec![0; BYTES]);
        let memory = Memory {
            address: start.as_ptr().addr(),
            length: start.len(),
        };
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let iova = memory.address as u64;
        let key = self.ask(RegMr {
            pd,
            memory,
            iova,
            access,
        });
        Ok(Region { start, key: key? })
    }

    pub(crate) fn cq(&self, entries: u32) -> Completions<P> {
        let rings = self.program.rings();
        let memory = rings.cq_memory(entries).unwrap();
        let token = Token::next();
        let granted = self.ask(CreateCq {
            place: memory.place(),
            vector: 0,
            token,
        });
        let granted = granted.unwrap();
        Completions {
            number: granted.number(),
            ring: rings.cq(memory, &granted).unwrap(),
            token,
        }
    }

    pub(crate) fn qp(&self, pd: u32, cq: &Completions<P>) -> Queue<P> {
        self.ask_qp(pd, cq).unwrap()
    }

    /// A queue pair of datagrams.
    pub(crate) fn datagrams(&self, pd: u32, cq: &Completions<P>) -> Queue<P> {
        self.ask_qp_of(QpType::Ud, pd, cq).unwrap()
    }

    pub(crate) fn ask_qp(&self, pd: u32, cq: &Completions<P>) -> Result<Queue<P>, Refused> {
        self.ask_qp_of(QpType::Rc, pd, cq)
    }

    fn ask_qp_of(
        &self,
        qp_type: QpType,
        pd: u32,
        cq: &Completions<P>,
    ) -> Result<Queue<P>, Refused> {
        let rings = self.program.rings();
        let caps = QpCaps {
            max_send_wr: 32,
            max_recv_wr: 32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let memory = rings.qp_memory(&caps).unwrap();
        let token = Token::next();
        let granted = self.ask(CreateQp {
            pd,
            qp_type,
            send_cq: cq.number,
            recv_cq: cq.number,
            caps,
            signal_all: false,
            token,
            place: memory.place(),
        });
        let (granted, _) = granted?;
        let (send, recv) = rings.qp(memory, &granted).unwrap();
        Ok(Queue {
            number: granted.number(),
            send,
            recv,
            token,
        })
    }

    /// Connects a queue pair to one of the same function.
    pub(crate) fn connect(&self, own: Qpn, peer: Qpn) {
        let table = self.ask(QueryGids {}).unwrap();
        let (index, ip) = table
            .entries()
            .map(|(index, entry)| (index, entry.gid.ip()))
            .find(|(_, ip)| ip.is_ipv4())
            .unwrap();
        let destination = Resolve {
            destination: ip,
            vlan: None,
            limit: None,
        };
        let mac: MacAddr = self.ask(destination).unwrap().mac;
        let psn = |of: Qpn| 1000 + of.get();
        for attr in [
            QpAttr::to_init(AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ),
            QpAttr::to_rtr(Path::new(index, ip, mac), Mtu::Mtu1024, peer, psn(peer)),
            QpAttr::to_rts(psn(own)),
        ] {
            self.modify(own, attr).unwrap();
        }
    }

    pub(crate) fn modify(&self, qp: Qpn, attr: QpAttr) -> Result<(), Refused> {
        self.ask(ModifyQp {
            number: qp.get(),
            attr: Box::new(attr),
        })
    }

    pub(crate) fn destroy_qp(&self, qp: Queue<P>) {
        let number = qp.number.get();
        let destroyed = self.ask(DestroyQp { number }).unwrap();
        qp.send.release(&destroyed);
        qp.recv.release(&destroyed);
    }

    pub(crate) fn destroy_cq(&self, cq: Completions<P>) {
        let destroyed = self.ask(DestroyCq { number: cq.number }).unwrap();
        cq.ring.release(&destroyed);
    }

    /// Waits for what it is told next of connections.
    pub(crate) fn is_told(&self) -> Told {
        let limit = Instant::now() + LIMIT;
        loop {
            let mut told = self.heard.1.lock().unwrap();
            if !told.is_empty() {
                return told.remove(0);
            }
            drop(told);
            assert!(Instant::now() < limit, "nothing of connections");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether it was told nothing of connections that it has not taken.
    pub(crate) fn is_told_nothing(&self) -> bool {
        self.heard.1.lock().unwrap().is_empty()
    }

    /// Waits until it has heard of this.
    pub(crate) fn hears(&self, wanted: ControlEvent) {
        let limit = Instant::now() + LIMIT;
        while !self.heard.0.lock().unwrap().contains(&wanted) {
            assert!(Instant::now() < limit, "never heard of {wanted:?}");
            thread::sleep(Duration::from_millis(1));
        }
        self.heard
            .0
            .lock()
            .unwrap()
            .retain(|event| *event != wanted);
    }
}

impl Region {
    pub(crate) fn sge(&self, at: usize, length: u32) -> Sge {
        Sge {
            addr: self.start.as_ptr().addr() as u64 + at as u64,
            length,
            lkey: self.key,
        }
    }
}

impl<P: Platform> Queue<P> {
    pub(crate) fn send(&mut self, wr_id: u64, sge: Sge) {
        let posted = self.send.post_send(&[SendWr {
            wr_id,
            op: Op::Send {
                data: Data::Sges(&[sge]),
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        }]);
        posted.unwrap();
    }

    pub(crate) fn receive(&mut self, wr_id: u64, sge: Sge) {
        let posted = self.recv.post_recv(&[RecvWr {
            wr_id,
            sges: &[sge],
        }]);
        posted.unwrap();
    }
}

impl<P: Platform> Completions<P> {
    /// The next `count` completions.
    pub(crate) fn wait(&mut self, count: usize) -> Vec<Wc> {
        let limit = Instant::now() + LIMIT;
        let mut all = Vec::new();
        while all.len() < count {
            let mut wc = [Wc::default()];
            if self.ring.poll(&mut wc) == 1 {
                all.extend(wc);
            } else {
                assert!(Instant::now() < limit, "{} of {count}", all.len());
                thread::yield_now();
            }
        }
        all
    }

    /// Asks for an event; nothing is there yet.
    pub(crate) fn arm(&mut self) {
        assert!(!self.ring.arm(Notify::Any), "something is there");
    }
}
