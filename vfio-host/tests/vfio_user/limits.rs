//! What a user of `e810 sim` cannot do: take its memory, end it, have it print bytes,
//! or have it write to files that are not its own.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e810_backends::vfio_user::VfioUser;
use vfio_user::Client;
use vmm_sys_util::tempdir::TempDir;
use vmm_sys_util::tempfile::TempFile;

use super::processes::{E810, End, LIMIT, folder, until};
use super::strangers::message;

const VERSION: u16 = 1;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;

/// A function served by another process.
struct Sim {
    e810: E810,
    path: PathBuf,
    folder: TempDir,
}

impl Sim {
    fn start() -> Self {
        let folder = folder();
        let path = folder.as_path().join("s");
        let socket = format!("--socket={}", path.display());
        let e810 = E810::start(&["sim", "--profile=small", &socket]);
        until("the server's socket", || UnixStream::connect(&path).ok());
        Self { e810, path, folder }
    }

    /// The most memory that it ever had, in bytes.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.e810.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let number = line.unwrap().split_whitespace().nth(1).unwrap();
        number.parse::<u64>().unwrap() << 10
    }

    /// It serves the next user, and ends as it should.
    fn goes_on(self) -> End {
        let next = VfioUser::connect_within(&self.path, LIMIT);
        drop(next.unwrap());
        self.e810.signal(libc::SIGTERM);
        let end = self.e810.end();
        drop(self.folder);
        end
    }
}

/// REGION_READ or REGION_WRITE of BAR0, with no data.
fn access(command: u16, size: u32, count: u32) -> Vec<u8> {
    let body: Vec<u8> = [0, 0, 0, count]
        .iter()
        .flat_map(|w: &u32| w.to_ne_bytes())
        .collect();
    message(1, command, size, 0, 0, &body)
}

#[test]
fn no_message_takes_much_memory() {
    let sim = Sim::start();
    let before = sim.peak();
    for bytes in [
        access(REGION_READ, 32, 512 << 20),
        access(REGION_WRITE, 32, 512 << 20),
        access(REGION_WRITE, 32 + (512 << 20), 512 << 20),
        message(1, VERSION, 512 << 20, 0, 0, &[0; 4]),
    ] {
        let mut user = UnixStream::connect(&sim.path).unwrap();
        user.write_all(&bytes).unwrap();
        // Refused at once, or waited for what was announced.
        user.set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let _ = user.read(&mut [0; 16]);
    }
    let more = sim.peak() - before;
    assert!(more < 64 << 20, "{more} bytes more");
    assert!(sim.goes_on().status.success());
}

#[test]
fn a_file_that_is_cut_does_not_end_the_server() {
    const RING: u64 = 0x10_1000;
    let sim = Sim::start();
    let mut user = Client::new(&sim.path).unwrap();
    user.region_write(7, 4, &[6, 0, 0, 0]).unwrap();
    let file = TempFile::new().unwrap().into_file();
    file.set_len(4096).unwrap();
    user.dma_map(0, RING, 4096, file.as_raw_fd()).unwrap();
    file.set_len(0).unwrap();
    // The firmware fetches a command.
    for (register, value) in [
        (0x8_0300, 0_u32),
        (0x8_0400, 0),
        (0x8_0000, RING as u32),
        (0x8_0100, 0),
        (0x8_0200, 1 << 31 | 8),
        (0x8_0400, 1),
    ] {
        // Its user is sent away meanwhile.
        let _ = user.region_write(0, register, &value.to_le_bytes());
    }
    until("the user to be sent away", || {
        user.region_write(7, 4, &[6, 0, 0, 0])
            .is_err()
            .then_some(())
    });
    let end = sim.goes_on();
    assert!(end.status.code().is_some(), "{end:?}");
    assert!(end.err.contains("cut a file"), "{end:?}");
}

/// The signal that cut files raise has its usual effect when it is no file's: the
/// standard library's handler, which looks for stack overflows, lets the first one
/// pass and is the last to stand in the way.
#[test]
fn a_bus_error_that_is_no_files_ends_the_server() {
    let mut sim = Sim::start();
    let mut user = Client::new(&sim.path).unwrap();
    let file = TempFile::new().unwrap().into_file();
    file.set_len(4096).unwrap();
    // From the first mapping on the signal is handled.
    user.dma_map(0, 0x10_0000, 4096, file.as_raw_fd()).unwrap();
    let mut sent = 0;
    let id = sim.e810.0.id();
    // A busy machine delivers a signal late, and two that wait are one.
    let waits = || {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let sets = status.lines().filter_map(|line| line.split_once("Pnd:\t"));
        let mut sets = sets.map(|(_, set)| u64::from_str_radix(set, 16).unwrap());
        sets.any(|set| set >> (libc::SIGBUS - 1) & 1 == 1)
    };
    let status = until("the end", || {
        let ended = sim.e810.0.try_wait().unwrap();
        if ended.is_none() && !waits() {
            sim.e810.signal(libc::SIGBUS);
            sent += 1;
        }
        ended
    });
    assert_eq!(status.signal(), Some(libc::SIGBUS));
    assert!(sent < 100, "{sent} signals");
}

#[test]
fn no_bytes_of_a_user_are_printed() {
    let sim = Sim::start();
    let text = b"\x1b[31mSECRET".repeat(400);
    for _ in 0..100 {
        let mut user = UnixStream::connect(&sim.path).unwrap();
        let size = 20 + text.len() as u32;
        let body = [&[0; 4][..], &text].concat();
        // Nobody reads its log meanwhile: a server that prints it all stops.
        user.set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let _ = user.write_all(&message(1, VERSION, size, 0, 0, &body));
        // An error, or the end.
        let _ = user.read(&mut [0; 16]);
    }
    let end = sim.goes_on();
    assert!(end.status.success());
    assert!(!end.err.contains("SECRET") && !end.err.contains('\x1b'));
    assert!(end.err.len() < 4096, "{} bytes", end.err.len());
}

#[test]
fn mappings_that_wrap_are_no_findings() {
    let sim = Sim::start();
    let mut user = Client::new(&sim.path).unwrap();
    let file = TempFile::new().unwrap().into_file();
    file.set_len(8192).unwrap();
    for (offset, iova, size) in [
        (0, u64::MAX - 4095, 8192),
        (0, u64::MAX - 4095, 4096),
        (8, 0x10_0000, 4096),
    ] {
        user.dma_map(offset, iova, size, file.as_raw_fd()).unwrap();
    }
    drop(user);
    assert!(sim.goes_on().status.success());
}

#[test]
fn sockets_are_for_one_user() {
    let folder = folder();
    let path = folder.as_path().join("s");
    let script = "umask 0; exec \"$0\" sim --profile small --socket \"$1\"";
    let child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_e810")])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let server = E810(child.unwrap());
    let mode = until("the socket", || fs::metadata(&path).ok());
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    until("the server", || UnixStream::connect(&path).ok());
    server.signal(libc::SIGTERM);
    assert!(server.end().status.success());
}

/// `e810 sim` that gets a signal as soon as it serves; its end.
fn sim(folder: &Path, more: &[&str]) -> End {
    let socket = folder.join("s");
    let words = [
        "sim",
        "--profile=small",
        "--socket",
        socket.to_str().unwrap(),
    ];
    let mut e810 = E810::start(&[&words, more].concat());
    until("the socket, or the end", || {
        let ended = e810.0.try_wait().unwrap().is_some();
        (ended || UnixStream::connect(&socket).is_ok()).then_some(())
    });
    if e810.0.try_wait().unwrap().is_none() {
        e810.signal(libc::SIGTERM);
    }
    e810.end()
}

#[test]
fn a_package_that_is_there_is_left_alone() {
    let folder = folder();
    let file = folder.as_path().join("ice.pkg");
    let package = ["--package", file.to_str().unwrap()];
    for _ in 0..2 {
        let end = sim(folder.as_path(), &package);
        assert!(end.status.success(), "{end:?}");
        assert_eq!(fs::read(&file).unwrap(), e810_sim::test_package());
    }
    fs::write(&file, "a card's own").unwrap();
    let end = sim(folder.as_path(), &package);
    let line = end.failure();
    assert!(
        line.contains("another file already") && line.contains("ice.pkg"),
        "{line}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"a card's own");
}

#[test]
fn reports_replace_reports_and_follow_nothing() {
    let folder = folder();
    let at = |name| folder.as_path().join(name);
    let (report, bystander, victim) = (at("r.json"), at("r.new"), at("victim"));
    let arguments = ["--report", report.to_str().unwrap()];
    fs::write(&victim, "precious").unwrap();
    for _ in 0..2 {
        // A name that parts of reports once had.
        let _ = fs::remove_file(&bystander);
        symlink(&victim, &bystander).unwrap();
        let end = sim(folder.as_path(), &arguments);
        assert!(end.status.success(), "{end:?}");
        let text = File::open(&report).unwrap();
        let _: serde_json::Value = serde_json::from_reader(text).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
    // Neither what a link points to nor another file is replaced.
    fs::remove_file(&report).unwrap();
    symlink(&victim, &report).unwrap();
    assert!(
        sim(folder.as_path(), &arguments)
            .failure()
            .contains("r.json")
    );
    fs::remove_file(&report).unwrap();
    fs::write(&report, "notes").unwrap();
    let line = sim(folder.as_path(), &arguments);
    assert!(line.failure().contains("no report"), "{line:?}");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(fs::read(&report).unwrap(), b"notes");
}

/// `--help` names what is left.
#[test]
fn help_says_what_a_user_can_do() {
    let end = E810::start(&["sim", "--help"]).end();
    assert!(
        end.out.contains("What a user of a socket can do"),
        "{end:?}"
    );
}
