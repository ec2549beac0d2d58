//! `e810 serve`, its programs, and who asks about them, as processes.

use std::fs;
use std::io::Read as _;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e810_attach::listener::Listener;
use serde_json::Value;

use crate::run::{Folder, Holder, Said};

const LIMIT: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "{what}: never");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A server that ends with its test, also if that fails.
struct Server(Child);

impl Server {
    fn of(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Deref for Server {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn terminate(child: &Child) {
    signal(child, "-TERM");
}

fn signal(child: &Child, number: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([number, &id]).status().unwrap();
    assert!(status.success());
}

fn ended(child: &mut Child) -> Option<i32> {
    until("the end of a process", || child.try_wait().unwrap()).code()
}

/// What `e810 ps` says, when there are so many programs.
fn ps(folder: &Folder, at: &str, programs: u64) -> Value {
    until("programs", || {
        let said = folder.output(&format!("ps --json --interval 10 --at {at}"));
        let report: Value = serde_json::from_str(said.lines.first()?).unwrap();
        (report["programs"] == programs).then_some(report)
    })
}

/// With a socket in its folder.
fn folder(test: &str) -> (Folder, String) {
    let folder = Folder::new(test);
    let path = folder.0.join("at");
    let text = path.to_str().unwrap().to_owned();
    (folder, text)
}

#[test]
fn programs_wait_for_a_server_and_a_server_for_its_programs() {
    let (folder, at) = folder("serve-drain");
    // Nobody is there: the error says how to start one.
    let said = folder.output(&format!("run --at {at} -- PROGRAM list"));
    assert_eq!(said.code, Some(1));
    let line = &said.complaints[0];
    for part in [&*at, "systemctl start e810.service", "e810 serve --at"] {
        assert!(line.contains(part), "{line}");
    }
    let said = folder.output(&format!("ps --at {at}"));
    assert_eq!(said.code, Some(1));
    assert!(
        said.complaints[0].contains("nobody serves a function"),
        "{:?}",
        said.complaints
    );
    // A program that comes first, by the environment, and the library that waits by itself.
    let waits = thread::spawn({
        let mut run = folder.e810("run --wait 60 -- PROGRAM hold");
        run.env("E810_AT", &at);
        move || Holder::start(&mut run)
    });
    let mut serve = folder.e810(&format!(
        "serve --drain 60 --program-limits qps=7,bytes=1G --user-limits programs=3 --at {at}"
    ));
    let mut server = Server::of(serve.stdout(Stdio::null()).stderr(Stdio::piped()));
    let first = waits.join().unwrap();
    assert!(first.line.contains(" e810_0="), "{}", first.line);
    let report = ps(&folder, &at, 1);
    let program = &report["seen"][0];
    assert_eq!(program["pid"], first.child.id());
    assert_eq!(program["name"], "devices");
    assert_eq!(program["is_stuck"], false);
    assert!(program["counts"]["commands"].as_u64().unwrap() > 0);
    let text = folder.output(&format!("ps --interval 10 --at {at}"));
    assert!(text.lines[0].contains(": 1 program, "), "{:?}", text.lines);
    assert!(text.lines[2].contains("devices"), "{:?}", text.lines);
    // It waits for the one that is there, and takes no others.
    terminate(&server);
    until("a server that drains", || {
        let report = ps(&folder, &at, 1);
        (report["is_closing"] == true).then_some(())
    });
    let said = folder.output(&format!("run --at {at} -- PROGRAM list"));
    assert_eq!(said.code, Some(1));
    let line = &said.complaints[0];
    assert!(
        line.contains("is ending") && line.contains("--wait"),
        "{line}"
    );
    let waited = folder.output(&format!("run --wait 0.2 --at {at} -- PROGRAM list"));
    assert!(
        waited.complaints[0].contains("is ending"),
        "{:?}",
        waited.complaints
    );
    assert!(server.try_wait().unwrap().is_none(), "it has a program");
    // Who waits gets the next server.
    let waits = thread::spawn({
        let mut run = folder.e810(&format!("run --wait 60 --at {at} -- PROGRAM hold"));
        move || Holder::start(&mut run)
    });
    let pid = first.child.id();
    first.kill();
    assert_eq!(ended(&mut server), Some(0));
    let mut next = folder.e810(&format!("serve --device sim@10.8.1.1,fd00:8::1 --at {at}"));
    let mut next = Server::of(next.stdout(Stdio::null()));
    let second = waits.join().unwrap();
    assert!(second.line.contains(" e810_0="), "{}", second.line);
    // The folder of a program has a type for each GID that the function has.
    let mut run = folder.e810(&format!("run -q --at {at} -- sh -c"));
    let run = run.env_remove("SYSFS_PATH");
    let types = "ls $SYSFS_PATH/class/infiniband/e810_0/ports/1/gid_attrs/types";
    let said = Said::of(run.arg(types));
    assert_eq!(said.lines, ["0", "1", "2"], "{:?}", said.complaints);
    second.kill();
    terminate(&next);
    assert_eq!(ended(&mut next), Some(0));
    let mut said = String::new();
    server
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let part = format!("waiting for process {pid} (devices), at most 60 s");
    assert!(said.contains(&part), "{said}");
}

/// Two functions of a server: programs see both, each with its own programs and limits.
#[test]
fn programs_see_all_functions_of_a_server() {
    let (folder, at) = folder("serve-several");
    let second = format!("{at}.1");
    let wire = format!("sim:wire=serve-several-{}", std::process::id());
    let mut serve = folder.e810(&format!(
        "serve --device {wire}@10.8.1.1/24 {wire}@10.8.1.2/24 --at {at} --monitor {at}-m --pcap {at}-f"
    ));
    let mut server = Server::of(serve.stdout(Stdio::null()));
    let program =
        Holder::start(&mut folder.e810(&format!("run --wait 60 --at {at} -- PROGRAM hold")));
    for name in [" e810_0=", " e810_1="] {
        assert!(program.line.contains(name), "{}", program.line);
    }
    let reports = until("a program of both", || {
        let said = folder.output(&format!("ps --json --interval 10 --at {at}"));
        let reports = said
            .lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap());
        let reports: Vec<Value> = reports.collect();
        reports
            .iter()
            .all(|one| one["programs"] == 1)
            .then_some(reports)
    });
    let places: Vec<_> = reports.iter().map(|one| one["at"].as_str()).collect();
    assert_eq!(places, [Some(&*at), Some(&*second)]);
    let mut run = folder.e810(&format!("run -q --at {at} -- sh -c"));
    let run = run.env_remove("SYSFS_PATH");
    let types = "cd $SYSFS_PATH/class/infiniband; ls e810_*/ports/1/gid_attrs/types";
    let said = Said::of(run.arg(types));
    let types = |number: u32| format!("e810_{number}/ports/1/gid_attrs/types:");
    let (first, next) = (types(0), types(1));
    let expected = [&*first, "0", "1", "", &*next, "0", "1"];
    assert_eq!(said.lines, expected, "{:?}", said.complaints);
    // So are those who watch.
    let said = folder.output(&format!("monitor --once --json --interval 10 --at {at}-m"));
    let view: Value = serde_json::from_str(&said.lines[0]).unwrap();
    for (number, function) in view["functions"].as_array().unwrap().iter().enumerate() {
        assert_eq!(function["name"], format!("function {number}"));
        assert_eq!(function["port"]["state"], "active");
        assert!(function["vectors"][1]["ceq"]["entries"].as_u64() > Some(0));
        assert_eq!(function["cqs"].as_array().unwrap().len(), 0);
    }
    assert_eq!(view["functions"].as_array().unwrap().len(), 2);
    for state in ["down", "active"] {
        signal(&server, "-USR2");
        until("the ports' state", || {
            let said = folder.output(&format!("monitor --once --json --interval 10 --at {at}-m"));
            let view: Value = serde_json::from_str(&said.lines[0]).unwrap();
            let mut functions = view["functions"].as_array().unwrap().iter();
            functions
                .all(|function| function["port"]["state"] == state)
                .then_some(())
        });
    }
    let said = folder.output(&format!("connections --at {at}-m"));
    let line = format!("function 1 ({wire})   no program has connected or listened");
    assert!(said.lines.contains(&line), "{:?}", said.lines);
    terminate(&server);
    assert_eq!(ended(&mut server), Some(0));
    assert!(!fs::exists(&at).unwrap() && !fs::exists(&second).unwrap());
    assert!(!fs::exists(format!("{at}-m")).unwrap());
    for frames in [format!("{at}-f"), format!("{at}-f.1")] {
        // An ARP question at least.
        assert!(fs::metadata(&frames).unwrap().len() > 24, "{frames}");
    }
    program.kill();
}

#[test]
fn a_server_without_drain_ends_at_once() {
    let (folder, at) = folder("serve-ends");
    let mut serve = folder.e810(&format!("serve --at {at}"));
    let mut server = Server::of(serve.stdout(Stdio::null()));
    let program =
        Holder::start(&mut folder.e810(&format!("run --wait 60 --at {at} -- PROGRAM hold")));
    terminate(&server);
    assert_eq!(ended(&mut server), Some(0));
    assert!(!fs::exists(&at).unwrap());
    program.kill();
}

#[test]
fn a_server_takes_the_socket_of_its_unit_and_says_when_it_is_ready() {
    let (folder, at) = folder("serve-activated");
    let listener = Listener::bind(at.as_ref()).unwrap();
    let manager = folder.0.join("notify");
    let notified = UnixDatagram::bind(&manager).unwrap();
    notified.set_read_timeout(Some(LIMIT)).unwrap();
    let next = || {
        let mut bytes = [0; 64];
        let length = notified.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    // As a manager starts it: the socket is descriptor 3.
    let mut serve = Command::new("sh");
    serve.args([
        "-c",
        "exec 3<&0; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve",
    ]);
    serve
        .arg(env!("CARGO_BIN_EXE_e810"))
        .env("NOTIFY_SOCKET", &manager);
    serve.env_remove("E810_AT").stdout(Stdio::null());
    let handed_over = listener.as_fd().try_clone_to_owned().unwrap();
    let mut server = Server::of(serve.stdin(handed_over));
    assert_eq!(next(), "READY=1");
    let program = Holder::start(&mut folder.e810(&format!("run --at {at} -- PROGRAM hold")));
    let report = ps(&folder, &at, 1);
    assert_eq!(report["seen"][0]["pid"], program.child.id());
    terminate(&server);
    assert_eq!(next(), "STOPPING=1");
    assert_eq!(ended(&mut server), Some(0));
    assert!(fs::exists(&at).unwrap(), "the socket is the unit's");
    program.kill();
    // Nobody would serve it beside another one.
    let mut serve = Command::new("sh");
    serve.args([
        "-c",
        "exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --at \"$1\"",
    ]);
    let elsewhere = format!("{at}-elsewhere");
    serve.args([env!("CARGO_BIN_EXE_e810"), &elsewhere]);
    let output = serve.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("leave --at out"), "{said}");
    // What is no socket of packets is refused.
    let mut serve = Command::new("sh");
    serve.args([
        "-c",
        "exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve",
    ]);
    let output = serve
        .arg(env!("CARGO_BIN_EXE_e810"))
        .env_remove("E810_AT")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("LISTEN_FDS"), "{said}");
}

/// What a server of another function has left in the service manager's store is of no use, and
/// removed; nor are descriptors of the right names that are no function's.
#[test]
fn what_is_kept_of_no_use_is_given_back() {
    let (folder, at) = folder("serve-kept");
    let manager = folder.0.join("notify");
    let notified = UnixDatagram::bind(&manager).unwrap();
    notified.set_read_timeout(Some(LIMIT)).unwrap();
    let next = || {
        let mut bytes = [0; 64];
        let length = notified.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let names = ["container", "device"].map(|kind| format!("e810-{kind}-fffe-3b-00.0"));
    let start = |device: &str, listener: &Listener| {
        // As a manager starts it: the socket first, then what it keeps.
        let mut serve = Command::new("sh");
        serve.args([
            "-c",
            "exec 3<&0 4</dev/null 5</dev/null; LISTEN_PID=$$ LISTEN_FDS=3 exec \"$0\" \"$@\"",
        ]);
        serve
            .arg(env!("CARGO_BIN_EXE_e810"))
            .args(["serve", "--device", device])
            .env("LISTEN_FDNAMES", format!("e810.socket:{}", names.join(":")))
            .env("NOTIFY_SOCKET", &manager)
            .env_remove("E810_AT");
        serve.stdout(Stdio::null()).stderr(Stdio::piped());
        let handed_over = listener.as_fd().try_clone_to_owned().unwrap();
        serve.stdin(handed_over).spawn().unwrap()
    };
    let said = |server: Child| {
        let output = server.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let listener = Listener::bind(at.as_ref()).unwrap();
    let removed = || {
        for name in &names {
            assert_eq!(next(), format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        }
    };
    let server = start("sim", &listener);
    removed();
    assert_eq!(next(), "READY=1");
    terminate(&server);
    assert_eq!(next(), "STOPPING=1");
    let (status, text) = said(server);
    assert_eq!(status, Some(0));
    assert!(
        text.contains("no function that is served needs it"),
        "{text}"
    );
    // There is no such function, so nothing is taken over and none is opened.
    let server = start("vfio:fffe:3b:00.0", &listener);
    removed();
    let (status, text) = said(server);
    assert_eq!(status, Some(1));
    assert!(text.contains("e810-container-fffe-3b-00.0"), "{text}");
    assert!(text.contains("is not used"), "{text}");
}

/// A server with so few descriptors that a program would lose what it sends refuses it, and says
/// so.
#[test]
fn a_server_without_descriptors_refuses_programs() {
    let (folder, at) = folder("serve-descriptors");
    let mut serve = Command::new("sh");
    serve.args(["-c", "ulimit -n 24; exec \"$0\" serve --at \"$1\""]);
    serve.args([env!("CARGO_BIN_EXE_e810"), &at]);
    let mut server = Server::of(serve.stdout(Stdio::null()));
    let said = folder.output(&format!("run --wait 60 --at {at} -- PROGRAM list"));
    let complaints = said.complaints.join("\n");
    assert!(
        complaints.contains("the server may have 24 descriptors open"),
        "{complaints}"
    );
    terminate(&server);
    assert_eq!(ended(&mut server), Some(0));
}

#[test]
fn limits_have_keys() {
    for (words, part) in [
        ("serve --program-limits qps", "is not KEY=N"),
        ("serve --program-limits doors=1", "is none of qps"),
        ("serve --user-limits bytes=x", "not a size"),
        ("serve --user-limits qps=1K", "not a whole number"),
        (
            "serve --program-limits programs=1",
            "has no limit of programs",
        ),
        ("serve --program-limits qps=1,qps=2", "`qps` is given twice"),
        ("serve --user-limits programs=0", "from 1 upwards"),
        ("serve --device vfio-user:/nowhere", "cannot be shared"),
        ("serve --device at:/nowhere", "e810 run --at /nowhere"),
        (
            "serve --device vfio:fffe:3b:00.0 --pcap /nowhere/frames",
            "do not pass through this process",
        ),
        (
            "serve --tap t --device sim sim",
            "there are several functions",
        ),
        (
            "serve --device vfio:fffe:3b:00.0 --device vfio:fffe:3b:00.0",
            "is given twice",
        ),
        (
            "serve --device sim sim sim sim sim sim sim sim sim",
            "at most 8",
        ),
    ] {
        let error = crate::run(words).unwrap_err();
        assert!(error.to_string().contains(part), "{words}: {error}");
    }
}

/// Who has read the server's first line may be gone, as with `head -1`: a signal for the cables ends no
/// program's function (`e810 sim` goes on, too).
#[test]
fn a_server_whose_output_nobody_reads_outlives_the_cables() {
    let (folder, at) = folder("serve-unread");
    let mut serve = folder.e810(&format!("serve --device sim --at {at}"));
    // A datagram is what one write said: a line that came in two would fail for a reader that left.
    let (reader, output) = UnixDatagram::pair().unwrap();
    let mut server = Server::of(serve.stdout(OwnedFd::from(output)).stderr(Stdio::null()));
    // The command holds the end that the server has, too.
    drop(serve);
    reader.set_read_timeout(Some(LIMIT)).unwrap();
    let mut line = [0; 200];
    let length = reader.recv(&mut line).unwrap();
    let line = std::str::from_utf8(&line[..length]).unwrap();
    assert_eq!(line, format!("serving sim at {at}\n"));
    drop(reader);
    signal(&server, "-USR2");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(server.try_wait().unwrap(), None, "the server has ended");
}
