//! Objects to which programs hold pointers.

use core::ffi::{c_int, c_void};

use super::device::Context;
use super::layout;

/// `ibv_pd`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pd {
    pub context: *mut Context,
    pub handle: u32,
}
layout!(Pd, 16, context @ 0, handle @ 8);

/// `ibv_mr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
layout!(Mr, 48, context @ 0, pd @ 8, addr @ 16, length @ 24, handle @ 32, lkey @ 36, rkey @ 40);

/// `ibv_mw`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Mw {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub rkey: u32,
    pub handle: u32,
    pub r#type: c_int,
}
layout!(Mw, 32, context @ 0, pd @ 8, rkey @ 16, handle @ 20, r#type @ 24);

/// `ibv_comp_channel`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}
layout!(CompChannel, 16, context @ 0, fd @ 8, refcnt @ 12);

/// `ibv_cq`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: [u64; 5],
    pub cond: [u64; 6],
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}
layout!(Cq, 128, context @ 0, channel @ 8, cq_context @ 16, handle @ 24, cqe @ 28, mutex @ 32, cond @ 72, comp_events_completed @ 120, async_events_completed @ 124);

/// `ibv_qp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_int,
    pub qp_type: c_int,
    pub mutex: [u64; 5],
    pub cond: [u64; 6],
    pub events_completed: u32,
}
layout!(Qp, 160, context @ 0, qp_context @ 8, pd @ 16, send_cq @ 24, recv_cq @ 32, srq @ 40, handle @ 48, qp_num @ 52, state @ 56, qp_type @ 60, mutex @ 64, cond @ 104, events_completed @ 152);

/// `ibv_ah`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ah {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub handle: u32,
}
layout!(Ah, 24, context @ 0, pd @ 8, handle @ 16);

/// `ibv_srq`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Srq {
    pub context: *mut Context,
    pub srq_context: *mut c_void,
    pub pd: *mut Pd,
    pub handle: u32,
    pub mutex: [u64; 5],
    pub cond: [u64; 6],
    pub events_completed: u32,
}
layout!(Srq, 128, context @ 0, srq_context @ 8, pd @ 16, handle @ 24, mutex @ 32, cond @ 72, events_completed @ 120);

/// `ibv_td`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Td {
    pub context: *mut Context,
}
layout!(Td, 8, context @ 0);
