//! Work requests on STags: fast register, bind, invalidate (data-path 1.7).

use super::device::Device;
use super::env::Env;
use super::fpm::Kind;
use super::mr::{BIND, LOCAL_WRITE, Mr, REMOTE_READ, REMOTE_WRITE, direct_pbles, page_bytes};
use crate::rc::{Fault, HostFault, Invalidator};
use crate::wqe::{AeCode, Operation};

// Codes of control-path 7.5 that only these operations report.
const MWBIND_VALID_STAG: AeCode = AeCode(0x0114);
const MWBIND_OF_MR_STAG: AeCode = AeCode(0x0115);
const MWBIND_TO_ZERO_BASED_STAG: AeCode = AeCode(0x0116);
const MWBIND_TO_MW_STAG: AeCode = AeCode(0x0117);
const MWBIND_INVALID_RIGHTS: AeCode = AeCode(0x0118);
const MWBIND_INVALID_BOUNDS: AeCode = AeCode(0x0119);
const MWBIND_TO_INVALID_PARENT: AeCode = AeCode(0x011A);
const INVALIDATE_TYPE1_MW: AeCode = AeCode(0x011D);
const MWBIND_ZERO_BASED_TYPE1_MW: AeCode = AeCode(0x011E);
const FASTREG_INVALID_PBL_HPS_CFG: AeCode = AeCode(0x011F);
const MWBIND_WRONG_TYPE: AeCode = AeCode(0x0120);
const FASTREG_PBLE_MISMATCH: AeCode = AeCode(0x0121);

/// What the QP context allows (control-path 5.2, row 160).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowed {
    pub(crate) qpn: u32,
    pub(crate) pd: u32,
    /// PRIVEN.
    pub(crate) privileged: bool,
    /// FASTREGEN.
    pub(crate) fast_register: bool,
    /// BINDEN.
    pub(crate) bind: bool,
}

/// Turns a condition into a refusal: `ensure(ok, code)?`.
fn ensure(condition: bool, code: AeCode) -> Result<(), Fault> {
    if condition {
        Ok(())
    } else {
        Err(Fault::Stag(code))
    }
}

impl Device {
    /// Local invalidate, read with local invalidate, or an inbound send with invalidate.
    pub(crate) fn invalidate_stag(
        &mut self,
        stag: u32,
        by: Invalidator,
        pd: u32,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        let (index, mut mr) = self.valid_stag(stag, env)?;
        ensure(mr.pd == pd, AeCode::AMP_BAD_PD)?;
        ensure(
            by == Invalidator::Local || mr.remote,
            AeCode::AMP_INVALIDATE_NO_REMOTE_ACCESS_RIGHTS,
        )?;
        ensure(mr.bound == 0, AeCode::AMP_INVALIDATE_MR_WITH_BOUND_WINDOWS)?;
        if let Some(window) = mr.window {
            ensure(!window.type1, INVALIDATE_TYPE1_MW)?;
            self.unbind(window.parent.into(), env)?;
        }
        mr.valid = false;
        self.put_stag(index, mr, env)
    }

    /// A region has one bound window less.
    pub(crate) fn unbind(&mut self, parent: u64, env: &mut dyn Env) -> Result<(), Fault> {
        if let Some(mut parent_mr) = self.stag(parent, env)? {
            parent_mr.bound = parent_mr.bound.saturating_sub(1);
            self.put_stag(parent, parent_mr, env)?;
        }
        Ok(())
    }

    /// Bind and fast register.
    pub(crate) fn stag_operation(
        &mut self,
        operation: &Operation,
        qp: Allowed,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        match operation {
            Operation::FastRegister { .. } => self.fast_register(operation, qp, env),
            Operation::BindWindow { .. } => self.bind_window(operation, qp, env),
            _ => Ok(()),
        }
    }

    fn fast_register(
        &mut self,
        operation: &Operation,
        qp: Allowed,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        let &Operation::FastRegister {
            addr,
            len,
            stag_index,
            stag_key,
            rights,
            va_based,
            pbl_level,
            page_size,
            page,
            pble,
        } = operation
        else {
            return Ok(());
        };
        ensure(
            qp.privileged && qp.fast_register,
            AeCode::PRIV_OPERATION_DENIED,
        )?;
        let index = self.stag_index(stag_index);
        let old = self
            .stag(index, env)?
            .ok_or(Fault::Stag(AeCode::AMP_UNALLOCATED_STAG))?;
        ensure(old.window.is_none(), AeCode::AMP_FASTREG_MW_STAG)?;
        ensure(old.pd == qp.pd, AeCode::AMP_BAD_PD)?;
        ensure(!old.valid, AeCode::AMP_FASTREG_VALID_STAG)?;
        let remote = rights & (REMOTE_READ | REMOTE_WRITE) != 0;
        ensure(!remote || old.remote, AeCode::AMP_FASTREG_INVALID_RIGHTS)?;
        // Existing drivers never give a peer more rights than the owner (data-path 6.2)
        // [inf fastreg_rights].
        ensure(
            rights & REMOTE_WRITE == 0 || rights & LOCAL_WRITE != 0,
            AeCode::AMP_FASTREG_INVALID_RIGHTS,
        )?;
        // ALLOC_STAG set the maximum length.
        ensure(
            len != 0 && (old.most == 0 || len <= old.most),
            AeCode::AMP_FASTREG_INVALID_LENGTH,
        )?;
        ensure(
            pbl_level <= 1 && page_size <= 2,
            FASTREG_INVALID_PBL_HPS_CFG,
        )?;
        let mr = Mr {
            valid: true,
            key: stag_key,
            start: addr,
            len,
            va_based,
            rights,
            level: pbl_level,
            page_size,
            pages: if pbl_level == 0 { page } else { pble.into() },
            ..old
        };
        let size = page_bytes(page_size);
        let pages = (addr & (size - 1)).saturating_add(len).div_ceil(size);
        let last = u64::from(pble) + direct_pbles(pbl_level, pages);
        ensure(
            pbl_level == 0 || last <= self.hmc.count(Kind::Pble),
            FASTREG_PBLE_MISMATCH,
        )?;
        self.put_stag(index, mr, env)
    }

    fn bind_window(
        &mut self,
        operation: &Operation,
        qp: Allowed,
        env: &mut dyn Env,
    ) -> Result<(), Fault> {
        let &Operation::BindWindow {
            addr,
            len,
            parent,
            window,
            rights,
            va_based,
            type1,
        } = operation
        else {
            return Ok(());
        };
        ensure(qp.bind, AeCode::AMP_MWBIND_BIND_DISABLED)?;
        let index = self.stag_index(window >> 8);
        let old = self
            .stag(index, env)?
            .ok_or(Fault::Stag(AeCode::AMP_UNALLOCATED_STAG))?;
        let state = old.window.ok_or(Fault::Stag(MWBIND_OF_MR_STAG))?;
        ensure(state.type1 == type1, MWBIND_WRONG_TYPE)?;
        ensure(old.pd == qp.pd, AeCode::AMP_BAD_PD)?;
        ensure(type1 || !old.valid, MWBIND_VALID_STAG)?;
        ensure(va_based || !type1, MWBIND_ZERO_BASED_TYPE1_MW)?;
        let (parent_index, mut region) = match self.valid_stag(parent, env) {
            Ok(found) => found,
            Err(Fault::Stag(_)) => return Err(Fault::Stag(MWBIND_TO_INVALID_PARENT)),
            Err(Fault::Host(fault)) => return Err(fault.into()),
        };
        ensure(region.window.is_none(), MWBIND_TO_MW_STAG)?;
        ensure(region.pd == qp.pd, AeCode::AMP_BAD_PD)?;
        ensure(region.va_based, MWBIND_TO_ZERO_BASED_STAG)?;
        ensure(region.rights & BIND != 0, AeCode::AMP_MWBIND_BIND_DISABLED)?;
        let write = rights & REMOTE_WRITE != 0;
        ensure(
            !write || region.rights & LOCAL_WRITE != 0,
            MWBIND_INVALID_RIGHTS,
        )?;
        let inside = addr
            .checked_sub(region.start)
            .and_then(|offset| offset.checked_add(len))
            .is_some_and(|end| region.len == 0 || end <= region.len);
        ensure(inside, MWBIND_INVALID_BOUNDS)?;
        if old.valid {
            self.unbind(state.parent.into(), env)?;
            // It may be the same region.
            region = self.stag(parent_index, env)?.ok_or(HostFault)?;
        }
        // A type-1 bind of zero bytes ends the binding.
        let bound = len != 0;
        region.bound += u32::from(bound);
        self.put_stag(parent_index, region, env)?;
        let mr = Mr {
            window: Some(super::mr::Window {
                parent: parent_index as u32,
                qp: qp.qpn,
                ..state
            }),
            valid: bound,
            key: (window & 0xFF) as u8,
            start: addr,
            len,
            va_based,
            rights,
            remote: true,
            ..old
        };
        self.put_stag(index, mr, env)
    }
}
