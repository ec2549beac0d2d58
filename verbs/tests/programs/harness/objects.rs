//! Objects of a context, with the functions of each.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::RawFd;
use std::{mem, ptr};

pub(crate) use e810_verbs::abi::constants::qp_type::{RC, UD};
pub(crate) use e810_verbs::abi::constants::{opcode, send_flag as flag};
use e810_verbs::abi::extended::QpEx;
use e810_verbs::abi::make::{QpCap, QpInitAttr, QpInitAttrEx};
use e810_verbs::abi::objects;
use e810_verbs::abi::state::{AhAttr, Gid, GlobalRoute, QpAttr};
use e810_verbs::abi::work::{RdmaTarget, RecvWr, SendTarget, SendWr, Sge, UdTarget, Wc};
use e810_verbs::qp::extended::create_qp_ex;
use e810_verbs::qp::{create_qp, destroy_qp, modify_qp, qp_to_qp_ex, query_qp};
use e810_verbs::{ah, channel, cq, mr, multicast, pd};

use super::errno;

/// Objects may be used by any thread.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($of:ty);)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name(pub(crate) *mut $of);
        // SAFETY: objects may be used by any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )+};
}
handles! {
    Pd(objects::Pd);
    Mr(objects::Mr);
    /// A completion channel.
    Channel(objects::CompChannel);
    Cq(objects::Cq);
    Qp(objects::Qp);
    Ah(objects::Ah);
}

/// `IBV_ACCESS_LOCAL_WRITE`, REMOTE_WRITE and REMOTE_READ.
pub(crate) const ALL_RIGHTS: c_int = 7;
/// `enum ibv_qp_state`.
pub(crate) mod state {
    use std::ffi::c_int;

    pub(crate) const RESET: c_int = 0;
    pub(crate) const INIT: c_int = 1;
    pub(crate) const RTR: c_int = 2;
    pub(crate) const RTS: c_int = 3;
    pub(crate) const SQD: c_int = 4;
    pub(crate) const ERR: c_int = 6;
}

/// Sizes of queues.
pub(crate) const DEPTH: u32 = 64;

impl Pd {
    pub(crate) fn free(self) -> c_int {
        // SAFETY: it is there; a test uses it no more after 0.
        unsafe { pd::dealloc_pd(self.0) }
    }

    /// A region over all of `memory`, which outlives it; or the error number.
    pub(crate) fn try_mr(self, memory: &mut [u8]) -> Result<Mr, c_int> {
        let address = memory.as_mut_ptr().cast::<c_void>();
        // SAFETY: memory of the test.
        let mr = unsafe { mr::reg_mr(self.0, address, memory.len(), ALL_RIGHTS) };
        if mr.is_null() {
            Err(errno())
        } else {
            Ok(Mr(mr))
        }
    }

    pub(crate) fn mr(self, memory: &mut [u8]) -> Mr {
        self.try_mr(memory).unwrap()
    }

    /// A queue pair, or the error number.
    pub(crate) fn try_qp(self, kind: c_int, send_cq: Cq, recv_cq: Cq) -> Result<Qp, c_int> {
        let cap = QpCap {
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 32,
        };
        self.try_qp_of(kind, send_cq, recv_cq, cap)
    }

    /// The same, of sizes.
    pub(crate) fn try_qp_of(
        self,
        kind: c_int,
        send_cq: Cq,
        recv_cq: Cq,
        cap: QpCap,
    ) -> Result<Qp, c_int> {
        let mut init = QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: send_cq.0,
            recv_cq: recv_cq.0,
            srq: ptr::null_mut(),
            cap,
            qp_type: kind,
            sq_sig_all: 0,
        };
        // SAFETY: objects that are there, and attributes that can be written.
        let qp = unsafe { create_qp(self.0, &raw mut init) };
        if qp.is_null() {
            Err(errno())
        } else {
            Ok(Qp(qp))
        }
    }

    pub(crate) fn qp(self, kind: c_int, send_cq: Cq, recv_cq: Cq) -> Qp {
        self.try_qp(kind, send_cq, recv_cq).unwrap()
    }

    /// A queue pair of the extended interface, with SENDs and, where it is connected, WRITEs; one
    /// SGE and 32 bytes inline.
    pub(crate) fn extended_qp(self, kind: c_int, cq: Cq) -> Qp {
        // SAFETY: numbers and null pointers.
        let mut init: QpInitAttrEx = unsafe { mem::zeroed() };
        (init.send_cq, init.recv_cq, init.pd) = (cq.0, cq.0, self.0);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (DEPTH, DEPTH);
        (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
        init.cap.max_inline_data = 32;
        init.qp_type = kind;
        // IBV_QP_INIT_ATTR_PD and SEND_OPS_FLAGS.
        init.comp_mask = 1 | 1 << 6;
        init.send_ops_flags = if kind == UD { 1 << 2 } else { 1 << 2 | 1 };
        // SAFETY: objects that are there, and attributes that can be written.
        let qp = unsafe { create_qp_ex((*self.0).context, &raw mut init) };
        assert!(!qp.is_null(), "error {}", errno());
        Qp(qp)
    }

    /// An address handle, or the error number.
    pub(crate) fn try_ah(self, mut attr: AhAttr) -> Result<Ah, c_int> {
        // SAFETY: a domain that is there, and attributes that can be read.
        let ah = unsafe { ah::create_ah(self.0, &raw mut attr) };
        if ah.is_null() {
            Err(errno())
        } else {
            Ok(Ah(ah))
        }
    }
}

impl Ah {
    pub(crate) fn destroy(self) -> c_int {
        // SAFETY: it is there; a test uses it no more.
        unsafe { ah::destroy_ah(self.0) }
    }
}

pub(crate) fn address(dgid: Gid, sgid_index: u8) -> AhAttr {
    AhAttr {
        grh: GlobalRoute {
            dgid,
            flow_label: 0,
            sgid_index,
            hop_limit: 64,
            traffic_class: 0,
        },
        dlid: 0,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 1,
        port_num: 1,
    }
}

impl Mr {
    pub(crate) fn dereg(self) -> c_int {
        // SAFETY: it is there; a test uses it no more.
        unsafe { mr::dereg_mr(self.0) }
    }

    /// `ibv_rereg_mr` to another domain: 0, or the error number.
    pub(crate) fn to_domain(self, pd: Pd) -> c_int {
        // IBV_REREG_MR_CHANGE_PD.
        // SAFETY: objects that are there.
        match unsafe { mr::rereg_mr(self.0, 2, pd.0, ptr::null_mut(), 0, 0) } {
            0 => 0,
            _ => errno(),
        }
    }

    pub(crate) fn key(self) -> u32 {
        // SAFETY: it is there.
        unsafe { (*self.0).lkey }
    }

    pub(crate) fn sge(self, offset: usize, length: u32) -> Sge {
        // SAFETY: it is there.
        let start = unsafe { (*self.0).addr } as u64;
        Sge {
            addr: start + offset as u64,
            length,
            lkey: self.key(),
        }
    }
}

impl Channel {
    pub(crate) fn fd(self) -> RawFd {
        // SAFETY: it is there.
        unsafe { (*self.0).fd }
    }

    /// `ibv_get_cq_event`: the queue and its word, or the error number.
    pub(crate) fn take(self) -> Result<(Cq, usize), c_int> {
        let (mut cq, mut word) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a channel, and places for both.
        match unsafe { channel::get_cq_event(self.0, &raw mut cq, &raw mut word) } {
            0 => Ok((Cq(cq), word as usize)),
            _ => Err(errno()),
        }
    }

    pub(crate) fn destroy(self) -> c_int {
        // SAFETY: it is there; a test uses it no more after 0.
        unsafe { channel::destroy_comp_channel(self.0) }
    }
}

impl Cq {
    pub(crate) fn destroy(self) -> c_int {
        // SAFETY: it is there; a test uses it no more after 0.
        unsafe { cq::destroy_cq(self.0) }
    }

    pub(crate) fn resize(self, entries: c_int) -> c_int {
        // SAFETY: it is there.
        unsafe { cq::resize_cq(self.0, entries) }
    }

    pub(crate) fn acknowledge(self, events: c_uint) {
        // SAFETY: it is there.
        unsafe { channel::ack_cq_events(self.0, events) };
    }

    /// `ibv_req_notify_cq`.
    pub(crate) fn arm(self, solicited_only: bool) -> c_int {
        // SAFETY: it is there; the function is its context's.
        unsafe {
            let arm = (*(*self.0).context).ops.req_notify_cq.unwrap();
            arm(self.0, solicited_only.into())
        }
    }

    /// `ibv_poll_cq`: what there is, at most `most`.
    #[track_caller]
    pub(crate) fn poll(self, most: usize) -> Vec<Wc> {
        self.try_poll(most).unwrap()
    }

    /// The error of a function that is gone, once it finds nothing.
    pub(crate) fn try_poll(self, most: usize) -> Result<Vec<Wc>, c_int> {
        let mut completions = Vec::<Wc>::with_capacity(most);
        // SAFETY: it is there; the function is its context's, and there is room for so many.
        unsafe {
            let poll = (*(*self.0).context).ops.poll_cq.unwrap();
            let count = poll(self.0, most as c_int, completions.as_mut_ptr());
            let count = usize::try_from(count).map_err(|_| -count)?;
            completions.set_len(count);
        }
        Ok(completions)
    }

    /// Polls until there were `count`.
    #[track_caller]
    pub(crate) fn wait(self, count: usize) -> Vec<Wc> {
        let mut all = Vec::new();
        super::until("completions", || {
            all.extend(self.poll(count - all.len()));
            all.len() == count
        });
        all
    }
}

impl Qp {
    pub(crate) fn destroy(self) -> c_int {
        // SAFETY: it is there; a test uses it no more after 0.
        unsafe { destroy_qp(self.0) }
    }

    pub(crate) fn number(self) -> u32 {
        // SAFETY: it is there.
        unsafe { (*self.0).qp_num }
    }

    /// `ibv_wr_start`, what `build` asks for, `ibv_wr_complete`: 0, or the error number.
    pub(crate) fn together(self, build: impl FnOnce(&mut QpEx)) -> c_int {
        // SAFETY: it is there, and was made for the extended interface; its functions are its own.
        unsafe {
            let qp = &mut *qp_to_qp_ex(self.0);
            qp.wr_start.unwrap()(qp);
            build(qp);
            qp.wr_complete.unwrap()(qp)
        }
    }

    /// Into a multicast group: 0, or the error number.
    pub(crate) fn attach(self, group: Gid) -> c_int {
        // SAFETY: it is there, and the group can be read.
        unsafe { multicast::attach_mcast(self.0, &raw const group, 0) }
    }

    pub(crate) fn detach(self, group: Gid) -> c_int {
        // SAFETY: it is there, and the group can be read.
        unsafe { multicast::detach_mcast(self.0, &raw const group, 0) }
    }

    /// `ibv_modify_qp`, with all attributes that are not in the mask 0.
    pub(crate) fn modify(self, mask: c_int, change: impl FnOnce(&mut QpAttr)) -> c_int {
        // SAFETY: numbers.
        let mut attr: QpAttr = unsafe { mem::zeroed() };
        change(&mut attr);
        // SAFETY: it is there, and attributes can be read.
        unsafe { modify_qp(self.0, &raw mut attr, mask) }
    }

    /// To a state that takes nothing else.
    pub(crate) fn go_to(self, state: c_int) -> c_int {
        self.modify(1, |attr| attr.qp_state = state)
    }

    pub(crate) fn query(self) -> Result<QpAttr, c_int> {
        // SAFETY: numbers and null pointers.
        let (mut attr, mut init) = unsafe { (mem::zeroed(), mem::zeroed()) };
        // SAFETY: it is there, and both can be written.
        match unsafe { query_qp(self.0, &raw mut attr, 0, &raw mut init) } {
            0 => Ok(attr),
            number => Err(number),
        }
    }

    /// `ibv_post_send` of one request.
    pub(crate) fn send(self, mut wr: SendWr) -> c_int {
        let mut bad = ptr::null_mut();
        // SAFETY: it is there; the function is its context's, and takes one request.
        unsafe {
            let post = (*(*self.0).context).ops.post_send.unwrap();
            post(self.0, &raw mut wr, &raw mut bad)
        }
    }

    /// `ibv_post_recv` of one request.
    pub(crate) fn recv(self, wr_id: u64, mut sge: Sge) -> c_int {
        let mut wr = RecvWr {
            wr_id,
            sg_list: &raw mut sge,
            num_sge: 1,
            ..RecvWr::default()
        };
        let mut bad = ptr::null_mut();
        // SAFETY: it is there; the function is its context's, and takes one request.
        unsafe {
            let post = (*(*self.0).context).ops.post_recv.unwrap();
            post(self.0, &raw mut wr, &raw mut bad)
        }
    }

    /// Posts a SEND of what `sge` names.
    pub(crate) fn send_of(self, wr_id: u64, mut sge: Sge, flags: c_uint) -> c_int {
        self.send(request(opcode::SEND, wr_id, &mut sge, flags))
    }

    /// Posts a WRITE or a READ.
    pub(crate) fn rdma(
        self,
        opcode: c_int,
        wr_id: u64,
        mut sge: Sge,
        (remote_addr, rkey): (u64, u32),
    ) -> c_int {
        let rdma = RdmaTarget { remote_addr, rkey };
        self.send(SendWr {
            wr: SendTarget { rdma },
            ..request(opcode, wr_id, &mut sge, flag::SIGNALED)
        })
    }

    /// Posts a datagram.
    pub(crate) fn datagram(
        self,
        wr_id: u64,
        mut sge: Sge,
        ah: Ah,
        (remote_qpn, remote_qkey): (u32, u32),
    ) -> c_int {
        let ud = UdTarget {
            ah: ah.0,
            remote_qpn,
            remote_qkey,
        };
        self.send(SendWr {
            wr: SendTarget { ud },
            ..request(opcode::SEND, wr_id, &mut sge, flag::SIGNALED)
        })
    }
}

/// A request over one SGE, which has to be there as long as the request.
fn request(opcode: c_int, wr_id: u64, sge: &mut Sge, send_flags: c_uint) -> SendWr {
    SendWr {
        wr_id,
        sg_list: sge,
        num_sge: 1,
        opcode,
        send_flags,
        ..SendWr::default()
    }
}
