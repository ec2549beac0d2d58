//! A program that says what it likes over its socket, and lends what it likes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use e810::{CqPlace, Iova, QpCaps, QpPlace, QpType};
use e810_attach::link::{Link as _, Message};
use e810_attach::messages::{
    AllocPd, Answer, Asked, Command, CreateCq, CreateQp, DestroyCq, DestroyQp, Lend, Operation,
    Refused, ResizeCq, TakeBack, Token, Told, decode, encode,
};
use e810_attach::owner::{MemoryOf, Owner};
use e810_attach::session::Session;
use e810_attach::socket::Socket;
use e810_backends::HostDevice;
use e810_backends::memory::{MappedMemory, SharedMemory};

use crate::program::{Client, peer};
use crate::talk::message;
use crate::{Scenario, with_function};

const LIMIT: Duration = Duration::from_secs(60);

/// Its end of the socket.
pub(crate) struct Raw {
    socket: Socket,
    last: u64,
    session: JoinHandle<()>,
}

impl Raw {
    pub(crate) fn new<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D) -> Self {
        let [of_owner, socket] = Socket::pair().unwrap();
        let (owner, function) = (owner.clone(), function.clone());
        let session = Session::begin(owner, function, Arc::new(of_owner), MemoryOf::Nobody);
        let session = session.unwrap().of(peer(0));
        let session = thread::spawn(move || session.run());
        let raw = Self {
            socket,
            last: 0,
            session,
        };
        assert!(matches!(raw.hear(), Told::Welcome(_)));
        raw
    }

    fn hear(&self) -> Told {
        let message = self.socket.receive(LIMIT).expect("a server that lives");
        decode(&message.expect("an answer").bytes).unwrap()
    }

    fn tell(&mut self, command: Command, file: Option<OwnedFd>) {
        self.last += 1;
        let number = self.last;
        let bytes = encode(&Asked { number, command });
        self.socket.send(Message { bytes, file }).unwrap();
    }

    fn answer(&mut self, command: Command, file: Option<OwnedFd>) -> Result<Answer, Refused> {
        self.tell(command, file);
        loop {
            if let Told::Answer(number, answered) = self.hear()
                && number == self.last
            {
                return answered;
            }
        }
    }

    /// The answer; `None` if the server has closed the socket.
    pub(crate) fn answered(&mut self, command: Command) -> Option<Result<Answer, Refused>> {
        self.tell(command, None);
        loop {
            let message = self.socket.receive(LIMIT).ok()?;
            let told = decode(&message.expect("an answer").bytes).unwrap();
            if let Told::Answer(number, answered) = told
                && number == self.last
            {
                return Some(answered);
            }
        }
    }

    /// Lends all memory of this process.
    pub(crate) fn lend_process(&mut self) {
        let lend = e810_attach::messages::LendProcess {};
        self.answer(lend.command(), Some(process_memory().into()))
            .unwrap();
    }

    pub(crate) fn ask<O: Operation>(&mut self, operation: O) -> Result<O::Answer, Refused> {
        let answered = self.answer(operation.command(), None)?;
        O::answer(answered).map_err(Refused::unexpected)
    }

    /// Lends a file of so many bytes.
    pub(crate) fn lend(&mut self, bytes: usize) -> (u64, MappedMemory) {
        let memory = SharedMemory::new(bytes, false).unwrap();
        let file = memory.file().try_clone_to_owned().unwrap();
        let lend = Lend {
            bytes: bytes as u64,
            address: None,
        };
        match self.answer(lend.command(), Some(file)) {
            Ok(Answer::Lend(iova)) => (iova, memory.without_file()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn cq(&mut self, ring: u64, entries: u32, shadow: u64) -> Result<u32, Refused> {
        // Its fields are not all public.
        let ring = cq_place(ring, entries, shadow);
        let granted = self.ask(CreateCq {
            place: ring,
            vector: 0,
            token: Token::next(),
        })?;
        Ok(granted.number())
    }

    /// Ends; the session must not have panicked.
    pub(crate) fn end(self) {
        drop(self.socket);
        self.session.join().expect("no panic of the server");
    }
}

fn process_memory() -> std::fs::File {
    let mut options = std::fs::File::options();
    let memory = options.read(true).write(true).open("/proc/self/mem");
    memory.unwrap()
}

fn cq_place(ring: u64, entries: u32, shadow: u64) -> CqPlace {
    CqPlace {
        ring: e810::CqRingPlace {
            entries,
            ring: Iova(ring),
        },
        shadow: Iova(shadow),
    }
}

/// Bytes of a completion queue's entry, and of a ring.
const ENTRY: u64 = 32;
const RING: u64 = 2 << 20;
/// Completion queues in memory that is taken back.
const STALE: u64 = 400;

#[derive(Clone, Copy)]
struct TakesBack;

impl Scenario for TakesBack {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let mut raw = Raw::new(owner, function);
        let (shadows, _shadows) = raw.lend(1 << 16);
        let mut stale = Vec::new();
        for at in 0..STALE {
            // Low addresses are given out often.
            let start = loop {
                let (start, _) = raw.lend(RING as usize);
                if start < 1 << 32 {
                    break start;
                }
                raw.ask(TakeBack { iova: start }).unwrap();
            };
            raw.cq(start, (RING / ENTRY) as u32, shadows + 64 * at)
                .unwrap();
            stale.push(start);
        }
        let taken: Vec<_> = stale
            .iter()
            .map(|start| raw.ask(TakeBack { iova: *start }))
            .collect();
        // Another program's rings.
        let mut victim = Raw::new(owner, function);
        let theirs = (0..400).find_map(|_| {
            let (iova, _) = victim.lend(4096);
            let of = stale
                .iter()
                .find(|start| (**start..**start + RING).contains(&iova));
            of.map(|start| (*start, iova))
        });
        assert!(
            taken.iter().all(Result::is_err),
            "files were given back although completion queues are in them; now (ring of the first program, ring of another one in it): {theirs:#x?}"
        );
        victim.end();
        raw.end();
    }
}

#[test]
fn what_the_device_writes_to_is_not_given_back() {
    with_function(TakesBack);
}

#[derive(Clone, Copy)]
struct GivesBack;

impl Scenario for GivesBack {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let mut raw = Raw::new(owner, function);
        let [first, second, shadow, queues] = [1 << 20, 1 << 20, 4096, 4 << 20].map(|bytes| {
            let (start, _) = raw.lend(bytes);
            start
        });
        let is_refused = |raw: &mut Raw, iova| match raw.ask(TakeBack { iova }) {
            Ok(()) => panic!("a file with queues was given back"),
            Err(refused) => assert_eq!(refused.errno, libc::EBUSY, "{refused}"),
        };
        let cq = raw.cq(first, 64, shadow).unwrap();
        let pd = raw.ask(AllocPd {}).unwrap();
        let qp = raw.qp(pd, cq, QpType::Rc, queues).unwrap();
        for iova in [first, shadow, queues] {
            is_refused(&mut raw, iova);
        }
        let resized = raw.ask(ResizeCq {
            number: cq,
            place: cq_place(second, 128, shadow).ring,
        });
        assert!(resized.unwrap().is_some());
        raw.ask(TakeBack { iova: first }).unwrap();
        drop(raw.ask(DestroyQp { number: qp }).unwrap());
        raw.ask(TakeBack { iova: queues }).unwrap();
        for iova in [second, shadow] {
            is_refused(&mut raw, iova);
        }
        drop(raw.ask(DestroyCq { number: cq }).unwrap());
        for iova in [second, shadow] {
            raw.ask(TakeBack { iova }).unwrap();
        }
        let twice = raw.ask(TakeBack { iova: shadow }).unwrap_err();
        assert_eq!(twice.errno, libc::EINVAL, "{twice}");
        raw.end();
    }
}

#[test]
fn files_come_back_when_no_queue_is_in_them() {
    with_function(GivesBack);
}

impl Raw {
    pub(crate) fn qp(
        &mut self,
        pd: u32,
        cq: u32,
        qp_type: QpType,
        at: u64,
    ) -> Result<u32, Refused> {
        let caps = QpCaps {
            max_send_wr: 32,
            max_recv_wr: 32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let (granted, _) = self.ask(CreateQp {
            pd,
            qp_type,
            send_cq: cq,
            recv_cq: cq,
            caps,
            signal_all: false,
            token: Token::next(),
            place: QpPlace {
                sq: Iova(at),
                rq: Iova(at + (1 << 20)),
            },
        })?;
        Ok(granted.number().get())
    }
}

#[derive(Clone, Copy)]
struct TakesManagement;

impl Scenario for TakesManagement {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let mut raw = Raw::new(owner, function);
        let (start, _memory) = raw.lend(4 << 20);
        let (shadow, _shadow) = raw.lend(4096);
        let cq = raw.cq(start, 64, shadow).unwrap();
        let pd = raw.ask(AllocPd {}).unwrap();
        let made = raw.qp(pd, cq, QpType::Gsi, start + (1 << 20));
        assert!(
            made.is_err(),
            "a program has queue pair {made:?}, to which all management datagrams of the function go"
        );
        raw.end();
    }
}

#[test]
fn queue_pair_1_is_no_programs() {
    with_function(TakesManagement);
}

/// Threads of this process that wait for the address of a peer.
fn questions() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("e810-resolve"))
        .count()
}

const ASKED: u64 = 16;

#[derive(Clone, Copy)]
struct AsksAndDies;

impl Scenario for AsksAndDies {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        use e810_attach::messages::{Resolve, Resource};
        use e810_attach::owner::AskedLimits;
        const USER: u32 = 54_321;
        let reception = e810_attach::reception::Reception::new(owner.clone(), function.clone());
        let reception = Arc::new(reception);
        owner.limit(&AskedLimits {
            program: vec![(Resource::Questions, ASKED)],
            user: vec![(Resource::Questions, ASKED), (Resource::Programs, 1)],
            programs: None,
        });
        for round in 0..8 {
            let client = Client::received(&reception, USER).unwrap();
            let pd = client.pd();
            for host in 0..ASKED {
                let host = (100 + host) as u8;
                let command = Command::Resolve(Resolve {
                    destination: [10, 8, 1, host].into(),
                    vlan: None,
                    limit: None,
                });
                let number = 1000 + u64::from(host);
                client.send(encode(&Asked { number, command }));
            }
            // All were taken when this is answered.
            client
                .ask(e810_attach::messages::DeallocPd { number: pd })
                .unwrap();
            client.die();
            let under_way = questions();
            assert!(
                under_way < 4 * ASKED as usize,
                "{under_way} questions of a user who may have {ASKED}, in round {round}"
            );
        }
    }
}

#[test]
fn questions_of_the_dead_count() {
    with_function(AsksAndDies);
}

/// A file of the kernel that is called as a process' memory is, because it is mounted at that name.
/// `None` without the right to mount.
fn called_mem() -> Option<std::fs::File> {
    use std::ffi::CString;
    let folder = std::env::temp_dir().join(format!("e810-mem-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let at = folder.join("mem");
    std::fs::write(&at, "").unwrap();
    let text = |path: &str| CString::new(path).unwrap();
    let at_text = text(at.to_str().unwrap());
    let (none, root, file) = (text("none"), text("/"), text("/proc/self/oom_score_adj"));
    // SAFETY: strings that end with a zero; the mounts are this thread's own.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                none.as_ptr(),
                root.as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(
                file.as_ptr(),
                at_text.as_ptr(),
                std::ptr::null(),
                libc::MS_BIND,
                std::ptr::null(),
            ) == 0
    };
    mounted.then(|| {
        let mut options = std::fs::File::options();
        options.read(true).write(true).open(&at).unwrap()
    })
}

#[derive(Clone, Copy)]
struct LendsOther;

impl Scenario for LendsOther {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        use e810_attach::messages::LendProcess;
        let mut raw = Raw::new(owner, function);
        // Its mounts are there as long as the thread is.
        let ((give, take), (end, ends)) = (channel(), channel::<()>());
        thread::spawn(move || {
            give.send(called_mem()).unwrap();
            let _ = ends.recv();
        });
        let Some(file) = take.recv().unwrap() else {
            println!("NOT RUN: this process may not mount");
            return;
        };
        let lent = raw.answer(LendProcess {}.command(), Some(file.into()));
        drop(end);
        assert!(
            lent.is_err(),
            "the server takes /proc/self/oom_score_adj for the memory of a process, and writes to it what the program says, with the server's rights"
        );
    }
}

#[test]
fn what_is_only_called_as_memory_of_a_process_is_not_taken() {
    with_function(LendsOther);
}

#[derive(Clone, Copy)]
struct RegistersMuch;

impl Scenario for RegistersMuch {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        use e810::AccessFlags;
        use e810_attach::messages::{DeregMr, Memory, RegMr};
        use e810_hal::{Access, ProgramBytes};
        const BYTES: usize = 1 << 30;
        let [mut a, mut b] = crate::talk::attached_pair(owner, function);
        let mut raw = Raw::new(owner, function);
        raw.lend_process();
        let pd = raw.ask(AllocPd {}).unwrap();
        let lends = function.lends().unwrap();
        let program = lends.attach_program();
        lends.lend_process(program, process_memory());
        for n in 0..16 {
            let key = raw.ask(RegMr {
                pd,
                memory: Memory {
                    address: 4096,
                    length: BYTES,
                },
                iova: 4096,
                access: AccessFlags::LOCAL_WRITE,
            });
            message(&mut a, &mut b, n);
            raw.ask(DeregMr { key: key.unwrap() }).unwrap();
            // One step, however much it is: everybody waits meanwhile.
            let memory = ProgramBytes {
                program,
                address: 4096,
                len: BYTES,
            };
            let mapped = function.dma_map_program(memory, Access::ReadWrite).unwrap();
            assert_eq!(mapped.segments, 1);
            function.dma_unmap(mapped);
        }
        lends.detach_program(program);
        raw.end();
    }
}

#[test]
fn who_registers_much_does_not_stop_the_messages_of_others() {
    with_function(RegistersMuch);
}
