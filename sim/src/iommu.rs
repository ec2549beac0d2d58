//! IOMMU domain of one function: translates every access of the device to memory.
//!
//! Addresses are checked to the byte: an access one byte past a mapping is refused, although a real
//! IOMMU works in pages and may allow it. Mappings are never adjacent; at least one unmapped page
//! lies between two of them. An IOVA is unrelated to the virtual address behind it, is no better
//! aligned than requested, and is not reused while a stale copy of it may still be in use.
//!
//! A process that brings its own I/O address space ([`Iommu::attach`]) chooses its addresses
//! itself: its mappings may be adjacent, and an access may then run from one into the next, as on
//! pages of an IOMMU.

mod access;
mod ahead;
mod target;

use crate::findings::{Kind, kind};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use e810_hal::{Access, SharedBytes};

use crate::pe::DmaFault;
use crate::rng::Rng;

pub(crate) use access::NoAccess;
use ahead::Ahead;
pub(crate) use target::{Target, Window};

/// Granularity of an IOMMU, and the least distance between two mappings.
pub(crate) const PAGE: u64 = 4096;

/// First IOVA handed out: nothing is mapped at or near zero.
const LOW: u64 = 1 << 20;
/// All IOVAs are below this: the width of today's I/O page tables.
const HIGH: u64 = 1 << 47;
/// Unmapped ranges remembered, to tell "freed" from "never mapped".
const REMEMBERED: usize = 4096;
/// Translations cached, by page: a power of two.
const RECENT: usize = 256;
/// Random addresses tried before giving up.
const TRIES: u32 = 64;

/// Why an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Unmapped,
    Freed,
    Bounds,
    ReadOnly,
    Misaligned,
    /// The request never left the function: Bus Master Enable is clear.
    NoMaster,
}

impl Refusal {
    /// Name of the finding.
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Unmapped => kind::DMA_UNMAPPED,
            Self::Freed => kind::DMA_FREED,
            Self::Bounds => kind::DMA_BOUNDS,
            Self::ReadOnly => kind::DMA_READ_ONLY,
            Self::Misaligned => kind::DMA_MISALIGNED,
            Self::NoMaster => kind::DMA_NO_MASTER,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Unmapped => "not mapped",
            Self::Freed => "freed",
            Self::Bounds => "runs past the end of the mapping",
            Self::ReadOnly => "not writable",
            Self::Misaligned => "misaligned",
            Self::NoMaster => "DMA without bus mastering",
        }
    }
}

/// A refused access: the request and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    pub(crate) iova: u64,
    pub(crate) bytes: usize,
    pub(crate) write: bool,
}

impl From<Refused> for DmaFault {
    fn from(refused: Refused) -> Self {
        Self {
            iova: refused.iova,
            bytes: refused.bytes,
            write: refused.write,
            reason: refused.refusal.text(),
        }
    }
}

/// A mapping that is contiguous for the device and for the CPU.
#[derive(Clone, Copy, Debug)]
struct Segment {
    memory: Target,
    access: Access,
    /// Made by [`Iommu::attach`].
    attached: bool,
}

impl Segment {
    fn len(&self) -> u64 {
        self.memory.len() as u64
    }
}

/// One domain.
#[derive(Debug)]
pub(crate) struct Iommu {
    /// By first IOVA; disjoint, with guard gaps.
    segments: BTreeMap<u64, Segment>,
    /// Mappings used recently, with their first IOVA; all are dropped when any mapping is removed.
    recent: [Cell<Option<(u64, Segment)>>; RECENT],
    /// First IOVA and length of the ranges unmapped last.
    gone: VecDeque<(u64, u64)>,
    /// Number of times that mappings were removed.
    removed: u64,
    ahead: Ahead,
    /// Random source for the addresses of aligned ranges.
    rng: Rng,
    /// Random source for ranges with a given offset in the page. It is a stream of its own: how
    /// often it is drawn from depends on virtual addresses, which no seed decides.
    page_rng: Rng,
}

impl Iommu {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            segments: BTreeMap::new(),
            recent: [const { Cell::new(None) }; RECENT],
            gone: VecDeque::new(),
            removed: 0,
            ahead: Ahead::default(),
            page_rng: rng.fork("pages"),
            rng,
        }
    }

    /// A free range of `bytes` whose first IOVA is an odd multiple of `align` (a power of two).
    pub(crate) fn place_aligned(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let odd_multiples = |top: u64| top.checked_div(align).map_or(0, |n| n / 2);
        for _ in 0..TRIES {
            let top = ceiling(&mut self.rng);
            let steps = odd_multiples(top).checked_sub(odd_multiples(LOW))?;
            let step = odd_multiples(LOW) + self.rng.below(steps);
            let iova = step.checked_mul(2)?.checked_add(1)?.checked_mul(align)?;
            if self.is_free(iova, bytes) {
                return Some(iova);
            }
        }
        None
    }

    /// A free range of `bytes` that begins `in_page` bytes into a page.
    pub(crate) fn place_in_page(&mut self, bytes: u64, in_page: u64) -> Option<u64> {
        for _ in 0..TRIES {
            let pages = (ceiling(&mut self.page_rng) - LOW) / PAGE;
            let iova = LOW + self.page_rng.below(pages) * PAGE + in_page;
            if self.is_free(iova, bytes) {
                return Some(iova);
            }
        }
        None
    }

    /// Whether `bytes` from `iova` on touch no mapping and no guard page, and lie in the address
    /// space.
    pub(crate) fn is_free(&self, iova: u64, bytes: u64) -> bool {
        let Some(end) = iova.checked_add(bytes).filter(|end| *end <= HIGH) else {
            return false;
        };
        let below = self.segments.range(..end + PAGE).next_back();
        below.is_none_or(|(&start, segment)| start + segment.memory.len() as u64 + PAGE <= iova)
    }

    /// Maps `memory` at `iova`; false when the range is not free.
    pub(crate) fn map(&mut self, iova: u64, memory: impl Into<Target>, access: Access) -> bool {
        let memory = memory.into();
        let free = self.is_free(iova, memory.len() as u64);
        if free {
            let segment = Segment {
                memory,
                access,
                attached: false,
            };
            self.segments.insert(iova, segment);
        }
        free
    }

    /// Unmaps the mapping that starts at `iova`.
    pub(crate) fn unmap(&mut self, iova: u64) {
        if let Some(segment) = self.segments.remove(&iova) {
            self.forget_recent();
            self.remember(iova, segment.len());
        }
    }

    fn remember(&mut self, iova: u64, bytes: u64) {
        if self.gone.len() == REMEMBERED {
            self.gone.pop_front();
        }
        self.gone.push_back((iova, bytes));
    }

    /// Maps `memory` at an address that its user chose. False when it is empty, wraps, overlaps
    /// another mapping or has another offset in its page than the address.
    pub(crate) fn attach(&mut self, iova: u64, memory: SharedBytes, access: Access) -> bool {
        let len = memory.len() as u64;
        let Some(end) = iova.checked_add(len).filter(|end| *end > iova) else {
            return false;
        };
        let below = self.segments.range(..end).next_back();
        let free = below.is_none_or(|(&start, segment)| start + segment.len() <= iova);
        let fits = free && iova % PAGE == memory.address() % PAGE;
        if fits {
            let segment = Segment {
                memory: memory.into(),
                access,
                attached: true,
            };
            self.segments.insert(iova, segment);
        }
        fits
    }

    /// Unmaps the parts of [`Iommu::attach`] mappings that lie in `bytes` bytes from `iova` on (up
    /// to the end of the address space). Mappings that extend beyond the range are cut. Returns the
    /// number of mappings concerned.
    pub(crate) fn detach(&mut self, iova: u64, bytes: u64) -> usize {
        let end = iova.saturating_add(bytes);
        let concerned: Vec<(u64, Segment)> = self
            .segments
            .range(..end)
            .rev()
            .take_while(|(start, segment)| **start + segment.len() > iova)
            .filter(|(_, segment)| segment.attached)
            .map(|(start, segment)| (*start, *segment))
            .collect();
        self.forget_recent();
        for (start, segment) in &concerned {
            self.segments.remove(start);
            let (from, to) = (iova.max(*start), end.min(start + segment.len()));
            self.remember(from, to - from);
            for (first, last) in [(*start, from), (to, start + segment.len())] {
                let window = segment
                    .memory
                    .window((first - start) as usize, (last - first) as usize);
                if let Some(memory) = window.ok().filter(|memory| !memory.is_empty()) {
                    self.segments.insert(first, Segment { memory, ..*segment });
                }
            }
        }
        concerned.len()
    }

    /// Number of current mappings made by [`Iommu::attach`].
    pub(crate) fn attached(&self) -> usize {
        let attached = |segment: &&Segment| segment.attached;
        self.segments.values().filter(attached).count()
    }

    /// Bytes of those mappings.
    pub(crate) fn attached_bytes(&self) -> u64 {
        let attached = self.segments.values().filter(|segment| segment.attached);
        attached.map(Segment::len).sum()
    }

    /// Number of times that mappings were removed.
    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }

    fn forget_recent(&mut self) {
        self.removed += 1;
        self.recent = [const { Cell::new(None) }; RECENT];
    }

    /// The cache slot for the mapping of `iova`. Neighbouring pages have neighbouring slots, and
    /// mappings of many pages do not all begin in the same slot.
    fn recent(&self, iova: u64) -> Option<&Cell<Option<(u64, Segment)>>> {
        let place = ((iova / PAGE) ^ (iova / PAGE / RECENT as u64)) as usize % RECENT;
        self.recent.get(place)
    }

    /// Memory behind `bytes` bytes at `iova`, if their mapping was used recently and permits the
    /// access.
    fn translate_recent(&self, iova: u64, bytes: usize, write: bool) -> Option<Target> {
        let (start, segment) = self.recent(iova)?.get()?;
        if write && segment.access == Access::Read {
            return None;
        }
        // An address before the mapping wraps to an offset far behind it.
        let offset = usize::try_from(iova.wrapping_sub(start)).ok()?;
        segment.memory.window(offset, bytes).ok()
    }

    /// The mapping that contains the byte at `iova`, and its first IOVA.
    fn find(&self, iova: u64) -> Option<(u64, Segment)> {
        let holds = |&(start, segment): &(u64, Segment)| iova.wrapping_sub(start) < segment.len();
        let recent = self.recent(iova);
        if let Some(found) = recent.and_then(Cell::get).filter(holds) {
            return Some(found);
        }
        let below = self.segments.range(..=iova).next_back();
        let found = below
            .map(|(start, segment)| (*start, *segment))
            .filter(holds)?;
        if let Some(recent) = recent {
            recent.set(Some(found));
        }
        Some(found)
    }

    /// Memory behind `bytes` bytes at `iova`.
    #[inline]
    fn translate(&self, iova: u64, bytes: usize, write: bool) -> Result<Target, Refused> {
        match self.translate_recent(iova, bytes, write) {
            Some(memory) => Ok(memory),
            None => self.translate_checked(iova, bytes, write),
        }
    }

    /// Like [`Iommu::translate`], for any mapping, and with the reason for a refusal.
    #[inline(never)]
    fn translate_checked(&self, iova: u64, bytes: usize, write: bool) -> Result<Target, Refused> {
        let refuse = |refusal| Refused {
            refusal,
            iova,
            bytes,
            write,
        };
        let (start, segment) = self.find(iova).ok_or_else(|| refuse(self.absence(iova)))?;
        if write && segment.access == Access::Read {
            return Err(refuse(Refusal::ReadOnly));
        }
        segment
            .memory
            .window((iova - start) as usize, bytes)
            .map_err(|_| refuse(Refusal::Bounds))
    }

    /// Memory behind `bytes` bytes at `iova`, in address order.
    fn pieces(&self, iova: u64, bytes: usize, write: bool) -> Result<Vec<Target>, Refused> {
        let refuse = |refusal| Refused {
            refusal,
            iova,
            bytes,
            write,
        };
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < bytes {
            let at = iova.checked_add(done as u64);
            let at = at.ok_or_else(|| refuse(Refusal::Bounds))?;
            let (start, segment) = self.find(at).ok_or_else(|| refuse(Refusal::Bounds))?;
            if write && segment.access == Access::Read {
                return Err(refuse(Refusal::ReadOnly));
            }
            let offset = (at - start) as usize;
            let len = (segment.memory.len() - offset).min(bytes - done);
            let piece = segment.memory.window(offset, len);
            pieces.push(piece.map_err(|_| refuse(Refusal::Bounds))?);
            done += len;
        }
        Ok(pieces)
    }

    fn absence(&self, iova: u64) -> Refusal {
        let was_mapped = |&(start, len): &(u64, u64)| iova >= start && iova - start < len;
        if self.gone.iter().any(was_mapped) {
            Refusal::Freed
        } else {
            Refusal::Unmapped
        }
    }
}

/// Some IOVAs fit 32 bits and most do not: both halves of an address must be handled.
fn ceiling(rng: &mut Rng) -> u64 {
    if rng.below(4) == 0 { 1 << 32 } else { HIGH }
}

#[cfg(test)]
mod tests;
