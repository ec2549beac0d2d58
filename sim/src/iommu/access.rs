//! DMA accesses through a domain: payload bytes, and queue words with the ordering that a driver
//! may rely on.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_hal::SharedBytes;

use super::{Iommu, Refusal, Refused};

impl Iommu {
    /// Copies bytes out.
    pub(crate) fn read(&self, iova: u64, into: &mut [u8]) -> Result<(), Refused> {
        if into.is_empty() {
            return Ok(());
        }
        match self.translate(iova, into.len(), false) {
            Ok(memory) => {
                // The window has exactly this length.
                let _ = memory.read(0, into);
            }
            Err(refused) if refused.refusal == Refusal::Bounds => {
                let mut rest = into;
                for piece in self.pieces(iova, rest.len(), false)? {
                    let (part, others) = rest.split_at_mut(piece.len());
                    let _ = piece.read(0, part);
                    rest = others;
                }
            }
            Err(refused) => return Err(refused),
        }
        Ok(())
    }

    /// Copies bytes in; all of them or none.
    pub(crate) fn write(&self, iova: u64, from: &[u8]) -> Result<(), Refused> {
        if from.is_empty() {
            return Ok(());
        }
        match self.translate(iova, from.len(), true) {
            Ok(memory) => {
                let _ = memory.write(0, from);
            }
            Err(refused) if refused.refusal == Refusal::Bounds => {
                let mut rest = from;
                for piece in self.pieces(iova, rest.len(), true)? {
                    let (part, others) = rest.split_at(piece.len());
                    let _ = piece.write(0, part);
                    rest = others;
                }
            }
            Err(refused) => return Err(refused),
        }
        Ok(())
    }

    /// Reads one word; acquire, because it may be the one with a valid bit.
    pub(crate) fn load(&self, iova: u64) -> Result<u64, Refused> {
        let memory = self.aligned(iova, 1, false)?;
        Ok(u64::from_le(word(&memory, 0).load(Ordering::Acquire)))
    }

    /// Reads consecutive words, each with acquire order.
    pub(crate) fn load_words(&self, iova: u64, into: &mut [u64]) -> Result<(), Refused> {
        match self.aligned(iova, into.len(), false) {
            Ok(memory) => {
                for (index, value) in into.iter_mut().enumerate() {
                    *value = u64::from_le(word(&memory, index).load(Ordering::Acquire));
                }
            }
            Err(refused) if refused.refusal == Refusal::Bounds => {
                // Over the end of a mapping, into the next if there is one.
                for (value, index) in into.iter_mut().zip(0..) {
                    *value = self.load(iova.wrapping_add(8 * index))?;
                }
            }
            Err(refused) => return Err(refused),
        }
        Ok(())
    }

    /// Reads four consecutive words with acquire order, the last one first.
    pub(crate) fn load_quantum(&self, iova: u64) -> Result<[u64; 4], Refused> {
        let mut words = [0; 4];
        match self.aligned(iova, words.len(), false) {
            Ok(memory) => {
                for (index, value) in words.iter_mut().enumerate().rev() {
                    *value = u64::from_le(word(&memory, index).load(Ordering::Acquire));
                }
            }
            Err(refused) if refused.refusal == Refusal::Bounds => {
                for (index, value) in words.iter_mut().enumerate().rev() {
                    *value = self.load(iova.wrapping_add(8 * index as u64))?;
                }
            }
            Err(refused) => return Err(refused),
        }
        Ok(words)
    }

    /// Writes consecutive words, `last` after all others and with release.
    pub(crate) fn write_entry(&self, iova: u64, words: &[u64], last: usize) -> Result<(), Refused> {
        let memory = match self.aligned(iova, words.len(), true) {
            Ok(memory) => memory,
            Err(refused) if refused.refusal == Refusal::Bounds => {
                return self.write_split_entry(iova, words, last);
            }
            Err(refused) => return Err(refused),
        };
        if let (&[first, second, third, valid], 3) = (words, last) {
            // Most entries.
            for (index, value) in [first, second, third].into_iter().enumerate() {
                word(&memory, index).store(value.to_le(), Ordering::Relaxed);
            }
            word(&memory, 3).store(valid.to_le(), Ordering::Release);
            return Ok(());
        }
        for (index, value) in words.iter().enumerate().filter(|(index, _)| *index != last) {
            word(&memory, index).store(value.to_le(), Ordering::Relaxed);
        }
        if let Some(value) = words.get(last) {
            word(&memory, last).store(value.to_le(), Ordering::Release);
        }
        Ok(())
    }

    /// As [`Iommu::write_entry`], for an entry that runs over the end of a mapping.
    fn write_split_entry(&self, iova: u64, words: &[u64], last: usize) -> Result<(), Refused> {
        // Refuses what is not mapped as a whole, in the words of the whole.
        self.pieces(iova, words.len().saturating_mul(8), true)?;
        let places: Vec<SharedBytes> = (0..words.len() as u64)
            .map(|index| self.aligned(iova + index * 8, 1, true))
            .collect::<Result<_, _>>()?;
        let all = || places.iter().zip(words).enumerate();
        for (_, (place, value)) in all().filter(|(index, _)| *index != last) {
            word(place, 0).store(value.to_le(), Ordering::Relaxed);
        }
        for (_, (place, value)) in all().filter(|(index, _)| *index == last) {
            word(place, 0).store(value.to_le(), Ordering::Release);
        }
        Ok(())
    }

    /// `words` whole words at `iova`.
    fn aligned(&self, iova: u64, words: usize, write: bool) -> Result<SharedBytes, Refused> {
        let bytes = words.saturating_mul(8);
        let memory = self.translate(iova, bytes, write)?;
        // Virtual and device address agree modulo 8 by the rules of mapping; a caller that maps
        // otherwise gets the refusal and not an unaligned atomic.
        if iova.is_multiple_of(8) && memory.address().is_multiple_of(8) {
            Ok(memory)
        } else {
            Err(Refused {
                refusal: Refusal::Misaligned,
                iova,
                bytes,
                write,
            })
        }
    }
}

/// Word `index` of memory that [`Iommu::aligned`] answered with.
fn word(memory: &SharedBytes, index: usize) -> &AtomicU64 {
    debug_assert!(index * 8 + 8 <= memory.len());
    let start: NonNull<AtomicU64> = memory.as_ptr().cast();
    // SAFETY: `aligned` checked that the window starts at a multiple of 8 and has that many words;
    // the memory behind a mapping stays valid while it is mapped, and is only accessed
    // atomically (contract of `SharedBytes`).
    unsafe { start.add(index).as_ref() }
}
