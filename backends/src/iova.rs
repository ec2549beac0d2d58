//! I/O address space: it tracks which addresses of the device are free.
//!
//! The ranges that the IOMMU allows may have holes (the MSI window). Allocation is first fit, so
//! the same sequence of requests gets the same addresses.

use std::collections::BTreeMap;

/// Why a request to the space failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IovaError {
    /// A range is empty, does not consist of whole pages, or overlaps another one; or the page size
    /// is no power of two.
    #[error(
        "the range {first:#x}..={last:#x} in pages of {page} bytes is not an I/O address range"
    )]
    BadRange {
        /// First address.
        first: u64,
        /// Last address.
        last: u64,
        /// Page size in bytes.
        page: u64,
    },
    /// No free range is large enough.
    #[error("no free I/O addresses for {bytes} bytes aligned to {align}")]
    Full {
        /// Bytes asked for, in whole pages.
        bytes: u64,
        /// Alignment asked for.
        align: u64,
    },
    /// The request is for nothing, or for too much.
    #[error("{bytes} bytes of I/O addresses aligned to {align} cannot be asked for")]
    BadRequest {
        /// Bytes asked for.
        bytes: u64,
        /// Alignment asked for.
        align: u64,
    },
    /// The range is not allocated.
    #[error("I/O address {0:#x} is not the start of an allocation")]
    NotAllocated(u64),
}

/// A space of addresses in whole pages.
#[derive(Clone, Debug)]
pub struct IovaSpace {
    /// First to last address of each free range. Last, not end, because a range may reach the very
    /// top. Neighbours are merged.
    free: BTreeMap<u64, u64>,
    /// First to last address of each allocation.
    taken: BTreeMap<u64, u64>,
    page: u64,
}

impl IovaSpace {
    /// A space of the given `(first, last)` ranges, in pages of `page` bytes.
    ///
    /// # Errors
    /// [`IovaError::BadRange`].
    pub fn new(ranges: &[(u64, u64)], page: u64) -> Result<Self, IovaError> {
        let mut space = Self {
            free: BTreeMap::new(),
            taken: BTreeMap::new(),
            page,
        };
        for &(first, last) in ranges {
            let whole = page.is_power_of_two()
                && first <= last
                && first.is_multiple_of(page)
                && last.wrapping_add(1).is_multiple_of(page);
            let below = space.free.range(..=last).next_back();
            if !whole || below.is_some_and(|(_, below_last)| *below_last >= first) {
                return Err(IovaError::BadRange { first, last, page });
            }
            space.release(first, last);
        }
        Ok(space)
    }

    /// Page size in bytes: addresses and sizes are multiples of it.
    #[must_use]
    pub const fn page(&self) -> u64 {
        self.page
    }

    /// Takes `bytes` (rounded up to pages), aligned to `align`, a power of two (and at least to a
    /// page).
    ///
    /// # Errors
    /// [`IovaError::BadRequest`], [`IovaError::Full`].
    pub fn alloc(&mut self, bytes: u64, align: u64) -> Result<u64, IovaError> {
        self.alloc_like(bytes, align, 0)
    }

    /// As [`IovaSpace::alloc`], whole pages at an address that has the same offset in `align` bytes
    /// as `like`: an IOMMU entry of `align` bytes can then serve memory that lies at `like`.
    ///
    /// # Errors
    /// [`IovaError::BadRequest`], [`IovaError::Full`].
    pub fn alloc_like(&mut self, bytes: u64, align: u64, like: u64) -> Result<u64, IovaError> {
        let bad = IovaError::BadRequest { bytes, align };
        let size = bytes.checked_next_multiple_of(self.page).ok_or(bad)?;
        if bytes == 0 || !align.is_power_of_two() || !like.is_multiple_of(self.page) {
            return Err(bad);
        }
        let align = align.max(self.page);
        let place = like & (align - 1);
        let fits = |(&first, &last): (&u64, &u64)| {
            let start = first.checked_add(align - 1 - place)? & !(align - 1);
            let start = start.checked_add(place)?;
            let end = start.checked_add(size - 1)?;
            (end <= last).then_some((first, last, start, end))
        };
        let (first, last, start, end) = self
            .free
            .iter()
            .find_map(fits)
            .ok_or(IovaError::Full { bytes: size, align })?;
        self.free.remove(&first);
        if first < start {
            self.free.insert(first, start - 1);
        }
        if end < last {
            self.free.insert(end + 1, last);
        }
        self.taken.insert(start, end);
        Ok(start)
    }

    /// Frees what [`IovaSpace::alloc`] returned.
    ///
    /// # Errors
    /// [`IovaError::NotAllocated`].
    pub fn free(&mut self, start: u64) -> Result<(), IovaError> {
        let last = self.taken.remove(&start);
        self.release(start, last.ok_or(IovaError::NotAllocated(start))?);
        Ok(())
    }

    /// Whether nothing is taken.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.taken.is_empty()
    }

    /// Adds a free range and merges it with its neighbours.
    fn release(&mut self, mut first: u64, mut last: u64) {
        if let Some((&below, &below_last)) = self.free.range(..first).next_back()
            && below_last.checked_add(1) == Some(first)
        {
            self.free.remove(&below);
            first = below;
        }
        if let Some(above) = last.checked_add(1)
            && let Some(above_last) = self.free.remove(&above)
        {
            last = above_last;
        }
        self.free.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;
    /// Low memory with the hole of interrupt messages.
    const RANGES: [(u64, u64); 2] = [(PAGE, 0xfedf_ffff), (0xfef0_0000, 0xff_ffff_ffff)];

    #[test]
    fn first_fit_aligned_and_given_back() {
        let mut space = IovaSpace::new(&RANGES, PAGE).unwrap();
        assert_eq!(space.alloc(1, 1), Ok(PAGE));
        assert_eq!(space.alloc(PAGE, 0x20_0000), Ok(0x20_0000));
        assert_eq!(space.alloc(2 * PAGE, 1), Ok(2 * PAGE));
        // Too large to fit below the hole.
        assert_eq!(space.alloc(0xfed0_0000, PAGE), Ok(0xfef0_0000));
        assert_eq!(space.free(PAGE), Ok(()));
        assert_eq!(space.alloc(1, 1), Ok(PAGE));
        assert_eq!(space.free(3 * PAGE), Err(IovaError::NotAllocated(3 * PAGE)));
        for start in [PAGE, 0x20_0000, 2 * PAGE, 0xfef0_0000] {
            space.free(start).unwrap();
        }
        assert!(space.is_unused());
        assert_eq!(space.free, BTreeMap::from(RANGES));
    }

    #[test]
    fn an_address_can_be_like_another() {
        const MIB2: u64 = 2 << 20;
        let mut space = IovaSpace::new(&RANGES, PAGE).unwrap();
        let like = 0x7f12_3456_7000;
        let start = space.alloc_like(MIB2, MIB2, like).unwrap();
        assert_eq!(start, like % MIB2);
        // The next place of this kind follows it.
        let next = space.alloc_like(MIB2, MIB2, like).unwrap();
        assert_eq!(next, start + MIB2);
        // The first address of a range is such a place itself.
        assert_eq!(space.alloc_like(PAGE, MIB2, PAGE), Ok(PAGE));
        assert_eq!(space.alloc_like(PAGE, MIB2, PAGE), Ok(PAGE + 3 * MIB2));
        assert!(matches!(
            space.alloc_like(PAGE, MIB2, 12),
            Err(IovaError::BadRequest { .. })
        ));
    }

    #[test]
    fn the_top_of_the_space_is_usable() {
        let top = u64::MAX - PAGE + 1;
        let mut space = IovaSpace::new(&[(top, u64::MAX)], PAGE).unwrap();
        assert_eq!(space.alloc(PAGE, 1), Ok(top));
        assert!(matches!(space.alloc(1, 1), Err(IovaError::Full { .. })));
        space.free(top).unwrap();
        assert!(matches!(
            space.alloc(u64::MAX, 1),
            Err(IovaError::BadRequest { .. })
        ));
        assert!(matches!(
            space.alloc(PAGE, 1 << 63),
            Err(IovaError::Full { .. })
        ));
    }

    #[test]
    fn bad_ranges_and_requests_are_refused() {
        for ranges in [
            &[(0, 4094)][..],
            &[(1, 4095)],
            &[(8192, 4095)],
            &[(0, 8191), (4096, 12287)],
        ] {
            assert!(matches!(
                IovaSpace::new(ranges, PAGE),
                Err(IovaError::BadRange { .. })
            ));
        }
        assert!(IovaSpace::new(&[(0, 4095)], 3).is_err());
        let mut space = IovaSpace::new(&RANGES, PAGE).unwrap();
        for (bytes, align) in [(0, 1), (1, 0), (1, 3)] {
            assert!(matches!(
                space.alloc(bytes, align),
                Err(IovaError::BadRequest { .. })
            ));
        }
    }

    proptest! {
        /// Allocations lie in the allowed ranges, are aligned and never overlap, and when all are
        /// freed the space is as at first.
        #[test]
        fn allocations_are_disjoint_and_come_back(
            steps in prop::collection::vec((1u64..40 * PAGE, 0u32..22, any::<bool>(), any::<prop::sample::Index>()), 1..80)
        ) {
            let ranges = [(PAGE, 31 * PAGE - 1), (64 * PAGE, 1023 * PAGE - 1)];
            let mut space = IovaSpace::new(&ranges, PAGE).unwrap();
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (bytes, shift, give_back, which) in steps {
                if give_back && !live.is_empty() {
                    let (start, _) = live.swap_remove(which.index(live.len()));
                    space.free(start).unwrap();
                } else if let Ok(start) = space.alloc(bytes, 1 << shift) {
                    let last = start + bytes.next_multiple_of(PAGE) - 1;
                    prop_assert!(start.is_multiple_of(1 << shift) && start.is_multiple_of(PAGE));
                    prop_assert!(ranges.iter().any(|(a, b)| *a <= start && last <= *b));
                    prop_assert!(live.iter().all(|(a, b)| last < *a || *b < start));
                    live.push((start, last));
                }
            }
            for (start, _) in live {
                space.free(start).unwrap();
            }
            prop_assert_eq!(space.free, BTreeMap::from(ranges));
        }
    }
}
