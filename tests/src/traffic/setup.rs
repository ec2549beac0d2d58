//! What a pair of devices is set up with.

use std::net::IpAddr;

use e810::hmc::{Backing, Capacity};
use e810::{AccessFlags, Config, Lan, MacAddr, Mtu, QpAttr, QpCaps, QpType, Quirks, Vlan, addr};

/// Choices of a [`Pair`](super::Pair), the same on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Kind of service of every queue pair.
    pub qp_type: QpType,
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
    /// The VLAN of every path.
    pub vlan: Option<Vlan>,
    /// Queue pairs have counters of their own.
    pub counters: bool,
    /// Asks for memory windows.
    pub windows: bool,
    /// Queue pairs take fast registrations.
    pub fast_register: bool,
    /// Queue pairs on a side (at least two when looped back).
    pub queue_pairs: usize,
    /// Receives complete into a CQ of their own.
    pub separate_cqs: bool,
    /// The CQs are on a completion channel.
    pub channel: bool,
    /// Transport retries.
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    /// How much the device is brought up for, if not for the usual.
    pub capacity: Option<Capacity>,
    /// Brings the device up with as little memory as there can be.
    pub frugal: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            qp_type: QpType::Rc,
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
            vlan: None,
            counters: false,
            windows: false,
            fast_register: false,
            queue_pairs: 1,
            separate_cqs: false,
            channel: false,
            retry_cnt: 7,
            rnr_retry: 7,
            capacity: None,
            frugal: false,
        }
    }
}

impl Setup {
    /// All that a peer may do.
    pub const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
        .union(AccessFlags::REMOTE_WRITE)
        .union(AccessFlags::REMOTE_READ);

    /// The address of the side that has this MAC address.
    #[must_use]
    pub fn ip(&self, mac: MacAddr) -> IpAddr {
        if self.ipv6 {
            IpAddr::V6(addr::link_local(mac))
        } else {
            let [.., last] = mac.0;
            addr::v4(10, 8, 10, 1 + last)
        }
    }

    /// What a device is brought up with.
    #[must_use]
    pub fn config(&self, lan: Lan) -> Config {
        let usual = Config {
            quirks: Quirks {
                memory_windows: self.windows,
                ..Quirks::default()
            },
            ..Config::new(lan)
        };
        if !self.frugal {
            return Config {
                capacity: self.capacity.unwrap_or(usual.capacity),
                ..usual
            };
        }
        Config {
            capacity: Capacity {
                qps: 4,
                cqs: 8,
                mrs: 8,
                ahs: 1,
                arps: 8,
                mcast_groups: 1,
                pbles: 512,
            },
            backing: Backing::OnDemand,
            cqp_entries: 8,
            ceqs: 1,
            ..usual
        }
    }

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
