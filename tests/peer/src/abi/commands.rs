//! What the provider library and its kernel driver say to each other inside
//! commands (`irdma-abi.h`), and where in a command that stands: requests end
//! with it, answers have it after the generic part.

use super::layout;

/// `irdma_alloc_ucontext_resp`, after 8 generic bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ContextReply {
    pub(crate) max_pds: u32,
    pub(crate) max_qps: u32,
    pub(crate) wq_size: u32,
    pub(crate) kernel_ver: u8,
    pub(crate) rsvd: [u8; 3],
    pub(crate) feature_flags: u64,
    pub(crate) db_mmap_key: u64,
    pub(crate) max_hw_wq_frags: u32,
    pub(crate) max_hw_read_sges: u32,
    pub(crate) max_hw_inline: u32,
    pub(crate) max_hw_rq_quanta: u32,
    pub(crate) max_hw_wq_quanta: u32,
    pub(crate) min_hw_cq_size: u32,
    pub(crate) max_hw_cq_size: u32,
    pub(crate) max_hw_sq_chunk: u16,
    pub(crate) hw_rev: u8,
    pub(crate) rsvd2: u8,
}
layout!(ContextReply, 64, feature_flags @ 16, max_hw_wq_frags @ 32, max_hw_sq_chunk @ 60, hw_rev @ 62);

/// `irdma_create_cq_req`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CreateCqRequest {
    pub(crate) buffer: u64,
    pub(crate) shadow: u64,
}
layout!(CreateCqRequest, 16);

/// `irdma_create_cq_resp`, after 16 generic bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CreateCqReply {
    pub(crate) cq_id: u32,
    pub(crate) cq_size: u32,
}
layout!(CreateCqReply, 8);

/// `irdma_create_qp_req`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CreateQpRequest {
    pub(crate) buffer: u64,
    pub(crate) context: u64,
}
layout!(CreateQpRequest, 16);

/// `irdma_create_qp_resp`, after 32 generic bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CreateQpReply {
    pub(crate) qp_id: u32,
    pub(crate) actual_sq_size: u32,
    pub(crate) actual_rq_size: u32,
    pub(crate) drv_opt: u32,
    pub(crate) push_idx: u16,
    pub(crate) lsmm: u8,
    pub(crate) rsvd: u8,
    pub(crate) qp_caps: u32,
}
layout!(CreateQpReply, 24, push_idx @ 16, lsmm @ 18, qp_caps @ 20);

/// `irdma_mem_reg_req`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MemRegRequest {
    pub(crate) reg_type: u16,
    pub(crate) cq_pages: u16,
    pub(crate) rq_pages: u16,
    pub(crate) sq_pages: u16,
}
layout!(MemRegRequest, 8);

/// Bytes before the driver's part of an answer.
pub(crate) mod reply_offset {
    pub(crate) const GET_CONTEXT: usize = 8;
    pub(crate) const ALLOC_PD: usize = 4;
    pub(crate) const CREATE_AH: usize = 4;
    pub(crate) const CREATE_CQ_EX: usize = 16;
    pub(crate) const CREATE_QP: usize = 32;
}
