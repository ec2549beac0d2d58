//! Memory the device cannot see: tables and trackers, sized at run time.
//!
//! The core has no allocator. What it must remember for each queue or id lives in a [`HostBuf`]:
//! zeroed 64-bit atomic words, shared between the parts of a device by cloning, freed when the
//! last clone is dropped (the device cannot reach it, so dropping is safe at any time).

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};

mod boxed;
mod list;
mod shared;
mod view;

pub use boxed::{HostBox, HostUninit};
pub use list::HostList;
pub use shared::HostShared;
pub use view::HostView;

/// The platform has no more host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no host memory for {words} words of 8 bytes: enlarge the arena, or ask for a smaller capacity"
)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoHostMemory {
    /// 64-bit words asked for.
    pub words: usize,
}

/// Gives out zeroed memory that the device cannot see.
///
/// # Implementation safety
/// `host_alloc` returns memory that is zeroed, aligned to 8, valid for `words`
/// atomic words from any thread until `host_free`, and handed to nobody else.
/// A clone of the implementor is the same platform: what one gave any takes back.
pub unsafe trait HostMem {
    /// Allocates `words` zeroed 64-bit words.
    ///
    /// # Errors
    /// [`NoHostMemory`].
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory>;

    /// Gives memory back.
    ///
    /// # Safety
    /// `memory` and `words` are what one earlier `host_alloc` of this platform (a
    /// clone counts) was given and returned; it was not freed before and nothing
    /// refers to it.
    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize);
}

/// Shared zeroed words. See the [module documentation](self).
///
/// Values are in host order: use plain atomic operations, not
/// [`DmaWord`](crate::DmaWord).
pub struct HostBuf<P: HostMem> {
    platform: P,
    /// Word 0 counts the clones; the user's words follow.
    memory: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the words are atomic and, by the contract of `HostMem`, usable from
// any thread; the count in word 0 decides alone who frees.
unsafe impl<P: HostMem + Send> Send for HostBuf<P> {}
// SAFETY: as above.
unsafe impl<P: HostMem + Sync> Sync for HostBuf<P> {}

impl<P: HostMem> HostBuf<P> {
    /// Allocates `len` zeroed words (plus one for the count).
    ///
    /// # Errors
    /// [`NoHostMemory`].
    pub fn new(platform: P, len: usize) -> Result<Self, NoHostMemory> {
        let all = len.checked_add(1).ok_or(NoHostMemory { words: len })?;
        let memory = platform.host_alloc(all)?;
        let this = Self {
            platform,
            memory,
            len,
        };
        this.count().store(1, Ordering::Relaxed);
        Ok(this)
    }

    /// The words.
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `host_alloc` gave `len + 1` words, alive until the last
        // clone is dropped; the slice borrows `self`, one of the clones.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr().add(1), self.len) }
    }

    /// Word `index`, or `None` outside.
    #[inline(always)]
    pub fn word(&self, index: usize) -> Option<&AtomicU64> {
        self.words().get(index)
    }

    fn count(&self) -> &AtomicU64 {
        // SAFETY: word 0 of a live allocation, see `words`.
        unsafe { self.memory.as_ref() }
    }
}

impl<P: HostMem + Clone> Clone for HostBuf<P> {
    fn clone(&self) -> Self {
        // Relaxed: a new clone is made from an existing one, which keeps the
        // memory alive meanwhile (as in `Arc`).
        self.count().fetch_add(1, Ordering::Relaxed);
        Self {
            platform: self.platform.clone(),
            memory: self.memory,
            len: self.len,
        }
    }
}

impl<P: HostMem> Drop for HostBuf<P> {
    fn drop(&mut self) {
        // Release on every drop, acquire before the free: all uses of the
        // memory by other clones happen before it is given back.
        if self.count().fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: the count said this was the last clone; size and pointer
            // are those of the one `host_alloc` in `new`, of a platform that this
            // one is a clone of: the same (contract of `HostMem`).
            unsafe {
                self.platform
                    .host_free(self.memory, self.len.wrapping_add(1));
            }
        }
    }
}

/// Neither the words nor the platform, which every object of a device has.
impl<P: HostMem> fmt::Debug for HostBuf<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuf({} words)", self.len)
    }
}

impl<P: HostMem> AsRef<[AtomicU64]> for HostBuf<P> {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::vec::Vec;

    #[derive(Clone, Default)]
    pub(super) struct Heap(Arc<AtomicU64>);

    impl Heap {
        /// Allocations that were not given back.
        pub(super) fn live(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    // SAFETY: each call leaks a fresh zeroed vector, which `host_free` takes back.
    unsafe impl HostMem for Heap {
        fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
            if words > 100 {
                return Err(NoHostMemory { words });
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
            let memory = std::boxed::Box::leak(memory.into_boxed_slice());
            Ok(NonNull::from(memory).cast())
        }
        unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
            let slice = core::ptr::slice_from_raw_parts_mut(memory.as_ptr(), words);
            // SAFETY: leaked by `host_alloc` with this length (contract).
            drop(unsafe { std::boxed::Box::from_raw(slice) });
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_clone_frees_from_any_thread() {
        let heap = Heap::default();
        let buf = HostBuf::new(heap.clone(), 3).unwrap();
        assert_eq!(buf.words().len(), 3);
        assert!(buf.word(3).is_none());
        let other = buf.clone();
        let thread = std::thread::spawn(move || {
            other.words()[2].store(9, Ordering::Relaxed);
            drop(other);
        });
        thread.join().unwrap();
        assert_eq!(buf.words()[2].load(Ordering::Relaxed), 9);
        assert_eq!(heap.live(), 1);
        drop(buf);
        assert_eq!(heap.live(), 0);
    }

    #[test]
    fn no_memory_is_an_error() {
        assert!(HostBuf::new(Heap::default(), 200).is_err());
        assert!(HostBuf::new(Heap::default(), usize::MAX).is_err());
    }
}
