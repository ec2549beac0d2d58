//! Typed commands: pure functions from arguments to eight words.
//!
//! Each command is a struct whose [`Command::encode`] returns the WQE as the device reads it,
//! except for the VALID bit. That bit depends on the lap of the ring and is set when the WQE is
//! posted. Arguments that do not fit their field are refused, not truncated.
//!
//! Some opcodes are only named by [`Opcode`] and cannot be built: those without a format in the
//! sources (QUERY_STAG, REG_SMR, NOP, MANAGE_VF_PBLE_BP), and those that this driver does not
//! need (MODIFY_ADDR_HANDLE, MANAGE_PUSH_PAGES, UP_MAP, and FLUSH_WQES that only generates an
//! event).
//!
//! ```
//! use e810_cqp::op::{Command, SuspendQp};
//!
//! let wqe = SuspendQp { qp: 99 }.encode().unwrap();
//! assert_eq!(wqe, [0, 0, 0, 0x29_0000_0063, 0, 0, 0, 0]);
//! assert!(SuspendQp { qp: 1 << 24 }.encode().is_err());
//! ```

use crate::error::Result;
use crate::opcode::Opcode;

mod address;
mod ah;
mod arp;
mod ceq;
mod cq;
mod features;
mod flush;
mod fpm;
mod mr;
mod multicast;
mod port;
mod qp;
mod qp_control;
mod sched;
mod sd;
mod stats;

pub use address::IpPair;
pub use ah::{AddressHandle, CreateAh, DestroyAh};
pub use arp::{AllocateLocalMac, ArpChange, LocalMacChange, ManageArp, ManageLocalMac};
pub use ceq::{CreateAeq, CreateCeq, DestroyAeq, DestroyCeq};
pub use cq::{CqAttributes, CreateCq, DestroyCq, ModifyCq, QueueMemory};
pub use features::QueryFeatures;
pub use flush::{AsyncEvent, FlushStatus, FlushWqes};
pub use fpm::{
    COMMIT_BYTES, CommitFpm, ManageHmcPmFunction, QUERY_BYTES, QueryFpm, ShmcPagesAllocated,
};
pub use mr::{
    Access, AllocMrStag, AllocMwStag, DeallocStag, Extent, PageSize, Pages, RegisterMr, StagKind,
    TagBase,
};
pub use multicast::{
    CreateMcast, DestroyMcast, GroupMember, McastGroup, ModifyMcast, group_context,
};
pub use port::{HashChange, HashEntry, ManageApbvt, ManageQuadHash, QuadEndpoint};
pub use qp::{CreateQp, DestroyQp, HwQpType, ModifyQp, Terminate};
pub use qp_control::{ResumeQp, SuspendQp, UploadContext};
pub use sched::{NodeChange, PriorityType, WorkSchedNode};
pub use sd::{INLINE_SDS, MAX_SDS_PER_COMMAND, SdEntry, SdKind, UpdatePeSds};
pub use stats::{GATHER_BYTES, GatherStats, ManageStats};

/// A CQP WQE: word *n* lies at byte 8 × *n*, word 3 is the header.
pub type Wqe = [u64; 8];

/// Index of the header word in a [`Wqe`] (q24).
pub const HEADER: usize = 3;
/// VALID, header bit 63 (control-path 4.6).
pub const VALID: u64 = 1 << 63;

/// A command for the CQP.
pub trait Command {
    /// The WQE with its VALID bit clear.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange),
    /// [`Error::Misaligned`](crate::Error::Misaligned) or
    /// [`Error::Invalid`](crate::Error::Invalid), naming the argument.
    fn encode(&self) -> Result<Wqe>;
}

/// The header word: opcode and the command's own fields (control-path 4.6).
const fn header(op: Opcode, fields: u64) -> u64 {
    ((op.code() as u64) << 32) | fields
}

/// The opcode in a WQE's header word.
#[must_use]
pub const fn opcode_of(header: u64) -> Opcode {
    Opcode::from_code(((header >> 32) & 0x3F) as u8)
}
