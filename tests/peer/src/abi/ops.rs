//! The two tables of functions that the library hands over.

use std::ffi::{c_char, c_int, c_void};

use e810_verbs::abi::device::{Context, VerbsContext};
use e810_verbs::abi::make::QpInitAttr;
use e810_verbs::abi::objects::{Ah, Cq, Mr, Pd, Qp};
use e810_verbs::abi::state::AhAttr;
use e810_verbs::abi::work::{RecvWr, SendWr, Wc};

use super::layout;

/// Bytes of `verbs_device`, which nobody but libibverbs looks into.
pub(crate) const VERBS_DEVICE_BYTES: usize = 712;

/// `poll_cq`.
pub(crate) type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
/// `post_send`.
pub(crate) type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
/// `post_recv`.
pub(crate) type PostRecv = unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int;
/// A function that is there, but not called from here.
type Unused = unsafe extern "C" fn();
/// A function that the library does not have.
type Absent = usize;

/// `verbs_device_ops`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct DeviceOps {
    pub(crate) name: *const c_char,
    pub(crate) match_min_abi_version: u32,
    pub(crate) match_max_abi_version: u32,
    match_table: *const c_void,
    static_providers: *const c_void,
    match_device: Option<Unused>,
    pub(crate) alloc_context:
        Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> *mut VerbsContext>,
    import_context: Option<Unused>,
    alloc_device: Option<Unused>,
    uninit_device: Option<Unused>,
}
layout!(DeviceOps, 72, match_min_abi_version @ 8, match_table @ 16, alloc_context @ 40);

/// `verbs_context_ops`. The functions that the library sets and those that it
/// does not alternate, so a table of another shape is recognised.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ContextOps {
    /// From `advise_mr` to `alloc_dm`.
    absent_0: [Absent; 2],
    pub(crate) alloc_mw: Option<Unused>,
    /// From `alloc_null_mr` to `alloc_parent_domain`.
    absent_1: [Absent; 2],
    pub(crate) alloc_pd: Option<unsafe extern "C" fn(*mut Context) -> *mut Pd>,
    /// From `alloc_td` to `attach_counters_point_flow`.
    absent_2: [Absent; 3],
    pub(crate) attach_mcast: Option<Unused>,
    pub(crate) bind_mw: Option<Unused>,
    /// `close_xrcd`.
    absent_3: [Absent; 1],
    pub(crate) cq_event: Option<unsafe extern "C" fn(*mut Cq)>,
    pub(crate) create_ah: Option<unsafe extern "C" fn(*mut Pd, *mut AhAttr) -> *mut Ah>,
    /// `create_counters`.
    absent_4: [Absent; 1],
    pub(crate) create_cq:
        Option<unsafe extern "C" fn(*mut Context, c_int, *mut c_void, c_int) -> *mut Cq>,
    pub(crate) create_cq_ex: Option<Unused>,
    /// From `create_flow` to `create_flow_action_esp`.
    absent_5: [Absent; 2],
    pub(crate) create_qp: Option<unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp>,
    /// From `create_qp_ex` to `create_wq`.
    absent_6: [Absent; 5],
    pub(crate) dealloc_mw: Option<Unused>,
    pub(crate) dealloc_pd: Option<unsafe extern "C" fn(*mut Pd) -> c_int>,
    /// `dealloc_td`.
    absent_7: [Absent; 1],
    pub(crate) dereg_mr: Option<unsafe extern "C" fn(*mut Mr) -> c_int>,
    pub(crate) destroy_ah: Option<unsafe extern "C" fn(*mut Ah) -> c_int>,
    /// `destroy_counters`.
    absent_8: [Absent; 1],
    pub(crate) destroy_cq: Option<unsafe extern "C" fn(*mut Cq) -> c_int>,
    /// From `destroy_flow` to `destroy_flow_action`.
    absent_9: [Absent; 2],
    pub(crate) destroy_qp: Option<unsafe extern "C" fn(*mut Qp) -> c_int>,
    /// From `destroy_rwq_ind_table` to `destroy_wq`.
    absent_10: [Absent; 3],
    pub(crate) detach_mcast: Option<Unused>,
    pub(crate) free_context: Option<unsafe extern "C" fn(*mut Context)>,
    /// From `free_dm` to `modify_flow_action_esp`.
    absent_11: [Absent; 7],
    pub(crate) modify_qp: Option<Unused>,
    /// From `modify_qp_rate_limit` to `open_xrcd`.
    absent_12: [Absent; 5],
    pub(crate) poll_cq: Option<PollCq>,
    pub(crate) post_recv: Option<PostRecv>,
    pub(crate) post_send: Option<PostSend>,
    /// From `post_srq_ops` to `post_srq_recv`.
    absent_13: [Absent; 2],
    pub(crate) query_device_ex: Option<Unused>,
    /// `query_ece`.
    absent_14: [Absent; 1],
    pub(crate) query_port: Option<Unused>,
    pub(crate) query_qp: Option<Unused>,
    /// From `query_qp_data_in_order` to `reg_dmabuf_mr`.
    absent_15: [Absent; 6],
    pub(crate) reg_mr:
        Option<unsafe extern "C" fn(*mut Pd, *mut c_void, usize, u64, c_int) -> *mut Mr>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    /// `rereg_mr`.
    absent_16: [Absent; 1],
    pub(crate) resize_cq: Option<Unused>,
    /// From `set_ece` to `unimport_pd`.
    absent_17: [Absent; 4],
}
layout!(ContextOps, 608);

impl ContextOps {
    /// Whether exactly the functions are set that the library is known to set.
    pub(crate) fn has_the_known_shape(&self) -> bool {
        let set = self.alloc_mw.is_some()
            && self.alloc_pd.is_some()
            && self.attach_mcast.is_some()
            && self.bind_mw.is_some()
            && self.cq_event.is_some()
            && self.create_ah.is_some()
            && self.create_cq.is_some()
            && self.create_cq_ex.is_some()
            && self.create_qp.is_some()
            && self.dealloc_mw.is_some()
            && self.dealloc_pd.is_some()
            && self.dereg_mr.is_some()
            && self.destroy_ah.is_some()
            && self.destroy_cq.is_some()
            && self.destroy_qp.is_some()
            && self.detach_mcast.is_some()
            && self.free_context.is_some()
            && self.modify_qp.is_some()
            && self.poll_cq.is_some()
            && self.post_recv.is_some()
            && self.post_send.is_some()
            && self.query_device_ex.is_some()
            && self.query_port.is_some()
            && self.query_qp.is_some()
            && self.reg_mr.is_some()
            && self.req_notify_cq.is_some()
            && self.resize_cq.is_some();
        let absent: [&[Absent]; 18] = [
            &self.absent_0,
            &self.absent_1,
            &self.absent_2,
            &self.absent_3,
            &self.absent_4,
            &self.absent_5,
            &self.absent_6,
            &self.absent_7,
            &self.absent_8,
            &self.absent_9,
            &self.absent_10,
            &self.absent_11,
            &self.absent_12,
            &self.absent_13,
            &self.absent_14,
            &self.absent_15,
            &self.absent_16,
            &self.absent_17,
        ];
        set && absent.iter().all(|run| run.iter().all(|word| *word == 0))
    }
}
