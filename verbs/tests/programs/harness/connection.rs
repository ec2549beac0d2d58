//! Queue pairs of one function that are connected with each other.

use std::ffi::c_int;

use super::objects::{RC, address, flag, state};
use super::{Channel, Cq, Ctx, Mr, Pd, Qp, memory};
use e810_verbs::abi::state::{AhAttr, Gid};

/// `enum ibv_qp_attr_mask`: of INIT, RTR and RTS.
const INIT: c_int = 1 | 8 | 16 | 32;
const RTR: c_int = 1 | 128 | 256 | 4096 | 1 << 20 | 1 << 17 | 1 << 15;
const RTS: c_int = 1 | 512 | 1024 | 2048 | 1 << 16 | 1 << 13;

impl Qp {
    /// RESET to INIT, with all rights of peers.
    pub(crate) fn init(self) {
        let done = self.modify(INIT, |attr| {
            attr.qp_state = state::INIT;
            attr.port_num = 1;
            attr.qp_access_flags = 7;
        });
        assert_eq!(done, 0, "to INIT");
    }

    /// INIT to RTR: its peer is the queue pair of a number at a GID.
    pub(crate) fn to_rtr(self, peer: u32, dgid: Gid, sgid_index: u8) -> c_int {
        self.to_rtr_at(peer, address(dgid, sgid_index))
    }

    /// The same, at an address.
    pub(crate) fn to_rtr_at(self, peer: u32, address: AhAttr) -> c_int {
        self.modify(RTR, |attr| {
            attr.qp_state = state::RTR;
            attr.ah_attr = address;
            attr.path_mtu = 3;
            attr.dest_qp_num = peer;
            attr.max_dest_rd_atomic = 4;
            attr.min_rnr_timer = 1;
        })
    }

    /// RTR to RTS. A peer that does not answer is given up in about a tenth of a second.
    pub(crate) fn to_rts(self) -> c_int {
        self.modify(RTS, |attr| {
            attr.qp_state = state::RTS;
            attr.timeout = 12;
            attr.retry_cnt = 7;
            attr.rnr_retry = 7;
            attr.max_rd_atomic = 4;
        })
    }

    /// RESET to RTS, for datagrams with a key.
    pub(crate) fn datagrams(self, key: u32) {
        // IBV_QP_QKEY in place of a path and rights.
        let init = self.modify(1 | 16 | 32 | 1 << 6, |attr| {
            attr.qp_state = state::INIT;
            attr.port_num = 1;
            attr.qkey = key;
        });
        assert_eq!(init, 0);
        assert_eq!(self.go_to(state::RTR), 0);
        // IBV_QP_SQ_PSN.
        let rts = self.modify(1 | 1 << 16, |attr| attr.qp_state = state::RTS);
        assert_eq!(rts, 0);
    }

    /// RESET to RTS.
    pub(crate) fn connect(self, peer: u32, dgid: Gid, sgid_index: u8) {
        self.init();
        assert_eq!(self.to_rtr(peer, dgid, sgid_index), 0, "to RTR");
        assert_eq!(self.to_rts(), 0, "to RTS");
    }
}

/// Two queue pairs of one function, `a` and `b`, connected, with a completion queue each and
/// memory.
pub(crate) struct Connection {
    pub(crate) ctx: Ctx,
    pub(crate) pd: Pd,
    pub(crate) mr: Mr,
    pub(crate) cqs: [Cq; 2],
    pub(crate) a: Qp,
    pub(crate) b: Qp,
}

/// Bytes of its memory.
pub(crate) const MEMORY: usize = 8192;
/// Where receives are.
pub(crate) const INCOMING: usize = MEMORY / 2;

impl Connection {
    /// In a context; events of both completion queues, whose words are 1 and 2, go to a channel.
    pub(crate) fn new(ctx: Ctx, channel: Option<Channel>) -> Self {
        let cqs = [1, 2].map(|word| ctx.cq(256, word, channel));
        let pd = ctx.pd();
        assert!(!pd.0.is_null());
        let mr = pd.mr(memory(MEMORY));
        let [a, b] = cqs.map(|cq| pd.qp(RC, cq, cq));
        let made = Self {
            ctx,
            pd,
            mr,
            cqs,
            a,
            b,
        };
        made.connect();
        made
    }

    /// From RESET.
    pub(crate) fn connect(&self) {
        let gid = self.ctx.gid(1);
        self.a.connect(self.b.number(), gid, 1);
        self.b.connect(self.a.number(), gid, 1);
    }

    /// A receive of `b` and a SEND of `a` with these flags.
    pub(crate) fn send(&self, wr_id: u64, flags: u32) {
        assert_eq!(self.b.recv(wr_id, self.mr.sge(INCOMING, 64)), 0);
        let sge = self.mr.sge(0, 16);
        assert_eq!(self.a.send_of(wr_id, sge, flag::SIGNALED | flags), 0);
    }

    /// Destroys all of it but the context and the channel.
    pub(crate) fn destroy(self) {
        assert_eq!([self.a.destroy(), self.b.destroy()], [0; 2]);
        assert_eq!(self.cqs.map(Cq::destroy), [0; 2]);
        assert_eq!(self.mr.dereg(), 0);
        assert_eq!(self.pd.free(), 0);
    }
}
