use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use vmm_sys_util::tempdir::TempDir;

use super::*;
use crate::output::terminal::Size;
use crate::output::wrap::length;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(300);

pub(super) fn function(name: &str, interrupts: u64, completions: u64) -> FunctionSnapshot {
    let depth = DepthSnapshot {
        entries: 128,
        waiting: 3,
    };
    let vector = |vector, completion_vector: Option<u16>| VectorSnapshot {
        vector,
        asynchronous: completion_vector.is_none(),
        completion_vector,
        interrupts: completion_vector.map_or(0, |_| interrupts),
        ceq: completion_vector.map(|_| depth),
        timing: completion_vector.map(|_| TimingSnapshot {
            timer: "ITR0".to_owned(),
            interval_us: 50,
            limit_us: 20,
        }),
    };
    FunctionSnapshot {
        name: name.to_owned(),
        device: "sim".to_owned(),
        port: PortSnapshot {
            state: "active".to_owned(),
            link_mbps: 100_000,
            mac: "02:e8:10:00:00:00".to_owned(),
        },
        vectors: vec![vector(0, None), vector(1, Some(0))],
        cqs: vec![CqSnapshot {
            number: 3,
            completion_vector: 0,
            depth,
            failed: completions == 0,
            completions,
            events: interrupts,
            moderation: "adaptive".to_owned(),
            wait_us: 50,
            profile: Some(ProfileSnapshot { index: 4, of: 5 }),
        }],
        async_events: AsyncEventsSnapshot::default(),
        counters: [
            ("RDMATXSNDS".to_owned(), completions),
            ("IP6RXPKTS".to_owned(), 0),
        ]
        .into(),
        connection_manager: None,
    }
}

fn snapshot(at_ns: u64, functions: Vec<FunctionSnapshot>) -> Snapshot {
    Snapshot {
        command: "perf".to_owned(),
        pid: 7,
        at_ns,
        functions,
        silent: Vec::new(),
    }
}

#[test]
fn rates_are_of_the_time_between() {
    let before = snapshot(1_000_000_000, vec![function("a", 10, 1_000)]);
    let after = snapshot(
        1_500_000_000,
        vec![function("a", 30, 4_000), function("new", 5, 100)],
    );
    let view = View::between(&before, &after);
    assert_eq!(view.interval_ns, 500_000_000);
    let [a, new] = &view.functions[..] else {
        panic!("{view:?}");
    };
    assert_eq!(a.vectors[1].interrupts_per_s, 40.0);
    assert_eq!(a.vectors[1].completions_per_interrupt, Some(150.0));
    assert_eq!(a.vectors[0].completions_per_interrupt, None, "no interrupt");
    assert_eq!(a.cqs[0].completions_per_s, 6_000.0);
    assert_eq!(a.cqs[0].events_per_s, 40.0);
    let grown: Vec<_> = a.counters_per_s.iter().collect();
    assert_eq!(grown, [(&"RDMATXSNDS".to_owned(), &6_000.0)]);
    assert_eq!(new.vectors[1].interrupts_per_s, 10.0);
    // Two snapshots at the same time, and one that went backwards.
    for view in [
        View::between(&after, &after),
        View::between(&after, &before),
    ] {
        assert_eq!(view.functions[0].cqs[0].completions_per_s, 0.0);
    }
}

#[test]
fn a_view_is_readable() {
    let mut broken = function("function 1", 0, 0);
    broken.async_events = AsyncEventsSnapshot {
        total: 2,
        last: vec![AsyncEventSnapshot {
            ago_ns: 2_500_000_000,
            name: "CQ_OPERATION_ERROR".to_owned(),
            object: "CQ 3".to_owned(),
            cause: "it overflowed".to_owned(),
            remedy: "make it larger".to_owned(),
            needs_reset: true,
        }],
    };
    let before = snapshot(0, vec![function("function 0", 0, 0)]);
    let mut after = snapshot(
        1_000_000_000,
        vec![function("function 0", 20_000, 1_234_000), broken],
    );
    after.silent.push("function 2".to_owned());
    let mut text = Vec::new();
    print(&View::between(&before, &after), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in [
        "perf (process 7), rates in 1/s over the last 1.00 s",
        "function 0 (sim)   port active, 100 Gbit/s, 02:e8:10:00:00:00",
        "  1       comp. vector 0         20.0 k    61.7 each    ITR0 50 µs    20 µs      3 of 128",
        "  3       adaptive               20.0 k       1.23 M         50 µs   5 of 5      3 of 128",
        "  no asynchronous event",
        "  RDMATXSNDS     1.23 M",
        "  3       adaptive                    0            0         50 µs   5 of 5      3 of 128   it overflowed",
        "  2 asynchronous events, the last:",
        "    2.5 s ago, CQ 3: CQ_OPERATION_ERROR: it overflowed; make it larger (only a reset helps)",
        "  no counter grew",
        "function 2 does not answer: it is starting, or its loop is blocked",
    ] {
        assert!(
            text.lines().any(|there| there == line),
            "{line:?} in\n{text}"
        );
    }
}

#[test]
fn rates_have_few_digits() {
    for (rate, text) in [
        (0.0, "0"),
        (0.24, "0.2"),
        (99.9, "99.9"),
        (99.96, "100"),
        (9_999.0, "9999"),
        (9_999.6, "10.0 k"),
        (999_949.0, "999.9 k"),
        (999_951.0, "1.00 M"),
        (12_345_678.0, "12.3 M"),
    ] {
        assert_eq!(screen::human_rate(rate), text);
    }
}

/// A loop with one function. With this it ends.
struct LoopThread(Arc<AtomicBool>);

impl Drop for LoopThread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn start_loop(publisher: SnapshotPublisher) -> LoopThread {
    let ends = Arc::new(AtomicBool::new(false));
    let start_loop = LoopThread(Arc::clone(&ends));
    thread::spawn(move || {
        let mut requests = 0;
        while !ends.load(Ordering::Relaxed) {
            if publisher.is_wanted() {
                requests += 1;
                publisher.publish(function(publisher.name(), requests, requests));
            }
            thread::yield_now();
        }
    });
    start_loop
}

fn folder() -> TempDir {
    TempDir::new_with_prefix(std::env::temp_dir().join("e810-")).unwrap()
}

#[test]
fn a_registry_asks_all_and_names_the_silent() {
    let registry = MonitorRegistry::new("perf");
    let silent = registry.register("silent", "sim");
    assert!(!silent.is_wanted());
    let loops = ["a", "b"].map(|name| start_loop(registry.register(name, "sim")));
    for _ in 0..3 {
        let snapshot = registry.snapshot(SHORT);
        assert!(snapshot.silent.contains(&"silent".to_owned()));
    }
    assert!(silent.is_wanted());
    // Too late: that request is over.
    silent.publish(function("silent", 1, 1));
    assert!(!silent.is_wanted());
    assert!(
        registry
            .snapshot(SHORT)
            .silent
            .contains(&"silent".to_owned())
    );
    let names = || -> Vec<String> {
        let functions = registry.snapshot(LONG).functions.into_iter();
        functions.map(|function| function.name).collect()
    };
    // Its last snapshot is returned once; the others answer in time.
    silent.publish_last(function("silent", 1, 1));
    assert_eq!(names(), ["silent", "a", "b"]);
    // It went, and has left nothing more.
    assert_eq!(names(), ["a", "b"]);
    drop(loops);
    while registry.functions() > 0 {
        let _ = registry.snapshot(LONG);
    }
}

#[test]
fn a_service_answers_until_it_ends() {
    let folder = folder();
    let path = folder.as_path().join("look");
    let registry = MonitorRegistry::new("perf");
    let _loop = start_loop(registry.register("a", "sim"));
    let service = Service::start(registry.clone(), &path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(Service::start(registry, &path).is_err(), "twice");
    let mut client = Client::connect(&path).unwrap();
    let mut snapshot = || client.snapshot().unwrap();
    let (first, second) = (snapshot().unwrap(), snapshot().unwrap());
    let interrupts = |snapshot: &Snapshot| snapshot.functions[0].vectors[1].interrupts;
    assert_eq!(first.functions[0].name, "a");
    assert!(second.at_ns > first.at_ns);
    assert!(interrupts(&second) > interrupts(&first));
    // One that says too much, or nothing, is disconnected; others are not held up.
    let mut stranger = UnixStream::connect(&path).unwrap();
    stranger.write_all(&[b'x'; 100]).unwrap();
    let mut answer = [0];
    // What was not read may make the end a reset.
    assert!(!matches!(stranger.read(&mut answer), Ok(1..)));
    let quiet = UnixStream::connect(&path).unwrap();
    assert!(snapshot().is_some());
    drop(service);
    assert_eq!(snapshot(), None);
    drop(quiet);
    assert!(!path.exists());
    assert!(Client::connect(&path).is_err());
}

/// And its end does not wait for the other process.
#[test]
fn a_service_that_ends_leaves_the_socket_of_another_process() {
    let folder = folder();
    let path = folder.as_path().join("look");
    let service = Service::start(MonitorRegistry::new("perf"), &path).unwrap();
    let mut client = Client::connect(&path).unwrap();
    assert!(client.snapshot().unwrap().is_some());
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    other.set_nonblocking(true).unwrap();
    drop(service);
    // Nobody has knocked there.
    let knocked = other.accept().map(drop);
    assert_eq!(knocked.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(UnixStream::connect(&path).is_ok());
    assert_eq!(client.snapshot().unwrap(), None);
}

#[test]
fn more_clients_than_there_is_room_for_are_turned_away() {
    let folder = folder();
    let path = folder.as_path().join("look");
    let service = Service::start(MonitorRegistry::new("perf"), &path).unwrap();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&path).unwrap()).collect();
    for client in &mut clients {
        assert_eq!(client.snapshot().unwrap().unwrap().functions, []);
    }
    let mut ninth = Client::connect(&path).unwrap();
    let refused = ninth.snapshot().unwrap_err().to_string();
    assert!(refused.contains("8 others"), "{refused}");
    // One goes, and there is room.
    clients.pop();
    let there_is_room = || Client::connect(&path).unwrap().snapshot().is_ok();
    while !there_is_room() {
        thread::yield_now();
    }
    drop(service);
}

/// What is no answer is distinguished from the end.
#[test]
fn answers_that_are_none_are_refused() {
    for (answer, says) in [
        (&b"{}\n"[..], "another version"),
        (b"not json\n", "another version"),
        (b"{\"command\":\"per", "in the middle of its answer"),
    ] {
        let folder = folder();
        let path = folder.as_path().join("look");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(answer).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let text = format!("{:#}", client.snapshot().unwrap_err());
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_view_fits_its_terminal() {
    let many = |name: &str, interrupts| {
        let mut function = function(name, interrupts, interrupts * 900);
        let idle = VectorSnapshot {
            interrupts: 0,
            ceq: None,
            ..function.vectors[1].clone()
        };
        function.vectors.extend(vec![idle; 20]);
        function.counters = (0..30)
            .map(|number| (format!("IP4RXOCTETS{number:02}"), interrupts))
            .collect();
        function.async_events = AsyncEventsSnapshot {
            total: 1,
            last: vec![AsyncEventSnapshot {
                ago_ns: 1,
                name: "LLP_TOO_MANY_RETRIES".to_owned(),
                object: "QP 77".to_owned(),
                cause: "the peer did not acknowledge".to_owned(),
                remedy: "see whether packets reach it".to_owned(),
                needs_reset: false,
            }],
        };
        function.connection_manager = Some(connections::tests::manager(300));
        function
    };
    let snapshot = |at_ns, interrupts| Snapshot {
        command: "perf".to_owned(),
        pid: 7,
        at_ns,
        functions: vec![
            many("function 0", interrupts),
            many("function 1", interrupts),
        ],
        silent: Vec::new(),
    };
    let view = View::between(&snapshot(0, 10), &snapshot(1_000_000_000, 9_999_999));
    for (columns, rows) in [(80, 24), (60, 20), (110, 45), (40, 5), (200, 80)] {
        let mut text = Vec::new();
        print_within(&view, Size { columns, rows }, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().count() < rows, "{columns}x{rows}:\n{text}");
        let long = text.lines().find(|line| length(line) > columns);
        assert_eq!(long, None, "{columns}x{rows}:\n{text}");
        assert!(text.starts_with("perf (process 7)"), "{text}");
        if rows >= 24 {
            assert!(
                text.contains("function 0") && text.contains("function 1"),
                "{text}"
            );
            assert!(
                text.contains("300 connections (150 ESTABLISHED, 150 TIMEWAIT), 1 listener"),
                "{text}"
            );
            assert!(text.contains("21 idle vectors") || rows == 80, "{text}");
        }
    }
}
