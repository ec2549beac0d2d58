//! Sizes and time limits of the CQP, as existing drivers use them.
//!
//! Sizes come from the formats (control-path 3.5, 4.1, 4.4), times from
//! control-path 10.

use e810_hal::Ns;

/// Bytes of a CQP WQE (control-path 4.1).
pub const WQE_BYTES: u32 = 64;
/// Smallest CQP send queue (control-path 4.1).
pub const MIN_SQ_ENTRIES: u32 = 4;
/// Largest CQP send queue (control-path 4.1).
pub const MAX_SQ_ENTRIES: u32 = 2048;
/// Entries of the CQP send queue unless the caller says otherwise.
pub const DEFAULT_SQ_ENTRIES: u32 = 64;
/// Alignment of the CQP send queue: the host context keeps address bits
/// \[63:9\] (control-path 4.2).
pub const SQ_ALIGN: usize = 512;
/// Bytes of one SD buffer slot, and its alignment (control-path 4.1).
pub const SD_SLOT_BYTES: u32 = 128;
/// Bytes of the CQP host context (control-path 4.2).
pub const HOST_CONTEXT_BYTES: usize = 64;

/// Bytes of a CCQ entry (control-path 4.4).
pub const CQE_BYTES: usize = 32;
/// Alignment of CQ, CEQ and AEQ memory (control-path 4.8, 4.9).
pub const QUEUE_ALIGN: u64 = 256;
/// Alignment of the shadow area of a CQ (control-path 4.8).
pub const SHADOW_ALIGN: u64 = 64;
/// SHADOW_READ_THRESHOLD of the CCQ (control-path 4.4).
pub const CCQ_SHADOW_THRESHOLD: u32 = 16;
/// CQ id of the CCQ (control-path 3.2).
pub const CCQ_ID: u32 = 0;

/// Bytes of a QP host context (control-path 5.1).
pub const QP_CONTEXT_BYTES: usize = 256;
/// Alignment of a QP host context (control-path 5.1).
pub const QP_CONTEXT_ALIGN: u64 = 256;
/// Greatest number of inbound RDMA reads of a QP (control-path 5.3).
pub const MAX_IRD: u32 = 127;
/// Greatest number of outbound RDMA reads of a QP (control-path 5.3).
pub const MAX_ORD: u32 = 255;

/// QP ids 0 to 2 are reserved (control-path 3.2).
pub const RESERVED_QPS: u32 = 3;
/// CQ ids 0 to 2 are reserved (control-path 3.2).
pub const RESERVED_CQS: u32 = 3;
/// PD ids 0 to 2 are reserved (control-path 3.2).
pub const RESERVED_PDS: u32 = 3;
/// PD ids are 18 bits wide (control-path 3.2, 5.2).
pub const MAX_PD: u32 = 0x3_FFFF;
/// Greatest length of a memory region in bytes (control-path 4.10).
pub const MAX_MR_BYTES: u64 = 0x2000_0000_0000;
/// Multicast group indexes are below this (control-path 3.2).
pub const MAX_MCAST_GROUPS: u32 = 4096;
/// QPs in a multicast group (control-path 4.14).
pub const MAX_GROUP_MEMBERS: usize = 8;
/// Statistics instances (control-path 4.13).
pub const MAX_STATS_INSTANCES: u32 = 128;

/// Pause between two polls of a register or of the CCQ.
pub const POLL_PAUSE: Ns = Ns::from_us(10);
/// A command, CQP creation and destruction time out after this long without the end of *any*
/// command. Existing drivers wait 10 ms for what they poll by registers (control-path 10). A card
/// answers long before; a simulated card, or the card of a virtual machine, may not have had a
/// processor in all of that time.
pub const NO_PROGRESS_LIMIT: Ns = Ns::from_ms(5_000);
/// While waiting on the CCQ, a register is read this often, to notice a device that is gone: an
/// empty CCQ looks the same either way.
pub const LIVENESS_INTERVAL: Ns = Ns::from_ms(10);

/// Number of given-up commands that are remembered for a second try
/// ([`Cqp::execute_again`](crate::Cqp::execute_again)). A further one replaces the oldest that is
/// not a CREATE_QP; the second try of the replaced one is then a new command. If a creation were
/// forgotten, nobody could tell whether there is a queue pair to destroy.
pub const LATE_ANSWERS: usize = 40;
