//! One vfio-user client of a function, from the first byte to the last.

mod spin;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use zerocopy::IntoBytes;

use self::spin::Spin;
use crate::messages::{HEADER, Header, MOST_FDS};
use crate::protocol::{self, BadHeader, Function, Refused};

/// Why a connection ended before its user closed it.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The user sent something after which the stream cannot continue.
    #[error("it sent {0}")]
    BadHeader(#[from] BadHeader),
    /// The socket failed, or there were more descriptors than a message may have.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Answers a user's messages until it leaves.
///
/// # Errors
/// [`Lost`]: the connection cannot continue.
pub fn serve_connection(user: &UnixStream, function: &mut impl Function) -> Result<(), Lost> {
    let (mut body, mut reply) = (Vec::new(), Vec::new());
    let mut stream = user;
    let mut spin = Spin::new();
    loop {
        let mut header = Header::default();
        spin.wait(user.as_fd());
        let (first, fds) = receive(user, header.as_mut_bytes())?;
        if first == 0 {
            return Ok(());
        }
        let rest = header.as_mut_bytes().get_mut(first..).unwrap_or_default();
        stream.read_exact(rest)?;
        let bytes = match protocol::body_len(&header) {
            Ok(bytes) => bytes,
            Err(bad) => {
                // Sent as far as the user accepts it; what follows is not read.
                let refusal = protocol::refusal(&header, Refused(libc::EINVAL));
                user.set_nonblocking(true)?;
                let _ = stream.write_all(refusal.as_bytes());
                return Err(bad.into());
            }
        };
        // At most `LONGEST`, and the memory is reused for the next message.
        body.resize(bytes, 0);
        stream.read_exact(&mut body)?;
        protocol::answer(function, &header, &body, fds, &mut reply);
        stream.write_all(&reply)?;
    }
}

/// Receives at least one byte of a header, unless the user left, and the descriptors that came with
/// it. The kernel closes descriptors anywhere else in a message, because nobody asks for them.
fn receive(user: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Vec<File>)> {
    const _: () = assert!(HEADER > 0);
    let mut raw: [RawFd; MOST_FDS] = [-1; MOST_FDS];
    let mut places = [libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    }];
    let (bytes, count) = loop {
        // SAFETY: the only place is `into`, to which any bytes may be written and which nobody else
        // uses meanwhile.
        match unsafe { user.recv_with_fds(&mut places, &mut raw) } {
            Ok(received) => break received,
            Err(error) if error.errno() == libc::EINTR => {}
            Err(error) if error.errno() == libc::ENOBUFS => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("it sent more than {MOST_FDS} descriptors with one message"),
                ));
            }
            Err(error) => return Err(io::Error::from_raw_os_error(error.errno())),
        }
    };
    let fds = raw.iter().take(count);
    for fd in fds.clone() {
        // Programs that this process starts must not inherit them.
        // SAFETY: the kernel made it for this process just now; no memory is passed.
        unsafe { libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: the kernel made these descriptors for this process by the call above;
    // nobody else owns them.
    let fds = fds.map(|fd| unsafe { File::from_raw_fd(*fd) }).collect();
    Ok((bytes, fds))
}

#[cfg(test)]
mod tests;
