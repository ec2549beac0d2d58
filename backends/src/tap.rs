//! TAP interfaces: Ethernet frames to and from the host's network stack.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use vmm_sys_util::ioctl::ioctl_with_mut_ref;

/// `struct ifreq` of netdevice(7), as TUNSETIFF reads and writes it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    /// The rest of the union.
    _unused: [u8; 22],
}

/// Creates the interface, or attaches to the persistent one of that name, whose state, up or down,
/// stays. Each read returns one frame and each write takes one; neither waits.
///
/// # Errors
/// `ENOENT`: the kernel does not support such interfaces; `EPERM`: CAP_NET_ADMIN is missing;
/// `EBUSY`: another process has it open; `EINVAL`: an invalid name, or the name of an interface
/// that is no TAP.
pub fn open_tap(name: &str) -> io::Result<File> {
    // The last byte of a name is zero. For an empty name the kernel would choose one.
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        // No four bytes of flags and protocol before each frame.
        flags: (libc::IFF_TAP | libc::IFF_NO_PI) as u16,
        _unused: [0; 22],
    };
    for (to, byte) in request.name.iter_mut().zip(name.bytes()) {
        *to = byte;
    }
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which has the size and layout of
    // `request`, and keeps no pointer to it.
    match unsafe { ioctl_with_mut_ref(&file, libc::TUNSETIFF, &mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_that_of_the_kernel() {
        assert_eq!(size_of::<InterfaceRequest>(), size_of::<libc::ifreq>());
        for name in ["", "sixteen-letters-"] {
            let error = open_tap(name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{name}");
        }
    }
}
