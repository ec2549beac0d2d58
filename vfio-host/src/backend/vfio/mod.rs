//! A function bound to vfio-pci, through the kernel's VFIO: container, group
//! and the type1v2 IOMMU.

mod bar;
mod iommu;
mod kernel;
mod open;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e810_hal::Bar0;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX,
};
use vfio_ioctls::{VfioContainer, VfioDevice};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::BackendError;
use super::transport::{DmaRegion, Notice, Properties, Transport};
use crate::spec::Bdf;
use bar::{Bar, BarError};
use iommu::Iommu;

/// An open function.
pub struct Vfio {
    name: String,
    /// Before the device: a mapping keeps the device's file open.
    bar: Bar,
    /// The device's file, for configuration space: `vfio-ioctls` drops errors.
    file: File,
    config: u64,
    /// The kernel wants the function back, or the bus reported an error; with
    /// the descriptor that says so.
    notices: Vec<(Notice, EventFd)>,
    /// Closed after everything that was made of it, before its container.
    _device: VfioDevice,
    container: Arc<VfioContainer>,
    properties: Properties,
    /// MSI-X is on: the kernel refuses to switch off what is not.
    armed: AtomicBool,
}

impl Vfio {
    /// Opens the function at `bdf`.
    ///
    /// # Errors
    /// [`BackendError`]: there is no such function, it is not bound, its group
    /// is not viable or in use, or the user has no right to open it; each says
    /// what to do.
    pub fn open(bdf: Bdf) -> Result<Self, BackendError> {
        let name = format!("vfio:{bdf}");
        let place = open::place(Path::new("/"), bdf)?;
        let (device, container) = open::open(bdf, &place)?;
        let system = |during| {
            move |cause: io::Error| BackendError::system(&format!("vfio:{bdf}"), during, &cause)
        };
        let info = kernel::iommu_info(&*container).map_err(system("asking for the IOMMU"))?;
        let iommu = Iommu::parse(&info).map_err(|cause| BackendError::Iova {
            device: name.clone(),
            cause,
        })?;
        log::debug!("{name}: IOMMU {iommu:x?}");
        let bar = Bar::new(&device).map_err(|error| match error {
            BarError::Unfit(what) => BackendError::Unfit {
                device: name.clone(),
                what: format!("BAR0: {what}"),
            },
            BarError::System(cause) => system("mapping BAR0")(cause),
        })?;
        let properties = properties(&name, &device, &iommu)?;
        // SAFETY: the device's descriptor is open as long as `device`.
        let fd = unsafe { BorrowedFd::borrow_raw(device.as_raw_fd()) };
        let file = fd
            .try_clone_to_owned()
            .map_err(system("duplicating a descriptor"))?;
        let notices = notices(&device).map_err(system("asking for notices"))?;
        Ok(Self {
            bar,
            file: file.into(),
            config: device.get_region_offset(VFIO_PCI_CONFIG_REGION_INDEX),
            notices,
            _device: device,
            container,
            properties,
            armed: AtomicBool::new(false),
            name,
        })
    }

    fn refused(&self, during: &'static str, cause: impl ToString) -> BackendError {
        BackendError::Refused {
            device: self.name.clone(),
            during,
            cause: cause.to_string(),
        }
    }
}

fn properties(name: &str, device: &VfioDevice, iommu: &Iommu) -> Result<Properties, BackendError> {
    let msix = device.get_irq_info(VFIO_PCI_MSIX_IRQ_INDEX);
    let msix = msix.filter(|irq| irq.flags & VFIO_IRQ_INFO_EVENTFD != 0);
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

/// Connects what the kernel can tell of: errors on the bus, and its request to
/// give the function back.
fn notices(device: &VfioDevice) -> io::Result<Vec<(Notice, EventFd)>> {
    let mut notices = Vec::new();
    for (notice, index) in [
        (Notice::BusError, VFIO_PCI_ERR_IRQ_INDEX),
        (Notice::RemovalRequested, VFIO_PCI_REQ_IRQ_INDEX),
    ] {
        if device.get_irq_info(index).is_none_or(|irq| irq.count == 0) {
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

// SAFETY: the kernel programs the IOMMU with exactly what it is told, pins the
// memory, and has flushed the IOMMU when an unmap returns. The BAR stays
// mapped as long as this value lives.
unsafe impl Transport for Vfio {
    type Registers = Bar0;

    fn name(&self) -> &str {
        &self.name
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn registers(&self) -> Bar0 {
        self.bar.registers
    }

    fn failure(&self) -> Option<&BackendError> {
        // A BAR does not fail: a device that left reads as all-ones.
        None
    }

    fn notice(&self) -> Option<Notice> {
        let told = |(notice, event): &(Notice, EventFd)| event.read().is_ok().then_some(*notice);
        self.notices.iter().find_map(told)
    }

    fn notice_events(&self) -> Vec<BorrowedFd<'_>> {
        let fd = |(_, event): &(Notice, EventFd)| event.as_raw_fd();
        // SAFETY: open as long as `self`.
        let borrow = |fd| unsafe { BorrowedFd::borrow_raw(fd) };
        self.notices.iter().map(fd).map(borrow).collect()
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError> {
        self.file
            .read_exact_at(into, self.config + u64::from(offset))
            .map_err(|cause| self.refused("reading configuration space", cause))
    }

    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), BackendError> {
        self.file
            .write_all_at(from, self.config + u64::from(offset))
            .map_err(|cause| self.refused("writing configuration space", cause))
    }

    fn reset(&self) -> Result<(), BackendError> {
        kernel::reset(&self.file).map_err(|cause| {
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
        let mapped = unsafe { kernel::dma_map(&*self.container, region) };
        mapped.map_err(|cause| {
            let cause = match cause.raw_os_error() {
                Some(libc::ENOMEM) => format!(
                    "{} bytes are more than may be locked; raise the limit (`ulimit -l unlimited` as root, or LimitMEMLOCK= of the service)",
                    region.bytes
                ),
                Some(libc::ENOSPC) => {
                    "the kernel's limit on mappings is reached; raise vfio_iommu_type1.dma_entry_limit, or use --hugepages".to_owned()
                }
                _ => cause.to_string(),
            };
            self.refused("mapping memory for the device", cause)
        })
    }

    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError> {
        kernel::dma_unmap(&*self.container, iova, bytes)
            .map_err(|cause| self.refused("taking memory away from the device", cause))
    }

    fn connect_vectors(
        &self,
        first: u16,
        events: &[Option<BorrowedFd<'_>>],
    ) -> Result<(), BackendError> {
        let index = VFIO_PCI_MSIX_IRQ_INDEX;
        kernel::connect_irqs(&self.file, index, first, events)
            .map_err(|cause| self.refused("connecting interrupts", cause))?;
        self.armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn disconnect_vectors(&self) -> Result<(), BackendError> {
        if !self.armed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        kernel::disable_irqs(&self.file, VFIO_PCI_MSIX_IRQ_INDEX)
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
        self.file.as_fd()
    }
}
