//! How memory is described to the device: in one piece, or as a list of pages
//! that are as large as its pieces allow (data-path 6.3).

use e810_cqp::hmc::PbleUse;
use e810_cqp::op::{PageSize, Pages};
use e810_hal::{DmaSegment, Iova, Mapping, Platform};

use super::Control;
use crate::error::{Error, Result};
use crate::mr::Described;

impl<P: Platform> Control<P> {
    /// One piece is named by its address; several become a list. The time this takes grows with
    /// the number of pieces and pages, not with the bytes. `address` is the address of the first
    /// byte for SGEs and peers.
    pub(super) fn describe(
        &mut self,
        address: u64,
        bytes: usize,
        mapping: &Mapping,
    ) -> Result<Described<P>> {
        let mut pieces = Pieces::new(&self.platform, mapping);
        let first = pieces.next().ok_or(Error::Invalid {
            what: "the platform's mapping has no piece of memory",
        })?;
        if pieces.next().is_none() {
            let base = first.iova.0 & !(PageSize::Kib4.bytes() - 1);
            return Ok(Described {
                size: PageSize::Kib4,
                pages: Pages::Contiguous(Iova(base)),
                list: None,
            });
        }
        let pieces = Pieces::new(&self.platform, mapping);
        let size = largest_page(address, pieces);
        let page = size.bytes();
        let count = ((address & (page - 1)) + bytes as u64).div_ceil(page);
        let count = u32::try_from(count).map_err(|_| Error::OutOfRange {
            what: "number of pages of a region",
            value: count,
            min: 1,
            max: u32::MAX.into(),
        })?;
        let pages = PageWalk {
            pieces: Pieces::new(&self.platform, mapping),
            page,
            at: 0,
            end: 0,
        };
        let hmc = &mut self.hmc.hmc;
        let list = hmc.allocate_pbles(&mut self.cqp, count, PbleUse::Region)?;
        if let Err(error) = hmc.fill_pbles(&list, pages) {
            hmc.free_pbles(list);
            return Err(error.into());
        }
        Ok(Described {
            size,
            pages: list.region(),
            list: Some(list),
        })
    }

    pub(super) fn release_description(&mut self, described: Described<P>) {
        if let Some(list) = described.list {
            self.hmc.hmc.free_pbles(list);
        }
    }
}

/// The pieces of a mapping that are contiguous for the device, with neighbours joined.
pub(super) struct Pieces<'a, P> {
    platform: &'a P,
    mapping: &'a Mapping,
    run: u32,
}

impl<'a, P: Platform> Pieces<'a, P> {
    pub(super) const fn new(platform: &'a P, mapping: &'a Mapping) -> Self {
        Self {
            platform,
            mapping,
            run: 0,
        }
    }

    fn run(&mut self) -> Option<DmaSegment> {
        let run = self.platform.dma_segment(self.mapping, self.run)?;
        self.run = self.run.wrapping_add(1);
        Some(run)
    }
}

impl<P: Platform> Iterator for Pieces<'_, P> {
    type Item = DmaSegment;

    fn next(&mut self) -> Option<DmaSegment> {
        let mut piece = self.run()?;
        while let Some(next) = self.platform.dma_segment(self.mapping, self.run) {
            if piece.iova.0.checked_add(piece.bytes) != Some(next.iova.0) {
                break;
            }
            piece.bytes = piece.bytes.saturating_add(next.bytes);
            self.run = self.run.wrapping_add(1);
        }
        Some(piece)
    }
}

/// The largest page size with which every page of the memory at `address` lies in one piece, at
/// the same offset in a page for the device as for us.
fn largest_page(address: u64, pieces: impl Iterator<Item = DmaSegment>) -> PageSize {
    // A set bit says that the page size below it does not fit.
    let (mut at, mut bad, mut last) = (address, 0, None);
    for piece in pieces {
        // All borders between pieces must be borders of pages.
        if last.is_some() {
            bad |= at;
        }
        bad |= at ^ piece.iova.0;
        at = at.wrapping_add(piece.bytes);
        last = Some(piece);
    }
    let fits = |size: &PageSize| bad & (size.bytes() - 1) == 0;
    let largest = [PageSize::Gib1, PageSize::Mib2].into_iter().find(fits);
    largest.unwrap_or(PageSize::Kib4)
}

/// The device addresses of a mapping's pages, in order.
struct PageWalk<'a, P> {
    pieces: Pieces<'a, P>,
    page: u64,
    at: u64,
    end: u64,
}

impl<P: Platform> Iterator for PageWalk<'_, P> {
    type Item = Iova;

    fn next(&mut self) -> Option<Iova> {
        if self.at >= self.end {
            let piece = self.pieces.next()?;
            self.at = piece.iova.0 & !(self.page - 1);
            self.end = piece.iova.0.saturating_add(piece.bytes);
        }
        let page = Iova(self.at);
        self.at = self.at.saturating_add(self.page);
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB4: u64 = 4096;
    const MIB2: u64 = 2 << 20;
    const GIB1: u64 = 1 << 30;

    fn size(address: u64, pieces: &[(u64, u64)]) -> PageSize {
        largest_page(
            address,
            pieces.iter().map(|(iova, bytes)| DmaSegment {
                iova: Iova(*iova),
                bytes: *bytes,
            }),
        )
    }

    #[test]
    fn pages_are_as_large_as_every_border_allows() {
        let base = 0x40_0000_0000;
        assert_eq!(
            size(base, &[(GIB1, GIB1), (4 * GIB1, GIB1)]),
            PageSize::Gib1
        );
        assert_eq!(size(base, &[(MIB2, MIB2), (8 * MIB2, 17)]), PageSize::Mib2);
        assert_eq!(
            size(base, &[(MIB2, KIB4), (8 * MIB2, KIB4)]),
            PageSize::Kib4
        );
        // It begins and ends in the middle of a page.
        let begin = base + 0x12_3456;
        let first = MIB2 - 0x12_3456;
        let pieces = [(16 * MIB2 + 0x12_3456, first), (4 * MIB2, 5)];
        assert_eq!(size(begin, &pieces), PageSize::Mib2);
        // The same, at another offset for the device than for us.
        let pieces = [(16 * MIB2 + 0x12_2456, first), (4 * MIB2, 5)];
        assert_eq!(size(begin, &pieces), PageSize::Kib4);
        // A border that is not a page border.
        let pieces = [(MIB2, 3 * KIB4), (8 * MIB2 + 3 * KIB4, MIB2)];
        assert_eq!(size(base, &pieces), PageSize::Kib4);
    }
}
