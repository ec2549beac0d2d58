//! Objects of the extended interface, each with its functions.

use core::ffi::{c_int, c_uint, c_void};

use super::layout;
use super::make::PollCqAttr;
use super::objects::{Ah, Cq, Qp};
use super::work::{DataBuf, Sge};

/// `ibv_cq_ex`, which begins as `ibv_cq`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CqEx {
    pub base: Cq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut CqEx, *mut PollCqAttr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(*mut CqEx) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut CqEx)>,
    pub read_opcode: Option<unsafe extern "C" fn(*mut CqEx) -> c_int>,
    pub read_vendor_err: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(*mut CqEx) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(*mut CqEx) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(*mut CqEx) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(*mut CqEx) -> u64>,
    pub read_cvlan: Option<unsafe extern "C" fn(*mut CqEx) -> u16>,
    pub read_flow_tag: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_tm_info: Option<unsafe extern "C" fn(*mut CqEx, *mut c_void)>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut CqEx) -> u64>,
}
layout!(CqEx, 288, base @ 0, comp_mask @ 128, status @ 132, wr_id @ 136, start_poll @ 144, next_poll @ 152, end_poll @ 160, read_opcode @ 168, read_vendor_err @ 176, read_byte_len @ 184, read_imm_data @ 192, read_qp_num @ 200, read_src_qp @ 208, read_wc_flags @ 216, read_slid @ 224, read_sl @ 232, read_dlid_path_bits @ 240, read_completion_ts @ 248, read_cvlan @ 256, read_flow_tag @ 264, read_tm_info @ 272, read_completion_wallclock_ns @ 280);

/// `ibv_qp_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QpEx {
    pub qp_base: Qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: usize,
    pub wr_atomic_fetch_add: usize,
    pub wr_bind_mw: usize,
    pub wr_local_inv: Option<unsafe extern "C" fn(*mut QpEx, u32)>,
    pub wr_rdma_read: Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>,
    pub wr_rdma_write: Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
    pub wr_send: Option<unsafe extern "C" fn(*mut QpEx)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(*mut QpEx, u32)>,
    pub wr_send_inv: Option<unsafe extern "C" fn(*mut QpEx, u32)>,
    pub wr_send_tso: usize,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(*mut QpEx, *mut Ah, u32, u32)>,
    pub wr_set_xrc_srqn: usize,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(*mut QpEx, *mut c_void, usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn(*mut QpEx, usize, *const DataBuf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(*mut QpEx, usize, *const Sge)>,
    pub wr_start: Option<unsafe extern "C" fn(*mut QpEx)>,
    pub wr_complete: Option<unsafe extern "C" fn(*mut QpEx) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(*mut QpEx)>,
    pub wr_atomic_write: usize,
}
layout!(QpEx, 352, qp_base @ 0, comp_mask @ 160, wr_id @ 168, wr_flags @ 176, wr_atomic_cmp_swp @ 184, wr_atomic_fetch_add @ 192, wr_bind_mw @ 200, wr_local_inv @ 208, wr_rdma_read @ 216, wr_rdma_write @ 224, wr_rdma_write_imm @ 232, wr_send @ 240, wr_send_imm @ 248, wr_send_inv @ 256, wr_send_tso @ 264, wr_set_ud_addr @ 272, wr_set_xrc_srqn @ 280, wr_set_inline_data @ 288, wr_set_inline_data_list @ 296, wr_set_sge @ 304, wr_set_sge_list @ 312, wr_start @ 320, wr_complete @ 328, wr_abort @ 336, wr_atomic_write @ 344);
