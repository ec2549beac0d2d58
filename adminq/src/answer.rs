//! A reply: its descriptor, and as much of the buffer as the firmware filled.

use core::sync::atomic::AtomicU64;

use e810_hal::DmaWord;

use crate::bytes::byte;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};

/// A reply or an event. The buffer is read by value, once, and never beyond the
/// length the firmware gave.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    descriptor: Descriptor,
    cells: &'a [AtomicU64],
    len: usize,
}

impl<'a> Answer<'a> {
    /// The reply `descriptor` with the buffer `cells`, of which `len` bytes are
    /// the firmware's (bounded by the buffer).
    #[must_use]
    pub fn new(descriptor: Descriptor, cells: &'a [AtomicU64], len: usize) -> Self {
        let len = len.min(cells.len().saturating_mul(8));
        Self {
            descriptor,
            cells,
            len,
        }
    }

    /// The descriptor.
    #[must_use]
    pub const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The parameters.
    #[must_use]
    pub const fn params(&self) -> &[u8; 16] {
        &self.descriptor.params
    }

    /// Parameter byte `at`, below 16.
    #[must_use]
    pub fn param(&self, at: usize) -> u8 {
        byte(&self.descriptor.params, at)
    }

    /// Bytes that the firmware filled.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the reply carries no data.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `bytes` from offset `at` of the reply; errors name it `what`.
    ///
    /// # Errors
    /// [`Error::ShortReply`] when the firmware filled fewer.
    pub fn fill(&self, at: usize, what: &'static str, bytes: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(bytes.len());
        if end > self.len {
            return Err(Error::ShortReply {
                op: self.descriptor.opcode,
                what,
                len: self.len,
                needed: end,
            });
        }
        self.copy(at, bytes);
        Ok(())
    }

    /// Fills `to` from `at` on, as far as there is data; returns the number of bytes copied.
    pub fn copy(&self, at: usize, to: &mut [u8]) -> usize {
        let mut copied = 0;
        for (place, target) in (at..self.len).zip(to) {
            let word = self.cells.get(place / 8).map_or(0, DmaWord::get);
            *target = byte(&word.to_le_bytes(), place % 8);
            copied += 1;
        }
        copied
    }

    /// An error about a value in this reply.
    pub(crate) const fn bad(&self, what: &'static str, value: u64) -> Error {
        Error::BadReply {
            op: self.descriptor.opcode,
            what,
            value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::Opcode;
    use std::vec::Vec;

    fn memory(bytes: &[u8]) -> Vec<AtomicU64> {
        bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                let cell = AtomicU64::new(0);
                cell.set(u64::from_le_bytes(word));
                cell
            })
            .collect()
    }

    #[test]
    fn only_what_the_firmware_filled_is_read() {
        let cells = memory(&(0..16).collect::<Vec<u8>>());
        let descriptor = Descriptor::command(Opcode::READ_MAC, [7; 16]);
        let answer = Answer::new(descriptor, &cells, 11);
        let mut four = [0; 4];
        assert_eq!(answer.fill(7, "x", &mut four), Ok(()));
        assert_eq!(four, [7, 8, 9, 10]);
        assert_eq!(
            answer.fill(8, "MAC entry", &mut four),
            Err(Error::ShortReply {
                op: Opcode::READ_MAC,
                what: "MAC entry",
                len: 11,
                needed: 12
            })
        );
        assert!(answer.fill(usize::MAX, "x", &mut [0]).is_err());
        let mut rest = [0xFF; 4];
        assert_eq!(answer.copy(9, &mut rest), 2);
        assert_eq!(rest, [9, 10, 0xFF, 0xFF]);
        assert_eq!(answer.copy(usize::MAX, &mut rest), 0);
    }

    #[test]
    fn a_length_beyond_the_buffer_is_the_buffer() {
        let cells = memory(&[1; 8]);
        let descriptor = Descriptor::command(Opcode::READ_MAC, [0; 16]);
        assert_eq!(Answer::new(descriptor, &cells, 4096).len(), 8);
    }
}
