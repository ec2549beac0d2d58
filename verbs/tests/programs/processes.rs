//! Lives of processes: exit and death, each in a process of its own, which is this test again with
//! a part in `E810_PART`; `depths`, `descriptors`, `forks` and
//! `memory` have parts there, too.

use std::env;
use std::ffi::c_int;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use e810_verbs::device::DEVICES;

use crate::harness::objects::flag;
use crate::harness::{Connection, Ctx, PATIENCE, folder, until};
use crate::{depths, descriptors, forks, memory};

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
    pub(crate) fn run(&self, part: &str, functions: usize) -> Output {
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
        "child exits" => forks::child_exits(),
        "child runs another program" => forks::child_executes(),
        "child has a function" => forks::child_has_a_function(),
        "child has none" => forks::child_has_none(),
        "child destroys" => forks::child_destroys(),
        "child of busy threads" => forks::child_of_busy_threads(),
        "no memory is left" => memory::none_is_left(),
        "little memory is left" => memory::little_is_left(),
        "few descriptors" => descriptors::few_descriptors(),
        "exit" => exit_at_work(),
        "use" => use_it(),
        "hold" => hold(),
        depths::PART => depths::all_of_a_function(),
        other => panic!("{other}"),
    }
    end(DONE);
}

/// As a program does: what is to be done at the exit is.
pub(crate) fn end(code: c_int) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::exit(code) }
}

/// Sends a message to itself.
pub(crate) fn use_connection(connection: &Connection) {
    connection.send(5, 0);
    for cq in connection.cqs {
        assert_eq!(cq.wait(1)[0].status, 0);
    }
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
    thread::sleep(PATIENCE);
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
