//! Requests to a VFIO device that the `vfio-ioctls` crate does not have, or whose errors it drops.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use vfio_bindings::bindings::vfio::{
    VFIO_BASE, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_TYPE,
};

use super::ioctl::IoctlFile;

/// `_IO(VFIO_TYPE, VFIO_BASE + n)` of the kernel's headers.
pub(super) const fn request(n: u32) -> libc::c_ulong {
    (VFIO_TYPE as libc::c_ulong) << 8 | (VFIO_BASE + n) as libc::c_ulong
}

const SET_IRQS: libc::c_ulong = request(10);
const RESET: libc::c_ulong = request(11);

/// VFIO_DEVICE_RESET.
pub(super) fn reset(device: &dyn IoctlFile) -> io::Result<()> {
    // SAFETY: the request has no argument.
    unsafe { device.ioctl(RESET, &mut []) }.map(drop)
}

/// VFIO_DEVICE_SET_IRQS: connects `count` interrupts from `start` on.
pub(super) fn connect_irqs(
    device: &dyn IoctlFile,
    index: u32,
    start: u16,
    events: &[Option<BorrowedFd<'_>>],
) -> io::Result<()> {
    let fds = events
        .iter()
        .map(|event| event.as_ref().map_or(-1, AsRawFd::as_raw_fd));
    set_irqs(
        device,
        VFIO_IRQ_SET_DATA_EVENTFD,
        index,
        start,
        events.len(),
        fds,
    )
}

/// VFIO_DEVICE_SET_IRQS: disconnects all interrupts of a kind.
pub(super) fn disable_irqs(device: &dyn IoctlFile, index: u32) -> io::Result<()> {
    set_irqs(device, VFIO_IRQ_SET_DATA_NONE, index, 0, 0, [].into_iter())
}

fn set_irqs(
    device: &dyn IoctlFile,
    data: u32,
    index: u32,
    start: u16,
    count: usize,
    fds: impl Iterator<Item = RawFd>,
) -> io::Result<()> {
    /// `struct vfio_irq_set`: argsz, flags, index, start, count, data.
    const HEAD: usize = 20;
    let fds: Vec<[u8; 4]> = fds.map(RawFd::to_ne_bytes).collect();
    let argsz = HEAD + 4 * fds.len();
    let head = [
        argsz as u32,
        data | VFIO_IRQ_SET_ACTION_TRIGGER,
        index,
        start.into(),
        count as u32,
    ];
    let words = head.into_iter().map(u32::to_ne_bytes).chain(fds);
    let mut set: Vec<u8> = words.flatten().collect();
    // SAFETY: the request's structure with `argsz` bytes.
    match unsafe { device.ioctl(SET_IRQS, &mut set) }? {
        0 => Ok(()),
        // Nothing is connected then, although the kernel does not consider it an error.
        few => Err(io::Error::other(format!(
            "the kernel has no more than {few} vectors for it; use fewer"
        ))),
    }
}
