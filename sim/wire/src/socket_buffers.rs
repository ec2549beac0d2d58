//! The kernel's buffers of a datagram socket: how large they are, and what did
//! not fit.

use std::io;
use std::net::UdpSocket;

use libc::c_int;

use crate::socket::{get, set};

/// Bytes asked for in each direction. The usual size holds about 90 frames of
/// 1 KiB, and a window of one connection is 1024 packets.
const WANTED: c_int = 4 << 20;

/// Place of the count of datagrams dropped in what SO_MEMINFO tells
/// (SK_MEMINFO_DROPS), and how many numbers there are.
const DROPS: usize = 8;
const NUMBERS: usize = 9;

/// Sizes in bytes as the kernel counts them, which is twice what it was asked
/// for: its own bookkeeping is in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) receive: u64,
    pub(crate) send: u64,
}

impl Buffers {
    /// The smaller ones of two sockets.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            receive: self.receive.min(other.receive),
            send: self.send.min(other.send),
        }
    }

    /// Logs it if they are smaller than what was asked for.
    pub(crate) fn warn_if_small(self) {
        let wanted = 2 * u64::try_from(WANTED).unwrap_or_default();
        if self.receive.min(self.send) < wanted {
            log::warn!(
                "the buffers of the wire's socket have {} bytes to receive and {} to send, not {wanted}: bursts may be lost; \
                 net.core.rmem_max and net.core.wmem_max limit them",
                self.receive,
                self.send
            );
        }
    }
}

/// Asks for large buffers; gives what they are then. Less is no error.
///
/// # Errors
/// What the kernel says; it refuses neither on a datagram socket.
pub(crate) fn enlarge(socket: &UdpSocket) -> io::Result<Buffers> {
    let size = |option| {
        set(socket, libc::SOL_SOCKET, option, WANTED)?;
        let mut got: [c_int; 1] = [0];
        get(socket, option, &mut got)?;
        Ok::<_, io::Error>(u64::try_from(got[0]).unwrap_or_default())
    };
    Ok(Buffers {
        receive: size(libc::SO_RCVBUF)?,
        send: size(libc::SO_SNDBUF)?,
    })
}

/// Datagrams that the kernel dropped at this socket since it was made, almost
/// always because the receive buffer was full; `None` of a kernel that does not
/// tell (SO_MEMINFO, Linux 4.12). Counts modulo 2^32.
pub(crate) fn dropped(socket: &UdpSocket) -> Option<u64> {
    let mut numbers = [0_u32; NUMBERS];
    let meminfo_length = get(socket, libc::SO_MEMINFO, &mut numbers).ok()?;
    (meminfo_length > DROPS).then_some(numbers[DROPS].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_grow_and_what_does_not_fit_is_counted() {
        let here = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut usual: [c_int; 1] = [0];
        get(&here, libc::SO_RCVBUF, &mut usual).unwrap();
        let buffers = enlarge(&here).unwrap();
        assert!(buffers.receive >= u64::try_from(usual[0]).unwrap());
        assert!(buffers.send > 0);
        // Nobody reads: more than fits, whatever was given.
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        there.connect(here.local_addr().unwrap()).unwrap();
        let before = dropped(&here);
        assert!(matches!(before, None | Some(0)), "{before:?}");
        let datagram = [0; 32 << 10];
        for _ in 0..2 * buffers.receive as usize / datagram.len() {
            there.send(&datagram).unwrap();
        }
        if before.is_some() {
            assert!(dropped(&here).unwrap() > 0);
        }
    }
}
