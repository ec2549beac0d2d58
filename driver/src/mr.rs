//! [`Mr`]: a memory region, and the access rights it grants.

use bitflags::bitflags;

use e810_cqp::hmc::PbleList;
use e810_cqp::op::{Access, PageSize, Pages};
use e810_hal::{DmaError, Mapping, Platform, ProgramBytes, SharedBytes};

use crate::error::{Error, Result};
use crate::pd::Pd;
use crate::unsupported::Unsupported;

bitflags! {
    /// What may be done with a memory region, or through a queue pair. Local reading is always
    /// allowed.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    #[doc(alias = "ibv_access_flags")]
    pub struct AccessFlags: u8 {
        /// The device may write on our behalf (receives, READ responses).
        #[doc(alias = "IBV_ACCESS_LOCAL_WRITE")]
        const LOCAL_WRITE = 1 << 0;
        /// Peers may write; needs [`AccessFlags::LOCAL_WRITE`] on a region.
        #[doc(alias = "IBV_ACCESS_REMOTE_WRITE")]
        const REMOTE_WRITE = 1 << 1;
        /// Peers may read.
        #[doc(alias = "IBV_ACCESS_REMOTE_READ")]
        const REMOTE_READ = 1 << 2;
        /// Atomic operations of peers: refused, [`Unsupported::Atomics`].
        #[doc(alias = "IBV_ACCESS_REMOTE_ATOMIC")]
        const REMOTE_ATOMIC = 1 << 3;
        /// Memory windows may be bound to the region: refused unless
        /// [`Quirks::memory_windows`](crate::Quirks) asks for them.
        #[doc(alias = "IBV_ACCESS_MW_BIND")]
        const MW_BIND = 1 << 4;
        /// SGEs and peers name offsets into the region, not addresses. For regions only.
        #[doc(alias = "IBV_ACCESS_ZERO_BASED")]
        const ZERO_BASED = 1 << 5;
        /// Writes may be seen out of order: accepted, and without effect here.
        #[doc(alias = "IBV_ACCESS_RELAXED_ORDERING")]
        const RELAXED_ORDERING = 1 << 6;
    }
}

e810_types::serde_flags!(AccessFlags: u8);

impl AccessFlags {
    /// The rights as the device encodes them (data-path 6.2): local read always; a remote right
    /// implies the local one, as in existing drivers.
    pub(crate) fn rights(self) -> Access {
        let mut rights = Access::LOCAL_READ;
        if self.contains(Self::LOCAL_WRITE) {
            rights |= Access::LOCAL_WRITE;
        }
        if self.contains(Self::REMOTE_READ) {
            rights |= Access::REMOTE_READ;
        }
        if self.contains(Self::REMOTE_WRITE) {
            rights |= Access::REMOTE_WRITE | Access::LOCAL_WRITE;
        }
        rights.set(Access::BIND, self.contains(Self::MW_BIND));
        rights
    }

    /// Checks whether a region can have these rights.
    pub(crate) fn check(self, windows: bool) -> Result<()> {
        if self.contains(Self::REMOTE_WRITE) && !self.contains(Self::LOCAL_WRITE) {
            return Err(Error::Invalid {
                what: "a region that peers may write needs LOCAL_WRITE too",
            });
        }
        if self.contains(Self::REMOTE_ATOMIC) {
            return Err(Unsupported::Atomics.into());
        }
        if self.contains(Self::MW_BIND) && !windows {
            return Err(Unsupported::MemoryWindows.into());
        }
        Ok(())
    }

    /// How the device has to reach the memory.
    pub(crate) const fn device(self) -> e810_hal::Access {
        if self.contains(Self::LOCAL_WRITE) {
            e810_hal::Access::ReadWrite
        } else {
            e810_hal::Access::Read
        }
    }
}

/// Memory to register.
#[derive(Clone, Copy, Debug)]
pub enum MrMemory {
    /// Of this process.
    Own(SharedBytes),
    /// Of another one that the platform reaches.
    Program(ProgramBytes),
}

impl From<SharedBytes> for MrMemory {
    fn from(memory: SharedBytes) -> Self {
        Self::Own(memory)
    }
}

impl From<ProgramBytes> for MrMemory {
    fn from(memory: ProgramBytes) -> Self {
        Self::Program(memory)
    }
}

impl MrMemory {
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Own(memory) => memory.address(),
            Self::Program(memory) => memory.address,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Own(memory) => memory.len(),
            Self::Program(memory) => memory.len,
        }
    }

    pub(crate) fn map<P: Platform>(
        self,
        platform: &P,
        access: AccessFlags,
    ) -> Result<Mapping, DmaError> {
        match self {
            Self::Own(memory) => platform.dma_map(memory, access.device()),
            Self::Program(memory) => platform.dma_map_program(memory, access.device()),
        }
    }
}

/// User handle to a registered memory region.
///
/// The memory stays registered, and lent, until [`Control::dereg_mr`](crate::Control::dereg_mr)
/// has taken this value back. If a region is dropped, it stays registered for good: peers that
/// have its key can still use it, and the memory must never be freed ([`SharedBytes::new`]).
#[derive(Debug)]
#[must_use = "a memory region is deregistered with Control::dereg_mr"]
#[doc(alias = "ibv_mr")]
pub struct Mr<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) stag: u32,
    pub(crate) pd: u32,
    pub(crate) access: AccessFlags,
    pub(crate) memory: MrMemory,
    /// The address of the first byte for SGEs and peers, unless the region is zero-based.
    pub(crate) iova: u64,
    pub(crate) mapping: Mapping,
    pub(crate) pages: Described<P>,
}

/// How a region's memory is described to the device.
#[derive(Debug)]
pub(crate) struct Described<P: Platform> {
    pub(crate) size: PageSize,
    pub(crate) pages: Pages,
    pub(crate) list: Option<PbleList<P>>,
}

/// What [`Control::rereg_mr`](crate::Control::rereg_mr) changes; nothing by
/// default.
#[derive(Clone, Copy, Debug, Default)]
pub struct MrChange<'a> {
    /// Another protection domain.
    pub pd: Option<&'a Pd>,
    /// Other rights.
    pub access: Option<AccessFlags>,
    /// Other memory.
    pub memory: Option<MrMemory>,
    /// Another address for its first byte, as in
    /// [`Control::reg_mr_iova`](crate::Control::reg_mr_iova). Without it, other memory is named
    /// by its own address.
    pub iova: Option<u64>,
    /// Gives the region new keys. The previous keys are refused for the next 255
    /// registrations under the region's index. Otherwise the keys stay.
    pub new_key: bool,
}

impl MrChange<'_> {
    /// Memory of the changed region, and the address of its first byte.
    pub(crate) fn place<P: Platform>(&self, mr: &Mr<P>) -> (MrMemory, u64) {
        let (memory, address) = match self.memory {
            Some(memory) => (memory, memory.address()),
            None => (mr.memory, mr.iova),
        };
        (memory, self.iova.unwrap_or(address))
    }
}

/// A region that could not be changed.
#[derive(Debug)]
pub struct ReregError<P: Platform> {
    /// Why.
    pub error: Error,
    /// The region, if it still is what it was. `None` if the device had already removed it and
    /// did not accept it again: its memory is then unmapped, unless the device did not answer.
    pub mr: Option<Mr<P>>,
}

impl<P: Platform> ReregError<P> {
    pub(crate) const fn kept(error: Error, mr: Mr<P>) -> Self {
        Self {
            error,
            mr: Some(mr),
        }
    }
}

impl<P: Platform> core::fmt::Display for ReregError<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}

impl<P: Platform> Mr<P> {
    /// Key for local use: what an [`Sge`](crate::Sge) names.
    #[must_use]
    pub const fn lkey(&self) -> u32 {
        self.stag
    }

    /// Key for peers; the same number on this device (data-path 6.1).
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.stag
    }

    /// Address of the first byte, as SGEs and peers name it; 0 for a zero-based region.
    #[must_use]
    pub fn address(&self) -> u64 {
        if self.access.contains(AccessFlags::ZERO_BASED) {
            0
        } else {
            self.iova
        }
    }

    /// What may be done with it.
    #[must_use]
    pub const fn access(&self) -> AccessFlags {
        self.access
    }

    /// Size of its pages in the device, in bytes: 4096, 2 MiB or 1 GiB.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.pages.size.bytes()
    }

    /// Page list entries (PBLEs) that it takes; none if its memory is one piece for the device.
    #[must_use]
    pub fn page_entries(&self) -> u32 {
        self.pages.list.as_ref().map_or(0, PbleList::pages)
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.memory.len()
    }

    /// Unmaps its memory without a command to the device, after the function was reset: see
    /// [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self, platform: &P) {
        // Its page list goes with the HMC.
        platform.dma_unmap(self.mapping);
    }

    /// Whether it has no bytes; always false, because an empty region is refused.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.memory.len() == 0
    }
}
