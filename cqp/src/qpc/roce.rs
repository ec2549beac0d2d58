//! The context of a RoCEv2 QP (control-path 5.2, column R).

mod encode;
#[cfg(test)]
mod tests;

use e810_types::MacAddr;

use crate::limits::{MAX_IRD, MAX_ORD};
use crate::op::{IpPair, QueueMemory};

pub(super) use encode::queue_address;

/// The send side of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SqContext {
    /// The ring. With [`QueueMemory::Pbles`] the QP commands carry VQ.
    pub memory: QueueMemory,
    /// Ring size in quanta of 32 bytes, a power of two of at least 4.
    pub quanta: u32,
    /// CQ id.
    pub cq: u32,
}

/// The receive side of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RqContext {
    /// The ring. With [`QueueMemory::Pbles`] the QP commands carry VQ.
    pub memory: QueueMemory,
    /// Ring size in quanta of 32 bytes, a power of two of at least 4.
    pub quanta: u32,
    /// RQWQESIZE: log2(bytes of a receive WQE / 32), 0 to 3.
    pub wqe_shift: u8,
    /// CQ id.
    pub cq: u32,
}

/// The other side, and the way to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Addresses.
    pub addresses: IpPair,
    /// UDP source port; 0xC000 until an address vector is set.
    pub source_port: u16,
    /// UDP destination port; 4791.
    pub destination_port: u16,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// VLAN tag (priority << 13 | id), if tagged.
    pub vlan: Option<u16>,
    /// ARP index of the next hop.
    pub arp_index: u16,
    /// REMENDPOINTIDX, 17 bits: the ARP index in existing drivers, at the
    /// rebuild after the one that set it.
    pub endpoint_index: u32,
    /// QP number there.
    pub qp: u32,
}

/// What a QP may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Privileges {
    /// PRIVEN: kernel QPs of existing drivers (STag 0 as local key).
    pub privileged: bool,
    /// FASTREGEN: fast-register requests.
    pub fast_register: bool,
    /// UDPRIVCQENABLE.
    pub ud_private_cq: bool,
    /// BINDEN: bind requests; clear on GEN_2 RoCE in existing drivers.
    pub bind: bool,
    /// WRRDRSPOK: accept writes and read responses.
    pub remote_write: bool,
    /// RDOK: accept reads.
    pub remote_read: bool,
}

/// TIMELY congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Timely {
    /// THIGH, 12 bits.
    pub high: u16,
    /// TLOW.
    pub low: u8,
}

/// Congestion control; all off in existing drivers' default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CongestionControl {
    /// DCQCNENABLE.
    pub dcqcn: bool,
    /// DC_TCP_EN.
    pub dctcp: bool,
    /// FW_CC_ENABLE.
    pub firmware: bool,
    /// TIMELYENABLE with its thresholds.
    pub timely: Option<Timely>,
}

/// STAT_INDEX and USESTATSINSTANCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StatsInstance {
    /// Instance, below 128.
    pub index: u8,
    /// Count there; otherwise in the function's counters.
    pub used: bool,
}

/// Everything the host context of a RoCEv2 QP says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceContext {
    /// Send side.
    pub sq: SqContext,
    /// Receive side.
    pub rq: RqContext,
    /// QPCOMPCTX: returned in CQEs and AEQEs.
    pub completion_context: u64,
    /// Protection domain, 18 bits.
    pub pd: u32,
    /// The peer.
    pub peer: Peer,
    /// Source MAC.
    pub mac: MacAddr,
    /// Queue-set handle, 10 bits.
    pub qs_handle: u16,
    /// SNDMSS: path MTU in bytes.
    pub path_mtu: u16,
    /// P_Key; 0xFFFF in existing drivers.
    pub pkey: u16,
    /// Q_Key (UD).
    pub qkey: u32,
    /// Next PSN to send.
    pub psn_next: u32,
    /// Oldest unacknowledged PSN.
    pub psn_unacked: u32,
    /// Greatest PSN sent.
    pub psn_max: u32,
    /// LSN; 0xFFFF when the send PSN is set.
    pub lsn: u32,
    /// Expected PSN.
    pub psn_expected: u32,
    /// CWNDROCE; 0x400.
    pub window: u32,
    /// ACKCREDITS; 0x1E.
    pub ack_credits: u8,
    /// REXMIT_THRESH: retry count, 6 bits.
    pub retries: u8,
    /// RNRNAK_THRESH: RNR retry count, 3 bits.
    pub rnr_retries: u8,
    /// RTOMIN: 5.
    pub rto_min: u8,
    /// Outbound reads, at most 255.
    pub ord: u32,
    /// Inbound reads, at most 127.
    pub ird: u32,
    /// ISQP1: the GSI QP under another number than 1. On GEN_2 it is QP 1, so
    /// existing drivers leave it clear.
    pub gsi: bool,
    /// What the QP may do.
    pub privileges: Privileges,
    /// Congestion control.
    pub congestion: CongestionControl,
    /// Statistics instance.
    pub stats: StatsInstance,
    /// RCVNOICRC.
    pub ignore_icrc: bool,
    /// ERR_RQ_IDX, 15 bits, if valid.
    pub error_rq_index: Option<u16>,
    /// Push page, if push mode is on.
    pub push_page: Option<u16>,
}

impl RoceContext {
    /// A QP as control-path 5.5 creates it: default windows and retries, no
    /// peer yet, PD 0.
    #[must_use]
    pub const fn new(sq: SqContext, rq: RqContext, mac: MacAddr, qs_handle: u16) -> Self {
        let unspecified = core::net::Ipv4Addr::UNSPECIFIED;
        Self {
            sq,
            rq,
            completion_context: 0,
            pd: 0,
            peer: Peer {
                addresses: IpPair::V4 {
                    source: unspecified,
                    destination: unspecified,
                },
                source_port: 0xC000,
                destination_port: 4791,
                hop_limit: 0,
                traffic_class: 0,
                flow_label: 0,
                vlan: None,
                arp_index: 0,
                endpoint_index: 0,
                qp: 0,
            },
            mac,
            qs_handle,
            path_mtu: 1024,
            pkey: 0xFFFF,
            qkey: 0,
            psn_next: 0,
            psn_unacked: 0,
            psn_max: 0,
            lsn: 0,
            psn_expected: 0,
            window: 0x400,
            ack_credits: 0x1E,
            retries: 2,
            rnr_retries: 2,
            rto_min: 5,
            ord: MAX_ORD,
            ird: MAX_IRD,
            gsi: false,
            privileges: Privileges {
                privileged: false,
                fast_register: false,
                ud_private_cq: false,
                bind: false,
                remote_write: true,
                remote_read: true,
            },
            congestion: CongestionControl {
                dcqcn: false,
                dctcp: false,
                firmware: false,
                timely: None,
            },
            stats: StatsInstance {
                index: 0,
                used: false,
            },
            ignore_icrc: false,
            error_rq_index: None,
            push_page: None,
        }
    }
}
