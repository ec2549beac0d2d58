//! Processes on a wire with any number of ends: servers, and commands with a function of their own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use vmm_sys_util::tempdir::TempDir;

use super::apart::on;
use super::processes::{E810, all_verified, folder, until};

/// The name of a wire that nothing else is on.
pub(crate) fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}.{number}", std::process::id())
}

/// A server with one function on a wire.
struct Server {
    e810: E810,
    socket: PathBuf,
    report: PathBuf,
    /// What it says of the wire.
    line: String,
}

impl Server {
    /// Starts one whose files are called `file`.
    fn start(folder: &TempDir, file: &str, words: &str) -> Self {
        let path = |end: &str| folder.as_path().join(format!("{file}{end}"));
        let (socket, report) = (path(""), path(".json"));
        let mut arguments: Vec<String> = ["sim", "--profile=small"].map(str::to_owned).into();
        arguments.push(format!("--socket={}", socket.display()));
        arguments.push(format!("--report={}", report.display()));
        arguments.extend(words.split_whitespace().map(str::to_owned));
        let mut e810 = E810::start(&arguments);
        let mut lines = BufReader::new(e810.0.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..2 {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        e810.0.stdout = Some(lines.into_inner());
        Self {
            e810,
            socket,
            report,
            line,
        }
    }

    /// Waits until a count of its wire is so large.
    fn wait(&self, name: &str, least: u64) {
        until(name, || {
            self.e810.signal(libc::SIGUSR1);
            let text = std::fs::read_to_string(&self.report).ok()?;
            // It may be half written.
            let report: Value = serde_json::from_str(&text).ok()?;
            (count(&report["link"], name) >= least).then_some(())
        });
    }

    /// Stops it, if it has found nothing. Answers with its report, and what it logged.
    fn stop(self) -> (Value, String) {
        self.e810.signal(libc::SIGTERM);
        let end = self.e810.end();
        assert!(end.status.success(), "{end:?}");
        assert!(end.out.contains("sent to all"), "{}", end.out);
        let text = std::fs::read_to_string(self.report).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["findings_in_all"], 0);
        (report["link"].clone(), end.err)
    }

    /// Kills it, as a crash would.
    fn kill(mut self) {
        self.e810.0.kill().unwrap();
        self.e810.0.wait().unwrap();
    }
}

fn count(link: &Value, name: &str) -> u64 {
    link[name].as_u64().unwrap()
}

#[test]
fn two_of_three_talk_and_the_third_gets_what_is_for_all() {
    let folder = folder();
    let (name, other) = (name(), name());
    let start = |file: &str, name: &str| Server::start(&folder, file, &format!("--wire={name}"));
    let [a, b, c] = ["a", "b", "c"].map(|file| start(file, &name));
    let elsewhere = start("d", &other);
    for (op, iters, size) in [("send", 500, 64), ("write", 100, 9000), ("read", 100, 9000)] {
        all_verified(&a.socket, &b.socket, op, iters, size);
    }
    let group = "--transport=ud --group=239.1.2.3 --iters=100 --ip=192.0.2.1 --peer-ip=192.0.2.2";
    let peer = format!("--peer=vfio-user:{}", b.socket.display());
    let report = on("pingpong", &a.socket, &format!("{group} {peer}")).end();
    assert_eq!(report.json()["verified"], 100);
    c.wait("received", 100);
    assert!(
        a.line.starts_with(&format!("wire {name} from 127.0.0.1:")),
        "{}",
        a.line
    );
    let [a, b, c, elsewhere] = [a, b, c, elsewhere].map(|server| server.stop().0);
    for link in [&a, &b, &c] {
        assert_eq!((&link["wire"], &link["peer"]), (&a["wire"], &a["peer"]));
        for none in ["not_sent", "strangers", "no_frame", "own_addresses"] {
            assert_eq!(count(link, none), 0, "{none}");
        }
    }
    assert_eq!(a["wire"], name.as_str());
    // The third has the frames to the group, and of the others only a few that went to all.
    let to_all = count(&a, "sent_to_all") + count(&b, "sent_to_all");
    assert!(count(&c, "received") + count(&c, "not_ours") <= to_all);
    assert!(count(&c, "not_ours") < count(&a, "sent") / 2, "{c}");
    assert_eq!(count(&c, "sent"), 0);
    assert!(count(&a, "sent") > 1000 && count(&b, "sent") > 1000);
    // Another name is another wire.
    assert_ne!(elsewhere["peer"], a["peer"]);
    for none in ["received", "not_ours", "sent"] {
        assert_eq!(count(&elsewhere, none), 0, "{none}");
    }
}

#[test]
fn a_server_that_is_killed_has_a_successor_with_its_address() {
    let folder = folder();
    let name = name();
    let words = |mac: &str| format!("--wire={name} --mac=02:00:00:00:00:{mac}");
    let a = Server::start(&folder, "a", &words("0a"));
    let mut b = Server::start(&folder, "b0", &words("0b"));
    for round in 1..=3 {
        all_verified(&a.socket, &b.socket, "send", 200, 3000);
        // In the middle of messages, or between them.
        if round == 2 {
            let peer = format!("--peer=vfio-user:{}", b.socket.display());
            let user = on("pingpong", &a.socket, &format!("--iters=1000000000 {peer}"));
            a.wait("sent", 10_000);
            b.kill();
            assert!(user.end().failure().contains("closed the connection"));
        } else {
            b.kill();
        }
        b = Server::start(&folder, &format!("b{round}"), &words("0b"));
    }
    all_verified(&a.socket, &b.socket, "write", 200, 3000);
    let ((a, _), (b, _)) = (a.stop(), b.stop());
    for link in [a, b] {
        for none in ["not_sent", "strangers", "no_frame", "own_addresses"] {
            assert_eq!(count(&link, none), 0, "{none}");
        }
    }
}

#[test]
fn one_address_at_two_ends_is_said() {
    let folder = folder();
    let words = format!("--wire={} --mac=02:00:00:00:00:07", name());
    let [a, b] = ["a", "b"].map(|file| Server::start(&folder, file, &words));
    assert!(
        a.line.ends_with("; function 0 is 02:00:00:00:00:07\n"),
        "{}",
        a.line
    );
    // The first one hears of the second, whose announcement is there before it says anything.
    a.wait("own_addresses", 1);
    let (link, log) = a.stop();
    assert_eq!(count(&link, "own_addresses"), 1);
    for part in ["02:00:00:00:00:07", "one Ethernet address", "--mac or mac="] {
        assert!(log.contains(part), "{log}");
    }
    assert_eq!(b.stop().1, "");
}

/// A side that listens with a function of its own, and where.
pub(crate) fn listener(command: &str, words: &str) -> (E810, SocketAddr) {
    let mut e810 = command_on(command, &format!("--listen=127.0.0.1:0 {words}"));
    let mut lines = BufReader::new(e810.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let at = line.trim_end().strip_prefix("listening on ");
    let at = at.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    e810.0.stderr = Some(lines.into_inner());
    (e810, at)
}

pub(crate) fn command_on(command: &str, words: &str) -> E810 {
    let mut arguments = vec![command.to_owned(), "--json".to_owned()];
    arguments.extend(words.split_whitespace().map(str::to_owned));
    E810::start(&arguments)
}

/// Two processes, neither of which is a server.
#[test]
fn commands_with_functions_of_their_own_verify_every_message() {
    let folder = folder();
    let wire = name();
    // Another pair with the same addresses, on another wire, at the same time.
    let [one, other] = [&wire, &name()].map(|name| {
        let device = |last| format!("--device=sim:wire={name},mac=02:00:00:00:00:0{last}");
        let words = "--iters=300 --size=3000 --ip=192.0.2";
        let (answer, at) = listener("pingpong", &format!("{words}.1 {}", device(1)));
        let pcap = folder.as_path().join(name);
        let words = format!("{words}.2 {} --pcap={}", device(2), pcap.display());
        let ask = command_on("pingpong", &format!("{words} --connect={at}"));
        (answer, ask, pcap)
    });
    for (answer, ask, pcap) in [one, other] {
        let (ask, answer) = (ask.end().json(), answer.end().json());
        for report in [&ask, &answer] {
            assert_eq!(
                (&report["verified"], &report["errors"]),
                (&300.into(), &0.into())
            );
            assert_eq!(report["transport"], "simulated");
            assert_eq!(report["wire"]["latency_ns"], 0);
        }
        assert_eq!(
            ask["wire"]["name"],
            pcap.file_name().unwrap().to_str().unwrap()
        );
        // Three packets each way, and what acknowledges them.
        let bytes = std::fs::metadata(pcap).unwrap().len();
        assert!(bytes > 2 * 300 * 3000, "{bytes}");
    }
    // With drawn addresses; datagrams to a group; and measured.
    let words = format!("--device=sim:wire={wire},latency=1us,rate=10G --iters=100");
    for (command, more) in [
        ("pingpong", "--op=read --events"),
        ("pingpong", "--transport=ud --group=ff0e::e8:10"),
        ("perf", "--test=bw --op=write --size=8K --faults=loss=0.1%"),
    ] {
        let words = format!("{words} {more}");
        let (answer, at) = listener(command, &words);
        let ask = command_on(command, &format!("{words} --connect={at}"));
        let (ask, answer) = (ask.end().json(), answer.end().json());
        for report in [&ask, &answer] {
            assert_eq!(report["wire"]["latency_ns"], 1000, "{words}");
            assert_eq!(report["wire"]["rate_bits_per_second"], 10_000_000_000_u64);
        }
        let errors = |report: &Value| match command {
            "perf" => report["rows"][0]["errors"].clone(),
            _ => report["errors"].clone(),
        };
        assert_eq!(
            (errors(&ask), errors(&answer)),
            (0.into(), 0.into()),
            "{words}"
        );
    }
    // And with a function that is served, whose frames are on the wire for some time.
    let slow = format!("--wire={wire} --latency=3ms");
    let server = Server::start(&folder, "a", &slow);
    let (answer, at) = listener("pingpong", &words);
    let connect = format!("--iters=100 --connect={at}");
    let ask = on("pingpong", &server.socket, &connect).end().json();
    assert_eq!(ask["verified"], 100);
    // Half of there and back.
    let fastest = ask["latency_ns"]["min"].as_u64().unwrap();
    assert!(fastest >= 1_500_000, "{fastest}");
    assert_eq!(answer.end().json()["verified"], 100);
    server.stop();
}

#[test]
fn a_wire_by_name_that_cannot_be_is_one_line() {
    let folder = folder();
    let socket = format!("--socket={}", folder.as_path().join("a").display());
    let refused = |words: &[&str], code: i32, parts: &[&str]| {
        let end = E810::start(words).end();
        assert_eq!(end.status.code(), Some(code), "{end:?}");
        for part in parts {
            assert!(end.err.contains(part), "{part}: {}", end.err);
        }
    };
    refused(&["sim", &socket, "--wire=a/b"], 2, &["is not a wire name"]);
    let both = [
        "sim",
        &socket,
        "--wire=a",
        "--link=udp:127.0.0.1:1,127.0.0.1:2",
    ];
    refused(&both, 2, &["--link"]);
    let virtual_time = ["pingpong", "--device=sim:wire=a", "--virtual"];
    refused(&virtual_time, 2, &["in real time"]);
    let alone = ["pingpong", "--device=sim", "--connect=127.0.0.1:1"];
    refused(&alone, 2, &["sim:wire=NAME", "e810 sim"]);
    // A network without a loopback interface, if this user may make one.
    let end = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .args([env!("CARGO_BIN_EXE_e810"), "stat", "--device=sim:wire=a"])
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output();
    match end {
        Ok(end) if String::from_utf8_lossy(&end.stderr).starts_with("e810: ") => {
            let line = String::from_utf8(end.stderr).unwrap();
            assert_eq!(end.status.code(), Some(1), "{line}");
            assert!(line.contains("`ip link set lo up`"), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
        other => println!("NOT RUN: without a loopback interface: {other:?}"),
    }
}
