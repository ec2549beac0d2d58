//! A queue of messages (frames of a wire, here) in memory that two processes have: one writes, the
//! other reads.
//!
//! | word | written by | |
//! |---|---|---|
//! | 0 | writer | words written so far, modulo 2^64 |
//! | 16 | reader | words of them that may be written again |
//! | 32 | both | not 0: the reader sleeps, or is about to; the writer clears it and wakes it |
//! | from 64 | writer | frames, one behind the other: a word with the length in bytes, then the bytes |
//!
//! Each side keeps its own position to itself. What it reads of the other's it reads once, and
//! checks: no value makes it leave the memory or read a frame that cannot be. Bytes may change while
//! they are copied, as they may before; who gets the copy checks it.
//!
//! The memory is words that both sides access atomically. So a hostile side can do nothing that the
//! language leaves undefined, and this file needs no unsafe code.

use std::fmt;

use sync::{AtomicU64, Ordering, fence};

#[cfg(not(loom))]
use crate::memory::MappedMemory;

#[cfg(not(loom))]
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
}
#[cfg(loom)]
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

/// Places of the words that are no frames, each in cache lines of its own: processors fetch them in
/// pairs.
const HEAD: usize = 0;
const TAIL: usize = 16;
const SLEEPS: usize = 32;
/// Where frames begin.
pub const FRAMES: usize = 64;
/// Bytes of a frame at most.
pub const LONGEST: usize = 9728;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Memory that a ring is in.
pub trait Words {
    /// At least `FRAMES` and two more; as many each time.
    fn words(&self) -> &[AtomicU64];
}

#[cfg(not(loom))]
impl Words for MappedMemory {
    fn words(&self) -> &[AtomicU64] {
        Self::words(self)
    }
}

/// The other side has written what it cannot have meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Why a frame is not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no room now.
    Full,
    /// The reader has written what it cannot have meant.
    Broken,
}

/// What both sides do with the memory.
struct Ring<M> {
    memory: M,
    /// Words of frames, a power of two.
    capacity: u64,
}

impl<M: Words> Ring<M> {
    fn new(memory: M) -> Self {
        let words = memory.words().len().saturating_sub(FRAMES) as u64;
        // The largest power of two that fits.
        let capacity = words.checked_ilog2().map_or(0, |log| 1 << log);
        Self { memory, capacity }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        match self.memory.words().get(at) {
            Some(word) => word,
            None => unreachable!("a ring of less memory than the trait says"),
        }
    }

    /// The word of frames at `position`.
    fn frame_word(&self, position: u64) -> &AtomicU64 {
        self.word(FRAMES + (position & (self.capacity - 1)) as usize)
    }

    /// So many words of frames from `position` on: those up to the end of the memory, and those
    /// from its start.
    fn span(&self, position: u64, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let all = self.memory.words().get(FRAMES..).unwrap_or_default();
        let all = all.get(..self.capacity as usize).unwrap_or_default();
        let start = (position & (self.capacity - 1)) as usize;
        let first = count.min(all.len() - start);
        let (from_start, to_end) = (all.get(..count - first), all.get(start..start + first));
        (to_end.unwrap_or_default(), from_start.unwrap_or_default())
    }
}

/// Words of a frame of so many bytes, with its length.
fn words_of(bytes: usize) -> u64 {
    1 + bytes.div_ceil(WORD) as u64
}

/// The side that writes.
pub struct Writer<M> {
    ring: Ring<M>,
    /// Words written.
    head: u64,
    /// Of those, what the reader may know of.
    published: u64,
    /// Words that the reader had given back when that was last looked at.
    tail: u64,
}

impl<M: Words> Writer<M> {
    /// In memory that is all zeros.
    pub fn new(memory: M) -> Self {
        Self {
            ring: Ring::new(memory),
            head: 0,
            published: 0,
            tail: 0,
        }
    }

    /// Writes a frame of at most [`LONGEST`] bytes behind the others, for [`Self::publish`].
    ///
    /// # Errors
    /// No room, or a reader that is broken.
    pub fn write(&mut self, frame: &[u8]) -> Result<(), Refused> {
        let needed = words_of(frame.len());
        let has_room = |tail: u64| {
            let used = self.head.wrapping_sub(tail);
            let free = self.ring.capacity.checked_sub(used)?;
            Some(needed <= free)
        };
        if has_room(self.tail) != Some(true) {
            // Acquire: the reader has copied what it gives back.
            let tail = self.ring.word(TAIL).load(Ordering::Acquire);
            match has_room(tail) {
                None => return Err(Refused::Broken),
                Some(has_room) => {
                    self.tail = tail;
                    if !has_room {
                        return Err(Refused::Full);
                    }
                }
            }
        }
        let relaxed = Ordering::Relaxed;
        let length = self.ring.frame_word(self.head);
        length.store(frame.len() as u64, relaxed);
        let count = needed as usize - 1;
        let (to_end, from_start) = self.ring.span(self.head.wrapping_add(1), count);
        let (first, second) = frame.split_at(frame.len().min(to_end.len() * WORD));
        store(to_end, first);
        store(from_start, second);
        self.head = self.head.wrapping_add(needed);
        Ok(())
    }

    /// Lets the reader know of what was written. Returns whether it has to be woken.
    ///
    /// The position is stored before the flag is loaded, and the reader sets the flag before it
    /// loads the position for the last time, with a fence between: one of the two sees what the
    /// other has done.
    pub fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        self.ring.word(HEAD).store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        let sleeps = self.ring.word(SLEEPS);
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

impl<M> fmt::Debug for Writer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

/// Writes bytes, as many words as they need.
fn store(places: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (place, bytes) in places.iter().zip(whole) {
        place.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    if let Some(place) = places.get(whole.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; WORD];
        for (byte, from) in last.iter_mut().zip(rest) {
            *byte = *from;
        }
        place.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Where a reader copies a frame to: whole words.
pub type Copied = [u8; LONGEST];

/// The side that reads.
pub struct Reader<M> {
    ring: Ring<M>,
    /// Words read.
    tail: u64,
    /// Where the last frame ends, once the writer is gone.
    end: Option<u64>,
}

impl<M: Words> Reader<M> {
    /// In memory that was all zeros when the writer began.
    pub fn new(memory: M) -> Self {
        Self {
            ring: Ring::new(memory),
            tail: 0,
            end: None,
        }
    }

    fn head(&self, order: Ordering) -> u64 {
        let end = self.end;
        end.unwrap_or_else(|| self.ring.word(HEAD).load(order))
    }

    /// Whether something was written that was not taken.
    pub fn has_frames(&self) -> bool {
        self.head(Ordering::Relaxed) != self.tail
    }

    /// Gives the frames that are there to `each`, at most `most` of them, until it returns false:
    /// that frame stays. Returns how many were taken.
    ///
    /// # Errors
    /// The writer has written a position or a length that cannot be. Frames before that were taken.
    pub fn take(
        &mut self,
        most: usize,
        copied: &mut Copied,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<usize, Broken> {
        // Acquire: what the writer has written before is there.
        let head = self.head(Ordering::Acquire);
        let start = self.tail;
        let mut taken = 0;
        let mut result = Ok(());
        while self.tail != head && taken < most {
            match self.next(head, copied) {
                Ok((length, words)) => {
                    if !each(copied.get(..length).unwrap_or_default()) {
                        break;
                    }
                    self.tail = self.tail.wrapping_add(words);
                    taken += 1;
                }
                Err(broken) => {
                    result = Err(broken);
                    break;
                }
            }
        }
        if self.tail != start {
            // Release: it was copied before.
            self.ring.word(TAIL).store(self.tail, Ordering::Release);
        }
        result.map(|()| taken)
    }

    /// Copies the next frame; its bytes, and its words with the length.
    fn next(&self, head: u64, copied: &mut Copied) -> Result<(usize, u64), Broken> {
        let there = head.wrapping_sub(self.tail);
        let length = self.ring.frame_word(self.tail).load(Ordering::Relaxed);
        let length = usize::try_from(length).map_err(|_| Broken)?;
        if there > self.ring.capacity || length > LONGEST || words_of(length) > there {
            return Err(Broken);
        }
        let words = words_of(length);
        let (to_end, from_start) = self
            .ring
            .span(self.tail.wrapping_add(1), words as usize - 1);
        let (first, second) = copied.split_at_mut((to_end.len() * WORD).min(size_of::<Copied>()));
        for (places, into) in [(to_end, first), (from_start, second)] {
            for (into, place) in into.as_chunks_mut::<WORD>().0.iter_mut().zip(places) {
                *into = place.load(Ordering::Relaxed).to_ne_bytes();
            }
        }
        Ok((length, words))
    }

    /// The reader is about to sleep: from now on it is woken. It looks at [`Self::has_frames`] once
    /// more before it does.
    pub fn begin_sleep(&self) {
        self.ring.word(SLEEPS).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The reader does not sleep.
    pub fn end_sleep(&self) {
        self.ring.word(SLEEPS).store(0, Ordering::Relaxed);
    }

    /// The writer is gone: what comes after this is no frame of its.
    pub fn end(&mut self) {
        self.end = Some(self.head(Ordering::Acquire));
    }
}

impl<M> fmt::Debug for Reader<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
