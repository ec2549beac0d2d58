//! Two processes with a function each, which meet by the RDMA connection manager.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use e810::{QpCaps, QpInit, Remaining};
use e810_backends::spec::AddressedSpec;
use e810_backends::{DeviceVisitor, HostDevice, Options};
use e810_node::attended::{Attended, Connection};
use serde_json::Value;

use super::processes::{E810, folder, until};
use super::segment::{command_on, name};

/// One side, with a function of its own on a wire.
fn side(command: &str, wire: &str, words: &str) -> E810 {
    command_on(command, &format!("--device=sim:wire={wire} --cm {words}"))
}

/// A side that listens, and where.
fn listener(command: &str, wire: &str, words: &str) -> (E810, String) {
    let mut e810 = side(command, wire, &format!("--listen=:0 {words}"));
    let mut lines = BufReader::new(e810.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let at = line.trim_end().strip_prefix("listening on ");
    let at = at.unwrap_or_else(|| panic!("{line}")).to_owned();
    e810.0.stderr = Some(lines.into_inner());
    (e810, at)
}

const HERE: &str = "--ip=192.0.2.1/24";
const THERE: &str = "--ip=192.0.2.2/24";

#[test]
fn two_processes_without_tcp_verify_every_message() {
    let wire = name();
    for (command, words) in [
        ("pingpong", "--iters=300 --size=3000"),
        ("pingpong", "--iters=100 --op=read --events --vlan=5"),
        (
            "pingpong",
            "--iters=100 --transport=ud --group=239.1.2.3 --faults=loss=1%",
        ),
        ("perf", "--iters=100 --test=lat"),
        ("perf", "--iters=100 --test=bw --op=write --qps=3 --check"),
        ("perf", "--iters=2 --test=bw --all"),
    ] {
        let (answer, at) = listener(command, &wire, &format!("{HERE} {words}"));
        assert!(at.starts_with("192.0.2.1:"), "{at}");
        let ask = side(command, &wire, &format!("{THERE} {words} --connect={at}"));
        for report in [ask.end().json(), answer.end().json()] {
            let errors = match command {
                "perf" => &report["rows"][0]["errors"],
                _ => &report["errors"],
            };
            assert_eq!(errors, 0, "{words}: {report}");
        }
    }
    // With link-local addresses.
    let (answer, at) = listener("pingpong", &wire, "--iters=20");
    assert!(at.starts_with("[fe80::"), "{at}");
    let ask = side("pingpong", &wire, &format!("--iters=20 --connect={at}"));
    assert_eq!(ask.end().json()["verified"], 20);
    assert_eq!(answer.end().json()["verified"], 20);
}

#[test]
fn the_side_that_connects_may_be_first() {
    let wire = name();
    let words = format!("{THERE} --iters=20 --connect=192.0.2.1:9000");
    let ask = side("pingpong", &wire, &words);
    std::thread::sleep(Duration::from_secs(1));
    let words = format!("{HERE} --iters=20 --listen=192.0.2.1:9000");
    let answer = side("pingpong", &wire, &words);
    assert_eq!(ask.end().json()["verified"], 20);
    assert_eq!(answer.end().json()["verified"], 20);
}

/// A request is refused at once, and the next one follows soon.
#[test]
fn a_peer_that_refuses_is_asked_until_the_wait_is_over() {
    let wire = name();
    let (_answer, _) = listener("pingpong", &wire, HERE);
    // Nobody listens on this port.
    let words = format!("{THERE} --connect=192.0.2.1:9 --wait=1");
    let line = side("pingpong", &wire, &words).end().failure();
    assert!(line.contains("nobody listens there"), "{line}");
}

#[test]
fn who_does_not_fit_or_is_not_there_is_said_in_a_line() {
    let wire = name();
    let (answer, at) = listener("pingpong", &wire, &format!("{HERE} --size=64"));
    let words = format!("{THERE} --size=128 --connect={at}");
    for end in [side("pingpong", &wire, &words).end(), answer.end()] {
        assert!(end.failure().contains("--size"), "{end:?}");
    }
    let (waits, at) = listener("perf", &wire, &format!("{HERE} --wait=2"));
    let line = waits.end().failure();
    assert!(line.contains("--cm --connect 192.0.2.1:"), "{line}");
    let words = format!("{THERE} --connect={at} --wait=2");
    let line = side("perf", &wire, &words).end().failure();
    assert!(line.contains("--cm --listen :"), "{line}");
    for (words, part) in [
        ("--listen=192.0.2.7", "--ip gives it another"),
        ("--connect=192.0.2.7:1 --ip=2001:db8::1", "same family"),
        ("--connect=host.example", "not looked up"),
        ("--listen=:1 --warm", "LAN queues"),
        ("--listen=:1 --with=ibv_rc_pingpong", "TCP"),
    ] {
        let line = side("pingpong", &wire, words).end().refusal();
        assert!(line.contains(part), "{words}: {line}");
    }
    // Both functions in this process.
    let end = E810::start(&["pingpong", "--cm"]).end();
    assert_eq!(end.status.code(), Some(2), "{end:?}");
}

#[test]
fn a_peer_that_ends_early_is_noticed() {
    let folder = folder();
    let wire = name();
    let long = "--iters=10000000";
    for (number, signal) in [libc::SIGKILL, libc::SIGINT].into_iter().enumerate() {
        for (command, is_listener) in [("pingpong", true), ("perf", false)] {
            let pcap = folder.as_path().join(format!("{command}{number}"));
            let (answer, at) = listener(command, &wire, &format!("{HERE} {long}"));
            let words = format!("{THERE} {long} --connect={at} --pcap={}", pcap.display());
            let ask = side(command, &wire, &words);
            until("messages", || {
                let bytes = std::fs::metadata(&pcap).ok()?.len();
                (bytes > 100_000).then_some(())
            });
            let (ends, stays) = match is_listener {
                true => (answer, ask),
                false => (ask, answer),
            };
            ends.signal(signal);
            let end = stays.end();
            assert_eq!(end.status.code(), Some(1), "{end:?}");
            let line = &end.err;
            let parts = match signal {
                libc::SIGINT => ["was interrupted by signal 2", "before it was done"],
                _ => ["closed the connection", "did not acknowledge"],
            };
            assert!(parts.iter().any(|part| line.contains(part)), "{line}");
            let code = ends.end().status.code();
            assert_eq!(code, (signal == libc::SIGINT).then_some(130));
        }
    }
}

/// What `e810 connections` says of a command, once `is_there` is so of its connection manager.
fn connections(at: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    until("connections", || {
        let end = E810::start(&["connections", "--at", at, "--json"]).end();
        let report: Value = serde_json::from_str(&end.out).ok()?;
        let manager = report.pointer("/functions/0/connection_manager")?.clone();
        is_there(&manager).then_some(manager)
    })
}

#[test]
fn connections_of_a_command_are_shown() {
    let folder = folder();
    let wire = name();
    let [a, b] = ["a", "b"].map(|name| folder.as_path().join(name).display().to_string());
    let long = "--iters=10000000";
    let (answer, at) = listener("pingpong", &wire, &format!("{HERE} {long} --monitor={a}"));
    let manager = connections(&a, |manager| manager["total_listeners"] == 1);
    assert_eq!(manager["total"], 0, "{manager}");
    let listens = &manager["listeners"][0];
    let (_, port) = at.rsplit_once(':').unwrap();
    assert_eq!(listens["own"], "192.0.2.1", "{listens}");
    assert_eq!(listens["port"].to_string(), port, "{listens}");
    let words = format!("{THERE} {long} --connect={at} --monitor={b}");
    let ask = side("pingpong", &wire, &words);
    for (socket, role, peer) in [(&a, "passive", "192.0.2.2"), (&b, "active", "192.0.2.1")] {
        let manager = connections(socket, |manager| manager["states"]["ESTABLISHED"] == 1);
        let connection = &manager["connections"][0];
        assert_eq!(
            (&connection["role"], &connection["peer"]),
            (&role.into(), &peer.into()),
            "{manager}"
        );
        assert!(connection["peer_port"].is_u64() && connection["peer_qp"].is_u64());
        assert_eq!(connection["port"].to_string(), port);
        let counters = &manager["counters"];
        let (sent, received) = (&counters["sent"], &counters["received"]);
        let req = if role == "active" { sent } else { received };
        assert!(req["REQ"].as_u64() >= Some(1), "{manager}");
        let end = E810::start(&["connections", "--at", socket]).end();
        for part in ["1 ESTABLISHED", role, peer, "  sent ", "REQ"] {
            assert!(end.out.contains(part), "{part}: {end:?}");
        }
        let words = ["monitor", "--at", socket, "--once", "--interval=10"];
        let end = E810::start(&words).end();
        assert!(end.out.contains("1 ESTABLISHED"), "{end:?}");
    }
    let report = folder.as_path().join("report");
    let out = format!("--out={}", report.display());
    let end = E810::start(&["report", "--passive", "--device=sim", "--at", &a, &out]).end();
    assert!(end.out.contains("1 ESTABLISHED"), "{end:?}");
    let text = std::fs::read_to_string(&report).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records: Vec<_> = lines.filter(|line| line["kind"] == "connections").collect();
    let [record] = &records[..] else {
        panic!("{text}");
    };
    assert_eq!(record["manager"]["states"]["ESTABLISHED"], 1, "{record}");
    assert!(!text.contains("192.0.2."), "{text}");
    drop((ask, answer));
}

#[test]
fn a_command_without_connections_says_so() {
    let folder = folder();
    let at = folder.as_path().join("m").display().to_string();
    let monitor = format!("--monitor={at}");
    let _pingpong = E810::start(&["pingpong", "--iters=10000000", &monitor]);
    until("two functions", || {
        let end = E810::start(&["connections", "--at", &at]).end();
        let line = "it has no connection manager: start the command with --cm\n";
        (end.out.matches(line).count() == 2).then_some(())
    });
    let line = E810::start(&["connections"]).end().refusal();
    assert!(line.contains("--cm --monitor PATH"), "{line}");
    let line = E810::start(&["connections", "--at", "/nonexistent/socket"])
        .end()
        .failure();
    assert!(line.contains("with --monitor"), "{line}");
}

/// A monitor takes eight clients. The others do not hear that the command has ended: it runs.
#[test]
fn a_client_that_is_turned_away_hears_why() {
    let folder = folder();
    let at = folder.as_path().join("m").display().to_string();
    let monitor = format!("--monitor={at}");
    let _pingpong = E810::start(&["pingpong", "--iters=10000000", &monitor]);
    let _quiet: Vec<_> = (0..8)
        .map(|_| until("a client", || UnixStream::connect(&at).ok()))
        .collect();
    let line = E810::start(&["connections", "--at", &at]).end().failure();
    assert!(!line.contains("has ended"), "{line}");
}

/// Asks for a connection as an e810 does, and leaves before it has said a line.
struct Leaves(AddressedSpec, SocketAddr);

impl DeviceVisitor<1> for Leaves {
    type Outcome = ();
    type Error = anyhow::Error;

    fn visit<D: HostDevice>(self, [device]: [D; 1]) -> anyhow::Result<()> {
        let function = Attended::open(device, &self.0)?;
        let (pd, cq, qp) = function.control(|control| {
            let (pd, cq) = (control.alloc_pd()?, control.create_cq(64, 0)?);
            let qp = control.create_qp(&pd, &QpInit::rc(&cq, &cq, QpCaps::default()))?;
            Ok::<_, e810::Error>((pd, cq, qp))
        })?;
        let made = Connection::new(&function, qp, 0);
        let mut connection = made.map_err(|(_, error)| error)?;
        let mut ask = function.ask(self.1)?;
        ask.private_data = b"e810 handshake";
        connection.connect(&ask)?;
        connection.established(Duration::from_secs(20))?;
        std::thread::sleep(Duration::from_millis(300));
        connection.disconnect()?;
        connection.over(Duration::from_secs(20))?;
        function.close_with(Remaining {
            qps: [connection.end()],
            ahs: [],
            cqs: [cq],
            mrs: [],
            pds: [pd],
        })
    }
}

/// As over TCP, where a connection without a line ends nothing.
#[test]
fn a_listener_waits_on_when_a_peer_leaves_without_a_line() {
    let wire = name();
    let (answer, at) = listener("pingpong", &wire, &format!("{HERE} --iters=20"));
    let spec: AddressedSpec = format!("sim:wire={wire}@192.0.2.3/24").parse().unwrap();
    let leaves = Leaves(spec.clone(), at.parse().unwrap());
    e810_backends::open([&spec.spec], Options::default(), leaves).unwrap();
    let words = format!("{THERE} --iters=20 --connect={at} --wait=10");
    let ask = side("pingpong", &wire, &words);
    assert_eq!(answer.end().json()["verified"], 20);
    assert_eq!(ask.end().json()["verified"], 20);
}
