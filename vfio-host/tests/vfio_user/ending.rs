//! How commands end before they are through: by a signal, with what was done until
//! then, or because their reader is gone.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::apart::{listener, on};
use super::processes::{E810, End, ServerProcess, folder, package, until};

/// The lines of a process so far, as they come.
pub(super) fn lines(e810: &mut E810) -> impl Iterator<Item = String> + use<> {
    let out = BufReader::new(e810.0.stdout.take().unwrap());
    out.lines().map(Result::unwrap)
}

#[test]
fn rows_are_there_when_they_are_measured_and_stay_after_a_signal() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        // Without an end that anybody would wait for.
        let words = ["perf", "--test=bw", "--all", "--iters=10000"];
        let mut e810 = E810::start(&words);
        let mut lines = lines(&mut e810);
        let mut seen: Vec<String> = lines.by_ref().take(6).collect();
        let sizes = |seen: &[String]| {
            let first = |line: &String| line.split_whitespace().next().map(str::to_owned);
            seen.iter().skip(4).filter_map(first).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&seen), ["2", "4"], "{seen:?}");
        e810.signal(signal);
        seen.extend(lines);
        let end = e810.end();
        assert_eq!(end.status.code(), Some(code), "{end:?}");
        assert_eq!(end.err, "");
        let sizes = sizes(&seen);
        assert!((2..23).contains(&sizes.len()), "{seen:?}");
    }
}

/// A terminal that is closed ends a run in order, unless it was begun to outlive that.
#[test]
fn a_closed_terminal_ends_in_order_what_is_not_to_outlive_it() {
    let start = |hangup: &str| {
        let words = ["ping", "-i=0.02"];
        let mut e810 = E810(
            Command::new("env")
                .args([hangup, env!("CARGO_BIN_EXE_e810")])
                .args(words)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut lines = lines(&mut e810);
        assert!(lines.by_ref().take(3).all(|line| !line.is_empty()));
        (e810, lines)
    };
    let (e810, lines) = start("--default-signal=HUP");
    e810.signal(libc::SIGHUP);
    let seen: Vec<String> = lines.collect();
    let has_statistics = |seen: &[String]| seen.iter().any(|line| line.contains("statistics"));
    assert!(has_statistics(&seen), "{seen:?}");
    assert!(e810.end().status.success(), "there were replies");

    let (e810, mut lines) = start("--ignore-signal=HUP");
    e810.signal(libc::SIGHUP);
    let more: Vec<String> = lines.by_ref().take(20).collect();
    assert!(!has_statistics(&more), "{more:?}");
    e810.signal(libc::SIGTERM);
    assert!(has_statistics(&lines.collect::<Vec<_>>()));
}

#[test]
fn who_waits_for_a_peer_can_be_ended() {
    let server = ServerProcess::start();
    let (waits, _) = listener("perf", &server.paths[0], "");
    waits.signal(libc::SIGTERM);
    assert_eq!(waits.end().status.code(), Some(143));
    // The function was shut down.
    assert!(on("stat", &server.paths[0], "").end().status.success());
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

/// An address that answers no request for a connection, as behind a firewall that drops them: a
/// listener whose queue is full, and what fills it.
fn silent_address() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: no memory is touched. The shortest queue there is.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let at = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&at, Duration::from_millis(300)).ok();
    let queued = std::iter::from_fn(connect).collect();
    // The last attempt lasts as long as a child that another test has just made has its socket, too.
    until("the end of the last attempt", || {
        (!is_connecting(at)).then_some(())
    });
    (listener, queued)
}

/// Whether a process of this network waits for an answer of `at` (proc_pid_net(5): SYN_SENT is 2).
fn is_connecting(at: SocketAddr) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", at.port());
    sockets.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[2].ends_with(&port) && words[3] == "02"
    })
}

#[test]
fn who_connects_to_a_silent_address_can_be_ended() {
    for command in ["pingpong", "perf"] {
        let (listener, _queued) = silent_address();
        let at = listener.local_addr().unwrap();
        let device = format!("--device=sim:wire={}", super::segment::name());
        let e810 = E810::start(&[command, &device, &format!("--connect={at}"), "--wait=200"]);
        until("a request for a connection", || {
            is_connecting(at).then_some(())
        });
        e810.signal(libc::SIGTERM);
        let end = e810.end();
        // Not that there was no connection in time, too.
        assert_eq!((end.status.code(), end.err.as_str()), (Some(143), ""));
    }
}

#[test]
fn who_waits_for_a_peer_that_says_nothing_can_be_ended_and_tells_it() {
    for command in ["pingpong", "perf"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let device = format!("--device=sim:wire={}", super::segment::name());
        let e810 = E810::start(&[command, &device, &format!("--connect={at}"), "--wait=200"]);
        let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
        assert!(lines.next().unwrap().unwrap().contains("hello"));
        e810.signal(libc::SIGTERM);
        let end = e810.end();
        assert_eq!((end.status.code(), end.err.as_str()), (Some(143), ""));
        let last = lines.next().unwrap().unwrap();
        assert_eq!(last, "{\"step\":\"interrupted\",\"signal\":15}");
    }
}

#[test]
fn ping_that_is_cut_short_tells_what_came_also_by_two_signals_at_once() {
    let mut e810 = E810::start(&["ping", "-i=0.02"]);
    let mut lines = lines(&mut e810);
    let mut seen: Vec<String> = lines.by_ref().take(3).collect();
    assert!(seen[2].contains("seq=2"), "{seen:?}");
    // As `timeout` does: the process, and its group.
    e810.signal(libc::SIGINT);
    e810.signal(libc::SIGTERM);
    seen.extend(lines);
    let end = e810.end();
    // There were replies.
    assert!(end.status.success(), "{end:?} {seen:?}");
    let at = seen
        .iter()
        .position(|line| line.contains("ping statistics"));
    let counts = &seen[at.unwrap_or_else(|| panic!("{seen:?}")) + 1];
    assert!(counts.contains(" replies, "), "{seen:?}");
}

#[test]
fn nobody_who_reads_is_nothing_to_tell() {
    for words in WRITERS {
        // Gone before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let End { status, err, .. } = onto(words, writer.into());
        assert_eq!((status.code(), err.as_str()), (Some(141), ""), "{words}");
    }
}

/// Commands that print something and end.
const WRITERS: [&str; 19] = [
    "stat",
    "stat --json",
    "up",
    "up --card",
    "ping -c=1",
    "report --level=1",
    "pingpong --iters=10",
    "pingpong --iters=10 --json",
    "perf --test=bw --iters=10",
    "perf --test=bw --iters=10 --csv",
    "monitor --once --interval=10",
    "list",
    "--help",
    "--version",
    "help",
    "help sim",
    "sim --help",
    "pingpong -h",
    "trace show --help",
];

/// How `e810` ends with these words, when standard output is `out`.
fn onto(words: &str, out: Stdio) -> End {
    let child = Command::new(env!("CARGO_BIN_EXE_e810"))
        .args(words.split(' '))
        .env_remove("RUST_LOG")
        .stdout(out)
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn();
    E810(child.unwrap()).end()
}

#[test]
fn standard_output_that_takes_nothing_is_named_with_what_to_do() {
    for words in WRITERS {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let end = onto(words, full.unwrap().into());
        let line = end.failure();
        assert!(
            line.starts_with("standard output: No space left on device")
                && line.contains("make room"),
            "{words}: {line}"
        );
    }
}

/// Standard error that cannot be written has nobody to tell, and changes nothing else.
#[test]
fn a_failure_that_nobody_can_hear_of_is_that_failure() {
    for (words, code) in [
        ("stat --device=vfio-user:/nonexistent", 1),
        ("stat --device=vfio-user:/nonexistent --json", 1),
        ("pingpong --nonsense", 2),
        ("pingpong --nonsense --json", 2),
        ("run --print-env --device=nonsense -- true", 2),
        (
            "pingpong --iters=1 --listen=127.0.0.1:0 --wait=1 --device=sim:wire=nobody",
            1,
        ),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let child = Command::new(env!("CARGO_BIN_EXE_e810"))
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(full.unwrap())
            .stdin(Stdio::null())
            .spawn();
        let end = E810(child.unwrap()).end();
        assert_eq!(end.status.code(), Some(code), "{words}");
    }
}

/// A limit on the size of files is an error of the file that it is reached by.
#[test]
fn a_file_that_may_not_grow_ends_a_run_in_order() {
    let folder = folder();
    let file = folder.as_path().join("file");
    let line = "ulimit -f 8; exec \"$@\"";
    for option in ["--pcap", "--trace"] {
        let child = Command::new("sh")
            .args(["-c", line, "sh", env!("CARGO_BIN_EXE_e810")])
            .args(["pingpong", "--iters=1000", option])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let end = E810(child.unwrap()).end();
        assert_eq!(end.status.code(), Some(1), "{end:?}");
        assert!(end.out.contains("1000 of 1000"), "{end:?}");
        assert!(end.err.contains(option), "{end:?}");
        assert!(end.err.contains("File too large"), "{end:?}");
    }
}

/// What is printed, and what is logged, would be overwritten.
#[test]
fn a_file_that_a_stream_goes_to_is_no_other_output() {
    let folder = folder();
    let file = folder.as_path().join("file");
    for (stream, name) in [(">", "standard output"), ("2>", "standard error")] {
        for option in ["--trace", "--pcap"] {
            let line = format!("exec \"$1\" up {option} \"$2\" {stream} \"$2\"");
            let child = Command::new("sh")
                .args(["-c", &line, "sh", env!("CARGO_BIN_EXE_e810")])
                .arg(&file)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            let end = E810(child.unwrap()).end();
            assert_eq!(end.status.code(), Some(2), "{end:?}");
            let kept = std::fs::read_to_string(&file).unwrap();
            let said = format!("{option} {}: {name} also goes to", file.display());
            assert!((end.err + &kept).contains(&said), "{kept}");
        }
    }
}

/// Paths are bytes: sockets have those that files may have.
#[test]
fn a_socket_has_any_name_that_a_file_may_have() {
    let folder = folder();
    let socket = folder.as_path().join(OsStr::from_bytes(b"s\xff"));
    let words = [
        OsStr::new("sim"),
        OsStr::new("--socket"),
        socket.as_os_str(),
    ];
    let mut server = E810::start(&words);
    assert!(lines_lossy(&mut server).contains("function 0 on"));
    let mut device = OsString::from("--device=vfio-user:");
    device.push(&socket);
    let ddp = OsString::from(format!("--ddp={}", package().display()));
    let end = E810::start(&[OsStr::new("stat"), &device, &ddp]).end();
    assert!(end.status.success(), "{end:?}");
    server.signal(libc::SIGTERM);
    assert!(server.end().status.success());
}

/// The first line of a process, which need not be UTF-8.
fn lines_lossy(e810: &mut E810) -> String {
    let mut out = BufReader::new(e810.0.stdout.take().unwrap());
    let mut line = Vec::new();
    out.read_until(b'\n', &mut line).unwrap();
    e810.0.stdout = Some(out.into_inner());
    String::from_utf8_lossy(&line).into_owned()
}

#[test]
fn a_picture_is_whole_or_not_there() {
    let folder = folder();
    let file = folder.as_path().join("picture.svg");
    let perf = |out: Stdio| {
        let child = Command::new(env!("CARGO_BIN_EXE_e810"))
            .args(["perf", "--test=bw", "--iters=10", "--plot"])
            .arg(&file)
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn();
        E810(child.unwrap()).end().status.code()
    };
    let names = || std::fs::read_dir(folder.as_path()).unwrap().count();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!((perf(writer.into()), names()), (Some(141), 0));
    assert_eq!((perf(Stdio::null()), names()), (Some(0), 1));
    let picture = std::fs::read_to_string(&file).unwrap();
    assert!(picture.trim_end().ends_with("</svg>"));
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    let card = "--device=0000:3b:00.0";
    for (words, part) in [
        ("pingpong --transport=ud --op=write", "use --op send"),
        ("pingpong --op=send-inv --size=3", "--size 3"),
        ("pingpong --moderation=50us", "add --events"),
        ("perf --test=lat --qps=2", "--test bw"),
        ("perf --test=bw --histogram", "--test lat"),
        ("pingpong --hugepages", "--hugepages: not with --device sim"),
        ("pingpong --warm --mac=02:00:00:00:00:09", "--mac: not with"),
        ("stat --warm --vsi=77", "--vsi: not with --device sim"),
        ("up --hugepages", "--hugepages: not with"),
        ("pingpong --warm --peer-vsi=7", "--peer-vsi: not with"),
        ("pingpong --listen=:0", "e810 sim"),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        for json in [&[][..], &["--json"]] {
            let end = E810::start(&[&words, json].concat()).end();
            assert!(end.refusal().contains(part), "{words:?}: {end:?}");
        }
    }
    for device in [card, "--device=vfio-user:/nonexistent"] {
        let end = E810::start(&["pingpong", device]).end();
        assert!(end.failure().contains("no such"), "{end:?}");
    }
    let server = ServerProcess::start();
    let device = format!("--device=vfio-user:{}", server.paths[0].display());
    let said = E810::start(&["pingpong", &device]).end().refusal();
    for part in ["--peer vfio-user:PATH", "--listen", "--connect HOST"] {
        assert!(said.contains(part), "{said}");
    }
    server.stop(libc::SIGTERM);
}

/// A line of the log: `[SECONDS LEVEL PLACE] TEXT`. A thread's lines are in the order of their
/// times; those of two threads are not, for a time is taken before its line is written.
#[test]
fn a_log_that_was_asked_for_has_times_and_places() {
    /// Where the functions' own threads log. All other lines are the main thread's.
    const OTHER_THREADS: &str = "e810_node::station::worker";
    let words = ["pingpong", "--iters=1"];
    let begun = Instant::now();
    let End { status, err, .. } = E810::start_with(&words, &[("RUST_LOG", "debug")]).end();
    assert!(status.success(), "{err}");
    let whole = begun.elapsed().as_secs_f64();
    let lines: Vec<(&str, f64)> = err
        .lines()
        .map(|line| {
            let head = line
                .strip_prefix('[')
                .and_then(|line| line.split_once("] "));
            let (head, _) = head.unwrap_or_else(|| panic!("{line}"));
            let [time, "DEBUG" | "INFO", place] = *head.split(' ').collect::<Vec<_>>() else {
                panic!("{line}");
            };
            assert!(place.starts_with("e810"), "{line}");
            (place, time.parse().unwrap())
        })
        .collect();
    let is_within = |(_, time): &(&str, f64)| (0.0..=whole).contains(time);
    assert!(lines.iter().all(is_within), "{whole}: {err}");
    let (others, main): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|(place, _)| *place == OTHER_THREADS);
    assert!(
        main.len() > 10 && main.is_sorted_by_key(|(_, time)| *time),
        "{err}"
    );
    assert!(!others.is_empty(), "{err}");
}
