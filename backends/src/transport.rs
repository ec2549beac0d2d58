//! The interface between a platform and the transport that reaches its device.
//!
//! A host platform is written only once, over [`Transport`]. A vfio-user socket and the kernel's
//! VFIO differ in how a register is accessed, who maps memory, and how interrupts are connected.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use e810_hal::{Access, Bus};

use super::error::BackendError;
use super::iova::IovaSpace;

/// I/O addresses that several functions share.
pub type SharedAddresses = Arc<Mutex<IovaSpace>>;

/// Properties of a transport, read once when the device is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// First and last address of each range that may be used as IOVA; whole pages, without overlap,
    /// without the MSI window.
    pub iova_ranges: Vec<(u64, u64)>,
    /// Smallest IOMMU page in bytes: granularity of IOVAs and of mapped memory.
    pub page: u64,
    /// Any memory of the process can be mapped; otherwise only memory with a
    /// file behind it.
    pub maps_any_memory: bool,
    /// MSI-X vectors of the function.
    pub vectors: u16,
    /// Vectors can be connected one by one while others are in use. Otherwise (VFIO's NORESIZE) the
    /// whole set is disconnected and connected again.
    pub vectors_grow: bool,
}

/// Memory to be made visible to the device.
#[derive(Clone, Copy, Debug)]
pub struct DmaRegion<'a> {
    /// Where the device sees it.
    pub iova: u64,
    /// Bytes, a multiple of the page size.
    pub bytes: u64,
    /// Where this process has it.
    pub address: NonNull<u8>,
    /// The file behind it, and the offset of its first byte there.
    pub file: Option<(BorrowedFd<'a>, u64)>,
    /// What the device may do.
    pub access: Access,
}

/// The files with which another process reaches a function by itself.
#[derive(Debug)]
pub struct Files {
    /// The device.
    pub device: OwnedFd,
    /// Its I/O addresses: a container with a type1v2 IOMMU.
    pub container: OwnedFd,
    /// Offset of BAR0 in the device's file.
    pub bar0: u64,
    /// Offset of configuration space there.
    pub config: u64,
}

/// The files of a function that outlive its owner if somebody else keeps them, for the next owner
/// ([`Vfio::take_over`](crate::vfio::Vfio::take_over)).
#[derive(Debug)]
pub struct KeptFiles {
    /// The container with its I/O addresses.
    pub container: OwnedFd,
    /// The device. As long as it is open, the kernel lets nobody else open its IOMMU group.
    pub device: OwnedFd,
}

/// A program in another process that shares a function, and reaches it by itself.
#[derive(Debug)]
pub struct Admitted {
    /// The device, as errors name it.
    pub name: String,
    /// The platform's number of the program.
    pub program: u64,
    /// Its files.
    pub files: Files,
    /// First and last I/O address that it maps its memory at.
    pub addresses: (u64, u64),
    /// Smallest IOMMU page in bytes.
    pub page: u64,
}

/// An event that requires action by the owner of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The function must be released: it is being unbound or unplugged, and the process that asked
    /// for that is blocked until it is closed.
    RemovalRequested,
    /// The bus reported an error that the function does not survive.
    BusError,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RemovalRequested => "the kernel wants the function back (unbind or unplug)",
            Self::BusError => "the bus reported an error of the function",
        })
    }
}

fn unshared(device: &str) -> BackendError {
    BackendError::Unfit {
        device: device.to_owned(),
        what: "other processes cannot reach it".to_owned(),
    }
}

/// A way to reach one PCI function.
///
/// All methods may be called from any thread. A method that fails for a lasting cause (the other
/// side is gone) fails quickly from then on.
///
/// # Implementation safety
/// After a successful `map`, the device can access exactly the region, at the IOVA and with the
/// access requested; after a successful `unmap` it can access none of it. A device that is a
/// process is trusted in this: it can access files that it was given, and no other memory of this
/// process. Registers that come from [`Transport::registers`] hold what an access needs, such as
/// the mapping of a BAR: they may be used when the transport is gone.
pub unsafe trait Transport: fmt::Debug + Send + Sync + 'static {
    /// BAR0. A separate type, held by the platform itself, so that an access on a mapped BAR
    /// ([`e810_hal::Bar0`]) stays one `mov`.
    type Registers: Bus + Clone + fmt::Debug + Send + Sync;

    /// The device as errors name it, for example `vfio-user:/run/e810.sock`.
    fn name(&self) -> &str;

    /// Its properties.
    fn properties(&self) -> &Properties;

    /// The I/O addresses that it shares with other functions of this process, because their IOMMU
    /// does not isolate them. By default it has its own, those of [`Properties::iova_ranges`].
    fn addresses(&self) -> Option<SharedAddresses> {
        None
    }

    /// BAR0, at least [`e810_hal::bus::BAR0_LEN`] bytes of it.
    fn registers(&self) -> Self::Registers;

    /// The failure that made registers read as all-ones, if there was one.
    fn failure(&self) -> Option<&BackendError>;

    /// Calls `report` with that failure, once, before a register reads as all-ones. By default
    /// there is no failure: registers do not fail.
    fn on_failure(&self, report: fn(&BackendError)) {
        let _ = report;
    }

    /// A notice for the owner, each returned once. It is a system call, so not for every iteration
    /// of a loop.
    fn notice(&self) -> Option<Notice> {
        None
    }

    /// Descriptors that become readable when there may be a notice.
    fn notice_events(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Reads configuration space.
    ///
    /// # Errors
    /// [`BackendError`].
    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), BackendError>;

    /// Writes configuration space.
    ///
    /// # Errors
    /// [`BackendError`].
    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), BackendError>;

    /// Resets the function (FLR). Mappings and vectors stay.
    ///
    /// # Errors
    /// [`BackendError`].
    fn reset(&self) -> Result<(), BackendError>;

    /// Makes memory visible to the device.
    ///
    /// # Safety
    /// The memory stays mapped in this process, and is not used for anything else, until `unmap` of
    /// the same range has succeeded or the transport is dropped.
    ///
    /// # Errors
    /// [`BackendError`]; nothing is mapped then.
    unsafe fn map(&self, region: &DmaRegion<'_>) -> Result<(), BackendError>;

    /// Takes memory away from the device: exactly the range of one `map`.
    ///
    /// # Errors
    /// [`BackendError`]; the device may still reach the memory then.
    fn unmap(&self, iova: u64, bytes: u64) -> Result<(), BackendError>;

    /// Whether other processes can reach the function by its [`files`](Self::files).
    fn can_be_shared(&self) -> bool {
        false
    }

    /// The files with which another process reaches the function.
    ///
    /// # Errors
    /// [`BackendError`]: there are none, no descriptors are left, or the kernel is too old.
    fn files(&self) -> Result<Files, BackendError> {
        Err(unshared(self.name()))
    }

    /// The files with which the next owner takes the function over; `None` if there are none.
    ///
    /// # Errors
    /// [`BackendError`]: no descriptors are left.
    fn keep(&self) -> Result<Option<KeptFiles>, BackendError> {
        Ok(None)
    }

    /// Takes everything away from the device that is mapped from `first` to `last`, by this process
    /// or by another one that has the function's [`files`](Self::files).
    ///
    /// # Errors
    /// [`BackendError`]; the device may still reach the memory then.
    fn unmap_all(&self, first: u64, last: u64) -> Result<(), BackendError> {
        let _ = (first, last);
        Err(unshared(self.name()))
    }

    /// Connects vectors from `first` on to `events`; `None` disconnects a vector.
    ///
    /// # Errors
    /// [`BackendError`].
    fn connect_vectors(
        &self,
        first: u16,
        events: &[Option<BorrowedFd<'_>>],
    ) -> Result<(), BackendError>;

    /// Directs the interrupts of a connected vector to CPU `cpu`, until the vector is connected
    /// again. Does nothing if no CPU is interrupted.
    ///
    /// # Errors
    /// [`BackendError`]; interrupts go where they went before.
    fn send_vector_to(&self, vector: u16, cpu: u32) -> Result<(), BackendError> {
        let _ = (vector, cpu);
        Ok(())
    }

    /// Disconnects all vectors and switches MSI-X off.
    ///
    /// # Errors
    /// [`BackendError`].
    fn disconnect_vectors(&self) -> Result<(), BackendError>;
}
