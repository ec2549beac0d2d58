//! Runs that end before they are through: what was measured until then is printed, and said to be
//! a part.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::apart::both_running;
use super::processes::{E810, End, ServerProcess, until};

/// What a side that was cut short printed, and its exit code.
fn partial(end: &End, ended: &str) -> (Value, Option<i32>) {
    let report: Value = serde_json::from_str(&end.out).unwrap_or_else(|_| panic!("{end:?}"));
    assert_eq!(report["ended"], ended, "{end:?}");
    assert_eq!(
        (&report["version"], &report["asked"]["iterations"]),
        (&1.into(), &10_000_000.into())
    );
    (report, end.status.code())
}

/// Waits until messages go to and fro on a server that nobody has used before.
fn traffic(server: &ServerProcess) {
    until("traffic", || (frames(server) > 200).then_some(()));
}

fn frames(server: &ServerProcess) -> u64 {
    server.report()["functions"][0]["frames_sent"]
        .as_u64()
        .unwrap_or(0)
}

#[test]
fn both_sides_keep_their_results_and_say_so_when_either_is_interrupted() {
    for (command, words, messages) in [
        ("pingpong", "--iters=10000000", "/verified"),
        ("pingpong", "--iters=10000000 --op=read", "/iterations"),
        ("pingpong", "--iters=10000000 --transport=ud", "/verified"),
        ("perf", "--iters=10000000", "/rows/0/iterations"),
        ("perf", "--iters=10000000 --test=bw", "/rows/0/iterations"),
    ] {
        // The one that listens, the one that connects, and both, as by Ctrl-C.
        for interrupted in [&[0][..], &[1], &[0, 1]] {
            let server = ServerProcess::start();
            let sides = both_running(&server, command, words);
            traffic(&server);
            for side in interrupted {
                sides[*side].signal(libc::SIGINT);
            }
            let ends = sides.map(E810::end);
            let done = [0, 1].map(|side| {
                let end = &ends[side];
                let (report, exit) = partial(end, "interrupted");
                let is_own = interrupted.contains(&side);
                let code = if is_own { 130 } else { 1 };
                assert_eq!(exit, Some(code), "{command} {words}: {end:?}");
                let why = report["why"].as_str().unwrap();
                if is_own {
                    assert_eq!((why, end.err.as_str()), ("interrupted by signal 2", ""));
                } else {
                    assert!(why.contains("was interrupted by signal 2"), "{end:?}");
                    let said: Value = serde_json::from_str(end.err.trim_end()).unwrap();
                    assert!(said["error"].as_str().unwrap().ends_with(why), "{end:?}");
                }
                let done = report.pointer(messages).and_then(Value::as_u64);
                let done = done.unwrap_or_else(|| panic!("{command} {words}: {end:?}"));
                assert!(done > 0, "{command} {words}: {end:?}");
                done
            });
            // Who asks ends what is under way.
            if interrupted == [1] && command == "pingpong" {
                assert_eq!(done[0], done[1], "{words}: {ends:?}");
            }
            let (end, report) = server.stop(libc::SIGTERM);
            assert!(end.status.success(), "{end:?}");
            assert_eq!(report["findings_in_all"], 0);
        }
    }
}

#[test]
fn what_was_verified_before_a_failure_is_printed() {
    for (command, words) in [
        ("pingpong", "--iters=10000000"),
        ("perf", "--iters=10000000"),
    ] {
        let server = ServerProcess::start();
        let [answer, ask] = both_running(&server, command, words);
        traffic(&server);
        // Killed: it says nothing.
        answer.signal(libc::SIGKILL);
        drop(answer);
        let ask = ask.end();
        let (_, code) = partial(&ask, "failed");
        assert_eq!(code, Some(1), "{ask:?}");
        assert!(ask.err.contains("\"exit_code\":1"), "{ask:?}");
    }
}

#[test]
fn a_part_is_said_to_be_one_in_text_and_among_values_separated_by_commas() {
    for (words, part) in [
        (
            &["pingpong", "--iters=10000000"][..],
            " of 10000000 messages (interrupted by signal 15)\n",
        ),
        (
            &["perf", "--iters=10000000"],
            "\nended       interrupted: not all was measured (interrupted by signal 15)\n",
        ),
        (
            &["perf", "--iters=10000000", "--csv"],
            "\n#ended,interrupted,\"interrupted by signal 15\"\n",
        ),
    ] {
        let folder = super::processes::folder();
        let socket = folder.as_path().join("m");
        let monitor = format!("--monitor={}", socket.display());
        let e810 = E810::start(&[words, &[&monitor]].concat());
        let at = socket.display().to_string();
        // Messages are under way.
        until("a view", || {
            let end =
                E810::start(&["monitor", "--at", &at, "--once", "--interval=10", "--json"]).end();
            let view: Value = serde_json::from_str(&end.out).ok()?;
            let name = view.pointer("/functions/1/cqs/0/completions")?;
            (name.as_u64()? > 0).then_some(())
        });
        e810.signal(libc::SIGTERM);
        let end = e810.end();
        assert_eq!(
            (end.status.code(), end.err.as_str()),
            (Some(143), ""),
            "{end:?}"
        );
        assert!(end.out.contains(part), "{end:?}");
    }
}

/// Too many retries are the symptom.
#[test]
fn a_link_that_is_gone_is_named_as_the_cause() {
    let server = ServerProcess::start();
    let sides = both_running(&server, "pingpong", "--iters=10000000");
    traffic(&server);
    server.e810.signal(libc::SIGUSR2);
    let ends = sides.map(E810::end);
    let is_named = |end: &End| end.err.contains("the port has no link: check the cable");
    assert!(
        ends.iter().all(|end| end.status.code() == Some(1)),
        "{ends:?}"
    );
    assert!(ends.iter().any(is_named), "{ends:?}");
}

#[test]
fn wires_of_different_names_are_named_before_anything_is_sent() {
    let at_wire = |wire: &str| format!("--device=sim:wire={wire}");
    let [one, other] = [super::segment::name(), super::segment::name()];
    let mut answer = E810::start(&["pingpong", &at_wire(&one), "--listen=127.0.0.1:0"]);
    let mut lines = BufReader::new(answer.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    answer.0.stderr = Some(lines.into_inner());
    let at = line.trim_end().strip_prefix("listening on ").unwrap();
    let ask = E810::start(&["pingpong", &at_wire(&other), &format!("--connect={at}")]);
    for end in [ask.end(), answer.end()] {
        let said = end.failure();
        assert!(said.contains(&one) && said.contains(&other), "{said}");
    }
}
