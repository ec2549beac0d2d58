//! Completion queues of the extended interface: `ibv_create_cq_ex`, and reading the fields of the
//! completion that a poll has found.

use core::ffi::{c_int, c_uint};
use core::ptr;

use e810::Wc;

use super::{CqObject, make};
use crate::abi::device::Context;
use crate::abi::extended::CqEx;
use crate::abi::make::CqInitAttrEx;
use crate::abi::work::Wc as ProgramWc;
use crate::device::context::{Object, OpenContext};
use crate::device::ended::replace;
use crate::errno::no_object;
use crate::panics::catch_panics;
use crate::rings::EndedOps;

/// `enum ibv_create_cq_wc_flags`: length, immediate data, both queue pairs, and fields that RoCE
/// does not have, which read as 0 (IBV_WC_STANDARD_FLAGS).
const FIELDS: u64 = 0x7F;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`, `IBV_CQ_INIT_ATTR_MASK_PD`.
const FLAGS_GIVEN: u32 = 1;
const PD_GIVEN: u32 = 1 << 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`: ignored, as an uncontended lock costs little.
const SINGLE_THREADED: u32 = 1;

/// `ibv_create_cq_ex`, through the context.
///
/// # Safety
/// `context` is open, and `attr` names a channel of it, or none.
pub unsafe extern "C" fn create_cq_ex(context: *mut Context, attr: *mut CqInitAttrEx) -> *mut CqEx {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        let flags = match asked.comp_mask & FLAGS_GIVEN {
            0 => 0,
            _ => asked.flags,
        };
        let unknown = asked.comp_mask & !(FLAGS_GIVEN | PD_GIVEN) != 0;
        if unknown || asked.wc_flags & !FIELDS != 0 || flags & !SINGLE_THREADED != 0 {
            return no_object(libc::EOPNOTSUPP);
        }
        // SAFETY: the caller's.
        let made = unsafe {
            make(
                context,
                asked.cqe,
                asked.cq_context,
                asked.channel,
                asked.comp_vector,
            )
        };
        let cq = match made {
            Ok(cq) => cq.cast::<CqEx>(),
            Err(number) => return no_object(number),
        };
        // SAFETY: it was made just now, and nobody else has it; the context is open.
        unsafe {
            let open = OpenContext::of(context);
            CqObject::of(cq.cast()).extend(open, asked.wc_flags);
            open.enter(Object::Cq(cq.cast()));
        }
        cq
    })
}

impl CqObject {
    /// Gives it the functions for polling and reading.
    ///
    /// # Safety
    /// Nobody else has it.
    unsafe fn extend(&self, open: &OpenContext, fields: u64) {
        let data_path = open.control().data_path();
        // SAFETY: the caller's.
        let shown = unsafe { &mut *self.shown() };
        shown.start_poll = Some(data_path.start_poll);
        shown.next_poll = Some(data_path.next_poll);
        shown.end_poll = Some(data_path.end_poll);
        shown.read_opcode = Some(read_opcode);
        shown.read_vendor_err = Some(read_vendor_err);
        shown.read_wc_flags = Some(read_wc_flags);
        let has = |bit: u32| fields & 1 << bit != 0;
        shown.read_byte_len = has(0).then_some(read_byte_len);
        shown.read_imm_data = has(1).then_some(read_imm_data);
        shown.read_qp_num = has(2).then_some(read_qp_num);
        shown.read_src_qp = has(3).then_some(read_src_qp);
        shown.read_slid = has(4).then_some(read_slid);
        shown.read_sl = has(5).then_some(read_sl);
        shown.read_dlid_path_bits = has(6).then_some(read_dlid_path_bits);
    }

    /// The function is gone.
    pub(crate) fn end(&self, ended: &EndedOps) {
        let shown = self.shown();
        // SAFETY: fields of this object.
        unsafe {
            if (*shown).start_poll.is_some() {
                replace(&raw mut (*shown).start_poll, ended.start_poll);
            }
        }
    }

    /// Keeps the completion that was polled.
    ///
    /// # Safety
    /// The ring is the caller's.
    pub(crate) unsafe fn set_current(&self, wc: Wc) {
        // SAFETY: the caller's.
        unsafe {
            *self.current() = wc;
            let shown = self.shown();
            (*shown).wr_id = wc.wr_id;
            (*shown).status = c_int::from(wc.status as u8);
        }
    }
}

/// The completion that was polled last, as verbs has it.
///
/// # Safety
/// Between `ibv_start_poll` and `ibv_end_poll`.
unsafe fn current(cq: *mut CqEx) -> ProgramWc {
    // SAFETY: the caller's.
    ProgramWc::from(unsafe { *CqObject::of(cq.cast()).current() })
}

/// `ibv_wc_read_opcode`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_opcode(cq: *mut CqEx) -> c_int {
    // SAFETY: the caller's.
    unsafe { current(cq) }.opcode
}

/// `ibv_wc_read_vendor_err`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_vendor_err(cq: *mut CqEx) -> u32 {
    // SAFETY: the caller's.
    unsafe { current(cq) }.vendor_err
}

/// `ibv_wc_read_byte_len`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_byte_len(cq: *mut CqEx) -> u32 {
    // SAFETY: the caller's.
    unsafe { current(cq) }.byte_len
}

/// `ibv_wc_read_imm_data`; also reads an invalidated key.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_imm_data(cq: *mut CqEx) -> u32 {
    // SAFETY: the caller's.
    unsafe { current(cq) }.imm_data
}

/// `ibv_wc_read_qp_num`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_qp_num(cq: *mut CqEx) -> u32 {
    // SAFETY: the caller's.
    unsafe { current(cq) }.qp_num
}

/// `ibv_wc_read_src_qp`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_src_qp(cq: *mut CqEx) -> u32 {
    // SAFETY: the caller's.
    unsafe { current(cq) }.src_qp
}

/// `ibv_wc_read_wc_flags`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_wc_flags(cq: *mut CqEx) -> c_uint {
    // SAFETY: the caller's.
    unsafe { current(cq) }.wc_flags
}

/// `ibv_wc_read_slid`: RoCE has none.
extern "C" fn read_slid(_: *mut CqEx) -> u32 {
    0
}

/// `ibv_wc_read_sl`.
///
/// # Safety
/// As [`current`].
unsafe extern "C" fn read_sl(cq: *mut CqEx) -> u8 {
    // SAFETY: the caller's.
    unsafe { current(cq) }.sl
}

/// `ibv_wc_read_dlid_path_bits`: RoCE has none.
extern "C" fn read_dlid_path_bits(_: *mut CqEx) -> u8 {
    0
}
