//! Trackers: what software remembers of each request, per quantum of the ring.
//!
//! A tracker is three words at the index of the WQE's first quantum: wr_id, a
//! [`Tag`], and the position after the request in the queue. They lie in the
//! slot table's memory; the producer writes them before it moves the head, the
//! poller reads them before it moves the tail (see [`crate::slot`]).
//!
//! The position tells a WQE's first quantum from leftovers of an earlier lap at the same index,
//! so that an index that the device makes up is recognised. It is also the new tail when the
//! request is done.

use core::sync::atomic::Ordering;

use crate::slot::Atom;
use crate::wqe::header::HDR;

/// Words of a tracker.
pub(crate) const WORDS: usize = 3;

/// The second word of a tracker: [30:0] bytes, [31] padding that nobody asked
/// for, [40:38] quanta less one, and in the places they have in a WQE's header
/// [37:32] opcode, [62:60] fences and SIGCOMPL, which says that a CQE is expected
/// on success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u64);

const OPCODE_SHIFT: u32 = 32;
const QUANTA_SHIFT: u32 = 38;
const EXPECTED: u64 = HDR::SIGCOMPL::SET.value;
const PAD: u64 = 1 << 31;

impl Tag {
    /// `header` has opcode, fences and SIGCOMPL in their places and nothing
    /// else, `bytes` is below 2^31, `quanta` 1 to 8.
    #[inline(always)]
    pub(crate) const fn new(header: u64, bytes: u64, quanta: u64) -> Self {
        Self(header | bytes | quanta.wrapping_sub(1) << QUANTA_SHIFT)
    }

    /// The tag of a receive of `quanta`. It does not keep the length, which is not the length
    /// that completes.
    #[inline(always)]
    pub(crate) const fn receive(quanta: u64) -> Self {
        Self::new(EXPECTED, 0, quanta)
    }

    /// Of a NOP that pads a chunk.
    pub(crate) const fn pad(header: u64) -> Self {
        Self::new(header | PAD, 0, 1)
    }

    /// Its length; not to be asked of a pad.
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

    /// Whether nobody asked for it: it completes silently, and is not flushed.
    pub(crate) const fn is_pad(self) -> bool {
        self.0 & PAD != 0
    }
}

/// View of a tracker.
#[derive(Debug)]
pub(crate) struct Tracker<'a, A>(pub(crate) &'a [A; WORDS]);

impl<A: Atom> Tracker<'_, A> {
    /// Producer: remembers a request that ends before position `end`.
    #[inline(always)]
    pub(crate) fn write(&self, wr_id: u64, tag: Tag, end: u64) {
        self.0[0].store(wr_id, Ordering::Relaxed);
        self.0[1].store(tag.0, Ordering::Relaxed);
        self.0[2].store(end, Ordering::Relaxed);
    }

    /// Control, before the positions of its queue restart at 0: no request.
    pub(crate) fn forget(&self) {
        self.0[2].store(0, Ordering::Relaxed);
    }

    /// Poller: whose request it is.
    #[inline(always)]
    pub(crate) fn wr_id(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Poller: what kind of request it is.
    #[inline(always)]
    pub(crate) fn tag(&self) -> Tag {
        Tag(self.0[1].load(Ordering::Relaxed))
    }

    /// Poller: the position after the request. It is beyond the tail exactly if the request is
    /// outstanding: the quanta of an earlier lap's request were freed before they were used
    /// again, so the tail was past its end by then.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.0[2].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wqe::header::{header, signals};
    use crate::wr::SendFlags;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn a_tracker_gives_back_what_was_written() {
        let words = [const { AtomicU64::new(0) }; WORDS];
        let tracker = Tracker(&words);
        for quanta in 1..=8 {
            let header = header(0x3F, 0) | signals(SendFlags::all());
            tracker.write(77, Tag::new(header, 0x7FFF_FFFF, quanta), 1 << 40);
            let (wr_id, tag) = (tracker.wr_id(), tracker.tag());
            assert_eq!((wr_id, tracker.end()), (77, 1 << 40));
            assert_eq!((tag.bytes(), tag.quanta()), (0x7FFF_FFFF, quanta));
            assert_eq!((tag.opcode(), tag.is_expected()), (0x3F, true));
        }
    }

    #[test]
    fn only_signaled_requests_and_receives_are_expected() {
        let fences = signals(SendFlags::FENCE | SendFlags::LOCAL_FENCE);
        assert!(!Tag::new(fences, 0, 1).is_expected());
        assert!(Tag::new(signals(SendFlags::SIGNALED), 0, 1).is_expected());
        assert!(Tag::receive(8).is_expected());
        assert_eq!(Tag::receive(8).quanta(), 8);
    }

    #[test]
    fn padding_is_not_a_nop_that_was_asked_for() {
        let nop = header(crate::status::opcode::NOP, 0);
        assert!(Tag::pad(nop).is_pad() && !Tag::new(nop, 0, 1).is_pad());
        assert_eq!(Tag::pad(nop).quanta(), 1);
    }

    #[test]
    fn zeroed_memory_expects_nothing() {
        let words = [const { AtomicU64::new(0) }; WORDS];
        assert!(!Tracker(&words).tag().is_expected());
    }
}
