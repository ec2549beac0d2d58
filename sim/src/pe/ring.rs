//! Queue memory: one contiguous range, or 4 KiB pages listed by PBLEs.

use super::env::Env;
use super::hmc::{Hmc, HmcFault, PAGE_BYTES};

/// Location of a queue's entries (control-path 6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// From this IOVA on.
    Contiguous(u64),
    /// Pages of 4 KiB, with the index of the PBLE of the first one.
    Pbles(u64),
}

impl Memory {
    /// From a base address, or a first PBLE index if `mapped`.
    pub(crate) fn new(mapped: bool, base: u64, pble: u64) -> Self {
        if mapped {
            Self::Pbles(pble)
        } else {
            Self::Contiguous(base)
        }
    }

    /// The IOVA of the byte at `offset`; valid up to the end of its 4 KiB page.
    pub(crate) fn at(self, offset: u64, hmc: &mut Hmc, env: &mut dyn Env) -> Result<u64, HmcFault> {
        match self {
            Self::Contiguous(base) => Ok(base.wrapping_add(offset)),
            Self::Pbles(first) => {
                let page = hmc.pble(first + offset / PAGE_BYTES, env)?;
                // PBLEs are page addresses; the sources do not say whether the card masks the low
                // bits.
                Ok(page.wrapping_add(offset % PAGE_BYTES))
            }
        }
    }

    /// As two words of a stored context.
    pub(crate) fn save(self) -> [u64; 2] {
        match self {
            Self::Contiguous(base) => [0, base],
            Self::Pbles(first) => [1, first],
        }
    }

    /// From the two words of a stored context.
    pub(crate) fn load([mapped, value]: [u64; 2]) -> Self {
        Self::new(mapped != 0, value, value)
    }
}
