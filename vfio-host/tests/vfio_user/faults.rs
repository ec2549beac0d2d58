//! Servers that die or hang in the middle: one line, exit status 1.

use super::middleman::{Fault, start};
use super::processes::{Served, all_verified, pingpong};

/// A run whose first function's server fails after `bytes` bytes of answers.
fn run(bytes: i64, fault: Fault) -> String {
    let served = Served::start();
    let [a, b] = &served.paths;
    let front = served.folder.as_path().join("front");
    start(front.clone(), a, bytes, fault);
    let end = pingpong(&front, b, "send", 1_000_000_000, 64).end();
    let line = end.failure().to_owned();
    assert!(line.contains("front"), "{line}");
    // What the fault left behind is in order again for the next user.
    assert_eq!(served.left(0, 1).findings, [], "{line}");
    all_verified(a, b, "send", 50, 64);
    assert_eq!(served.left(0, 2).findings, []);
    line
}

#[test]
fn a_server_that_dies_is_one_line() {
    // While it is looked at, in bring-up, in mid-traffic.
    for bytes in [100, 1000, 30_000, 60_000] {
        let line = run(bytes, Fault::Close);
        assert!(
            line.contains("the server closed the connection"),
            "{bytes}: {line}"
        );
    }
}

#[test]
fn a_server_that_hangs_is_one_line_within_its_limit() {
    let line = run(30_000, Fault::Hang);
    assert!(line.contains("within 5s"), "{line}");
}

#[test]
fn a_server_that_hangs_at_once_is_one_line_within_its_limit() {
    let line = run(10, Fault::Hang);
    assert!(line.contains("no answer to VERSION within 5s"), "{line}");
}
