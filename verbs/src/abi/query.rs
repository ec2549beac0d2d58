//! The answers of queries.

use core::ffi::{c_char, c_int, c_uint};

use super::layout;
use super::state::Gid;

/// `ibv_device_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}
layout!(DeviceAttr, 232, fw_ver @ 0, node_guid @ 64, sys_image_guid @ 72, max_mr_size @ 80, page_size_cap @ 88, vendor_id @ 96, vendor_part_id @ 100, hw_ver @ 104, max_qp @ 108, max_qp_wr @ 112, device_cap_flags @ 116, max_sge @ 120, max_sge_rd @ 124, max_cq @ 128, max_cqe @ 132, max_mr @ 136, max_pd @ 140, max_qp_rd_atom @ 144, max_ee_rd_atom @ 148, max_res_rd_atom @ 152, max_qp_init_rd_atom @ 156, max_ee_init_rd_atom @ 160, atomic_cap @ 164, max_ee @ 168, max_rdd @ 172, max_mw @ 176, max_raw_ipv6_qp @ 180, max_raw_ethy_qp @ 184, max_mcast_grp @ 188, max_mcast_qp_attach @ 192, max_total_mcast_qp_attach @ 196, max_ah @ 200, max_fmr @ 204, max_map_per_fmr @ 208, max_srq @ 212, max_srq_wr @ 216, max_srq_sge @ 220, max_pkeys @ 224, local_ca_ack_delay @ 226, phys_port_cnt @ 227);

/// `ibv_device_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceAttrEx {
    pub orig_attr: DeviceAttr,
    pub comp_mask: u32,
    pub odp_caps: [u64; 3],
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: [u32; 2],
    pub rss_caps: [u64; 4],
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: [u32; 3],
    pub raw_packet_caps: u32,
    pub tm_caps: [u32; 5],
    pub cq_mod_caps: [u16; 2],
    pub max_dm_size: u64,
    pub pci_atomic_caps: [u16; 3],
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}
layout!(DeviceAttrEx, 400, orig_attr @ 0, comp_mask @ 232, odp_caps @ 240, completion_timestamp_mask @ 264, hca_core_clock @ 272, device_cap_flags_ex @ 280, tso_caps @ 288, rss_caps @ 296, max_wq_type_rq @ 328, packet_pacing_caps @ 332, raw_packet_caps @ 344, tm_caps @ 348, cq_mod_caps @ 368, max_dm_size @ 376, pci_atomic_caps @ 384, xrc_odp_caps @ 392, phys_port_cnt_ex @ 396);

/// `ibv_port_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}
layout!(PortAttr, 52, state @ 0, max_mtu @ 4, active_mtu @ 8, gid_tbl_len @ 12, port_cap_flags @ 16, max_msg_sz @ 20, bad_pkey_cntr @ 24, qkey_viol_cntr @ 28, pkey_tbl_len @ 32, lid @ 34, sm_lid @ 36, lmc @ 38, max_vl_num @ 39, sm_sl @ 40, subnet_timeout @ 41, init_type_reply @ 42, active_width @ 43, active_speed @ 44, phys_state @ 45, link_layer @ 46, flags @ 47, port_cap_flags2 @ 48);

/// `ibv_gid_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}
layout!(GidEntry, 32, gid @ 0, gid_index @ 16, port_num @ 20, gid_type @ 24, ndev_ifindex @ 28);

/// `ibv_ece`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ece {
    pub vendor_id: u32,
    pub options: u32,
    pub comp_mask: u32,
}
layout!(Ece, 12, vendor_id @ 0, options @ 4, comp_mask @ 8);

/// `ibv_values_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ValuesEx {
    pub comp_mask: u32,
    pub raw_clock: [u64; 2],
}
layout!(ValuesEx, 24, comp_mask @ 0, raw_clock @ 8);
