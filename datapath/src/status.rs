//! How a work request ended: status, flush codes and operation names.

use e810_types::FlushCode;

/// Status of a work completion; numbers are those of `ib_wc_status`
/// (data-path 8.7). The device yields the ones marked so, and no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[non_exhaustive]
#[doc(alias = "ibv_wc_status")]
pub enum WcStatus {
    /// Done.
    #[default]
    #[doc(alias = "IBV_WC_SUCCESS")]
    Success = 0,
    /// A buffer was too short, or the message too long (minor 6).
    #[doc(alias = "IBV_WC_LOC_LEN_ERR")]
    LocLenErr = 1,
    /// Bad work request, or an inconsistent QP (minor 4).
    #[doc(alias = "IBV_WC_LOC_QP_OP_ERR")]
    LocQpOpErr = 2,
    /// A local SGE failed its key, bounds or rights check (minor 2).
    #[doc(alias = "IBV_WC_LOC_PROT_ERR")]
    LocProtErr = 4,
    /// Not executed: the QP is in error (minor 1).
    #[doc(alias = "IBV_WC_WR_FLUSH_ERR")]
    WrFlushErr = 5,
    /// A memory window bind was refused (minor 9).
    #[doc(alias = "IBV_WC_MW_BIND_ERR")]
    MwBindErr = 6,
    /// The responder found the request invalid (minor 10).
    #[doc(alias = "IBV_WC_REM_INV_REQ_ERR")]
    RemInvReqErr = 9,
    /// The responder refused access (minor 3).
    #[doc(alias = "IBV_WC_REM_ACCESS_ERR")]
    RemAccessErr = 10,
    /// The responder could not finish the operation (minor 5).
    #[doc(alias = "IBV_WC_REM_OP_ERR")]
    RemOpErr = 11,
    /// The peer does not answer: retries exhausted (minor 8).
    #[doc(alias = "IBV_WC_RETRY_EXC_ERR")]
    RetryExcErr = 12,
    /// The peer has no receive posted: RNR retries exhausted (minor 11).
    #[doc(alias = "IBV_WC_RNR_RETRY_EXC_ERR")]
    RnrRetryExcErr = 13,
    /// Unrecoverable (minor 0, 7 and unknown ones).
    #[doc(alias = "IBV_WC_FATAL_ERR")]
    FatalErr = 19,
    /// Anything else: an error that is not a flush, or an operation code that
    /// has no name.
    #[doc(alias = "IBV_WC_GENERAL_ERR")]
    GeneralErr = 21,
}

impl WcStatus {
    /// Whether the request was carried out.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Success)
    }

    /// Its name in the field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::LocLenErr => "LOC_LEN_ERR",
            Self::LocQpOpErr => "LOC_QP_OP_ERR",
            Self::LocProtErr => "LOC_PROT_ERR",
            Self::WrFlushErr => "WR_FLUSH_ERR",
            Self::MwBindErr => "MW_BIND_ERR",
            Self::RemInvReqErr => "REM_INV_REQ_ERR",
            Self::RemAccessErr => "REM_ACCESS_ERR",
            Self::RemOpErr => "REM_OP_ERR",
            Self::RetryExcErr => "RETRY_EXC_ERR",
            Self::RnrRetryExcErr => "RNR_RETRY_EXC_ERR",
            Self::FatalErr => "FATAL_ERR",
            Self::GeneralErr => "GENERAL_ERR",
        }
    }
}

impl core::fmt::Display for WcStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl WcStatus {
    /// The status that a flush code stands for (data-path 4.4,
    /// `irdma_flush_opcode`).
    #[must_use]
    pub const fn of_flush(code: FlushCode) -> Self {
        match code {
            FlushCode::GENERAL => Self::WrFlushErr,
            FlushCode::PROT => Self::LocProtErr,
            FlushCode::REM_ACCESS => Self::RemAccessErr,
            FlushCode::LOC_QP_OP => Self::LocQpOpErr,
            FlushCode::REM_OP => Self::RemOpErr,
            FlushCode::LOC_LEN => Self::LocLenErr,
            FlushCode::RETRY_EXC => Self::RetryExcErr,
            FlushCode::MW_BIND => Self::MwBindErr,
            FlushCode::REM_INV_REQ => Self::RemInvReqErr,
            FlushCode::RNR_RETRY_EXC => Self::RnrRetryExcErr,
            // 0 FLUSH_INVALID, 7 FLUSH_FATAL_ERR, and whatever comes later.
            _ => Self::FatalErr,
        }
    }
}

/// The flush code that an asynchronous event stands for (data-path 8.8). Used
/// for CQEs whose major code says that the minor one is an event; what the
/// events mean otherwise is the event queue's business.
#[must_use]
pub const fn flush_code_of_event(ae: u16) -> FlushCode {
    match ae {
        0x0102..=0x010A | 0x011C => FlushCode::PROT,
        0x0112 | 0x020D => FlushCode::REM_ACCESS,
        0x0114 | 0x0118 | 0x0119 | 0x011B => FlushCode::MW_BIND,
        0x0133 | 0x020A => FlushCode::LOC_QP_OP,
        0x0132 | 0x0134 | 0x0135 | 0x0303 | 0x0305 => FlushCode::LOC_LEN,
        0x0208 => FlushCode::REM_INV_REQ,
        0x020E | 0x0316 | 0x0505 | 0x0507 => FlushCode::REM_OP,
        0x050A => FlushCode::RETRY_EXC,
        0x050F => FlushCode::RNR_RETRY_EXC,
        0x0700 | 0x0703..=0x0705 => FlushCode::FATAL,
        _ => FlushCode::GENERAL,
    }
}

/// What a completed request was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[non_exhaustive]
#[doc(alias = "ibv_wc_opcode")]
pub enum WcOpcode {
    /// Send, with or without immediate data or invalidation.
    #[doc(alias = "IBV_WC_SEND")]
    #[default]
    Send = 0,
    /// RDMA write.
    #[doc(alias = "IBV_WC_RDMA_WRITE")]
    RdmaWrite = 1,
    /// RDMA read.
    #[doc(alias = "IBV_WC_RDMA_READ")]
    RdmaRead = 2,
    /// Compare and swap; not on this generation.
    #[doc(alias = "IBV_WC_COMP_SWAP")]
    CompSwap = 3,
    /// Fetch and add; not on this generation.
    #[doc(alias = "IBV_WC_FETCH_ADD")]
    FetchAdd = 4,
    /// Memory window bind.
    #[doc(alias = "IBV_WC_BIND_MW")]
    BindMw = 5,
    /// Local invalidate.
    #[doc(alias = "IBV_WC_LOCAL_INV")]
    LocalInv = 6,
    /// Fast registration (kernel verbs number it outside this list).
    RegMr = 7,
    /// Nothing; verbs has no number for it.
    Nop = 8,
    /// Receive of a send.
    #[doc(alias = "IBV_WC_RECV")]
    Recv = 128,
    /// Receive consumed by an RDMA write with immediate.
    #[doc(alias = "IBV_WC_RECV_RDMA_WITH_IMM")]
    RecvRdmaWithImm = 129,
}

/// WQE opcodes, q3[37:32] (data-path 1.5).
pub(crate) mod opcode {
    pub(crate) const RDMA_WRITE: u8 = 0x00;
    pub(crate) const RDMA_READ: u8 = 0x01;
    pub(crate) const SEND: u8 = 0x03;
    pub(crate) const SEND_INV: u8 = 0x04;
    pub(crate) const SEND_SOLICITED: u8 = 0x05;
    pub(crate) const SEND_SOLICITED_INV: u8 = 0x06;
    pub(crate) const BIND_MW: u8 = 0x08;
    pub(crate) const FAST_REGISTER: u8 = 0x09;
    pub(crate) const LOCAL_INV: u8 = 0x0A;
    pub(crate) const READ_LOCAL_INV: u8 = 0x0B;
    pub(crate) const NOP: u8 = 0x0C;
    pub(crate) const RDMA_WRITE_SOLICITED: u8 = 0x0D;
    pub(crate) const FETCH_ADD: u8 = 0x0F;
    pub(crate) const COMP_SWAP: u8 = 0x11;
    /// IB wire opcodes that a receive completion of a write with immediate
    /// carries (data-path 4.5): RC RDMA WRITE LAST and ONLY with immediate.
    pub(crate) const WIRE_WRITE_LAST_IMM: u8 = 0x09;
    pub(crate) const WIRE_WRITE_ONLY_IMM: u8 = 0x0B;
}

impl WcOpcode {
    /// The operation of a send queue CQE; `None` for codes without a name
    /// (data-path 4.5). Codes 09 and 0b, which the two sources map differently, are
    /// left to the caller, who knows what was posted.
    #[inline(always)]
    pub(crate) fn of_sq(op: u8) -> Option<Self> {
        // A table, because this is asked of every completion, and of all bytes,
        // so that what is beside the code need not be cut off.
        const NAMES: [Option<WcOpcode>; 256] = {
            let mut names = [None; 256];
            let mut rest: &mut [Option<WcOpcode>] = &mut names;
            let mut op = 0u8;
            while let Some((name, others)) = rest.split_first_mut() {
                *name = WcOpcode::name_of_sq(op & 0x3F);
                op = op.wrapping_add(1);
                rest = others;
            }
            names
        };
        NAMES.get(usize::from(op)).copied().flatten()
    }

    const fn name_of_sq(op: u8) -> Option<Self> {
        Some(match op {
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_SOLICITED => Self::RdmaWrite,
            opcode::RDMA_READ => Self::RdmaRead,
            opcode::SEND
            | opcode::SEND_INV
            | opcode::SEND_SOLICITED
            | opcode::SEND_SOLICITED_INV => Self::Send,
            opcode::BIND_MW => Self::BindMw,
            opcode::LOCAL_INV => Self::LocalInv,
            opcode::FETCH_ADD => Self::FetchAdd,
            opcode::COMP_SWAP => Self::CompSwap,
            _ => return None,
        })
    }
}
