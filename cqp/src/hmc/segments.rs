//! The table of segment descriptors: the backing of each, and whether the device has it.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::Iova;
use tock_registers::register_bitfields;

use crate::op::SdKind;

register_bitfields![u64,
    Record [
        PRESENT OFFSET(0) NUMBITS(1) [],
        DIRECT OFFSET(1) NUMBITS(1) [],
        PROGRAMMED OFFSET(2) NUMBITS(1) [],
        PAGE OFFSET(12) NUMBITS(52) []
    ]
];

/// A segment that has backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) kind: SdKind,
    /// The 2 MiB, or the page of page descriptors; 4 KiB aligned.
    pub(super) address: Iova,
    /// The device has been told about it, or may have been.
    pub(super) programmed: bool,
}

/// A view of the table, one word a segment.
#[derive(Clone, Copy)]
pub(super) struct Segments<'a>(pub(super) &'a [AtomicU64]);

impl Segments<'_> {
    pub(super) fn get(&self, index: u32) -> Option<Segment> {
        // Only touched through `&mut Hmc`: relaxed is enough.
        let word = self.0.get(index as usize)?.load(Ordering::Relaxed);
        let kind = if Record::DIRECT.is_set(word) {
            SdKind::Direct
        } else {
            SdKind::Paged
        };
        Record::PRESENT.is_set(word).then(|| Segment {
            kind,
            address: Iova(Record::PAGE.read(word) << 12),
            programmed: Record::PROGRAMMED.is_set(word),
        })
    }

    pub(super) fn set(&self, index: u32, segment: Segment) {
        let fields = Record::PRESENT::SET
            + Record::DIRECT.val(u64::from(segment.kind == SdKind::Direct))
            + Record::PROGRAMMED.val(u64::from(segment.programmed))
            + Record::PAGE.val(segment.address.0 >> 12);
        if let Some(word) = self.0.get(index as usize) {
            word.store(fields.value, Ordering::Relaxed);
        }
    }

    /// Number of segments, present or not.
    pub(super) fn len(&self) -> u32 {
        // The table has at most 4096 words.
        self.0.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_word() {
        let words: [AtomicU64; 3] = Default::default();
        let table = Segments(&words);
        assert_eq!((table.get(1), table.get(3), table.len()), (None, None, 3));
        for kind in [SdKind::Direct, SdKind::Paged] {
            for programmed in [false, true] {
                let segment = Segment {
                    kind,
                    address: Iova(0xFFFF_FFFF_FFFF_F000),
                    programmed,
                };
                table.set(1, segment);
                assert_eq!(table.get(1), Some(segment));
            }
        }
        assert_eq!(table.get(0), None);
    }
}
