//! Where a ring lies.

use e810_backends::observed::DeviceMemory;
use e810_hal::Iova;

use super::words;

/// Bytes of a page that a PBLE of a ring names (control-path 6.7).
pub(crate) const PAGE: u64 = 4096;

/// The memory of a ring, as the device sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In one piece, from this address on.
    Piece(u64),
    /// In pages of [`PAGE`] bytes, in their order.
    Pages(Vec<u64>),
}

impl Place {
    /// Where the byte at `offset` of it is.
    pub(crate) fn at(&self, offset: u64) -> Option<u64> {
        match self {
            Self::Piece(base) => base.checked_add(offset),
            Self::Pages(pages) => {
                let page = pages.get(usize::try_from(offset / PAGE).ok()?)?;
                page.checked_add(offset % PAGE)
            }
        }
    }

    /// `count` words from `offset` bytes on, or as many as are there.
    pub(crate) fn words(&self, memory: &DeviceMemory, offset: u64, count: usize) -> Vec<u64> {
        let mut found = Vec::with_capacity(count);
        let mut offset = offset;
        while found.len() < count {
            let left = count - found.len();
            let in_page = ((PAGE - offset % PAGE) / 8) as usize;
            let part = match self {
                Self::Piece(_) => left,
                Self::Pages(_) => left.min(in_page),
            };
            let Some(at) = self.at(offset) else { break };
            let there = words(memory, at, part);
            let is_whole = there.len() == part;
            found.extend(there);
            if !is_whole {
                break;
            }
            offset = offset.saturating_add(part as u64 * 8);
        }
        found
    }

    /// The parts of memory in which `bytes` of the ring lie, from `offset` on: address, and what of
    /// them. Nothing if they are not in the ring.
    pub(crate) fn parts(&self, mut offset: u64, mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut parts = Vec::new();
        while !bytes.is_empty() {
            let in_page = (PAGE - offset % PAGE) as usize;
            let most = match self {
                Self::Piece(_) => bytes.len(),
                Self::Pages(_) => bytes.len().min(in_page),
            };
            let (part, rest) = bytes.split_at(most);
            let Some(at) = self.at(offset) else {
                return Vec::new();
            };
            parts.push((at, part.to_vec()));
            offset = offset.saturating_add(most as u64);
            bytes = rest;
        }
        parts
    }

    /// Whether part of it is in the memory that begins at `start`.
    pub(crate) fn is_in(&self, memory: &DeviceMemory, start: Iova) -> bool {
        let pages = match self {
            Self::Piece(base) => std::slice::from_ref(base),
            Self::Pages(pages) => pages,
        };
        let is_there = |at: &u64| {
            let block = memory.block(Iova(*at));
            block.is_some_and(|(first, _)| first == start)
        };
        pages.iter().any(is_there)
    }
}
