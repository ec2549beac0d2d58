//! An I/O address space (IOAS) of iommufd, with one device in it.

use std::io;
use std::sync::Arc;

use e810_hal::{Access, DmaError};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::host::Host;
use crate::iova::IovaError;
use crate::transport::DmaRegion;
use crate::vfio::ioctl::IoctlFile;
use crate::vfio::iommu::Iommu;
use crate::vfio::kernel::request as device_request;
use crate::vfio::space::{Space, all_unmapped};

/// `_IO(IOMMUFD_TYPE, n)` of the kernel's headers.
const fn request(n: u32) -> libc::c_ulong {
    (b';' as libc::c_ulong) << 8 | n as libc::c_ulong
}

const DESTROY: libc::c_ulong = request(0x80);
const IOAS_ALLOC: libc::c_ulong = request(0x81);
const IOAS_IOVA_RANGES: libc::c_ulong = request(0x84);
const IOAS_MAP: libc::c_ulong = request(0x85);
const IOAS_UNMAP: libc::c_ulong = request(0x86);
/// A request to the device.
const ATTACH_IOMMUFD_PT: libc::c_ulong = device_request(19);
const DETACH_IOMMUFD_PT: libc::c_ulong = device_request(20);

/// `struct iommu_destroy`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Destroy {
    size: u32,
    id: u32,
}

/// `struct iommu_ioas_alloc`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct IoasAlloc {
    size: u32,
    flags: u32,
    out_ioas_id: u32,
}

/// `struct iommu_ioas_iova_ranges`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct IoasIovaRanges {
    size: u32,
    ioas_id: u32,
    num_iovas: u32,
    reserved: u32,
    allowed_iovas: u64,
    out_iova_alignment: u64,
}

/// `struct iommu_ioas_map`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct IoasMap {
    size: u32,
    flags: u32,
    ioas_id: u32,
    reserved: u32,
    user_va: u64,
    length: u64,
    iova: u64,
}

/// `enum iommufd_ioas_map_flags`.
const FIXED_IOVA: u32 = 1;
const WRITEABLE: u32 = 2;
const READABLE: u32 = 4;

/// `struct iommu_ioas_unmap`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct IoasUnmap {
    size: u32,
    ioas_id: u32,
    iova: u64,
    length: u64,
}

/// `struct vfio_device_attach_iommufd_pt`, without a PASID.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Attach {
    argsz: u32,
    flags: u32,
    pt_id: u32,
}

/// `struct vfio_device_detach_iommufd_pt`, without a PASID.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Detach {
    argsz: u32,
    flags: u32,
}

/// IOMMU_IOAS_ALLOC: returns the number of a new address space. Closing the iommufd destroys it, if
/// nothing did before.
pub(super) fn alloc(iommu: &dyn IoctlFile) -> io::Result<u32> {
    let mut alloc = IoasAlloc {
        size: size_of::<IoasAlloc>() as u32,
        flags: 0,
        out_ioas_id: 0,
    };
    // SAFETY: the request's structure.
    unsafe { iommu.ioctl(IOAS_ALLOC, alloc.as_mut_bytes()) }?;
    Ok(alloc.out_ioas_id)
}

/// VFIO_DEVICE_ATTACH_IOMMUFD_PT: from here on the device's DMA goes through
/// the address space `id`.
pub(super) fn attach(device: &dyn IoctlFile, id: u32) -> io::Result<()> {
    // The kernel returns the page table behind it, which it owns and which goes with the
    // attachment.
    let mut attach = Attach {
        argsz: size_of::<Attach>() as u32,
        flags: 0,
        pt_id: id,
    };
    // SAFETY: the request's structure.
    unsafe { device.ioctl(ATTACH_IOMMUFD_PT, attach.as_mut_bytes()) }.map(drop)
}

/// An address space that a device is attached to.
pub(super) struct Ioas {
    pub(super) id: u32,
    /// Closed before the iommufd that it is bound to.
    pub(super) device: Arc<dyn IoctlFile>,
    pub(super) iommu: Box<dyn IoctlFile>,
}

impl Ioas {
    /// IOMMU_IOAS_IOVA_RANGES: what the IOMMU allows now that the device is attached.
    pub(super) fn iommu(&self) -> io::Result<Result<Iommu, IovaError>> {
        /// More than any machine has; the number at which to stop.
        const MOST: usize = 1 << 12;
        let mut room = 16;
        loop {
            // `struct iommu_iova_range`: first and last.
            let mut ranges = vec![[0u64; 2]; room];
            let mut argument = IoasIovaRanges {
                size: size_of::<IoasIovaRanges>() as u32,
                ioas_id: self.id,
                num_iovas: room as u32,
                reserved: 0,
                allowed_iovas: ranges.as_mut_ptr().expose_provenance() as u64,
                out_iova_alignment: 0,
            };
            // SAFETY: the request's structure, which points to room for as
            // many ranges as it says.
            let answer = unsafe { self.iommu.ioctl(IOAS_IOVA_RANGES, argument.as_mut_bytes()) };
            let count = argument.num_iovas as usize;
            match answer {
                Ok(_) => {
                    let ranges = ranges.into_iter().take(count).map(<(u64, u64)>::from);
                    let page = page(argument.out_iova_alignment)?;
                    return Ok(Iommu::new(ranges.collect(), page, None));
                }
                Err(cause) if cause.raw_os_error() == Some(libc::EMSGSIZE) => {
                    if count <= room || count > MOST {
                        return Err(io::Error::other(format!(
                            "{count} ranges of addresses, but {room} were too few"
                        )));
                    }
                    room = count;
                }
                Err(cause) => return Err(cause),
            }
        }
    }
}

/// The page size, if mappings must be aligned to `alignment`.
fn page(alignment: u64) -> io::Result<u64> {
    /// According to the kernel, at most a page of the CPU; 64 KiB is the largest.
    const MOST: u64 = 1 << 16;
    if alignment.is_power_of_two() && alignment <= MOST {
        // This process can give no less than a page of the CPU.
        return Ok(alignment.max(4096));
    }
    let text = format!("addresses aligned to {alignment} bytes make no pages");
    Err(io::Error::other(text))
}

impl Space for Ioas {
    unsafe fn map(&self, region: &DmaRegion<'_>) -> io::Result<()> {
        let write = match region.access {
            Access::Read => 0,
            Access::ReadWrite => WRITEABLE,
        };
        let mut map = IoasMap {
            size: size_of::<IoasMap>() as u32,
            flags: FIXED_IOVA | READABLE | write,
            ioas_id: self.id,
            reserved: 0,
            // The pointer's provenance is exposed, because the device will use it.
            user_va: region.address.as_ptr().expose_provenance() as u64,
            length: region.bytes,
            iova: region.iova,
        };
        // SAFETY: the request's structure; the memory is as the caller
        // promises.
        unsafe { self.iommu.ioctl(IOAS_MAP, map.as_mut_bytes()) }.map(drop)
    }

    fn unmap(&self, iova: u64, bytes: u64) -> io::Result<()> {
        let mut unmap = IoasUnmap {
            size: size_of::<IoasUnmap>() as u32,
            ioas_id: self.id,
            iova,
            length: bytes,
        };
        // SAFETY: the request's structure.
        unsafe { self.iommu.ioctl(IOAS_UNMAP, unmap.as_mut_bytes()) }?;
        all_unmapped(unmap.length, bytes)
    }

    fn no_room(&self, bytes: usize) -> DmaError {
        // Unlike type1, there is no limit on mappings.
        DmaError::NoAddresses { bytes }
    }

    fn locked(&self, _: &Host) -> Option<u64> {
        // iommufd counts for the user, over all processes, and the total cannot be read.
        None
    }
}

impl Drop for Ioas {
    fn drop(&mut self) {
        let mut detach = Detach {
            argsz: size_of::<Detach>() as u32,
            flags: 0,
        };
        // SAFETY: the request's structure.
        let detached = unsafe { self.device.ioctl(DETACH_IOMMUFD_PT, detach.as_mut_bytes()) };
        if let Err(cause) = detached {
            // Closing the device detaches it too.
            log::warn!("the device was not detached from its I/O addresses: {cause}");
            return;
        }
        let mut destroy = Destroy {
            size: size_of::<Destroy>() as u32,
            id: self.id,
        };
        // SAFETY: the request's structure.
        let destroyed = unsafe { self.iommu.ioctl(DESTROY, destroy.as_mut_bytes()) };
        if let Err(cause) = destroyed {
            // Closing the iommufd destroys it too.
            log::warn!("I/O address space {} was not destroyed: {cause}", self.id);
        }
    }
}
