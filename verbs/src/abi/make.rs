//! Attributes that objects are created with.

use core::ffi::{c_int, c_uint, c_void};

use super::layout;
use super::objects::{CompChannel, Cq, Mr, Pd, Srq, Td};

/// `ibv_cq_init_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut CompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut Pd,
}
layout!(CqInitAttrEx, 56, cqe @ 0, cq_context @ 8, channel @ 16, comp_vector @ 24, wc_flags @ 32, comp_mask @ 40, flags @ 44, parent_domain @ 48);

/// `ibv_poll_cq_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PollCqAttr {
    pub comp_mask: u32,
}
layout!(PollCqAttr, 4, comp_mask @ 0);

/// `ibv_modify_cq_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ModifyCqAttr {
    pub attr_mask: u32,
    pub moderate: [u16; 2],
}
layout!(ModifyCqAttr, 8, attr_mask @ 0, moderate @ 4);

/// `ibv_qp_cap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
layout!(QpCap, 20, max_send_wr @ 0, max_recv_wr @ 4, max_send_sge @ 8, max_recv_sge @ 12, max_inline_data @ 16);

/// `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}
layout!(QpInitAttr, 64, qp_context @ 0, send_cq @ 8, recv_cq @ 16, srq @ 24, cap @ 32, qp_type @ 52, sq_sig_all @ 56);

/// `ibv_qp_init_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut Pd,
    pub xrcd: *mut c_void,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: [u64; 3],
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}
layout!(QpInitAttrEx, 136, qp_context @ 0, send_cq @ 8, recv_cq @ 16, srq @ 24, cap @ 32, qp_type @ 52, sq_sig_all @ 56, comp_mask @ 60, pd @ 64, xrcd @ 72, create_flags @ 80, max_tso_header @ 84, rwq_ind_tbl @ 88, rx_hash_conf @ 96, source_qpn @ 120, send_ops_flags @ 128);

/// `ibv_srq_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub attr: [u32; 3],
}
layout!(SrqInitAttr, 24, srq_context @ 0, attr @ 8);

/// `ibv_parent_domain_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ParentDomainInitAttr {
    pub pd: *mut Pd,
    pub td: *mut Td,
    pub comp_mask: u32,
    pub alloc: usize,
    pub free: usize,
    pub pd_context: *mut c_void,
}
layout!(ParentDomainInitAttr, 48, pd @ 0, td @ 8, comp_mask @ 16, alloc @ 24, free @ 32, pd_context @ 40);

/// `ibv_mw_bind`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MwBind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: MwBindInfo,
}
layout!(MwBind, 48, wr_id @ 0, send_flags @ 8, bind_info @ 16);

/// `ibv_mw_bind_info`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct MwBindInfo {
    pub mr: *mut Mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}
layout!(MwBindInfo, 32, mr @ 0, addr @ 8, length @ 16, mw_access_flags @ 24);
