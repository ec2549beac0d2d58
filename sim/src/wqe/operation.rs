//! The operation of a send queue entry (data-path 1.5, 1.7).

use super::fragment::Fragments;
use super::inline::InlineData;

/// Remote address of an RDMA operation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Remote tagged offset.
    pub addr: u64,
    /// Remote STag.
    pub rkey: u32,
}

/// Destination of a UD send; all zero on RC.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct UdTarget {
    /// Destination QP, 24 bits.
    pub qpn: u32,
    /// Queue key.
    pub qkey: u32,
    /// Address handle index, 25 bits.
    pub ah: u32,
}

/// Source of the bytes of a send or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Host memory.
    Fragments(Fragments),
    /// The entry itself.
    Inline(Box<InlineData>),
}

impl Payload {
    /// Length in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        match self {
            Self::Fragments(fragments) => fragments.total(),
            Self::Inline(data) => data.as_slice().len() as u64,
        }
    }
}

/// Operation of an entry, with its opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Send 03 to 06.
    Send {
        /// Bytes to send.
        payload: Payload,
        /// Immediate data as a number.
        immediate: Option<u32>,
        /// STag the receiver shall invalidate.
        invalidate: Option<u32>,
        /// The receiver is to raise a solicited event.
        solicited: bool,
        /// Destination on a UD QP.
        ud: UdTarget,
    },
    /// RDMA write 00 and 0d.
    Write {
        /// Bytes to write.
        payload: Payload,
        /// Remote destination.
        remote: Remote,
        /// Immediate data as a number.
        immediate: Option<u32>,
        /// The receiver is to raise a solicited event.
        solicited: bool,
    },
    /// RDMA read 01 and 0b.
    Read {
        /// Local sink.
        sink: Fragments,
        /// Remote source.
        remote: Remote,
        /// Invalidate the local STag of the sink afterwards (0b).
        invalidate_sink: bool,
    },
    /// Local invalidate 0a.
    LocalInvalidate {
        /// STag to invalidate.
        stag: u32,
    },
    /// Bind memory window 08.
    BindWindow {
        /// Start of the window, 0 if it is zero based.
        addr: u64,
        /// Length in bytes.
        len: u64,
        /// STag of the parent region.
        parent: u32,
        /// STag of the window.
        window: u32,
        /// STAGRIGHTS (data-path 6.2).
        rights: u8,
        /// VABASEDTO: offsets are virtual addresses.
        va_based: bool,
        /// MEMWINDOWTYPE: a type 1 window.
        type1: bool,
    },
    /// Fast register 09.
    FastRegister {
        /// Start of the region, or offset of the first byte if it is zero based.
        addr: u64,
        /// Length in bytes, 48 bits.
        len: u64,
        /// Index part of the STag.
        stag_index: u32,
        /// Key part of the STag.
        stag_key: u8,
        /// STAGRIGHTS.
        rights: u8,
        /// VABASEDTO.
        va_based: bool,
        /// LPBLSIZE: 0 physically contiguous, 1 level-1 PBL.
        pbl_level: u8,
        /// HPAGESIZE: 0 4 KiB, 1 2 MiB, 2 1 GiB.
        page_size: u8,
        /// Physical address of the first page (level 0), bits `[51:12]` of word 1.
        page: u64,
        /// First PBLE index, 28 bits.
        pble: u32,
    },
    /// NOP 0c.
    Nop,
    /// Generate RTS AE 30 (iWARP connection set-up; no RoCE QP uses it).
    GenerateRtsAe,
}
