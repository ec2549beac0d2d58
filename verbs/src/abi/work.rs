//! Requests, completions and events.

use core::ffi::{c_int, c_uint, c_void};

use super::layout;
use super::make::MwBindInfo;
use super::objects::{Ah, Cq, Mw, Qp, Srq};

/// `ibv_send_wr.wr`: the target of a request.
#[derive(Clone, Copy)]
#[repr(C)]
pub union SendTarget {
    pub rdma: RdmaTarget,
    pub ud: UdTarget,
    pub atomic: [u64; 4],
}

impl Default for SendTarget {
    fn default() -> Self {
        Self { atomic: [0; 4] }
    }
}

impl core::fmt::Debug for SendTarget {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The opcode says which field is valid.
        f.write_str("SendTarget")
    }
}

/// `ibv_send_wr.wr.rdma`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RdmaTarget {
    pub remote_addr: u64,
    pub rkey: u32,
}
layout!(RdmaTarget, 16, remote_addr @ 0, rkey @ 8);

/// `ibv_send_wr.wr.ud`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UdTarget {
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}
layout!(UdTarget, 16, ah @ 0, remote_qpn @ 8, remote_qkey @ 12);

/// `ibv_send_wr.bind_mw`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BindMw {
    pub mw: *mut Mw,
    pub rkey: u32,
    pub bind_info: MwBindInfo,
}
layout!(BindMw, 48, mw @ 0, rkey @ 8, bind_info @ 16);

/// `ibv_async_event.element`: what an event is about.
#[derive(Clone, Copy)]
#[repr(C)]
pub union AsyncElement {
    pub cq: *mut Cq,
    pub qp: *mut Qp,
    pub srq: *mut Srq,
    pub port_num: c_int,
}

impl core::fmt::Debug for AsyncElement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The kind of event says which field is valid.
        f.write_str("AsyncElement")
    }
}

/// `ibv_sge`. Packed, as all that a request consists of: programs have it in packed structures of their
/// own (libiscsi), where it is not aligned.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
layout!(Sge, 16, addr @ 0, length @ 8, lkey @ 12);

/// `ibv_data_buf`.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct DataBuf {
    pub addr: *mut c_void,
    pub length: usize,
}
layout!(DataBuf, 16, addr @ 0, length @ 8);

/// `ibv_recv_wr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub reserved: u32,
}
layout!(RecvWr, 32, wr_id @ 0, next @ 8, sg_list @ 16, num_sge @ 24);

/// `ibv_send_wr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub wr: SendTarget,
    pub qp_type: [u32; 2],
    pub bind_mw: BindMw,
}
layout!(SendWr, 128, wr_id @ 0, next @ 8, sg_list @ 16, num_sge @ 24, opcode @ 28, send_flags @ 32, imm_data @ 36, wr @ 40, qp_type @ 72, bind_mw @ 80);

/// `ibv_wc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
layout!(Wc, 48, wr_id @ 0, status @ 8, opcode @ 12, vendor_err @ 16, byte_len @ 20, imm_data @ 24, qp_num @ 28, src_qp @ 32, wc_flags @ 36, pkey_index @ 40, slid @ 42, sl @ 44, dlid_path_bits @ 45);

/// `ibv_async_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AsyncEvent {
    pub element: AsyncElement,
    pub event_type: c_int,
}
layout!(AsyncEvent, 16, element @ 0, event_type @ 8);
