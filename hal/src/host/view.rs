//! Parts of a [`HostBuf`], located once.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use super::{HostBuf, HostMem};

/// A part of a [`HostBuf`] as an array or a slice of groups of words. Its place was checked when
/// it was made, and it keeps the memory alive as a clone of the buffer does. For callers that use
/// one place repeatedly.
pub struct HostView<P: HostMem, T: ?Sized> {
    words: NonNull<T>,
    /// Keeps `words` alive; a buffer's memory never moves.
    _owner: HostBuf<P>,
}

// SAFETY: `words` points to atomic words of `_owner`, which may go to another
// thread and be used from several if its platform may (see `HostBuf`). `T` is
// only ever an array or a slice of arrays of atomic words: the two constructors.
unsafe impl<P: HostMem + Send, T: ?Sized> Send for HostView<P, T> {}
// SAFETY: as above; `&HostView` only gives out shared references to the words.
unsafe impl<P: HostMem + Sync, T: ?Sized> Sync for HostView<P, T> {}

impl<P: HostMem, T: ?Sized> Deref for HostView<P, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the constructors made the pointer from a reference to words of
        // `_owner`'s memory, which stays where it is while `_owner` lives.
        unsafe { self.words.as_ref() }
    }
}

impl<P: HostMem, T: ?Sized> fmt::Debug for HostView<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostView").field(&self.words).finish()
    }
}

impl<P: HostMem + Clone> HostBuf<P> {
    /// The `L` lines of `N` words from word `start` on; `None` when the buffer
    /// ends before.
    #[must_use]
    pub fn lines<const N: usize, const L: usize>(
        &self,
        start: usize,
    ) -> Option<HostView<P, [[AtomicU64; N]; L]>> {
        let (lines, _) = self.words().get(start..)?.as_chunks::<N>();
        Some(HostView {
            words: NonNull::from(lines.first_chunk::<L>()?),
            _owner: self.clone(),
        })
    }

    /// The `count` groups of `N` words from word `start` on; `None` when the
    /// buffer ends before.
    #[must_use]
    pub fn groups<const N: usize>(
        &self,
        start: usize,
        count: usize,
    ) -> Option<HostView<P, [[AtomicU64; N]]>> {
        let (groups, _) = self.words().get(start..)?.as_chunks::<N>();
        Some(HostView {
            words: NonNull::from(groups.get(..count)?),
            _owner: self.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Heap;
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn a_view_is_the_buffers_words_and_outlives_it() {
        let buf = HostBuf::new(Heap::default(), 9).unwrap();
        let lines = buf.lines::<2, 2>(3).unwrap();
        let groups = buf.groups::<2>(5, 2).unwrap();
        buf.words()[5].store(7, Ordering::Relaxed);
        drop(buf);
        assert_eq!(lines[1][0].load(Ordering::Relaxed), 7);
        groups[0][1].store(8, Ordering::Relaxed);
        assert_eq!(lines[1][1].load(Ordering::Relaxed), 8);
        drop(lines);
        assert_eq!(groups.len(), 2);
    }

    #[test]
    fn a_view_does_not_go_past_the_end() {
        let buf = HostBuf::new(Heap::default(), 9).unwrap();
        assert!(buf.lines::<2, 2>(5).is_some());
        assert!(buf.lines::<2, 2>(6).is_none());
        assert!(buf.lines::<2, 2>(usize::MAX).is_none());
        assert!(buf.groups::<3>(0, 3).is_some());
        assert!(buf.groups::<3>(1, 3).is_none());
        assert!(buf.groups::<3>(0, usize::MAX).is_none());
        assert!(buf.groups::<3>(9, 0).is_some());
    }
}
