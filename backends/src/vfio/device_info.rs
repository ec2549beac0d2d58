//! Variable-length info structures of VFIO and iommufd, and their capabilities.

use std::io;

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_ERR_IRQ_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX, VFIO_REGION_INFO_CAP_SPARSE_MMAP,
    VFIO_REGION_INFO_FLAG_CAPS,
};
use zerocopy::IntoBytes;

use super::ioctl::IoctlFile;
use super::kernel::request;

const GET_REGION_INFO: libc::c_ulong = request(8);
const GET_IRQ_INFO: libc::c_ulong = request(9);

/// A region of a function: a BAR, or configuration space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Region {
    /// VFIO_REGION_INFO_FLAG_*.
    pub(super) flags: u32,
    /// Bytes.
    pub(super) size: u64,
    /// Offset of its first byte in the device's file.
    pub(super) offset: u64,
    /// Offset and bytes of the parts that can be mapped, if there is such a list; otherwise all of
    /// it.
    pub(super) areas: Option<Vec<(u64, u64)>>,
}

/// The interrupts of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Irqs {
    /// VFIO_IRQ_INFO_*.
    pub(super) flags: u32,
    pub(super) count: u32,
}

/// A function, as far as the driver uses it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeviceInfo {
    pub(super) bar0: Region,
    /// Offset of configuration space in the device's file.
    pub(super) config: u64,
    pub(super) msix: Option<Irqs>,
    /// Errors on the bus.
    pub(super) error: Option<Irqs>,
    /// The kernel's request to release the function.
    pub(super) request: Option<Irqs>,
}

/// Reads a structure whose length the kernel chooses: `head` with its length in the first word,
/// followed by capabilities.
///
/// # Safety
/// `request` takes a structure of at least `head`'s length that begins with
/// its length and points nowhere.
pub(super) unsafe fn query_info(
    file: &dyn IoctlFile,
    request: libc::c_ulong,
    head: &[u8],
) -> io::Result<Vec<u8>> {
    /// More than any kernel has; the size at which to stop.
    const MOST: usize = 1 << 16;
    let mut size = head.len();
    loop {
        let mut info = head.to_vec();
        info.resize(size, 0);
        if let Some(argsz) = info.first_chunk_mut::<4>() {
            *argsz = (size as u32).to_ne_bytes();
        }
        // SAFETY: at least the request's structure, and `argsz` bytes of it.
        unsafe { file.ioctl(request, &mut info) }?;
        match word(&info, 0).unwrap_or(0) as usize {
            wanted if wanted <= size => return Ok(info),
            wanted if wanted <= MOST => size = wanted,
            _ => return Err(io::Error::other("the kernel's description has no end")),
        }
    }
}

/// The word at `at`.
pub(super) fn word(info: &[u8], at: usize) -> Option<u32> {
    let bytes = info.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// The double word at `at`.
pub(super) fn long(info: &[u8], at: usize) -> Option<u64> {
    let bytes = info.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

/// Id and offset of each capability (`struct vfio_info_cap_header`) in a structure whose fixed part
/// has `head` bytes. No capability is followed twice, and none outside the structure.
pub(super) fn capabilities(
    info: &[u8],
    first: u32,
    head: usize,
) -> impl Iterator<Item = (u16, usize)> {
    let mut at = first as usize;
    std::iter::from_fn(move || {
        let here = at;
        let header = word(info, here).filter(|_| here >= head)?;
        let next = word(info, here.checked_add(4)?).unwrap_or(0) as usize;
        // Only forward: a chain that goes back would not end.
        at = if next > here { next } else { 0 };
        Some((header as u16, here))
    })
}

/// The list of pairs of double words in a capability at `at`: their number follows the header, then
/// come padding and the pairs.
pub(super) fn pairs(info: &[u8], at: usize) -> Vec<(u64, u64)> {
    let count = word(info, at.saturating_add(8)).unwrap_or(0) as usize;
    let pair = |n: usize| {
        let at = at.checked_add(16)?.checked_add(n.checked_mul(16)?)?;
        Some((long(info, at)?, long(info, at.checked_add(8)?)?))
    };
    (0..count).map_while(pair).collect()
}

/// Asks the device what it has. No register is accessed.
pub(super) fn describe(device: &dyn IoctlFile) -> io::Result<DeviceInfo> {
    Ok(DeviceInfo {
        bar0: region(device, VFIO_PCI_BAR0_REGION_INDEX)?,
        config: region(device, VFIO_PCI_CONFIG_REGION_INDEX)?.offset,
        msix: irqs(device, VFIO_PCI_MSIX_IRQ_INDEX)?,
        error: irqs(device, VFIO_PCI_ERR_IRQ_INDEX)?,
        request: irqs(device, VFIO_PCI_REQ_IRQ_INDEX)?,
    })
}

/// VFIO_DEVICE_GET_REGION_INFO.
pub(super) fn region(device: &dyn IoctlFile, index: u32) -> io::Result<Region> {
    /// `struct vfio_region_info`: argsz, flags, index, offset of the first
    /// capability, size, offset.
    const HEAD: usize = 32;
    let mut head = [0; HEAD];
    head[8..12].copy_from_slice(&index.to_ne_bytes());
    // SAFETY: that structure, which points nowhere.
    let info = unsafe { query_info(device, GET_REGION_INFO, &head) }?;
    let short = || io::Error::other("the kernel's description of a region is cut short");
    let flags = word(&info, 4).ok_or_else(short)?;
    let first = word(&info, 12).filter(|_| flags & VFIO_REGION_INFO_FLAG_CAPS != 0);
    let sparse = capabilities(&info, first.unwrap_or(0), HEAD)
        .find(|(id, _)| u32::from(*id) == VFIO_REGION_INFO_CAP_SPARSE_MMAP);
    Ok(Region {
        flags,
        size: long(&info, 16).ok_or_else(short)?,
        offset: long(&info, 24).ok_or_else(short)?,
        areas: sparse.map(|(_, at)| pairs(&info, at)),
    })
}

/// VFIO_DEVICE_GET_IRQ_INFO; `None` if the function has no such interrupts.
pub(super) fn irqs(device: &dyn IoctlFile, index: u32) -> io::Result<Option<Irqs>> {
    // `struct vfio_irq_info`: argsz, flags, index, count.
    let mut info = [16, 0, index, 0];
    // SAFETY: the request's structure.
    match unsafe { device.ioctl(GET_IRQ_INFO, info.as_mut_bytes()) } {
        Ok(_) => {
            let [_, flags, _, count] = info;
            Ok(Some(Irqs { flags, count }))
        }
        // A function without PCI Express has no error reports.
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(cause) => Err(cause),
    }
}
