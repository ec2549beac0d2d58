//! Parameters of a new queue pair ([`QpInit`]) and of its state changes ([`QpAttr`]).
//!
//! [`QpAttr`] carries only what is set. Which attributes a transition needs and allows is in one
//! table, [`e810_datapath::state`].

use e810_datapath::state::AttrMask;
use e810_types::{QpState, QpType};

use crate::addr::{Mtu, Path};
use crate::cq::CqControl;
use crate::mr::AccessFlags;
use crate::tuning::Tuning;

/// A queue pair number, as peers name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Qpn(pub(crate) u32);

impl Qpn {
    /// Destination of a datagram to a multicast group: the number that no queue pair has and that
    /// every member of the group answers to (InfiniBand specification, 10.5.1; `IB_MULTICAST_QPN`
    /// of Linux' `include/rdma/ib_verbs.h`). The address handle names the group, see
    /// [`Path::to_group`].
    pub const MULTICAST: Self = Self(0xFF_FFFF);

    /// A number received from a peer, 24 bits.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number >> 24 == 0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl core::fmt::Display for Qpn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Requested sizes of a queue pair. The granted sizes are at least as large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "ibv_qp_cap")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QpCaps {
    /// Send requests outstanding.
    pub max_send_wr: u32,
    /// Receives posted.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send request, at most 13.
    pub max_send_sge: u32,
    /// Scatter/gather entries of a receive, at most 13.
    pub max_recv_sge: u32,
    /// Inline bytes of a send request, at most 101.
    pub max_inline: u32,
}

impl Default for QpCaps {
    /// 16 requests and 16 receives of one SGE each, no inline data.
    fn default() -> Self {
        Self {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        }
    }
}

/// Parameters of a new queue pair.
#[derive(Debug)]
#[doc(alias = "ibv_qp_init_attr")]
pub struct QpInit<'a> {
    /// Kind of service: RC or UD.
    pub qp_type: QpType,
    /// Completion queue of send requests.
    pub send_cq: &'a CqControl,
    /// Completion queue of receives; may be the same.
    pub recv_cq: &'a CqControl,
    /// Sizes.
    pub caps: QpCaps,
    /// Every send request is signaled (`sq_sig_all`).
    pub signal_all: bool,
    /// The queue pair takes [`Op::FastRegister`](crate::Op::FastRegister) requests, and key 0 in
    /// SGEs, which stands for all memory by its IOVA (FASTREGEN, PRIVEN). The program can
    /// therefore read and write any memory that the device reaches: behind an IOMMU everything
    /// that is mapped, in whole pages and for any queue; without an IOMMU the memory of the whole
    /// machine. Existing drivers set this only for the kernel's own queue pairs.
    pub fast_register: bool,
    /// It has counters of its own ([`Control::gather_qp_stats`]); there are 128 such sets. The
    /// function's counters then do not include its traffic `[inf own_counters]`: the context has
    /// the fields, and existing drivers set them for no queue pair (control-path 5.2).
    ///
    /// [`Control::gather_qp_stats`]: crate::Control::gather_qp_stats
    pub counters: bool,
    /// How it paces itself; `None` takes what the device was brought up with
    /// ([`Config::tuning`](crate::Config::tuning)).
    pub tuning: Option<Tuning>,
    /// A word of the program's own (`qp_context`), which [`Qp::user_context`] and
    /// `query_qp` give back. The driver does not interpret it.
    ///
    /// [`Qp::user_context`]: crate::QpControl::user_context
    pub user_context: u64,
}

impl<'a> QpInit<'a> {
    /// A queue pair whose requests each say whether they are signaled.
    #[must_use]
    pub const fn new(
        qp_type: QpType,
        send_cq: &'a CqControl,
        recv_cq: &'a CqControl,
        caps: QpCaps,
    ) -> Self {
        Self {
            qp_type,
            send_cq,
            recv_cq,
            caps,
            signal_all: false,
            fast_register: false,
            counters: false,
            tuning: None,
            user_context: 0,
        }
    }

    /// A reliable connection.
    #[must_use]
    pub const fn rc(send_cq: &'a CqControl, recv_cq: &'a CqControl, caps: QpCaps) -> Self {
        Self::new(QpType::Rc, send_cq, recv_cq, caps)
    }

    /// Unreliable datagrams.
    #[must_use]
    pub const fn ud(send_cq: &'a CqControl, recv_cq: &'a CqControl, caps: QpCaps) -> Self {
        Self::new(QpType::Ud, send_cq, recv_cq, caps)
    }

    /// Management datagrams: queue pair 1, which a function has once. Its Q_Key is
    /// [`GSI_QKEY`].
    #[must_use]
    pub const fn gsi(send_cq: &'a CqControl, recv_cq: &'a CqControl, caps: QpCaps) -> Self {
        Self::new(QpType::Gsi, send_cq, recv_cq, caps)
    }
}

/// The Q_Key of each queue pair 1, which each datagram to one must carry (cm-path 1.1).
pub const GSI_QKEY: u32 = 0x8001_0000;

/// Attributes of one change of a queue pair; those that are `None` stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "ibv_qp_attr")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QpAttr {
    /// State to go to.
    pub state: Option<QpState>,
    /// State that the caller believes the queue pair to be in.
    pub cur_state: Option<QpState>,
    /// When going to SQD: asks for an event ([`Event::SqDrained`](crate::Event::SqDrained)) once
    /// the send queue is drained.
    pub en_sqd_async_notify: Option<bool>,
    /// Q_Key that datagrams to this queue pair must carry (UD).
    pub qkey: Option<u32>,
    /// What peers may do through this queue pair.
    pub access: Option<AccessFlags>,
    /// P_Key index; only 0 exists.
    pub pkey_index: Option<u16>,
    /// Port; only 1 exists.
    pub port: Option<u8>,
    /// Where packets go.
    pub path: Option<Path>,
    /// Payload bytes of a full packet.
    pub path_mtu: Option<Mtu>,
    /// The peer's queue pair.
    pub dest_qpn: Option<Qpn>,
    /// First PSN expected from the peer, 24 bits.
    pub rq_psn: Option<u32>,
    /// First PSN sent, 24 bits.
    pub sq_psn: Option<u32>,
    /// Inbound RDMA READs in flight, at most what the queue pair's [`Tuning`] says (127); 0 keeps
    /// the previous value.
    pub max_dest_rd_atomic: Option<u8>,
    /// Outbound RDMA READs in flight, at most what the queue pair's [`Tuning`] says (255); 0
    /// keeps the previous value.
    pub max_rd_atomic: Option<u8>,
    /// RNR timer code, 0 to 31. Checked and kept; the E810's context has no
    /// field for it (data-path 8.3).
    pub min_rnr_timer: Option<u8>,
    /// ACK timeout code, 0 to 31. Checked and kept; the E810's context has no
    /// field for it (data-path 8.3).
    pub timeout: Option<u8>,
    /// Transport retries, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// RNR retries, 0 to 7; 7 never gives up.
    pub rnr_retry: Option<u8>,
    /// Alternate path: always refused, [`Unsupported::AlternatePath`](crate::Unsupported).
    pub alt_path: Option<Path>,
    /// State of a path migration. Checked to be allowed, but without effect: there is no
    /// alternate path.
    pub path_mig_state: Option<u8>,
    /// Capabilities: filled by `query_qp`; refused by `modify_qp`,
    /// [`Unsupported::QueueResize`](crate::Unsupported).
    pub caps: Option<QpCaps>,
}

impl QpAttr {
    /// RESET to INIT: who may reach the queue pair's memory.
    #[must_use]
    pub fn to_init(access: AccessFlags) -> Self {
        Self {
            state: Some(QpState::Init),
            access: Some(access),
            pkey_index: Some(0),
            port: Some(1),
            ..Self::default()
        }
    }

    /// INIT to RTR: who the peer is.
    #[must_use]
    pub fn to_rtr(path: Path, mtu: Mtu, dest_qpn: Qpn, rq_psn: u32) -> Self {
        Self {
            state: Some(QpState::Rtr),
            path: Some(path),
            path_mtu: Some(mtu),
            dest_qpn: Some(dest_qpn),
            rq_psn: Some(rq_psn),
            max_dest_rd_atomic: Some(16),
            min_rnr_timer: Some(12),
            ..Self::default()
        }
    }

    /// RTR to RTS: how to send.
    #[must_use]
    pub fn to_rts(sq_psn: u32) -> Self {
        Self {
            state: Some(QpState::Rts),
            sq_psn: Some(sq_psn),
            max_rd_atomic: Some(16),
            timeout: Some(14),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            ..Self::default()
        }
    }

    /// RESET to INIT of a datagram queue pair.
    #[must_use]
    pub fn ud_to_init(qkey: u32) -> Self {
        Self {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            qkey: Some(qkey),
            ..Self::default()
        }
    }

    /// INIT to RTR of a datagram queue pair: it has no peer.
    #[must_use]
    pub fn ud_to_rtr() -> Self {
        Self {
            state: Some(QpState::Rtr),
            ..Self::default()
        }
    }

    /// RTR to RTS of a datagram queue pair.
    #[must_use]
    pub fn ud_to_rts(sq_psn: u32) -> Self {
        Self {
            state: Some(QpState::Rts),
            sq_psn: Some(sq_psn),
            ..Self::default()
        }
    }

    /// RTS to SQD: the send queue is drained; `notify` asks for an event.
    #[must_use]
    pub fn to_sqd(notify: bool) -> Self {
        Self {
            state: Some(QpState::Sqd),
            en_sqd_async_notify: notify.then_some(true),
            ..Self::default()
        }
    }

    /// Any state to ERR: what is outstanding is flushed.
    #[must_use]
    pub fn to_error() -> Self {
        Self {
            state: Some(QpState::Err),
            ..Self::default()
        }
    }

    /// Merges these attributes over `earlier` ones, as a queue pair keeps them. 0 READs keep the
    /// previous value (data-path 8.3).
    pub(crate) fn over(&self, earlier: &Self) -> Self {
        let reads = |reads: Option<u8>| reads.filter(|reads| *reads > 0);
        Self {
            state: None,
            cur_state: None,
            en_sqd_async_notify: self.en_sqd_async_notify.or(earlier.en_sqd_async_notify),
            qkey: self.qkey.or(earlier.qkey),
            access: self.access.or(earlier.access),
            pkey_index: self.pkey_index.or(earlier.pkey_index),
            port: self.port.or(earlier.port),
            path: self.path.or(earlier.path),
            path_mtu: self.path_mtu.or(earlier.path_mtu),
            dest_qpn: self.dest_qpn.or(earlier.dest_qpn),
            rq_psn: self.rq_psn.or(earlier.rq_psn),
            sq_psn: self.sq_psn.or(earlier.sq_psn),
            max_dest_rd_atomic: reads(self.max_dest_rd_atomic).or(earlier.max_dest_rd_atomic),
            max_rd_atomic: reads(self.max_rd_atomic).or(earlier.max_rd_atomic),
            min_rnr_timer: self.min_rnr_timer.or(earlier.min_rnr_timer),
            timeout: self.timeout.or(earlier.timeout),
            retry_cnt: self.retry_cnt.or(earlier.retry_cnt),
            rnr_retry: self.rnr_retry.or(earlier.rnr_retry),
            alt_path: None,
            path_mig_state: None,
            caps: None,
        }
    }

    /// Only the attributes in `mask`.
    pub(crate) fn masked(&self, mask: AttrMask) -> Self {
        const fn keep<T: Copy>(value: Option<T>, mask: AttrMask, bit: AttrMask) -> Option<T> {
            if mask.contains(bit) { value } else { None }
        }
        Self {
            state: keep(self.state, mask, AttrMask::STATE),
            cur_state: keep(self.cur_state, mask, AttrMask::CUR_STATE),
            en_sqd_async_notify: keep(
                self.en_sqd_async_notify,
                mask,
                AttrMask::EN_SQD_ASYNC_NOTIFY,
            ),
            qkey: keep(self.qkey, mask, AttrMask::QKEY),
            access: keep(self.access, mask, AttrMask::ACCESS_FLAGS),
            pkey_index: keep(self.pkey_index, mask, AttrMask::PKEY_INDEX),
            port: keep(self.port, mask, AttrMask::PORT),
            path: keep(self.path, mask, AttrMask::AV),
            path_mtu: keep(self.path_mtu, mask, AttrMask::PATH_MTU),
            dest_qpn: keep(self.dest_qpn, mask, AttrMask::DEST_QPN),
            rq_psn: keep(self.rq_psn, mask, AttrMask::RQ_PSN),
            sq_psn: keep(self.sq_psn, mask, AttrMask::SQ_PSN),
            max_dest_rd_atomic: keep(self.max_dest_rd_atomic, mask, AttrMask::MAX_DEST_RD_ATOMIC),
            max_rd_atomic: keep(self.max_rd_atomic, mask, AttrMask::MAX_QP_RD_ATOMIC),
            min_rnr_timer: keep(self.min_rnr_timer, mask, AttrMask::MIN_RNR_TIMER),
            timeout: keep(self.timeout, mask, AttrMask::TIMEOUT),
            retry_cnt: keep(self.retry_cnt, mask, AttrMask::RETRY_CNT),
            rnr_retry: keep(self.rnr_retry, mask, AttrMask::RNR_RETRY),
            alt_path: keep(self.alt_path, mask, AttrMask::ALT_PATH),
            path_mig_state: keep(self.path_mig_state, mask, AttrMask::PATH_MIG_STATE),
            caps: keep(self.caps, mask, AttrMask::CAP),
        }
    }

    /// Which attributes are set.
    #[must_use]
    pub fn mask(&self) -> AttrMask {
        let mut mask = AttrMask::empty();
        mask.set(AttrMask::STATE, self.state.is_some());
        mask.set(AttrMask::ACCESS_FLAGS, self.access.is_some());
        mask.set(AttrMask::PKEY_INDEX, self.pkey_index.is_some());
        mask.set(AttrMask::PORT, self.port.is_some());
        mask.set(AttrMask::AV, self.path.is_some());
        mask.set(AttrMask::PATH_MTU, self.path_mtu.is_some());
        mask.set(AttrMask::DEST_QPN, self.dest_qpn.is_some());
        mask.set(AttrMask::RQ_PSN, self.rq_psn.is_some());
        mask.set(AttrMask::SQ_PSN, self.sq_psn.is_some());
        mask.set(
            AttrMask::MAX_DEST_RD_ATOMIC,
            self.max_dest_rd_atomic.is_some(),
        );
        mask.set(AttrMask::MAX_QP_RD_ATOMIC, self.max_rd_atomic.is_some());
        mask.set(AttrMask::MIN_RNR_TIMER, self.min_rnr_timer.is_some());
        mask.set(AttrMask::TIMEOUT, self.timeout.is_some());
        mask.set(AttrMask::RETRY_CNT, self.retry_cnt.is_some());
        mask.set(AttrMask::RNR_RETRY, self.rnr_retry.is_some());
        mask.set(AttrMask::CUR_STATE, self.cur_state.is_some());
        mask.set(
            AttrMask::EN_SQD_ASYNC_NOTIFY,
            self.en_sqd_async_notify.is_some(),
        );
        mask.set(AttrMask::QKEY, self.qkey.is_some());
        mask.set(AttrMask::ALT_PATH, self.alt_path.is_some());
        mask.set(AttrMask::PATH_MIG_STATE, self.path_mig_state.is_some());
        mask.set(AttrMask::CAP, self.caps.is_some());
        mask
    }
}
