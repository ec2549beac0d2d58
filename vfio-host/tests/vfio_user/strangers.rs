//! Sockets that are not vfio-user, or answer what makes no sense, and what a
//! server makes of users like that.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use e810_backends::vfio_user::VfioUser;
use e810_backends::{BackendError, Transport};

use super::processes::{E810, Served, all_verified, folder};

/// `e810 up` on what `answer` does with a connection; its one line.
fn up(answer: impl FnOnce(UnixStream) + Send + 'static) -> String {
    let folder = folder();
    let path = folder.as_path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = thread::spawn(move || answer(listener.accept().unwrap().0));
    let line = up_on(&path);
    thread.join().unwrap();
    line
}

fn up_on(path: &Path) -> String {
    on_device("up", path)
}

/// The one line of a command on what is at `path`.
fn on_device(command: &str, path: &Path) -> String {
    let device = format!("vfio-user:{}", path.display());
    let mut words = vec![command, "--device", &device];
    words.extend((command == "ping").then_some("192.0.2.1"));
    let end = E810::start(&words).end();
    let line = end.failure();
    assert!(line.starts_with(&device), "{line}");
    line.to_owned()
}

/// A message of the protocol.
pub(crate) fn message(
    id: u16,
    command: u16,
    size: u32,
    flags: u32,
    error: u32,
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(id.to_ne_bytes());
    bytes.extend(command.to_ne_bytes());
    for word in [size, flags, error] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(body);
    bytes
}

#[test]
fn what_is_no_server_is_one_line() {
    let folder = folder();
    let file = folder.as_path().join("file");
    assert!(up_on(&file).contains("cannot connect: No such file"));
    std::fs::write(&file, "").unwrap();
    let link = folder.as_path().join("link");
    symlink(folder.as_path(), &link).unwrap();
    for (path, is) in [
        (file.as_path(), "it is a regular file, not a socket"),
        (folder.as_path(), "it is a folder, not a socket"),
        (&link, "it is a folder, not a socket"),
        (Path::new("/dev/null"), "it is a device, not a socket"),
    ] {
        for command in ["up", "pingpong", "ping", "stat"] {
            let line = on_device(command, path);
            assert!(line.contains(is), "{command}: {line}");
            assert!(line.contains("--socket"), "what to do: {line}");
        }
        let at = format!("--at={}", path.display());
        let line = E810::start(&["monitor", &at]).end().failure();
        assert!(line.contains(is) && line.contains("--monitor"), "{line}");
    }
    // Left behind by a process that is gone.
    let left = folder.as_path().join("left");
    drop(UnixListener::bind(&left).unwrap());
    let line = up_on(&left);
    assert!(
        line.contains("cannot connect: Connection refused") && line.contains("start the server"),
        "{line}"
    );
    let other = folder.as_path().join("datagrams");
    let _datagrams = UnixDatagram::bind(&other).unwrap();
    let line = up_on(&other);
    assert!(!line.contains("start the server"), "{line}");
    let long = folder.as_path().join("x".repeat(120));
    assert!(up_on(&long).contains("too long for a socket"));
    let closed = up(drop);
    assert!(
        closed.contains("closed the connection during VERSION"),
        "{closed}"
    );
}

#[test]
fn garbage_is_one_line() {
    for garbage in [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        // A reply of 4 GiB, of less than its header, to another question.
        message(0, 1, u32::MAX, 1, 0, &[]),
        message(0, 1, 3, 1, 0, &[]),
        message(7, 1, 20, 1, 0, &[0; 4]),
        message(0, 9, 20, 1, 0, &[0; 4]),
        // Version 9.0; no version at all; bad JSON.
        message(0, 1, 20, 1, 0, &[9, 0, 0, 0]),
        message(0, 1, 16, 1, 0, &[]),
        message(0, 1, 24, 1, 0, b"\0\0\x01\0{{{\0"),
        // A command where an answer is due.
        message(0, 1, 20, 0, 0, &[0; 4]),
    ] {
        let line = up(move |mut socket| {
            let _ = socket.write_all(&garbage);
            // Open until the user goes.
            let _ = socket.read_to_end(&mut Vec::new());
        });
        assert!(line.contains("not a vfio-user server"), "{line}");
    }
}

#[test]
fn an_error_reply_is_one_line() {
    let line = up(|mut socket| {
        let refusal = message(0, 1, 16, 1 | 1 << 5, libc::EACCES as u32, &[]);
        let _ = socket.write_all(&refusal);
        let _ = socket.read_to_end(&mut Vec::new());
    });
    assert!(
        line.contains("VERSION was refused: Permission denied"),
        "{line}"
    );
}

#[test]
fn a_socket_that_says_nothing_has_a_limit() {
    let line = up(|mut socket| {
        let _ = socket.read_to_end(&mut Vec::new());
    });
    assert!(line.contains("no answer to VERSION within 5s"), "{line}");
}

#[test]
fn a_listener_that_accepts_nobody_has_a_limit() {
    let folder = folder();
    let path = folder.as_path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    // SAFETY: no memory is touched. The shortest queue there is.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let limit = Duration::from_millis(20);
    let first = VfioUser::connect_within(&path, limit).unwrap_err();
    assert!(
        matches!(
            first,
            BackendError::NoAnswer {
                during: "VERSION",
                ..
            }
        ),
        "{first}"
    );
    // Those who went stay in the queue until it is full.
    let last = (0..8).find_map(|_| match VfioUser::connect_within(&path, limit) {
        Err(BackendError::NoAnswer { during, .. }) => (during != "VERSION").then_some(during),
        other => panic!("{other:?}"),
    });
    assert_eq!(last, Some("the connection request"));
}

#[test]
fn bytes_that_trickle_have_a_limit() {
    let folder = folder();
    let path = folder.as_path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        // A byte at a time, each within the limit, the answer never.
        while socket.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let answer = VfioUser::connect_within(&path, Duration::from_millis(100));
    assert!(
        matches!(answer, Err(BackendError::NoAnswer { .. })),
        "{answer:?}"
    );
    thread.join().unwrap();
}

/// Users that send what makes no sense, and one that goes in the middle of a
/// message, cost the others nothing.
#[test]
fn senseless_users_do_not_end_the_server() {
    let served = Served::start();
    let [a, b] = &served.paths;
    for (user, bytes) in [
        message(0, 1, 3, 0, 0, &[0; 4]),
        message(0, 1, 21, 0, 0, b"\0\0\x01\0{"),
        message(0, 99, 16, 0, 0, &[]),
        message(0, 9, 32, 0, 0, &[0xff; 16]),
        vec![1, 2, 3],
    ]
    .into_iter()
    .enumerate()
    {
        let mut socket = UnixStream::connect(a).unwrap();
        socket.write_all(&bytes).unwrap();
        drop(socket);
        super::processes::until("the stranger to leave", || {
            (served.report().functions[0].users == user as u64 + 1).then_some(())
        });
    }
    all_verified(a, b, "send", 50, 64);
    assert_eq!(served.report().findings, []);
}

/// A client that waits for a socket in use gets an error that says so.
#[test]
fn a_busy_socket_has_a_limit() {
    let served = Served::start();
    let first = VfioUser::connect(&served.paths[0]).unwrap();
    let second = VfioUser::connect_within(&served.paths[0], Duration::from_millis(100));
    let text = second.unwrap_err().to_string();
    assert!(text.contains("serves another client"), "{text}");
    assert_eq!(first.properties().vectors, 64);
}
