//! Inline payload (data-path 1.8): 8 bytes in the first quantum, then 31 in each, closed by a byte
//! with the valid bit.

use super::{Lints, QUANTUM, QUANTUM_WORDS, WqeError};

/// Maximum inline data of a GEN_2 entry in bytes (`max_hw_inline`, data-path 5.1).
pub const MAX_INLINE: usize = 101;

/// Data bytes in the first quantum.
const FIRST: usize = 8;

/// Data bytes in each further quantum; its last byte is the trailer.
const PER_QUANTUM: usize = QUANTUM - 1;

/// Payload carried in the entry itself.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct InlineData {
    bytes: [u8; MAX_INLINE],
    len: usize,
}

impl InlineData {
    /// Quanta that an entry with this much inline data occupies.
    pub(super) fn quanta(len: u8) -> usize {
        1 + usize::from(len).saturating_sub(FIRST).div_ceil(PER_QUANTUM)
    }

    /// `words` are exactly those of the entry.
    pub(super) fn decode(
        words: &[u64],
        len: u8,
        polarity: bool,
        lints: &mut Lints,
    ) -> Result<Self, WqeError> {
        let mut data = Self {
            bytes: [0; MAX_INLINE],
            len: usize::from(len),
        };
        let mut room = data
            .bytes
            .get_mut(..usize::from(len))
            .ok_or(WqeError::InlineTooLong(len))?;
        let first = words.get(1).copied().unwrap_or_default().to_le_bytes();
        room = fill(room, &first);
        let (quanta, _) = words.as_chunks::<QUANTUM_WORDS>();
        for (index, quantum) in quanta.iter().enumerate().skip(1) {
            let mut bytes = [0; QUANTUM];
            for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(quantum) {
                *chunk = word.to_le_bytes();
            }
            let [payload @ .., trailer] = &bytes;
            if (trailer & 0x80 != 0) != polarity {
                // An entry has eight quanta at most.
                return Err(WqeError::InlineNotValid {
                    quantum: index as u8,
                });
            }
            lints.add_if(trailer & 0x7F != 0, Lints::INLINE_TRAILER);
            room = fill(room, payload);
        }
        Ok(data)
    }

    /// The payload.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Copies as much of `from` as fits and returns the rest of the buffer.
fn fill<'a>(room: &'a mut [u8], from: &[u8]) -> &'a mut [u8] {
    let count = room.len().min(from.len());
    let (head, rest) = room.split_at_mut(count);
    for (to, from) in head.iter_mut().zip(from) {
        *to = *from;
    }
    rest
}

impl core::fmt::Debug for InlineData {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} inline bytes", self.len)
    }
}
