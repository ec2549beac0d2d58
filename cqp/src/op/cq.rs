//! CREATE_CQ, MODIFY_CQ (resize) and DESTROY_CQ (control-path 4.8).

use e810_hal::Iova;
use e810_hal::bus::{CeqId, VsiId};
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::{aligned, at_most, bit, fit};
use crate::limits::{QUEUE_ALIGN, SHADOW_ALIGN};
use crate::opcode::Opcode;

register_bitfields![u64,
    Q0 [ CQSIZE OFFSET(0) NUMBITS(21) [] ],
    Q16 [ SHADOW_READ_THRESHOLD OFFSET(0) NUMBITS(18) [] ],
    Q48 [ FIRSTPMPBLIDX OFFSET(0) NUMBITS(28) [] ],
    Q56 [
        TPHVAL OFFSET(0) NUMBITS(8) [],
        VSIIDX OFFSET(8) NUMBITS(16) []
    ],
    Q24 [
        CQID OFFSET(0) NUMBITS(19) [],
        CEQID OFFSET(22) NUMBITS(10) [],
        CQRESIZE OFFSET(43) NUMBITS(1) [],
        LPBLSIZE OFFSET(44) NUMBITS(2) [],
        CHKOVERFLOW OFFSET(46) NUMBITS(1) [],
        VIRTMAP OFFSET(47) NUMBITS(1) [],
        ENCEQEMASK OFFSET(48) NUMBITS(1) [],
        CEQIDVALID OFFSET(49) NUMBITS(1) [],
        TPHEN OFFSET(60) NUMBITS(1) [],
        AVOIDMEMCNFLCT OFFSET(61) NUMBITS(1) []
    ]
];

/// LPBLSIZE of a queue whose pages stand in a contiguous level-1 PBLE list.
const LEVEL_1: u64 = 1;
/// CQCTX has 63 bits: bit 63 of a CEQE is its valid bit.
const MAX_CONTEXT: u64 = u64::MAX >> 1;

/// Where a queue's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum QueueMemory {
    /// Contiguous for the device, 256-aligned.
    Contiguous(Iova),
    /// 4 KiB pages, listed in consecutive PBLEs from this index on.
    Pbles(u32),
}

impl QueueMemory {
    /// The physical address word, or 0.
    pub(super) fn base(self) -> Result<u64> {
        match self {
            Self::Contiguous(base) => aligned("queue memory", base, QUEUE_ALIGN),
            Self::Pbles(_) => Ok(0),
        }
    }

    /// The FIRSTPMPBLIDX word (28 bits in CQ, CEQ and AEQ commands alike).
    pub(super) fn first_pble(self) -> Result<u64> {
        match self {
            Self::Contiguous(_) => Ok(0),
            Self::Pbles(first) => Ok(fit("first PBLE index", Q48::FIRSTPMPBLIDX, first)?.value),
        }
    }

    /// Whether the queue is mapped by PBLEs (VIRTMAP, VMAP).
    pub(super) const fn is_virtual(self) -> bool {
        matches!(self, Self::Pbles(_))
    }

    /// LPBLSIZE.
    pub(super) const fn list_level(self) -> u64 {
        match self {
            Self::Contiguous(_) => 0,
            Self::Pbles(_) => LEVEL_1,
        }
    }
}

/// What create, resize and destroy of one CQ have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqAttributes {
    /// CQ id, below the committed CQ count.
    pub cq: u32,
    /// Entries.
    pub entries: u32,
    /// CQCTX, 63 bits: comes back in CEQEs and AEQEs of this CQ.
    pub context: u64,
    /// The CQ's memory.
    pub memory: QueueMemory,
    /// Shadow area, 64-aligned.
    pub shadow: Iova,
    /// The CEQ that gets this CQ's events. MODIFY_CQ does not carry it.
    pub ceq: Option<CeqId>,
    /// ENCEQEMASK: one CEQE until the CQ is acknowledged or armed again.
    pub mask_ceqe: bool,
    /// Processing hint (TPHEN, TPHVAL).
    pub processing_hint: Option<u8>,
    /// AVOIDMEMCNFLCT: 64-byte CQEs. Existing drivers leave it clear on GEN_2.
    pub wide_entries: bool,
}

impl CqAttributes {
    /// A contiguous CQ with the flags of a verbs CQ (control-path 4.8), whose
    /// context is its id.
    #[must_use]
    pub const fn new(cq: u32, entries: u32, memory: Iova, shadow: Iova, ceq: CeqId) -> Self {
        Self {
            cq,
            entries,
            context: cq as u64,
            memory: QueueMemory::Contiguous(memory),
            shadow,
            ceq: Some(ceq),
            mask_ceqe: true,
            processing_hint: None,
            wide_entries: false,
        }
    }

    /// q0, q8, q40, q48 and the header fields that all three commands carry.
    fn common(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [q0, q8, _, q24, _, q40, q48, _] = &mut wqe;
        *q0 = fit("CQ entries", Q0::CQSIZE, self.entries)?.value;
        *q8 = at_most("CQ context", self.context, MAX_CONTEXT)?;
        *q40 = aligned("CQ shadow area", self.shadow, SHADOW_ALIGN)?;
        *q48 = self.memory.first_pble()?;
        *q24 = (fit("CQ id", Q24::CQID, self.cq)?
            + Q24::LPBLSIZE.val(self.memory.list_level())
            + bit(Q24::VIRTMAP, self.memory.is_virtual())
            + bit(Q24::ENCEQEMASK, self.mask_ceqe)
            + bit(Q24::TPHEN, self.processing_hint.is_some())
            + bit(Q24::AVOIDMEMCNFLCT, self.wide_entries))
        .value;
        Ok(wqe)
    }

    /// CEQID and CEQIDVALID. MAX_CEQS has ten bits, so CEQID_HIGH stays 0.
    fn ceq_fields(&self) -> u64 {
        self.ceq.map_or(0, |ceq| {
            (Q24::CEQID.val(u64::from(ceq.get())) + Q24::CEQIDVALID::SET).value
        })
    }

    /// q56.
    fn hint_and_vsi(&self, vsi: VsiId) -> u64 {
        (Q56::TPHVAL.val(u64::from(self.processing_hint.unwrap_or(0)))
            + Q56::VSIIDX.val(u64::from(vsi.get())))
        .value
    }
}

/// CREATE_CQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateCq {
    /// The CQ.
    pub cq: CqAttributes,
    /// SHADOW_READ_THRESHOLD; min(entries / 2, 0x3FFFF) in existing drivers.
    pub shadow_threshold: u32,
    /// VSIIDX: the main VSI.
    pub vsi: VsiId,
    /// CHKOVERFLOW.
    pub check_overflow: bool,
}

impl CreateCq {
    /// A verbs CQ with the threshold and flags of control-path 4.8.
    #[must_use]
    pub const fn new(cq: CqAttributes, vsi: VsiId) -> Self {
        let half = cq.entries / 2;
        Self {
            cq,
            shadow_threshold: if half < 0x3_FFFF { half } else { 0x3_FFFF },
            vsi,
            check_overflow: true,
        }
    }
}

impl Command for CreateCq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = self.cq.common()?;
        let [_, _, q16, q24, q32, _, _, q56] = &mut wqe;
        *q16 = fit(
            "CQ shadow read threshold",
            Q16::SHADOW_READ_THRESHOLD,
            self.shadow_threshold,
        )?
        .value;
        *q32 = self.cq.memory.base()?;
        *q56 = self.cq.hint_and_vsi(self.vsi);
        *q24 |= self.cq.ceq_fields() | bit(Q24::CHKOVERFLOW, self.check_overflow).value;
        wqe[HEADER] |= header(Opcode::CreateCq, 0);
        Ok(wqe)
    }
}

/// MODIFY_CQ: moves a CQ to new memory of another size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModifyCq {
    /// The CQ, with its **new** entries and memory.
    pub cq: CqAttributes,
    /// SHADOW_READ_THRESHOLD; the same as at creation in existing drivers.
    pub shadow_threshold: u32,
    /// VSIIDX: the main VSI.
    pub vsi: VsiId,
    /// CHKOVERFLOW.
    pub check_overflow: bool,
    /// CQRESIZE: the new size and memory are to be taken.
    pub resize: bool,
}

impl Command for ModifyCq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = self.cq.common()?;
        let [_, _, q16, q24, q32, _, _, q56] = &mut wqe;
        *q16 = fit(
            "CQ shadow read threshold",
            Q16::SHADOW_READ_THRESHOLD,
            self.shadow_threshold,
        )?
        .value;
        *q32 = self.cq.memory.base()?;
        *q56 = self.cq.hint_and_vsi(self.vsi);
        *q24 |=
            (bit(Q24::CHKOVERFLOW, self.check_overflow) + bit(Q24::CQRESIZE, self.resize)).value;
        wqe[HEADER] |= header(Opcode::ModifyCq, 0);
        Ok(wqe)
    }
}

/// DESTROY_CQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DestroyCq {
    /// The CQ.
    pub cq: CqAttributes,
}

impl Command for DestroyCq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = self.cq.common()?;
        wqe[HEADER] |= header(Opcode::DestroyCq, self.cq.ceq_fields());
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn attributes() -> CqAttributes {
        let ceq = CeqId::new(1).unwrap();
        CqAttributes::new(5, 128, Iova(0x5_0000_0000), Iova(0x5_0010_0000), ceq)
    }

    #[test]
    fn limits_of_the_fields() {
        let vsi = VsiId::new(21).unwrap();
        let field_of = |cq: CqAttributes| match CreateCq::new(cq, vsi).encode() {
            Err(Error::OutOfRange { field, .. }) => field,
            Err(Error::Misaligned { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        let good = attributes();
        assert!(CreateCq::new(good, vsi).encode().is_ok());
        assert_eq!(
            field_of(CqAttributes {
                cq: 1 << 19,
                ..good
            }),
            "CQ id"
        );
        assert_eq!(
            field_of(CqAttributes {
                entries: 1 << 21,
                ..good
            }),
            "CQ entries"
        );
        assert_eq!(
            field_of(CqAttributes {
                context: 1 << 63,
                ..good
            }),
            "CQ context"
        );
        assert_eq!(
            field_of(CqAttributes {
                memory: QueueMemory::Pbles(1 << 28),
                ..good
            }),
            "first PBLE index"
        );
        assert_eq!(
            field_of(CqAttributes {
                memory: QueueMemory::Contiguous(Iova(0x80)),
                ..good
            }),
            "queue memory"
        );
        assert_eq!(
            field_of(CqAttributes {
                shadow: Iova(0x20),
                ..good
            }),
            "CQ shadow area"
        );
    }

    #[test]
    fn a_resize_names_no_ceq_and_a_destroy_no_memory() {
        let cq = attributes();
        let modify = ModifyCq {
            cq,
            shadow_threshold: 64,
            vsi: VsiId::new(21).unwrap(),
            check_overflow: true,
            resize: true,
        };
        let [_, _, _, q24, ..] = modify.encode().unwrap();
        assert_eq!(Q24::CEQIDVALID.read(q24), 0);
        assert_eq!(Q24::CEQID.read(q24), 0);
        let [_, _, q16, q24, q32, _, _, q56] = DestroyCq { cq }.encode().unwrap();
        assert_eq!((q16, q32, q56), (0, 0, 0));
        assert_eq!(Q24::CEQID.read(q24), 1);
    }

    #[test]
    fn a_hint_sets_its_flag_and_value() {
        let cq = CqAttributes {
            processing_hint: Some(9),
            ..attributes()
        };
        let wqe = CreateCq::new(cq, VsiId::new(3).unwrap()).encode().unwrap();
        assert_eq!(wqe[7], 0x309);
        assert!(Q24::TPHEN.is_set(wqe[3]));
    }
}
