//! Protection domains, regions, address handles.

// UNSAFETY: C calls these functions with pointers to its own structures.

use std::ffi::{c_int, c_void};

use e810_verbs::abi::device::Context;
use e810_verbs::abi::objects::{Ah, Mr, Pd};
use e810_verbs::abi::state::AhAttr;

use super::{ask, code, fill_answer, request_tail, unsupported};
use crate::abi::{MemRegRequest, reply_offset};
use crate::kernel::{Answer, Errno, Purpose, Registration};

/// `ibv_cmd_alloc_pd`.
///
/// # Safety
/// Called by the library with a context of ours, a PD to fill in and an answer
/// of `answer_bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_alloc_pd(
    context: *mut Context,
    pd: *mut Pd,
    _request: *mut c_void,
    _request_bytes: usize,
    answer: *mut c_void,
    answer_bytes: usize,
) -> c_int {
    // SAFETY: passed on.
    let made = unsafe { ask(context, |kernel, _| kernel.alloc_pd()) };
    code(made.and_then(|id| {
        // SAFETY: the library's own PD (contract).
        let pd = unsafe { pd.as_mut() }.ok_or(Errno::INVALID)?;
        pd.context = context;
        pd.handle = id;
        // The driver's part is the id and a reserved word.
        // SAFETY: passed on.
        unsafe { fill_answer(answer, answer_bytes, reply_offset::ALLOC_PD, [id, 0]) }
    }))
}

/// `ibv_cmd_dealloc_pd`.
#[unsafe(no_mangle)]
extern "C" fn ibv_cmd_dealloc_pd(_: *mut Pd) -> c_int {
    0
}

/// `irdma_memreg_type`.
const TYPE_MEM: u16 = 0;
const TYPE_QP: u16 = 1;
const TYPE_CQ: u16 = 2;

/// `ibv_cmd_reg_mr`.
///
/// # Safety
/// Called by the library with a PD of ours, `length` bytes at `start` that stay
/// until they are deregistered, a region to fill in, and a request of
/// `request_bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_reg_mr(
    pd: *mut Pd,
    start: *mut c_void,
    length: usize,
    address: u64,
    access: c_int,
    mr: *mut Mr,
    request: *mut c_void,
    request_bytes: usize,
    _answer: *mut c_void,
    _answer_bytes: usize,
) -> c_int {
    let register = || -> Answer<()> {
        // SAFETY: a PD that lives, and the library's own region (contract).
        let (pd, mr) = unsafe { (pd.as_ref(), mr.as_mut()) };
        let (pd, mr) = pd.zip(mr).ok_or(Errno::INVALID)?;
        // SAFETY: passed on; plain numbers.
        let tail: MemRegRequest = unsafe { request_tail(request, request_bytes) }?;
        let purpose = match tail.reg_type {
            TYPE_MEM => Purpose::Payload,
            TYPE_QP => Purpose::Qp {
                sq_pages: tail.sq_pages,
                rq_pages: tail.rq_pages,
            },
            TYPE_CQ => Purpose::Cq,
            _ => return Err(Errno::INVALID),
        };
        let registration = Registration {
            pd: pd.handle,
            // The simulated device makes a pointer of it again.
            start: start.expose_provenance() as u64,
            length,
            address,
            access,
            purpose,
        };
        // SAFETY: passed on.
        let region = unsafe {
            ask(pd.context, |kernel, made| {
                let region = kernel.register(&registration)?;
                made.registrations.insert(region.handle, registration);
                Ok(region)
            })
        }?;
        mr.context = pd.context;
        mr.addr = start;
        mr.length = length;
        mr.handle = region.handle;
        mr.lkey = region.key;
        mr.rkey = region.key;
        Ok(())
    };
    code(register())
}

/// `ibv_cmd_dereg_mr`.
///
/// # Safety
/// Called by the library with a region of ours.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: a region that lives (contract).
    let Some(mr) = (unsafe { mr.as_ref() }) else {
        return libc::EINVAL;
    };
    // SAFETY: passed on.
    code(unsafe {
        ask(mr.context, |kernel, made| {
            kernel.deregister(mr.handle)?;
            made.registrations.remove(&mr.handle);
            Ok(())
        })
    })
}

/// `ibv_cmd_create_ah`.
///
/// # Safety
/// Called by the library with a PD of ours, a handle to fill in, its attributes
/// and an answer of `answer_bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_create_ah(
    pd: *mut Pd,
    ah: *mut Ah,
    attr: *mut AhAttr,
    answer: *mut c_void,
    answer_bytes: usize,
) -> c_int {
    let create = || -> Answer<()> {
        // SAFETY: all three live, and nobody else uses the handle (contract).
        let (domain, handle, attr) = unsafe { (pd.as_ref(), ah.as_mut(), attr.as_ref()) };
        let (domain, handle) = domain.zip(handle).ok_or(Errno::INVALID)?;
        let attr = attr.ok_or(Errno::INVALID)?;
        // SAFETY: passed on.
        let id = unsafe {
            ask(domain.context, |kernel, _| {
                kernel.create_ah(domain.handle, attr)
            })
        }?;
        handle.context = domain.context;
        handle.pd = pd;
        handle.handle = id;
        // The index, and a reserved word.
        // SAFETY: passed on.
        unsafe { fill_answer(answer, answer_bytes, reply_offset::CREATE_AH, [id, 0]) }
    };
    code(create())
}

/// `ibv_cmd_destroy_ah`.
///
/// # Safety
/// Called by the library with an address handle of ours.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_destroy_ah(ah: *mut Ah) -> c_int {
    // SAFETY: a handle that lives (contract).
    let Some(ah) = (unsafe { ah.as_ref() }) else {
        return libc::EINVAL;
    };
    // SAFETY: passed on.
    code(unsafe { ask(ah.context, |kernel, _| kernel.destroy_ah(ah.handle)) })
}

unsupported!(
    ibv_cmd_alloc_mw,
    ibv_cmd_dealloc_mw,
    ibv_cmd_attach_mcast,
    ibv_cmd_detach_mcast,
);

pub(super) const EXPORTED: &[*const ()] = &[
    ibv_cmd_alloc_pd as *const (),
    ibv_cmd_dealloc_pd as *const (),
    ibv_cmd_reg_mr as *const (),
    ibv_cmd_dereg_mr as *const (),
    ibv_cmd_create_ah as *const (),
    ibv_cmd_destroy_ah as *const (),
    ibv_cmd_alloc_mw as *const (),
    ibv_cmd_dealloc_mw as *const (),
    ibv_cmd_attach_mcast as *const (),
    ibv_cmd_detach_mcast as *const (),
];
