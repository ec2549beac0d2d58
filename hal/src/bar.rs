//! A real BAR0, or its doorbell page alone: the only places where registers are memory.

use core::ptr::NonNull;

use volatile_register::RW;

use crate::bus::{BAR0_LEN, Bus, RegOffset};
use crate::regs::{
    DB_CQ_ARM, DB_WQE_ALLOC, DOORBELL_CQ_ARM, DOORBELL_PAGE_LEN, DOORBELL_WQE_ALLOC, PFPE_CQARM,
    PFPE_WQEALLOC,
};

/// BAR0 mapped into this address space.
///
/// The length is checked once, here; [`RegOffset`] is checked when it is made. So an access has
/// no branch and compiles to one `mov`.
#[derive(Clone, Copy, Debug)]
pub struct Bar0 {
    base: NonNull<u8>,
}

// SAFETY: a device's registers may be accessed from any thread, also at one time:
// they are no memory of the program. The contract of `new` keeps the mapping
// alive, and allows memory in their place to one thread at a time.
unsafe impl Send for Bar0 {}
// SAFETY: as above.
unsafe impl Sync for Bar0 {}

impl Bar0 {
    /// Wraps a mapping of `len` bytes at `base`; `None` when it is shorter
    /// than [`BAR0_LEN`] or not 4-aligned.
    ///
    /// # Safety
    /// `base` points to `len` bytes of BAR0 of an E810, mapped uncached, that stay mapped while
    /// any copy is used.
    ///
    /// Registers start DMA and interrupts, at addresses that are written there. A holder of the
    /// value, or of a copy, is trusted with all memory that the function reaches: what an IOMMU
    /// lets it reach, and without an IOMMU all memory.
    ///
    /// Memory may stand in for the registers if one thread at a time uses all copies: these
    /// accesses are not atomic.
    #[must_use]
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Option<Self> {
        let aligned = base.addr().get().is_multiple_of(4);
        (aligned && len >= BAR0_LEN as usize).then_some(Self { base })
    }

    #[inline(always)]
    fn register(&self, off: RegOffset) -> &RW<u32> {
        // SAFETY: `off` is 4-aligned and below `BAR0_LEN` by construction, the
        // mapping is at least that long and aligned (checked in `new`). The
        // reference exists for this one volatile access.
        unsafe { self.base.add(off.get() as usize).cast::<RW<u32>>().as_ref() }
    }
}

impl Bus for Bar0 {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        let value = u32::from_le(self.register(off).read());
        after_read();
        value
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        before_write();
        // SAFETY: writing a register has whatever effect the device gives it, on
        // memory too; a holder of this value is trusted with that (contract of
        // `new`).
        unsafe { self.register(off).write(value.to_le()) }
    }
}

/// The doorbell page alone, mapped into this address space: the registers of a process that has
/// queues, but not the function.
///
/// Doorbells go to the page, whether they are written to it or to the registers of the function's
/// owner. Other registers are as of a device that is not there.
#[derive(Clone, Copy, Debug)]
pub struct DoorbellPage {
    base: NonNull<u8>,
}

// SAFETY: as for `Bar0`.
unsafe impl Send for DoorbellPage {}
// SAFETY: as above.
unsafe impl Sync for DoorbellPage {}

impl DoorbellPage {
    /// Wraps a mapping of the page, `len` bytes at `base`; `None` when it is shorter than
    /// [`DOORBELL_PAGE_LEN`] or not 4-aligned.
    ///
    /// # Safety
    /// `base` points to `len` bytes of memory or of the page, which stay mapped while any copy is
    /// used, and to which any thread may write at any time. A doorbell has the device read the
    /// rings of the object that it names: a holder is trusted with the memory that those rings
    /// name.
    #[must_use]
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Option<Self> {
        let aligned = base.addr().get().is_multiple_of(4);
        (aligned && len >= DOORBELL_PAGE_LEN as usize).then_some(Self { base })
    }
}

impl Bus for DoorbellPage {
    #[inline(always)]
    fn read32(&self, _: RegOffset) -> u32 {
        u32::MAX
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        let place = if off == PFPE_WQEALLOC.off() || off == DB_WQE_ALLOC.off() {
            DOORBELL_WQE_ALLOC
        } else if off == PFPE_CQARM.off() || off == DB_CQ_ARM.off() {
            DOORBELL_CQ_ARM
        } else {
            return;
        };
        before_write();
        // SAFETY: a place in the page, which is mapped and aligned (checked in `new`); what the
        // write does a holder is trusted with. The reference exists for this one volatile access.
        unsafe {
            let register = self.base.add(place as usize).cast::<RW<u32>>().as_ref();
            register.write(value.to_le());
        }
    }
}

// riscv64 orders accesses to devices and to memory separately; the barriers of `Barrier` are for
// memory only. On other CPUs they order both.

#[cfg(not(all(target_arch = "riscv64", not(miri))))]
#[inline(always)]
const fn before_write() {}

#[cfg(not(all(target_arch = "riscv64", not(miri))))]
#[inline(always)]
const fn after_read() {}

/// Stores to memory are visible before the register is written.
#[cfg(all(target_arch = "riscv64", not(miri)))]
#[inline(always)]
fn before_write() {
    // SAFETY: `fence w, o` has no operands and touches no memory; without `nomem`
    // the compiler keeps all accesses on their side of it.
    unsafe { core::arch::asm!("fence w, o", options(nostack, preserves_flags)) }
}

/// The register is read before any later access.
#[cfg(all(target_arch = "riscv64", not(miri)))]
#[inline(always)]
fn after_read() {
    // SAFETY: as in `before_write`.
    unsafe { core::arch::asm!("fence i, ir", options(nostack, preserves_flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    #[test]
    fn registers_are_little_endian_words_of_the_mapping() {
        let layout = Layout::from_size_align(BAR0_LEN as usize, 4096).unwrap();
        // SAFETY: the layout has a size; freed below with the same layout.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        // SAFETY: that many bytes, alive until `dealloc`, used by this thread.
        let bar = unsafe { Bar0::new(base, BAR0_LEN as usize) }.unwrap();
        bar.write32(RegOffset::new(0x50_0800), 0x0102_0304);
        assert_eq!(bar.read32(RegOffset::new(0x50_0800)), 0x0102_0304);
        // SAFETY: inside the allocation.
        let first = unsafe { base.add(0x50_0800).read() };
        assert_eq!(first, 4);
        // SAFETY: no access follows a `None`.
        assert!(unsafe { Bar0::new(base, 4096) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { Bar0::new(base.add(1), usize::MAX) }.is_none());
        // SAFETY: that many bytes, alive until `dealloc`, used by this thread.
        let page = unsafe { DoorbellPage::new(base, 4096) }.unwrap();
        for (off, value, at) in [
            (PFPE_WQEALLOC.off(), 1, 0),
            (DB_WQE_ALLOC.off(), 2, 0),
            (PFPE_CQARM.off(), 3, 0x40),
            (DB_CQ_ARM.off(), 4, 0x40),
            (RegOffset::new(0x40), 5, 0x40),
        ] {
            page.write32(off, value);
            let written = bar.read32(RegOffset::new(at));
            assert_eq!(written == value, value < 5, "{off}");
            assert_eq!(page.read32(off), u32::MAX);
        }
        // SAFETY: no access follows a `None`.
        assert!(unsafe { DoorbellPage::new(base, 4095) }.is_none());
        // SAFETY: allocated above with this layout; neither is used again.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
