//! Protection domains, memory regions, and what they allow.

use bitflags::bitflags;

use e810_cqp::hmc::PbleList;
use e810_cqp::op::Access;
use e810_hal::{Mapping, Platform, SharedBytes};

bitflags! {
    /// What may be done with a memory region, or through a queue pair. Local
    /// reading is always allowed.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct AccessFlags: u8 {
        /// The device may write on our behalf (receives, READ responses).
        const LOCAL_WRITE = 1 << 0;
        /// Peers may write; needs [`AccessFlags::LOCAL_WRITE`] on a region.
        const REMOTE_WRITE = 1 << 1;
        /// Peers may read.
        const REMOTE_READ = 1 << 2;
    }
}

impl AccessFlags {
    /// The rights as the device has them (data-path 6.2): local read always;
    /// a remote right brings the local one along, as existing drivers do.
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
        rights
    }
}

/// A protection domain: regions and queue pairs of different ones do not meet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a protection domain is given back with Control::dealloc_pd"]
pub struct Pd {
    pub(crate) id: u32,
    pub(crate) owner: u64,
}

impl Pd {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }
}

/// A registered memory region.
///
/// The memory stays registered, and must stay alive, until
/// [`Control::dereg_mr`](crate::Control::dereg_mr) has taken this value back.
#[derive(Debug)]
#[must_use = "a memory region is given back with Control::dereg_mr"]
pub struct Mr<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) stag: u32,
    pub(crate) pd: u32,
    pub(crate) memory: SharedBytes,
    pub(crate) mapping: Mapping,
    pub(crate) list: Option<PbleList<P>>,
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

    /// Address of the first byte, as SGEs and peers name it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.memory.len()
    }

    /// Unmaps its memory without a word to the device, after the function was
    /// reset: see [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self, platform: &P) {
        // Its page list goes with the HMC.
        platform.dma_unmap(self.mapping);
    }

    /// Whether there is no byte; never so, an empty region is refused.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }
}
