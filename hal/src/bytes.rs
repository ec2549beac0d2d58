//! Payload memory: bytes of the caller, moved by copy.
//!
//! RDMA payload has no type: the peer may write any byte at any time. A [`SharedBytes`] is a
//! window on such memory that never becomes a `&[u8]`. Bytes go in and out by relaxed atomic
//! copies; a completion's own acquire orders them against the completion.
//!
//! All accesses to a word of eight bytes have one size, whatever windows they use, because atomic
//! accesses of different sizes must not race ([`core::sync::atomic`]). A window knows the memory
//! it was cut from. A word that lies inside that memory is loaded and stored as a whole, even for
//! a single byte of it; bytes of a word that lies partly outside are loaded and stored one by
//! one.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

mod lines;

use lines::LINE;

/// A window on memory that the device may read and write.
///
/// It is `Copy` and does not keep the memory alive: the code that made it from a pointer has
/// promised that the memory is there ([`SharedBytes::new`]).
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes {
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the memory of `new` before `start`, and in all.
    before: usize,
    all: usize,
}

// SAFETY: every access is atomic, accesses to one word are of one size, and the
// constructor's caller promised that the memory may be accessed from any thread.
unsafe impl Send for SharedBytes {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes {}

/// An access past the end of a [`SharedBytes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{bytes} bytes at offset {offset} do not fit a buffer of {len} bytes")]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfRange {
    /// Offset asked for.
    pub offset: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Bytes there are.
    pub len: usize,
}

impl SharedBytes {
    /// Wraps `len` bytes at `start`, memory of any thread.
    ///
    /// # Safety
    /// The following holds as long as any copy of the window, or a window cut from one, is used,
    /// **and as long as a mapping made of one lives**: from
    /// [`DmaMap::dma_map`](crate::DmaMap::dma_map) until `dma_unmap` of it has returned. Dropped
    /// handles do not matter: a memory region that is dropped and not deregistered keeps its
    /// mapping for good, so its memory must never be freed (or the function is reset and without
    /// bus mastering first).
    ///
    /// Some programs do not keep this promise (they unmap what they have registered). Their
    /// memory may be given to a platform whose mappings do not depend on it: a kernel's VFIO,
    /// which holds the pages themselves, or a simulator that checks each access. Copies that are
    /// used need the promise all the same.
    ///
    /// - The memory stays valid for reads and writes; for reads alone where
    ///   nothing is written through a copy and the device may only read.
    /// - No Rust reference to it is used, but to atomics of eight aligned bytes.
    /// - Other windows that this function makes on the same memory begin and end
    ///   where this one does, or at multiples of 8 in address, as this one then
    ///   does too.
    #[must_use]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            before: 0,
            all: len,
        }
    }

    /// Lends memory for good, which needs no contract: a `static` that is taken once, or the
    /// result of [`Box::leak`].
    ///
    /// [`Box::leak`]: https://doc.rust-lang.org/std/boxed/struct.Box.html#method.leak
    #[must_use]
    pub fn from_static(words: &'static mut [u64]) -> Self {
        let len = size_of_val(words);
        let start = NonNull::from(words).cast();
        // SAFETY: the memory never goes, is words, and the only reference to it
        // was given up here for good.
        unsafe { Self::new(start, len) }
    }

    /// Virtual address of the first byte, which an SGE of a VA-based region names.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Pointer to the first byte.
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn window(&self, offset: usize, bytes: usize) -> Result<Self, OutOfRange> {
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.len);
        if !fits {
            return Err(OutOfRange {
                offset,
                bytes,
                len: self.len,
            });
        }
        // SAFETY: `offset <= len`, inside (or one past) the memory of `new`.
        let start = unsafe { self.start.add(offset) };
        Ok(Self {
            start,
            len: bytes,
            // Not past `all`.
            before: self.before.wrapping_add(offset),
            all: self.all,
        })
    }

    /// Copies out `into.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let window = self.window(offset, into.len())?;
        let head = window.before_words(into.len());
        let (first, rest) = into.split_at_mut_checked(head).unwrap_or_default();
        if head != 0 {
            window.read_edge(0, first);
        }
        let mut at = head;
        let (whole, rest) = rest.as_chunks_mut::<LINE>();
        if !whole.is_empty() {
            // SAFETY: `at + size_of_val(whole) <= len`, and `start + at` is aligned to 8; the
            // memory is valid, and accessed by words here (contract of `new`).
            unsafe { lines::load(window.start.add(at), whole) };
            at = at.wrapping_add(size_of_val(whole));
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        for chunk in words {
            *chunk = window.word(at).load(Ordering::Relaxed).to_ne_bytes();
            at = at.wrapping_add(8);
        }
        if !tail.is_empty() {
            window.read_edge(at, tail);
        }
        Ok(())
    }

    /// Copies `from` in, from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let window = self.window(offset, from.len())?;
        let head = window.before_words(from.len());
        let (first, rest) = from.split_at_checked(head).unwrap_or_default();
        if head != 0 {
            window.write_edge(0, first);
        }
        let mut at = head;
        let (whole, rest) = rest.as_chunks::<LINE>();
        if !whole.is_empty() {
            // SAFETY: as in `read`; the memory may be written (contract of `new`).
            unsafe { lines::store(window.start.add(at), whole) };
            at = at.wrapping_add(size_of_val(whole));
        }
        let (words, tail) = rest.as_chunks::<8>();
        for chunk in words {
            window
                .word(at)
                .store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            at = at.wrapping_add(8);
        }
        if !tail.is_empty() {
            window.write_edge(at, tail);
        }
        Ok(())
    }

    /// Bytes before the first 8-aligned address, at most `bytes`.
    fn before_words(&self, bytes: usize) -> usize {
        (self.start.addr().get().wrapping_neg() & 7).min(bytes)
    }

    /// Copies out bytes of one word, at least one, from `at` on.
    // Out of the way of copies of whole words.
    #[inline(never)]
    fn read_edge(&self, at: usize, into: &mut [u8]) {
        if let Some((word, place)) = self.around(at) {
            let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            for (to, from) in into.iter_mut().zip(bytes.iter().skip(place)) {
                *to = *from;
            }
            return;
        }
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = self.byte(at.wrapping_add(i)).load(Ordering::Relaxed);
        }
    }

    /// Copies bytes of one word in, at least one, from `at` on. The other bytes of the word keep
    /// what others write there meanwhile: memory is coherent.
    #[inline(never)]
    fn write_edge(&self, at: usize, from: &[u8]) {
        if let Some((word, place)) = self.around(at) {
            let put = |old: u64| {
                let mut bytes = old.to_ne_bytes();
                for (to, from) in bytes.iter_mut().skip(place).zip(from) {
                    *to = *from;
                }
                Some(u64::from_ne_bytes(bytes))
            };
            // Never refused.
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, put);
            return;
        }
        for (i, byte) in from.iter().enumerate() {
            self.byte(at.wrapping_add(i))
                .store(*byte, Ordering::Relaxed);
        }
    }

    /// The aligned word that has the byte at `at`, and which of its bytes that is;
    /// `None` when the memory of `new` does not have all of it.
    fn around(&self, at: usize) -> Option<(&AtomicU64, usize)> {
        let place = self.start.addr().get().wrapping_add(at) & 7;
        let first = self.before.wrapping_add(at).checked_sub(place)?;
        if first.checked_add(8)? > self.all {
            return None;
        }
        let start = self.start.as_ptr().wrapping_add(at).wrapping_sub(place);
        // SAFETY: aligned to 8 by `place`; all eight bytes are in the memory of
        // `new`, as just seen, which is valid and accessed by words like this
        // one where it has them (contract of `new`, and `byte`).
        Some((unsafe { AtomicU64::from_ptr(start.cast()) }, place))
    }

    /// The byte at `at`, of a word that is not all inside the memory of `new`; the
    /// callers above stay below `len`.
    fn byte(&self, at: usize) -> &AtomicU8 {
        debug_assert!(at < self.len, "inside the window");
        // SAFETY: callers pass `at < len`; the memory is valid, and bytes of this
        // word are only accessed one by one (contract of `new`).
        unsafe { AtomicU8::from_ptr(self.start.add(at).as_ptr()) }
    }

    /// The 8-aligned word at byte `at`; the callers above stay inside.
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.wrapping_add(8) <= self.len, "inside the window");
        // SAFETY: callers pass `at` with 8 bytes left and `start + at` aligned
        // to 8 (see `before_words`); the memory is valid, and accessed by words
        // here (contract of `new`).
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast().as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn buffer(memory: &mut [u64]) -> SharedBytes {
        let start = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
        // SAFETY: the vector outlives the use in each test and is not touched
        // through any other reference meanwhile.
        unsafe { SharedBytes::new(start, memory.len() * 8) }
    }

    #[test]
    fn every_alignment_and_length_survives_a_round_trip() {
        let mut memory = vec![0u64; 20];
        let bytes = buffer(&mut memory);
        let lens = (0..24).chain(60..80).chain(124..140);
        for offset in 0..17 {
            for len in lens.clone() {
                let pattern: Vec<u8> = (0..len).map(|i| (i * 7 + offset + 1) as u8).collect();
                bytes.write(0, &[0xEE; 160]).unwrap();
                bytes.write(offset, &pattern).unwrap();
                let mut whole = [0u8; 160];
                bytes.read(0, &mut whole).unwrap();
                assert_eq!(&whole[offset..offset + len], &pattern[..]);
                assert!(whole[..offset].iter().all(|b| *b == 0xEE));
                assert!(whole[offset + len..].iter().all(|b| *b == 0xEE));
                let mut back = vec![0u8; len];
                bytes.read(offset, &mut back).unwrap();
                assert_eq!(back, pattern);
            }
        }
    }

    #[test]
    fn memory_that_is_no_words_is_used_to_its_ends() {
        // 3 bytes of a word, a word, 5 bytes of the next.
        let mut memory = vec![0u64; 3];
        let all = buffer(&mut memory);
        let odd = NonNull::new(all.as_ptr().as_ptr().wrapping_add(5)).unwrap();
        // SAFETY: inside the vector, used by this thread alone.
        let bytes = unsafe { SharedBytes::new(odd, 16) };
        assert!(bytes.around(2).is_none() && bytes.around(11).is_none());
        assert_eq!(bytes.around(10).map(|(_, place)| place), Some(7));
        // A window on a byte knows the word around it.
        let inner = bytes.window(4, 1).unwrap();
        assert_eq!(inner.around(0).map(|(_, place)| place), Some(1));
        let pattern: Vec<u8> = (1..=16).collect();
        bytes.write(0, &pattern).unwrap();
        inner.write(0, &[0xEE]).unwrap();
        let mut whole = [9u8; 24];
        all.read(0, &mut whole).unwrap();
        assert_eq!((&whole[..5], &whole[21..]), (&[0; 5][..], &[0; 3][..]));
        assert_eq!((&whole[5..9], whole[9]), (&pattern[..4], 0xEE));
        assert_eq!(whole[10..21], pattern[5..]);
    }

    /// Neighbours in one word do not lose each other's bytes.
    #[test]
    fn threads_write_bytes_of_one_word() {
        const LAST: u8 = if cfg!(miri) { 5 } else { 100 };
        // For a leak checker: it stays for good, and is not lost.
        static LENT: std::sync::Mutex<Option<SharedBytes>> = std::sync::Mutex::new(None);
        let memory = std::boxed::Box::leak(vec![0u64; 2].into_boxed_slice());
        let bytes = SharedBytes::from_static(memory);
        *LENT.lock().unwrap() = Some(bytes);
        std::thread::scope(|scope| {
            for at in 0..8 {
                let own = bytes.window(at, 1).unwrap();
                scope.spawn(move || {
                    for value in 1..=LAST {
                        own.write(0, &[value]).unwrap();
                        let mut back = [0];
                        own.read(0, &mut back).unwrap();
                        assert_eq!(back, [value]);
                    }
                });
            }
        });
        let mut words = [0; 16];
        bytes.read(0, &mut words).unwrap();
        assert_eq!((&words[..8], &words[8..]), (&[LAST; 8][..], &[0; 8][..]));
    }

    #[test]
    fn nothing_past_the_end() {
        let mut memory = vec![0u64; 1];
        let bytes = buffer(&mut memory);
        assert!(bytes.write(1, &[0; 8]).is_err());
        assert!(bytes.read(usize::MAX, &mut [0; 2]).is_err());
        assert!(bytes.window(8, 0).is_ok());
        assert_eq!(bytes.window(4, 4).unwrap().len(), 4);
    }
}
