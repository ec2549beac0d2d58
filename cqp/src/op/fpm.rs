//! Commands that shape the HMC: QUERY_FPM_VAL (control-path 6.3),
//! COMMIT_FPM_VAL (6.4), SHMC_PAGES_ALLOCATED (6.6) and
//! MANAGE_HMC_PM_FUNC_TABLE (4.16).

use e810_hal::Iova;
use e810_hal::bus::PfId;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::Result;
use crate::field::{aligned, bit};
use crate::opcode::Opcode;

register_bitfields![u64,
    PmFunc [
        VFIDX OFFSET(0) NUMBITS(16) [],
        FREEPMFN OFFSET(62) NUMBITS(1) []
    ]
];

/// Bytes of the buffer of QUERY_FPM_VAL.
pub const QUERY_BYTES: usize = 200;
/// Bytes of the buffer of COMMIT_FPM_VAL, and its BUFSIZE.
pub const COMMIT_BYTES: usize = 208;

/// The formats need 4; buffers here are whole 64-bit words.
const BUFFER_ALIGN: u64 = 4;

/// QUERY_FPM_VAL: the device writes its limits
/// ([`FpmQuery`](crate::hmc::FpmQuery)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryFpm {
    /// Function.
    pub function: PfId,
    /// Buffer of 200 bytes.
    pub buffer: Iova,
}

impl Command for QueryFpm {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, _, q32, ..] = &mut wqe;
        *q16 = u64::from(self.function.get());
        *q32 = aligned("FPM query buffer", self.buffer, BUFFER_ALIGN)?;
        wqe[HEADER] = header(Opcode::QueryFpmVal, 0);
        Ok(wqe)
    }
}

/// COMMIT_FPM_VAL: the device reads the counts in the buffer and replaces them by its own counts
/// and the places of the objects ([`Layout`](crate::hmc::Layout)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitFpm {
    /// Function.
    pub function: PfId,
    /// Buffer of 208 bytes.
    pub buffer: Iova,
}

impl Command for CommitFpm {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, _, q32, ..] = &mut wqe;
        *q16 = u64::from(self.function.get());
        *q32 = aligned("FPM commit buffer", self.buffer, BUFFER_ALIGN)?;
        // BUFSIZE is header bits [31:0].
        wqe[HEADER] = header(Opcode::CommitFpmVal, COMMIT_BYTES as u64);
        Ok(wqe)
    }
}

/// SHMC_PAGES_ALLOCATED: every static object is backed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShmcPagesAllocated {
    /// Function.
    pub function: PfId,
}

impl Command for ShmcPagesAllocated {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, ..] = &mut wqe;
        *q16 = u64::from(self.function.get());
        wqe[HEADER] = header(Opcode::ShmcPagesAllocated, 0);
        Ok(wqe)
    }
}

/// MANAGE_HMC_PM_FUNC_TABLE: for VFs only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManageHmcPmFunction {
    /// VF.
    pub vf: u16,
    /// FREEPMFN: free its entry.
    pub free: bool,
}

impl Command for ManageHmcPmFunction {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let fields = PmFunc::VFIDX.val(u64::from(self.vf)) + bit(PmFunc::FREEPMFN, self.free);
        wqe[HEADER] = header(Opcode::ManageHmcPmFuncTable, fields.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shmc_pages_allocated_follows_the_table() {
        let function = PfId::new(7).unwrap();
        assert_eq!(
            ShmcPagesAllocated { function }.encode(),
            Ok([0, 0, 7, 0x2b << 32, 0, 0, 0, 0])
        );
    }

    #[test]
    fn buffers_are_aligned() {
        let function = PfId::new(0).unwrap();
        let buffer = Iova(2);
        assert!(QueryFpm { function, buffer }.encode().is_err());
        assert!(CommitFpm { function, buffer }.encode().is_err());
    }
}
