//! Tables with a bound: what happens at it, and that what is freed makes room again
//! (`docs/limits.md`).

use std::ffi::c_int;
use std::ptr;

use e810_sim::{Mode, Sim, test_package};
use e810_sim_server::Server;
use e810_verbs::abi::query::DeviceAttr;
use e810_verbs::abi::state::Gid;
use e810_verbs::channel::create_comp_channel;
use e810_verbs::device::DEVICES;
use e810_verbs::query::device::query_device;

use crate::harness::objects::{Channel, Cq, Qp, RC, UD, address};
use crate::harness::{Ctx, Pd, errno, folder, memory};
use crate::processes::World;

/// Makes objects until one is refused, frees the last and makes it again: how many there were, and
/// what the refusal said. All are freed then.
fn fill<T>(
    mut make: impl FnMut(usize) -> Result<T, c_int>,
    free: impl Fn(T) -> c_int,
) -> (usize, c_int) {
    let mut made = Vec::new();
    let why = loop {
        match make(made.len()) {
            Ok(object) => made.push(object),
            Err(number) => break number,
        }
    };
    let count = made.len();
    assert_eq!(free(made.pop().unwrap()), 0);
    made.push(make(count - 1).unwrap());
    assert!(make(count).is_err(), "there was room for one");
    assert!(made.into_iter().all(|object| free(object) == 0));
    (count, why)
}

/// An object, or the error number.
fn found<T>(pointer: *mut T) -> Result<*mut T, c_int> {
    match pointer.is_null() {
        true => Err(errno()),
        false => Ok(pointer),
    }
}

pub(crate) fn all_are_full() {
    let ctx = Ctx::open(0);
    let pd = ctx.pd();
    let cq = ctx.cq(8, 0, None);
    // SAFETY: numbers.
    let mut most: DeviceAttr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and a place for the answer.
    assert_eq!(unsafe { query_device(ctx.0, &raw mut most) }, 0);
    // So many beside those that are there already.
    let full = |most: c_int, there: usize| (most as usize - there, libc::ENOMEM);
    let (page, gid) = (memory(4096), ctx.gid(1));
    let pds = fill(|_| found(ctx.pd().0).map(Pd), Pd::free);
    assert_eq!(pds, full(most.max_pd, 1), "protection domains");
    let mrs = fill(|_| pd.try_mr(page), |mr| mr.dereg());
    assert_eq!(mrs, full(most.max_mr, 0), "regions");
    let no_channel = ptr::null_mut();
    let cqs = fill(
        |_| found(ctx.try_cq(8, 0, no_channel)).map(Cq),
        |cq| cq.destroy(),
    );
    assert_eq!(cqs, full(most.max_cq, 1), "completion queues");
    // The number of one is free when its completion queue was polled.
    let destroy = |qp: Qp| {
        let destroyed = qp.destroy();
        cq.poll(1);
        destroyed
    };
    let qps = fill(|_| pd.try_qp(RC, cq, cq), destroy);
    assert_eq!(qps, full(most.max_qp, 0), "queue pairs");
    let ahs = fill(|_| pd.try_ah(address(gid, 1)), |ah| ah.destroy());
    assert_eq!(ahs, full(most.max_ah, 0), "address handles");
    let qp = pd.qp(UD, cq, cq);
    let group = |index: usize| {
        let mut raw = [0; 16];
        raw[10..12].fill(0xFF);
        raw[12..].copy_from_slice(&(0xE9_00_00_00_u32 + index as u32).to_be_bytes());
        Gid { raw }
    };
    let groups = fill(
        |index| match qp.attach(group(index)) {
            0 => Ok(group(index)),
            number => Err(number),
        },
        |group| qp.detach(group),
    );
    assert_eq!(groups, full(most.max_mcast_grp, 0), "groups");
    descriptors(ctx);
    assert_eq!([qp.destroy(), cq.destroy(), pd.free()], [0; 3]);
    assert_eq!(ctx.close(), 0);
}

/// Channels and contexts have descriptors.
fn descriptors(ctx: Ctx) {
    leave_descriptors(open_files() + 20);
    // SAFETY: an open context.
    let channel = || found(unsafe { create_comp_channel(ctx.0) }).map(Channel);
    let (channels, why) = fill(|_| channel(), Channel::destroy);
    assert!(channels > 5 && why == libc::EMFILE, "{channels}: {why}");
    let (contexts, why) = fill(|_| Ctx::try_open(0), Ctx::close);
    assert!(contexts > 3 && why == libc::EMFILE, "{contexts}: {why}");
}

/// Descriptors of the process, and one by which they are seen; without those with high numbers that
/// who started the test has left open, which no limit of this test counts.
fn open_files() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|file| file.file_name().len() < 3).count()
}

/// Numbers of descriptors are below this.
fn leave_descriptors(most: usize) {
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

#[test]
fn a_full_table_is_an_error_and_gives_places_back() {
    World::new("tables").run("all tables are full", 1);
}
