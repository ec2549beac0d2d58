//! Payload memory: bytes the caller has, moved by copy.
//!
//! RDMA payload has no type: the peer may write any byte at any time. A
//! [`SharedBytes`] is a window on such memory that never becomes a `&[u8]`;
//! bytes go in and out by relaxed atomic copies, whose order against a
//! completion is given by the completion's own acquire.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A window on memory that the device may read and write.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: every access is atomic, and the constructor's caller promised that
// the memory may be accessed from any thread.
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
    /// Wraps `len` bytes at `start`.
    ///
    /// # Safety
    /// The memory stays valid for reads and writes as long as any copy of the
    /// returned window is used, and no Rust reference to it is used meanwhile
    /// (atomic ones excepted).
    #[must_use]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Virtual address of the first byte: what an SGE of a VA-based region names.
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
        Ok(Self { start, len: bytes })
    }

    /// Copies out `into.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let window = self.window(offset, into.len())?;
        let (head, body) = window.split(into.len());
        let (first, rest) = into.split_at_mut_checked(head).unwrap_or_default();
        for (i, byte) in first.iter_mut().enumerate() {
            *byte = window.byte(i).load(Ordering::Relaxed);
        }
        let mut at = head;
        let (words, tail) = rest.as_chunks_mut::<8>();
        for chunk in words.iter_mut().take(body) {
            *chunk = window.word(at).load(Ordering::Relaxed).to_ne_bytes();
            at = at.wrapping_add(8);
        }
        for byte in tail {
            *byte = window.byte(at).load(Ordering::Relaxed);
            at = at.wrapping_add(1);
        }
        Ok(())
    }

    /// Copies `from` in, from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is copied then.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let window = self.window(offset, from.len())?;
        let (head, body) = window.split(from.len());
        let (first, rest) = from.split_at_checked(head).unwrap_or_default();
        for (i, byte) in first.iter().enumerate() {
            window.byte(i).store(*byte, Ordering::Relaxed);
        }
        let mut at = head;
        let (words, tail) = rest.as_chunks::<8>();
        for chunk in words.iter().take(body) {
            window
                .word(at)
                .store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            at = at.wrapping_add(8);
        }
        for byte in tail {
            window.byte(at).store(*byte, Ordering::Relaxed);
            at = at.wrapping_add(1);
        }
        Ok(())
    }

    /// Bytes before the first 8-aligned address (at most `bytes`), and whole
    /// words after them.
    fn split(&self, bytes: usize) -> (usize, usize) {
        let head = (self.start.addr().get().wrapping_neg() & 7).min(bytes);
        (head, bytes.wrapping_sub(head) / 8)
    }

    /// The byte at `at`; the callers above stay below `len`.
    fn byte(&self, at: usize) -> &AtomicU8 {
        debug_assert!(at < self.len, "inside the window");
        // SAFETY: callers pass `at < len`; the memory is valid and only
        // accessed atomically (contract of `new`).
        unsafe { AtomicU8::from_ptr(self.start.add(at).as_ptr()) }
    }

    /// The 8-aligned word at byte `at`; the callers above stay inside.
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.wrapping_add(8) <= self.len, "inside the window");
        // SAFETY: callers pass `at` with 8 bytes left and `start + at` aligned
        // to 8 (see `split`); otherwise as in `byte`.
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
        let mut memory = vec![0u64; 6];
        let bytes = buffer(&mut memory);
        for offset in 0..17 {
            for len in 0..24 {
                let pattern: Vec<u8> = (0..len).map(|i| (i * 7 + offset + 1) as u8).collect();
                bytes.write(0, &[0xEE; 48]).unwrap();
                bytes.write(offset, &pattern).unwrap();
                let mut whole = [0u8; 48];
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
    fn nothing_past_the_end() {
        let mut memory = vec![0u64; 1];
        let bytes = buffer(&mut memory);
        assert!(bytes.write(1, &[0; 8]).is_err());
        assert!(bytes.read(usize::MAX, &mut [0; 2]).is_err());
        assert!(bytes.window(8, 0).is_ok());
        assert_eq!(bytes.window(4, 4).unwrap().len(), 4);
    }
}
