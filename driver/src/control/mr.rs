//! Registering the caller's memory as memory regions, each named by an STag.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::MAX_MR_BYTES;
use e810_cqp::op::{DeallocStag, Extent, RegisterMr, StagKind, TagBase};
use e810_hal::{Mapping, Platform};

use super::{Control, run, run_again};
use crate::error::{Error, Object, Result};
use crate::mr::{AccessFlags, Described, Mr, MrChange, MrMemory, ReregError};
use crate::pd::Pd;

impl<P: Platform> Control<P> {
    /// Registers `memory` in a protection domain.
    ///
    /// The memory is lent until [`Control::dereg_mr`] has returned, even if the region's handle
    /// is dropped: this is what [`SharedBytes::new`](crate::SharedBytes::new) promises. SGEs and peers name bytes of it by
    /// their virtual address, or by their offset with [`AccessFlags::ZERO_BASED`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a remote-write right without the local one,
    /// [`Error::NotOffered`] for rights the device does not have,
    /// [`Error::OutOfRange`] for an empty region, no index, PBLE or mapping
    /// left, or the device's refusal. Nothing is left behind, unless the device
    /// did not answer: it may still register the memory, which then stays
    /// mapped, and lent, for good.
    #[doc(alias = "ibv_reg_mr")]
    pub fn reg_mr(
        &mut self,
        pd: &Pd,
        memory: impl Into<MrMemory>,
        access: AccessFlags,
    ) -> Result<Mr<P>> {
        let memory = memory.into();
        self.reg_mr_iova(pd, memory, memory.address(), access)
    }

    /// Registers `memory` so that SGEs and peers name its first byte by `iova`
    /// instead of its address (`ibv_reg_mr_iova`); otherwise as
    /// [`Control::reg_mr`].
    ///
    /// Large pages are used where `iova` has the same offset in them as the memory.
    ///
    /// # Errors
    /// As there; and [`Error::Invalid`] for an `iova` whose lower 12 bits differ from those of
    /// the address (as in verbs), for one that is not the address of a
    /// [`AccessFlags::ZERO_BASED`] region, and for a region that would reach beyond the last
    /// address.
    #[doc(alias = "ibv_reg_mr_iova")]
    pub fn reg_mr_iova(
        &mut self,
        pd: &Pd,
        memory: impl Into<MrMemory>,
        iova: u64,
        access: AccessFlags,
    ) -> Result<Mr<P>> {
        self.reg_mr_memory(pd, memory.into(), iova, access)
    }

    fn reg_mr_memory(
        &mut self,
        pd: &Pd,
        memory: MrMemory,
        iova: u64,
        access: AccessFlags,
    ) -> Result<Mr<P>> {
        self.own(pd.owner, Object::Pd, pd.id)?;
        access.check(self.quirks.memory_windows)?;
        check_length(memory.len())?;
        check_iova(memory, iova, access)?;
        let index = self.take_stag()?;
        let (mapping, pages) = match self.map_pages(memory, iova, access) {
            Ok(mapped) => mapped,
            Err(error) => {
                self.mrs.give(index);
                return Err(error);
            }
        };
        let mr = Mr {
            owner: self.tag(),
            stag: index << 8 | u32::from(self.next_key(index)),
            pd: pd.id,
            access,
            memory,
            iova,
            mapping,
            pages,
        };
        let made = self.reg_mr_as(mr);
        match made {
            Ok(_) => self.pd_users.inc(pd.id),
            Err(ref error) => self.mrs.give_unless_open(index, error),
        }
        made
    }

    /// Takes an index of the table of regions and windows, and gives it memory of the device.
    pub(super) fn take_stag(&mut self) -> Result<u32> {
        let index = self.mrs.take().ok_or(Error::Exhausted {
            object: Object::Mr,
            limit: self.mrs.capacity(),
        })?;
        if let Err(error) = self.ensure(HmcObject::Mr, index) {
            // Whether that worked or not: no command has named the index.
            self.mrs.give(index);
            return Err(error);
        }
        Ok(index)
    }

    fn reg_mr_as(&mut self, mr: Mr<P>) -> Result<Mr<P>> {
        match self.register(&mr) {
            Ok(()) => Ok(mr),
            Err(error) => {
                // After a time-out the device may still carry the command out:
                // the mapping and the list stay.
                if !error.leaves_command_open() {
                    self.release_pages(mr.mapping, mr.pages);
                }
                Err(error)
            }
        }
    }

    fn map_pages(
        &mut self,
        memory: MrMemory,
        iova: u64,
        access: AccessFlags,
    ) -> Result<(Mapping, Described<P>)> {
        let mapping = memory.map(&self.platform, access)?;
        match self.describe(iova, memory.len(), &mapping) {
            Ok(pages) => Ok((mapping, pages)),
            Err(error) => {
                self.platform.dma_unmap(mapping);
                Err(error)
            }
        }
    }

    /// REG_MR.
    fn register(&mut self, mr: &Mr<P>) -> Result<()> {
        let base = if mr.access.contains(AccessFlags::ZERO_BASED) {
            TagBase::Zero
        } else {
            TagBase::Va
        };
        let command = RegisterMr {
            index: mr.stag >> 8,
            key: mr.stag as u8,
            pd: mr.pd,
            address: mr.iova,
            base,
            extent: Extent::Bytes(mr.memory.len() as u64),
            page_size: mr.pages.size,
            pages: mr.pages.pages,
            access: mr.access.rights(),
            remote_atomics: false,
            hmc_function: None,
        };
        run(&mut self.cqp, &command)
    }

    /// Changes protection domain, rights or memory of a region. Its keys stay the same, as with
    /// existing drivers, unless [`MrChange::new_key`] asks for new ones. While the device changes
    /// the region, its keys are refused.
    ///
    /// A peer with the key reaches the changed region: ask for a new key if the region gets other
    /// memory that earlier peers must not reach.
    ///
    /// # Errors
    /// As [`Control::reg_mr`]. The error returns the region if it still is what it was; otherwise
    /// the region is gone.
    #[doc(alias = "ibv_rereg_mr")]
    pub fn rereg_mr(&mut self, mr: Mr<P>, change: &MrChange<'_>) -> Result<Mr<P>, ReregError<P>> {
        if let Err(error) = self.can_rereg(&mr, change) {
            return Err(ReregError::kept(error, mr));
        }
        let access = change.access.unwrap_or(mr.access);
        let (memory, iova) = change.place(&mr);
        let is_elsewhere = change.memory.is_some() || change.iova.is_some();
        let is_new = is_elsewhere || access.device() != mr.access.device();
        let new = if is_new {
            match self.map_pages(memory, iova, access) {
                Ok(new) => Some(new),
                Err(error) => return Err(ReregError::kept(error, mr)),
            }
        } else {
            None
        };
        let index = mr.stag >> 8;
        if let Err(error) = self.take_away(index, mr.pd) {
            if let Some((mapping, pages)) = new {
                self.release_pages(mapping, pages);
            }
            return Err(ReregError::kept(error, mr));
        }
        let pd = change.pd.map_or(mr.pd, |pd| pd.id);
        self.pd_users.dec(mr.pd);
        let (mapping, pages) = match new {
            Some(new) => {
                self.release_pages(mr.mapping, mr.pages);
                new
            }
            None => (mr.mapping, mr.pages),
        };
        let mr = Mr {
            owner: mr.owner,
            stag: match change.new_key {
                true => index << 8 | u32::from(self.next_key(index)),
                false => mr.stag,
            },
            pd,
            access,
            memory,
            iova,
            mapping,
            pages,
        };
        match self.register(&mr) {
            Ok(()) => {
                self.pd_users.inc(pd);
                Ok(mr)
            }
            Err(error) => {
                self.mrs.give_unless_open(index, &error);
                if !error.leaves_command_open() {
                    self.release_pages(mr.mapping, mr.pages);
                }
                Err(ReregError { error, mr: None })
            }
        }
    }

    fn can_rereg(&self, mr: &Mr<P>, change: &MrChange<'_>) -> Result<()> {
        self.own(mr.owner, Object::Mr, mr.stag >> 8)?;
        if let Some(pd) = change.pd {
            self.own(pd.owner, Object::Pd, pd.id)?;
        }
        if let Some(access) = change.access {
            access.check(self.quirks.memory_windows)?;
        }
        change
            .memory
            .map_or(Ok(()), |memory| check_length(memory.len()))?;
        let (memory, iova) = change.place(mr);
        check_iova(memory, iova, change.access.unwrap_or(mr.access))
    }

    /// Takes a region away from the device and unmaps its memory.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal: the region is returned and
    /// the memory stays lent.
    #[doc(alias = "ibv_dereg_mr")]
    pub fn dereg_mr(&mut self, mr: Mr<P>) -> Result<(), (Mr<P>, Error)> {
        let index = mr.stag >> 8;
        let taken = self.own(mr.owner, Object::Mr, index);
        if let Err(error) = taken.and_then(|()| self.take_away(index, mr.pd)) {
            return Err((mr, error));
        }
        self.mrs.give(index);
        self.pd_users.dec(mr.pd);
        self.release_pages(mr.mapping, mr.pages);
        Ok(())
    }

    /// DEALLOC_STAG of a region.
    pub(super) fn take_away(&mut self, index: u32, pd: u32) -> Result<()> {
        let kind = StagKind::Region;
        run_again(
            &mut self.cqp,
            &DeallocStag { index, pd, kind },
            index.into(),
        )
    }

    fn release_pages(&mut self, mapping: Mapping, pages: Described<P>) {
        self.release_description(pages);
        self.platform.dma_unmap(mapping);
    }

    /// The key byte of the next life of an index: it differs from the 255 before.
    pub(super) fn next_key(&self, index: u32) -> u8 {
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

/// A region has at least one byte: length 0 would mean all memory. Checked before mapping, so
/// that memory which the device cannot describe is not mapped.
pub(super) fn check_length(bytes: usize) -> Result<()> {
    is_length(bytes as u64)
}

fn is_length(value: u64) -> Result<()> {
    if (1..=MAX_MR_BYTES).contains(&value) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: "length of a region",
        value,
        min: 1,
        max: MAX_MR_BYTES,
    })
}

/// Checks the address by which SGEs and peers name a region's first byte.
fn check_iova(memory: MrMemory, iova: u64, access: AccessFlags) -> Result<()> {
    /// Offset in the smallest page: both addresses must have the same one, because the device
    /// adds the offset of one address to the page of the other.
    const IN_PAGE: u64 = 4095;
    let wrong = if (iova ^ memory.address()) & IN_PAGE != 0 {
        "the address that a region is named by and that of its memory have the same lower 12 bits"
    } else if access.contains(AccessFlags::ZERO_BASED) && iova != memory.address() {
        "a zero-based region is named by offsets: it has no other address"
    } else if iova.checked_add(memory.len() as u64).is_none() {
        "the region reaches beyond the last address: name it by a lower one"
    } else {
        return Ok(());
    };
    Err(Error::Invalid { what: wrong })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::EINVAL;

    #[test]
    fn lengths_that_the_device_cannot_describe_are_refused_before_anything_is_mapped() {
        for length in [1, 4096, MAX_MR_BYTES] {
            assert!(is_length(length).is_ok(), "{length}");
        }
        for length in [0, MAX_MR_BYTES + 1, u64::MAX] {
            let refused = is_length(length).unwrap_err();
            assert_eq!(refused.errno(), EINVAL, "{refused}");
        }
    }
}
