//! Allocates PBLE lists and writes their entries.

use core::sync::atomic::AtomicU64;

use e810_hal::{DmaWord, Iova, Platform};

use super::backing::PD_VALID;
use super::cache::Hmc;
use super::layout::{PAGE_BYTES, SEGMENT_BYTES};
use super::object::Object;
use super::pble::{PBLE_BYTES, PbleList, PbleUse, page_entry};
use crate::cqp::Cqp;
use crate::error::{Error, Result};
use crate::op::SdKind;

impl<P: Platform> Hmc<P> {
    /// Takes a list for `count` pages, and backs it.
    ///
    /// # Errors
    /// [`Error::NoPbles`]; [`Error::Dma`], [`Error::HostMemory`],
    /// [`Error::Allocations`] and those of [`Cqp::execute`]: nothing is taken
    /// then.
    pub fn allocate_pbles(
        &mut self,
        cqp: &mut Cqp<P>,
        count: u32,
        purpose: PbleUse,
    ) -> Result<PbleList<P>> {
        let list = self.pbles.allocate(count, purpose)?;
        match self.back_list(cqp, &list) {
            Ok(()) => Ok(list),
            Err(error) => {
                self.pbles.free(list);
                Err(error)
            }
        }
    }

    /// Writes the pages of a list, in order; ignores more than it has room for. The command that
    /// names the list makes them visible.
    ///
    /// # Errors
    /// [`Error::Misaligned`] for a page that is not 4 KiB aligned,
    /// [`Error::NoBacking`].
    pub fn fill_pbles(
        &mut self,
        list: &PbleList<P>,
        pages: impl IntoIterator<Item = Iova>,
    ) -> Result<()> {
        let mut pages = pages.into_iter();
        self.fill(list, &mut || pages.next())
    }

    fn fill(
        &mut self,
        list: &PbleList<P>,
        next_page: &mut dyn FnMut() -> Option<Iova>,
    ) -> Result<()> {
        for run in list.runs() {
            let mut entry = run.start;
            while entry < run.end {
                let cells = self.pble_cells(entry)?;
                let count = run.end.saturating_sub(entry).min(cells.len() as u32);
                for cell in cells.iter().take(count as usize) {
                    let Some(page) = next_page() else {
                        return Ok(());
                    };
                    cell.set(page_entry(page)?);
                }
                entry = entry.saturating_add(count.max(1));
            }
        }
        Ok(())
    }

    /// Gives a list back. No object may name it any more.
    pub fn free_pbles(&mut self, list: PbleList<P>) {
        self.pbles.free(list);
    }

    fn back_list(&mut self, cqp: &mut Cqp<P>, list: &PbleList<P>) -> Result<()> {
        for run in list.runs() {
            let (from, to) = (self.pble_address(run.start), self.pble_address(run.end));
            self.back(cqp, from, to)?;
        }
        if let Some(root) = list.root_run() {
            let (from, to) = (self.pble_address(root.start), self.pble_address(root.end));
            self.back(cqp, from, to)?;
        }
        for (entry, leaf) in list.root() {
            if let Some(cell) = self.pble_cells(entry)?.first() {
                cell.set(leaf);
            }
        }
        Ok(())
    }

    fn pble_address(&self, entry: u32) -> u64 {
        let base = self.layout.area(Object::Pble).base;
        base.saturating_add(PBLE_BYTES.saturating_mul(u64::from(entry)))
    }

    /// The words from PBLE `entry` to the end of its page.
    fn pble_cells(&self, entry: u32) -> Result<&[AtomicU64]> {
        let address = self.pble_address(entry);
        let index = (address / SEGMENT_BYTES) as u32;
        let (within, page) = (address % SEGMENT_BYTES, address % PAGE_BYTES);
        let none = Error::NoBacking {
            address: Iova(address),
        };
        let segment = self.table().get(index).ok_or(none)?;
        let backing = match segment.kind {
            SdKind::Direct => segment.address.0.saturating_add(within - page),
            SdKind::Paged => {
                let entry = self.descriptor(segment, (within / PAGE_BYTES) as u32)?;
                if entry & PD_VALID == 0 {
                    return Err(none);
                }
                entry & !(PAGE_BYTES - 1)
            }
        };
        let words = self.store.page_words(Iova(backing))?;
        words.get((page / 8) as usize..).ok_or(none)
    }
}
