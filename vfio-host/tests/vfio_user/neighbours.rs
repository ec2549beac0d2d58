//! Functions that find each other on a wire, and answer who asks for them.

use serde_json::Value;

use super::apart::{both, on};
use super::ending::lines;
use super::processes::{E810, ServerProcess};
use super::segment::{command_on, listener, name};

fn device(wire: &str, last: u8) -> String {
    format!("--device=sim:wire={wire},mac=02:00:00:00:00:0{last} --wait=30")
}

/// Echoes asked for on a wire by a third station.
fn ping(wire: &str, words: &str) -> Value {
    let words = format!(
        "{} --ip=192.0.2.9/24 {words}",
        device(wire, 9).replace(" --wait=30", "")
    );
    command_on("ping", &words).end().json()
}

#[test]
fn who_listens_answers_pings() {
    let wire = name();
    let words = format!("--iters=50 {} --ip=192.0.2.1/24", device(&wire, 1));
    let (answer, at) = listener("pingpong", &words);
    for to in ["192.0.2.1", "fe80::ff:fe00:1"] {
        let report = ping(&wire, &format!("-c 3 -i 0.05 {to}"));
        assert_eq!(
            (&report["transmitted"], &report["received"]),
            (&3.into(), &3.into()),
            "{report}"
        );
        assert!(report["round_trip_ns"]["min"].as_u64().unwrap() > 0);
    }
    // No address of anybody.
    let words = format!("--device=sim:wire={wire} --ip=192.0.2.9 -c 1 192.0.2.77");
    let end = command_on("ping", &words).end();
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    assert!(end.err.contains("neither ARP nor"), "{end:?}");
    assert!(end.out.contains("\"unreachable\":1"), "{end:?}");
    // Without an end, until it is interrupted.
    let words = format!("ping --device=sim:wire={wire} --ip=192.0.2.9 -i 0.01 192.0.2.1");
    let words: Vec<&str> = words.split(' ').collect();
    let mut endless = E810::start(&words);
    let mut lines = lines(&mut endless);
    let replies = lines.by_ref().filter(|line| line.contains(" from "));
    assert_eq!(replies.take(2).count(), 2);
    endless.signal(libc::SIGINT);
    let summary = lines.find(|line| line.contains(" requests, "));
    assert!(summary.unwrap().contains("replies"));
    let end = endless.end();
    assert!(end.status.success(), "{end:?}");

    let words = format!("--iters=50 {} --ip=192.0.2.2/24", device(&wire, 2));
    let ask = command_on("pingpong", &format!("{words} --connect={at}"));
    assert_eq!(ask.end().json()["verified"], 50);
    assert_eq!(answer.end().json()["verified"], 50);
}

/// Each of two stations is the other one's gateway.
#[test]
fn what_is_not_on_the_link_goes_to_the_gateway() {
    let wire = name();
    let a = format!(
        "--iters=50 {} --ip=192.0.2.1/24,198.51.100.254/32 --gateway=192.0.2.254",
        device(&wire, 1)
    );
    let b = |more: &str| {
        format!(
            "--iters=50 {} --ip=198.51.100.1/24{more} --gateway=198.51.100.254",
            device(&wire, 2)
        )
    };
    let (answer, at) = listener("pingpong", &a);
    let words = format!("{} --connect={at}", b(",192.0.2.254/32"));
    let ask = command_on("pingpong", &words).end().json();
    assert_eq!((&ask["verified"], &ask["errors"]), (&50.into(), &0.into()));
    assert_eq!(answer.end().json()["verified"], 50);
    // A gateway that nobody is: the address that the peer tells is not used then.
    let (answer, at) = listener("pingpong", &a);
    let ask = command_on("pingpong", &format!("{} --connect={at}", b("")));
    let line = answer.end().failure();
    assert!(
        line.contains("resolving 198.51.100.1: 192.0.2.254 answered no ARP request within 10"),
        "{line}"
    );
    let line = ask.end().failure();
    assert!(line.contains("gave up"), "{line}");
}

/// A program that does not say its Ethernet address, in both families.
#[test]
fn an_address_that_nobody_announces_is_resolved() {
    let server = ServerProcess::start();
    for [a, b] in [
        ["192.0.2.1/24", "192.0.2.2/24"],
        ["2001:db8::1/64", "2001:db8::2/64"],
        ["192.0.2.1 --vlan=7", "192.0.2.2 --vlan=7"],
    ] {
        let words = |ip: &str| format!("--with=ibv_rc_pingpong --wait=30 --iters=50 --ip={ip}");
        let ends = both(&server, "pingpong", [&words(a), &words(b)]);
        for (side, end) in ends.iter().enumerate() {
            let report = end.json();
            assert_eq!(report["errors"], 0, "{a} {side}: {report}");
        }
    }
    // A function that nobody has brought up does not answer.
    let [_, b] = &server.paths;
    let silent = on("ping", b, "-c 1 --ip=192.0.2.2/24 192.0.2.1").end();
    assert_eq!(silent.status.code(), Some(1), "{silent:?}");
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}
