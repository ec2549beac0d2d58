//! Receive descriptors as the device writes them back (lan-path 5.6, 5.7, 18).

use super::headers::Parsed;

/// RXDIDs up to this one select the legacy layout.
const LEGACY: u8 = 1;
/// The layout with a flow id.
const OVS: u8 = 22;

/// What the descriptor reports about a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Layout.
    pub(super) rxdid: u8,
    /// Bytes in this buffer.
    pub(super) len: u16,
    /// The last buffer of its frame.
    pub(super) is_last: bool,
    pub(super) parsed: Parsed,
    /// The removed tag, and whether it goes to L2TAG1 (otherwise to the second L2TAG2).
    pub(super) tag: Option<(u16, bool)>,
    /// The FCS is in the buffer.
    pub(super) has_fcs: bool,
    /// The hash that selected the queue.
    pub(super) hash: Option<u32>,
}

fn bits<const N: usize>(set: [(bool, u32); N]) -> u64 {
    set.into_iter()
        .filter(|(is_set, _)| *is_set)
        .fold(0, |word, (_, bit)| word | 1 << bit)
}

impl Report {
    /// The four words of the descriptor; the second has the DD bit.
    pub(super) fn words(&self) -> [u64; 4] {
        if self.rxdid <= LEGACY {
            self.legacy()
        } else {
            self.flexible()
        }
    }

    fn flexible(&self) -> [u64; 4] {
        let Parsed {
            ptype,
            is_checked,
            is_ip_wrong,
            is_l4_wrong,
            has_extensions,
        } = self.parsed;
        let (first, second) = self.tags();
        let status = bits([
            (true, 0),
            (self.is_last, 1),
            (self.is_last && is_checked, 3),
            (self.is_last && is_ip_wrong, 4),
            (self.is_last && is_l4_wrong, 5),
            (self.is_last && has_extensions, 9),
            (self.has_fcs, 11),
            (self.is_last && self.hash.is_some(), 12),
            (first.is_some(), 13),
        ]);
        let more = bits([(second.is_some(), 11)]);
        let hash = u64::from(self.hash.filter(|_| self.is_last).unwrap_or(0));
        // One layout has a flow id, here none, in place of the others' hash.
        let (flow, last) = if self.rxdid == OVS {
            (u32::MAX.into(), hash)
        } else {
            (hash, 0)
        };
        [
            u64::from(self.rxdid) | u64::from(ptype) << 16 | u64::from(self.len) << 32,
            status | u64::from(first.unwrap_or(0)) << 16 | flow << 32,
            more | u64::from(second.unwrap_or(0)) << 48,
            last,
        ]
    }

    fn legacy(&self) -> [u64; 4] {
        let Parsed {
            ptype,
            is_checked,
            is_ip_wrong,
            is_l4_wrong,
            has_extensions,
        } = self.parsed;
        let (first, second) = self.tags();
        let status = bits([
            (true, 0),
            (self.is_last, 1),
            (first.is_some(), 2),
            (self.is_last && is_checked, 3),
            (self.has_fcs, 4),
            // FLTSTAT: 3 for a hash.
            (self.is_last && self.hash.is_some(), 12),
            (self.is_last && self.hash.is_some(), 13),
            (self.is_last && has_extensions, 15),
            (self.is_last && is_ip_wrong, 19 + 3),
            (self.is_last && is_l4_wrong, 19 + 4),
        ]);
        let second_there = u64::from(second.is_some());
        let hash = u64::from(self.hash.filter(|_| self.is_last).unwrap_or(0));
        [
            u64::from(first.unwrap_or(0)) << 16 | hash << 32,
            status | u64::from(ptype & 0xFF) << 30 | u64::from(self.len) << 38,
            second_there | u64::from(second.unwrap_or(0)) << 48,
            0,
        ]
    }

    /// Contents of L2TAG1 and of the second L2TAG2.
    fn tags(&self) -> (Option<u16>, Option<u16>) {
        match self.tag.filter(|_| self.is_last) {
            Some((tag, true)) => (Some(tag), None),
            Some((tag, false)) => (None, Some(tag)),
            None => (None, None),
        }
    }
}
