//! Lives of processes: fork, exec, exit and death, each in a process of its own, which is this
//! test again with a part in `E810_PART`.

use std::env;
use std::ffi::{CStr, c_int};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::ptr;
use std::thread;
use std::time::Duration;

use e810_verbs::device::DEVICES;

use crate::harness::objects::flag;
use crate::harness::{Connection, Ctx, folder, until};

/// The variable with the part that a process plays.
const PART: &str = "E810_PART";
/// What a process ends with that has done its part.
pub(crate) const DONE: c_int = 42;

/// What the processes of a test share: a wire, and the locks of the functions on it.
pub(crate) struct World {
    name: &'static str,
    folder: PathBuf,
}

impl World {
    pub(crate) fn new(name: &'static str) -> Self {
        let folder = folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self { name, folder }
    }

    /// A process that plays a part, for which there are `functions`.
    pub(crate) fn process(&self, part: &str, functions: usize) -> Command {
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
        "exit" => exit_at_work(),
        "use" => use_it(),
        "hold" => hold(),
        crate::depths::PART => crate::depths::all_of_a_function(),
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

/// A child that cleans up behind its parent changes nothing of the parent's.
fn child_destroys() {
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    let code = fork(|| {
        assert_eq!(ctx.try_attributes().unwrap_err(), libc::EIO);
        assert_eq!(connection.a.destroy(), libc::EIO);
        assert_eq!(connection.mr.dereg(), libc::EIO);
        assert_eq!(ctx.close(), 0);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
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
