//! Queue pairs of the extended interface: `ibv_create_qp_ex` and `ibv_wr_*`.

use core::ffi::{c_uint, c_void};
use core::{ptr, slice};

use e810::{Remote, UdTarget};

use super::QpObject;
use super::collected::{Collected, Verb};
use super::create::{cap, make};
use crate::abi::constants::qp_type;
use crate::abi::device::Context;
use crate::abi::extended::QpEx;
use crate::abi::make::{QpInitAttr, QpInitAttrEx};
use crate::abi::objects::{Ah, Qp};
use crate::abi::work::{DataBuf, Sge};
use crate::device::context::{Object, OpenContext};
use crate::device::ended::replace;
use crate::errno::no_object;
use crate::panics::catch_panics;
use crate::pd::PdObject;
use crate::rings::{EndedOps, QPN};

/// `enum ibv_qp_init_attr_mask`.
mod given {
    pub(super) const PD: u32 = 1;
    pub(super) const CREATE_FLAGS: u32 = 1 << 2;
    pub(super) const SEND_OPS: u32 = 1 << 6;
}

/// `enum ibv_qp_create_send_ops_flags`, as far as the device supports them: RDMA WRITE, with
/// immediate data, SEND, with immediate data, RDMA READ, local invalidation, SEND with
/// invalidation.
const SEND_OPS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 9;
const DATAGRAM_OPS: u64 = 1 << 2 | 1 << 3;

/// `ibv_create_qp_ex`, through the context: as `ibv_create_qp`, and with functions for requests if
/// the program asks for them.
///
/// # Safety
/// `context` is open, and the objects in `attr` exist.
pub unsafe extern "C" fn create_qp_ex(context: *mut Context, attr: *mut QpInitAttrEx) -> *mut Qp {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let asked = unsafe { attr.read() };
        let known = given::PD | given::CREATE_FLAGS | given::SEND_OPS;
        if asked.comp_mask & given::PD == 0 || asked.pd.is_null() {
            return no_object(libc::EINVAL);
        }
        // SAFETY: the caller's.
        if unsafe { PdObject::of(asked.pd) }.context() != context {
            return no_object(libc::EINVAL);
        }
        let flags = asked.comp_mask & given::CREATE_FLAGS != 0 && asked.create_flags != 0;
        if asked.comp_mask & !known != 0 || flags {
            return no_object(libc::EOPNOTSUPP);
        }
        let ops = match asked.comp_mask & given::SEND_OPS {
            0 => None,
            _ => Some(asked.send_ops_flags),
        };
        let has = match asked.qp_type {
            qp_type::UD => DATAGRAM_OPS,
            _ => SEND_OPS,
        };
        if ops.is_some_and(|ops| ops & !has != 0) {
            return no_object(libc::EOPNOTSUPP);
        }
        let plain = QpInitAttr {
            qp_context: asked.qp_context,
            send_cq: asked.send_cq,
            recv_cq: asked.recv_cq,
            srq: asked.srq,
            cap: asked.cap,
            qp_type: asked.qp_type,
            sq_sig_all: asked.sq_sig_all,
        };
        // SAFETY: the caller's.
        let (qp, granted) = match unsafe { make(asked.pd, &plain) } {
            Ok(made) => made,
            Err(number) => return no_object(number),
        };
        // SAFETY: the caller's.
        unsafe { (*attr).cap = cap(&granted) };
        if ops.is_some() {
            // SAFETY: it was made just now, and nobody else has it; the context is open.
            unsafe {
                let open = OpenContext::of(context);
                QpObject::of(qp).extend(open);
                open.enter(Object::Qp(qp));
            }
        }
        qp
    })
}

/// `ibv_qp_to_qp_ex`: null if it was made without functions for requests.
///
/// # Safety
/// `qp` is a queue pair.
pub unsafe extern "C" fn qp_to_qp_ex(qp: *mut Qp) -> *mut QpEx {
    // SAFETY: the caller's; the field was written before the program got the queue pair.
    let has = unsafe { (*qp.cast::<QpEx>()).wr_start.is_some() };
    if has { qp.cast() } else { ptr::null_mut() }
}

impl QpObject {
    /// Gives it the functions for requests.
    ///
    /// # Safety
    /// Nobody else has it.
    unsafe fn extend(&self, open: &OpenContext) {
        let data_path = open.control().data_path();
        // SAFETY: the caller's.
        let shown = unsafe { &mut *self.abi.get() };
        shown.wr_local_inv = Some(wr_local_inv);
        shown.wr_rdma_read = Some(wr_rdma_read);
        shown.wr_rdma_write = Some(wr_rdma_write);
        shown.wr_rdma_write_imm = Some(wr_rdma_write_imm);
        shown.wr_send = Some(wr_send);
        shown.wr_send_imm = Some(wr_send_imm);
        shown.wr_send_inv = Some(wr_send_inv);
        shown.wr_set_ud_addr = Some(wr_set_ud_addr);
        shown.wr_set_inline_data = Some(wr_set_inline_data);
        shown.wr_set_inline_data_list = Some(wr_set_inline_data_list);
        shown.wr_set_sge = Some(wr_set_sge);
        shown.wr_set_sge_list = Some(wr_set_sge_list);
        shown.wr_start = Some(data_path.wr_start);
        shown.wr_complete = Some(data_path.wr_complete);
        shown.wr_abort = Some(data_path.wr_abort);
    }

    /// The function is gone.
    pub(crate) fn end(&self, ended: &EndedOps) {
        let shown = self.abi.get();
        // SAFETY: fields of this object.
        unsafe {
            if (*shown).wr_complete.is_some() {
                replace(&raw mut (*shown).wr_complete, ended.wr_complete);
            }
        }
    }
}

/// The requests that a queue pair is collecting.
///
/// # Safety
/// Between `ibv_wr_start` and its end.
unsafe fn list<'a>(qp: *mut QpEx) -> &'a mut Collected {
    // SAFETY: the caller's.
    unsafe { QpObject::of(qp.cast()).collected() }
}

/// Begins a request, with the id and the flags that the program has set.
///
/// # Safety
/// As [`list`].
unsafe fn begin(qp: *mut QpEx, verb: Verb) {
    // SAFETY: the caller's; the program writes both before it calls this.
    unsafe { list(qp).begin((*qp).wr_id, (*qp).wr_flags, verb) };
}

/// `ibv_wr_local_inv`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_local_inv(qp: *mut QpEx, stag: u32) {
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::LocalInv { stag }) };
}

/// `ibv_wr_rdma_read`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_rdma_read(qp: *mut QpEx, rkey: u32, addr: u64) {
    let remote = Remote { addr, rkey };
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::Read { remote }) };
}

/// `ibv_wr_rdma_write`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_rdma_write(qp: *mut QpEx, rkey: u32, addr: u64) {
    let remote = Remote { addr, rkey };
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::Write { remote, imm: None }) };
}

/// `ibv_wr_rdma_write_imm`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_rdma_write_imm(qp: *mut QpEx, rkey: u32, addr: u64, imm: u32) {
    let remote = Remote { addr, rkey };
    let imm = Some(u32::from_be(imm));
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::Write { remote, imm }) };
}

/// `ibv_wr_send`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_send(qp: *mut QpEx) {
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::Send { imm: None }) };
}

/// `ibv_wr_send_imm`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_send_imm(qp: *mut QpEx, imm: u32) {
    let imm = Some(u32::from_be(imm));
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::Send { imm }) };
}

/// `ibv_wr_send_inv`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_send_inv(qp: *mut QpEx, rkey: u32) {
    // SAFETY: the caller's.
    unsafe { begin(qp, Verb::SendInv { rkey }) };
}

/// `ibv_wr_set_ud_addr`.
///
/// # Safety
/// As [`list`], and `ah` is an address handle.
unsafe extern "C" fn wr_set_ud_addr(qp: *mut QpEx, ah: *mut Ah, qpn: c_uint, qkey: u32) {
    // SAFETY: the caller's.
    let (list, ah) = unsafe { (list(qp), ah.as_ref()) };
    match ah {
        Some(ah) => list.set_target(UdTarget {
            ah: ah.handle,
            qpn: qpn & QPN,
            qkey,
        }),
        None => list.fail(libc::EINVAL),
    }
}

/// `ibv_wr_set_inline_data`.
///
/// # Safety
/// As [`list`], and the data can be read.
unsafe extern "C" fn wr_set_inline_data(qp: *mut QpEx, addr: *mut c_void, length: usize) {
    // SAFETY: the caller's.
    unsafe { list(qp).set_inline(&[DataBuf { addr, length }]) };
}

/// `ibv_wr_set_inline_data_list`.
///
/// # Safety
/// As [`list`], and the pieces and their data can be read.
unsafe extern "C" fn wr_set_inline_data_list(qp: *mut QpEx, count: usize, data: *const DataBuf) {
    // SAFETY: the caller's.
    unsafe { list(qp).set_inline(slice_of(data, count)) };
}

/// `ibv_wr_set_sge`.
///
/// # Safety
/// As [`list`].
unsafe extern "C" fn wr_set_sge(qp: *mut QpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the caller's.
    unsafe { list(qp) }.set_sges(&[Sge { addr, length, lkey }]);
}

/// `ibv_wr_set_sge_list`.
///
/// # Safety
/// As [`list`], and the SGEs can be read.
unsafe extern "C" fn wr_set_sge_list(qp: *mut QpEx, count: usize, sges: *const Sge) {
    // SAFETY: the caller's.
    unsafe { list(qp).set_sges(slice_of(sges, count)) };
}

/// # Safety
/// `count` elements can be read at `first`, unless that is null.
unsafe fn slice_of<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(first, count) }
}
