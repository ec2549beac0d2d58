//! A real BAR0: the only place where registers are memory.

use core::ptr::NonNull;

use volatile_register::RW;

use crate::bus::{BAR0_LEN, Bus, RegOffset};

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
        // SAFETY: allocated above with this layout; `bar` is not used again.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
