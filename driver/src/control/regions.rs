//! Memory regions: memory the caller has, named by an STag.
//!
//! The memory is mapped for the device, and its runs decide how it is
//! described: one run needs no page list, several become 4 KiB pages in PBLEs
//! (control-path 4.10, data-path 6.3).

use core::sync::atomic::{AtomicU64, Ordering};

use e810_cqp::hmc::{Object as HmcObject, PbleList, PbleUse};
use e810_cqp::op::{DeallocStag, Extent, PageSize, Pages, RegisterMr, StagKind, TagBase};
use e810_hal::{Access, Iova, Mapping, Platform, SharedBytes};

use super::Control;
use crate::error::{Error, Object, Result};
use crate::memory::{AccessFlags, Mr, Pd};

/// Page size of PBLE lists here.
const PAGE: u64 = 4096;

impl<P: Platform> Control<P> {
    /// Registers `memory` in a protection domain.
    ///
    /// The memory must stay valid until [`Control::dereg_mr`]. SGEs and peers
    /// name bytes of it by their virtual address.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a remote-write right without the local one,
    /// [`Error::OutOfRange`] for an empty region, no index, PBLE or mapping
    /// left, or the device's refusal. Nothing is left behind, unless the device
    /// did not answer: it may still register the memory, which then stays
    /// mapped and must stay valid until the function is reset.
    pub fn reg_mr(&mut self, pd: &Pd, memory: SharedBytes, access: AccessFlags) -> Result<Mr<P>> {
        self.own(pd.owner, Object::Pd, pd.id)?;
        if access.contains(AccessFlags::REMOTE_WRITE) && !access.contains(AccessFlags::LOCAL_WRITE)
        {
            return Err(Error::Invalid {
                what: "a region that peers may write needs LOCAL_WRITE too",
            });
        }
        if memory.is_empty() {
            return Err(Error::OutOfRange {
                what: "length of a region",
                value: 0,
                min: 1,
                max: usize::MAX as u64,
            });
        }
        let index = self.mrs.take().ok_or(Error::Exhausted {
            object: Object::Mr,
            limit: self.mrs.capacity(),
        })?;
        let made = self.reg_mr_as(index, pd, memory, access);
        match made {
            Ok(_) => self.pd_users.join(pd.id),
            Err(ref error) => self.mrs.give_unless_open(index, error),
        }
        made
    }

    fn reg_mr_as(
        &mut self,
        index: u32,
        pd: &Pd,
        memory: SharedBytes,
        access: AccessFlags,
    ) -> Result<Mr<P>> {
        self.hmc.hmc.ensure(&mut self.cqp, HmcObject::Mr, index)?;
        let device = if access.contains(AccessFlags::LOCAL_WRITE) {
            Access::ReadWrite
        } else {
            Access::Read
        };
        let mapping = self.platform.dma_map(memory, device)?;
        let (pages, list) = match self.describe(memory, &mapping) {
            Ok(description) => description,
            Err(error) => {
                self.platform.dma_unmap(mapping);
                return Err(error);
            }
        };
        let key = self.next_key(index);
        let registered = self.cqp.execute(&RegisterMr {
            index,
            key,
            pd: pd.id,
            address: memory.address(),
            base: TagBase::Va,
            extent: Extent::Bytes(memory.len() as u64),
            page_size: PageSize::Kib4,
            pages,
            access: access.rights(),
            remote_atomics: false,
            hmc_function: None,
        });
        if let Err(error) = registered {
            // After a time-out the device may still carry the command out: the
            // mapping and the list stay.
            if !error.leaves_command_open() {
                self.release_pages(mapping, list);
            }
            return Err(error.into());
        }
        Ok(Mr {
            owner: self.tag(),
            stag: index << 8 | u32::from(key),
            pd: pd.id,
            memory,
            mapping,
            list,
        })
    }

    /// Takes a region away from the device and unmaps its memory.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal: the region is returned and
    /// the memory must stay valid.
    pub fn dereg_mr(&mut self, mr: Mr<P>) -> Result<(), (Mr<P>, Error)> {
        let index = mr.stag >> 8;
        if let Err(error) = self.own(mr.owner, Object::Mr, index) {
            return Err((mr, error));
        }
        let command = DeallocStag {
            index,
            pd: mr.pd,
            kind: StagKind::Region,
        };
        if let Err(error) = self.cqp.execute(&command) {
            return Err((mr, error.into()));
        }
        self.mrs.give(index);
        self.pd_users.leave(mr.pd);
        self.release_pages(mr.mapping, mr.list);
        Ok(())
    }

    fn release_pages(&mut self, mapping: Mapping, list: Option<PbleList<P>>) {
        if let Some(list) = list {
            self.hmc.hmc.free_pbles(list);
        }
        self.platform.dma_unmap(mapping);
    }

    /// One run is named by its address; more become a list of 4 KiB pages.
    fn describe(
        &mut self,
        memory: SharedBytes,
        mapping: &Mapping,
    ) -> Result<(Pages, Option<PbleList<P>>)> {
        let offset = memory.address() % PAGE;
        let first = self.page_of(mapping, 0)?;
        if mapping.runs == 1 {
            return Ok((Pages::Contiguous(first), None));
        }
        let count = (offset + memory.len() as u64).div_ceil(PAGE);
        let count = u32::try_from(count).map_err(|_| Error::OutOfRange {
            what: "number of 4 KiB pages of a region",
            value: count,
            min: 1,
            max: u32::MAX.into(),
        })?;
        let pages = PageWalk {
            platform: &self.platform,
            mapping,
            run: 0,
            at: first.0,
            end: 0,
        };
        let hmc = &mut self.hmc.hmc;
        let list = hmc.allocate_pbles(&mut self.cqp, count, PbleUse::Region)?;
        if let Err(error) = hmc.fill_pbles(&list, pages) {
            hmc.free_pbles(list);
            return Err(error.into());
        }
        Ok((list.region(), Some(list)))
    }

    fn page_of(&self, mapping: &Mapping, run: u32) -> Result<Iova> {
        let run = self.platform.dma_run(mapping, run).ok_or(Error::Invalid {
            what: "the platform's mapping has fewer runs than it says",
        })?;
        Ok(Iova(run.iova.0 & !(PAGE - 1)))
    }

    /// The key byte of the next life of an index: each one differs from the
    /// 255 before.
    fn next_key(&self, index: u32) -> u8 {
        let Some(word) = self.keys.word((index / 8) as usize) else {
            return 0;
        };
        let shift = (index % 8) * 8;
        let all = word.load(Ordering::Relaxed);
        let key = (all.wrapping_shr(shift) as u8).wrapping_add(1);
        let mask = 0xFFu64.wrapping_shl(shift);
        let next = all & !mask | u64::from(key).wrapping_shl(shift);
        AtomicU64::store(word, next, Ordering::Relaxed);
        key
    }
}

/// The device addresses of a mapping's 4 KiB pages, in order.
struct PageWalk<'a, P> {
    platform: &'a P,
    mapping: &'a Mapping,
    run: u32,
    at: u64,
    end: u64,
}

impl<P: Platform> Iterator for PageWalk<'_, P> {
    type Item = Iova;

    fn next(&mut self) -> Option<Iova> {
        if self.at >= self.end {
            let run = self.platform.dma_run(self.mapping, self.run)?;
            self.run = self.run.wrapping_add(1);
            self.at = run.iova.0 & !(PAGE - 1);
            self.end = run.iova.0.saturating_add(run.bytes);
        }
        let page = Iova(self.at);
        self.at = self.at.saturating_add(PAGE);
        Some(page)
    }
}
