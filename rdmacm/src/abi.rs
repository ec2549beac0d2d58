//! The structures of librdmacm's application interface, as `rdma_cma.h` of rdma-core 44 defines them
//! on x86-64 (verbs-abi 2).

#![expect(
    missing_docs,
    reason = "the fields are librdmacm's own, under its names; its manual pages say what they are"
)]

use core::ffi::{c_char, c_int, c_void};
use core::fmt;

use e810_verbs::abi::device::Context;
use e810_verbs::abi::objects::{CompChannel, Cq, Pd, Qp, Srq};
use e810_verbs::abi::state::{AhAttr, Gid};
use e810_verbs::layout;

/// `enum rdma_port_space`.
pub mod port_space {
    use core::ffi::c_int;

    pub const IPOIB: c_int = 0x0002;
    pub const TCP: c_int = 0x0106;
    pub const UDP: c_int = 0x0111;
    pub const IB: c_int = 0x013F;
}

/// `enum rdma_cm_event_type`.
pub mod event {
    use core::ffi::c_int;

    pub const ADDR_RESOLVED: c_int = 0;
    pub const ADDR_ERROR: c_int = 1;
    pub const ROUTE_RESOLVED: c_int = 2;
    pub const CONNECT_REQUEST: c_int = 4;
    pub const CONNECT_RESPONSE: c_int = 5;
    pub const CONNECT_ERROR: c_int = 6;
    pub const UNREACHABLE: c_int = 7;
    pub const REJECTED: c_int = 8;
    pub const ESTABLISHED: c_int = 9;
    pub const DISCONNECTED: c_int = 10;
    pub const DEVICE_REMOVAL: c_int = 11;
    pub const MULTICAST_JOIN: c_int = 12;
    pub const MULTICAST_ERROR: c_int = 13;
    pub const TIMEWAIT_EXIT: c_int = 15;
}

/// `rdma_event_channel`.
#[derive(Debug)]
#[repr(C)]
pub struct EventChannel {
    pub fd: c_int,
}
layout!(EventChannel, 4, fd @ 0);

/// `rdma_addr`. The addresses are `sockaddr_storage`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Addr {
    pub src: [u64; 16],
    pub dst: [u64; 16],
    pub sgid: Gid,
    pub dgid: Gid,
    pub pkey: u16,
}
layout!(Addr, 296, src @ 0, dst @ 128, sgid @ 256, dgid @ 272, pkey @ 288);

/// `ibv_sa_path_rec`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PathRec {
    pub dgid: Gid,
    pub sgid: Gid,
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: c_int,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: c_int,
    pub numb_path: u8,
    pub pkey: u16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}
layout!(PathRec, 64, dgid @ 0, sgid @ 16, dlid @ 32, slid @ 34, raw_traffic @ 36, flow_label @ 40, hop_limit @ 44, traffic_class @ 45, reversible @ 48, numb_path @ 52, pkey @ 54, sl @ 56, mtu_selector @ 57, mtu @ 58, rate_selector @ 59, rate @ 60, packet_life_time_selector @ 61, packet_life_time @ 62, preference @ 63);

/// `rdma_route`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Route {
    pub addr: Addr,
    pub path_rec: *mut PathRec,
    pub num_paths: c_int,
}
layout!(Route, 312, addr @ 0, path_rec @ 296, num_paths @ 304);

/// `rdma_cm_id`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmId {
    pub verbs: *mut Context,
    pub channel: *mut EventChannel,
    pub context: *mut c_void,
    pub qp: *mut Qp,
    pub route: Route,
    pub ps: c_int,
    pub port_num: u8,
    pub event: *mut CmEvent,
    pub send_cq_channel: *mut CompChannel,
    pub send_cq: *mut Cq,
    pub recv_cq_channel: *mut CompChannel,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub pd: *mut Pd,
    pub qp_type: c_int,
}
layout!(CmId, 416, verbs @ 0, channel @ 8, context @ 16, qp @ 24, route @ 32, ps @ 344, port_num @ 348, event @ 352, send_cq_channel @ 360, send_cq @ 368, recv_cq_channel @ 376, recv_cq @ 384, srq @ 392, pd @ 400, qp_type @ 408);

/// `rdma_conn_param`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConnParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}
layout!(ConnParam, 24, private_data @ 0, private_data_len @ 8, responder_resources @ 9, initiator_depth @ 10, flow_control @ 11, retry_count @ 12, rnr_retry_count @ 13, srq @ 14, qp_num @ 16);

/// `rdma_ud_param`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UdParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub ah_attr: AhAttr,
    pub qp_num: u32,
    pub qkey: u32,
}
layout!(UdParam, 56, private_data @ 0, private_data_len @ 8, ah_attr @ 16, qp_num @ 48, qkey @ 52);

/// What an event has beside its kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Param {
    pub conn: ConnParam,
    pub ud: UdParam,
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Param")
    }
}

/// `rdma_cm_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmEvent {
    pub id: *mut CmId,
    pub listen_id: *mut CmId,
    pub event: c_int,
    pub status: c_int,
    pub param: Param,
}
layout!(CmEvent, 80, id @ 0, listen_id @ 8, event @ 16, status @ 20, param @ 24);

/// `rdma_addrinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AddrInfo {
    pub flags: c_int,
    pub family: c_int,
    pub qp_type: c_int,
    pub port_space: c_int,
    pub src_len: libc::socklen_t,
    pub dst_len: libc::socklen_t,
    pub src_addr: *mut libc::sockaddr,
    pub dst_addr: *mut libc::sockaddr,
    pub src_canonname: *mut c_char,
    pub dst_canonname: *mut c_char,
    pub route_len: usize,
    pub route: *mut c_void,
    pub connect_len: usize,
    pub connect: *mut c_void,
    pub next: *mut AddrInfo,
}
layout!(AddrInfo, 96, flags @ 0, family @ 4, qp_type @ 8, port_space @ 12, src_len @ 16, dst_len @ 20, src_addr @ 24, dst_addr @ 32, src_canonname @ 40, dst_canonname @ 48, route_len @ 56, route @ 64, connect_len @ 72, connect @ 80, next @ 88);

/// `rdma_cm_join_mc_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct JoinMcAttr {
    pub comp_mask: u32,
    pub join_flags: u32,
    pub addr: *mut libc::sockaddr,
}
layout!(JoinMcAttr, 16, comp_mask @ 0, join_flags @ 4, addr @ 8);
