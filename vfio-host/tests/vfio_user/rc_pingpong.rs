//! The handshake of `ibv_rc_pingpong`: a scripted peer that says what that program says, and two
//! processes that both take the other one for it. The program itself is met in the guests'
//! list `rxe`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::apart::{both, listener, on};
use super::processes::ServerProcess;

/// Bytes of the text of a side.
const TEXT: usize = 52;
const WITH: &str = "--with=ibv_rc_pingpong --wait=30";

#[test]
fn two_sides_meet_by_its_handshake() {
    let server = ServerProcess::start();
    let words = |ip: &str, mac: &str| format!("{WITH} --ip={ip} --size=3000 --iters=100 {mac}");
    // It is resolved, or given.
    let [a, b] = [
        words("192.0.2.1", ""),
        words("192.0.2.2", "--peer-mac=02:e8:10:00:00:00"),
    ];
    for (command, counted) in [("pingpong", true), ("perf", false)] {
        for (side, end) in both(&server, command, [&a, &b]).iter().enumerate() {
            let report = end.json();
            if counted {
                assert_eq!(report["errors"], 0, "{side}: {report}");
            }
        }
    }
    // A link-local address says where packets go.
    let words = format!("{WITH} --iters=20");
    let [a, b] =
        ["fe80::e8:10ff:fe00:0", "fe80::e8:10ff:fe00:1"].map(|ip| format!("{words} --ip={ip}"));
    let [_, ask] = both(&server, "pingpong", [&a, &b]).map(|end| end.json());
    assert_eq!(ask["verified"], 20, "{ask}");
    assert_eq!(ask["size"], 4096, "what the program sends by itself");
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn what_it_says_is_checked() {
    let server = ServerProcess::start();
    let [a, _] = &server.paths;
    // Clients that say something else are not waited for; the listener stays.
    let (e810, at) = listener("pingpong", a, WITH);
    let client = |text: &[u8]| {
        let mut peer = TcpStream::connect(at).unwrap();
        peer.write_all(text).unwrap();
        let mut said = Vec::new();
        peer.read_to_end(&mut said).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), "");
    };
    client(b"0000:000001:000abc:00000000000000000000ffff0a080a01\0");
    client(&[0xFF; TEXT]);
    client(b"0000:00002a:000abc:00000000000000000000ffff0a080a01\0");
    let end = e810.end();
    for complaint in [
        "does not speak this protocol (queue pair 000001)",
        "is not LID:QPN:PSN:GID",
        "resolving 10.8.10.1: no address of the function has a route there; give it one of that family (--ip ADDR/LEN",
    ] {
        assert!(end.err.contains(complaint), "{end:?}");
    }
    assert_eq!(end.status.code(), Some(1));
    // A server that ends before it answers.
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = host.local_addr().unwrap();
    let e810 = on("pingpong", a, &format!("{WITH} --connect={at}"));
    let mut peer = host.accept().unwrap().0;
    let mut said = [0; TEXT];
    peer.read_exact(&mut said).unwrap();
    assert_eq!((&said[..5], said[TEXT - 1]), (&b"0000:"[..], 0));
    drop(peer);
    let line = e810.end().failure();
    assert!(line.contains("closed the connection"), "{line}");
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn what_it_cannot_do_is_refused() {
    let server = ServerProcess::start();
    let [a, _] = &server.paths;
    for (command, words, complaint) in [
        ("pingpong", "--op=write", "leave out --transport and --op"),
        (
            "pingpong",
            "--op=send-inv",
            "leave out --transport and --op",
        ),
        (
            "pingpong",
            "--transport=ud",
            "leave out --transport and --op",
        ),
        ("pingpong", "--duration=1", "both sides count messages"),
        (
            "perf",
            "--op=read",
            "leave out --op, --test, --all and --duration",
        ),
        (
            "perf",
            "--test=bw",
            "leave out --op, --test, --all and --duration",
        ),
        (
            "perf",
            "--all",
            "leave out --op, --test, --all and --duration",
        ),
        ("perf", "--check", "e810 pingpong verifies that"),
    ] {
        let words = format!("{WITH} --connect=127.0.0.1:9 {words}");
        let line = on(command, a, &words).end().refusal();
        assert!(line.contains(complaint), "{command} {words}: {line}");
    }
    server.stop(libc::SIGTERM);
}
