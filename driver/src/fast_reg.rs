//! Fast-registered regions and memory windows, which work requests fill.

use e810_cqp::hmc::PbleList;
use e810_hal::{Mapping, Platform};

/// A region without memory. A [`FastRegister`](crate::FastRegister) request gives it memory, and
/// a local or remote invalidation takes the memory away.
///
/// The order is: call [`Control::map_fast_mr`](crate::Control::map_fast_mr), post the request
/// that it returns, use the key, invalidate it, and when that is completed call
/// [`Control::unmap_fast_mr`](crate::Control::unmap_fast_mr). If a region is dropped, its memory
/// stays mapped, and lent, for good.
#[derive(Debug)]
#[must_use = "a region is freed with Control::free_fast_mr"]
pub struct FastMr<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) index: u32,
    pub(crate) key: u8,
    pub(crate) pd: u32,
    pub(crate) list: PbleList<P>,
    pub(crate) mapping: Option<Mapping>,
}

impl<P: Platform> FastMr<P> {
    /// The key that the last mapping gave it, for SGEs and for peers.
    #[must_use]
    pub const fn key(&self) -> u32 {
        self.index << 8 | self.key as u32
    }

    /// Pages of 4 KiB that it has room for.
    #[must_use]
    pub fn max_pages(&self) -> u32 {
        self.list.pages()
    }

    /// Whether memory is mapped for it.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        self.mapping.is_some()
    }

    /// Unmaps its memory without a command to the device, after the function was reset: see
    /// [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self, platform: &P) {
        if let Some(mapping) = self.mapping {
            platform.dma_unmap(mapping);
        }
    }
}

/// Type of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MwType {
    /// Bound by verbs; the device chooses its key.
    Type1,
    /// Bound by a work request, which chooses the key's low byte.
    Type2,
}

/// A memory window: part of a region, opened to peers by a
/// [`MwBind`](crate::MwBind) request.
#[derive(Debug)]
#[must_use = "a memory window is deallocated with Control::dealloc_mw"]
#[doc(alias = "ibv_mw")]
pub struct Mw {
    pub(crate) owner: u64,
    pub(crate) index: u32,
    pub(crate) pd: u32,
    pub(crate) kind: MwType,
}

impl Mw {
    /// Its key, with low byte 0.
    #[must_use]
    pub const fn stag(&self) -> u32 {
        self.index << 8
    }

    /// Its type.
    #[must_use]
    pub const fn kind(&self) -> MwType {
        self.kind
    }
}
