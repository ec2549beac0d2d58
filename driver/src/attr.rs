//! What a queue pair is made with, and what changes when it moves on.
//!
//! [`QpAttr`] carries only what is set; which attributes a transition needs
//! and allows is the one table of [`e810_datapath::state`].

use e810_datapath::state::{AttrMask, QpState};
use e810_hal::Platform;

use crate::addr::{Mtu, Path};
use crate::completion::Cq;
use crate::memory::AccessFlags;

/// A queue pair number, as peers name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Qpn(pub(crate) u32);

impl Qpn {
    /// A number a peer told us, 24 bits.
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

/// Sizes wanted of a queue pair; what is granted is at least as much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// What a queue pair is made with.
#[derive(Debug)]
pub struct QpInit<'a, P: Platform> {
    /// Completions of send requests.
    pub send_cq: &'a Cq<P>,
    /// Completions of receives; may be the same.
    pub recv_cq: &'a Cq<P>,
    /// Sizes.
    pub caps: QpCaps,
}

/// A change of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpAttr {
    /// State to go to.
    pub state: Option<QpState>,
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
    /// Inbound RDMA READs in flight, at most 127; 0 keeps the value before.
    pub max_dest_rd_atomic: Option<u8>,
    /// Outbound RDMA READs in flight, at most 255; 0 keeps the value before.
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

    /// Any state to ERR: what is outstanding is flushed.
    #[must_use]
    pub fn to_error() -> Self {
        Self {
            state: Some(QpState::Err),
            ..Self::default()
        }
    }

    /// Which attributes are set.
    #[must_use]
    pub fn mask(&self) -> AttrMask {
        let set = [
            (self.state.is_some(), AttrMask::STATE),
            (self.access.is_some(), AttrMask::ACCESS_FLAGS),
            (self.pkey_index.is_some(), AttrMask::PKEY_INDEX),
            (self.port.is_some(), AttrMask::PORT),
            (self.path.is_some(), AttrMask::AV),
            (self.path_mtu.is_some(), AttrMask::PATH_MTU),
            (self.dest_qpn.is_some(), AttrMask::DEST_QPN),
            (self.rq_psn.is_some(), AttrMask::RQ_PSN),
            (self.sq_psn.is_some(), AttrMask::SQ_PSN),
            (
                self.max_dest_rd_atomic.is_some(),
                AttrMask::MAX_DEST_RD_ATOMIC,
            ),
            (self.max_rd_atomic.is_some(), AttrMask::MAX_QP_RD_ATOMIC),
            (self.min_rnr_timer.is_some(), AttrMask::MIN_RNR_TIMER),
            (self.timeout.is_some(), AttrMask::TIMEOUT),
            (self.retry_cnt.is_some(), AttrMask::RETRY_CNT),
            (self.rnr_retry.is_some(), AttrMask::RNR_RETRY),
        ];
        set.into_iter()
            .filter_map(|(is_set, bit)| is_set.then_some(bit))
            .fold(AttrMask::empty(), |mask, bit| mask | bit)
    }
}
