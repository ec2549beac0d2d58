//! Trackers: what software remembers of each request, per quantum of the ring.
//!
//! A tracker is two words at the index of the WQE's first quantum: wr_id, and a
//! [`Tag`]. They lie in the slot table's memory; the poster writes them before it
//! moves the head, the poller reads them before it moves the tail (see
//! [`crate::slot`]).

use core::sync::atomic::Ordering;

use crate::slot::Atom;
use crate::status::opcode;
use crate::wr::SendFlags;

/// The second word of a tracker: [30:0] bytes, [37:32] opcode (the place it has
/// in a WQE's header), [40:38] quanta less one, [42:41] fences, [43] a CQE is
/// expected on success, [63:44] position after the request in the queue, modulo
/// 2^20.
///
/// The position tells a WQE's first quantum from whatever an earlier lap left
/// at the same index, so that an index the device makes up is recognised; and
/// it is where the tail goes when the request is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u64);

const OPCODE_SHIFT: u32 = 32;
const QUANTA_SHIFT: u32 = 38;
/// Of FENCE, LOCAL_FENCE and SIGNALED, in this order.
const FLAGS_SHIFT: u32 = 41;
const EXPECTED: u64 = 1 << 43;
const POSITION_SHIFT: u32 = 44;

impl Tag {
    /// `opcode` is in its place in a header ([`Tag::opcode_bits`]), `bytes` is
    /// below 2^31, `quanta` 1 to 8, `flags` are those of [`flag_bits`].
    #[inline(always)]
    pub(crate) const fn new(opcode: u64, bytes: u64, quanta: u64, flags: u64) -> Self {
        let more = quanta.wrapping_sub(1) << QUANTA_SHIFT;
        Self(opcode | bytes | more | flags << FLAGS_SHIFT)
    }

    /// An opcode in its place in a header.
    #[inline(always)]
    pub(crate) const fn opcode_bits(opcode: u8) -> u64 {
        (opcode as u64 & 0x3F) << OPCODE_SHIFT
    }

    /// The same, for a request that ends before a position of the queue.
    #[inline(always)]
    const fn ending_at(self, position: u64) -> Self {
        Self(self.0 | position << POSITION_SHIFT)
    }

    /// Quanta from `tail` to the end of this request: 1 to the ring size less
    /// one exactly if the request is outstanding, because a ring is never full.
    #[inline(always)]
    pub(crate) const fn end_after(self, tail: u64) -> u64 {
        self.0.wrapping_sub(tail << POSITION_SHIFT) >> POSITION_SHIFT
    }

    #[inline(always)]
    pub(crate) const fn bytes(self) -> u32 {
        self.0 as u32
    }

    /// Whether the device writes a CQE on success.
    #[inline(always)]
    pub(crate) const fn is_expected(self) -> bool {
        self.0 & EXPECTED != 0
    }

    /// Quanta of the request.
    #[inline(always)]
    pub(crate) const fn quanta(self) -> u64 {
        (self.0 >> QUANTA_SHIFT & 7).wrapping_add(1)
    }

    pub(crate) const fn opcode(self) -> u8 {
        (self.0 >> OPCODE_SHIFT) as u8 & 0x3F
    }

    pub(crate) const fn is_nop(self) -> bool {
        self.opcode() == opcode::NOP
    }
}

/// FENCE, LOCAL_FENCE and SIGNALED of a request as a number below 8.
#[inline(always)]
pub(crate) const fn flag_bits(flags: SendFlags) -> u64 {
    flags.bits() as u64 & 7
}

/// The flags of a request that a CQE is expected for.
pub(crate) const SIGNALED: u64 = flag_bits(SendFlags::SIGNALED);

const _: () = assert!(SIGNALED << FLAGS_SHIFT == EXPECTED);

/// Poster: remembers the request that ends before position `end`, in the
/// tracker of its first quantum.
#[inline(always)]
pub(crate) fn write<A: Atom>(tracker: &[A; 2], wr_id: u64, tag: Tag, end: u64) {
    let [first, second] = tracker;
    first.store(wr_id, Ordering::Relaxed);
    second.store(tag.ending_at(end).0, Ordering::Relaxed);
}

/// Poller: what kind of request it is.
#[inline(always)]
pub(crate) fn tag<A: Atom>([_, second]: &[A; 2]) -> Tag {
    Tag(second.load(Ordering::Relaxed))
}

/// Poller: whose request it is.
#[inline(always)]
pub(crate) fn wr_id<A: Atom>([first, _]: &[A; 2]) -> u64 {
    first.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn a_tracker_is_that_of_its_position_only() {
        let tracker = [AtomicU64::new(0), AtomicU64::new(0)];
        for position in [0, 1, 7, (1 << 20) - 1, 1 << 20, 1 << 40, u64::MAX] {
            let made = Tag::new(Tag::opcode_bits(0x3F), 0x7FFF_FFFF, 8, 7);
            write(&tracker, 77, made, position);
            let (wr_id, tag) = (wr_id(&tracker), tag(&tracker));
            assert_eq!((wr_id, tag.bytes(), tag.quanta()), (77, 0x7FFF_FFFF, 8));
            assert!(tag.is_expected());
            assert_eq!(tag.opcode(), 0x3F);
            assert_eq!(tag.end_after(position.wrapping_sub(1)), 1);
            assert_eq!(tag.end_after(position.wrapping_sub(1023)), 1023);
            // Retired, or of an earlier lap.
            assert_eq!(tag.end_after(position), 0);
            assert!(tag.end_after(position.wrapping_add(1)) > 32768);
            assert!(tag.end_after(position.wrapping_add(1024)) > 32768);
        }
    }

    #[test]
    fn zeroed_memory_expects_nothing() {
        let tag = tag(&[AtomicU64::new(0), AtomicU64::new(0)]);
        assert!(!tag.is_expected());
    }
}
