//! DMA accesses through a domain: payload bytes, and queue words with the ordering that a driver
//! may rely on.

use super::{Iommu, Refusal, Refused, Target};
use crate::pe::DmaFault;

/// Why an access failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoAccess {
    /// The IOMMU refused it.
    Refused(Refused),
    /// The mapping exists, but the program's memory behind it does not ([`Target::Checked`]).
    NotThere(DmaFault),
}

impl From<Refused> for NoAccess {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl NoAccess {
    const fn not_there(iova: u64, bytes: usize, write: bool) -> Self {
        Self::NotThere(DmaFault {
            iova,
            bytes,
            write,
            reason: "the program has no such memory any more",
        })
    }

    /// The refusal of the IOMMU.
    #[cfg(test)]
    pub(crate) fn refused(self) -> Refused {
        match self {
            Self::Refused(refused) => refused,
            Self::NotThere(fault) => panic!("{fault}"),
        }
    }
}

impl Iommu {
    /// Copies bytes out.
    pub(crate) fn read(&self, iova: u64, into: &mut [u8]) -> Result<(), NoAccess> {
        let bytes = into.len();
        if bytes == 0 {
            return Ok(());
        }
        let not_there = |_| NoAccess::not_there(iova, bytes, false);
        match self.translate(iova, bytes, false) {
            Ok(Target::Attached(window)) if self.ahead.copy(&window, into) => Ok(()),
            Ok(memory) => memory.read(into).map_err(not_there),
            Err(refused) if refused.refusal == Refusal::Bounds => {
                let mut rest = into;
                for piece in self.pieces(iova, bytes, false)? {
                    let (part, others) = rest.split_at_mut(piece.len());
                    piece.read(part).map_err(not_there)?;
                    rest = others;
                }
                Ok(())
            }
            Err(refused) => Err(refused.into()),
        }
    }

    /// Reads `bytes` bytes now that the device is about to read in pieces, if they belong to an
    /// attached program; otherwise does nothing. Refuses nothing: the accesses find out.
    pub(crate) fn read_ahead(&mut self, iova: u64, bytes: usize) {
        if let Ok(Target::Attached(window)) = self.translate(iova, bytes, false)
            && window.memory.is_far(window.address, window.len)
        {
            self.ahead.read(window);
        }
    }

    /// What was read ahead may be old from now on.
    pub(crate) fn forget_ahead(&mut self) {
        self.ahead.forget();
    }

    /// Copies bytes in, all of them or none. Exception: if only part of the memory is there, the
    /// part in front may be written.
    pub(crate) fn write(&mut self, iova: u64, from: &[u8]) -> Result<(), NoAccess> {
        let bytes = from.len();
        if bytes == 0 {
            return Ok(());
        }
        self.forget_ahead();
        let not_there = |_| NoAccess::not_there(iova, bytes, true);
        match self.translate(iova, bytes, true) {
            Ok(memory) => memory.write(from).map_err(not_there),
            Err(refused) if refused.refusal == Refusal::Bounds => {
                let mut rest = from;
                for piece in self.pieces(iova, bytes, true)? {
                    let (part, others) = rest.split_at(piece.len());
                    piece.write(part).map_err(not_there)?;
                    rest = others;
                }
                Ok(())
            }
            Err(refused) => Err(refused.into()),
        }
    }

    /// Reads one word; acquire, because it may be the one with a valid bit.
    pub(crate) fn load(&self, iova: u64) -> Result<u64, NoAccess> {
        let memory = self.aligned(iova, 1, false)?;
        memory
            .load(0)
            .map_err(|_| NoAccess::not_there(iova, 8, false))
    }

    /// Reads consecutive words, each with acquire order.
    pub(crate) fn load_words(&self, iova: u64, into: &mut [u64]) -> Result<(), NoAccess> {
        let bytes = into.len() * 8;
        match self.aligned(iova, into.len(), false) {
            Ok(memory) => {
                for (index, value) in into.iter_mut().enumerate() {
                    let word = memory.load(index);
                    *value = word.map_err(|_| NoAccess::not_there(iova, bytes, false))?;
                }
            }
            Err(refused) if refused.refusal == Refusal::Bounds => {
                // Crosses the end of a mapping, into the next one if there is one.
                for (value, index) in into.iter_mut().zip(0..) {
                    *value = self.load(iova.wrapping_add(8 * index))?;
                }
            }
            Err(refused) => return Err(refused.into()),
        }
        Ok(())
    }

    /// Reads four consecutive words with acquire order, the last one first.
    pub(crate) fn load_quantum(&self, iova: u64) -> Result<[u64; 4], NoAccess> {
        let mut words = [0; 4];
        match self.aligned(iova, words.len(), false) {
            Ok(memory) => {
                for (index, value) in words.iter_mut().enumerate().rev() {
                    let word = memory.load(index);
                    *value = word.map_err(|_| NoAccess::not_there(iova, 32, false))?;
                }
            }
            Err(refused) if refused.refusal == Refusal::Bounds => {
                for (index, value) in words.iter_mut().enumerate().rev() {
                    *value = self.load(iova.wrapping_add(8 * index as u64))?;
                }
            }
            Err(refused) => return Err(refused.into()),
        }
        Ok(words)
    }

    /// Writes consecutive words, `last` after all others and with release.
    pub(crate) fn write_entry(
        &self,
        iova: u64,
        words: &[u64],
        last: usize,
    ) -> Result<(), NoAccess> {
        let memory = match self.aligned(iova, words.len(), true) {
            Ok(memory) => memory,
            Err(refused) if refused.refusal == Refusal::Bounds => {
                return self.write_split_entry(iova, words, last);
            }
            Err(refused) => return Err(refused.into()),
        };
        let not_there = |_| NoAccess::not_there(iova, words.len() * 8, true);
        if let (&[first, second, third, valid], 3) = (words, last) {
            // The common case.
            for (index, value) in [first, second, third].into_iter().enumerate() {
                memory.store(index, value, false).map_err(not_there)?;
            }
            return memory.store(3, valid, true).map_err(not_there);
        }
        for (index, value) in words.iter().enumerate().filter(|(index, _)| *index != last) {
            memory.store(index, *value, false).map_err(not_there)?;
        }
        if let Some(value) = words.get(last) {
            memory.store(last, *value, true).map_err(not_there)?;
        }
        Ok(())
    }

    /// Like [`Iommu::write_entry`], for an entry that crosses the end of a mapping.
    fn write_split_entry(&self, iova: u64, words: &[u64], last: usize) -> Result<(), NoAccess> {
        // Refuses an entry that is not mapped as a whole; the refusal names the whole range.
        self.pieces(iova, words.len().saturating_mul(8), true)?;
        let not_there = |_| NoAccess::not_there(iova, words.len() * 8, true);
        let places: Vec<Target> = (0..words.len() as u64)
            .map(|index| self.aligned(iova + index * 8, 1, true))
            .collect::<Result<_, _>>()?;
        let all = || places.iter().zip(words).enumerate();
        for (_, (place, value)) in all().filter(|(index, _)| *index != last) {
            place.store(0, *value, false).map_err(not_there)?;
        }
        for (_, (place, value)) in all().filter(|(index, _)| *index == last) {
            place.store(0, *value, true).map_err(not_there)?;
        }
        Ok(())
    }

    /// Memory of `words` whole words at `iova`.
    fn aligned(&self, iova: u64, words: usize, write: bool) -> Result<Target, Refused> {
        let bytes = words.saturating_mul(8);
        let memory = self.translate(iova, bytes, write)?;
        // The rules of mapping make virtual and device address agree modulo 8. If a caller maps
        // otherwise, the access is refused instead of becoming an unaligned atomic.
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
