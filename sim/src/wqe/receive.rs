//! Receive queue entries (data-path 2).

use super::bits::{bits, mask};
use super::fragment::{Fragments, MOST_USED};
use super::{Lints, QUANTUM_WORDS, WqeError};

/// A decoded receive queue entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveWqe {
    /// Destination of received bytes.
    pub fragments: Fragments,
    /// Ignored bits that software set.
    pub lints: Lints,
}

impl ReceiveWqe {
    /// Decodes the words of one slot whose header is valid; `words` is the whole slot.
    ///
    /// # Errors
    /// [`WqeError::Short`], [`WqeError::TooManyFragments`] if ADDFRAGCNT points beyond the slot,
    /// and [`WqeError::FragmentNotValid`].
    pub fn decode(words: &[u64], polarity: bool) -> Result<Self, WqeError> {
        let header = words.get(3).copied().ok_or(WqeError::Short {
            given: words.len(),
            needed: QUANTUM_WORDS,
        })?;
        let count = bits(header, 41, 38) as u8;
        let slot = words.len() / QUANTUM_WORDS;
        if Fragments::quanta(count) > slot {
            // A slot has eight quanta at most.
            return Err(WqeError::TooManyFragments {
                count,
                quanta: slot as u8,
            });
        }
        let mut lints = Lints::empty();
        lints.add_if(header & !(mask(63, 63) | mask(41, 38)) != 0, Lints::HEADER);
        lints.add_if(words.get(2).is_some_and(|&word| word != 0), Lints::WORD2);
        lints.add_if(!count.is_multiple_of(2), Lints::ODD_FRAGMENTS);
        let fragments = Fragments::decode(words, count, false, polarity)?;
        lints.add_if(fragments.as_slice().len() > MOST_USED, Lints::FRAGMENTS);
        Ok(Self { fragments, lints })
    }
}
