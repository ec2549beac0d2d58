//! Host memory behind segments and pages, and the commands that tell the device about it.

use e810_hal::regs::PFHMC_PDINV;
use e810_hal::{Bus, DmaWord, Platform};

use super::cache::Hmc;
use super::capacity::Backing;
use super::layout::{PAGES_PER_SEGMENT, SEGMENT_BYTES};
use super::need::{Need, PageSet, need, pages_in};
use super::segments::Segment;
use crate::cqp::Cqp;
use crate::error::Result;
use crate::op::{MAX_SDS_PER_COMMAND, SdEntry, SdKind, ShmcPagesAllocated};
use crate::opcode::Opcode;

/// Valid bit of a page descriptor.
pub(super) const PD_VALID: u64 = 1;

impl<P: Platform> Hmc<P> {
    /// Backs everything that the policy requires before SHMC_PAGES_ALLOCATED.
    pub(super) fn back_static(&mut self, cqp: &mut Cqp<P>) -> Result<()> {
        let all = self.layout.segments();
        let (layout, backing) = (self.layout, self.backing);
        let needs = |from: u32| (from..all).map(move |n| need(&layout, backing, n));
        let (mut direct, mut pages) = (0u32, 0u32);
        for need in needs(0) {
            match need {
                Need::Nothing => {}
                Need::Direct => direct = direct.saturating_add(1),
                Need::Paged(set) => pages = pages.saturating_add(set.len()).saturating_add(1),
            }
        }
        for (index, need) in (0..all).zip(needs(0)) {
            let attached = match need {
                Need::Nothing => Ok(()),
                Need::Direct => {
                    let wanted = direct;
                    direct = direct.saturating_sub(1);
                    self.attach_direct(index, wanted)
                }
                Need::Paged(set) => {
                    let wanted = pages;
                    pages = pages.saturating_sub(set.len()).saturating_sub(1);
                    self.attach_paged(cqp.platform(), index, &set, wanted)
                }
            };
            attached?;
        }
        self.program(cqp, 0, all)?;
        let function = self.function;
        cqp.execute(&ShmcPagesAllocated { function }).map(|_| ())
    }

    /// Backs the addresses `from..to`.
    pub(super) fn back(&mut self, cqp: &mut Cqp<P>, from: u64, to: u64) -> Result<()> {
        self.learn(cqp, true)?;
        let segment = |address: u64| (address / SEGMENT_BYTES) as u32;
        let (first, last) = (segment(from), segment(to.saturating_sub(1)));
        for index in first..=last {
            let Some((first, last)) = pages_in(index, from, to) else {
                continue;
            };
            let mut pages = PageSet::default();
            pages.add(first, last);
            match self.table().get(index) {
                Some(segment) if segment.kind == SdKind::Direct => {}
                Some(segment) => self.add_pages(cqp.platform(), index, segment, &pages, 0)?,
                None if self.backing == Backing::Full => {
                    // Existing drivers too fall back to pages here, for PBLEs.
                    if self.attach_direct(index, 1).is_err() {
                        self.attach_paged(cqp.platform(), index, &pages, 0)?;
                    }
                }
                None => self.attach_paged(cqp.platform(), index, &pages, 0)?,
            }
        }
        self.program(cqp, first, last.saturating_add(1))
    }

    fn attach_direct(&mut self, index: u32, wanted: u32) -> Result<()> {
        let segment = Segment {
            kind: SdKind::Direct,
            address: self.store.segment(wanted)?,
            programmed: false,
        };
        self.table().set(index, segment);
        Ok(())
    }

    fn attach_paged(
        &mut self,
        platform: &P,
        index: u32,
        pages: &PageSet,
        wanted: u32,
    ) -> Result<()> {
        let segment = Segment {
            kind: SdKind::Paged,
            address: self.store.page(wanted)?,
            programmed: false,
        };
        self.table().set(index, segment);
        self.add_pages(platform, index, segment, pages, wanted.saturating_sub(1))
    }

    /// Adds the pages that a paged segment does not have yet.
    fn add_pages(
        &mut self,
        platform: &P,
        index: u32,
        segment: Segment,
        pages: &PageSet,
        wanted: u32,
    ) -> Result<()> {
        let mut wanted = wanted;
        for page in pages.iter() {
            let entry = self.descriptor(segment, page)?;
            if entry & PD_VALID != 0 {
                continue;
            }
            let backing = self.store.page(wanted)?;
            wanted = wanted.saturating_sub(1);
            self.set_descriptor(platform, index, segment, page, backing.0 | PD_VALID)?;
        }
        Ok(())
    }

    pub(super) fn descriptor(&self, segment: Segment, page: u32) -> Result<u64> {
        let words = self.store.page_words(segment.address)?;
        Ok(words.get(page as usize).map_or(0, DmaWord::get))
    }

    /// Changes a page descriptor and tells the device (control-path 6.6).
    fn set_descriptor(
        &self,
        platform: &P,
        index: u32,
        segment: Segment,
        page: u32,
        entry: u64,
    ) -> Result<()> {
        let words = self.store.page_words(segment.address)?;
        if let Some(cell) = words.get(page as usize) {
            cell.publish(entry);
        }
        // The entry before the register that makes the device read it anew.
        platform.to_device();
        invalidate(platform, index, page);
        Ok(())
    }

    /// Tells the device about those of the segments `first..end` that it does not know.
    fn program(&mut self, cqp: &mut Cqp<P>, first: u32, end: u32) -> Result<()> {
        let fresh = |index: &u32| {
            self.table()
                .get(*index)
                .is_some_and(|segment| !segment.programmed)
        };
        let mut unanswered = None;
        let done = for_each_group((first..end).filter(fresh), |group| {
            let done = self.update(cqp, group, |index, segment| {
                SdEntry::set(index, segment.kind, segment.address)
            });
            if let (Err(error), Some(first), Some(last)) = (&done, group.first(), group.last())
                && error.leaves_command_open()
            {
                unanswered = Some(*first..last.saturating_add(1));
            }
            done
        });
        self.unanswered = unanswered;
        done
    }

    /// Learns the outcome of an UPDATE_PE_SDS that was not answered in time: segments that the
    /// device has refused in the end are not known to it. Without `wait` they count as known
    /// while there is no answer.
    fn learn(&mut self, cqp: &mut Cqp<P>, wait: bool) -> Result<()> {
        let Some(range) = self.unanswered.clone() else {
            return Ok(());
        };
        let ended = cqp.late_end(Opcode::UpdatePeSds, range.start.into(), wait)?;
        self.unanswered = None;
        // Nothing is known about one that is not remembered.
        let refused = matches!(ended, Some(Err(_)));
        for index in range.filter(|_| refused) {
            if let Some(segment) = self.table().get(index) {
                let programmed = false;
                self.table().set(
                    index,
                    Segment {
                        programmed,
                        ..segment
                    },
                );
            }
        }
        Ok(())
    }

    /// Clears every segment the device knows.
    pub(super) fn clear(&mut self, cqp: &mut Cqp<P>) -> Result<()> {
        self.learn(cqp, false)?;
        let known = |index: &u32| {
            self.table()
                .get(*index)
                .is_some_and(|segment| segment.programmed)
        };
        let all = self.table().len();
        for index in (0..all).filter(known) {
            self.clear_descriptors(cqp.platform(), index)?;
        }
        for_each_group((0..all).filter(known), |group| {
            self.update(cqp, group, |index, segment| {
                SdEntry::clear(index, segment.kind)
            })
        })
    }

    fn clear_descriptors(&self, platform: &P, index: u32) -> Result<()> {
        let segment = self.table().get(index);
        let Some(segment) = segment.filter(|segment| segment.kind == SdKind::Paged) else {
            return Ok(());
        };
        for page in 0..PAGES_PER_SEGMENT {
            if self.descriptor(segment, page)? & PD_VALID != 0 {
                self.set_descriptor(platform, index, segment, page, 0)?;
            }
        }
        Ok(())
    }

    /// One UPDATE_PE_SDS for a group of segments.
    fn update(
        &self,
        cqp: &mut Cqp<P>,
        group: &[u32],
        entry: impl Fn(u32, Segment) -> Result<SdEntry>,
    ) -> Result<()> {
        let mut entries = heapless::Vec::<SdEntry, MAX_SDS_PER_COMMAND>::new();
        for index in group {
            if let Some(segment) = self.table().get(*index) {
                // A group is never larger.
                let _ = entries.push(entry(*index, segment)?);
            }
        }
        // Memory the SDs point to, before the command.
        cqp.platform().to_device();
        let subject = group.first().copied().unwrap_or_default();
        let done = cqp.update_sds(&entries, subject.into());
        // A command that failed has changed nothing [inf failed_sds]; after a wait that ended
        // without an answer, the device may know the segments.
        let may_be_programmed = match &done {
            Ok(_) => true,
            Err(error) => error.leaves_command_open(),
        };
        for index in group.iter().filter(|_| may_be_programmed) {
            if let Some(segment) = self.table().get(*index) {
                let programmed = true;
                self.table().set(
                    *index,
                    Segment {
                        programmed,
                        ..segment
                    },
                );
            }
        }
        done.map(|_| ())
    }
}

/// PFHMC_PDINV for one page descriptor.
fn invalidate(bus: &impl Bus, segment: u32, page: u32) {
    PFHMC_PDINV.write(
        bus,
        PFHMC_PDINV::PMSDIDX.val(segment)
            + PFHMC_PDINV::PMSDPARTSEL::SET
            + PFHMC_PDINV::PMPDIDX.val(page),
    );
}

/// Calls `flush` with runs of consecutive indexes, at most one command's worth at a time, grouped
/// as in existing drivers.
fn for_each_group(
    indexes: impl Iterator<Item = u32>,
    mut flush: impl FnMut(&[u32]) -> Result<()>,
) -> Result<()> {
    let mut group = heapless::Vec::<u32, MAX_SDS_PER_COMMAND>::new();
    for index in indexes {
        let follows = group
            .last()
            .is_none_or(|last| last.wrapping_add(1) == index);
        if group.is_full() || !follows {
            flush(&group)?;
            group.clear();
        }
        // There is room now.
        let _ = group.push(index);
    }
    if group.is_empty() {
        return Ok(());
    }
    flush(&group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn groups_are_consecutive_and_small() {
        let indexes = (0..13).chain([20, 21, 30]);
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for_each_group(indexes, |group| {
            groups.push(group.to_vec());
            Ok(())
        })
        .unwrap();
        let expected: Vec<Vec<u32>> = vec![(0..11).collect(), vec![11, 12], vec![20, 21], vec![30]];
        assert_eq!(groups, expected);
    }

    #[test]
    fn an_error_ends_it() {
        let mut calls = 0;
        let error = Error::NoCcq;
        let result = for_each_group(0..30, |_| {
            calls += 1;
            Err(error)
        });
        assert_eq!((result, calls), (Err(error), 1));
    }
}
