//! States of queue pairs, and addresses.

use core::ffi::{c_int, c_uint};

use super::layout;
use super::make::QpCap;

/// `ibv_gid`: sixteen bytes, of which `verbs.h` also has two words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(8))]
pub struct Gid {
    pub raw: [u8; 16],
}
layout!(Gid, 16, raw @ 0);

/// `ibv_qp_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QpAttr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}
layout!(QpAttr, 144, qp_state @ 0, cur_qp_state @ 4, path_mtu @ 8, path_mig_state @ 12, qkey @ 16, rq_psn @ 20, sq_psn @ 24, dest_qp_num @ 28, qp_access_flags @ 32, cap @ 36, ah_attr @ 56, alt_ah_attr @ 88, pkey_index @ 120, alt_pkey_index @ 122, en_sqd_async_notify @ 124, sq_draining @ 125, max_rd_atomic @ 126, max_dest_rd_atomic @ 127, min_rnr_timer @ 128, port_num @ 129, timeout @ 130, retry_cnt @ 131, rnr_retry @ 132, alt_port_num @ 133, alt_timeout @ 134, rate_limit @ 136);

/// `ibv_ah_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}
layout!(AhAttr, 32, grh @ 0, dlid @ 24, sl @ 26, src_path_bits @ 27, static_rate @ 28, is_global @ 29, port_num @ 30);

/// `ibv_global_route`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GlobalRoute {
    pub dgid: Gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}
layout!(GlobalRoute, 24, dgid @ 0, flow_label @ 16, sgid_index @ 20, hop_limit @ 21, traffic_class @ 22);

/// `ibv_grh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Grh {
    pub version_tclass_flow: u32,
    pub paylen: u16,
    pub next_hdr: u8,
    pub hop_limit: u8,
    pub sgid: Gid,
    pub dgid: Gid,
}
layout!(Grh, 40, version_tclass_flow @ 0, paylen @ 4, next_hdr @ 6, hop_limit @ 7, sgid @ 8, dgid @ 24);
