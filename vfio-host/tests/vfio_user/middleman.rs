//! A socket in front of a server that lets messages through until it does
//! not.

use std::fs::File;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// What happens when it is time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// As if the server died.
    Close,
    /// As if the server hung.
    Hang,
}

/// One connection, from both sides.
struct Between<F> {
    user: UnixStream,
    server: UnixStream,
    /// Bytes of the server's answers so far.
    answered: AtomicU64,
    broken: Arc<AtomicBool>,
    /// Whether it is time, by the bytes of answers.
    when: F,
}

/// Listens at `front` and passes one connection on to `back`, until `when`
/// says that it is time for `fault`. Answers with what is set then.
pub(crate) fn start(
    front: PathBuf,
    back: &Path,
    fault: Fault,
    when: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> Arc<AtomicBool> {
    let listener = UnixListener::bind(front).unwrap();
    let back = back.to_owned();
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = Arc::clone(&broken);
    thread::spawn(move || {
        let between = Arc::new(Between {
            user: listener.accept().unwrap().0,
            server: UnixStream::connect(back).unwrap(),
            answered: AtomicU64::new(0),
            broken,
            when,
        });
        let other = Arc::clone(&between);
        let asking = thread::spawn(move || other.pass(&other.user, &other.server, false, fault));
        between.pass(&between.server, &between.user, true, fault);
        asking.join().unwrap();
        if between.broken.load(Ordering::Relaxed) && fault == Fault::Hang {
            wait_for_end(&between.user);
        }
        // The server hears of it only now.
        let _ = between.server.shutdown(Shutdown::Both);
    });
    is_broken
}

/// Sleeps until the other side has closed the socket, whatever it left unread.
fn wait_for_end(socket: &UnixStream) {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one entry, alive for the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 60_000) };
    assert_eq!(ready, 1, "the user never left");
}

impl<F: Fn(u64) -> bool> Between<F> {
    /// Passes bytes and descriptors on until an end is reached or it is time.
    fn pass(&self, from: &UnixStream, to: &UnixStream, answers: bool, fault: Fault) {
        let mut buffer = [0u8; 4096];
        loop {
            let mut fds: [RawFd; 16] = [-1; 16];
            let mut part = [libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            }];
            // SAFETY: the vector names a live buffer and its length.
            let received = unsafe { from.recv_with_fds(&mut part, &mut fds) };
            let (bytes, count) = received.unwrap_or((0, 0));
            // SAFETY: descriptors that were just received.
            let files = fds[..count]
                .iter()
                .map(|fd| unsafe { File::from_raw_fd(*fd) });
            let files: Vec<File> = files.collect();
            let new = if answers { bytes as u64 } else { 0 };
            let answered = self.answered.fetch_add(new, Ordering::Relaxed) + new;
            if bytes > 0 && (self.when)(answered) {
                self.broken.store(true, Ordering::Relaxed);
            }
            let broken = self.broken.load(Ordering::Relaxed);
            let raw: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
            let passed = || to.send_with_fds(&[&buffer[..bytes]], &raw).is_ok();
            if bytes > 0 && !broken && passed() {
                continue;
            }
            // A fault ends both directions, and so does an end. A hang closes
            // nothing towards the user.
            if !(broken && fault == Fault::Hang) {
                let _ = self.user.shutdown(Shutdown::Both);
            }
            let _ = self.server.shutdown(Shutdown::Read);
            return;
        }
    }
}
