//! CREATE_CEQ, DESTROY_CEQ, CREATE_AEQ and DESTROY_AEQ (control-path 4.9).

use e810_hal::bus::{CeqId, VsiId};
use tock_registers::register_bitfields;

use super::{Command, HEADER, QueueMemory, Wqe, header};
use crate::error::Result;
use crate::field::{bit, fit};
use crate::opcode::Opcode;

register_bitfields![u64,
    CeqQ16 [ CEQSIZE OFFSET(0) NUMBITS(22) [] ],
    AeqQ16 [ AEQECNT OFFSET(0) NUMBITS(19) [] ],
    Q56 [
        TPHVAL OFFSET(0) NUMBITS(8) [],
        VSIIDX OFFSET(8) NUMBITS(16) []
    ],
    Q24 [
        CEQID OFFSET(0) NUMBITS(10) [],
        LPBLSIZE OFFSET(44) NUMBITS(2) [],
        ITRNOEXPIRE OFFSET(46) NUMBITS(1) [],
        VMAP OFFSET(47) NUMBITS(1) [],
        TPHEN OFFSET(60) NUMBITS(1) []
    ]
];

/// The mapping fields that all four headers carry.
fn map_fields(memory: QueueMemory) -> u64 {
    (Q24::LPBLSIZE.val(memory.list_level()) + bit(Q24::VMAP, memory.is_virtual())).value
}

/// CREATE_CEQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateCeq {
    /// CEQ id, below MAX_CEQS of the FPM query.
    pub ceq: CeqId,
    /// Entries of 8 bytes.
    pub entries: u32,
    /// The CEQ's memory, 256-aligned.
    pub memory: QueueMemory,
    /// VSIIDX: the main VSI.
    pub vsi: VsiId,
    /// ITRNOEXPIRE; clear in existing drivers, its meaning is not in the
    /// sources.
    pub itr_no_expire: bool,
    /// Processing hint (TPHEN, TPHVAL).
    pub processing_hint: Option<u8>,
}

impl Command for CreateCeq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, _, q32, _, q48, q56] = &mut wqe;
        *q16 = fit("CEQ entries", CeqQ16::CEQSIZE, self.entries)?.value;
        *q32 = self.memory.base()?;
        *q48 = self.memory.first_pble()?;
        *q56 = (Q56::TPHVAL.val(u64::from(self.processing_hint.unwrap_or(0)))
            + Q56::VSIIDX.val(u64::from(self.vsi.get())))
        .value;
        let fields = Q24::CEQID.val(u64::from(self.ceq.get()))
            + bit(Q24::ITRNOEXPIRE, self.itr_no_expire)
            + bit(Q24::TPHEN, self.processing_hint.is_some());
        wqe[HEADER] = header(Opcode::CreateCeq, fields.value | map_fields(self.memory));
        Ok(wqe)
    }
}

/// DESTROY_CEQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DestroyCeq {
    /// CEQ id.
    pub ceq: CeqId,
    /// Entries, as created.
    pub entries: u32,
    /// Memory, as created; a contiguous address is not sent.
    pub memory: QueueMemory,
    /// Whether it was created with a processing hint (TPHEN).
    pub processing_hint: bool,
}

impl Command for DestroyCeq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, _, _, _, q48, _] = &mut wqe;
        *q16 = fit("CEQ entries", CeqQ16::CEQSIZE, self.entries)?.value;
        *q48 = self.memory.first_pble()?;
        let fields =
            Q24::CEQID.val(u64::from(self.ceq.get())) + bit(Q24::TPHEN, self.processing_hint);
        wqe[HEADER] = header(Opcode::DestroyCeq, fields.value | map_fields(self.memory));
        Ok(wqe)
    }
}

/// CREATE_AEQ: the function has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateAeq {
    /// Entries of 16 bytes.
    pub entries: u32,
    /// The AEQ's memory, 256-aligned.
    pub memory: QueueMemory,
}

impl Command for CreateAeq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, _, q32, _, q48, _] = &mut wqe;
        *q16 = fit("AEQ entries", AeqQ16::AEQECNT, self.entries)?.value;
        *q32 = self.memory.base()?;
        *q48 = self.memory.first_pble()?;
        wqe[HEADER] = header(Opcode::CreateAeq, map_fields(self.memory));
        Ok(wqe)
    }
}

/// DESTROY_AEQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DestroyAeq {
    /// Entries, as created.
    pub entries: u32,
    /// Memory, as created; a contiguous address is not sent.
    pub memory: QueueMemory,
}

impl Command for DestroyAeq {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, _, _, _, q48, _] = &mut wqe;
        *q16 = fit("AEQ entries", AeqQ16::AEQECNT, self.entries)?.value;
        *q48 = self.memory.first_pble()?;
        wqe[HEADER] = header(Opcode::DestroyAeq, map_fields(self.memory));
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use e810_hal::Iova;

    /// The golden vectors have a contiguous AEQ of 2048 entries; the rest is
    /// from the table, control-path 4.9.
    #[test]
    fn create_aeq_follows_the_table() {
        let contiguous = CreateAeq {
            entries: 0x7_FFFF,
            memory: QueueMemory::Contiguous(Iova(0x8_0000_0000)),
        };
        assert_eq!(
            contiguous.encode(),
            Ok([0, 0, 0x7_FFFF, 0x19 << 32, 0x8_0000_0000, 0, 0, 0])
        );
        let paged = CreateAeq {
            entries: 16,
            memory: QueueMemory::Pbles(0x6666),
        };
        let flags = (1 << 44) | (1 << 47);
        assert_eq!(
            paged.encode(),
            Ok([0, 0, 16, (0x19 << 32) | flags, 0, 0, 0x6666, 0])
        );
    }

    #[test]
    fn counts_are_checked() {
        let memory = QueueMemory::Contiguous(Iova(0x100));
        let aeq = CreateAeq {
            entries: 1 << 19,
            memory,
        };
        assert!(aeq.encode().is_err());
        let ceq = CreateCeq {
            ceq: CeqId::new(1023).unwrap(),
            entries: 1 << 22,
            memory,
            vsi: VsiId::new(0).unwrap(),
            itr_no_expire: false,
            processing_hint: None,
        };
        assert!(ceq.encode().is_err());
        let fits = CreateCeq {
            entries: 16,
            processing_hint: Some(1),
            ..ceq
        };
        assert_eq!(
            fits.encode(),
            Ok([0, 0, 16, (0x16 << 32) | 1023 | (1 << 60), 0x100, 0, 0, 1])
        );
    }
}
