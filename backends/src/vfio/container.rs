//! Container, group and the type1v2 IOMMU.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use e810_hal::{Access, DmaError};
use vfio_bindings::bindings::vfio::{
    VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_DMA_UNMAP_FLAG_ALL,
};
use vfio_ioctls::{VfioContainer, VfioDevice};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::device_info::{describe, query_info};
use super::group::{Groups, Member};
use super::ioctl::IoctlFile;
use super::iommu::Iommu;
use super::kernel::request;
use super::space::{Space, all_unmapped};
use super::{Opened, open};
use crate::accept::Accept;
use crate::error::BackendError;
use crate::host::{Host, limits};
use crate::iova::IovaSpace;
use crate::spec::Bdf;
use crate::transport::{DmaRegion, KeptFiles};

/// A request to a container; the numbers overlap with those of devices.
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

/// The addresses of a container with the type1v2 IOMMU.
pub(super) struct Type1<N> {
    /// Closed after everything that was made from it, and before its container.
    _device: Option<VfioDevice>,
    container: N,
    /// Dropped last: the group is released with its last function.
    _member: Option<Member<Container>>,
}

/// The container of a group.
enum Container {
    Opened(Arc<VfioContainer>),
    /// An earlier owner has opened it, and has put the group into it.
    Kept(File),
}

impl Container {
    fn file(&self) -> io::Result<File> {
        match self {
            Self::Opened(container) => duplicate(&**container),
            Self::Kept(file) => file.try_clone(),
        }
    }
}

impl<N> Type1<N> {
    /// Those of a container that is not of a group of this process.
    pub(super) const fn of(container: N) -> Self {
        Self {
            _device: None,
            container,
            _member: None,
        }
    }
}

/// The groups that this process has open through containers.
static GROUPS: Groups<Container> = Groups::new();

impl<N: IoctlFile> Type1<N> {
    /// Unmaps the mappings that lie in a range, or those that `flags` name; returns how many bytes
    /// those were.
    fn unmap_range(&self, flags: u32, iova: u64, bytes: u64) -> io::Result<u64> {
        let mut unmap = DmaUnmap {
            argsz: size_of::<DmaUnmap>() as u32,
            flags,
            iova,
            size: bytes,
        };
        // SAFETY: the request's structure.
        unsafe { self.container.ioctl(UNMAP_DMA, unmap.as_mut_bytes()) }?;
        Ok(unmap.size)
    }
}

impl<N: IoctlFile> Space for Type1<N> {
    unsafe fn map(&self, region: &DmaRegion<'_>) -> io::Result<()> {
        let write = match region.access {
            Access::Read => 0,
            Access::ReadWrite => VFIO_DMA_MAP_FLAG_WRITE,
        };
        let mut map = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: VFIO_DMA_MAP_FLAG_READ | write,
            // The pointer's provenance is exposed, because the device will use it.
            vaddr: region.address.as_ptr().expose_provenance() as u64,
            iova: region.iova,
            size: region.bytes,
        };
        // SAFETY: the request's structure; the memory is as the caller
        // promises.
        unsafe { self.container.ioctl(MAP_DMA, map.as_mut_bytes()) }.map(drop)
    }

    fn unmap(&self, iova: u64, bytes: u64) -> io::Result<()> {
        all_unmapped(self.unmap_range(0, iova, bytes)?, bytes)
    }

    fn unmap_all(&self, iova: u64, bytes: u64) -> io::Result<()> {
        self.unmap_range(0, iova, bytes).map(drop)
    }

    fn container(&self) -> Option<&File> {
        Some(self.container.file())
    }

    fn clear(&self) -> io::Result<()> {
        self.unmap_range(VFIO_DMA_UNMAP_FLAG_ALL, 0, 0).map(drop)
    }

    fn no_room(&self, bytes: usize) -> DmaError {
        DmaError::TooManyMappings { bytes }
    }

    fn locked(&self, host: &Host) -> Option<u64> {
        // type1 counts together with what the process itself has locked (`mm->locked_vm`).
        limits::locked(host)
    }
}

/// VFIO_IOMMU_GET_INFO with all its capabilities, as the kernel wrote it.
fn iommu_info(container: &dyn IoctlFile) -> io::Result<Vec<u8>> {
    // SAFETY: `struct vfio_iommu_type1_info` (argsz, flags, page sizes, offset
    // of the first capability, padding) points nowhere.
    unsafe { query_info(container, GET_INFO, &[0; 24]) }
}

/// Opens a function through its group; its errors call it `name`.
pub(super) fn open(name: &str, bdf: Bdf, accept: Accept) -> Result<Opened, BackendError> {
    let place = open::place(&Host::default(), name, bdf, accept)?;
    let member = GROUPS.enter(name, &place.group, bdf, || {
        open::container(bdf, &place).map(Container::Opened)
    })?;
    let device = match member.container() {
        Container::Opened(container) => open::device(bdf, &place, Arc::clone(container))?,
        Container::Kept(_) => {
            return Err(BackendError::Unfit {
                device: name.to_owned(),
                what: "this process has taken over another function of its IOMMU group".to_owned(),
            });
        }
    };
    let file = duplicate(&device);
    let file =
        file.map_err(|cause| BackendError::system(name, "duplicating a descriptor", &cause))?;
    opened(name, member, Some(device), file)
}

/// A function whose files an earlier owner has left. The kernel keeps the group's own file open as
/// long as a file of its device is.
pub(super) fn kept(
    name: &str,
    bdf: Bdf,
    accept: Accept,
    kept: KeptFiles,
) -> Result<Opened, BackendError> {
    let place = open::place(&Host::default(), name, bdf, accept)?;
    let container = Container::Kept(kept.container.into());
    let member = GROUPS.enter(name, &place.group, bdf, || Ok(container))?;
    opened(name, member, None, kept.device.into())
}

/// A function whose files are open; `device` is what the crate has of it.
fn opened(
    name: &str,
    member: Member<Container>,
    device: Option<VfioDevice>,
    file: File,
) -> Result<Opened, BackendError> {
    let system = |during| move |cause: io::Error| BackendError::system(name, during, &cause);
    let container = member.container().file();
    let container = container.map_err(system("duplicating a descriptor"))?;
    let info = iommu_info(&container).map_err(system("asking for the IOMMU"))?;
    let wrong = |cause| BackendError::Iova {
        device: name.to_owned(),
        cause,
    };
    let iommu = Iommu::parse(&info).map_err(wrong)?;
    let addresses = member
        .addresses(|| IovaSpace::new(&iommu.ranges, iommu.page))
        .map_err(wrong)?;
    let description = describe(&file).map_err(system("asking what the function has"))?;
    let space = Type1 {
        _device: device,
        container,
        _member: Some(member),
    };
    Ok(Opened {
        device: Arc::new(file),
        description,
        iommu,
        addresses: Some(addresses),
        space: Box::new(space),
    })
}

/// A duplicate descriptor for a file that the crate keeps.
fn duplicate(of: &impl AsRawFd) -> io::Result<File> {
    // SAFETY: open as long as `of`.
    let fd = unsafe { BorrowedFd::borrow_raw(of.as_raw_fd()) };
    fd.try_clone_to_owned().map(File::from)
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::host::fake::Tree;
    use crate::transport::SharedAddresses;
    use crate::vfio::mock_ioctl::{ExpectedCall, Ioctl, MockKernel, longs, words};
    use crate::vfio::space::{unusual, why_not_mapped};

    /// `struct vfio_iommu_type1_dma_map`: argsz, flags, vaddr, iova, size.
    fn map(flags: u32) -> Ioctl {
        let mut expected_arg = words(&[32, flags]);
        expected_arg.extend(longs(&[0, 0x10_0000, 0x2000]));
        Ioctl::new("container", 0x3b71, expected_arg).ignore_range(8..16)
    }

    /// `struct vfio_iommu_type1_dma_unmap`: argsz, flags, iova, size.
    fn unmap(bytes: u64) -> Vec<u8> {
        let mut expected_arg = words(&[24, 0]);
        expected_arg.extend(longs(&[0x10_0000, bytes]));
        expected_arg
    }

    fn region(access: Access) -> DmaRegion<'static> {
        DmaRegion {
            iova: 0x10_0000,
            bytes: 0x2000,
            address: NonNull::dangling(),
            file: None,
            access,
        }
    }

    #[test]
    fn mappings_are_those_of_type1() {
        let kernel = MockKernel::new([
            map(3).into(),
            map(1).into(),
            Ioctl::new("container", 0x3b72, unmap(0x2000)).into(),
            Ioctl::new("container", 0x3b72, unmap(0x2000))
                .reply(unmap(0x1000))
                .into(),
            ExpectedCall::Close("container"),
        ]);
        let space = Type1::of(kernel.file("container", 0));
        for access in [Access::ReadWrite, Access::Read] {
            // SAFETY: nothing is mapped.
            unsafe { space.map(&region(access)) }.unwrap();
        }
        space.unmap(0x10_0000, 0x2000).unwrap();
        let error = space.unmap(0x10_0000, 0x2000).unwrap_err().to_string();
        assert_eq!(error, "4096 of 8192 bytes were unmapped");
        drop(space);
        kernel.is_done();
    }

    /// What a dead program has left is unmapped whatever it is; the container can be given away.
    #[test]
    fn a_range_of_another_process_is_unmapped() {
        let kernel = MockKernel::new([
            Ioctl::new("container", 0x3b72, unmap(0x2000))
                .reply(unmap(0x1000))
                .into(),
            Ioctl::new("container", 0x3b72, unmap(0x2000))
                .fails(libc::EIO)
                .into(),
            ExpectedCall::Close("container"),
        ]);
        let space = Type1::of(kernel.file("container", 0));
        space.unmap_all(0x10_0000, 0x2000).unwrap();
        assert!(space.unmap_all(0x10_0000, 0x2000).is_err());
        assert!(space.container().is_some());
        drop(space);
        kernel.is_done();
    }

    /// Two functions of one group: their mappings are in one container, so they lie at different
    /// addresses; each function removes its own.
    #[test]
    fn two_functions_of_a_group_share_its_addresses() {
        let groups = Groups::<()>::new();
        let ranges = [(0x10_0000, 0xFF_FFFF)];
        let function = |at: &str| {
            let bdf: Bdf = at.parse().unwrap();
            let member = groups.enter("vfio:test", "17", bdf, || Ok(())).unwrap();
            let space = member.addresses(|| IovaSpace::new(&ranges, 0x1000));
            (member, space.unwrap())
        };
        let map = |iova| {
            let mut expected_arg = words(&[32, 3]);
            expected_arg.extend(longs(&[0, iova, 0x2000]));
            ExpectedCall::from(Ioctl::new("container", 0x3b71, expected_arg).ignore_range(8..16))
        };
        let unmap = |iova| {
            let mut expected_arg = words(&[24, 0]);
            expected_arg.extend(longs(&[iova, 0x2000]));
            ExpectedCall::from(Ioctl::new("container", 0x3b72, expected_arg))
        };
        let kernel = MockKernel::new([
            map(0x10_0000),
            map(0x10_2000),
            unmap(0x10_0000),
            ExpectedCall::Close("container"),
            map(0x10_0000),
            unmap(0x10_2000),
            unmap(0x10_0000),
            ExpectedCall::Close("container"),
        ]);
        let type1 = || Type1::of(kernel.file("container", 0));
        let [(_one, first), (_other, second)] = [function("3b:00.0"), function("3b:00.1")];
        let (a, b) = (type1(), type1());
        let take = |space: &Type1<_>, addresses: &SharedAddresses| {
            let iova = addresses.lock().unwrap().alloc(0x2000, 1).unwrap();
            let region = DmaRegion {
                iova,
                ..region(Access::ReadWrite)
            };
            // SAFETY: nothing is mapped.
            unsafe { space.map(&region) }.unwrap();
            iova
        };
        let give = |space: &Type1<_>, addresses: &SharedAddresses, iova| {
            space.unmap(iova, 0x2000).unwrap();
            addresses.lock().unwrap().free(iova).unwrap();
        };
        let of_a = take(&a, &first);
        let of_b = take(&b, &second);
        give(&a, &first, of_a);
        drop(a);
        let again = take(&b, &second);
        give(&b, &second, of_b);
        give(&b, &second, again);
        drop(b);
        kernel.is_done();
    }

    /// A machine that lets processes lock 8 MiB, of which this one has 6, or without a limit.
    fn machine(limited: bool) -> Tree {
        let tree = Tree::with_card();
        let caps = if limited {
            "0000000000000000"
        } else {
            "0000000000004000"
        };
        let status = format!("VmLck:\t    6144 kB\nVmPin:\t       0 kB\nCapEff:\t{caps}\n");
        tree.file("/proc/self/status", &status);
        let limits = "Max locked memory         8388608              8388608              bytes\n";
        tree.file("/proc/self/limits", limits);
        tree
    }

    #[test]
    fn a_refused_mapping_says_why() {
        let (address, bytes) = (NonNull::<u8>::dangling().addr().get() as u64, 0x2000);
        let access = Access::ReadWrite;
        let (limited, free) = (machine(true), machine(false));
        let (limit, in_use) = (8 << 20, Some(6 << 20));
        for (errno, tree, expected) in [
            (
                libc::ENOMEM,
                &limited,
                Some(DmaError::LockLimit {
                    bytes,
                    limit,
                    in_use,
                }),
            ),
            (
                libc::ENOMEM,
                &free,
                Some(DmaError::OutOfMemory { bytes, align: 4096 }),
            ),
            (
                libc::ENOSPC,
                &limited,
                Some(DmaError::TooManyMappings { bytes }),
            ),
            (
                libc::EFAULT,
                &limited,
                Some(DmaError::NotAccessible {
                    address,
                    bytes,
                    access,
                }),
            ),
            (libc::EEXIST, &limited, None),
            (libc::EIO, &limited, None),
        ] {
            let kernel =
                MockKernel::new([map(3).fails(errno).into(), ExpectedCall::Close("container")]);
            let space = Type1::of(kernel.file("container", 0));
            // SAFETY: nothing is mapped.
            let error = unsafe { space.map(&region(access)) }.unwrap_err();
            let why = why_not_mapped(&space, tree.host(), &region(access), &error);
            assert_eq!(why, expected, "{error}");
            drop(space);
            kernel.is_done();
        }
        let text = |errno| unusual(&io::Error::from_raw_os_error(errno));
        assert!(text(libc::EEXIST).contains("these I/O addresses are already mapped"));
        assert!(text(libc::EIO).contains("Input/output error"));
    }

    #[test]
    fn the_iommus_description_is_asked_for_until_it_fits() {
        let asked = |bytes: u32| {
            let mut expected_arg = vec![0; bytes as usize];
            expected_arg[..4].copy_from_slice(&bytes.to_ne_bytes());
            expected_arg
        };
        let mut longer = asked(24);
        longer[..4].copy_from_slice(&40u32.to_ne_bytes());
        let kernel = MockKernel::new([
            Ioctl::new("container", 0x3b70, asked(24))
                .reply(longer)
                .into(),
            Ioctl::new("container", 0x3b70, asked(40)).into(),
            ExpectedCall::Close("container"),
        ]);
        let container = kernel.file("container", 0);
        assert_eq!(iommu_info(&container).unwrap(), asked(40));
        drop(container);
        kernel.is_done();
        // A length that no kernel would return.
        let mut endless = asked(24);
        endless[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        let answer = Ioctl::new("container", 0x3b70, asked(24)).reply(endless);
        let kernel = MockKernel::new([answer.into(), ExpectedCall::Close("container")]);
        assert!(iommu_info(&kernel.file("container", 0)).is_err());
        kernel.is_done();
    }
}
