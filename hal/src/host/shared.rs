//! One value in host memory, shared by cloning.

use core::marker::PhantomData;
use core::mem::{align_of, size_of};
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use core::{fmt, mem};

use super::{HostMem, NoHostMemory};

/// A value that the parts of a device share, as with an `Arc` where there is an allocator:
/// dropped with its last clone. For values that are not words, and so have no place in a
/// [`HostBuf`](super::HostBuf).
pub struct HostShared<P: HostMem, T> {
    platform: P,
    /// Word 0 counts the clones; the value follows.
    memory: NonNull<AtomicU64>,
    _value: PhantomData<T>,
}

// SAFETY: the value is reached from any clone, on any thread, and dropped by the
// last of them, wherever that is; the count in word 0 is atomic.
unsafe impl<P: HostMem + Send, T: Send + Sync> Send for HostShared<P, T> {}
// SAFETY: as above; `&HostShared` gives out `&T`, and clones.
unsafe impl<P: HostMem + Sync, T: Send + Sync> Sync for HostShared<P, T> {}

impl<P: HostMem, T> HostShared<P, T> {
    /// Words for the count and the value.
    const WORDS: usize = {
        assert!(
            align_of::<T>() <= align_of::<AtomicU64>(),
            "host memory is aligned to 8 bytes"
        );
        1 + size_of::<T>().div_ceil(size_of::<AtomicU64>())
    };

    /// Puts `value` into host memory.
    ///
    /// # Errors
    /// [`NoHostMemory`]; the value is dropped.
    pub fn new(platform: P, value: T) -> Result<Self, NoHostMemory> {
        let memory = platform.host_alloc(Self::WORDS)?;
        let this = Self {
            platform,
            memory,
            _value: PhantomData,
        };
        this.count().store(1, Ordering::Relaxed);
        // SAFETY: behind word 0 there is room for a `T`, aligned (see `WORDS`),
        // which nobody else knows yet; what is there has no destructor.
        unsafe { this.value().write(value) };
        Ok(this)
    }

    /// Mutable access to the value, while there is no other clone.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // Acquire: everything that dropped clones did happened before.
        if self.count().load(Ordering::Acquire) != 1 {
            return None;
        }
        // SAFETY: `new` wrote the value; this is the only clone, borrowed as a
        // whole, so nobody else reaches it and no clone is made meanwhile.
        Some(unsafe { self.value().as_mut() })
    }

    fn count(&self) -> &AtomicU64 {
        // SAFETY: word 0 of an allocation that lives until the last clone goes.
        unsafe { self.memory.as_ref() }
    }

    fn value(&self) -> NonNull<T> {
        // SAFETY: the allocation has `WORDS` words, more than one unless `T` has
        // no size; then this is one past its end, which may be computed.
        unsafe { self.memory.add(1) }.cast()
    }
}

impl<P: HostMem, T> Deref for HostShared<P, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `new` wrote the value, and only the last clone drops it.
        unsafe { self.value().as_ref() }
    }
}

impl<P: HostMem + Clone, T> Clone for HostShared<P, T> {
    fn clone(&self) -> Self {
        // Relaxed: see `HostBuf`.
        self.count().fetch_add(1, Ordering::Relaxed);
        Self {
            platform: self.platform.clone(),
            memory: self.memory,
            _value: PhantomData,
        }
    }
}

impl<P: HostMem, T> Drop for HostShared<P, T> {
    fn drop(&mut self) {
        if self.count().fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: the count said that this was the last clone; the value was
        // written by `new` and is dropped once. Then the allocation of `new` is
        // given back with its size.
        unsafe {
            if mem::needs_drop::<T>() {
                self.value().drop_in_place();
            }
            self.platform.host_free(self.memory, Self::WORDS);
        }
    }
}

impl<P: HostMem, T: fmt::Debug> fmt::Debug for HostShared<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Heap;
    use super::*;
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn the_value_is_dropped_with_the_last_clone() {
        let heap = Heap::default();
        let inside = Arc::new(5);
        let shared = HostShared::new(heap, (Arc::clone(&inside), 7_u8)).unwrap();
        let other = shared.clone();
        let thread = std::thread::spawn(move || *other.0 + i32::from(other.1));
        assert_eq!(thread.join().unwrap(), 12);
        assert_eq!(Arc::strong_count(&inside), 2);
        drop(shared);
        assert_eq!(Arc::strong_count(&inside), 1);
    }

    #[test]
    fn the_only_clone_can_change_the_value() {
        let mut shared = HostShared::new(Heap::default(), 5).unwrap();
        *shared.get_mut().unwrap() += 1;
        let other = shared.clone();
        assert_eq!(shared.get_mut(), None);
        drop(other);
        assert_eq!(shared.get_mut(), Some(&mut 6));
    }

    #[test]
    fn without_memory_the_value_is_not_leaked() {
        let inside = Arc::new(());
        let many: Vec<_> = (0..200).map(|_| Arc::clone(&inside)).collect();
        let many: [Arc<()>; 200] = many.try_into().unwrap();
        assert!(HostShared::new(Heap::default(), many).is_err());
        assert_eq!(Arc::strong_count(&inside), 1);
    }

    #[test]
    fn a_value_may_have_no_size() {
        let shared = HostShared::new(Heap::default(), ()).unwrap();
        assert_eq!(*shared, ());
        drop(shared.clone());
    }
}
