//! ALLOC_STAG, REG_MR and DEALLOC_STAG (control-path 4.10).

use bitflags::bitflags;
use e810_hal::Iova;
use e810_hal::bus::PfId;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::{Error, Result};
use crate::field::{aligned, at_most, bit, fit};
use crate::limits::{MAX_MR_BYTES, MAX_PD};
use crate::opcode::Opcode;

register_bitfields![u64,
    Q8 [
        STAGLEN OFFSET(0) NUMBITS(46) [],
        PDID OFFSET(46) NUMBITS(18) []
    ],
    Q16 [
        KEY OFFSET(0) NUMBITS(8) [],
        IDX OFFSET(8) NUMBITS(24) []
    ],
    Q40 [ HMCFNIDX OFFSET(0) NUMBITS(16) [] ],
    Q48 [ FIRSTPMPBLIDX OFFSET(0) NUMBITS(28) [] ],
    Q24 [
        MWTYPE OFFSET(42) NUMBITS(1) [],
        MR OFFSET(43) NUMBITS(1) [],
        LPBLSIZE OFFSET(44) NUMBITS(2) [],
        HPAGESIZE OFFSET(46) NUMBITS(2) [],
        ARIGHTS OFFSET(48) NUMBITS(5) [],
        REMACCENABLED OFFSET(53) NUMBITS(1) [],
        MW1_BIND_DONT_VLDT_KEY OFFSET(58) NUMBITS(1) [],
        VABASEDTO OFFSET(59) NUMBITS(1) [],
        USEHMCFNIDX OFFSET(60) NUMBITS(1) [],
        // On GEN_2 drivers use this bit only as REMOTE_ATOMIC_EN.
        USEPFRID OFFSET(61) NUMBITS(1) []
    ]
];

bitflags! {
    /// ARIGHTS: what a region may be used for (control-path 4.10).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct Access: u8 {
        /// The local side may read.
        const LOCAL_READ = 1;
        /// The local side may write.
        const LOCAL_WRITE = 2;
        /// A peer may read.
        const REMOTE_READ = 4;
        /// A peer may write.
        const REMOTE_WRITE = 8;
        /// Windows may be bound to it.
        const BIND = 0x10;
    }
}

impl Access {
    /// Whether a peer may do anything (REMACCENABLED).
    #[must_use]
    pub const fn is_remote(self) -> bool {
        self.intersects(Self::REMOTE_READ.union(Self::REMOTE_WRITE))
    }
}

/// HPAGESIZE: size of the pages that make up a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Kib4 = 0,
    /// 2 MiB.
    Mib2 = 1,
    /// 1 GiB.
    Gib1 = 2,
}

impl PageSize {
    /// The page size of `bytes`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub const fn from_bytes(bytes: u64) -> Result<Self> {
        match bytes {
            0x1000 => Ok(Self::Kib4),
            0x20_0000 => Ok(Self::Mib2),
            0x4000_0000 => Ok(Self::Gib1),
            _ => Err(Error::Invalid {
                what: "pages of a region are 4 KiB, 2 MiB or 1 GiB",
            }),
        }
    }

    /// Bytes of a page.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Kib4 => 0x1000,
            Self::Mib2 => 0x20_0000,
            Self::Gib1 => 0x4000_0000,
        }
    }
}

/// How long a region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Extent {
    /// This many bytes, 1 to 2^45.
    Bytes(u64),
    /// All of the function's memory (STAGLEN 0). Gives the key's holder access to everything that
    /// the IOMMU lets the device reach.
    AllMemory,
}

impl Extent {
    fn staglen(self) -> Result<u64> {
        match self {
            Self::Bytes(0) => Err(Error::Invalid {
                what: "a region has at least one byte: length 0 would mean all memory",
            }),
            Self::Bytes(bytes) => at_most("region length", bytes, MAX_MR_BYTES),
            Self::AllMemory => Ok(0),
        }
    }
}

/// Where a region's pages are (LPBLSIZE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Pages {
    /// One run that starts with the page at this address (4 KiB aligned).
    Contiguous(Iova),
    /// A PBLE list that starts at this index.
    Level1(u32),
    /// A PBLE root list that starts at this index.
    Level2(u32),
}

impl Pages {
    const fn level(self) -> u64 {
        match self {
            Self::Contiguous(_) => 0,
            Self::Level1(_) => 1,
            Self::Level2(_) => 3,
        }
    }

    fn base(self) -> Result<u64> {
        match self {
            Self::Contiguous(base) => aligned("first page of a region", base, 0x1000),
            Self::Level1(_) | Self::Level2(_) => Ok(0),
        }
    }

    fn first_pble(self) -> Result<u64> {
        match self {
            Self::Contiguous(_) => Ok(0),
            Self::Level1(first) | Self::Level2(first) => {
                Ok(fit("first PBLE index", Q48::FIRSTPMPBLIDX, first)?.value)
            }
        }
    }
}

/// How offsets into a region are counted (VABASEDTO).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TagBase {
    /// From the region's virtual address.
    #[default]
    Va,
    /// From 0.
    Zero,
}

/// q8 with its PD id. PDID_HI stays 0: PD ids have 18 bits (control-path 3.2).
fn length_and_pd(length: u64, pd: u32) -> Result<u64> {
    let pd = at_most("PD id", u64::from(pd), u64::from(MAX_PD))?;
    Ok((fit("region length", Q8::STAGLEN, length)? + Q8::PDID.val(pd)).value)
}

/// q16: STag index (its high bits may hold the driver bits of control-path
/// 3.2) and key.
fn tag(index: u32, key: u8) -> Result<u64> {
    Ok((fit("STag index", Q16::IDX, index)? + Q16::KEY.val(u64::from(key))).value)
}

/// ALLOC_STAG for a memory region that a fast-register request fills later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocMrStag {
    /// Bits \[31:8\] of the STag.
    pub index: u32,
    /// Protection domain.
    pub pd: u32,
    /// Greatest length.
    pub extent: Extent,
    /// Page size.
    pub page_size: PageSize,
    /// First PBLE of the list reserved for it, if any. The address in
    /// [`Pages::Contiguous`] is not carried by this command.
    pub pages: Pages,
    /// ARIGHTS; empty in existing drivers, the fast-register request has them.
    pub access: Access,
    /// REMACCENABLED; set by existing drivers.
    pub remote_access: bool,
    /// HMC function index and USEHMCFNIDX; `None` in existing drivers.
    pub hmc_function: Option<PfId>,
}

impl AllocMrStag {
    /// The allocation of control-path 4.10: 4 KiB pages, no list, no rights.
    #[must_use]
    pub const fn new(index: u32, pd: u32, extent: Extent) -> Self {
        Self {
            index,
            pd,
            extent,
            page_size: PageSize::Kib4,
            pages: Pages::Contiguous(Iova(0)),
            access: Access::empty(),
            remote_access: true,
            hmc_function: None,
        }
    }
}

/// HMCFNIDX and USEHMCFNIDX.
fn function_fields(function: Option<PfId>) -> (u64, u64) {
    function.map_or((0, 0), |pf| {
        (
            Q40::HMCFNIDX.val(u64::from(pf.get())).value,
            Q24::USEHMCFNIDX::SET.value,
        )
    })
}

impl Command for AllocMrStag {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, q8, q16, _, _, q40, q48, _] = &mut wqe;
        *q8 = length_and_pd(self.extent.staglen()?, self.pd)?;
        *q16 = tag(self.index, 0)?;
        let (function, use_function) = function_fields(self.hmc_function);
        *q40 = function;
        *q48 = self.pages.first_pble()?;
        let fields = Q24::MR::SET
            + Q24::LPBLSIZE.val(self.pages.level())
            + Q24::HPAGESIZE.val(self.page_size as u64)
            + Q24::ARIGHTS.val(u64::from(self.access.bits()))
            + bit(Q24::REMACCENABLED, self.remote_access);
        wqe[HEADER] = header(Opcode::AllocStag, fields.value | use_function);
        Ok(wqe)
    }
}

/// ALLOC_STAG for a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocMwStag {
    /// Bits \[31:8\] of the STag.
    pub index: u32,
    /// Protection domain.
    pub pd: u32,
    /// Type 1 (bound by verbs); otherwise type 2 (bound by a work request).
    pub type_1: bool,
    /// MW1_BIND_DONT_VLDT_KEY.
    pub bind_ignores_key: bool,
}

impl Command for AllocMwStag {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, q8, q16, ..] = &mut wqe;
        *q8 = length_and_pd(0, self.pd)?;
        *q16 = tag(self.index, 0)?;
        let fields =
            bit(Q24::MWTYPE, self.type_1) + bit(Q24::MW1_BIND_DONT_VLDT_KEY, self.bind_ignores_key);
        wqe[HEADER] = header(Opcode::AllocStag, fields.value);
        Ok(wqe)
    }
}

/// REG_MR: registers a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterMr {
    /// Bits \[31:8\] of the STag.
    pub index: u32,
    /// Bits \[7:0\] of the STag.
    pub key: u8,
    /// Protection domain.
    pub pd: u32,
    /// Virtual address of the first byte. With [`TagBase::Zero`] only its
    /// offset in the first page is sent.
    pub address: u64,
    /// VA based or zero based.
    pub base: TagBase,
    /// Length.
    pub extent: Extent,
    /// Page size.
    pub page_size: PageSize,
    /// The pages.
    pub pages: Pages,
    /// ARIGHTS.
    pub access: Access,
    /// REMOTE_ATOMIC_EN: only when the feature list allows atomics
    /// (control-path 6.8, row ASO: FTN_FLAGS bit 0).
    pub remote_atomics: bool,
    /// HMC function index and USEHMCFNIDX; `None` in existing drivers.
    pub hmc_function: Option<PfId>,
}

impl Command for RegisterMr {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [q0, q8, q16, _, q32, q40, q48, _] = &mut wqe;
        *q0 = match self.base {
            TagBase::Va => self.address,
            // Page sizes are powers of two.
            TagBase::Zero => self.address & self.page_size.bytes().wrapping_sub(1),
        };
        *q8 = length_and_pd(self.extent.staglen()?, self.pd)?;
        *q16 = tag(self.index, self.key)?;
        *q32 = self.pages.base()?;
        let (function, use_function) = function_fields(self.hmc_function);
        *q40 = function;
        *q48 = self.pages.first_pble()?;
        let fields = Q24::MR::SET
            + Q24::LPBLSIZE.val(self.pages.level())
            + Q24::HPAGESIZE.val(self.page_size as u64)
            + Q24::ARIGHTS.val(u64::from(self.access.bits()))
            + bit(Q24::REMACCENABLED, self.access.is_remote())
            + bit(Q24::VABASEDTO, matches!(self.base, TagBase::Va))
            + bit(Q24::USEPFRID, self.remote_atomics);
        wqe[HEADER] = header(Opcode::RegMr, fields.value | use_function);
        Ok(wqe)
    }
}

/// What an STag names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StagKind {
    /// A memory region.
    Region,
    /// A memory window.
    Window,
}

/// DEALLOC_STAG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeallocStag {
    /// Bits \[31:8\] of the STag.
    pub index: u32,
    /// Protection domain.
    pub pd: u32,
    /// Region or window.
    pub kind: StagKind,
}

impl Command for DeallocStag {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, q8, q16, ..] = &mut wqe;
        *q8 = length_and_pd(0, self.pd)?;
        *q16 = tag(self.index, 0)?;
        let region = bit(Q24::MR, matches!(self.kind, StagKind::Region));
        wqe[HEADER] = header(Opcode::DeallocStag, region.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests;
