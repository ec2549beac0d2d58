//! A function bound to vfio-pci, through the kernel's VFIO.
//!
//! There are two interfaces, [`VfioApi`]: container, group and the type1v2 IOMMU; and /dev/iommu with
//! the function's own device file, which has not run on any kernel yet. Everything after the opening
//! is common to both.

mod bar;
mod busy;
mod container;
mod device_info;
mod forked;
mod group;
mod ioctl;
mod iommu;
mod iommufd;
mod kernel;
#[cfg(test)]
mod mock_ioctl;
mod open;
mod program;
mod space;
mod taken;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE, VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_REQ_IRQ_INDEX,
};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::BackendError;
use super::transport::{
    DmaRegion, Files, KeptFiles, Notice, Properties, SharedAddresses, Transport,
};
use crate::accept::Accept;
use crate::host::{Host, cpus, kernel as host_kernel};
use crate::spec::{Bdf, VfioApi};
use bar::BarError;
pub use bar::BarRegisters;
pub use busy::wait_until_free;
use device_info::DeviceInfo;
use ioctl::IoctlFile;
use iommu::Iommu;
pub use program::{ProgramRegisters, ProgramVfio};
use space::{Space, unusual, why_not_mapped};

/// An open function, the same for both interfaces.
struct Opened {
    /// Dropped before its addresses: a group can be released only when no file of its device is
    /// open.
    device: Arc<dyn IoctlFile>,
    description: DeviceInfo,
    iommu: Iommu,
    /// Addresses that it shares with the other functions of its group.
    addresses: Option<SharedAddresses>,
    space: Box<dyn Space>,
}

/// An open function.
pub struct Vfio {
    name: String,
    bdf: Bdf,
    /// Dropped before the device: a mapping keeps the device's file open.
    bar: BarRegisters,
    /// The notices (the kernel wants the function back, the bus reported an error), each with its
    /// descriptor.
    notices: Vec<(Notice, EventFd)>,
    /// As in [`Opened`], before its addresses.
    device: Arc<dyn IoctlFile>,
    /// Offset of BAR0 in the device's file.
    bar0: u64,
    /// Offset of configuration space there.
    config: u64,
    addresses: Option<SharedAddresses>,
    space: Box<dyn Space>,
    properties: Properties,
    /// MSI-X is on: the kernel refuses to switch off what is not on.
    armed: AtomicBool,
}

impl Vfio {
    /// Opens the function at `bdf` through its group.
    ///
    /// # Errors
    /// [`BackendError`]: there is no such function, it is not bound, its group is not viable or is
    /// in use, or the user has no right to open it; each says what to do.
    pub fn open(bdf: Bdf) -> Result<Self, BackendError> {
        Self::open_by(bdf, VfioApi::Container, Accept::E810)
    }

    /// Opens the function at `bdf` through the interface `way`, if `accept` allows it. The kernel
    /// resets what it opens, so the ids are checked before;
    /// [`Function::open`](crate::Function::open) checks them again, on what was opened.
    ///
    /// # Errors
    /// As [`Vfio::open`]; also, the kernel may not have that interface.
    pub fn open_by(bdf: Bdf, way: VfioApi, accept: Accept) -> Result<Self, BackendError> {
        let name = format!("{}:{bdf}", way.name());
        let opened = match way {
            VfioApi::Container => container::open(&name, bdf, accept)?,
            VfioApi::Iommufd => iommufd::open(&name, bdf, accept)?,
        };
        Self::new(name, bdf, opened)
    }

    fn new(name: String, bdf: Bdf, opened: Opened) -> Result<Self, BackendError> {
        // On an error the last field is dropped first, the device before its addresses.
        let Opened {
            space,
            addresses,
            iommu,
            description,
            device,
        } = opened;
        log::debug!("{name}: IOMMU {iommu:x?}, {description:x?}");
        let system = |during| {
            let name = name.clone();
            move |cause: io::Error| BackendError::system(&name, during, &cause)
        };
        let bar =
            BarRegisters::new(device.file(), &description.bar0).map_err(|error| match error {
                BarError::Unfit(what) => BackendError::Unfit {
                    device: name.clone(),
                    what: format!("BAR0: {what}"),
                },
                BarError::System(cause) => system("mapping BAR0")(cause),
            })?;
        let properties = properties(&name, &description, &iommu)?;
        let notices = notices(&*device, &description).map_err(system("asking for notices"))?;
        Ok(Self {
            bar,
            notices,
            device,
            bar0: description.bar0.offset,
            config: description.config,
            addresses,
            space,
            properties,
            armed: AtomicBool::new(false),
            bdf,
            name,
        })
    }

    /// The container, if other processes can have it.
    fn can_share(&self, host: &Host) -> Result<&File, BackendError> {
        let (major, minor) = UNMAPS_OF_OTHERS;
        let unfit = |what| BackendError::Unfit {
            device: self.name.clone(),
            what,
        };
        if host_kernel::release(host).is_none_or(|release| release < UNMAPS_OF_OTHERS) {
            return Err(unfit(format!(
                "programs cannot share it on this kernel, where nobody can unmap what a dead program has mapped: take Linux {major}.{minor} or later"
            )));
        }
        let none =
            "programs cannot share a function that is open through iommufd: name it vfio:BDF";
        self.space.container().ok_or_else(|| unfit(none.to_owned()))
    }

    fn duplicate(&self, file: &File) -> Result<OwnedFd, BackendError> {
        let file = file.as_fd().try_clone_to_owned();
        file.map_err(|cause| BackendError::system(&self.name, "duplicating a file", &cause))
    }

    fn refused(&self, during: &'static str, cause: impl ToString) -> BackendError {
        BackendError::Refused {
            device: self.name.clone(),
            during,
            cause: cause.to_string(),
        }
    }
}

/// Since this Linux any process that has a container can unmap what another one has mapped through
/// it. Before, UNMAP_DMA reported success and unmapped nothing.
const UNMAPS_OF_OTHERS: (u32, u32) = (6, 0);

fn properties(
    name: &str,
    description: &DeviceInfo,
    iommu: &Iommu,
) -> Result<Properties, BackendError> {
    let msix = description.msix;
    let msix = msix.filter(|irqs| irqs.flags & VFIO_IRQ_INFO_EVENTFD != 0);
    let msix = msix.ok_or_else(|| BackendError::Unfit {
        device: name.to_owned(),
        what: "the function has no MSI-X interrupts that can be events".to_owned(),
    })?;
    Ok(Properties {
        iova_ranges: iommu.ranges.clone(),
        page: iommu.page,
        maps_any_memory: true,
        vectors: u16::try_from(msix.count).unwrap_or(u16::MAX),
        vectors_grow: msix.flags & VFIO_IRQ_INFO_NORESIZE == 0,
    })
}

/// Connects the kernel's notices: errors on the bus, and its request to release the function.
fn notices(device: &dyn IoctlFile, description: &DeviceInfo) -> io::Result<Vec<(Notice, EventFd)>> {
    let mut notices = Vec::new();
    for (notice, irqs, index) in [
        (Notice::BusError, description.error, VFIO_PCI_ERR_IRQ_INDEX),
        (
            Notice::RemovalRequested,
            description.request,
            VFIO_PCI_REQ_IRQ_INDEX,
        ),
    ] {
        if irqs.is_none_or(|irqs| irqs.count == 0) {
            continue;
        }
        let event = EventFd::new(EFD_NONBLOCK | libc::EFD_CLOEXEC)?;
        // SAFETY: open as long as `event`.
        let fd = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
        kernel::connect_irqs(device, index, 0, &[Some(fd)])?;
        notices.push((notice, event));
    }
    Ok(notices)
}

// SAFETY: the kernel programs the IOMMU with exactly the request, pins the
// memory, and has flushed the IOMMU when an unmap returns. The registers keep
// their mapping.
unsafe impl Transport for Vfio {
    type Registers = BarRegisters;

    fn name(&self) -> &str {
        &self.name
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn addresses(&self) -> Option<SharedAddresses> {
        self.addresses.clone()
    }

    fn registers(&self) -> BarRegisters {
        self.bar.clone()
    }

    fn failure(&self) -> Option<&BackendError> {
        // A BAR does not fail: a device that is gone reads as all-ones.
        None
    }

    fn notice(&self) -> Option<Notice> {
        let signalled =
            |(notice, event): &(Notice, EventFd)| event.read().is_ok().then_some(*notice);
        self.notices.iter().find_map(signalled)
    }

    fn notice_events(&self) -> Vec<BorrowedFd<'_>> {
        let fd = |(_, event): &(Notice, EventFd)| event.as_raw_fd();
        // SAFETY: open as long as `self`.
        let borrow = |fd| unsafe { BorrowedFd::borrow_raw(fd) };
        self.notices.iter().map(fd).map(borrow).collect()
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError> {
        self.device
            .file()
            .read_exact_at(into, self.config + u64::from(offset))
            .map_err(|cause| self.refused("reading configuration space", cause))
    }

    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), BackendError> {
        self.device
            .file()
            .write_all_at(from, self.config + u64::from(offset))
            .map_err(|cause| self.refused("writing configuration space", cause))
    }

    fn reset(&self) -> Result<(), BackendError> {
        kernel::reset(&*self.device).map_err(|cause| {
            let cause = match cause.raw_os_error() {
                Some(libc::ENOTTY) => {
                    "the kernel knows no way to reset this function alone".to_owned()
                }
                _ => cause.to_string(),
            };
            self.refused("resetting the function", cause)
        })
    }

    unsafe fn map(&self, region: &DmaRegion<'_>) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        let mapped = unsafe { self.space.map(region) };
        mapped.map_err(|error| {
            match why_not_mapped(&*self.space, &Host::default(), region, &error) {
                Some(cause) => BackendError::NotMapped {
                    device: self.name.clone(),
                    cause,
                },
                None => self.refused("mapping memory for the device", unusual(&error)),
            }
        })
    }

    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError> {
        self.space
            .unmap(iova, bytes)
            .map_err(|cause| self.refused("taking memory away from the device", cause))
    }

    fn can_be_shared(&self) -> bool {
        true
    }

    fn files(&self) -> Result<Files, BackendError> {
        let container = self.can_share(&Host::default())?;
        Ok(Files {
            device: self.duplicate(self.device.file())?,
            container: self.duplicate(container)?,
            bar0: self.bar0,
            config: self.config,
        })
    }

    fn keep(&self) -> Result<Option<KeptFiles>, BackendError> {
        let Some(container) = self.space.container() else {
            return Ok(None);
        };
        Ok(Some(KeptFiles {
            container: self.duplicate(container)?,
            device: self.duplicate(self.device.file())?,
        }))
    }

    fn unmap_all(&self, first: u64, last: u64) -> Result<(), BackendError> {
        self.space
            .unmap_all(first, last - first + 1)
            .map_err(|cause| self.refused("taking a program's memory away from the device", cause))
    }

    fn connect_vectors(
        &self,
        first: u16,
        events: &[Option<BorrowedFd<'_>>],
    ) -> Result<(), BackendError> {
        let index = VFIO_PCI_MSIX_IRQ_INDEX;
        kernel::connect_irqs(&*self.device, index, first, events)
            .map_err(|cause| self.refused("connecting interrupts", cause))?;
        self.armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn send_vector_to(&self, vector: u16, cpu: u32) -> Result<(), BackendError> {
        cpus::send_vector_to(&Host::default(), self.bdf, vector, cpu)
            .map_err(|cause| self.refused("choosing the CPU of an interrupt", cause))
    }

    fn disconnect_vectors(&self) -> Result<(), BackendError> {
        if !self.armed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        kernel::disable_irqs(&*self.device, VFIO_PCI_MSIX_IRQ_INDEX)
            .map_err(|cause| self.refused("disconnecting interrupts", cause))
    }
}

impl std::fmt::Debug for Vfio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfio")
            .field("name", &self.name)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

impl AsFd for Vfio {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.file().as_fd()
    }
}
