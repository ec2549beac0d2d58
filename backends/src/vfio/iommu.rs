//! What an IOMMU allows: addresses and page sizes.

use super::super::iova::IovaError;
use super::device_info::{capabilities, long, pairs, word};

/// The IOMMU behind a function, as the kernel describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Iommu {
    /// First and last address of each range that may be used.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Smallest page in bytes.
    pub(super) page: u64,
    /// Mappings that can still be made, if the kernel says.
    pub(super) mappings: Option<u32>,
}

/// Flags of the structure: page sizes and capabilities are there.
const PAGE_SIZES: u32 = 1;
const CAPABILITIES: u32 = 2;
/// Capability ids.
const IOVA_RANGES: u16 = 1;
const MAPPINGS_LEFT: u16 = 3;

/// Addresses below this are not used, because empty memory reads as zero.
const LOWEST: u64 = 1 << 20;
/// Ranges assumed for an IOMMU that does not report any: what the page tables of every IOMMU cover,
/// without the window in which messages are interrupts.
const USUAL: [(u64, u64); 2] = [(LOWEST, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)];

impl Iommu {
    /// The addresses in `ranges`, with mappings of whole pages of `page` bytes.
    pub(super) fn new(
        ranges: Vec<(u64, u64)>,
        page: u64,
        mappings: Option<u32>,
    ) -> Result<Self, IovaError> {
        let mut this = Self {
            ranges,
            page,
            mappings,
        };
        this.clip();
        if this.ranges.is_empty() {
            return Err(IovaError::Full {
                bytes: page,
                align: page,
            });
        }
        Ok(this)
    }

    /// Parses the answer of VFIO_IOMMU_GET_INFO for a container, with its chain of capabilities.
    pub(super) fn parse(info: &[u8]) -> Result<Self, IovaError> {
        /// `struct vfio_iommu_type1_info` up to the offset of the first
        /// capability.
        const HEAD: usize = 20;
        let flags = word(info, 4).unwrap_or(0);
        let sizes = long(info, 8).filter(|_| flags & PAGE_SIZES != 0);
        let page = match sizes.unwrap_or(0) {
            0 => 4096,
            // This process can give no less than a page of the CPU.
            sizes => (1u64 << sizes.trailing_zeros()).max(4096),
        };
        let mut ranges = USUAL.to_vec();
        let mut mappings = None;
        let first = word(info, 16).filter(|_| flags & CAPABILITIES != 0);
        for (id, at) in capabilities(info, first.unwrap_or(0), HEAD) {
            match id {
                IOVA_RANGES => ranges = pairs(info, at),
                MAPPINGS_LEFT => mappings = word(info, at.saturating_add(8)),
                _ => {}
            }
        }
        Self::new(ranges, page, mappings)
    }

    /// Rounds to whole pages, in order, with nothing below [`LOWEST`].
    fn clip(&mut self) {
        let page = self.page;
        let clip = |(first, last): (u64, u64)| {
            let first = first.max(LOWEST).checked_next_multiple_of(page)?;
            let end = match last.checked_add(1) {
                Some(end) => end / page * page,
                None => last / page * page,
            };
            (first < end).then(|| (first, end - 1))
        };
        let mut ranges: Vec<_> = self.ranges.drain(..).filter_map(clip).collect();
        ranges.sort_unstable();
        let mut from = 0;
        ranges.retain(|(first, last)| {
            let apart = *first >= from;
            if apart {
                from = last.saturating_add(1);
            }
            apart
        });
        self.ranges = ranges;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The structure with capabilities as (id, words after the header).
    fn info(sizes: u64, capabilities: &[(u32, Vec<u32>)]) -> Vec<u8> {
        let flags = if capabilities.is_empty() { 1 } else { 3 };
        let mut words = vec![0, flags, sizes as u32, (sizes >> 32) as u32, 24, 0];
        for (n, (id, body)) in capabilities.iter().enumerate() {
            let next = match n + 1 == capabilities.len() {
                true => 0,
                false => (words.len() + 2 + body.len()) * 4,
            };
            words.extend([id | 1 << 16, next as u32]);
            words.extend(body);
        }
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn range(first: u64, last: u64) -> [u32; 4] {
        [
            first as u32,
            (first >> 32) as u32,
            last as u32,
            (last >> 32) as u32,
        ]
    }

    #[test]
    fn ranges_and_pages_are_the_kernels() {
        let mut body = vec![2, 0];
        body.extend(range(0, 0xfedf_ffff));
        body.extend(range(0xfef0_0000, (1 << 39) - 1));
        let iommu = Iommu::parse(&info(0x4020_1000, &[(3, vec![65535]), (1, body)])).unwrap();
        assert_eq!(iommu.ranges, USUAL);
        assert_eq!((iommu.page, iommu.mappings), (4096, Some(65535)));
    }

    #[test]
    fn an_old_kernel_says_nothing() {
        let iommu = Iommu::parse(&info(0, &[])).unwrap();
        assert_eq!(iommu.ranges, USUAL);
        assert_eq!((iommu.page, iommu.mappings), (4096, None));
        assert_eq!(Iommu::parse(&[]).unwrap().page, 4096);
        assert_eq!(Iommu::parse(&info(1 << 16, &[])).unwrap().page, 1 << 16);
        // An IOMMU with pages smaller than the CPU's.
        assert_eq!(Iommu::parse(&info(1 << 9, &[])).unwrap().page, 4096);
    }

    #[test]
    fn nonsense_ends() {
        for (first, last) in [(5, 5), (9, 3), (u64::MAX, u64::MAX)] {
            let mut body = vec![1, 0];
            body.extend(range(first, last));
            assert!(Iommu::parse(&info(4096, &[(1, body)])).is_err());
        }
        // A chain that points at itself, and one with a count of entries that are not there.
        let mut circle = info(4096, &[(9, vec![])]);
        circle[28..32].copy_from_slice(&24u32.to_le_bytes());
        assert_eq!(Iommu::parse(&circle).unwrap().ranges, USUAL);
        let mut body = vec![u32::MAX, 0];
        body.extend(range(1 << 30, (1 << 31) - 1));
        let iommu = Iommu::parse(&info(4096, &[(1, body)])).unwrap();
        assert_eq!(iommu.ranges, [(1 << 30, (1 << 31) - 1)]);
        // The end of the address space, and ranges that overlap.
        let mut body = vec![2, 0];
        body.extend(range(1 << 30, u64::MAX));
        body.extend(range(1 << 31, 1 << 32));
        let iommu = Iommu::parse(&info(4096, &[(1, body)])).unwrap();
        assert_eq!(iommu.ranges, [(1 << 30, !0xfff - 1)]);
    }
}
