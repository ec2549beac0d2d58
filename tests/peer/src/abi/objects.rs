//! Objects that both sides hold pointers to.

use std::ffi::{c_int, c_void};

use super::layout;

/// Bytes of `verbs_device`, which nobody but libibverbs looks into.
pub(crate) const VERBS_DEVICE_BYTES: usize = 712;

/// `ibv_context`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut c_void,
    pub(crate) ops: [usize; 32],
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: [u64; 5],
    pub(crate) abi_compat: usize,
}
layout!(Context, 328, device @ 0, cmd_fd @ 264, async_fd @ 268, num_comp_vectors @ 272, mutex @ 280, abi_compat @ 320);

/// `verbs_context`, which has [`Context`] at its end.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct VerbsContext {
    above: [usize; 39],
    pub(crate) sz: usize,
    pub(crate) context: Context,
}
layout!(VerbsContext, 648, sz @ 312, context @ 320);

/// `ibv_pd`.
#[derive(Debug)]
#[repr(C)]
pub struct Pd {
    pub(crate) context: *mut Context,
    pub(crate) handle: u32,
}
layout!(Pd, 16, handle @ 8);

/// `ibv_mr`.
#[derive(Debug)]
#[repr(C)]
pub struct Mr {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    /// Key for SGEs.
    pub lkey: u32,
    /// Key for the peer.
    pub rkey: u32,
}
layout!(Mr, 48, addr @ 16, length @ 24, handle @ 32, lkey @ 36, rkey @ 40);

impl Mr {
    /// A region that nobody registered, for requests that only name its key.
    #[must_use]
    pub const fn named(key: u32) -> Self {
        Self {
            context: std::ptr::null_mut(),
            pd: std::ptr::null_mut(),
            addr: std::ptr::null_mut(),
            length: 0,
            handle: 0,
            lkey: key,
            rkey: key,
        }
    }
}

/// `ibv_cq`.
#[derive(Debug)]
#[repr(C)]
pub struct Cq {
    pub(crate) context: *mut Context,
    pub(crate) channel: *mut c_void,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    rest: [u64; 12],
}
layout!(Cq, 128, channel @ 8, cq_context @ 16, handle @ 24, cqe @ 28);

/// `ibv_qp`.
#[derive(Debug)]
#[repr(C)]
pub struct Qp {
    pub(crate) context: *mut Context,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut Pd,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: u32,
    pub(crate) qp_type: u32,
    rest: [u64; 12],
}
layout!(Qp, 160, pd @ 16, send_cq @ 24, recv_cq @ 32, srq @ 40, handle @ 48, qp_num @ 52, state @ 56, qp_type @ 60);

/// `ibv_ah`.
#[derive(Debug)]
#[repr(C)]
pub struct Ah {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    pub(crate) handle: u32,
}
layout!(Ah, 24, pd @ 8, handle @ 16);

/// `ibv_ah_attr` with its `ibv_global_route`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AhAttr {
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    gap: u8,
    /// Not used by RoCE.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Not used by RoCE.
    pub src_path_bits: u8,
    /// Not used here.
    pub static_rate: u8,
    /// There is a global route.
    pub is_global: u8,
    /// Port.
    pub port_num: u8,
}
layout!(AhAttr, 32, flow_label @ 16, sgid_index @ 20, dlid @ 24, is_global @ 29, port_num @ 30);

/// `ibv_qp_cap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct QpCap {
    /// Send requests.
    pub max_send_wr: u32,
    /// Receive requests.
    pub max_recv_wr: u32,
    /// SGEs of a send.
    pub max_send_sge: u32,
    /// SGEs of a receive.
    pub max_recv_sge: u32,
    /// Inline bytes.
    pub max_inline_data: u32,
}
layout!(QpCap, 20, max_inline_data @ 16);

/// `ibv_qp_init_attr`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut c_void,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: c_int,
}
layout!(QpInitAttr, 64, send_cq @ 8, recv_cq @ 16, cap @ 32, qp_type @ 52, sq_sig_all @ 56);

/// `ibv_cq_init_attr_ex`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CqInitAttrEx {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut c_void,
    pub(crate) comp_vector: u32,
    pub(crate) wc_flags: u64,
    pub(crate) comp_mask: u32,
    pub(crate) flags: u32,
    pub(crate) parent_domain: *mut c_void,
}
layout!(CqInitAttrEx, 56, cq_context @ 8, channel @ 16, comp_vector @ 24);
