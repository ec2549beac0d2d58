//! Lives of processes: fork, exec, exit and death, each in a process of its own, which is this
//! test again with a part in `E810_PART`.

use std::env;
use std::ffi::{CStr, c_int};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e810_verbs::abi::state::Gid;
use e810_verbs::channel::create_comp_channel;
use e810_verbs::device::DEVICES;

use crate::harness::objects::{RC, address, flag, state};
use crate::harness::{
    Channel, Connection, Ctx, acknowledge, errno, folder, memory, readable, set_nonblocking, until,
};

/// The variable with the part that a process plays.
const PART: &str = "E810_PART";
/// What a process ends with that has done its part.
const DONE: c_int = 42;

/// What the processes of a test share: a wire, and the locks of the functions on it.
struct World {
    name: &'static str,
    folder: PathBuf,
}

impl World {
    fn new(name: &'static str) -> Self {
        let folder = folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self { name, folder }
    }

    /// A process that plays a part, for which there are `functions`.
    fn process(&self, part: &str, functions: usize) -> Command {
        let wire = format!("{}{}", self.name, std::process::id());
        let function =
            |n| format!("sim:wire={wire},mac=02:00:00:00:03:0{n}@10.8.4.{n},fd00:8:4::{n}");
        let functions: Vec<_> = (1..=functions).map(function).collect();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "processes::a_part_of_another_test",
            "--nocapture",
        ]);
        command.env(PART, part);
        command.env(DEVICES, functions.join("|"));
        command.env("E810_LOCKS", &self.folder);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a part to its end, which must be a good one.
    #[track_caller]
    fn run(&self, part: &str, functions: usize) -> Output {
        let mut command = self.process(part, functions);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut code = None;
        until(part, || {
            code = child.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.unwrap().code(), Some(DONE), "{part}: {code:?}");
        child.wait_with_output().unwrap()
    }
}

#[test]
fn a_part_of_another_test() {
    let Ok(part) = env::var(PART) else {
        return;
    };
    match part.as_str() {
        "child exits" => child_exits(),
        "child runs another program" => child_executes(),
        "child has a function" => child_has_a_function(),
        "child has none" => child_has_none(),
        "child destroys" => child_destroys(),
        "child of busy threads" => child_of_busy_threads(),
        "exit" => exit_at_work(),
        "use" => use_it(),
        "hold" => hold(),
        other => panic!("{other}"),
    }
    end(DONE);
}

/// As a program does: what is to be done at the exit is.
fn end(code: c_int) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::exit(code) }
}

/// Sends a message to itself.
fn use_connection(connection: &Connection) {
    connection.send(5, 0);
    for cq in connection.cqs {
        assert_eq!(cq.wait(1)[0].status, 0);
    }
}

/// Runs `child` in a child of fork, and gives what it ends with.
fn fork(child: impl FnOnce()) -> c_int {
    // SAFETY: the child runs what a program would.
    let process = unsafe { libc::fork() };
    if process == 0 {
        child();
        end(DONE);
    }
    let mut status = 0;
    until("the child", || {
        // SAFETY: the child that was made, and a place for its status.
        let ended = unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) };
        ended == process
    });
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

fn child_exits() {
    let connection = Connection::new(Ctx::open(0), None);
    for _ in 0..5 {
        assert_eq!(fork(|| {}), DONE);
        use_connection(&connection);
    }
    connection.destroy();
}

/// No descriptor of the library is left to another program.
fn child_executes() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let script =
        c"ls -l /proc/self/fd | grep -E 'anon_inode|memfd|lock|sock|vfio' >&2 && exit 1; exit 42";
    let code = fork(|| {
        let words = [c"sh", c"-c", script].map(CStr::as_ptr);
        let words = [words[0], words[1], words[2], ptr::null()];
        // SAFETY: strings, with a null pointer behind the last.
        unsafe { libc::execv(c"/bin/sh".as_ptr(), words.as_ptr()) };
        end(1);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
}

fn child_has_a_function() {
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    let own = ctx.gid(0);
    let code = fork(|| {
        let ctx = Ctx::open(0);
        assert_ne!(ctx.gid(0), own);
        let connection = Connection::new(ctx, None);
        use_connection(&connection);
        connection.destroy();
        assert_eq!(ctx.close(), 0);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
}

fn child_has_none() {
    let connection = Connection::new(Ctx::open(0), None);
    let code = fork(|| {
        assert_eq!(Ctx::count(), 0);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
}

/// What a child does to what its parent has: everything that takes a command, a wait or a lock.
fn tries_everything(connection: &Connection, channel: Channel) {
    let (ctx, memory) = (connection.ctx, memory(4096));
    let Connection {
        pd, mr, cqs, a, b, ..
    } = *connection;
    let [cq, _] = cqs;
    let null = |is_null: bool| if is_null { errno() } else { 0 };
    let no_channel = ptr::null_mut();
    // SAFETY: an open context.
    let new_channel = unsafe { create_comp_channel(ctx.0) };
    let gid = Gid { raw: [0xFF; 16] };
    let refused = [
        ctx.query(),
        null(ctx.pd().0.is_null()),
        null(new_channel.is_null()),
        null(ctx.try_cq(8, 0, no_channel).is_null()),
        null(ctx.try_cq(8, 0, channel.0).is_null()),
        pd.try_qp(RC, cq, cq).err().unwrap_or_default(),
        pd.try_mr(memory).err().unwrap_or_default(),
        pd.try_ah(address(gid, 0)).err().unwrap_or_default(),
        channel.take().err().unwrap_or_default(),
        ctx.take_event().err().unwrap_or_default(),
        a.go_to(state::ERR),
        b.go_to(state::RESET),
        a.query().err().unwrap_or_default(),
        a.attach(gid),
        a.detach(gid),
        cq.resize(1000),
        mr.to_domain(pd),
        a.destroy(),
        b.destroy(),
        cq.destroy(),
        channel.destroy(),
        mr.dereg(),
        pd.free(),
    ];
    assert_eq!(refused, [libc::EIO; 23]);
    cq.acknowledge(1);
    assert_eq!(ctx.close(), 0);
}

/// A child that cleans up behind its parent, or waits for what is its parent's, changes nothing.
fn child_destroys() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let [_, incoming] = connection.cqs;
    let is_told = || [ctx.async_fd(), channel.fd()].map(|fd| readable(fd, Duration::ZERO));
    // Nothing waits, and then an event of each kind does.
    for waits in [false, true] {
        if waits {
            assert_eq!(incoming.arm(false), 0);
            connection.send(5, 0);
            for cq in connection.cqs {
                cq.wait(1);
            }
            let drained = connection.a.modify(1 | 1 << 2, |attr| {
                attr.qp_state = state::SQD;
                attr.en_sqd_async_notify = 1;
            });
            assert_eq!(drained, 0);
            until("events", || is_told() == [true; 2]);
        }
        assert_eq!(
            fork(|| {
                tries_everything(&connection, channel);
            }),
            DONE
        );
        assert_eq!(is_told(), [waits; 2]);
    }
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.acknowledge(1);
    acknowledge(ctx.event());
    assert_eq!(is_told(), [false; 2]);
    for fd in [channel.fd(), ctx.async_fd()] {
        set_nonblocking(fd, true);
    }
    assert_eq!(channel.take(), Err(libc::EAGAIN));
    assert_eq!(ctx.take_event().map(drop), Err(libc::EAGAIN));
    assert_eq!(connection.a.go_to(state::RTS), 0);
    use_connection(&connection);
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}

/// Children that are made while threads of their parent have any of its locks.
fn child_of_busy_threads() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy = |work: &'static (dyn Fn(Ctx) + Sync)| {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    work(ctx);
                }
            });
        };
        busy(&|ctx| {
            let (channel, pd) = (ctx.channel(), ctx.pd());
            let cq = ctx.cq(16, 0, Some(channel));
            assert_eq!((cq.destroy(), pd.free()), (0, 0));
            assert_eq!(channel.destroy(), 0);
        });
        busy(&|_| {
            let ctx = Ctx::open(0);
            set_nonblocking(ctx.async_fd(), true);
            assert_eq!(ctx.take_event().map(drop), Err(libc::EAGAIN));
            assert_eq!(ctx.close(), 0);
        });
        let connection = &connection;
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                use_connection(connection);
            }
        });
        for _ in 0..30 {
            assert_eq!(fork(|| tries_everything(connection, channel)), DONE);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    use_connection(&connection);
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}

/// Threads wait, post and poll when the process ends.
fn exit_at_work() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let (a, b, mr, cqs) = (connection.a, connection.b, connection.mr, connection.cqs);
    thread::spawn(move || channel.take());
    thread::spawn(move || ctx.take_event().map(drop));
    thread::spawn(move || {
        loop {
            b.recv(1, mr.sge(0, 64));
            let sge = mr.sge(64, 8);
            a.send_of(1, sge, flag::SIGNALED);
            for cq in cqs {
                cq.poll(4);
            }
        }
    });
    thread::sleep(Duration::from_millis(50));
}

fn use_it() {
    let ctx = Ctx::open(0);
    use_connection(&Connection::new(ctx, Some(ctx.channel())));
}

fn hold() {
    use_it();
    println!("held");
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_child_of_fork_leaves_its_parents_function_alone() {
    let world = World::new("fork");
    for part in [
        "child exits",
        "child runs another program",
        "child destroys",
        "child of busy threads",
    ] {
        world.run(part, 1);
    }
}

#[test]
fn a_child_of_fork_has_a_function_of_its_own_if_there_is_one() {
    let world = World::new("own");
    world.run("child has a function", 2);
    world.run("child has none", 1);
}

#[test]
fn a_process_ends_at_work() {
    let world = World::new("exit");
    for _ in 0..5 {
        world.run("exit", 1);
    }
}

/// A process that holds the function.
fn holder(world: &World) -> Child {
    let mut child = world
        .process("hold", 1)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines();
    assert!(lines.any(|line| line.unwrap().ends_with("held")));
    child
}

#[test]
fn a_killed_process_leaves_its_function_to_the_next() {
    let world = World::new("kill");
    for _ in 0..3 {
        let mut child = holder(&world);
        child.kill().unwrap();
        child.wait().unwrap();
        world.run("use", 1);
    }
}
