//! Fast-registered regions and memory windows.

use e810_cqp::hmc::{PbleList, PbleUse};
use e810_cqp::op::{AllocMrStag, AllocMwStag, DeallocStag, Extent, StagKind};
use e810_datapath::wr::PageSize as WrPageSize;
use e810_datapath::{FastRegister, FastRegisterParts};
use e810_hal::{Iova, Platform, SharedBytes};

use super::mr::check_length;
use super::page_list::Pieces;
use super::{Control, run, run_again};
use crate::error::{Error, Object, Result};
use crate::fast_reg::{FastMr, Mw, MwType};
use crate::mr::AccessFlags;
use crate::pd::Pd;
use crate::unsupported::Unsupported;

/// Pages of fast registrations, as existing drivers have them (data-path 1.7).
const PAGE: u64 = 4096;

impl<P: Platform> Control<P> {
    /// Makes a region for fast registration, with room for `max_pages` pages of
    /// 4 KiB (ALLOC_STAG).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], no index or PBLEs left, or the device's refusal.
    /// Nothing is left behind, unless the device did not answer.
    #[doc(alias("IB_WR_REG_MR", "ib_alloc_mr"))]
    pub fn alloc_fast_mr(&mut self, pd: &Pd, max_pages: u32) -> Result<FastMr<P>> {
        self.own(pd.owner, Object::Pd, pd.id)?;
        let most = self.query_device().max_fast_reg_pages;
        if !(1..=most).contains(&max_pages) {
            return Err(Error::OutOfRange {
                what: "pages of a fast-registered region",
                value: max_pages.into(),
                min: 1,
                max: most.into(),
            });
        }
        let index = self.take_stag()?;
        // A request names consecutive PBLEs, as a queue does.
        let hmc = &mut self.hmc.hmc;
        let list = match hmc.allocate_pbles(&mut self.cqp, max_pages, PbleUse::Queue) {
            Ok(list) => list,
            Err(error) => {
                self.mrs.give(index);
                return Err(error.into());
            }
        };
        let made = self.alloc_fast_mr_as(index, pd, list);
        match made {
            Ok(_) => self.pd_users.inc(pd.id),
            Err(ref error) => self.mrs.give_unless_open(index, error),
        }
        made
    }

    fn alloc_fast_mr_as(&mut self, index: u32, pd: &Pd, list: PbleList<P>) -> Result<FastMr<P>> {
        let extent = Extent::Bytes(u64::from(list.pages()) * PAGE);
        if let Err(error) = run(&mut self.cqp, &AllocMrStag::new(index, pd.id, extent)) {
            if !error.leaves_command_open() {
                self.hmc.hmc.free_pbles(list);
            }
            return Err(error);
        }
        Ok(FastMr {
            owner: self.tag(),
            index,
            key: 0,
            pd: pd.id,
            list,
            mapping: None,
        })
    }

    /// Maps memory for a fast-registered region, with a new key, and returns the request that
    /// tells the device. The memory is lent until [`Control::unmap_fast_mr`], or another call
    /// that unmaps it, has returned, even if `mr` is dropped: this is what [`SharedBytes::new`]
    /// promises.
    ///
    /// # Errors
    /// [`Error::Invalid`] if memory is mapped already and for rights that do not go together,
    /// [`Error::OutOfRange`] for more pages than there is room for, no mapping left.
    #[doc(alias = "ib_map_mr_sg")]
    pub fn map_fast_mr(
        &mut self,
        mr: &mut FastMr<P>,
        memory: SharedBytes,
        access: AccessFlags,
    ) -> Result<FastRegister> {
        self.own(mr.owner, Object::Mr, mr.index)?;
        access.check(self.quirks.memory_windows)?;
        check_length(memory.len())?;
        if mr.is_mapped() {
            return Err(Error::Invalid {
                what: "this region has memory: invalidate its key and unmap it first",
            });
        }
        let offset = memory.address() % PAGE;
        let pages = (offset + memory.len() as u64).div_ceil(PAGE);
        if pages > mr.max_pages().into() {
            return Err(Error::OutOfRange {
                what: "pages of a fast-registered region",
                value: pages,
                min: 1,
                max: mr.max_pages().into(),
            });
        }
        let mapping = self.platform.dma_map(memory, access.device())?;
        let walk = Pieces::new(&self.platform, &mapping).flat_map(|piece| {
            let first = piece.iova.0 & !(PAGE - 1);
            let end = piece.iova.0.saturating_add(piece.bytes);
            (first..end).step_by(PAGE as usize).map(Iova)
        });
        let first = Pieces::new(&self.platform, &mapping).next();
        if let Err(error) = self.hmc.hmc.fill_pbles(&mr.list, walk) {
            self.platform.dma_unmap(mapping);
            return Err(error.into());
        }
        mr.mapping = Some(mapping);
        mr.key = self.next_key(mr.index);
        Ok(FastRegister::from_parts(FastRegisterParts {
            stag_index: mr.index,
            stag_key: mr.key,
            start: if access.contains(AccessFlags::ZERO_BASED) {
                offset
            } else {
                memory.address()
            },
            zero_based: access.contains(AccessFlags::ZERO_BASED),
            length: memory.len() as u64,
            pages: first.map_or(0, |piece| piece.iova.0 & !(PAGE - 1)),
            // One page is named by its address (data-path 1.7).
            listed: pages > 1,
            first_pble: mr.list.first(),
            page_size: WrPageSize::Size4K,
            rights: access.rights().bits(),
        }))
    }

    /// Unmaps a fast-registered region's memory. Call it when one of these holds: the region's
    /// key has been invalidated, and that request is completed; the request that
    /// [`Control::map_fast_mr`] returned was never posted; the queue pair is in ERR and its
    /// requests are completed. Otherwise the device may still access the memory, and finds it
    /// gone.
    ///
    /// # Errors
    /// [`Error::Foreign`]: another device's region stays mapped there.
    pub fn unmap_fast_mr(&mut self, mr: &mut FastMr<P>) -> Result<()> {
        self.own(mr.owner, Object::Mr, mr.index)?;
        if let Some(mapping) = mr.mapping.take() {
            self.platform.dma_unmap(mapping);
        }
        Ok(())
    }

    /// Gives a fast-registered region back, and unmaps its memory.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal: the region is returned.
    pub fn free_fast_mr(&mut self, mut mr: FastMr<P>) -> Result<(), (FastMr<P>, Error)> {
        let owned = self.own(mr.owner, Object::Mr, mr.index);
        let taken = owned.and_then(|()| self.take_away(mr.index, mr.pd));
        if let Err(error) = taken.and_then(|()| self.unmap_fast_mr(&mut mr)) {
            return Err((mr, error));
        }
        self.mrs.give(mr.index);
        self.pd_users.dec(mr.pd);
        self.hmc.hmc.free_pbles(mr.list);
        Ok(())
    }

    /// Makes a memory window `[inf windows]`.
    ///
    /// # Errors
    /// [`Unsupported::MemoryWindows`] unless
    /// [`Quirks::memory_windows`](crate::Quirks) asks for them, no index left, or
    /// the device's refusal.
    #[doc(alias = "ibv_alloc_mw")]
    pub fn alloc_mw(&mut self, pd: &Pd, kind: MwType) -> Result<Mw> {
        if !self.quirks.memory_windows {
            return Err(Unsupported::MemoryWindows.into());
        }
        self.own(pd.owner, Object::Pd, pd.id)?;
        let index = self.take_stag()?;
        let command = AllocMwStag {
            index,
            pd: pd.id,
            type_1: kind == MwType::Type1,
            bind_ignores_key: false,
        };
        if let Err(error) = run(&mut self.cqp, &command) {
            self.mrs.give_unless_open(index, &error);
            return Err(error);
        }
        self.pd_users.inc(pd.id);
        Ok(Mw {
            owner: self.tag(),
            index,
            pd: pd.id,
            kind,
        })
    }

    /// Gives a memory window back.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal: the window is returned.
    #[doc(alias = "ibv_dealloc_mw")]
    pub fn dealloc_mw(&mut self, mw: Mw) -> Result<(), (Mw, Error)> {
        let owned = self.own(mw.owner, Object::Mw, mw.index);
        let command = DeallocStag {
            index: mw.index,
            pd: mw.pd,
            kind: StagKind::Window,
        };
        let ended = owned.and_then(|()| run_again(&mut self.cqp, &command, mw.index.into()));
        if let Err(error) = ended {
            return Err((mw, error));
        }
        self.mrs.give(mw.index);
        self.pd_users.dec(mw.pd);
        Ok(())
    }
}
