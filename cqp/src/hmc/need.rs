//! What a segment needs before SHMC_PAGES_ALLOCATED.

use super::capacity::Backing;
use super::layout::{Area, Layout, PAGE_BYTES, PAGES_PER_SEGMENT, SEGMENT_BYTES};
use super::object::Object;

/// Words with one bit for each page of a segment.
const PAGE_WORDS: usize = (PAGES_PER_SEGMENT / 64) as usize;

/// A set of pages of a segment, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PageSet([u64; PAGE_WORDS]);

impl PageSet {
    /// Adds the pages `first..=last`; those past the segment are ignored.
    pub(super) fn add(&mut self, first: u64, last: u64) {
        for page in first..=last {
            let word = usize::try_from(page / 64).unwrap_or(usize::MAX);
            if let Some(word) = self.0.get_mut(word) {
                *word |= 1 << (page % 64);
            }
        }
    }

    /// Number of pages.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The pages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..PAGES_PER_SEGMENT).filter(|page| {
            let word = self.0.get((page / 64) as usize).copied();
            word.unwrap_or(0) >> (page % 64) & 1 != 0
        })
    }
}

/// What a segment needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Nothing yet.
    Nothing,
    /// 2 MiB in one piece.
    Direct,
    /// A page of page descriptors, and these pages.
    Paged(PageSet),
}

impl Need {
    /// Host memory for it.
    fn bytes(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Direct => SEGMENT_BYTES,
            Self::Paged(pages) => PAGE_BYTES.saturating_mul(u64::from(pages.len()) + 1),
        }
    }
}

/// The pages of `segment` that the addresses `from..to` touch, first and last.
pub(super) fn pages_in(segment: u32, from: u64, to: u64) -> Option<(u64, u64)> {
    let start = u64::from(segment).wrapping_mul(SEGMENT_BYTES);
    let end = start.wrapping_add(SEGMENT_BYTES);
    let (from, to) = (from.max(start), to.min(end));
    if from >= to {
        return None;
    }
    let page = |address: u64| address.wrapping_sub(start) / PAGE_BYTES;
    Some((page(from), page(to.wrapping_sub(1))))
}

/// What `segment` needs under `backing`.
pub(super) fn need(layout: &Layout, backing: Backing, segment: u32) -> Need {
    let mut pages = PageSet::default();
    let used = layout
        .areas()
        .filter(|(object, area)| area.count > 0 && *object != Object::Pble);
    for (object, Area { base, .. }) in used {
        if backing == Backing::OnDemand && object.is_deferrable() {
            continue;
        }
        if let Some((first, last)) = pages_in(segment, base, layout.area(object).end()) {
            if backing == Backing::Full {
                return Need::Direct;
            }
            pages.add(first, last);
        }
    }
    match pages.len() {
        0 => Need::Nothing,
        PAGES_PER_SEGMENT => Need::Direct,
        _ => Need::Paged(pages),
    }
}

/// Host memory that all segments need.
pub(super) fn backing_bytes(layout: &Layout, backing: Backing) -> u64 {
    (0..layout.segments())
        .map(|segment| need(layout, backing, segment).bytes())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hmc::object::PerObject;
    use crate::hmc::testing::query;

    #[test]
    fn pages_of_a_range() {
        assert_eq!(pages_in(0, 0, 1), Some((0, 0)));
        assert_eq!(pages_in(0, 4095, 4097), Some((0, 1)));
        assert_eq!(pages_in(0, 0, u64::MAX), Some((0, 511)));
        assert_eq!(pages_in(1, 0, SEGMENT_BYTES), None);
        assert_eq!(pages_in(1, 0, SEGMENT_BYTES + 1), Some((0, 0)));
        assert_eq!(pages_in(0, 5, 5), None);
        let mut set = PageSet::default();
        set.add(63, 64);
        set.add(511, 700);
        assert_eq!(set.len(), 3);
        assert!(set.iter().eq([63, 64, 511]));
    }

    #[test]
    fn on_demand_skips_what_can_wait() {
        let mut counts = PerObject::default();
        // 2 MiB of QPs, 64 B of ARP entries, 2 MiB of regions, 6 MiB of PBLEs.
        counts.set(Object::Qp, 2048);
        counts.set(Object::Arp, 1);
        counts.set(Object::Mr, 32768);
        counts.set(Object::Pble, 3 << 18);
        let layout = Layout::packed(&counts, &query()).unwrap();
        let needs = |backing| [0, 1, 2, 3, 4].map(|segment| need(&layout, backing, segment));
        let full = needs(Backing::Full);
        assert_eq!(full[..3], [Need::Direct; 3]);
        assert_eq!(full[3..], [Need::Nothing; 2]);
        let lazy = needs(Backing::OnDemand);
        let mut arp = PageSet::default();
        arp.add(0, 0);
        assert_eq!(lazy[0], Need::Nothing);
        assert_eq!(lazy[1], Need::Paged(arp));
        assert_eq!(lazy[2..], [Need::Nothing; 3]);
        assert_eq!(backing_bytes(&layout, Backing::Full), 3 * SEGMENT_BYTES);
        assert_eq!(backing_bytes(&layout, Backing::OnDemand), 2 * PAGE_BYTES);
    }

    #[test]
    fn a_segment_full_of_the_devices_own_objects_is_direct() {
        let mut counts = PerObject::default();
        counts.set(Object::Q1, 1 << 15);
        let layout = Layout::packed(&counts, &query()).unwrap();
        assert_eq!(need(&layout, Backing::OnDemand, 0), Need::Direct);
    }
}
