//! HMC address translation: FPM address, segment descriptor, page descriptor, IOVA.
//!
//! [`Hmc::read`] and [`Hmc::write`] move 64-bit words of an object. A missing translation is an
//! [`HmcFault`], which [`Hmc::report`] records as a finding and in the registers of the card:
//! PFHMC_ERRORINFO, PFHMC_ERRORDATA, OICR.HMC_ERR (control-path 2.3, 2.6).

use crate::findings::kind;
use std::collections::BTreeMap;

use super::env::{Env, OicrCause, PeReg};
use super::fpm::{Kind, Layout, SD_BYTES};
use super::word::{bit, bits, put};

/// Bytes one page descriptor covers.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Maximum pages of an SD: its largest BPCOUNT.
pub(crate) const SD_PAGES: u16 = (SD_BYTES / PAGE_BYTES) as u16;

/// One segment descriptor (control-path 6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sd {
    /// Direct: `address` is 2 MiB of backing. Paged: `address` is the page of PD entries.
    pub(crate) direct: bool,
    /// IOVA, 4 KiB aligned by the format.
    pub(crate) address: u64,
    /// BPCOUNT: backing pages.
    pub(crate) pages: u16,
}

/// Why an object could not be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missing {
    /// The index is not below the committed count, which is 0 before the commit.
    Range,
    /// The SD is not valid.
    Sd(u64),
    /// The page lies beyond the BPCOUNT of its SD.
    Page(u64),
    /// The PD entry is not valid.
    Pd(u64),
    /// The IOMMU refused the access.
    Dma(u64),
}

/// An object without backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HmcFault {
    pub(crate) kind: Kind,
    pub(crate) index: u64,
    pub(crate) missing: Missing,
}

/// SDs, cached PDs and the committed layout of one function.
#[derive(Debug, Default)]
pub(crate) struct Hmc {
    layout: Option<Layout>,
    sds: BTreeMap<u64, Sd>,
    /// PD entries read so far, by number of the 4 KiB page in FPM. PFHMC_PDINV and SD updates drop
    /// them.
    pds: BTreeMap<u64, u64>,
    /// Number of changes of the translation.
    generation: u64,
    /// SHMC_PAGES_ALLOCATED was executed.
    pub(crate) announced: bool,
}

impl Hmc {
    /// Grows whenever an address may translate differently.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The committed layout.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// Takes a new layout.
    pub(crate) fn commit(&mut self, layout: Layout) {
        self.generation += 1;
        self.layout = Some(layout);
    }

    /// Committed objects of one type; 0 before the commit.
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.layout
            .as_ref()
            .map_or(0, |layout| layout.extent(kind).count)
    }

    /// Size of one object in bytes; 0 before the commit.
    pub(crate) fn bytes(&self, kind: Kind) -> u64 {
        self.layout.as_ref().map_or(0, |layout| layout.bytes(kind))
    }

    pub(crate) fn sd(&self, index: u64) -> Option<Sd> {
        self.sds.get(&index).copied()
    }

    /// Bytes of backing that valid SDs name.
    pub(crate) fn backed_bytes(&self) -> u64 {
        let bytes = |sd: &Sd| {
            if sd.direct {
                SD_BYTES
            } else {
                u64::from(sd.pages) * PAGE_BYTES
            }
        };
        self.sds.values().map(bytes).sum()
    }

    /// Sets or clears one SD and drops the cached PDs behind it.
    pub(crate) fn set_sd(&mut self, index: u64, sd: Option<Sd>) {
        let first = index * (SD_BYTES / PAGE_BYTES);
        let last = first + SD_BYTES / PAGE_BYTES;
        self.generation += 1;
        self.pds.retain(|page, _| !(first..last).contains(page));
        match sd {
            Some(sd) => drop(self.sds.insert(index, sd)),
            None => drop(self.sds.remove(&index)),
        }
    }

    /// PFHMC_PDINV: drops one cached PD. Harmless for an SD that is not valid (control-path 6.6).
    pub(crate) fn invalidate_pd(&mut self, sd: u64, pd: u64) {
        self.generation += 1;
        self.pds.remove(&(sd * (SD_BYTES / PAGE_BYTES) + pd));
    }

    /// The FPM bytes of one object.
    pub(crate) fn address(&self, kind: Kind, index: u64) -> Result<u64, HmcFault> {
        let fault = |missing| HmcFault {
            kind,
            index,
            missing,
        };
        let layout = self.layout.as_ref();
        let address = layout.and_then(|layout| layout.address(kind, index));
        address.ok_or(fault(Missing::Range))
    }

    /// The IOVA behind an FPM address.
    fn translate(&mut self, fpm: u64, env: &mut dyn Env) -> Result<u64, Missing> {
        let index = fpm / SD_BYTES;
        let page = fpm % SD_BYTES / PAGE_BYTES;
        let sd = self.sds.get(&index).ok_or(Missing::Sd(index))?;
        if page >= sd.pages.into() {
            return Err(Missing::Page(page));
        }
        if sd.direct {
            return Ok(sd.address + fpm % SD_BYTES);
        }
        let entry = match self.pds.get(&(fpm / PAGE_BYTES)) {
            Some(entry) => *entry,
            None => {
                let at = sd.address + 8 * page;
                let entry = env.load(at).map_err(|_| Missing::Dma(at))?;
                // An invalid entry is cached too, which is why PDINV is necessary after a page is
                // added.
                self.pds.insert(fpm / PAGE_BYTES, entry);
                entry
            }
        };
        if !bit(entry, 0) {
            return Err(Missing::Pd(page));
        }
        Ok((entry & !(PAGE_BYTES - 1)) + fpm % PAGE_BYTES)
    }

    /// Runs `access` on each part of `words` that lies in one backing page: (IOVA, first word,
    /// words).
    fn each_page(
        &mut self,
        fpm: u64,
        words: usize,
        env: &mut dyn Env,
        mut access: impl FnMut(&mut dyn Env, u64, std::ops::Range<usize>) -> Result<(), u64>,
    ) -> Result<(), Missing> {
        let mut done = 0_usize;
        while done < words {
            let at = fpm + 8 * done as u64;
            let room = ((PAGE_BYTES - at % PAGE_BYTES) / 8) as usize;
            let n = room.min(words - done);
            let iova = self.translate(at, env)?;
            access(env, iova, done..done + n).map_err(Missing::Dma)?;
            done += n;
        }
        Ok(())
    }

    /// Reads words of one object, from byte `offset` on.
    pub(crate) fn read(
        &mut self,
        (kind, index): (Kind, u64),
        offset: u64,
        into: &mut [u64],
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        let fpm = self.address(kind, index)? + offset;
        self.each_page(fpm, into.len(), env, |env, iova, range| {
            let words = into.get_mut(range).unwrap_or_default();
            env.load_words(iova, words).map_err(|fault| fault.iova)
        })
        .map_err(|missing| HmcFault {
            kind,
            index,
            missing,
        })
    }

    /// Writes words of one object, from byte `offset` on.
    pub(crate) fn write(
        &mut self,
        (kind, index): (Kind, u64),
        offset: u64,
        from: &[u64],
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        let fpm = self.address(kind, index)? + offset;
        self.each_page(fpm, from.len(), env, |env, iova, range| {
            for (n, word) in from.get(range).unwrap_or_default().iter().enumerate() {
                let at = iova + 8 * n as u64;
                env.store(at, *word).map_err(|_| at)?;
            }
            Ok(())
        })
        .map_err(|missing| HmcFault {
            kind,
            index,
            missing,
        })
    }

    /// Writes an entry that the device allocates itself (XF, Q1, RRF …) to check that it has
    /// backing.
    pub(crate) fn touch(
        &mut self,
        kind: Kind,
        index: u64,
        value: u64,
        env: &mut dyn Env,
    ) -> Result<(), HmcFault> {
        self.write((kind, index), 0, &[value], env)
    }

    /// PBLE `index`: the address of a page, or the index of a leaf.
    pub(crate) fn pble(&mut self, index: u64, env: &mut dyn Env) -> Result<u64, HmcFault> {
        let mut word = [0];
        self.read((Kind::Pble, index), 0, &mut word, env)?;
        Ok(word[0])
    }

    /// The first missing backing that an object type needs.
    pub(crate) fn first_hole(&mut self, kind: Kind, env: &mut dyn Env) -> Option<HmcFault> {
        let layout = self.layout.as_ref()?;
        let (extent, bytes) = (layout.extent(kind), layout.bytes(kind));
        let end = extent.base + extent.count * bytes;
        let mut at = extent.base;
        while at < end {
            let whole = self
                .sds
                .get(&(at / SD_BYTES))
                .is_some_and(|sd| sd.direct && sd.pages == SD_PAGES);
            if whole {
                at = (at / SD_BYTES + 1) * SD_BYTES;
            } else if let Err(missing) = self.translate(at, env) {
                return Some(HmcFault {
                    kind,
                    index: (at - extent.base) / bytes,
                    missing,
                });
            } else {
                at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
            }
        }
        None
    }

    /// Reports an HMC error in the registers as the card does. Values of the type fields are not in
    /// the sources: these are this model's own.
    pub(crate) fn report(&self, pf: u8, fault: HmcFault, env: &mut dyn Env) {
        let (code, text) = match fault.missing {
            Missing::Range => (2, format!("only {} are committed", self.count(fault.kind))),
            Missing::Sd(sd) => (3, format!("SD {sd} is not valid")),
            Missing::Page(page) => (4, format!("page {page} is beyond the BPCOUNT of its SD")),
            Missing::Pd(pd) => (
                5,
                format!("PD {pd} of a paged SD is not valid, or PFHMC_PDINV is owed"),
            ),
            Missing::Dma(iova) => (6, format!("the IOMMU refused {iova:#x}")),
        };
        env.finding(
            kind::HMC_BACKING,
            format!("HMC object {} {}: {text}", fault.kind.name(), fault.index),
        );
        // The first error stays until a reset.
        if !bit(env.register(PeReg::HmcErrorInfo).into(), 31) {
            let info =
                put(pf.into(), 4, 0) | put(code, 11, 8) | put(fault.kind as u64, 20, 16) | 1 << 31;
            env.set_register(PeReg::HmcErrorInfo, info as u32);
            env.set_register(PeReg::HmcErrorData, bits(fault.index, 29, 0) as u32);
        }
        env.raise_oicr(OicrCause::HmcErr);
    }
}
