//! What `std` does not do with datagram sockets.

#![expect(
    unsafe_code,
    reason = "these are calls of the C library; each has its reason beside it"
)]

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use libc::{c_int, socklen_t};

/// A type of which any bytes are a value.
pub(crate) trait Number {}
impl Number for c_int {}
impl Number for u32 {}

/// The result of a call that gives -1 for an error.
fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A socket that receives at `at`, and leaves the port to others that do the same. For a multicast
/// group each of them gets every datagram.
///
/// # Errors
/// What the kernel says; `EADDRINUSE` where another socket has the port for itself.
pub(crate) fn bind_shared(at: SocketAddrV4) -> io::Result<UdpSocket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = checked(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    // SAFETY: the descriptor is open, and nothing else owns it.
    let socket = UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) });
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*at.ip()).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the address is alive for the call and of the size given.
    let bound = unsafe {
        libc::bind(
            fd,
            (&raw const address).cast(),
            size_of_val(&address) as socklen_t,
        )
    };
    checked(bound)?;
    Ok(socket)
}

/// Has the socket receive what comes to a group through an interface on which it joined the group
/// itself. Without this it gets what comes through any on which a process of the machine did.
///
/// # Errors
/// What the kernel says.
pub(crate) fn only_where_joined(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)
}

/// Has the kernel remember which datagrams of this socket were refused, because nobody has the port
/// any more: [`take_refused`]. The next call that sends or receives fails with `ECONNREFUSED` then.
///
/// # Errors
/// What the kernel says.
pub(crate) fn remember_refused(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
}

/// Where a datagram was sent to that was refused, once for each of them.
pub(crate) fn take_refused(socket: &UdpSocket) -> Option<SocketAddrV4> {
    // SAFETY: zeros are a value of this structure.
    let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
    let mut length = size_of_val(&to) as socklen_t;
    let mut start = [0_u8; 1];
    // SAFETY: all three are alive for the call and of the sizes given.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            start.as_mut_ptr().cast(),
            start.len(),
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            (&raw mut to).cast(),
            &raw mut length,
        )
    };
    let is_address = got >= 0
        && length as usize == size_of_val(&to)
        && c_int::from(to.sin_family) == libc::AF_INET;
    let ip = Ipv4Addr::from(u32::from_be(to.sin_addr.s_addr));
    is_address.then(|| SocketAddrV4::new(ip, u16::from_be(to.sin_port)))
}

/// What there is at a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ready {
    /// Something to read, or an error.
    pub(crate) any: bool,
    /// An error, such as a datagram that was refused.
    pub(crate) error: bool,
}

/// Waits until there is something at one of the descriptors, for `limit` at most.
///
/// # Errors
/// What the kernel says.
pub(crate) fn wait<const N: usize>(
    fds: [RawFd; N],
    limit: Option<Duration>,
) -> io::Result<[Ready; N]> {
    let mut ready = [Ready::default(); N];
    wait_all(&mut fds.map(polled), limit, |at, one| {
        if let Some(place) = ready.get_mut(at) {
            *place = one;
        }
    })?;
    Ok(ready)
}

/// What is to be waited for at a descriptor.
pub(crate) const fn polled(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// The same as [`wait`] for any number of descriptors: tells `each` what there is at which of them.
///
/// # Errors
/// What the kernel says.
pub(crate) fn wait_all(
    polls: &mut [libc::pollfd],
    limit: Option<Duration>,
    mut each: impl FnMut(usize, Ready),
) -> io::Result<()> {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = polls.len() as libc::nfds_t;
    // SAFETY: so many entries, and the time if there is one, alive for the call; no signal mask.
    match checked(unsafe { libc::ppoll(polls.as_mut_ptr(), count, limit, std::ptr::null()) }) {
        Ok(_) => {
            for (at, poll) in polls.iter().enumerate() {
                let ready = Ready {
                    any: poll.revents != 0,
                    error: poll.revents & libc::POLLERR != 0,
                };
                each(at, ready);
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sets an option that is a number.
///
/// # Errors
/// What the kernel says.
pub(crate) fn set(socket: &UdpSocket, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the value is alive for the call and of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as socklen_t,
        )
    };
    checked(result).map(drop)
}

/// Reads an option of 32-bit numbers at the level of sockets; how many there were.
///
/// # Errors
/// What the kernel says.
pub(crate) fn get<T: Number, const N: usize>(
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
    checked(result).map(|_| bytes as usize / size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_shared_by_those_that_agree() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let std::net::SocketAddr::V4(at) = free.local_addr().unwrap() else {
            panic!("an address of IPv4")
        };
        let error = bind_shared(at).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
        drop(free);
        let [one, other] = [bind_shared(at).unwrap(), bind_shared(at).unwrap()];
        assert_eq!(one.local_addr().unwrap(), other.local_addr().unwrap());
    }

    #[test]
    fn a_refused_datagram_is_remembered_with_its_destination() {
        let [here, there, gone] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        remember_refused(&here).unwrap();
        assert_eq!(take_refused(&here), None);
        let at = gone.local_addr().unwrap();
        drop(gone);
        here.send_to(&[1; 9], at).unwrap();
        let error = here.send_to(&[2; 9], there.local_addr().unwrap());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(take_refused(&here).map(Into::into), Some(at));
        assert_eq!(take_refused(&here), None);
        here.send_to(&[3; 9], there.local_addr().unwrap()).unwrap();
        let mut received = [0; 20];
        assert_eq!(there.recv(&mut received).unwrap(), 9);
        assert_eq!(received[..9], [3; 9], "the second was not sent");
    }

    #[test]
    fn waiting_says_which_is_ready() {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let fds = [one.as_raw_fd(), other.as_raw_fd()];
        let ready = |any, error| Ready { any, error };
        let none = wait(fds, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(none, [ready(false, false); 2]);
        one.send_to(&[0], other.local_addr().unwrap()).unwrap();
        assert_eq!(
            wait(fds, None).unwrap(),
            [ready(false, false), ready(true, false)]
        );
        remember_refused(&one).unwrap();
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = gone.local_addr().unwrap();
        drop(gone);
        one.send_to(&[0], at).unwrap();
        assert_eq!(
            wait(fds, None).unwrap(),
            [ready(true, true), ready(true, false)]
        );
    }
}
