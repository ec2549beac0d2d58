//! Operations on keys: one quantum, no fragments (data-path 1.7).

use crate::error::PostError;
use crate::status::opcode;
use crate::wqe::header::{HDR, header};
use crate::wr::{FastRegister, MwBind};

/// q0, q1, q2, and the header without flags and valid bit.
pub(crate) type Quantum = [u64; 4];

/// NOP.
pub(crate) fn nop() -> Quantum {
    [0, 0, 0, header(opcode::NOP, 0)]
}

/// Local invalidate. The key stands where a fragment's does, without the
/// fragment's valid bit.
pub(crate) fn local_inv(stag: u32) -> Quantum {
    [0, stag.into(), 0, header(opcode::LOCAL_INV, 0)]
}

/// Memory window bind. Remote atomics do not exist on this generation.
pub(crate) fn bind_mw(bind: &MwBind) -> Quantum {
    let rights = u64::from(bind.remote_read) << 2 | u64::from(bind.remote_write) << 3;
    let fields = HDR::STAGRIGHTS.val(rights)
        + HDR::VABASEDTO.val((!bind.zero_based).into())
        + HDR::MEMWINDOWTYPE.val(bind.type_1.into());
    [
        if bind.zero_based { 0 } else { bind.addr },
        u64::from(bind.mr_stag) << 32 | u64::from(bind.mw_stag),
        bind.length,
        header(opcode::BIND_MW, 0) | fields.value,
    ]
}

const fn fits(field: &'static str, value: u64, limit: u64) -> Result<(), PostError> {
    if value <= limit {
        return Ok(());
    }
    Err(PostError::Field {
        field,
        value,
        limit,
    })
}

/// Page frame numbers of a fast registration: address bits 51:12.
const PAGE_ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

/// Fast registration.
pub(crate) fn fast_register(reg: &FastRegister) -> Result<Quantum, PostError> {
    let reg = reg.parts();
    fits("STag index", reg.stag_index.into(), 0xFF_FFFF)?;
    fits("length", reg.length, 0xFFFF_FFFF_FFFF)?;
    fits("PBLE index", reg.first_pble.into(), 0x0FFF_FFFF)?;
    fits("access rights", reg.rights.into(), 0x1F)?;
    if reg.pages & !PAGE_ADDRESS != 0 {
        return Err(PostError::Field {
            field: "page address (a multiple of 4096)",
            value: reg.pages,
            limit: PAGE_ADDRESS,
        });
    }
    let pble = u64::from(reg.first_pble);
    let fields = HDR::STAGKEY.val(reg.stag_key.into())
        + HDR::STAGINDEX.val(reg.stag_index.into())
        + HDR::LPBLSIZE.val(reg.listed.into())
        + HDR::HPAGESIZE.val(reg.page_size as u64)
        + HDR::STAGRIGHTS.val(reg.rights.into())
        + HDR::VABASEDTO.val((!reg.zero_based).into());
    Ok([
        reg.start,
        reg.pages | pble >> 16,
        reg.length | pble << 48,
        header(opcode::FAST_REGISTER, 0) | fields.value,
    ])
}
