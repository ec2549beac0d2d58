//! One table of the limits of device and port, and of ids that are never handed out, where no
//! reply of the device states them.
//!
//! Limits of formats are in `e810_cqp::limits` and `e810_datapath::sizing`.

/// MR indexes that are never handed out (control-path 3.2).
pub(crate) const RESERVED_MRS: u32 = 1;
/// Address handles that are never handed out (data-path 10 item 12).
pub(crate) const RESERVED_AHS: u32 = 1;
/// ARP entries kept track of; ARP indexes have 12 bits.
pub(crate) const ARPS: u32 = 4096;
/// Entries of a port's GID table (data-path 8.10).
pub const GIDS: usize = 32;
/// The one partition (data-path 8.10).
pub(crate) const DEFAULT_PKEY: u16 = 0xFFFF;
/// Entries of the P_Key table (data-path 8.10).
pub(crate) const PKEYS: u16 = 1;
/// Ports of a function.
pub(crate) const PORTS: u8 = 1;
/// Work requests of a queue, of any kind: as many of the largest as fit (data-path 5.1).
pub(crate) const MAX_QP_WR: u32 = 4063;
/// Pages of a fast-registered region, as existing drivers have it.
pub(crate) const MAX_FAST_PAGES: u32 = 262_144;
