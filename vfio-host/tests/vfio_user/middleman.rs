//! A socket in front of a server that lets messages through until it does
//! not.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// What happens when enough has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// As if the server died.
    Close,
    /// As if the server hung.
    Hang,
}

/// Listens at `front` and passes one connection on to `back`. After `bytes`
/// bytes of the server's answers the fault happens.
pub(crate) fn start(front: PathBuf, back: &Path, bytes: i64, fault: Fault) {
    let listener = UnixListener::bind(front).unwrap();
    let back = back.to_owned();
    thread::spawn(move || {
        let (user, _) = listener.accept().unwrap();
        let server = UnixStream::connect(back).unwrap();
        let left = Arc::new(AtomicI64::new(bytes));
        let (from, to) = (user.try_clone().unwrap(), server.try_clone().unwrap());
        let asking = thread::spawn(move || pass(&from, &to, None));
        pass(&server, &user, Some(&left));
        match fault {
            Fault::Close => {
                let _ = user.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
            }
            // Questions still get through; answers do not.
            Fault::Hang => {}
        }
        // Both sides stay open until the user is gone.
        let _ = asking.join();
    });
}

/// Passes bytes and descriptors on until an end is reached, or `left` is used
/// up.
fn pass(from: &UnixStream, to: &UnixStream, left: Option<&AtomicI64>) {
    let mut buffer = [0u8; 4096];
    loop {
        let mut fds: [RawFd; 16] = [-1; 16];
        let mut part = [libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        }];
        // SAFETY: the vector names a live buffer and its length.
        let received = unsafe { from.recv_with_fds(&mut part, &mut fds) };
        let Ok((bytes, count)) = received else { return };
        if bytes == 0 {
            let _ = to.shutdown(std::net::Shutdown::Write);
            return;
        }
        // SAFETY: descriptors that were just received.
        let files = fds[..count]
            .iter()
            .map(|fd| unsafe { File::from_raw_fd(*fd) });
        let files: Vec<File> = files.collect();
        if let Some(left) = left
            && left.fetch_sub(bytes as i64, Ordering::Relaxed) < bytes as i64
        {
            return;
        }
        let raw: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        if to.send_with_fds(&[&buffer[..bytes]], &raw).is_err() {
            return;
        }
    }
}
