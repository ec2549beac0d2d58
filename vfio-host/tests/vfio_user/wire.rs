//! Functions of two servers, each a process, joined over UDP on loopback.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use vmm_sys_util::tempdir::TempDir;

use super::processes::{E810, all_verified, folder};

/// How often ports are picked again when another process was faster.
const TRIES: u32 = 10;

fn loopback() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// A port that was free a moment ago.
fn free() -> SocketAddr {
    loopback().local_addr().unwrap()
}

/// A server at one end of a wire.
struct End {
    e810: E810,
    sockets: Vec<PathBuf>,
    report: PathBuf,
}

impl End {
    /// Serves `functions` functions; `None` when it did not start.
    fn start(
        folder: &TempDir,
        name: &str,
        functions: usize,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<Self> {
        let path = |end: &str| folder.as_path().join(format!("{name}{end}"));
        let sockets: Vec<PathBuf> = (0..functions).map(|i| path(&i.to_string())).collect();
        let report = path(".json");
        let mut arguments: Vec<String> = ["sim", "--profile=small"].map(str::to_owned).into();
        arguments.push(format!("--link=udp:{local},{peer}"));
        arguments.push(format!("--report={}", report.display()));
        for socket in &sockets {
            arguments.push(format!("--socket={}", socket.display()));
        }
        let mut e810 = E810::start(&arguments);
        let mut lines = BufReader::new(e810.0.stdout.take().unwrap());
        for _ in &sockets {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            if line.is_empty() {
                let mut why = String::new();
                e810.0.stderr.take()?.read_to_string(&mut why).unwrap();
                assert!(why.contains("Address already in use"), "{why}");
                return None;
            }
        }
        e810.0.stdout = Some(lines.into_inner());
        Some(Self {
            e810,
            sockets,
            report,
        })
    }

    fn socket(&self, function: usize) -> &Path {
        &self.sockets[function]
    }

    /// Stops it; it has found nothing. Answers with its report.
    fn stop(self) -> Value {
        self.e810.signal(libc::SIGTERM);
        let end = self.e810.end();
        assert!(end.status.success(), "{end:?}");
        assert!(end.out.contains("wire from 127.0.0.1:"), "{}", end.out);
        let text = std::fs::read_to_string(self.report).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["findings_in_all"], 0);
        report
    }
}

/// Two servers, the first with `functions` functions and the second with one,
/// whose frames go to where `peers` says for their own addresses.
fn two(
    folder: &TempDir,
    functions: usize,
    peers: impl Fn([SocketAddr; 2]) -> [SocketAddr; 2],
) -> ([SocketAddr; 2], [End; 2]) {
    for _ in 0..TRIES {
        let local = [free(), free()];
        let peers = peers(local);
        let Some(first) = End::start(folder, "a", functions, local[0], peers[0]) else {
            continue;
        };
        match End::start(folder, "b", 1, local[1], peers[1]) {
            Some(second) => return (local, [first, second]),
            None => drop(first.stop()),
        }
    }
    panic!("no two free ports");
}

fn link(report: &Value, count: &str) -> u64 {
    report["link"][count].as_u64().unwrap()
}

#[test]
fn functions_of_two_processes_verify_every_message() {
    let folder = folder();
    let (_, [a, b]) = two(&folder, 2, |[a, b]| [b, a]);
    // On one server: nothing leaves it.
    all_verified(a.socket(0), a.socket(1), "send", 100, 64);
    let within = 2 * 100;
    for (op, iters, size) in [
        ("send", 500, 64),
        ("write", 100, 20_000),
        ("read", 100, 20_000),
    ] {
        all_verified(a.socket(1), b.socket(0), op, iters, size);
    }
    all_verified(b.socket(0), a.socket(0), "send", 100, 9000);
    let (a, b) = (a.stop(), b.stop());
    let sent = |report: &Value, function: usize| -> u64 {
        report["functions"][function]["frames_sent"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(link(&b, "sent"), sent(&b, 0));
    let local = sent(&a, 0) + sent(&a, 1) - link(&a, "sent");
    assert!(local >= within, "{local}");
    assert!(link(&a, "sent") > 1000 && link(&b, "sent") > 1000);
    for (from, to) in [(&a, &b), (&b, &a)] {
        assert_eq!(link(from, "not_sent"), 0);
        // UDP may lose some, and makes none.
        assert!(link(to, "received") > 1000);
        assert!(link(to, "received") <= link(from, "sent"));
        for none in ["not_ours", "strangers", "no_frame", "too_long", "truncated"] {
            assert_eq!(link(to, none), 0, "{none}");
        }
    }
}

/// What sits between two servers and loses datagrams.
struct Relay {
    sockets: [Arc<UdpSocket>; 2],
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn new() -> Self {
        Self {
            sockets: [Arc::new(loopback()), Arc::new(loopback())],
            stop: Arc::default(),
            lost: Arc::default(),
            threads: Vec::new(),
        }
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [0, 1].map(|end: usize| self.sockets[end].local_addr().unwrap())
    }

    /// Passes on what comes from either server, but for one in 40.
    fn start(&mut self, servers: [SocketAddr; 2]) {
        for (from, to) in [(0, 1), (1, 0)] {
            let [input, output] = [from, to].map(|end: usize| Arc::clone(&self.sockets[end]));
            let (stop, lost) = (Arc::clone(&self.stop), Arc::clone(&self.lost));
            let server = servers[to];
            input
                .set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
            self.threads.push(thread::spawn(move || {
                let mut buffer = [0; 10_000];
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let Ok(bytes) = input.recv(&mut buffer) else {
                        continue;
                    };
                    number += 1;
                    if number % 40 == 7 {
                        lost.fetch_add(1, Ordering::Relaxed);
                    } else {
                        output.send_to(&buffer[..bytes], server).unwrap();
                    }
                }
            }));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking());
        }
    }
}

#[test]
fn lost_datagrams_are_repaired_and_garbage_is_counted() {
    let folder = folder();
    let mut relay = Relay::new();
    let (servers, [a, b]) = two(&folder, 1, |_| relay.addresses());
    // From the peer's address, to the first server; it reads in this order.
    let from_peer = |bytes: &[u8]| {
        relay.sockets[0].send_to(bytes, servers[0]).unwrap();
    };
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 60];
    frame.resize(14 + 60, 0);
    for garbage in [
        &[][..],
        &[1, 2, 3],
        &[0xff; 200],
        &[2; 9725],
        &[2; 20_000],
        &frame,
        &frame[..73],
    ] {
        from_peer(garbage);
    }
    let stranger = loopback();
    for _ in 0..3 {
        stranger.send_to(&frame, servers[0]).unwrap();
    }
    relay.start(servers);
    for op in ["send", "write"] {
        all_verified(a.socket(0), b.socket(0), op, 150, 3000);
    }
    let (a, b) = (a.stop(), b.stop());
    assert!(relay.lost.load(Ordering::Relaxed) > 20);
    for (count, expected) in [
        ("no_frame", 3),
        ("too_long", 2),
        ("truncated", 1),
        ("not_ours", 1),
        ("strangers", 3),
        ("receive_errors", 0),
    ] {
        assert_eq!(link(&a, count), expected, "{count}");
        assert_eq!(link(&b, count), 0, "{count}");
    }
}

#[test]
fn a_wire_that_cannot_be_is_one_line() {
    let folder = folder();
    let socket = format!("--socket={}", folder.as_path().join("a").display());
    let taken = loopback();
    let at = taken.local_addr().unwrap();
    let link = format!("--link=udp:{at},127.0.0.1:1");
    let end = E810::start(&["sim", &socket, &link]).end();
    let line = end.failure();
    assert!(
        line.contains(&format!("receiving frames at {at}")),
        "{line}"
    );
    let end = E810::start(&["sim", &socket, "--link=udp:127.0.0.1:9,127.0.0.2:9"]).end();
    assert!(end.failure().contains("--mac"), "{end:?}");
    let end = E810::start(&["sim", &socket, "--link=udp"]).end();
    assert_eq!(end.status.code(), Some(2));
    assert!(
        end.err.contains("udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT"),
        "{end:?}"
    );
    assert!(
        !folder.as_path().join("a").exists(),
        "the socket was left behind"
    );
}
