//! Completion queues and queue pairs.

// UNSAFETY: C calls these functions with pointers to its own structures.

use std::ffi::{c_int, c_void};

use e810_verbs::abi::constants::qp_type;
use e810_verbs::abi::device::Context;
use e810_verbs::abi::make::{CqInitAttrEx, QpInitAttr};
use e810_verbs::abi::objects::{Cq, Pd, Qp};

use super::{ask, code, fill_answer, request_tail, unsupported};
use crate::abi::{CreateCqReply, CreateCqRequest, CreateQpReply, CreateQpRequest, reply_offset};
use crate::kernel::{Answer, CqRequest, Errno, QpRequest};

/// `ibv_cmd_create_cq_ex`.
///
/// # Safety
/// Called by the library with a context of ours, attributes, a CQ to fill in,
/// and a request and an answer of the sizes given.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_create_cq_ex(
    context: *mut Context,
    attr: *const CqInitAttrEx,
    cq: *mut Cq,
    request: *mut c_void,
    request_bytes: usize,
    answer: *mut c_void,
    answer_bytes: usize,
    _flags: u32,
) -> c_int {
    let create = || -> Answer<()> {
        // SAFETY: both live, and nobody else uses the CQ (contract).
        let (attr, cq) = unsafe { (attr.as_ref(), cq.as_mut()) };
        let (attr, cq) = attr.zip(cq).ok_or(Errno::INVALID)?;
        // SAFETY: passed on; plain numbers.
        let tail: CreateCqRequest = unsafe { request_tail(request, request_bytes) }?;
        let wanted = CqRequest {
            ring: tail.buffer,
            shadow: tail.shadow,
            entries: attr.cqe,
        };
        // SAFETY: passed on.
        let id = unsafe {
            ask(context, |kernel, made| {
                let id = kernel.create_cq(&wanted)?;
                made.cqs.insert(id, wanted);
                Ok(id)
            })
        }?;
        cq.context = context;
        cq.channel = attr.channel;
        cq.cq_context = attr.cq_context;
        cq.handle = id;
        cq.cqe = attr.cqe as c_int;
        let reply = CreateCqReply {
            cq_id: id,
            cq_size: attr.cqe,
        };
        // SAFETY: passed on.
        unsafe { fill_answer(answer, answer_bytes, reply_offset::CREATE_CQ_EX, reply) }
    };
    code(create())
}

/// `ibv_cmd_destroy_cq`.
///
/// # Safety
/// Called by the library with a CQ of ours.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: a CQ that lives (contract).
    let Some(cq) = (unsafe { cq.as_ref() }) else {
        return libc::EINVAL;
    };
    // SAFETY: passed on.
    code(unsafe {
        ask(cq.context, |kernel, made| {
            made.cqs.remove(&cq.handle);
            kernel.destroy_cq(cq.handle)
        })
    })
}

/// Capabilities of a RoCE queue pair (data-path 5.4) without push pages, which
/// existing kernels do not give out (data-path 3.2).
const WRITE_WITH_IMM: u32 = 1;
const SEND_WITH_IMM: u32 = 2;
const ROCE: u32 = 4;

/// `IBV_QPS_RTS`: the state that posting looks at; moving there is the
/// harness's business.
const READY_TO_SEND: c_int = 3;

/// `ibv_cmd_create_qp`.
///
/// # Safety
/// Called by the library with a PD of ours, a QP to fill in, attributes that
/// name CQs of ours, and a request and an answer of the sizes given.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_create_qp(
    pd: *mut Pd,
    qp: *mut Qp,
    attr: *mut QpInitAttr,
    request: *mut c_void,
    request_bytes: usize,
    answer: *mut c_void,
    answer_bytes: usize,
) -> c_int {
    let create = || -> Answer<()> {
        // SAFETY: all three live, and nobody else uses the QP (contract).
        let (domain, pair, attr) = unsafe { (pd.as_ref(), qp.as_mut(), attr.as_ref()) };
        let (domain, pair) = domain.zip(pair).ok_or(Errno::INVALID)?;
        let attr = attr.ok_or(Errno::INVALID)?;
        // SAFETY: CQs that live (contract).
        let cqs = unsafe { attr.send_cq.as_ref().zip(attr.recv_cq.as_ref()) };
        let (send_cq, recv_cq) = cqs.ok_or(Errno::INVALID)?;
        // SAFETY: passed on; plain numbers.
        let tail: CreateQpRequest = unsafe { request_tail(request, request_bytes) }?;
        let wanted = QpRequest {
            pd: domain.handle,
            qp_type: attr.qp_type,
            send_cq: send_cq.handle,
            recv_cq: recv_cq.handle,
            cap: attr.cap,
            buffer: tail.buffer,
            context: tail.context,
        };
        // SAFETY: passed on.
        let id = unsafe {
            ask(domain.context, |kernel, made| {
                let id = kernel.create_qp(&wanted)?;
                made.qps.insert(id, wanted);
                Ok(id)
            })
        }?;
        pair.context = domain.context;
        pair.qp_context = attr.qp_context;
        pair.pd = pd;
        pair.send_cq = attr.send_cq;
        pair.recv_cq = attr.recv_cq;
        pair.handle = id;
        pair.qp_num = id;
        pair.qp_type = attr.qp_type;
        pair.state = READY_TO_SEND;
        let write_with_imm = if attr.qp_type == qp_type::RC {
            WRITE_WITH_IMM
        } else {
            0
        };
        let reply = CreateQpReply {
            qp_id: id,
            actual_sq_size: attr.cap.max_send_wr,
            actual_rq_size: attr.cap.max_recv_wr,
            qp_caps: SEND_WITH_IMM | ROCE | write_with_imm,
            ..CreateQpReply::default()
        };
        // SAFETY: passed on.
        unsafe { fill_answer(answer, answer_bytes, reply_offset::CREATE_QP, reply) }
    };
    code(create())
}

/// `ibv_cmd_destroy_qp`.
///
/// # Safety
/// Called by the library with a QP of ours.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_cmd_destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: a QP that lives (contract).
    let Some(qp) = (unsafe { qp.as_ref() }) else {
        return libc::EINVAL;
    };
    // SAFETY: passed on.
    code(unsafe {
        ask(qp.context, |kernel, made| {
            made.qps.remove(&qp.handle);
            kernel.destroy_qp(qp.handle)
        })
    })
}

unsupported!(
    ibv_cmd_modify_qp,
    ibv_cmd_modify_qp_ex,
    ibv_cmd_query_qp,
    ibv_cmd_resize_cq,
);

pub(super) const EXPORTED: &[*const ()] = &[
    ibv_cmd_create_cq_ex as *const (),
    ibv_cmd_destroy_cq as *const (),
    ibv_cmd_create_qp as *const (),
    ibv_cmd_destroy_qp as *const (),
    ibv_cmd_modify_qp as *const (),
    ibv_cmd_modify_qp_ex as *const (),
    ibv_cmd_query_qp as *const (),
    ibv_cmd_resize_cq as *const (),
];
