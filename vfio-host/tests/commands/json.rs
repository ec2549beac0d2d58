//! The JSON of commands: versioned, and as docs/commands.md has it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use e810_backends::host::fake::Tree;
use e810_host::cli::{DoctorArgs, ListArgs};
use e810_host::commands::{doctor, list};
use serde_json::Value;

/// The row of docs/commands.md of a report, up to the next one.
fn documented(report: &str) -> String {
    let page = include_str!("../../../docs/commands.md");
    let (_, section) = page.split_once("\n## JSON\n").unwrap();
    let row = section
        .lines()
        .find(|line| line.starts_with(&format!("| `{report}` |")));
    row.unwrap_or_else(|| panic!("{report}")).to_owned()
}

/// Names of fields at any depth; those of counters are names of the card.
fn fields(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                let has_own = [
                    "counters",
                    "counters_per_s",
                    "asked",
                    "device",
                    "frames",
                    "states",
                ];
                if !has_own.contains(&name.as_str()) {
                    fields(value, names);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

/// Compares an object with its row.
fn compare(report: &str, text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{report}: {text}"));
    assert_eq!(
        (&value["version"], &value["report"]),
        (&1.into(), &report.into()),
        "{text}"
    );
    let row = documented(report);
    let mut names = Vec::new();
    fields(&value, &mut names);
    names.retain(|name| !["version", "report"].contains(&name.as_str()));
    assert!(names.len() > 1, "{names:?}");
    for name in names {
        // Objects of HMC memory and cores have fields of their own.
        let is_detail = [
            "cpus",
            "count",
            "object_bytes",
            "bytes",
            "linux_count",
            "linux_bytes",
            "min",
            "p50",
            "p99",
            "max",
            "average",
            "mdev",
            "avg",
        ];
        assert!(
            row.contains(&format!("`{name}`")) || is_detail.contains(&name.as_str()),
            "{report}: `{name}` is not in docs/commands.md: {row}"
        );
    }
}

#[test]
fn every_field_is_documented() {
    for (report, words) in [
        (
            "pingpong",
            "pingpong --iters 20 --transport ud --events --counters",
        ),
        ("pingpong", "pingpong --iters 20 --virtual --faults loss=1%"),
        ("perf", "perf --iters 20 --histogram --events"),
        ("perf", "perf --iters 20 --test bw"),
        ("ping", "ping -c 1"),
        ("stat", "stat -v"),
        ("up", "up"),
        ("monitor", "monitor --once --interval 50"),
    ] {
        compare(report, &super::good(&format!("{words} --json")));
    }
    let refused = e810("pingpong --size 0 --json").output().unwrap();
    compare("error", std::str::from_utf8(&refused.stderr).unwrap());
}

#[test]
fn what_is_printed_of_the_machine_is_documented() {
    let tree = Tree::with_others();
    tree.group("0000:3b:00.1", 24);
    let mut out = Vec::new();
    list::run_on(tree.host(), &ListArgs { json: true }, &mut out).unwrap();
    compare("list", std::str::from_utf8(&out).unwrap());
    let args = DoctorArgs {
        function: None,
        json: true,
    };
    out.clear();
    doctor::run_on(tree.host(), &args, &mut out).unwrap_err();
    compare("doctor", std::str::from_utf8(&out).unwrap());
}

fn e810(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_e810"));
    command
        .args(words.split_whitespace())
        .env_remove("RUST_LOG");
    command
}

/// In a network namespace, where one can be made.
#[test]
fn what_an_interface_does_is_documented() {
    let namespace = |command: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["--map-root-user", "--net", "--mount", "sh", "-c", command]);
        shell
    };
    const SYS: &str = "mount -t sysfs sysfs /sys && test -c /dev/net/tun";
    let can_be = namespace(SYS).stderr(Stdio::null()).status();
    if !can_be.is_ok_and(|status| status.success()) {
        println!("NOT RUN: no namespace with a TAP interface can be made here (unshare(1))");
        return;
    }
    let folder = super::temporary_folder();
    let [socket, package] = ["socket", "package"].map(|name| folder.as_path().join(name));
    let (socket, package) = (socket.display(), package.display());
    let mut server = e810(&format!("sim --socket {socket} --package {package}"));
    let mut server = Running(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let words = format!("tap lab0 --device vfio-user:{socket} --ddp {package} --ip 10.9.0.1/24");
    let run = format!(
        "{SYS} && exec {} {words} --json",
        env!("CARGO_BIN_EXE_e810")
    );
    let mut tap = Running(namespace(&run).stdout(Stdio::piped()).spawn().unwrap());
    let mut seen = Vec::new();
    for line in BufReader::new(tap.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        compare("tap", &line);
        let value: Value = serde_json::from_str(&line).unwrap();
        let event = value["event"].as_str().unwrap().to_owned();
        if event == "gid" && !seen.contains(&event) {
            tap.terminate();
        }
        seen.push(event);
    }
    assert!(tap.0.wait().is_ok());
    server.terminate();
    assert!(server.0.wait().is_ok());
    for event in ["started", "link", "gid", "ended"] {
        assert!(seen.iter().any(|seen| seen == event), "{event}: {seen:?}");
    }
}

/// A process that ends with this.
struct Running(Child);

impl Running {
    fn terminate(&self) {
        let pid = i32::try_from(self.0.id()).unwrap();
        // SAFETY: a child of this process that was not waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
