//! A list in host memory.

use core::marker::PhantomData;
use core::mem::{align_of, size_of};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::{fmt, slice};

use super::{HostMem, NoHostMemory};

/// A list of values with a fixed capacity: the counterpart of a `Vec` of a fixed capacity where
/// there is no allocator. Moving it moves only a pointer, whatever its length.
pub struct HostList<P: HostMem, T> {
    platform: P,
    memory: NonNull<AtomicU64>,
    len: usize,
    capacity: usize,
    _values: PhantomData<T>,
}

// SAFETY: the list owns its values, and its memory may be used from any thread.
unsafe impl<P: HostMem + Send, T: Send> Send for HostList<P, T> {}
// SAFETY: `&HostList` gives out `&T` and nothing else.
unsafe impl<P: HostMem + Sync, T: Sync> Sync for HostList<P, T> {}

impl<P: HostMem, T> HostList<P, T> {
    /// An empty list with room for `capacity` values.
    ///
    /// # Errors
    /// [`NoHostMemory`].
    pub fn new(platform: P, capacity: usize) -> Result<Self, NoHostMemory> {
        const {
            assert!(
                align_of::<T>() <= align_of::<AtomicU64>(),
                "host memory is aligned to 8 bytes"
            );
        }
        let words = words::<T>(capacity).ok_or(NoHostMemory { words: capacity })?;
        let memory = platform.host_alloc(words)?;
        Ok(Self {
            platform,
            memory,
            len: 0,
            capacity,
            _values: PhantomData,
        })
    }

    /// Adds a value at the end.
    ///
    /// # Errors
    /// The value, when the list is full.
    // Values are large, and moving one in is most of it.
    #[inline(never)]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        // SAFETY: there is room for `capacity` values, aligned (see `new`), and
        // this place is below it; nothing is there that had to be dropped.
        unsafe { self.values().add(self.len).write(value) };
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Takes the last value.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: below the former length each place has a value; this one is
        // beyond the list now, so it is read once.
        Some(unsafe { self.values().add(self.len).read() })
    }

    /// Takes the value at `index`; the last value moves to its place. `None` outside.
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        if index > last {
            return None;
        }
        self.swap(index, last);
        self.pop()
    }

    /// Values that it has room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether there is no room for another value.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    const fn values(&self) -> NonNull<T> {
        self.memory.cast()
    }
}

/// Words for this many values; at least one, so that there is memory to give back.
const fn words<T>(values: usize) -> Option<usize> {
    match size_of::<T>().checked_mul(values) {
        Some(0) => Some(1),
        Some(bytes) => Some(bytes.div_ceil(size_of::<AtomicU64>())),
        None => None,
    }
}

impl<P: HostMem, T> Deref for HostList<P, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values are there, and live as long as the list is borrowed.
        unsafe { slice::from_raw_parts(self.values().as_ptr(), self.len) }
    }
}

impl<P: HostMem, T> DerefMut for HostList<P, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; the list is borrowed as a whole.
        unsafe { slice::from_raw_parts_mut(self.values().as_ptr(), self.len) }
    }
}

impl<P: HostMem, T> Drop for HostList<P, T> {
    fn drop(&mut self) {
        let values: *mut [T] = &raw mut **self;
        // SAFETY: the values of the list, which is not used any more.
        unsafe { values.drop_in_place() };
        if let Some(words) = words::<T>(self.capacity) {
            // SAFETY: `new` was given this memory for the same number of words; no
            // value is in it any more.
            unsafe { self.platform.host_free(self.memory, words) };
        }
    }
}

impl<'a, P: HostMem, T> IntoIterator for &'a HostList<P, T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, P: HostMem, T> IntoIterator for &'a mut HostList<P, T> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<P: HostMem, T: fmt::Debug> fmt::Debug for HostList<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        <[T]>::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Heap;
    use super::*;
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn values_come_and_go() {
        let mut list = HostList::new(Heap::default(), 3).unwrap();
        assert!(list.is_empty() && list.pop().is_none() && list.swap_remove(0).is_none());
        for value in [5_u16, 6, 7] {
            list.push(value).unwrap();
        }
        assert_eq!(
            (list.push(8), list.is_full(), list.capacity()),
            (Err(8), true, 3)
        );
        for value in &mut list {
            *value += 10;
        }
        assert_eq!(list[..], [15, 16, 17]);
        assert_eq!((list.swap_remove(3), list.swap_remove(0)), (None, Some(15)));
        assert_eq!((&list).into_iter().copied().collect::<Vec<_>>(), [17, 16]);
        assert_eq!(
            (list.pop(), list.swap_remove(0), list.pop()),
            (Some(16), Some(17), None)
        );
    }

    #[test]
    fn what_is_left_is_dropped_with_the_list() {
        let heap = Heap::default();
        let inside = Arc::new(());
        let mut list = HostList::new(heap.clone(), 4).unwrap();
        for _ in 0..4 {
            list.push(Arc::clone(&inside)).unwrap();
        }
        drop(list.pop());
        assert_eq!(Arc::strong_count(&inside), 4);
        let list = std::thread::spawn(move || list).join().unwrap();
        drop(list);
        assert_eq!((Arc::strong_count(&inside), heap.live()), (1, 0));
    }

    #[test]
    fn a_list_may_be_empty_or_its_values_nothing() {
        let heap = Heap::default();
        let mut none = HostList::<_, u64>::new(heap.clone(), 0).unwrap();
        assert_eq!(none.push(1), Err(1));
        let mut units = HostList::new(heap.clone(), 2).unwrap();
        assert_eq!(
            [(); 3].map(|()| units.push(()).is_ok()),
            [true, true, false]
        );
        assert_eq!(units.len(), 2);
        drop((none, units));
        assert_eq!(heap.live(), 0);
    }

    #[test]
    fn more_than_there_is_memory_for_is_refused() {
        let heap = Heap::default();
        assert!(HostList::<_, u64>::new(heap.clone(), 101).is_err());
        assert!(HostList::<_, u64>::new(heap, usize::MAX).is_err());
    }
}
