//! Work requests and completions.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::{Ah, Mr, layout};

/// `ibv_wr_opcode`.
pub mod opcode {
    /// RDMA WRITE.
    pub const RDMA_WRITE: u32 = 0;
    /// RDMA WRITE with immediate data.
    pub const RDMA_WRITE_WITH_IMM: u32 = 1;
    /// SEND.
    pub const SEND: u32 = 2;
    /// SEND with immediate data.
    pub const SEND_WITH_IMM: u32 = 3;
    /// RDMA READ.
    pub const RDMA_READ: u32 = 4;
    /// Local invalidate.
    pub const LOCAL_INV: u32 = 7;
    /// Bind a memory window.
    pub const BIND_MW: u32 = 8;
    /// SEND with invalidate.
    pub const SEND_WITH_INV: u32 = 9;
}

/// `ibv_send_flags`.
pub mod send_flag {
    /// Wait for earlier reads.
    pub const FENCE: u32 = 1;
    /// Complete on success, too.
    pub const SIGNALED: u32 = 2;
    /// Wake a peer that waits for solicited completions.
    pub const SOLICITED: u32 = 4;
    /// Copy the data at the post.
    pub const INLINE: u32 = 8;
}

/// `ibv_access_flags`.
pub mod access {
    /// The device may write.
    pub const LOCAL_WRITE: c_int = 1;
    /// The peer may write.
    pub const REMOTE_WRITE: c_int = 2;
    /// The peer may read.
    pub const REMOTE_READ: c_int = 4;
    /// Addresses count from 0.
    pub const ZERO_BASED: c_int = 1 << 5;

    use std::ffi::c_int;
}

/// `ibv_qp_type`.
pub mod qp_type {
    /// Reliable connection.
    pub const RC: u32 = 2;
    /// Unreliable datagram.
    pub const UD: u32 = 4;
}

/// `ibv_sge`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CSge {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}
layout!(CSge, 16, length @ 8, lkey @ 12);

/// `ibv_mw_bind_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BindInfo {
    /// The region.
    pub mr: *mut Mr,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: u32,
}
layout!(BindInfo, 32, addr @ 8, length @ 16, access @ 24);

/// `ibv_send_wr`; of its unions, the forms that this generation has.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The next request of the list.
    pub next: *mut CSendWr,
    /// SGEs.
    pub sg_list: *const CSge,
    /// How many.
    pub num_sge: c_int,
    /// [`opcode`].
    pub opcode: u32,
    /// [`send_flag`].
    pub send_flags: u32,
    /// Immediate data in network order, or the key to invalidate.
    pub imm_data: u32,
    /// The peer's address, or the address handle.
    pub remote: u64,
    /// The peer's key, or the peer's QP number.
    pub rkey: u32,
    /// Q_Key.
    pub qkey: u32,
    union: [u64; 3],
    /// The window; this generation's posting does not look at it.
    pub mw: *mut c_void,
    /// The window's new key.
    pub mw_rkey: u32,
    /// What it is bound to.
    pub bind_info: BindInfo,
}
layout!(CSendWr, 128, next @ 8, sg_list @ 16, num_sge @ 24, opcode @ 28, send_flags @ 32, imm_data @ 36, remote @ 40,
    rkey @ 48, qkey @ 52, mw @ 80, mw_rkey @ 88, bind_info @ 96);

impl CSendWr {
    /// A request with nothing but its operation.
    #[must_use]
    pub const fn new(opcode: u32, send_flags: u32) -> Self {
        Self {
            wr_id: 0,
            next: ptr::null_mut(),
            sg_list: ptr::null(),
            num_sge: 0,
            opcode,
            send_flags,
            imm_data: 0,
            remote: 0,
            rkey: 0,
            qkey: 0,
            union: [0; 3],
            mw: ptr::null_mut(),
            mw_rkey: 0,
            bind_info: BindInfo {
                mr: ptr::null_mut(),
                addr: 0,
                length: 0,
                access: 0,
            },
        }
    }

    /// Names its SGEs, which must stay where they are until the post; no list
    /// where there is none.
    pub fn set_sges(&mut self, sges: &[CSge]) {
        self.num_sge = sges.len() as c_int;
        self.sg_list = if sges.is_empty() {
            ptr::null()
        } else {
            sges.as_ptr()
        };
    }

    /// Sends to an address handle.
    pub fn set_target(&mut self, ah: *mut Ah, qpn: u32, qkey: u32) {
        self.remote = ah.expose_provenance() as u64;
        self.rkey = qpn;
        self.qkey = qkey;
    }
}

/// `ibv_recv_wr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CRecvWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The next request of the list.
    pub next: *mut CRecvWr,
    /// SGEs.
    pub sg_list: *const CSge,
    /// How many.
    pub num_sge: c_int,
}
layout!(CRecvWr, 32, next @ 8, sg_list @ 16, num_sge @ 24);

impl CRecvWr {
    /// A receive into `sges`, which must stay where they are until the post.
    #[must_use]
    pub const fn new(wr_id: u64, sges: &[CSge]) -> Self {
        Self {
            wr_id,
            next: ptr::null_mut(),
            sg_list: sges.as_ptr(),
            num_sge: sges.len() as c_int,
        }
    }
}

/// `ibv_wc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CWc {
    /// The request's.
    pub wr_id: u64,
    /// `ibv_wc_status`.
    pub status: u32,
    /// `ibv_wc_opcode`.
    pub opcode: u32,
    /// Major and minor code.
    pub vendor_err: u32,
    /// Bytes.
    pub byte_len: u32,
    /// Immediate data in network order, or the invalidated key.
    pub imm_data: u32,
    /// The local QP.
    pub qp_num: u32,
    /// The peer's QP.
    pub src_qp: u32,
    /// `ibv_wc_flags`.
    pub wc_flags: u32,
    /// Not used by RoCE.
    pub pkey_index: u16,
    /// Not used by RoCE.
    pub slid: u16,
    /// Service level.
    pub sl: u8,
    /// Not used by RoCE.
    pub dlid_path_bits: u8,
}
layout!(CWc, 48, status @ 8, vendor_err @ 16, imm_data @ 24, src_qp @ 32, pkey_index @ 40);
