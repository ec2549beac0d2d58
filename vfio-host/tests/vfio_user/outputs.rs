//! Files that commands write: FIFOs, names that are given twice, disks that are full.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use super::processes::{E810, folder};

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// A FIFO that nobody reads, and one whose reader reads nothing, end a command and not its
/// patience.
#[test]
fn nobody_has_to_read_a_fifo() {
    let folder = folder();
    let path = folder.as_path().join("fifo");
    fifo(&path);
    let socket = format!("--socket={}", folder.as_path().join("socket").display());
    for (words, option) in [
        (vec!["pingpong", "--iters=1"], "--pcap"),
        (vec!["pingpong", "--iters=1"], "--trace"),
        (vec!["perf", "--iters=1"], "--plot"),
        (vec!["sim", &socket], "--pcap"),
    ] {
        let named = format!("{option}={}", path.display());
        let end = E810::start(&[words, vec![&named]].concat()).end();
        let line = end.failure();
        assert!(line.starts_with(option), "{line}");
        assert!(line.contains("start its reader first"), "{line}");
    }
    // It never reads.
    let mut how = File::options();
    let reader = how.read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let named = format!("--pcap={}", path.display());
    let end = E810::start(&["pingpong", "--iters=3000", &named]).end();
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    assert!(end.err.contains("its reader took nothing"), "{end:?}");
    drop(reader);
}

/// A reader that is started at the same time gets all of it.
#[test]
fn a_fifo_is_read_along() {
    let folder = folder();
    let path = folder.as_path().join("fifo");
    fifo(&path);
    let named = format!("--trace={}", path.display());
    let e810 = E810::start(&["pingpong", "--iters=500", &named]);
    let trace = std::fs::read_to_string(&path).unwrap();
    assert!(e810.end().status.success());
    assert!(trace.len() > 100_000 && trace.ends_with('\n'));
}

/// Who serves others goes on, whatever becomes of what it says of that.
#[test]
fn a_server_whose_first_lines_nobody_can_have_serves() {
    let folder = folder();
    let socket = folder.as_path().join("s");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_e810"))
        .arg("sim")
        .arg(format!("--socket={}", socket.display()))
        .stdout(full)
        .spawn()
        .unwrap();
    let connected = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        UnixStream::connect(&socket).is_ok() || server.try_wait().unwrap().is_some()
    });
    let ended = server.try_wait().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(connected && ended.is_none(), "{ended:?}");
}

/// What was wrong with a file, and what to do.
#[test]
fn an_output_that_cannot_be_written_says_what_to_do() {
    let folder = folder();
    for option in ["--pcap", "--trace"] {
        for (path, remedy) in [
            (folder.as_path(), "name a file in it"),
            (Path::new("/dev/full"), "make room there"),
            (Path::new("/nowhere/at/all"), "make its folder"),
        ] {
            let named = format!("{option}={}", path.display());
            let end = E810::start(&["pingpong", "--iters=2000", &named]).end();
            let line = end.failure();
            assert!(line.starts_with(option) && line.contains(remedy), "{line}");
        }
    }
}
