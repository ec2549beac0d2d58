//! A program that does what none should, beside two that compare what they get: it harms itself
//! alone, and the server keeps nothing of it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, slice, thread};

use e810_attach::link::{Ended, Link as _, Message};
use e810_attach::messages::{
    AllocPd, Answer, Asked, Command, Hello, Lend, LendDoorbells, LendProcess, Operation as _,
    QueryDevice, Refused, TakeBack, Told, Wake, decode, encode,
};
use e810_attach::socket::Socket;
use e810_backends::memory::SharedMemory;
use vmm_sys_util::sock_ctrl_msg::ScmSocket as _;

use crate::harness::objects::flag;
use crate::harness::{Connection, Ctx, PATIENCE, until};
use crate::pair::Pair;
use crate::server::{Has, Server, World};
use crate::victim::Draw;

const PAGE: usize = 4096;

/// A program that says what it likes.
struct Stranger {
    socket: Socket,
    last: u64,
}

impl Stranger {
    fn new(world: &World) -> Self {
        let socket = Socket::connect(&world.at()).unwrap();
        socket.send(encode(&Hello::Attach).into()).unwrap();
        let mut stranger = Self { socket, last: 0 };
        assert!(matches!(stranger.hear(), Ok(Told::Welcome(_))));
        stranger
    }

    fn hear(&mut self) -> Result<Told, Ended> {
        let limit = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < limit, "the server says nothing");
            if let Some(message) = self.socket.receive(Duration::from_secs(1))? {
                return decode(&message.bytes).map_err(|_| Ended);
            }
        }
    }

    fn tell(&mut self, command: Command, file: Option<OwnedFd>) {
        self.last += 1;
        let number = self.last;
        let bytes = encode(&Asked { number, command });
        self.socket.send(Message { bytes, file }).unwrap();
    }

    fn ask(&mut self, command: Command, file: Option<OwnedFd>) -> Result<Answer, Refused> {
        self.tell(command, file);
        loop {
            if let Ok(Told::Answer(number, answered)) = self.hear() {
                assert_eq!(number, self.last);
                return answered;
            }
        }
    }

    /// The server cuts it off.
    fn is_cut_off(&mut self) {
        while self.hear().is_ok() {}
    }
}

/// The server has what it had, and `more` descriptors.
#[track_caller]
fn has(server: &Server, before: Has, more: usize) {
    let mut has = before;
    let limit = Instant::now() + PATIENCE;
    while Instant::now() < limit {
        has = server.has();
        if has.descriptors == before.descriptors + more {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("{has:?} is not {before:?} and {more} descriptors");
}

/// Files of all kinds, but of none that the server takes as memory for rings.
fn files() -> Vec<(&'static str, OwnedFd)> {
    let open = |path: &str| OwnedFd::from(File::open(path).unwrap());
    let mem = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let sealed = SharedMemory::new(PAGE, false).unwrap();
    let again = format!("/proc/self/fd/{}", sealed.file().as_raw_fd());
    let loose = memfd();
    loose.set_len(PAGE as u64).unwrap();
    let (pipe, _) = io::pipe().unwrap();
    let (socket, _) = UnixStream::pair().unwrap();
    vec![
        ("a pipe", pipe.into()),
        ("a folder", open("/")),
        ("a socket", socket.into()),
        ("a file that may shrink", loose.into()),
        ("a file that cannot be written", open(&again)),
        ("zeroes", open("/dev/zero")),
        ("memory of a process", mem.unwrap().into()),
    ]
}

fn memfd() -> File {
    // SAFETY: the name is a string that ends with a zero.
    let fd = unsafe { libc::memfd_create(c"loose".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: a new descriptor that nobody else has.
    unsafe { File::from_raw_fd(fd) }
}

fn sends_bytes(world: &World, draw: &mut Draw) {
    let good = encode(&Asked {
        number: 1,
        command: Lend {
            bytes: 4096,
            address: None,
        }
        .command(),
    });
    for turn in 0..200 {
        let mut stranger = Stranger::new(world);
        stranger.tell(AllocPd {}.command(), None);
        let bytes: Vec<u8> = match turn % 3 {
            0 => (0..1 + draw.below(5000))
                .map(|_| draw.below(256) as u8)
                .collect(),
            1 => good[..1 + draw.below(good.len() - 1)].to_vec(),
            _ => {
                let mut changed = good.clone();
                changed[0] ^= 1 << draw.below(8);
                changed
            }
        };
        stranger.socket.send(bytes.into()).unwrap();
        stranger.is_cut_off();
    }
}

fn says_nothing(world: &World) {
    let silent: Vec<_> = (0..64).map(|_| Socket::connect(&world.at())).collect();
    let stranger = Stranger::new(world).ask(AllocPd {}.command(), None);
    stranger.unwrap();
    drop(silent);
}

fn sends_files(world: &World, server: &Server, before: Has) {
    let mut stranger = Stranger::new(world);
    stranger.ask(AllocPd {}.command(), None).unwrap();
    let with = server.has().descriptors - before.descriptors;
    // Where none belongs.
    for (_, file) in files() {
        stranger.ask(QueryDevice {}.command(), Some(file)).unwrap();
    }
    // One of a wrong kind, or none.
    for (what, file) in files() {
        let lent = stranger.ask(
            Lend {
                bytes: 4096,
                address: None,
            }
            .command(),
            Some(file),
        );
        assert!(lent.is_err(), "{what}");
    }
    for (what, file) in files() {
        let lent = stranger.ask(LendDoorbells {}.command(), Some(file));
        assert!(lent.is_err(), "{what}");
    }
    let of_process = [
        "/proc/self/maps",
        "/proc/self/oom_score_adj",
        "/proc/self/comm",
    ];
    let of_process = of_process.map(|path| {
        (
            "another file of a process",
            File::open(path).unwrap().into(),
        )
    });
    for (what, file) in files().into_iter().chain(of_process) {
        if what != "memory of a process" {
            let lent = stranger.ask(LendProcess {}.command(), Some(file));
            assert!(lent.is_err(), "{what}");
        }
    }
    for command in [
        Lend {
            bytes: 4096,
            address: None,
        }
        .command(),
        LendDoorbells {}.command(),
        LendProcess {}.command(),
    ] {
        assert!(stranger.ask(command, None).is_err());
    }
    has(server, before, with);
    // More than belong in a message.
    many_files(&stranger);
    stranger.ask(AllocPd {}.command(), None).unwrap();
    has(server, before, with);
    // A good one is mapped and closed.
    let good = SharedMemory::new(PAGE, false).unwrap();
    let file = || good.file().try_clone_to_owned().unwrap();
    let lent = stranger.ask(
        Lend {
            bytes: PAGE as u64,
            address: None,
        }
        .command(),
        Some(file()),
    );
    let Ok(Answer::Lend(iova)) = lent else {
        panic!("{lent:?}");
    };
    has(server, before, with);
    for iova in [iova + 1, iova + 4096, 0, u64::MAX] {
        assert!(stranger.ask(TakeBack { iova }.command(), None).is_err());
    }
    stranger.ask(TakeBack { iova }.command(), None).unwrap();
    assert!(stranger.ask(TakeBack { iova }.command(), None).is_err());
}

/// The socket itself, on which sends wait until there is room.
fn itself(stranger: &Stranger) -> UnixDatagram {
    let socket = stranger.socket.as_fd().try_clone_to_owned().unwrap();
    let socket = UnixDatagram::from(socket);
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends a message with as many files as the kernel takes.
fn many_files(stranger: &Stranger) {
    let wake = encode(&Asked {
        number: 0,
        command: Command::Wake(Wake {}),
    });
    let (pipe, _) = io::pipe().unwrap();
    let fds = vec![pipe.as_raw_fd(); 200];
    itself(stranger).send_with_fds(&[&wake[..]], &fds).unwrap();
}

fn rings_everything(world: &World) {
    let mut stranger = Stranger::new(world);
    // As many as the server wants: it says so by refusing others.
    let lent = (1..4096).find_map(|pages| {
        let memory = SharedMemory::new(pages * PAGE, false).unwrap();
        let file = memory.file().try_clone_to_owned().unwrap();
        let lent = stranger.ask(LendDoorbells {}.command(), Some(file));
        lent.is_ok().then_some(memory)
    });
    let lent = lent.unwrap();
    let memory = lent.without_file();
    for turn in 0..200 {
        for word in &memory.words()[1..] {
            word.store(u64::MAX, Ordering::SeqCst);
        }
        memory.words()[0].store(turn % 2, Ordering::SeqCst);
        stranger.tell(Command::Wake(Wake {}), None);
    }
    stranger.ask(AllocPd {}.command(), None).unwrap();
}

/// Asks and never reads.
fn does_not_read(world: &World) {
    let stranger = Stranger::new(world);
    let socket = itself(&stranger);
    let question = encode(&Asked {
        number: 1,
        command: QueryDevice {}.command(),
    });
    let asked = (0..1_000_000).find(|_| socket.send(&question).is_err());
    assert!(asked.is_some_and(|asked| asked > 1000), "{asked:?}");
}

#[test]
fn a_hostile_program_harms_itself_alone() {
    let world = World::new();
    let server = world.server();
    let mut pair = Pair::start(&world);
    let before = server.has();
    let mut draw = Draw(1);
    sends_bytes(&world, &mut draw);
    has(&server, before, 0);
    says_nothing(&world);
    has(&server, before, 0);
    sends_files(&world, &server, before);
    has(&server, before, 0);
    rings_everything(&world);
    has(&server, before, 0);
    pair.go_on(&world);
    does_not_read(&world);
    pair.go_on(&world);
    has(&server, before, 0);
    pair.end(&world);
    server.stop();
}

/// Words of a file that a program's few rings do not exceed.
const RINGS: usize = 4096;

/// Writes anything into its own rings, and rings.
pub(crate) fn scribbles() {
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    let words = crate::words::Words::of_test();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let files = maps.lines().filter(|line| line.contains("memfd:e810"));
    let spans: Vec<&'static [AtomicU64]> = files
        .map(|line| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            // Rings are at the beginning of a file, which has room for many.
            let words = ((end - start) / 8).min(RINGS);
            // SAFETY: mapped as long as the process lives; everybody uses it atomically.
            unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(start), words) }
        })
        .collect();
    // Meanwhile, so that also what the library has just written is something else when the device
    // reads it.
    let mut draw = Draw(3);
    thread::spawn(move || {
        loop {
            let span = spans[draw.below(spans.len())];
            let word = (draw.below(1 << 32) as u64) << 32 | draw.below(1 << 32) as u64;
            span[draw.below(span.len())].store(word, Ordering::SeqCst);
        }
    });
    for turn in 0..4000 {
        let sge = connection.mr.sge(0, 64);
        connection.b.recv(turn, sge);
        connection.a.send_of(turn, sge, flag::SIGNALED);
        // Also when its queue pairs have failed.
        let _ = connection.cqs.map(|cq| cq.arm(false));
        words.set(0, turn + 1);
    }
    // Whatever its own library makes of it.
    // SAFETY: nothing else is run.
    unsafe { libc::_exit(crate::server::DONE) }
}

#[test]
fn who_writes_anything_into_its_rings_is_a_finding_and_harms_nobody() {
    let world = World::new();
    let mut server = world.server();
    let mut pair = Pair::start(&world);
    // Whether the device reads a word just then is chance: about one in four comes to its end without.
    for _ in 0..16 {
        world.words.set(0, 0);
        let mut scribbles = world.part("scribbles", 0);
        until("the end of who scribbles", || scribbles.has_ended());
        assert!(world.words.get(0) > 0, "{}", scribbles.complaints());
    }
    pair.go_on(&world);
    pair.end(&world);
    server.0.signal(libc::SIGTERM);
    let status = server.0.end();
    let said = server.0.complaints();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the simulator recorded"), "{said}");
}
