//! The kernel's buffers of a datagram socket: how large they are, and what did
//! not fit.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use libc::{c_int, socklen_t};

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

/// Asks for large buffers; gives what they are then. Less is no error.
///
/// # Errors
/// What the kernel says; it refuses neither on a datagram socket.
pub(crate) fn enlarge(socket: &UdpSocket) -> io::Result<Buffers> {
    let size = |option| {
        set(socket, option, WANTED)?;
        let mut got: [c_int; 1] = [0];
        get(socket, option, &mut got)?;
        Ok::<_, io::Error>(u64::try_from(got[0]).unwrap_or_default())
    };
    let buffers = Buffers {
        receive: size(libc::SO_RCVBUF)?,
        send: size(libc::SO_SNDBUF)?,
    };
    let wanted = 2 * u64::try_from(WANTED).unwrap_or_default();
    if buffers.receive.min(buffers.send) < wanted {
        log::warn!(
            "the buffers of the wire's socket have {} bytes to receive and {} to send, not {wanted}: bursts may be lost; \
             net.core.rmem_max and net.core.wmem_max limit them",
            buffers.receive,
            buffers.send
        );
    }
    Ok(buffers)
}

/// Datagrams that the kernel dropped at this socket since it was made, almost
/// always because the receive buffer was full; `None` of a kernel that does not
/// tell (SO_MEMINFO, Linux 4.12). Counts modulo 2^32.
pub(crate) fn dropped(socket: &UdpSocket) -> Option<u64> {
    let mut numbers = [0_u32; NUMBERS];
    let meminfo_length = get(socket, libc::SO_MEMINFO, &mut numbers).ok()?;
    (meminfo_length > DROPS).then_some(numbers[DROPS].into())
}

fn set(socket: &UdpSocket, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the value is alive for the call and of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option of 32-bit numbers; how many there were.
fn get<T: Number, const N: usize>(
    socket: &UdpSocket,
    option: c_int,
    into: &mut [T; N],
) -> io::Result<usize> {
    let mut bytes = size_of_val(into) as socklen_t;
    // SAFETY: the descriptor is open, `into` is alive for the call and `bytes` long, and any bytes
    // are numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            into.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if result == 0 {
        Ok(bytes as usize / size_of::<T>())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A type of which any bytes are a value.
trait Number {}
impl Number for c_int {}
impl Number for u32 {}

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
