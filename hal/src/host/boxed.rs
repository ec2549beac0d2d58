//! One value in host memory.

use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::{fmt, ptr};

use super::{HostMem, NoHostMemory};

/// A value that is too large to be moved about: the counterpart of a `Box` where there is no
/// allocator.
pub struct HostBox<P: HostMem, T> {
    platform: P,
    memory: NonNull<AtomicU64>,
    _value: PhantomData<T>,
}

// SAFETY: the box owns its value, and its memory may be used from any thread.
unsafe impl<P: HostMem + Send, T: Send> Send for HostBox<P, T> {}
// SAFETY: `&HostBox` gives out `&T` and nothing else.
unsafe impl<P: HostMem + Sync, T: Sync> Sync for HostBox<P, T> {}

impl<P: HostMem, T> HostBox<P, T> {
    /// Words for the value; at least one, so that there is memory to give back.
    const WORDS: usize = {
        assert!(
            align_of::<T>() <= align_of::<AtomicU64>(),
            "host memory is aligned to 8 bytes"
        );
        match size_of::<T>().div_ceil(size_of::<AtomicU64>()) {
            0 => 1,
            words => words,
        }
    };

    /// Puts `value` into host memory.
    ///
    /// # Errors
    /// [`NoHostMemory`]; the value is dropped.
    pub fn new(platform: P, value: T) -> Result<Self, NoHostMemory> {
        Ok(Self::uninit(platform)?.fill(value))
    }

    /// Room for a value that must not be lost for lack of memory: allocate it before the value is
    /// made.
    ///
    /// # Errors
    /// [`NoHostMemory`].
    pub fn uninit(platform: P) -> Result<HostUninit<P, T>, NoHostMemory> {
        let memory = platform.host_alloc(Self::WORDS)?;
        Ok(HostUninit(HostBox {
            platform,
            memory,
            _value: PhantomData,
        }))
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: `new` wrote the value; `this` is not dropped, so it is read once,
        // and so is the platform. The memory is that of `new`, with nothing in it.
        unsafe {
            let value = this.value().read();
            let platform = ptr::read(&raw const this.platform);
            platform.host_free(this.memory, Self::WORDS);
            value
        }
    }

    const fn value(&self) -> NonNull<T> {
        self.memory.cast()
    }
}

/// Room for a value in host memory.
pub struct HostUninit<P: HostMem, T>(
    /// Its memory is zeroed words, which are a value without destructor.
    HostBox<P, MaybeUninit<T>>,
);

impl<P: HostMem, T> HostUninit<P, T> {
    /// Puts the value there.
    pub fn fill(self, value: T) -> HostBox<P, T> {
        let room = ManuallyDrop::new(self);
        let filled: HostBox<P, T> = HostBox {
            // SAFETY: `room` is not dropped, so the platform is read once.
            platform: unsafe { ptr::read(&raw const room.0.platform) },
            memory: room.0.memory,
            _value: PhantomData,
        };
        // SAFETY: there is room for a `T`, aligned (see `WORDS`, the same for
        // `MaybeUninit<T>`), which nobody else knows.
        unsafe { filled.value().write(value) };
        filled
    }
}

impl<P: HostMem, T> fmt::Debug for HostUninit<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRoom").finish_non_exhaustive()
    }
}

impl<P: HostMem, T> Deref for HostBox<P, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `new` wrote the value; it lives as long as the box.
        unsafe { self.value().as_ref() }
    }
}

impl<P: HostMem, T> DerefMut for HostBox<P, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; the box is borrowed as a whole.
        unsafe { self.value().as_mut() }
    }
}

impl<P: HostMem, T> Drop for HostBox<P, T> {
    fn drop(&mut self) {
        // SAFETY: `new` wrote the value, and it is dropped once; then its memory is
        // given back as it was taken.
        unsafe {
            self.value().drop_in_place();
            self.platform.host_free(self.memory, Self::WORDS);
        }
    }
}

impl<P: HostMem, T: fmt::Debug> fmt::Debug for HostBox<P, T> {
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
    fn the_value_is_dropped_with_the_box_or_taken_out() {
        let heap = Heap::default();
        let inside = Arc::new(5);
        let mut boxed = HostBox::new(heap.clone(), (Arc::clone(&inside), 7_u8)).unwrap();
        boxed.1 += 1;
        assert_eq!((*boxed.0, boxed.1), (5, 8));
        let other = HostBox::new(heap.clone(), Arc::clone(&inside)).unwrap();
        let boxed = std::thread::spawn(move || boxed).join().unwrap();
        drop(boxed);
        assert_eq!((Arc::strong_count(&inside), heap.live()), (2, 1));
        let taken = other.into_inner();
        assert_eq!((Arc::strong_count(&taken), heap.live()), (2, 0));
    }

    #[test]
    fn without_memory_the_value_is_not_leaked() {
        let inside = Arc::new(());
        let many: Vec<_> = (0..200).map(|_| Arc::clone(&inside)).collect();
        let many: [Arc<()>; 200] = many.try_into().unwrap();
        assert!(HostBox::new(Heap::default(), many).is_err());
        assert_eq!(Arc::strong_count(&inside), 1);
    }

    #[test]
    fn memory_is_freed_when_no_value_comes() {
        let heap = Heap::default();
        let room = HostBox::<_, Arc<u8>>::uninit(heap.clone()).unwrap();
        assert_eq!(heap.live(), 1);
        drop(room);
        assert_eq!(heap.live(), 0);
        let inside = Arc::new(1);
        let room = HostBox::uninit(heap.clone()).unwrap();
        drop(room.fill(Arc::clone(&inside)));
        assert_eq!((Arc::strong_count(&inside), heap.live()), (1, 0));
    }

    #[test]
    fn a_value_may_have_no_size() {
        let heap = Heap::default();
        let boxed = HostBox::new(heap.clone(), ()).unwrap();
        assert_eq!(*boxed, ());
        drop(boxed);
        assert_eq!(heap.live(), 0);
    }
}
