//! Scatter/gather fragments of send and receive entries (data-path 1.6).

use super::bits::{bit, bits32};
use super::{QUANTUM_WORDS, WqeError};

/// Maximum fragments in an entry: one in the first quantum and two in each of seven more.
pub const MAX_FRAGMENTS: usize = 15;

/// Maximum fragments with data (`max_hw_wq_frags`, data-path 5). Entries have room for more, which
/// is for immediates and null fragments.
pub(super) const MOST_USED: usize = 13;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Tagged offset: virtual address, or offset for a zero-based STag.
    pub addr: u64,
    /// Length in bytes, 31 bits. A null fragment has 0.
    pub len: u32,
    /// Local STag.
    pub stag: u32,
}

impl Fragment {
    pub(super) fn decode([addr, word]: [u64; 2]) -> Self {
        Self {
            addr,
            len: bits32(word, 62, 32),
            stag: bits32(word, 31, 0),
        }
    }
}

/// The fragments of one entry, in order; null fragments are left out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fragments {
    /// The first fragment; most entries have only one.
    first: [Fragment; 1],
    several: Option<Box<[Fragment; MAX_FRAGMENTS]>>,
    count: usize,
}

impl Fragments {
    /// Quanta that an entry with this ADDFRAGCNT occupies.
    pub(super) fn quanta(add_fragments: u8) -> usize {
        1 + usize::from(add_fragments).div_ceil(2)
    }

    /// Reads the fragment of the first quantum (unless `skip_first`: an immediate is in its place)
    /// and `add_fragments` more.
    ///
    /// Whether the device counts by ADDFRAGCNT or by valid bits is not in the sources (data-path
    /// 11). This one counts by ADDFRAGCNT, and refuses a counted fragment whose valid bit is not
    /// that of the lap.
    pub(super) fn decode(
        words: &[u64],
        add_fragments: u8,
        skip_first: bool,
        polarity: bool,
    ) -> Result<Self, WqeError> {
        let mut fragments = Self::default();
        if let (0, false, Some([addr, word])) = (add_fragments, skip_first, words.first_chunk()) {
            // The common case.
            if bit(*word, 63) != polarity {
                return Err(WqeError::FragmentNotValid { index: 0 });
            }
            fragments.push(Fragment::decode([*addr, *word]));
            return Ok(fragments);
        }
        let first = words.get(..2).unwrap_or_default();
        let more = words.get(QUANTUM_WORDS..).unwrap_or_default();
        let pairs = first
            .as_chunks::<2>()
            .0
            .iter()
            .chain(more.as_chunks::<2>().0);
        let counted = usize::from(add_fragments) + 1;
        for (index, pair) in pairs
            .take(counted)
            .enumerate()
            .skip(usize::from(skip_first))
        {
            let [_, word] = *pair;
            if bit(word, 63) != polarity {
                // At most 15.
                return Err(WqeError::FragmentNotValid { index: index as u8 });
            }
            fragments.push(Fragment::decode(*pair));
        }
        Ok(fragments)
    }

    /// Appends a fragment. A null one (length 0) transfers no byte and has no memory to check, so
    /// it is left out.
    pub(super) fn push(&mut self, fragment: Fragment) {
        if fragment.len == 0 {
            return;
        }
        if self.count == 0 {
            self.first = [fragment];
            self.count = 1;
            return;
        }
        let [first] = self.first;
        let all = self.several.get_or_insert_with(|| {
            let mut all = Box::new([Fragment::default(); MAX_FRAGMENTS]);
            let [place, ..] = &mut *all;
            *place = first;
            all
        });
        if let Some(slot) = all.get_mut(self.count) {
            *slot = fragment;
            self.count += 1;
        }
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Fragment] {
        let all = self.several.as_deref().map_or(&self.first[..], |all| all);
        all.get(..self.count).unwrap_or_default()
    }

    /// Sum of the lengths in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.as_slice()
            .iter()
            .map(|fragment| u64::from(fragment.len))
            .sum()
    }

    /// The parts of memory that hold bytes `[start, start + len)` of the message, in order.
    ///
    /// Ends early if the fragments hold less.
    pub fn span(&self, start: u64, len: u32) -> impl Iterator<Item = Fragment> {
        let end = start + u64::from(len);
        let mut base = 0;
        self.as_slice().iter().filter_map(move |fragment| {
            let from = start.clamp(base, base + u64::from(fragment.len));
            let to = end.clamp(base, base + u64::from(fragment.len));
            let skip = from - base;
            base += u64::from(fragment.len);
            // Both are within one fragment, so the difference fits its 31 bits.
            let len = (to - from) as u32;
            (len != 0).then(|| Fragment {
                addr: fragment.addr.wrapping_add(skip),
                len,
                stag: fragment.stag,
            })
        })
    }
}

impl core::fmt::Debug for Fragments {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
