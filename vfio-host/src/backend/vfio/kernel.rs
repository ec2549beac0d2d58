//! Calls into the kernel's VFIO that the `vfio-ioctls` crate lacks, or whose
//! errors it swallows.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use vfio_bindings::bindings::vfio::{
    VFIO_BASE, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_TYPE,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::backend::transport::DmaRegion;
use e810_hal::Access;

/// `_IO(VFIO_TYPE, VFIO_BASE + n)` of the kernel's headers.
const fn request(n: u32) -> libc::c_ulong {
    (VFIO_TYPE as libc::c_ulong) << 8 | (VFIO_BASE + n) as libc::c_ulong
}

/// Of a device.
const SET_IRQS: libc::c_ulong = request(10);
const RESET: libc::c_ulong = request(11);
/// Of a container; the numbers overlap with those of devices.
const GET_INFO: libc::c_ulong = request(12);
const MAP_DMA: libc::c_ulong = request(13);
const UNMAP_DMA: libc::c_ulong = request(14);

/// `struct vfio_iommu_type1_dma_map`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct DmaMap {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

/// `struct vfio_iommu_type1_dma_unmap`, without its data.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct DmaUnmap {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

/// An ioctl whose argument is a structure that the kernel reads and writes.
///
/// # Safety
/// `argument` is as large as the request's structure, and what it points to is
/// the caller's to give.
unsafe fn ioctl(fd: RawFd, request: libc::c_ulong, argument: &mut [u8]) -> io::Result<u32> {
    // SAFETY: the descriptor is open; the rest is the caller's promise.
    let result = unsafe { libc::ioctl(fd, request as _, argument.as_mut_ptr()) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// VFIO_IOMMU_MAP_DMA.
///
/// # Safety
/// As for [`Transport::map`](crate::backend::Transport::map).
pub(super) unsafe fn dma_map(container: &impl AsRawFd, region: &DmaRegion<'_>) -> io::Result<()> {
    let write = match region.access {
        Access::Read => 0,
        Access::ReadWrite => VFIO_DMA_MAP_FLAG_WRITE,
    };
    let mut map = DmaMap {
        argsz: size_of::<DmaMap>() as u32,
        flags: VFIO_DMA_MAP_FLAG_READ | write,
        // The pointer's origin is made known: the device will use it.
        vaddr: region.address.as_ptr().expose_provenance() as u64,
        iova: region.iova,
        size: region.bytes,
    };
    // SAFETY: the request's structure; the memory is as the caller promises.
    unsafe { ioctl(container.as_raw_fd(), MAP_DMA, map.as_mut_bytes()) }.map(drop)
}

/// VFIO_IOMMU_UNMAP_DMA of exactly one mapping.
pub(super) fn dma_unmap(container: &impl AsRawFd, iova: u64, bytes: u64) -> io::Result<()> {
    let mut unmap = DmaUnmap {
        argsz: size_of::<DmaUnmap>() as u32,
        flags: 0,
        iova,
        size: bytes,
    };
    // SAFETY: the request's structure.
    unsafe { ioctl(container.as_raw_fd(), UNMAP_DMA, unmap.as_mut_bytes()) }?;
    // The kernel says how much it unmapped; type1v2 does whole mappings.
    if unmap.size == bytes {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{} of {bytes} bytes were unmapped",
            unmap.size
        )))
    }
}

/// VFIO_IOMMU_GET_INFO with all its capabilities, as the kernel wrote it.
pub(super) fn iommu_info(container: &impl AsRawFd) -> io::Result<Vec<u8>> {
    /// `struct vfio_iommu_type1_info`: argsz, flags, page sizes, offset of the
    /// first capability, padding.
    const HEAD: usize = 24;
    /// More than any kernel has; a size to stop at.
    const MOST: usize = 1 << 16;
    let mut size = HEAD;
    loop {
        let mut info = vec![0; size];
        if let Some(argsz) = info.first_chunk_mut::<4>() {
            *argsz = (size as u32).to_le_bytes();
        }
        // SAFETY: at least the request's structure, and `argsz` bytes of it.
        unsafe { ioctl(container.as_raw_fd(), GET_INFO, &mut info) }?;
        let wanted = info
            .first_chunk::<4>()
            .map_or(0, |word| u32::from_le_bytes(*word));
        match wanted as usize {
            wanted if wanted <= size => return Ok(info),
            wanted if wanted <= MOST => size = wanted,
            _ => return Err(io::Error::other("the IOMMU's description has no end")),
        }
    }
}

/// VFIO_DEVICE_RESET.
pub(super) fn reset(device: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the request has no argument.
    unsafe { ioctl(device.as_raw_fd(), RESET, &mut []) }.map(drop)
}

/// VFIO_DEVICE_SET_IRQS: connects `count` interrupts from `start` on.
pub(super) fn connect_irqs(
    device: &impl AsRawFd,
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

/// VFIO_DEVICE_SET_IRQS: takes all interrupts of a kind down.
pub(super) fn disable_irqs(device: &impl AsRawFd, index: u32) -> io::Result<()> {
    set_irqs(device, VFIO_IRQ_SET_DATA_NONE, index, 0, 0, [].into_iter())
}

fn set_irqs(
    device: &impl AsRawFd,
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
    unsafe { ioctl(device.as_raw_fd(), SET_IRQS, &mut set) }.map(drop)
}
