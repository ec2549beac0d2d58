//! Work requests: what a caller asks of a queue.
//!
//! Requests borrow everything; nothing is copied except into the ring itself.

use bitflags::bitflags;

/// One piece of registered memory: 16 bytes, laid out as verbs has it, so that a
/// list of `ibv_sge` is one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(C)]
#[doc(alias = "ibv_sge")]
pub struct Sge {
    /// Address (or offset, for a zero-based region) as the region defines it.
    pub addr: u64,
    /// Bytes, below 2^31 (data-path 1.6: the length field has 31 bits).
    pub length: u32,
    /// Local key of the region.
    pub lkey: u32,
}

/// What a send or a write carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data<'a> {
    /// Registered memory that the device reads after the post; up to the
    /// queue's number of SGEs, none for an empty message.
    Sges(&'a [Sge]),
    /// Bytes copied into the work queue by the post: no key needed, and free
    /// for reuse as soon as the post returns. Together at most the queue's
    /// inline size; as many pieces as it takes SGEs (data-path 1.8).
    #[doc(alias = "IBV_SEND_INLINE")]
    Inline(&'a [&'a [u8]]),
}

/// Memory of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Remote {
    /// Address in the peer's region.
    pub addr: u64,
    /// Remote key of that region.
    pub rkey: u32,
}

/// The destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UdTarget {
    /// Index of the address handle, below 2^25 (data-path 1.4, row AHID).
    pub ah: u32,
    /// Destination QP, below 2^24.
    pub qpn: u32,
    /// Q_Key, used as given (data-path 7.2).
    pub qkey: u32,
}

/// Binds a memory window (data-path 1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MwBind {
    /// STag of the window.
    pub mw_stag: u32,
    /// STag of the region it opens.
    pub mr_stag: u32,
    /// First address; not used when `zero_based`.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// The peer names offsets, not addresses.
    pub zero_based: bool,
    /// A window of type 1; otherwise type 2.
    pub type_1: bool,
    /// The peer may read.
    pub remote_read: bool,
    /// The peer may write.
    pub remote_write: bool,
}

/// Page size of a fast registration (data-path 1.7, row `fast reg`: HPAGESIZE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB.
    Size4K = 0,
    /// 2 MiB.
    Size2M = 1,
    /// 1 GiB.
    Size1G = 2,
}

/// Gives a region its pages through the send queue (data-path 1.7).
///
/// Made by `map_fast_mr` of the control path. It names memory that is mapped for the region, and
/// cannot be changed on the way to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FastRegister(FastRegisterParts);

impl FastRegister {
    /// A request made by hand. The device reads and writes the pages that it names, within the
    /// limits of an IOMMU, even if they belong to others: a program that posts on a queue pair
    /// that takes such requests is trusted with that.
    #[must_use]
    pub const fn from_parts(parts: FastRegisterParts) -> Self {
        Self(parts)
    }

    /// What it says.
    #[must_use]
    pub const fn parts(&self) -> &FastRegisterParts {
        &self.0
    }
}

/// What a [`FastRegister`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FastRegisterParts {
    /// STag index, below 2^24.
    pub stag_index: u32,
    /// Consumer key.
    pub stag_key: u8,
    /// Virtual address the region starts at (`zero_based`: offset of its first
    /// byte in the first page).
    pub start: u64,
    /// Names are offsets, not addresses.
    pub zero_based: bool,
    /// Bytes, below 2^48.
    pub length: u64,
    /// Address of the page, or of the page list; a multiple of 4096.
    pub pages: u64,
    /// The pages are in a level-1 list (LPBLSIZE 1), not one contiguous run.
    pub listed: bool,
    /// First PBLE of the list, below 2^28.
    pub first_pble: u32,
    /// Size of a page.
    pub page_size: PageSize,
    /// Rights, 5 bits (data-path 6.2).
    pub rights: u8,
}

/// An atomic operation on eight bytes of the peer's memory. Always refused by this
/// generation; here so that the refusal is explicit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Atomic {
    /// Where the value before goes.
    pub into: Sge,
    /// The eight bytes.
    pub remote: Remote,
    /// Compare with this first, and do nothing unless it is equal; `None` adds.
    pub compare: Option<u64>,
    /// What to swap in or to add.
    pub value: u64,
}

/// What a send queue is asked to do. The common ones stand last, where the
/// compiler looks first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "ibv_wr_opcode")]
pub enum Op<'a> {
    /// Sends a message and invalidates a key of the peer.
    #[doc(alias = "IBV_WR_SEND_WITH_INV")]
    SendInv {
        /// The message.
        data: Data<'a>,
        /// The peer's key to invalidate.
        rkey: u32,
    },
    /// Sends a datagram (UD queues only).
    UdSend {
        /// The message.
        data: Data<'a>,
        /// Immediate data as a number.
        imm: Option<u32>,
        /// Where to.
        to: UdTarget,
    },
    /// Reads and then invalidates the local key read into. iWARP semantics;
    /// refused unless [`ExtraOps::READ_INV`] is allowed.
    ReadInv {
        /// Where the bytes go.
        into: &'a [Sge],
        /// Where they come from.
        remote: Remote,
    },
    /// Invalidates a local key.
    #[doc(alias = "IBV_WR_LOCAL_INV")]
    LocalInv {
        /// The key.
        stag: u32,
    },
    /// Binds a memory window; refused unless [`ExtraOps::BIND_MW`] is allowed.
    #[doc(alias("IBV_WR_BIND_MW", "ibv_bind_mw"))]
    BindMw(&'a MwBind),
    /// Fast registration; refused unless [`ExtraOps::FAST_REGISTER`] is allowed.
    #[doc(alias = "IB_WR_REG_MR")]
    FastRegister(&'a FastRegister),
    /// Nothing. Verbs has no such request; it completes in order, so a signaled
    /// one says that everything before it is done.
    Nop,
    /// An atomic operation: always refused, this generation has none (data-path
    /// 1.5).
    #[doc(alias("IBV_WR_ATOMIC_CMP_AND_SWP", "IBV_WR_ATOMIC_FETCH_AND_ADD"))]
    Atomic(&'a Atomic),
    /// Reads the peer's memory.
    #[doc(alias = "IBV_WR_RDMA_READ")]
    Read {
        /// Where the bytes go; locally writable.
        into: &'a [Sge],
        /// Where they come from.
        remote: Remote,
    },
    /// Writes to the peer's memory.
    #[doc(alias("IBV_WR_RDMA_WRITE", "IBV_WR_RDMA_WRITE_WITH_IMM"))]
    Write {
        /// What to write.
        data: Data<'a>,
        /// Where to.
        remote: Remote,
        /// Immediate data, which consumes a receive of the peer.
        imm: Option<u32>,
    },
    /// Sends a message, with immediate data or without.
    #[doc(alias("IBV_WR_SEND", "IBV_WR_SEND_WITH_IMM"))]
    Send {
        /// The message.
        data: Data<'a>,
        /// Immediate data as a number; the wire carries it big-endian.
        imm: Option<u32>,
    },
}

impl Op<'_> {
    /// Its name, for error messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Send { .. } => "SEND",
            Self::SendInv { .. } => "SEND_WITH_INV",
            Self::UdSend { .. } => "UD SEND",
            Self::Write { .. } => "RDMA_WRITE",
            Self::Read { .. } => "RDMA_READ",
            Self::ReadInv { .. } => "RDMA_READ_WITH_INV",
            Self::LocalInv { .. } => "LOCAL_INV",
            Self::BindMw(_) => "BIND_MW",
            Self::FastRegister(_) => "FAST_REGISTER",
            Self::Nop => "NOP",
            Self::Atomic(_) => "ATOMIC",
        }
    }

    /// Whether only queues of a connection have it.
    pub(crate) const fn is_connected(&self) -> bool {
        !matches!(self, Self::UdSend { .. } | Self::Nop | Self::Atomic(_))
    }
}

/// How a send request is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "ibv_send_flags")]
pub struct SendFlags(u8);

bitflags! {
    impl SendFlags: u8 {
        /// Wait for earlier reads (READFENCE).
        #[doc(alias = "IBV_SEND_FENCE")]
        const FENCE = 1 << 0;
        /// Wait for earlier local operations (LOCALFENCE).
        const LOCAL_FENCE = 1 << 1;
        /// Write a CQE also on success (SIGCOMPL).
        #[doc(alias = "IBV_SEND_SIGNALED")]
        const SIGNALED = 1 << 2;
        /// Measure the round trip (REPORTRTT) of a send, write or read.
        const REPORT_RTT = 1 << 3;
        /// Wake a peer that waits for solicited completions only. Sends and
        /// writes; ignored elsewhere.
        #[doc(alias = "IBV_SEND_SOLICITED")]
        const SOLICITED = 1 << 4;
    }
}

/// Operations that a queue takes only when it was opened for them: the device
/// has to be told when the QP is created, or their format is known but nothing
/// shows that this generation offers them (data-path 1.5, 1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtraOps(u8);

bitflags! {
    impl ExtraOps: u8 {
        /// [`Op::ReadInv`].
        const READ_INV = 1 << 0;
        /// [`Op::BindMw`].
        const BIND_MW = 1 << 1;
        /// [`Op::FastRegister`]: needs a privileged QP (fast_reg_en).
        const FAST_REGISTER = 1 << 2;
    }
}

e810_types::serde_flags!(ExtraOps: u8);

/// A request to a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "ibv_send_wr")]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: Op<'a>,
    /// How.
    pub flags: SendFlags,
}

/// A request to a receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "ibv_recv_wr")]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes; may be empty.
    pub sges: &'a [Sge],
}
