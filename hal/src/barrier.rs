//! Ordering between the CPU and the device, with one name for each use.
//!
//! DMA memory is ordinary write-back memory on x86_64, where stores to it are
//! observed in order and loads from it are not reordered with one another: a
//! compiler fence is enough in both directions (Linux' `dma_wmb`/`dma_rmb`;
//! the `lfence` of rdma-core's user-space provider is not needed). aarch64 and
//! riscv64 reorder both.

use core::sync::atomic::{Ordering, fence};

/// Orders accesses to memory that the device shares.
///
/// The defaults are right for every supported CPU; a platform overrides them only to record them
/// (tests) or to add what its bus needs.
#[expect(
    clippy::wrong_self_convention,
    reason = "`from_device` is the field's name for this barrier; it converts nothing"
)]
pub trait Barrier {
    /// After the body of an entry, before the word with its valid bit; and
    /// after that word, before the doorbell register.
    #[inline(always)]
    fn to_device(&self) {
        to_device();
    }

    /// After a valid bit was seen, before the rest of the entry is read.
    #[inline(always)]
    fn from_device(&self) {
        from_device();
    }

    /// After stores to write-combining memory (push pages), before their
    /// doorbell. Not used elsewhere.
    #[inline(always)]
    fn flush_wc(&self) {
        flush_wc();
    }
}

#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
fn to_device() {
    // On x86_64 a release fence is a compiler fence; on riscv64 it is
    // `fence rw,w`, which does not order a following device store: there
    // `Bar0`, and any other `Bus`, has a `fence w,o` before the register.
    fence(Ordering::Release);
}

#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
fn from_device() {
    // x86_64: a compiler fence. riscv64: `fence r,rw`, which does not order what
    // follows behind a register that was read: a `Bus` has a `fence i,ir` for that.
    fence(Ordering::Acquire);
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn to_device() {
    // SAFETY: `dmb oshst` has no operands and touches no memory; without
    // `nomem` the compiler keeps all accesses on their side of it.
    unsafe { core::arch::asm!("dmb oshst", options(nostack, preserves_flags)) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn from_device() {
    // SAFETY: as in `to_device`.
    unsafe { core::arch::asm!("dmb oshld", options(nostack, preserves_flags)) }
}

#[cfg(all(target_arch = "aarch64", miri))]
#[inline(always)]
fn to_device() {
    fence(Ordering::Release);
}

#[cfg(all(target_arch = "aarch64", miri))]
#[inline(always)]
fn from_device() {
    fence(Ordering::Acquire);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn flush_wc() {
    // SAFETY: `sfence` needs SSE, which every x86_64 has; it has no operands.
    unsafe { core::arch::asm!("sfence", options(nostack, preserves_flags)) }
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline(always)]
fn flush_wc() {
    fence(Ordering::SeqCst);
}

/// The CPU's own barriers: for platforms that add nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBarrier;

impl Barrier for CpuBarrier {}
