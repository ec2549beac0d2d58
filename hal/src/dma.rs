//! Memory the device can read and write: allocation, ownership, word view.
//!
//! A [`DmaBuf`] is coherent, zeroed when handed out, and addressed by the device through an
//! [`Iova`] that is unrelated to its virtual address. Dropping one does **not** free it: a device
//! that was not quiesced might still write there. [`DmaBuf::release`] frees it; the code that has
//! stopped the device calls it.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use crate::log_warn;
use crate::map::Access;
use crate::words::DmaWords;

/// An address as the device sees it (after the IOMMU, before memory).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Iova(pub u64);

impl Iova {
    /// The address `bytes` further on, or `None` past the end of the space.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }
}

impl fmt::Display for Iova {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Size and alignment of a requested DMA allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DmaLayout {
    bytes: usize,
    align: usize,
}

impl DmaLayout {
    /// `bytes` (rounded up to whole 64-bit words, at least one) aligned to `align` (rounded up to
    /// a power of two, at least 8). The alignment holds for the IOVA. A value that cannot be
    /// rounded up becomes larger than any allocator has, and is refused there.
    #[must_use]
    pub const fn new(bytes: usize, align: usize) -> Self {
        let bytes = if bytes < 8 { 8 } else { bytes };
        let bytes = match bytes.checked_next_multiple_of(8) {
            Some(bytes) => bytes,
            // Not allocatable; the allocator refuses it.
            None => usize::MAX & !7,
        };
        let align = match align.checked_next_power_of_two() {
            Some(align) if align >= 8 => align,
            Some(_) => 8,
            // As above.
            None => 1 << (usize::BITS - 1),
        };
        Self { bytes, align }
    }

    /// Bytes, a multiple of 8.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Alignment of the IOVA in bytes, a power of two, at least 8.
    #[must_use]
    pub const fn align(self) -> usize {
        self.align
    }
}

/// Why memory could not be given to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DmaError {
    /// No memory, or no IOVA space, for that size and alignment.
    #[error(
        "no DMA memory for {bytes} bytes aligned to {align}: give the allocator more (in user space also: raise the memlock limit), or ask for less"
    )]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// Alignment asked for.
        align: usize,
    },
    /// The memory to map is empty, or wraps the address space.
    #[error("cannot map {bytes} bytes at {address:#x} for the device: the range is empty or wraps")]
    BadRange {
        /// Virtual address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
    },
    /// The platform refused the mapping, for a reason that has no name below.
    #[error("the platform refused to map {bytes} bytes at {address:#x} for the device")]
    Refused {
        /// Virtual address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
    },
    /// Part of the memory to map does not exist, or may not be used like that.
    #[error(
        "the {bytes} bytes at {address:#x} are not all memory that this process may {}: map them first{}",
        if *.access == Access::Read { "read" } else { "write" },
        if *.access == Access::Read { "" } else { ", or register what is read-only without the right to write" }
    )]
    NotAccessible {
        /// Virtual address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
        /// The access that the device was to have.
        access: Access,
    },
    /// A kernel locks memory that a device reaches, and the process may not lock that much
    /// (RLIMIT_MEMLOCK).
    #[error(
        "{bytes} bytes are more than this process may still lock: RLIMIT_MEMLOCK is {limit} bytes{}; for these `ulimit -l {}` (KiB, in the shell that starts the program, as root) or LimitMEMLOCK={}K of its service is enough",
        InUse(*.in_use),
        needed_kib(*.bytes, *.in_use),
        needed_kib(*.bytes, *.in_use)
    )]
    LockLimit {
        /// Bytes asked for, in whole pages.
        bytes: usize,
        /// The limit in bytes.
        limit: u64,
        /// Bytes locked already, where the kernel says.
        in_use: Option<u64>,
    },
    /// No I/O addresses are left.
    #[error(
        "no I/O addresses are left for {bytes} bytes: deregister memory that is not used, the IOMMU gives this function no more"
    )]
    NoAddresses {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The kernel takes no further mapping for the device.
    #[error(
        "the kernel takes no further mapping ({bytes} bytes): vfio_iommu_type1 takes 65,535 for a container unless its parameter dma_entry_limit says otherwise; write a larger number to /sys/module/vfio_iommu_type1/parameters/dma_entry_limit before the function is opened, or register fewer and larger pieces"
    )]
    TooManyMappings {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The device is another process, which can only be given files, and this memory has none.
    #[error(
        "the {bytes} bytes at {address:#x} have no file behind them, which this transport needs: take payload from its own allocator"
    )]
    NoFile {
        /// Virtual address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
    },
}

/// How much is locked, as a part of a sentence.
struct InUse(Option<u64>);

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, ", {bytes} of them in use"),
            None => f.write_str(", how much is in use is not known"),
        }
    }
}

/// The limit that `bytes` more fit in, in KiB; without those in use where nobody knows them.
const fn needed_kib(bytes: usize, in_use: Option<u64>) -> u64 {
    let in_use = match in_use {
        Some(bytes) => bytes,
        None => 0,
    };
    in_use.saturating_add(bytes as u64).div_ceil(1024)
}

/// An allocation before it has an owner: what [`DmaAlloc`] returns and takes.
#[derive(Clone, Copy, Debug)]
pub struct RawDma {
    /// Address of the first byte for the device.
    pub iova: Iova,
    /// Address of the first word for the CPU.
    pub words: NonNull<AtomicU64>,
    /// Number of 64-bit words.
    pub len: usize,
}

/// Allocates memory that CPU and device both reach.
///
/// # Implementation safety
/// `dma_alloc` returns memory that is zeroed, coherent (or mapped uncached), valid for `len`
/// words of atomic access from any thread until `dma_free`, aliased by no Rust reference other
/// than `&[AtomicU64]`, at least as large as asked, with `iova` aligned as asked and the whole
/// range mapped for the device to read and write. `dma_free` takes the mapping away from the
/// device before the memory is used for anything else, as far as the IOMMU can. If there is no
/// IOMMU, or its pages hold other live allocations too, this is up to the caller, who has stopped
/// the device. A clone of the implementor is the same platform: any clone takes back what another
/// gave.
pub unsafe trait DmaAlloc {
    /// Allocates.
    ///
    /// # Errors
    /// [`DmaError::OutOfMemory`]; [`DmaError::LockLimit`] or [`DmaError::TooManyMappings`] if the
    /// platform knows that this is the reason.
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError>;

    /// Gives an allocation back.
    ///
    /// # Safety
    /// `raw` came from `dma_alloc` of this same platform (a clone counts), was not
    /// freed before, no reference to its words is left, and the device has been
    /// told to let go of it, or was reset.
    unsafe fn dma_free(&self, raw: RawDma);
}

/// An owned piece of DMA memory. See the [module documentation](self).
#[must_use = "dropping DMA memory leaks it; call release() once the device is quiet"]
pub struct DmaBuf<P: DmaAlloc> {
    platform: P,
    raw: RawDma,
}

// SAFETY: `raw.words` points to memory that, by the contract of `DmaAlloc`,
// may be accessed atomically from any thread; nothing else in here is shared.
unsafe impl<P: DmaAlloc + Send> Send for DmaBuf<P> {}
// SAFETY: as above; `&DmaBuf` only gives out `&[AtomicU64]`.
unsafe impl<P: DmaAlloc + Sync> Sync for DmaBuf<P> {}

impl<P: DmaAlloc> DmaBuf<P> {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// As [`DmaAlloc::dma_alloc`].
    pub fn new(platform: P, layout: DmaLayout) -> Result<Self, DmaError> {
        let raw = platform.dma_alloc(layout)?;
        Ok(Self { platform, raw })
    }

    /// Device address of the first byte.
    #[inline(always)]
    pub fn iova(&self) -> Iova {
        self.raw.iova
    }

    /// Size in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        // `len` words exist in memory, so their byte count fits.
        self.raw.len.wrapping_mul(8)
    }

    /// Frees the memory. The device must no longer use it: the caller has
    /// destroyed the object that named it, or reset the function.
    pub fn release(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after the next statement and never
        // dropped, so the platform has one owner.
        let platform = unsafe { core::ptr::read(&raw const this.platform) };
        // SAFETY: `raw` came from `dma_alloc` of this platform (the only
        // constructor), `self` is consumed so it is freed once, and every
        // borrow of the words ended with the borrow of `self`. That the device
        // is done with it the text above asks for; the crates that name memory
        // to a device hold to it in each place.
        unsafe { platform.dma_free(this.raw) }
    }
}

impl<P: DmaAlloc> Drop for DmaBuf<P> {
    /// Says that the memory is leaked.
    fn drop(&mut self) {
        log_warn!(
            "{} bytes of DMA memory at {} are not freed: the device may still use them",
            self.bytes(),
            self.raw.iova
        );
    }
}

/// Neither the words nor the platform, which every object of a device has.
impl<P: DmaAlloc> fmt::Debug for DmaBuf<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DmaBuf({} bytes at {})", self.bytes(), self.raw.iova)
    }
}

impl<P: DmaAlloc> DmaWords for DmaBuf<P> {
    type Word = AtomicU64;
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the contract of `DmaAlloc` gives `len` words, valid for
        // atomic access until freed, and freeing consumes `self`.
        unsafe { core::slice::from_raw_parts(self.raw.words.as_ptr(), self.raw.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_whole_words_and_powers_of_two() {
        assert_eq!(DmaLayout::new(0, 0), DmaLayout::new(8, 8));
        assert_eq!(DmaLayout::new(9, 3).bytes(), 16);
        assert_eq!(DmaLayout::new(9, 500).align(), 512);
        let largest = DmaLayout::new(usize::MAX, usize::MAX);
        assert_eq!(largest.bytes(), usize::MAX & !7);
        assert_eq!(largest.align(), 1 << (usize::BITS - 1), "and not 8");
    }

    /// What a program is to do is in the text.
    #[test]
    fn a_refused_mapping_says_what_to_do() {
        let (address, bytes) = (0x1000, 8192);
        let text = |error: DmaError| std::string::ToString::to_string(&error);
        let limit = 8 << 20;
        let in_use = Some(limit - 4096);
        let locked = text(DmaError::LockLimit {
            bytes,
            limit,
            in_use,
        });
        for part in [
            "RLIMIT_MEMLOCK is 8388608 bytes, 8384512 of them in use;",
            "`ulimit -l 8196`",
            "LimitMEMLOCK=8196K",
        ] {
            assert!(locked.contains(part), "{part}: {locked}");
        }
        let in_use = None;
        let locked = text(DmaError::LockLimit {
            bytes,
            limit,
            in_use,
        });
        assert!(locked.contains("8388608 bytes, how much is in use is not known; "));
        assert!(locked.contains("`ulimit -l 8`"), "{locked}");
        let access = Access::ReadWrite;
        let not_accessible = |access| {
            text(DmaError::NotAccessible {
                address,
                bytes,
                access,
            })
        };
        assert!(not_accessible(access).contains("may write: map them first, or register"));
        assert!(not_accessible(Access::Read).ends_with("may read: map them first"));
        let many = text(DmaError::TooManyMappings { bytes });
        assert!(many.contains("65,535") && many.contains("dma_entry_limit"));
    }

    #[test]
    fn iovas_do_not_wrap() {
        assert_eq!(Iova(1).offset(2), Some(Iova(3)));
        assert_eq!(Iova(u64::MAX).offset(1), None);
    }
}
