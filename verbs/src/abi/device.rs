//! Devices and contexts, and the functions that `verbs.h` calls through them.

use core::ffi::{c_char, c_int, c_void};

use super::extended::CqEx;
use super::layout;
use super::make::{CqInitAttrEx, ModifyCqAttr, MwBind, ParentDomainInitAttr, QpInitAttrEx};
use super::objects::{Cq, Mw, Pd, Qp, Srq, Td};
use super::query::{DeviceAttrEx, PortAttr};
use super::work::{RecvWr, SendWr, Wc};

/// `ibv_device`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Device {
    pub ops: [usize; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}
layout!(Device, 664, ops @ 0, node_type @ 16, transport_type @ 20, name @ 24, dev_name @ 88, dev_path @ 152, ibdev_path @ 408);

/// `ibv_context`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: [u64; 5],
    pub abi_compat: usize,
}
layout!(Context, 328, device @ 0, ops @ 8, cmd_fd @ 264, async_fd @ 268, num_comp_vectors @ 272, mutex @ 280, abi_compat @ 320);

/// `ibv_context_ops`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ContextOps {
    pub compat_query_device: usize,
    pub compat_query_port: usize,
    pub compat_alloc_pd: usize,
    pub compat_dealloc_pd: usize,
    pub compat_reg_mr: usize,
    pub compat_rereg_mr: usize,
    pub compat_dereg_mr: usize,
    pub alloc_mw: Option<unsafe extern "C" fn(*mut Pd, c_int) -> *mut Mw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut Qp, *mut Mw, *mut MwBind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut Mw) -> c_int>,
    pub compat_create_cq: usize,
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub compat_cq_event: usize,
    pub compat_resize_cq: usize,
    pub compat_destroy_cq: usize,
    pub compat_create_srq: usize,
    pub compat_modify_srq: usize,
    pub compat_query_srq: usize,
    pub compat_destroy_srq: usize,
    pub post_srq_recv:
        Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub compat_create_qp: usize,
    pub compat_query_qp: usize,
    pub compat_modify_qp: usize,
    pub compat_destroy_qp: usize,
    pub post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub compat_create_ah: usize,
    pub compat_destroy_ah: usize,
    pub compat_attach_mcast: usize,
    pub compat_detach_mcast: usize,
    pub compat_async_event: usize,
}
layout!(ContextOps, 256, compat_query_device @ 0, compat_query_port @ 8, compat_alloc_pd @ 16, compat_dealloc_pd @ 24, compat_reg_mr @ 32, compat_rereg_mr @ 40, compat_dereg_mr @ 48, alloc_mw @ 56, bind_mw @ 64, dealloc_mw @ 72, compat_create_cq @ 80, poll_cq @ 88, req_notify_cq @ 96, compat_cq_event @ 104, compat_resize_cq @ 112, compat_destroy_cq @ 120, compat_create_srq @ 128, compat_modify_srq @ 136, compat_query_srq @ 144, compat_destroy_srq @ 152, post_srq_recv @ 160, compat_create_qp @ 168, compat_query_qp @ 176, compat_modify_qp @ 184, compat_destroy_qp @ 192, post_send @ 200, post_recv @ 208, compat_create_ah @ 216, compat_destroy_ah @ 224, compat_attach_mcast @ 232, compat_detach_mcast @ 240, compat_async_event @ 248);

/// `verbs_context`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VerbsContext {
    pub query_port: Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr, usize) -> c_int>,
    pub advise_mr: usize,
    pub alloc_null_mr: usize,
    pub read_counters: usize,
    pub attach_counters_point_flow: usize,
    pub create_counters: usize,
    pub destroy_counters: usize,
    pub reg_dm_mr: usize,
    pub alloc_dm: usize,
    pub free_dm: usize,
    pub modify_flow_action_esp: usize,
    pub destroy_flow_action: usize,
    pub create_flow_action_esp: usize,
    pub modify_qp_rate_limit: usize,
    pub alloc_parent_domain:
        Option<unsafe extern "C" fn(*mut Context, *mut ParentDomainInitAttr) -> *mut Pd>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut Td) -> c_int>,
    pub alloc_td: Option<unsafe extern "C" fn(*mut Context, *mut c_void) -> *mut Td>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut Cq, *mut ModifyCqAttr) -> c_int>,
    pub post_srq_ops: usize,
    pub destroy_rwq_ind_table: usize,
    pub create_rwq_ind_table: usize,
    pub destroy_wq: usize,
    pub modify_wq: usize,
    pub create_wq: usize,
    pub query_rt_values: usize,
    pub create_cq_ex: Option<unsafe extern "C" fn(*mut Context, *mut CqInitAttrEx) -> *mut CqEx>,
    pub r#priv: usize,
    pub query_device_ex: Option<
        unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int,
    >,
    pub ibv_destroy_flow: usize,
    pub abi_placeholder2: usize,
    pub ibv_create_flow: usize,
    pub abi_placeholder1: usize,
    pub open_qp: usize,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
    pub get_srq_num: usize,
    pub create_srq_ex: usize,
    pub open_xrcd: usize,
    pub close_xrcd: usize,
    pub abi_placeholder3: usize,
    pub sz: usize,
    pub context: Context,
}
layout!(VerbsContext, 648, query_port @ 0, advise_mr @ 8, alloc_null_mr @ 16, read_counters @ 24, attach_counters_point_flow @ 32, create_counters @ 40, destroy_counters @ 48, reg_dm_mr @ 56, alloc_dm @ 64, free_dm @ 72, modify_flow_action_esp @ 80, destroy_flow_action @ 88, create_flow_action_esp @ 96, modify_qp_rate_limit @ 104, alloc_parent_domain @ 112, dealloc_td @ 120, alloc_td @ 128, modify_cq @ 136, post_srq_ops @ 144, destroy_rwq_ind_table @ 152, create_rwq_ind_table @ 160, destroy_wq @ 168, modify_wq @ 176, create_wq @ 184, query_rt_values @ 192, create_cq_ex @ 200, r#priv @ 208, query_device_ex @ 216, ibv_destroy_flow @ 224, abi_placeholder2 @ 232, ibv_create_flow @ 240, abi_placeholder1 @ 248, open_qp @ 256, create_qp_ex @ 264, get_srq_num @ 272, create_srq_ex @ 280, open_xrcd @ 288, close_xrcd @ 296, abi_placeholder3 @ 304, sz @ 312, context @ 320);
