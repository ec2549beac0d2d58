//! Descriptors: of a program that closes one that is not its own, and has its number for a file of
//! its own; `errno`, which belongs to the program while nothing fails; and too few of them.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, RawFd};

use e810_sim::{Mode, Sim, test_package};
use e810_sim_server::Server;
use e810_verbs::device::DEVICES;
use e810_verbs::query::gid::query_gid_type;
use e810_verbs::query::port::{get_pkey_index, query_pkey};

use crate::harness::objects::{RC, UD, address, state};
use crate::harness::{
    ALONE, Connection, Ctx, PATIENCE, Qp, acknowledge, errno, folder, is_over_socket, memory,
    readable, until,
};
use crate::processes::World;

/// A file of the program that gets a number, as one that it opens after `close(number)`.
fn file_at(number: RawFd) -> File {
    // SAFETY: a new file, and a number that is the program's.
    unsafe {
        let file = libc::memfd_create(c"program".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::dup2(file, number), number);
        File::from_raw_fd(file)
    }
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: a number.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

#[test]
fn a_file_that_has_got_the_number_of_a_descriptor_is_left_alone() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let [_, incoming] = connection.cqs;
    // SAFETY: it is open.
    let commands = unsafe { (*ctx.0).cmd_fd };
    let numbers = [channel.fd(), ctx.async_fd(), commands];
    let mut files = numbers.map(file_at);
    // An event of each kind, which can be taken all the same.
    assert_eq!(incoming.arm(false), 0);
    connection.send(1, 0);
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.acknowledge(1);
    let sge = connection.mr.sge(0, 8);
    let wrong = (sge.addr, connection.mr.key() ^ 1);
    assert_eq!(connection.a.rdma(0, 1, sge, wrong), 0);
    acknowledge(ctx.take_event().unwrap());
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
    for (file, number) in files.iter_mut().zip(numbers) {
        let mut found = Vec::new();
        std::io::Seek::rewind(file).unwrap();
        file.read_to_end(&mut found).unwrap();
        assert_eq!(found, [0; 0], "bytes of the library in the program's file");
        assert!(is_open(number), "the library has closed the program's file");
        // SAFETY: the program's.
        unsafe { libc::close(number) };
        assert!(file.as_raw_fd() != number);
    }
}

/// Runs a call, which must leave `errno` as it was.
#[track_caller]
fn quiet<T>(call: impl FnOnce() -> T) -> T {
    const OF_PROGRAM: i32 = 77;
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = OF_PROGRAM };
    let answer = call();
    assert_eq!(errno(), OF_PROGRAM);
    answer
}

#[test]
fn a_call_that_does_not_fail_leaves_errno_as_it_was() {
    Ctx::open(ALONE).close();
    let ctx = quiet(|| Ctx::open(ALONE));
    assert!(quiet(|| ctx.try_attributes()).is_ok());
    let gid = quiet(|| ctx.gid(1));
    let (mut key, mut kind) = (0, 0);
    // SAFETY: an open context, and places for the answers.
    unsafe {
        assert_eq!(quiet(|| query_pkey(ctx.0, 1, 0, &raw mut key)), 0);
        assert_eq!(quiet(|| get_pkey_index(ctx.0, 1, key)), 0);
        assert_eq!(quiet(|| query_gid_type(ctx.0, 1, 1, &raw mut kind)), 0);
    }
    let memory = memory(8192);
    let channel = quiet(|| ctx.channel());
    let pd = quiet(|| ctx.pd());
    let mr = quiet(|| pd.mr(memory));
    let cq = quiet(|| ctx.cq(64, 2, Some(channel)));
    let [a, b] = [(), ()].map(|()| quiet(|| pd.qp(RC, cq, cq)));
    quiet(|| a.connect(b.number(), gid, 1));
    quiet(|| b.connect(a.number(), gid, 1));
    assert_eq!(quiet(|| cq.arm(false)), 0);
    assert_eq!(quiet(|| b.recv(1, mr.sge(4096, 64))), 0);
    assert_eq!(quiet(|| a.send_of(2, mr.sge(0, 8), 2)), 0);
    assert_eq!(quiet(|| channel.take()), Ok((cq, 2)));
    quiet(|| cq.acknowledge(1));
    let mut polled = 0;
    until("completions", || {
        polled += quiet(|| cq.poll(4)).len();
        polled == 2
    });
    assert_eq!(quiet(|| cq.resize(200)), 0);
    let sge = mr.sge(0, 8);
    assert_eq!(a.rdma(0, 3, sge, (sge.addr, mr.key() ^ 1)), 0);
    assert!(readable(ctx.async_fd(), PATIENCE));
    let event = quiet(|| ctx.take_event()).unwrap();
    quiet(|| acknowledge(event));
    let reset = |qp: Qp| quiet(|| qp.go_to(state::RESET));
    assert_eq!([a, b].map(reset), [0; 2]);
    assert_eq!(
        quiet(|| a.query()).map(|attr| attr.qp_state),
        Ok(state::RESET)
    );
    let datagrams = quiet(|| pd.qp(UD, cq, cq));
    let ah = quiet(|| pd.try_ah(address(gid, 1))).unwrap();
    assert_eq!(quiet(|| ah.destroy()), 0);
    assert_eq!([a, b, datagrams].map(|qp| quiet(|| qp.destroy())), [0; 3]);
    assert_eq!(quiet(|| mr.dereg()), 0);
    assert_eq!(quiet(|| cq.destroy()), 0);
    assert_eq!(quiet(|| channel.destroy()), 0);
    assert_eq!(quiet(|| pd.free()), 0);
    assert_eq!(quiet(|| ctx.close()), 0);
}

/// Descriptors of the process, and one by which they are seen; without those with high numbers that
/// who started the test has left open, which no limit of this test counts.
pub(crate) fn open_files() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|file| file.file_name().len() < 3).count()
}

/// Numbers of descriptors are below this.
pub(crate) fn leave_descriptors(most: usize) {
    let limit = libc::rlimit {
        rlim_cur: most as libc::rlim_t,
        rlim_max: 1024,
    };
    // SAFETY: a limit that is read.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0);
}

/// Opens a function with one descriptor more each time, until there are enough: so many are
/// printed, and how many of them it has.
pub(crate) fn few_descriptors() {
    assert_eq!(Ctx::count(), 1);
    // Numbers are free only behind all that are in use, whatever this process was started with.
    loop {
        let another = File::open("/dev/null").unwrap().into_raw_fd();
        if open_files() - 1 == another as usize + 1 {
            break;
        }
    }
    let before = open_files() - 1;
    let mut given = 0;
    let ctx = loop {
        leave_descriptors(before + given);
        match Ctx::try_open(0) {
            Ok(ctx) => break ctx,
            Err(number) => assert_eq!(number, libc::EMFILE, "{given}"),
        }
        given += 1;
        assert!(given < 500, "it takes more than that");
    };
    leave_descriptors(1024);
    println!("\n{given} {}", open_files() - 1 - before);
    // It has its LAN queues, too.
    assert!(ctx.pd().try_ah(address(ctx.gid(1), 1)).is_ok());
}

/// The number of the system, and lines that say how many it takes: not that memory or interrupts
/// are missing.
#[test]
fn a_function_that_takes_more_descriptors_than_there_are_says_how_many() {
    // The function of another process takes none of this one's.
    if is_over_socket() {
        return;
    }
    let world = World::new("descriptors");
    let [socket, package] = ["few.sock", "few.pkg"].map(|name| folder().join(name));
    let sim = Sim::builder().mode(Mode::Real).cold().build();
    let _server = Server::start(sim, std::slice::from_ref(&socket)).unwrap();
    std::fs::write(&package, test_package()).unwrap();
    let served = format!("vfio-user:{}@10.8.9.1", socket.display());
    for (device, least) in [(None, 3), (Some(served), 30)] {
        let mut process = world.process("few descriptors", 1);
        if let Some(device) = device {
            process.env(DEVICES, device).env("E810_DDP", &package);
        }
        let output = process.output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let counts = out.lines().find_map(|line| {
            let (given, taken) = line.split_once(' ')?;
            Some((given.parse::<usize>().ok()?, taken.parse::<usize>().ok()?))
        });
        let (given, taken) = counts.unwrap_or_else(|| panic!("{out}{err}"));
        // What is said is enough, and hardly more.
        assert!((taken..=taken + 8).contains(&given), "{given}: {taken}");
        let lines: Vec<&str> = err
            .lines()
            .filter(|line| line.starts_with("e810: "))
            .collect();
        assert_eq!(lines.len(), given, "{err}");
        let says = |line: &&str| line.contains(" descriptors") && line.contains("`ulimit -n");
        assert!(lines.iter().all(says), "{err}");
        assert!(given > least, "{given}");
    }
}
