//! UPLOAD_CONTEXT, SUSPEND_QP and RESUME_QP (control-path 4.12).

use e810_hal::Iova;
use tock_registers::register_bitfields;

use super::{Command, HEADER, HwQpType, Wqe, header};
use crate::error::Result;
use crate::field::{aligned, bit, fit};
use crate::limits::QP_CONTEXT_ALIGN;
use crate::opcode::Opcode;

register_bitfields![u64,
    Q24 [
        QPID OFFSET(0) NUMBITS(24) [],
        QPTYPE OFFSET(48) NUMBITS(4) [],
        RAWFORMAT OFFSET(61) NUMBITS(1) [],
        FREEZEQP OFFSET(62) NUMBITS(1) []
    ]
];

/// UPLOAD_CONTEXT: the device writes the context of a QP to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadContext {
    /// QP id.
    pub qp: u32,
    /// Kind of QP.
    pub kind: HwQpType,
    /// Buffer for it, 256-aligned as a host context. Its size is not in the
    /// sources; existing drivers give at least the 256 bytes of a host context.
    pub buffer: Iova,
    /// RAWFORMAT: the device's own layout, not that of the host context.
    pub raw: bool,
    /// FREEZEQP.
    pub freeze: bool,
}

impl Command for UploadContext {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, ..] = &mut wqe;
        *q16 = aligned("context buffer", self.buffer, QP_CONTEXT_ALIGN)?;
        let fields = fit("QP id", Q24::QPID, self.qp)?
            + Q24::QPTYPE.val(self.kind as u64)
            + bit(Q24::RAWFORMAT, self.raw)
            + bit(Q24::FREEZEQP, self.freeze);
        wqe[HEADER] = header(Opcode::UploadContext, fields.value);
        Ok(wqe)
    }
}

/// SUSPEND_QP. AE 0x0900 reports its end, not the completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuspendQp {
    /// QP id.
    pub qp: u32,
}

impl Command for SuspendQp {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let id = fit("QP id", Q24::QPID, self.qp)?;
        wqe[HEADER] = header(Opcode::SuspendQp, id.value);
        Ok(wqe)
    }
}

/// RESUME_QP on a queue set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResumeQp {
    /// QP id.
    pub qp: u32,
    /// Queue-set handle.
    pub qs_handle: u32,
}

impl Command for ResumeQp {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = Wqe::default();
        let [_, _, q16, ..] = &mut wqe;
        *q16 = u64::from(self.qs_handle);
        let id = fit("QP id", Q24::QPID, self.qp)?;
        wqe[HEADER] = header(Opcode::ResumeQp, id.value);
        Ok(wqe)
    }
}
