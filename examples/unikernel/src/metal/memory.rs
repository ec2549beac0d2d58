//! Values in the pool: what is too large for the stack.

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::machine::{Machine, MachineError};
use crate::pool::{PAGE, Pool};

/// A value in pages of its own, which are given back with it.
#[derive(Debug)]
pub struct Boxed<'m, T> {
    pool: &'m Pool,
    place: NonNull<T>,
}

impl<'m, T> Boxed<'m, T> {
    /// Moves a value into the pool.
    ///
    /// # Errors
    /// [`MachineError::NoMemory`].
    pub fn new(machine: &'m Machine, value: T) -> Result<Self, MachineError> {
        Self::in_pool(&machine.pool, value)
    }

    fn in_pool(pool: &'m Pool, value: T) -> Result<Self, MachineError> {
        let bytes = size_of::<T>();
        let place = pool.take(bytes.max(1), align_of::<T>().max(PAGE));
        let place = place.ok_or(MachineError::NoMemory { bytes })?.cast();
        // SAFETY: pages that are nobody else's, as long and as aligned as the value.
        unsafe { place.write(value) };
        Ok(Self { pool, place })
    }

    /// Moves it out again.
    #[must_use]
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: it is there since `new`, and nobody reads it again.
        let value = unsafe { this.place.read() };
        // SAFETY: from `new`, and with `self` nobody refers to it any more.
        unsafe { this.give() };
        value
    }

    /// # Safety
    /// Called once; nobody uses the place afterwards.
    unsafe fn give(&self) {
        // SAFETY: as many bytes as `new` has taken; the rest is the caller's promise.
        unsafe { self.pool.give(self.place.cast(), size_of::<T>().max(1)) };
    }
}

impl<T> Deref for Boxed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is there, and is borrowed as `self` is.
        unsafe { self.place.as_ref() }
    }
}

impl<T> DerefMut for Boxed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.place.as_mut() }
    }
}

impl<T> Drop for Boxed<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the value is there, and nobody uses it, or its place, afterwards.
        unsafe {
            self.place.drop_in_place();
            self.give();
        }
    }
}

impl Machine {
    /// `count` copies of a value, which stay the caller's for good.
    ///
    /// # Errors
    /// [`MachineError::NoMemory`].
    pub fn keep<T: Copy>(&self, value: T, count: usize) -> Result<&'static mut [T], MachineError> {
        keep(&self.pool, value, count)
    }
}

fn keep<T: Copy>(pool: &Pool, value: T, count: usize) -> Result<&'static mut [T], MachineError> {
    let bytes = count.saturating_mul(size_of::<T>());
    let no_memory = MachineError::NoMemory { bytes };
    if align_of::<T>() > PAGE {
        return Err(no_memory);
    }
    let start = pool.keep(bytes).ok_or(no_memory)?.cast::<T>();
    for at in 0..count {
        // SAFETY: the pages have room for `count` values.
        unsafe { start.add(at).write(value) };
    }
    // SAFETY: pages of the static pool, taken for good; each value was written, and nothing else
    // refers to them.
    Ok(unsafe { NonNull::slice_from_raw_parts(start, count).as_mut() })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn values_are_in_the_pool_and_come_back() {
        // SAFETY: no other test has the pool.
        let pool = unsafe { Pool::new() };
        let one = Rc::new(7);
        let mut boxed = Boxed::in_pool(&pool, [const { None }; 1000]).unwrap();
        boxed[999] = Some(one.clone());
        assert_eq!(pool.held(), 2 * PAGE);
        let values: [Option<Rc<i32>>; 1000] = boxed.into_inner();
        assert_eq!((pool.held(), Rc::strong_count(&one)), (0, 2));
        drop(Boxed::in_pool(&pool, values));
        assert_eq!((pool.held(), Rc::strong_count(&one)), (0, 1));
        drop(Boxed::in_pool(&pool, ()));
        let kept = keep(&pool, 9_u32, 3000).unwrap();
        assert_eq!((kept.len(), kept[2999], pool.held()), (3000, 9, 0));
        assert!(keep(&pool, 0_u64, usize::MAX).is_err());
    }
}
