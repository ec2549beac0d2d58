//! Programs whose server is killed: all that they wait for ends, they can destroy everything, and
//! have the device again when there is another server.

use std::fs;
use std::ptr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use e810_verbs::abi::constants::event::DEVICE_FATAL;

use crate::harness::objects::{RC, address, flag, state};
use crate::harness::{
    Channel, Connection, Ctx, PATIENCE, errno, memory, readable, set_nonblocking, until,
};
use crate::server::World;
use crate::words::Words;

/// The program is where its server is to be killed.
const READY: usize = 0;
/// There is another server.
const AGAIN: usize = 1;
/// Not 0: the server does not answer any more.
const STOPPED: usize = 2;

/// Descriptors of this process, and files that it has mapped of the library's.
fn held() -> [usize; 2] {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let files = maps.lines().filter(|line| line.contains("memfd:e810"));
    [
        fs::read_dir("/proc/self/fd").unwrap().count(),
        files.count(),
    ]
}

/// What a program has when its server is killed.
struct Orphan {
    words: Words,
    held: [usize; 2],
    ctx: Ctx,
    /// Another context of the device.
    other: Ctx,
    channel: Channel,
    connection: Connection,
}

impl Orphan {
    fn new() -> Self {
        assert_eq!(Ctx::count(), 1);
        let held = held();
        let [ctx, other] = [(), ()].map(|()| Ctx::open(0));
        let channel = ctx.channel();
        let connection = Connection::new(ctx, Some(channel));
        connection.send(1, 0);
        for cq in connection.cqs {
            assert_eq!(cq.wait(1)[0].status, 0);
        }
        Self {
            words: Words::of_test(),
            held,
            ctx,
            other,
            channel,
            connection,
        }
    }

    fn is_ready(&self) {
        self.words.set(READY, 1);
    }

    /// The device is gone: it is told once to each context, and every call says so.
    fn hears(&self) {
        for ctx in [self.ctx, self.other] {
            assert!(readable(ctx.async_fd(), PATIENCE), "the end of the device");
            set_nonblocking(ctx.async_fd(), true);
            let event = ctx.take_event().map(|event| event.event_type);
            assert_eq!(event, Ok(DEVICE_FATAL));
        }
        self.knows();
    }

    /// It was told.
    fn knows(&self) {
        for ctx in [self.ctx, self.other] {
            // A moment later than the event.
            until("the end of events", || {
                ctx.take_event().map(drop) == Err(libc::EIO)
            });
            assert_eq!(ctx.try_attributes().map(drop), Err(libc::EIO));
        }
        assert_eq!(self.channel.take(), Err(libc::EIO));
        let Connection {
            pd, mr, cqs, a, b, ..
        } = self.connection;
        assert_eq!(pd.try_mr(memory(4096)), Err(libc::EIO));
        assert_eq!(pd.try_qp(RC, cqs[0], cqs[0]), Err(libc::EIO));
        assert!(self.ctx.try_cq(8, 0, ptr::null_mut()).is_null());
        assert_eq!(errno(), libc::EIO);
        assert_eq!(a.go_to(state::ERR), libc::EIO);
        assert_eq!(b.query().map(drop), Err(libc::EIO));
        for cq in cqs {
            assert_eq!(cq.arm(false), 0);
            until("the last completions", || cq.try_poll(16).is_err());
        }
        for turn in 0..3 {
            assert_eq!(b.recv(turn, mr.sge(0, 64)), libc::EIO);
            assert_eq!(a.send_of(turn, mr.sge(0, 64), flag::SIGNALED), libc::EIO);
            assert!(
                cqs.iter()
                    .all(|cq| cq.try_poll(16).err() == Some(libc::EIO))
            );
        }
    }

    /// Destroys everything, before or after the contexts are closed, and has the device again.
    fn goes_on(self, closes_first: bool) {
        let Self {
            words,
            held,
            ctx,
            other,
            channel,
            connection,
        } = self;
        let close = || assert_eq!([ctx.close(), other.close()], [0; 2]);
        if closes_first {
            close();
        }
        connection.destroy();
        assert_eq!(channel.destroy(), 0);
        if !closes_first {
            close();
        }
        until("what the library had", || self::held() == held);
        // It stays attached to that one, as a process keeps a function of its own.
        has_a_device(words);
    }
}

fn has_a_device(words: Words) {
    until("another server", || words.get(AGAIN) != 0);
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    connection.send(1, 0);
    for cq in connection.cqs {
        assert_eq!(cq.wait(1)[0].status, 0);
    }
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

/// Does nothing, or is stopped.
pub(crate) fn idles() {
    let orphan = Orphan::new();
    orphan.is_ready();
    orphan.hears();
    orphan.goes_on(false);
}

/// Sleeps until there is an event of each kind.
pub(crate) fn sleeps() {
    let orphan = Orphan::new();
    let (channel, ctx, other) = (orphan.channel, orphan.ctx, orphan.other);
    assert!(orphan.connection.cqs.iter().all(|cq| cq.arm(false) == 0));
    thread::scope(|scope| {
        let events = [ctx, other]
            .map(|ctx| scope.spawn(move || ctx.take_event().map(|event| event.event_type)));
        // Two for one channel.
        let completions = [(), ()].map(|()| scope.spawn(move || channel.take().map(drop)));
        thread::sleep(Duration::from_millis(50));
        orphan.is_ready();
        for event in events {
            assert_eq!(event.join().unwrap(), Ok(DEVICE_FATAL));
        }
        for completion in completions {
            assert_eq!(completion.join().unwrap(), Err(libc::EIO));
        }
    });
    orphan.knows();
    orphan.goes_on(true);
}

/// Posts and polls without a pause.
pub(crate) fn polls() {
    let orphan = Orphan::new();
    let Connection { mr, cqs, a, b, .. } = orphan.connection;
    let (mut turn, mut done) = (0, 0);
    while !readable(orphan.ctx.async_fd(), Duration::ZERO) {
        turn += 1;
        let _ = b.recv(turn, mr.sge(0, 64));
        let _ = a.send_of(turn, mr.sge(0, 64), flag::SIGNALED);
        for cq in cqs {
            let all = cq.try_poll(16).unwrap_or_default();
            assert!(all.iter().all(|one| one.status == 0), "{all:?}");
            done += all.len();
        }
        if done > 1000 {
            orphan.is_ready();
        }
    }
    orphan.hears();
    orphan.goes_on(false);
}

/// Makes children, which use their parent's objects, or only end.
pub(crate) fn forks() {
    let orphan = Orphan::new();
    let mut children = 0;
    while !readable(orphan.ctx.async_fd(), Duration::ZERO) {
        // SAFETY: the child runs what a program would.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let Connection { mr, a, cqs, .. } = orphan.connection;
            let refused = [mr.dereg(), a.destroy(), cqs[0].destroy()];
            let is_right = refused == [libc::EIO; 3] && orphan.ctx.close() == 0;
            // SAFETY: nothing of the parent's is run.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        until("a child", || {
            // SAFETY: the child that was made, and a place for its status.
            unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) == child }
        });
        assert_eq!(status, 0);
        children += 1;
        if children == 5 {
            orphan.is_ready();
        }
    }
    orphan.hears();
    orphan.goes_on(true);
}

/// A call of the library; its error number.
type Call<'a> = Box<dyn FnOnce() -> i32 + Send + 'a>;

/// Waits for answers to commands.
pub(crate) fn commands() {
    let orphan = Orphan::new();
    let Connection { ctx, pd, cqs, .. } = orphan.connection;
    let gid = ctx.gid(1);
    let spare = pd.qp(RC, cqs[0], cqs[0]);
    let spare_mr = pd.mr(memory(4096));
    let spare_cq = ctx.cq(8, 0, None);
    // Nobody answers from here on.
    orphan.words.set(READY, 1);
    until("the server to stop", || orphan.words.get(STOPPED) != 0);
    let null = |is_null: bool| if is_null { errno() } else { 0 };
    let (give, take) = channel();
    thread::scope(|scope| {
        let calls: [(&str, Call<'_>); 9] = [
            ("pd", Box::new(|| null(ctx.pd().0.is_null()))),
            (
                "cq",
                Box::new(|| null(ctx.try_cq(8, 0, ptr::null_mut()).is_null())),
            ),
            (
                "qp",
                Box::new(|| pd.try_qp(RC, cqs[0], cqs[0]).err().unwrap_or(0)),
            ),
            ("mr", Box::new(|| pd.try_mr(memory(64)).err().unwrap_or(0))),
            (
                "ah",
                Box::new(|| pd.try_ah(address(gid, 1)).err().unwrap_or(0)),
            ),
            ("modify", Box::new(|| spare.go_to(state::RESET))),
            ("resize", Box::new(|| cqs[1].resize(1000))),
            (
                "query",
                Box::new(|| ctx.try_attributes().err().unwrap_or(0)),
            ),
            // The device lets go of it with its server.
            ("dereg", Box::new(|| spare_mr.dereg())),
        ];
        let count = calls.len();
        for (what, call) in calls {
            let give = give.clone();
            scope.spawn(move || give.send((what, call())));
        }
        thread::sleep(Duration::from_millis(100));
        assert!(take.try_recv().is_err(), "nobody answers");
        orphan.words.set(READY, 2);
        for _ in 0..count {
            let (what, number) = take.recv_timeout(PATIENCE).unwrap();
            match what {
                "dereg" => assert_eq!(number, 0),
                // Or there was no memory for its ring.
                "cq" | "qp" | "resize" if number == libc::ENOMEM => {}
                _ => assert_eq!(number, libc::EIO, "{what}"),
            }
        }
    });
    orphan.hears();
    assert_eq!([spare.destroy(), spare_cq.destroy()], [0; 2]);
    orphan.goes_on(false);
}

/// Kills the server when the program is ready, which then is stopped for a while or is not.
fn kill_the_server_of(part: &str, is_stopped: bool) {
    let world = World::new();
    let mut server = world.server();
    let program = world.part(part, 0);
    until("the program", || world.words.get(READY) != 0);
    if is_stopped {
        program.signal(libc::SIGSTOP);
    }
    server.0.kill();
    // It takes the place of the dead one.
    let another = world.server();
    if is_stopped {
        program.signal(libc::SIGCONT);
    }
    world.words.set(AGAIN, 1);
    program.done();
    another.stop();
}

#[test]
fn a_program_whose_server_dies_is_told() {
    kill_the_server_of("idles", false);
}

#[test]
fn a_program_that_is_stopped_is_told_later_that_its_server_has_died() {
    kill_the_server_of("idles", true);
}

#[test]
fn who_sleeps_when_the_server_dies_wakes() {
    kill_the_server_of("sleeps", false);
}

#[test]
fn who_polls_when_the_server_dies_gets_an_error() {
    kill_the_server_of("polls", false);
}

#[test]
fn who_forks_when_the_server_dies_has_children_that_know() {
    kill_the_server_of("forks", false);
}

#[test]
fn who_waits_for_an_answer_when_the_server_dies_gets_an_error() {
    let world = World::new();
    let mut server = world.server();
    let program = world.part("commands", 0);
    until("the program", || world.words.get(READY) == 1);
    server.0.signal(libc::SIGSTOP);
    world.words.set(STOPPED, 1);
    until("its commands", || world.words.get(READY) == 2);
    server.0.kill();
    let another = world.server();
    world.words.set(AGAIN, 1);
    program.done();
    another.stop();
}
