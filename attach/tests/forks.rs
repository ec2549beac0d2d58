//! Processes that die with the socket in the hands of others. They fork, which is why they are not
//! among the unit tests: a child has copies of whatever other tests have open, and of their locks.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by a panic"
)]

use std::os::fd::AsRawFd as _;
use std::time::Duration;
use std::{env, fs, mem, process, ptr};

use e810_attach::link::{Ended, Link as _, Message};
use e810_attach::listener::Listener;
use e810_attach::socket::Socket;
use e810_shared::seqpacket::{Address, Seqpacket};

const SOON: Duration = Duration::from_secs(10);
/// More messages than an end keeps.
const MANY: usize = 1 << 17;

/// A listener at a place of its own.
fn listener(name: &str) -> (Listener, Address) {
    let name = format!("e810-{name}-{}.sock", process::id());
    let path = env::temp_dir().join(name);
    let address = Address::at_path(&path).unwrap();
    (Listener::bind(&path).unwrap(), address)
}

/// What [`Listener::bind`] has made, and its end leaves.
fn remove(listener: Listener) {
    let lock = listener.path().with_extension("sock.lock");
    drop(listener);
    let _ = fs::remove_file(lock);
}

fn bytes(message: Option<Message>) -> Vec<u8> {
    message.expect("a message").bytes
}

#[test]
fn a_process_is_gone_although_its_child_has_the_socket() {
    let (listener, address) = listener("child");
    // SAFETY: the child makes system calls only, with what was made before.
    let process = unsafe {
        let process = libc::fork();
        if process == 0 {
            let Ok(socket) = Seqpacket::connect(&address, SOON) else {
                libc::_exit(1)
            };
            let socket = socket.as_raw_fd();
            let child = libc::fork();
            if child == 0 {
                libc::pause();
            } else {
                libc::send(socket, (&raw const child).cast(), size_of_val(&child), 0);
            }
            libc::_exit(0);
        }
        process
    };
    let program = listener.accept().unwrap();
    let child = bytes(program.receive(SOON).unwrap());
    let child = libc::pid_t::from_ne_bytes(child.try_into().unwrap());
    let ended = loop {
        match program.receive(SOON) {
            Ok(None) => {}
            other => break other.map(|_| ()),
        }
    };
    assert_eq!(ended, Err(Ended));
    // SAFETY: what this test has started.
    unsafe {
        assert_eq!(
            libc::kill(child, libc::SIGKILL),
            0,
            "it has the socket still"
        );
        libc::waitpid(process, ptr::null_mut(), 0);
    }
    remove(listener);
}

#[test]
fn a_process_is_gone_although_its_children_go_on_sending() {
    let (listener, address) = listener("sends");
    // SAFETY: the child makes system calls only, with what was made before.
    let process = unsafe {
        let process = libc::fork();
        if process == 0 {
            let Ok(socket) = Seqpacket::connect(&address, SOON) else {
                libc::_exit(1)
            };
            let socket = socket.as_raw_fd();
            for _ in 0..8 {
                if libc::fork() == 0 {
                    while libc::send(socket, [1_u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL) > 0 {}
                    libc::_exit(0);
                }
            }
            libc::_exit(0);
        }
        process
    };
    let program = listener.accept().unwrap();
    // SAFETY: what this test has started.
    unsafe { libc::waitpid(process, ptr::null_mut(), 0) };
    // Far more than the system keeps.
    let ended = (0..MANY).find_map(|_| program.receive(SOON).err());
    // Its children end with the connection.
    drop(program);
    assert!(
        ended.is_some(),
        "{MANY} messages came after the process had ended"
    );
    remove(listener);
}

#[test]
fn one_that_dies_before_it_is_accepted_holds_up_nobody() {
    let (listener, address) = listener("early");
    for _ in 0..3 {
        // SAFETY: the child makes system calls only, with what was made before; it is waited for.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                mem::forget(Seqpacket::connect(&address, SOON));
                libc::_exit(0);
            }
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
    let program = Socket::connect(listener.path()).unwrap();
    program.send(vec![1].into()).unwrap();
    // The dead are taken first, where the kernel knows them still; none of them is an error.
    let lives = (0..4).find_map(|_| {
        let accepted = listener.accept().unwrap();
        let received = accepted.receive(SOON);
        assert_ne!(
            received.as_ref().map(Option::is_none),
            Ok(true),
            "it is gone"
        );
        received.ok().flatten()
    });
    assert_eq!(bytes(lives), [1]);
    remove(listener);
}

/// The number of a process that has gone is another's, and that one lives: it is gone all the
/// same.
#[test]
fn a_number_that_is_used_again_is_another_process() {
    let (listener, address) = listener("again");
    // SAFETY: the children make system calls only, with what was made before.
    let (pid, holder) = unsafe {
        let mut pipe = [0; 2];
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let pid = libc::fork();
        if pid == 0 {
            mem::forget(Seqpacket::connect(&address, SOON));
            let child = libc::fork();
            if child == 0 {
                libc::pause();
            }
            libc::write(pipe[1], (&raw const child).cast(), size_of_val(&child));
            libc::_exit(0);
        }
        let mut holder: libc::pid_t = 0;
        libc::read(pipe[0], (&raw mut holder).cast(), size_of_val(&holder));
        libc::waitpid(pid, ptr::null_mut(), 0);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
        (pid, holder)
    };
    let again = process_with(pid);
    if again.is_none() {
        println!("NOT RUN: this process may not choose the number of a child");
    }
    // A kernel that does not know the dead any more passes it over.
    let next = Socket::connect(listener.path()).unwrap();
    let first = listener.accept().unwrap();
    let ended = match first.peer().unwrap().pid.cast_signed() == pid {
        true => first.receive(SOON).map(drop),
        false => Err(Ended),
    };
    drop(next);
    for child in again.into_iter().chain([holder]) {
        // SAFETY: what this test has started.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
    assert_eq!(ended, Err(Ended));
    remove(listener);
}

/// A child with this number, which waits until it is killed; `None` without the right to.
fn process_with(pid: libc::pid_t) -> Option<libc::pid_t> {
    #[repr(C)]
    #[derive(Default)]
    struct Clone {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    let clone = Clone {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: (&raw const pid).addr() as u64,
        set_tid_size: 1,
        ..Clone::default()
    };
    // SAFETY: a child with memory of its own, as of `fork`, which makes system calls only.
    unsafe {
        let made = libc::syscall(libc::SYS_clone3, &raw const clone, size_of_val(&clone));
        if made == 0 {
            libc::pause();
            libc::_exit(0);
        }
        (made > 0).then_some(made as libc::pid_t)
    }
}
