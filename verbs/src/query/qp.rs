//! What queue pairs are.

use core::ffi::c_int;

use crate::abi::objects::Qp;

/// `ibv_query_qp_data_in_order`: no promise about the order in which bytes arrive.
pub extern "C" fn query_qp_data_in_order(_: *mut Qp, _: c_int, _: u32) -> c_int {
    0
}
