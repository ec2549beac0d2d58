//! `--pcap`: captures of commands in processes of their own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::processes::{E810, all_verified, folder, until};

/// Nanoseconds and bytes of each frame; the file's last one is whole.
fn frames(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = std::fs::read(path).unwrap();
    let (header, mut rest) = file.split_at(24);
    assert_eq!(header[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert_eq!(header[20..], [1, 0, 0, 0], "Ethernet");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let number = |n: usize| {
            u64::from(u32::from_le_bytes(
                rest[4 * n..4 * n + 4].try_into().unwrap(),
            ))
        };
        assert_eq!(number(2), number(3), "not cut");
        let end = 16 + number(2) as usize;
        frames.push((
            number(0) * 1_000_000_000 + number(1),
            rest[16..end].to_vec(),
        ));
        rest = &rest[end..];
    }
    frames
}

/// Frames with this BTH opcode, of IPv4 without a tag.
fn count(frames: &[(u64, Vec<u8>)], opcode: u8) -> usize {
    let is_one = |bytes: &[u8]| bytes[12..14] == [8, 0] && bytes[42] == opcode;
    frames.iter().filter(|(_, bytes)| is_one(bytes)).count()
}

#[test]
fn a_ping_pong_is_recorded() {
    let folder = folder();
    let path = folder.as_path().join("frames.pcap");
    let run = |seed: &str| {
        let e810 = E810::start(&[
            "pingpong".as_ref(),
            "--virtual".as_ref(),
            "--iters=20".as_ref(),
            seed.as_ref(),
            "--json".as_ref(),
            "--pcap".as_ref(),
            path.as_os_str(),
        ]);
        assert_eq!(e810.end().json()["verified"], 20);
        frames(&path)
    };
    let first = run("--seed=3");
    // SEND Only there and back, and an acknowledge of each.
    assert_eq!((count(&first, 0x04), count(&first, 0x11)), (40, 40));
    assert_eq!(first.len(), 80);
    assert!(first.is_sorted_by_key(|(time, _)| *time));
    assert_eq!(run("--seed=3"), first, "the seed decides");
    assert_ne!(run("--seed=4"), first);
}

#[test]
fn what_cannot_be_recorded_is_one_line() {
    for (arguments, expected) in [
        (
            &["pingpong", "--device=vfio-user:/a", "--peer=vfio-user:/b"][..],
            "--pcap: the frames of vfio-user:/a do not",
        ),
        (
            &["up", "--device=vfio-user:/a"],
            "--pcap: the frames of vfio-user:/a do not",
        ),
        (
            &["up", "--device=vfio:0000:00:00.0"],
            "--pcap: the frames of vfio:0000:00:00.0 do not",
        ),
        (&["up"], "--pcap /nowhere/at/all: No such file"),
    ] {
        let arguments = [arguments, &["--pcap=/nowhere/at/all"]].concat();
        let end = E810::start(&arguments).end();
        let line = match expected.contains("do not") {
            true => end.refusal(),
            false => end.failure(),
        };
        assert!(line.starts_with(expected), "{line}");
    }
    let end = E810::start(&["pingpong", "--iters=2000", "--pcap=/dev/full"]).end();
    assert!(end.failure().starts_with("--pcap /dev/full: "), "{end:?}");
}

/// Every message is right over a bad wire, and the repeats are in the capture.
#[test]
fn a_ping_pong_over_a_bad_wire() {
    let folder = folder();
    let path = folder.as_path().join("frames.pcap");
    let e810 = E810::start(&[
        "pingpong".as_ref(),
        "--virtual".as_ref(),
        "--iters=300".as_ref(),
        "--json".as_ref(),
        "--faults=loss=2%,dup=2%,reorder=2%,corrupt=2%,delay=3us".as_ref(),
        "--pcap".as_ref(),
        path.as_os_str(),
    ]);
    assert_eq!(e810.end().json()["verified"], 300);
    assert!(count(&frames(&path), 0x04) > 600);
    let end = E810::start(&[
        "pingpong",
        "--device=vfio-user:/a",
        "--peer=vfio-user:/b",
        "--faults=loss=1%",
    ])
    .end();
    let line = end.refusal();
    assert!(line.starts_with("--faults: the wire of vfio-user:/a is not"));
}

/// Frames are there on request, while the server goes on, and at its end.
#[test]
fn a_server_records_what_its_functions_send() {
    let folder = folder();
    let path = |name: &str| folder.as_path().join(name);
    let (sockets, pcap) = ([path("a"), path("b")], path("frames.pcap"));
    let report = path("report.json");
    let argument = |name: &str, path: &PathBuf| format!("--{name}={}", path.display());
    let mut server = E810::start(&[
        "sim".to_owned(),
        argument("socket", &sockets[0]),
        argument("socket", &sockets[1]),
        argument("pcap", &pcap),
        argument("report", &report),
        "--profile=small".to_owned(),
    ]);
    let mut lines = BufReader::new(server.0.stdout.take().unwrap());
    for _ in &sockets {
        lines.read_line(&mut String::new()).unwrap();
    }
    server.0.stdout = Some(lines.into_inner());
    all_verified(&sockets[0], &sockets[1], "send", 10, 64);
    server.signal(libc::SIGUSR1);
    until("the report", || {
        let text = std::fs::read_to_string(&report).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()
    });
    assert_eq!(count(&frames(&pcap), 0x04), 20);
    all_verified(&sockets[0], &sockets[1], "write", 10, 64);
    server.signal(libc::SIGTERM);
    assert!(server.end().status.success());
    let all = frames(&pcap);
    // RDMA WRITE Only, there and back.
    assert_eq!((count(&all, 0x04), count(&all, 0x0a)), (20, 20));
}
