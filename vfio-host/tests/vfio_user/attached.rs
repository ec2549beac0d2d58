//! `e810 perf` in two processes on one function, which a third process owns.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;

use e810_attach::places::of_function;
use vmm_sys_util::tempdir::TempDir;

use super::processes::{E810, End, folder, until};

/// `e810 serve` of a simulated function.
struct Owner {
    folder: TempDir,
    _process: E810,
}

impl Owner {
    fn start() -> Self {
        Self::of(&["sim@10.8.1.1/24"])
    }

    /// Of several functions, each with a socket.
    fn of(functions: &[&str]) -> Self {
        let folder = folder();
        let at = folder.as_path().join("at");
        let mut words = vec!["serve".to_owned(), format!("--at={}", at.display())];
        words.push("--device".to_owned());
        words.extend(functions.iter().map(|&name| name.to_owned()));
        let process = E810::start(&words);
        until("the sockets of e810 serve", || {
            let last = of_function(&at, functions.len() - 1);
            last.exists().then_some(())
        });
        Self {
            folder,
            _process: process,
        }
    }

    fn perf(&self, function: usize, words: &str) -> E810 {
        let at = self.folder.as_path().join("at");
        perf_at(&of_function(&at, function), words)
    }

    /// Both sides of a run, the one that listens first.
    fn both(&self, words: &str) -> [End; 2] {
        self.between([0, 0], words)
    }

    /// The same on two functions.
    fn between(&self, [listens, connects]: [usize; 2], words: &str) -> [End; 2] {
        let mut answer = self.perf(listens, &format!("--listen=127.0.0.1:0 {words}"));
        let mut lines = BufReader::new(answer.0.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let at = line.trim_end().strip_prefix("listening on ");
        let at: SocketAddr = at.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        answer.0.stderr = Some(lines.into_inner());
        let ask = self.perf(connects, &format!("--connect={at} {words}"));
        let ask = ask.end();
        [answer.end(), ask]
    }
}

fn perf_at(at: &Path, words: &str) -> E810 {
    let device = format!("--device=at:{}", at.display());
    let mut arguments = vec!["perf".to_owned(), device, "--json".to_owned()];
    arguments.extend(words.split_whitespace().map(str::to_owned));
    E810::start(&arguments)
}

#[test]
fn messages_go_between_two_functions_of_a_server() {
    let name = |number: u32| {
        let wire = format!("serves-two-{}", std::process::id());
        format!("sim:wire={wire}@10.8.1.{number}/24")
    };
    let owner = Owner::of(&[&name(1), &name(2)]);
    let words = "--op=write --test=bw --check --iters=200 --size=5000";
    for end in owner.between([0, 1], words) {
        let report = end.json();
        assert_eq!(report["rows"][0]["errors"], 0, "{report}");
    }
}

#[test]
fn two_processes_measure_on_one_function() {
    let owner = Owner::start();
    for words in [
        "--op=send --test=lat --check --iters=50 --size=64",
        "--op=write --test=bw --check --iters=200 --size=5000 --qps=2 --post-list=4",
        "--op=read --test=bw --check --iters=200 --size=8",
        "--op=write --test=lat --iters=50 --size=8 --inline=8",
    ] {
        let [answer, ask] = owner.both(words).map(|end| end.json());
        for report in [&answer, &ask] {
            assert_eq!(report["rows"][0]["errors"], 0, "{words}: {report}");
            assert_eq!(report["transport"], "attached");
        }
        let verified = |report: &serde_json::Value| report["rows"][0]["verified"].as_u64().unwrap();
        assert!(verified(&answer) + verified(&ask) > 0, "{words}");
    }
}

#[test]
fn what_the_owner_decides_is_refused() {
    let owner = Owner::start();
    for (words, why) in [
        ("--connect=127.0.0.1:1 --ip=10.8.1.7", "--ip"),
        ("--connect=127.0.0.1:1 --events", "--events"),
        ("", "--listen"),
    ] {
        let end = owner.perf(0, words).end();
        assert_eq!(end.status.code(), Some(2), "{words}: {}", end.err);
        assert!(end.err.contains(why), "{words}: {}", end.err);
    }
    let nowhere = owner.folder.as_path().join("nobody");
    let end = perf_at(&nowhere, "--listen=127.0.0.1:0").end();
    assert_eq!(end.status.code(), Some(1), "{}", end.err);
    assert!(
        end.err.contains("nobody serves a function at"),
        "{}",
        end.err
    );
    // Other commands need a function of their own.
    let device = format!(
        "--device=at:{}",
        owner.folder.as_path().join("at").display()
    );
    let end = E810::start(&["pingpong", device.as_str()]).end();
    assert_eq!(end.status.code(), Some(2), "{}", end.err);
}
