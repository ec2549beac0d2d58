//! Layout of the DMA allocation that both queues share.
//!
//! Buffers first, a page each: the command buffer, then one for each entry of
//! the event queue; then the two rings.

use core::sync::atomic::AtomicU64;

use e810_hal::{DmaAlloc, DmaBuf, DmaLayout, DmaWord, DmaWords, Iova};

use crate::descriptor::Descriptor;
use crate::error::Result;
use crate::limits::{ARQ_ENTRIES, ATQ_ENTRIES, BUFFER_BYTES, DESCRIPTOR_BYTES};

/// Words of a buffer.
const BUFFER_WORDS: usize = BUFFER_BYTES / 8;
const BUFFERS: usize = 1 + ARQ_ENTRIES as usize;
const RINGS: usize = BUFFERS * BUFFER_BYTES;
const ARQ_RING: usize = RINGS + ATQ_ENTRIES as usize * DESCRIPTOR_BYTES;
/// Bytes of DMA memory that an AdminQ takes, in one piece.
pub const DMA_BYTES: usize = ARQ_RING + ARQ_ENTRIES as usize * DESCRIPTOR_BYTES;

/// Memory of both queues.
#[derive(Debug)]
pub(super) struct Memory<P: DmaAlloc>(DmaBuf<P>);

/// A buffer of that memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Buffer {
    /// The command buffer.
    Command,
    /// The buffer of an entry of the event queue.
    Event(u16),
}

impl Buffer {
    const fn place(self) -> usize {
        match self {
            Self::Command => 0,
            Self::Event(index) => 1 + index as usize,
        }
    }
}

impl<P: DmaAlloc> Memory<P> {
    pub(super) fn new(platform: P) -> Result<Self> {
        let layout = DmaLayout::new(DMA_BYTES, BUFFER_BYTES);
        Ok(Self(DmaBuf::new(platform, layout)?))
    }

    pub(super) fn release(self) {
        self.0.release();
    }

    fn at(&self, offset: usize) -> Iova {
        // The allocation does not wrap the address space: the allocator gave it.
        Iova(self.0.iova().0.wrapping_add(offset as u64))
    }

    /// Address of the command ring.
    pub(super) fn atq(&self) -> Iova {
        self.at(RINGS)
    }

    /// Address of the event ring.
    pub(super) fn arq(&self) -> Iova {
        self.at(ARQ_RING)
    }

    /// Address of a buffer.
    pub(super) fn address(&self, buffer: Buffer) -> Iova {
        self.at(buffer.place().saturating_mul(BUFFER_BYTES))
    }

    /// The words of a buffer.
    pub(super) fn buffer(&self, buffer: Buffer) -> &[AtomicU64] {
        let block = self.0.block::<BUFFER_WORDS>(buffer.place());
        block.map_or(&[], <[AtomicU64; BUFFER_WORDS]>::as_slice)
    }

    /// Writes `bytes` to the command buffer, and zeros up to `room`: nothing of an earlier
    /// command is left where the firmware or a reader may look.
    pub(super) fn fill_command(&self, bytes: &[u8], room: usize) {
        let cells = self.buffer(Buffer::Command);
        for (number, cell) in cells.iter().enumerate().take(room.div_ceil(8)) {
            let mut word = [0; 8];
            let rest = bytes.get(number.saturating_mul(8)..).unwrap_or_default();
            for (to, from) in word.iter_mut().zip(rest) {
                *to = *from;
            }
            cell.set(u64::from_le_bytes(word));
        }
    }

    fn entry(&self, ring: usize, index: u16) -> Option<&[AtomicU64; 4]> {
        let first = ring / DESCRIPTOR_BYTES;
        self.0.block::<4>(first.saturating_add(index.into()))
    }

    /// Writes a descriptor of the command ring.
    pub(super) fn write_atq(&self, index: u16, descriptor: &Descriptor) {
        write(self.entry(RINGS, index), descriptor);
    }

    /// Reads a descriptor of the command ring.
    pub(super) fn read_atq(&self, index: u16) -> Descriptor {
        read(self.entry(RINGS, index))
    }

    /// Writes the descriptor of an event entry so that it waits again.
    pub(super) fn arm_arq(&self, index: u16) {
        let address = self.address(Buffer::Event(index));
        let waiting = Descriptor::waiting(address, BUFFER_BYTES as u16);
        write(self.entry(ARQ_RING, index), &waiting);
    }

    /// Reads a descriptor of the event ring.
    pub(super) fn read_arq(&self, index: u16) -> Descriptor {
        read(self.entry(ARQ_RING, index))
    }
}

/// A descriptor has no valid bit: the tail register publishes it.
fn write(entry: Option<&[AtomicU64; 4]>, descriptor: &Descriptor) {
    for (cell, word) in entry.into_iter().flatten().zip(descriptor.to_words()) {
        cell.set(word);
    }
}

fn read(entry: Option<&[AtomicU64; 4]>) -> Descriptor {
    // Every index is below the ring's size.
    let words = entry.map_or([0; 4], |cells| cells.each_ref().map(DmaWord::get));
    Descriptor::from_words(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_aligned_and_nothing_overlaps() {
        assert_eq!(RINGS % 64, 0);
        assert_eq!(ARQ_RING % 64, 0);
        assert_eq!(DMA_BYTES, 4096 * 17 + 8 * 32 + 16 * 32);
        assert_eq!(Buffer::Event(15).place(), 16);
    }
}
