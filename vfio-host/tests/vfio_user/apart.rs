//! Two processes with a function each, which meet over TCP on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use serde_json::Value;

use super::processes::{E810, End, ServerProcess, package, until};

/// `e810 COMMAND` on the function of a socket.
pub(crate) fn on(command: &str, socket: &Path, words: &str) -> E810 {
    let mut arguments = vec![
        command.to_owned(),
        format!("--device=vfio-user:{}", socket.display()),
        format!("--ddp={}", package().display()),
        "--json".to_owned(),
    ];
    arguments.extend(words.split_whitespace().map(str::to_owned));
    E810::start(&arguments)
}

/// A side that listens, and where.
pub(crate) fn listener(command: &str, socket: &Path, words: &str) -> (E810, SocketAddr) {
    let words = format!("--listen=127.0.0.1:0 {words}");
    let mut e810 = on(command, socket, &words);
    let mut lines = BufReader::new(e810.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let at = line.trim_end().strip_prefix("listening on ");
    let at = at.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    // What it says from here on, is read in the end.
    e810.0.stderr = Some(lines.into_inner());
    (e810, at)
}

/// Both sides of a run that goes on, the one that listens first.
pub(crate) fn both_running(server: &ServerProcess, command: &str, words: &str) -> [E810; 2] {
    let [a, b] = &server.paths;
    let (answer, at) = listener(command, a, words);
    [answer, on(command, b, &format!("--connect={at} {words}"))]
}

/// Both sides of a run, the one that listens first.
pub(crate) fn both(server: &ServerProcess, command: &str, words: [&str; 2]) -> [End; 2] {
    let [a, b] = &server.paths;
    let (answer, at) = listener(command, a, words[0]);
    let ask = on(command, b, &format!("--connect={at} {}", words[1]));
    let ask = ask.end();
    [answer.end(), ask]
}

fn verified(server: &ServerProcess, words: &str, iters: u64) -> [Value; 2] {
    let words = format!("--iters={iters} {words}");
    let [answer, ask] = both(server, "pingpong", [&words, &words]).map(|end| end.json());
    assert_eq!(ask["verified"], iters, "{words}");
    for report in [&answer, &ask] {
        assert_eq!(report["errors"], 0, "{words}");
    }
    assert!(ask["latency_ns"]["p50"].as_u64().unwrap() > 0);
    [answer, ask]
}

#[test]
fn two_processes_with_a_function_each_verify_every_message() {
    let server = ServerProcess::start();
    let [answer, _] = verified(&server, "--size=3000", 1000);
    assert_eq!(answer["verified"], 1000);
    let write = "--op=write --size=20000 --ip=192.0.2.1,2001:db8::1 --gid-index=0";
    let [answer, _] = verified(&server, write, 200);
    assert_eq!(answer["verified"], 200);
    verified(&server, "--op=read --size=9000 --mtu=4200", 200);
    let [answer, _] = verified(&server, "--op=send-inv --size=9000", 200);
    assert_eq!(answer["verified"], 200);
    // Asleep between messages, woken by interrupts of its own function: one or two
    // for each message, as what was sent and what came are reported separately or together.
    for words in [
        "--size=300 --events",
        "--op=read --events",
        "--op=send-inv --events",
        "--transport=ud --events",
    ] {
        let [_, ask] = verified(&server, words, 100);
        let interrupts = ask["interrupts"].as_u64().unwrap();
        assert!((50..=450).contains(&interrupts), "{words}: {interrupts}");
    }
    let [answer, ask] = verified(&server, "--transport=ud --size=1024", 500);
    assert_eq!(
        (&answer["verified"], &ask["service"]),
        (&500.into(), &"ud".into())
    );
    // A group's member gets what asks.
    for [group, a, b] in [
        ["239.1.2.3", "192.0.2.1", "192.0.2.2"],
        ["ff0e::e8:10", "2001:db8::1", "2001:db8::2"],
    ] {
        let words = |ip| {
            format!("--transport=ud --group={group} --ip={ip} --iters=100 --size=900 --counters")
        };
        let [answer, ask] = both(&server, "pingpong", [&words(a), &words(b)]).map(|end| end.json());
        for report in [&answer, &ask] {
            assert_eq!(
                (&report["verified"], &report["errors"]),
                (&100.into(), &0.into())
            );
        }
    }
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn addresses_come_from_the_exchange_and_may_differ_in_kind_of_path() {
    let server = ServerProcess::start();
    let vlan = |ip: &str, mtu: &str| {
        format!(
            "--iters=50 --size=5000 --ip={ip} --vlan=100 --priority=3 --mtu=9000 --path-mtu={mtu}"
        )
    };
    let words = [vlan("192.0.2.1", "4096"), vlan("192.0.2.2", "512")];
    for end in both(&server, "pingpong", [&words[0], &words[1]]) {
        assert_eq!(end.json()["verified"], 50);
    }
    server.stop(libc::SIGTERM);
}

/// Nobody has the address: the one that was given is taken, not the exchanged one, and
/// nothing arrives. Both sides wait for events, and leave the processors to other tests.
#[test]
fn the_address_that_is_given_is_taken() {
    let server = ServerProcess::start();
    let wrong = "--iters=5 --transport=ud --events --wait=30 --peer-mac=02:00:00:00:00:99";
    let right = "--iters=5 --transport=ud --events";
    let [answer, ask] = both(&server, "pingpong", [right, wrong]);
    assert!(
        ask.failure().contains("message 0 was not answered"),
        "{ask:?}"
    );
    assert!(
        answer.failure().contains("gave up: message 0"),
        "{answer:?}"
    );
    server.stop(libc::SIGTERM);
}

#[test]
fn sides_that_do_not_fit_say_so_in_a_line_each() {
    let server = ServerProcess::start();
    for (words, part) in [
        (["--size=64", "--size=128"], "--size"),
        (["--op=write", "--op=read"], "--op"),
        (["--op=send-inv", "--op=send"], "--op"),
        (["--transport=ud", "--transport=rc"], "--transport"),
        (
            ["--transport=ud --group=239.1.2.3", "--transport=ud"],
            "--group",
        ),
        (["--ip=192.0.2.1", "--ip=2001:db8::1"], "addresses of IPv"),
        (["--vlan=5", "--vlan=6"], "--vlan"),
        (["--vlan=5", ""], "no --vlan"),
    ] {
        for end in both(&server, "pingpong", words) {
            let line = end.failure();
            assert!(line.contains(part), "{words:?}: {line}");
        }
    }
    let at = ["--device=sim", "--listen=127.0.0.1:0"];
    let end = E810::start(&[&["pingpong"], &at[..]].concat()).end();
    assert!(end.refusal().contains("e810 sim"), "{end:?}");
    server.stop(libc::SIGTERM);
}

#[test]
fn nobody_strangers_and_peers_that_die_are_errors_in_time() {
    let server = ServerProcess::start();
    let [a, b] = &server.paths;
    let (waits, at) = listener("pingpong", a, "--wait=1");
    let line = waits.end();
    assert!(line.failure().contains("nobody connected"), "{line:?}");
    // Nobody listens there any more.
    let end = on("pingpong", b, &format!("--connect={at} --wait=1")).end();
    assert!(end.failure().contains("start the peer with"), "{end:?}");
    // Strangers are sent away, and learn nothing.
    let (waits, at) = listener("pingpong", a, "--iters=20");
    for says in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[b'x'; 100_000], b""] {
        let mut stranger = TcpStream::connect(at).unwrap();
        // It may have had enough before all is written.
        let _ = stranger.write_all(says);
        if !says.is_empty() {
            let mut received = String::new();
            let _ = stranger.read_to_string(&mut received);
            assert!(!received.contains("places"), "{received}");
        }
    }
    let ask = on("pingpong", b, &format!("--connect={at} --iters=20"));
    assert_eq!(ask.end().json()["verified"], 20);
    let end = waits.end();
    assert_eq!(end.json()["verified"], 20);
    assert!(end.err.contains("still listening"), "{end:?}");
    // One that is killed in mid-traffic.
    let long = "--iters=1000000000";
    let (answer, at) = listener("pingpong", a, long);
    let mut ask = on("pingpong", b, &format!("--connect={at} {long}"));
    let frames = || {
        let report = server.report();
        report["functions"][0]["frames_sent"].as_u64().unwrap_or(0)
    };
    until("traffic", || (frames() > 500).then_some(()));
    ask.0.kill().unwrap();
    let end = answer.end();
    let line = end.failure();
    assert!(line.contains("closed the connection"), "{line}");
    drop(ask);
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn two_processes_measure() {
    let server = ServerProcess::start();
    for (words, verified) in [
        ("--test=lat --op=send --size=100", [1, 1]),
        ("--test=lat --op=write --size=100 --inline=100", [1, 1]),
        ("--test=lat --op=read --size=3000", [0, 1]),
        (
            "--test=bw --op=send --qps=4 --depth=32 --post-list=8 --check",
            [800, 0],
        ),
        ("--test=bw --op=write --size=20000", [1, 0]),
        ("--test=bw --op=read --qps=2 --check", [0, 400]),
    ] {
        let words = format!("{words} --iters=200");
        let [answer, ask] = both(&server, "perf", [&words, &words]).map(|end| end.json());
        let row = |report: &Value| report["rows"][0].clone();
        for (report, verified) in [(&answer, verified[0]), (&ask, verified[1])] {
            assert_eq!(row(report)["errors"], 0, "{words}");
            assert_eq!(row(report)["verified"], verified, "{words}");
        }
        let figures = ["latency_ns", "bandwidth"];
        let has = |report: &Value| figures.iter().any(|name| row(report).get(name).is_some());
        assert!(has(&ask) && !has(&answer), "{words}");
    }
    // As long as was asked for, however many messages that are.
    for words in [
        "perf --test=lat --op=send",
        "perf --test=lat --op=write",
        "perf --test=bw --op=send --qps=3 --check",
        "perf --test=bw --op=write",
        "perf --test=bw --op=read",
        "pingpong --op=send",
        "pingpong --op=write",
        "pingpong --op=read",
        "pingpong --op=send-inv",
        "pingpong --transport=ud",
    ] {
        let (command, words) = words.split_once(' ').unwrap();
        let words = format!("{words} --duration=0.2");
        let ends = both(&server, command, [&words, &words]);
        let [answer, ask] = ends.map(|end| match command {
            "perf" => end.json()["rows"][0].clone(),
            _ => end.json(),
        });
        assert_eq!(answer["iterations"], ask["iterations"], "{words}");
        // How many they are in that time is the machine's affair.
        assert_ne!(ask["iterations"], 0, "{words}: {ask}");
        for report in [answer, ask] {
            assert_eq!(report["errors"], 0, "{words}");
        }
    }
    let words = ["--test=bw --all --iters=2", "--test=bw --all --iters=2"];
    for end in both(&server, "perf", words) {
        assert_eq!(end.json()["rows"].as_array().unwrap().len(), 23);
    }
    let words = ["--test=bw --qps=2", "--test=bw --qps=3"];
    for end in both(&server, "perf", words) {
        assert!(end.failure().contains("--qps"), "{end:?}");
    }
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn what_one_process_sent_the_other_has_received() {
    let server = ServerProcess::start();
    let words = "--counters --iters=100 --size=5000";
    let [answer, ask] = both(&server, "pingpong", [words, words]).map(|end| end.json());
    let count = |report: &Value, name: &str| {
        let counters = report["counters"].as_array().unwrap();
        assert_eq!(counters.len(), 1, "of this process' function");
        counters[0][name].as_u64().unwrap()
    };
    for (from, to) in [(&ask, &answer), (&answer, &ask)] {
        assert_eq!(count(from, "RDMATXSNDS"), 100);
        for name in ["OCTS", "PKTS"] {
            // Index 0 of the GID table is an IPv6 address.
            let sent = count(from, &format!("IP6TX{name}"));
            assert!(sent >= 500);
            assert_eq!(sent, count(to, &format!("IP6RX{name}")));
        }
    }
    let stat = on("stat", &server.paths[0], "").end().json();
    assert_eq!(
        (&stat["transport"], &stat["state"]),
        (&"vfio-user".into(), &"active".into())
    );
    assert_eq!(
        (&stat["mtu"], &stat["path_mtu"]),
        (&1500.into(), &1024.into())
    );
    assert_eq!(stat["counters"].as_object().unwrap().len(), 46);
    let (end, _) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
}
