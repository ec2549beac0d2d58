//! What the card has not got, or this library: each is refused, with EOPNOTSUPP.

use core::ffi::{c_int, c_void};

use crate::abi::device::Context;
use crate::abi::make::SrqInitAttr;
use crate::abi::objects::{Mr, Pd, Qp, Srq};
use crate::abi::query::Ece;
use crate::errno::no_object;

/// `ibv_create_srq`: the E810 has no shared receive queues.
pub extern "C" fn create_srq(_: *mut Pd, _: *mut SrqInitAttr) -> *mut Srq {
    no_object(libc::EOPNOTSUPP)
}

/// `ibv_modify_srq`.
pub extern "C" fn modify_srq(_: *mut Srq, _: *mut c_void, _: c_int) -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_query_srq`.
pub extern "C" fn query_srq(_: *mut Srq, _: *mut c_void) -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_destroy_srq`.
pub extern "C" fn destroy_srq(_: *mut Srq) -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_query_ece`: no extended connection establishment.
pub extern "C" fn query_ece(_: *mut Qp, _: *mut Ece) -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_set_ece`.
pub extern "C" fn set_ece(_: *mut Qp, _: *mut Ece) -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_reg_dmabuf_mr`: memory of another device.
pub extern "C" fn reg_dmabuf_mr(
    _: *mut Pd,
    _: u64,
    _: usize,
    _: u64,
    _: c_int,
    _: c_int,
) -> *mut Mr {
    no_object(libc::EOPNOTSUPP)
}

/// `ibv_import_dm`: no memory on the device.
pub extern "C" fn import_dm(_: *mut Context, _: u32) -> *mut c_void {
    no_object(libc::EOPNOTSUPP)
}

/// `ibv_unimport_dm`.
pub extern "C" fn unimport_dm(_: *mut c_void) {}

/// `ibv_query_qp_data_in_order`: no promise about the order in which bytes arrive.
pub extern "C" fn query_qp_data_in_order(_: *mut Qp, _: c_int, _: u32) -> c_int {
    0
}
