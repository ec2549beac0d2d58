//! Where a WQE goes: room, padding, clearing ahead.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};
use e810_types::WorkQueue;

use super::{MEMORY, SendQueue};
use crate::error::PostError;
use crate::producer::Claim;
use crate::sizing::{CHUNK_QUANTA, QUANTUM_WORDS};
use crate::slot::SlotMemory;
use crate::track::Tag;
use crate::wqe::memory;

pub(super) const CHUNK: u64 = CHUNK_QUANTA as u64;
/// Quanta cleared ahead at once, and how often (data-path 1.3).
pub(super) const CLEAR: u64 = 128;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Finds room for `quanta`, pads the chunk before them if it must, clears
    /// ahead if it is due.
    #[inline(always)]
    pub(super) fn place(&mut self, quanta: u64, wr_id: u64, tag: Tag) -> Result<Claim, PostError> {
        let room = CHUNK - self.producer.head() % CHUNK;
        if quanta > room || quanta > self.producer.free() {
            self.make_space(quanta, room)?;
        }
        if self.producer.head().is_multiple_of(CLEAR) {
            self.clear_ahead();
        }
        self.producer.claim(quanta, wr_id, tag).ok_or(MEMORY)
    }

    /// Looks for free quanta, and fills the rest of a chunk with NOPs if that
    /// is too short (data-path 1.2).
    #[cold]
    #[inline(never)]
    fn make_space(&mut self, quanta: u64, room: u64) -> Result<(), PostError> {
        let pads = if quanta > room { room } else { 0 };
        let needed = quanta.wrapping_add(pads);
        if needed > self.producer.free() && needed > self.producer.refresh() {
            return Err(PostError::Full {
                queue: WorkQueue::Send,
                needed: needed as u32,
                free: self.producer.free() as u32,
            });
        }
        let [w0, w1, w2, header] = memory::nop();
        for _ in 0..pads {
            let claim = self.producer.claim(1, 0, Tag::pad(header)).ok_or(MEMORY)?;
            let [q0, q1, q2, q3] = self.producer.quantum(claim.index).ok_or(MEMORY)?;
            q0.set(w0);
            q1.set(w1);
            q2.set(w2);
            self.platform.to_device();
            q3.publish(header | claim.valid);
        }
        Ok(())
    }

    /// Makes stale valid bits of the 128 quanta 128 further on read as "not
    /// valid" in the lap they will be used in (data-path 1.3).
    #[cold]
    #[inline(never)]
    fn clear_ahead(&self) {
        let target = self.producer.head().wrapping_add(CLEAR);
        let invalid = if self.producer.valid_at(target) == 0 {
            u64::MAX
        } else {
            0
        };
        let ahead = self.producer.quanta(self.producer.index_of(target));
        let ahead = ahead.unwrap_or_default().as_flattened();
        let words = ahead.get(..CLEAR as usize * QUANTUM_WORDS);
        // Sixteen at a time: cells are atomic, so the compiler unrolls nothing.
        let (lines, _) = words.unwrap_or_default().as_chunks::<16>();
        for line in lines {
            for cell in line {
                cell.set(invalid);
            }
        }
    }
}
