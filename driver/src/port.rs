//! Attributes of a device and its port.

use e810_adminq::op::LinkFec;
use e810_hal::bus::VsiId;

use crate::addr::{MacAddr, Mtu};

/// What a device offers (`query_device`): what it was brought up with, not the limits of the
/// silicon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "ibv_device_attr")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceAttr {
    /// Firmware of the engine: major and minor (control-path 6.8).
    pub firmware: (u16, u16),
    /// Node GUID: the MAC address as EUI-64.
    pub node_guid: u64,
    /// Queue pairs a program can make.
    pub max_qp: u32,
    /// Greatest number of work requests of a receive queue. A send request may take more than one
    /// place (data-path 5.2).
    pub max_qp_wr: u32,
    /// SGEs of a request.
    pub max_sge: u32,
    /// SGEs of an RDMA READ.
    pub max_sge_read: u32,
    /// Inline bytes of a send request.
    pub max_inline: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Completions of a queue.
    pub max_cqe: u32,
    /// Memory regions and windows together.
    pub max_mr: u32,
    /// Bytes of a region.
    pub max_mr_size: u64,
    /// Page sizes of a region, a bit for each power of two.
    pub page_sizes: u64,
    /// Protection domains.
    pub max_pd: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Inbound READs in flight of a queue pair.
    pub max_dest_rd_atomic: u32,
    /// Outbound READs in flight of a queue pair.
    pub max_rd_atomic: u32,
    /// Multicast groups.
    pub max_mcast_groups: u32,
    /// Queue pairs of a group.
    pub max_mcast_qp_attach: u32,
    /// Pages of a fast-registered region.
    pub max_fast_reg_pages: u32,
    /// Completion vectors.
    pub completion_vectors: u32,
    /// Ports.
    pub ports: u8,
    /// Shared receive queues: none.
    pub max_srq: u32,
    /// Whether there are atomic operations: no.
    pub atomics: bool,
}

/// State of a port, numbered as in verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[doc(alias = "ibv_port_state")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PortState {
    /// No link.
    Down = 1,
    /// There is a link.
    Active = 4,
}

/// Attributes of a port (`query_port`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "ibv_port_attr")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PortAttr {
    /// Whether there is a link. On a function that another driver has set up, the port is assumed
    /// to be active: this driver does not learn of its link.
    pub state: PortState,
    /// Greatest path MTU of a port.
    pub max_mtu: Mtu,
    /// Greatest path MTU that fits the interface's MTU; `None` below 256 bytes
    /// plus headers.
    pub active_mtu: Option<Mtu>,
    /// Greatest message in bytes (data-path 5.1).
    pub max_msg_sz: u32,
    /// Entries of the GID table.
    pub gids: u8,
    /// Entries of the P_Key table.
    pub pkeys: u16,
    /// Local identifier: RoCE has none.
    pub lid: u16,
    /// Speed of the link in Mbit/s; 0 when down or not known.
    pub mbps: u32,
    /// Error correction of the link; `None` where it is not known.
    pub fec: Option<LinkFec>,
    /// MAC address.
    pub mac: MacAddr,
    /// VSI whose packets reach the engine.
    pub vsi: VsiId,
}
