//! A function that another process owns, as a program reaches it that shares it: it rings the
//! doorbell page, and maps its own memory at addresses that the owner has given it.
//!
//! The kernel counts what it maps against the program's own limit on locked memory. What it leaves
//! mapped the owner unmaps ([`Shares::dismiss`](crate::Shares::dismiss)).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use e810_hal::regs::{DOORBELL_PAGE, DOORBELL_PAGE_LEN};
use e810_hal::{Bus, DoorbellPage, RegOffset};
use memmap2::{MmapOptions, MmapRaw};

use super::container::Type1;
use super::forked::{Parents, replace_page};
use super::space::{Space, unusual, why_not_mapped};
use crate::error::BackendError;
use crate::host::Host;
use crate::transport::{DmaRegion, Files, Notice, Properties, Transport};

/// The doorbell page, mapped while this value or a clone exists.
#[derive(Clone, Debug)]
pub struct ProgramRegisters {
    registers: DoorbellPage,
    map: Arc<MmapRaw>,
}

impl Bus for ProgramRegisters {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        self.registers.read32(off)
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        self.registers.write32(off, value);
    }
}

impl ProgramRegisters {
    fn new(device: &File, bar0: u64) -> io::Result<Self> {
        let len = DOORBELL_PAGE_LEN as usize;
        let map = MmapOptions::new()
            .offset(bar0 + u64::from(DOORBELL_PAGE))
            .len(len)
            .map_raw(device)?;
        let unfit = || io::Error::other("the doorbell page is not aligned");
        let base = NonNull::new(map.as_mut_ptr()).ok_or_else(unfit)?;
        // SAFETY: a mapping of that length, which lives as long as this value or a clone; only
        // through these is a copy of it available. The owner of the function has given the program
        // the file, and trusts it with what doorbells do.
        let registers = unsafe { DoorbellPage::new(base, len) };
        Ok(Self {
            registers: registers.ok_or_else(unfit)?,
            map: Arc::new(map),
        })
    }

    /// From now on doorbells are written to memory that nobody reads. No thread is disturbed that
    /// rings meanwhile.
    fn abandon(&self) -> io::Result<()> {
        // SAFETY: exactly the pages of `map`, which unmaps them later; only `DoorbellPage` accesses
        // them.
        unsafe { replace_page(self.map.as_mut_ptr().cast()) }
    }
}

/// The owner's files.
struct Reached {
    /// Dropped before the files are closed.
    _parents: Parents,
    device: Arc<File>,
    space: Arc<Type1<File>>,
}

/// A function that another process owns.
pub struct ProgramVfio {
    name: String,
    registers: ProgramRegisters,
    /// Offset of configuration space in the device's file.
    config: u64,
    properties: Properties,
    /// None once the owner is gone.
    reached: Mutex<Option<Reached>>,
}

impl ProgramVfio {
    /// Reaches the function whose owner has given this process its files, and the addresses (first
    /// and last) at which it maps its memory in pages of `page` bytes. Errors call it `name`.
    ///
    /// # Errors
    /// The doorbell page cannot be mapped.
    pub fn new(
        name: String,
        files: Files,
        addresses: (u64, u64),
        page: u64,
    ) -> Result<Self, BackendError> {
        let device = File::from(files.device);
        let registers = ProgramRegisters::new(&device, files.bar0)
            .map_err(|cause| BackendError::system(&name, "mapping the doorbell page", &cause))?;
        let doorbells = NonNull::new(registers.map.as_mut_ptr().cast());
        let doorbells = doorbells.ok_or_else(|| BackendError::Unfit {
            device: name.clone(),
            what: "its doorbell page has no address".to_owned(),
        })?;
        let parents = Parents::new(device.as_fd(), files.container.as_fd(), doorbells)
            .map_err(|cause| BackendError::system(&name, "keeping it from children", &cause))?;
        let space = Type1::of(files.container.into());
        Ok(Self {
            name,
            registers,
            config: files.config,
            properties: Properties {
                iova_ranges: vec![addresses],
                page,
                maps_any_memory: true,
                vectors: 0,
                vectors_grow: false,
            },
            reached: Mutex::new(Some(Reached {
                _parents: parents,
                device: Arc::new(device),
                space: Arc::new(space),
            })),
        })
    }

    /// The owner is gone: its files are closed, so that the next owner can open the function, and
    /// doorbells reach nobody.
    ///
    /// # Errors
    /// The system did not replace the doorbell page: the files stay open.
    pub fn abandon(&self) -> Result<(), BackendError> {
        self.registers.abandon().map_err(|cause| {
            BackendError::system(&self.name, "replacing the doorbell page", &cause)
        })?;
        *self.reached() = None;
        Ok(())
    }

    fn reached(&self) -> MutexGuard<'_, Option<Reached>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, during: &'static str, cause: impl ToString) -> BackendError {
        BackendError::Refused {
            device: self.name.clone(),
            during,
            cause: cause.to_string(),
        }
    }

    fn gone(&self, during: &'static str) -> BackendError {
        self.refused(during, "the process that owned the function has ended")
    }

    /// What only the owner does.
    fn owners(&self, during: &'static str) -> BackendError {
        self.refused(during, "another process owns the function")
    }
}

// SAFETY: the kernel programs the IOMMU with exactly the request, pins the memory, and has flushed
// the IOMMU when an unmap returns. Once the owner is gone, a mapping lasts until the next owner
// removes it, or the last process closes the container: until then the kernel keeps its pages, which
// it gives to nobody else. The registers keep their mapping.
unsafe impl Transport for ProgramVfio {
    type Registers = ProgramRegisters;

    fn name(&self) -> &str {
        &self.name
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn registers(&self) -> ProgramRegisters {
        self.registers.clone()
    }

    fn failure(&self) -> Option<&BackendError> {
        None
    }

    fn notice(&self) -> Option<Notice> {
        None
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError> {
        let during = "reading configuration space";
        let reached = self.reached();
        let reached = reached.as_ref().ok_or_else(|| self.gone(during))?;
        let read = reached
            .device
            .read_exact_at(into, self.config + u64::from(offset));
        read.map_err(|cause| self.refused(during, cause))
    }

    fn config_write(&self, _: u16, _: &[u8]) -> Result<(), BackendError> {
        Err(self.owners("writing configuration space"))
    }

    fn reset(&self) -> Result<(), BackendError> {
        Err(self.owners("resetting the function"))
    }

    unsafe fn map(&self, region: &DmaRegion<'_>) -> Result<(), BackendError> {
        let during = "mapping memory for the device";
        let space = self.reached().as_ref().map(|reached| reached.space.clone());
        let space = space.ok_or_else(|| self.gone(during))?;
        // SAFETY: the caller's promise.
        unsafe { space.map(region) }.map_err(|error| {
            match why_not_mapped(&*space, &Host::default(), region, &error) {
                Some(cause) => BackendError::NotMapped {
                    device: self.name.clone(),
                    cause,
                },
                None => self.refused(during, unusual(&error)),
            }
        })
    }

    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError> {
        let space = self.reached().as_ref().map(|reached| reached.space.clone());
        // The mapping is gone, or goes with the container.
        let Some(space) = space else { return Ok(()) };
        let unmapped = space.unmap(iova, bytes);
        unmapped.map_err(|cause| self.refused("taking memory away from the device", cause))
    }

    fn connect_vectors(&self, _: u16, _: &[Option<BorrowedFd<'_>>]) -> Result<(), BackendError> {
        Err(self.owners("connecting interrupts"))
    }

    fn disconnect_vectors(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl std::fmt::Debug for ProgramVfio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let device = self
            .reached()
            .as_ref()
            .map(|reached| reached.device.as_raw_fd());
        f.debug_struct("ProgramVfio")
            .field("name", &self.name)
            .field("device", &device)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Function;
    use crate::memory::{PAGE, SharedMemory};
    use e810_hal::regs::{DB_CQ_ARM, PFPE_CQARM, PFPE_WQEALLOC};
    use e810_hal::{Access, DmaMap as _};

    /// Where the file of the tests has the doorbell page.
    const BAR0: u64 = 1 << 20;
    const PAGE_AT: usize = BAR0 as usize + DOORBELL_PAGE as usize;

    #[test]
    fn doorbells_reach_the_page_until_the_owner_is_gone() {
        let device = SharedMemory::new(PAGE_AT + PAGE, false).unwrap();
        // SAFETY: used while `device` lives.
        let bytes = unsafe { device.bytes() };
        bytes.write(0, &[0x86, 0x80, 0x92, 0x15]).unwrap();
        let function = || {
            let files = Files {
                device: device.file().try_clone_to_owned().unwrap(),
                container: File::open("/dev/null").unwrap().into(),
                bar0: BAR0,
                config: 0,
            };
            let name = "vfio:test".to_owned();
            let reached = ProgramVfio::new(name, files, (1 << 30, (2 << 30) - 1), 4096);
            Function::of_program(reached.unwrap())
        };
        let page = |at: usize| {
            let mut word = [0; 4];
            bytes.read(PAGE_AT + at, &mut word).unwrap();
            u32::from_le_bytes(word)
        };
        let one = function().unwrap();
        one.write32(PFPE_WQEALLOC.off(), 7);
        one.write32(PFPE_CQARM.off(), 8);
        assert_eq!((page(0), page(0x40)), (7, 8));
        one.write32(DB_CQ_ARM.off(), 9);
        assert_eq!(page(0x40), 9);
        assert_eq!(one.read32(PFPE_CQARM.off()), u32::MAX);
        one.probe().unwrap();
        // The kernel refuses what is no container.
        let memory = SharedMemory::new(PAGE, false).unwrap();
        // SAFETY: `memory` outlives the mapping that is not made.
        let window = unsafe { memory.bytes() };
        assert!(one.dma_map(window, Access::Read).is_err());
        assert!(one.transport().reset().is_err());
        assert!(one.transport().config_write(4, &[0, 0]).is_err());

        one.transport().abandon().unwrap();
        one.write32(PFPE_WQEALLOC.off(), 10);
        one.write32(PFPE_CQARM.off(), 11);
        assert_eq!((page(0), page(0x40)), (7, 9), "nobody's doorbells");
        let error = one.probe().unwrap_err().to_string();
        assert!(error.contains("has ended"), "{error}");
        assert!(one.dma_map(window, Access::Read).is_err());
        one.transport().unmap(1 << 30, 4096).unwrap();
        one.transport().abandon().unwrap();
        drop(one);
        // Nothing was written to the device by its end, and what is no E810 is not taken.
        bytes.write(0, &[0x86, 0x80, 0x92, 0x99]).unwrap();
        assert!(function().is_err());
    }
}
