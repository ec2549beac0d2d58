//! What a pair of devices is set up with.

use e810::{AccessFlags, Mtu, QpAttr, QpCaps};

/// Choices of a [`Pair`](super::Pair), the same on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Sizes of every queue pair.
    pub caps: QpCaps,
    /// Completions each CQ has room for.
    pub cqe: u32,
    /// Bytes of payload memory on a side: the first half is sent from, the
    /// second received into.
    pub buffer: usize,
    /// Path MTU.
    pub mtu: Mtu,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Queue pairs on a side (at least two when looped back).
    pub queue_pairs: usize,
    /// Receives complete into a CQ of their own.
    pub separate_cqs: bool,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            caps: QpCaps {
                max_send_wr: 64,
                max_recv_wr: 64,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline: 101,
            },
            cqe: 512,
            buffer: 512 << 10,
            mtu: Mtu::Mtu1024,
            ipv6: false,
            queue_pairs: 1,
            separate_cqs: false,
            retry_cnt: 7,
            rnr_retry: 7,
        }
    }
}

impl Setup {
    /// All that a peer may do.
    pub const ACCESS: AccessFlags = AccessFlags::all();

    /// The attributes of the way to RTS.
    #[must_use]
    pub fn to_rts(&self, psn: u32) -> QpAttr {
        QpAttr {
            retry_cnt: Some(self.retry_cnt),
            rnr_retry: Some(self.rnr_retry),
            ..QpAttr::to_rts(psn)
        }
    }
}
