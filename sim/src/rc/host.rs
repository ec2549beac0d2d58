//! Interface between the RC engine and the device.
//!
//! Implement [`Host`] for one QP at a time (it may borrow the whole device). The engine runs the
//! protocol; the host accesses memory, checks STags and delivers completions and events to
//! software.

use crate::wire::{BuildError, Frame, Headers, Path};
use crate::wqe::{AeCode, AeSource, Cqe, Lints, Operation};

/// The device could not reach its own memory: an IOMMU fault, or missing HMC backing.
///
/// The code that detected it has recorded the finding; the engine stops the QP with
/// LOCAL_QP_CATASTROPHIC (0x0704).
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device cannot reach host memory")]
pub struct HostFault;

/// Why an access through an STag, or an operation on one, failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The STag check failed; the code is that of the AE (0x0102 to 0x0121, 0x0206).
    #[error("refused: {0}")]
    Stag(AeCode),
    /// The memory behind the STag cannot be accessed.
    #[error(transparent)]
    Host(#[from] HostFault),
}

/// Direction and purpose of an access to the memory behind an STag.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// Payload of a send or write.
    LocalRead,
    /// Receive buffer, or sink of a read.
    LocalWrite,
    /// Inbound read.
    RemoteRead,
    /// Inbound write.
    RemoteWrite,
}

/// An access to memory through an STag. The length is that of the accompanying data.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The QP that makes the access.
    pub qpn: u32,
    /// Protection domain of that QP.
    pub pd: u32,
    /// Local or remote STag.
    pub stag: u32,
    /// Tagged offset: virtual address, or offset if the STag is zero based.
    pub addr: u64,
    /// Required right.
    pub right: Right,
}

/// One of the two rings of a QP.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Send queue.
    Send,
    /// Receive queue.
    Receive,
}

/// Who requested the invalidation of an STag.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Invalidator {
    /// This QP's software: local invalidate, or the sink of a read with local invalidate.
    Local,
    /// The peer, by a send with invalidate.
    Remote,
}

/// Completion of a signalled send queue entry.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SendCompletion {
    /// Quantum index of the entry.
    pub wqe_index: u16,
    /// WQE opcode.
    pub op: u8,
    /// PSN of the last packet of the message (for an operation without packets, the next PSN to be
    /// acknowledged).
    pub psn: u32,
}

impl SendCompletion {
    /// The completion entry.
    #[must_use]
    pub fn cqe(&self, qp_id: u32, context: u64) -> Cqe {
        Cqe {
            context,
            qp_id,
            psn: self.psn,
            wqe_index: self.wqe_index,
            op: self.op,
            send_queue: true,
            ..Cqe::default()
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReceiveCompletion {
    /// Quantum index of the receive queue slot.
    pub wqe_index: u16,
    /// BTH opcode of the last packet (data-path 4.1: OP of a receive is the wire opcode).
    pub op: u8,
    /// Bytes received; for a write with immediate, bytes written.
    pub byte_len: u32,
    /// Immediate data as a number.
    pub immediate: Option<u32>,
    /// STag that the message invalidated.
    pub invalidated: Option<u32>,
    /// The sender asked for a solicited event.
    pub solicited: bool,
    /// PSN of the last packet.
    pub psn: u32,
}

impl ReceiveCompletion {
    /// The completion entry.
    #[must_use]
    pub fn cqe(&self, qp_id: u32, context: u64) -> Cqe {
        Cqe {
            context,
            qp_id,
            payload_len: self.byte_len,
            psn: self.psn,
            invalidated: self.invalidated,
            wqe_index: self.wqe_index,
            solicited: self.solicited,
            op: self.op,
            immediate: self.immediate,
            ..Cqe::default()
        }
    }
}

/// The engine has stopped the QP for this reason; it writes no flush completion (data-path 8.4).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// AECODE.
    pub code: AeCode,
    /// AESRC.
    pub source: AeSource,
    /// WQDESCIDX: quantum index of the entry concerned, 0 if there is none.
    pub wqe_index: u16,
}

/// A send queue entry that was sent in full or executed: the fields that its completion needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Position in front of the entry, in quanta since the queue pair started.
    pub pos: u64,
    /// Length in quanta.
    pub quanta: u8,
    /// WQE opcode.
    pub opcode: u8,
    /// A success completion is requested.
    pub signaled: bool,
    /// A message, which uses the wire.
    pub message: bool,
    /// PSNs it uses.
    pub packets: u32,
}

/// Words of an inbound read request as the engine keeps it (see [`Host::store_read`]).
pub const READ_ENTRY_WORDS: usize = 4;

/// The device around the engine.
///
/// All calls are for the QP whose state the engine was entered with.
pub trait Host {
    /// Time in nanoseconds; it must not run backwards.
    fn now_ns(&self) -> u64;

    /// One 64-bit word of a ring at a byte offset from its start, read with acquire order: words
    /// read by later calls are at least as new as this one.
    ///
    /// # Errors
    /// [`HostFault`] if the ring memory cannot be reached.
    fn load_ring(&mut self, ring: Ring, offset: u32) -> Result<u64, HostFault>;

    /// Words of a ring from a byte offset on. The range never crosses a 256-byte boundary.
    ///
    /// # Errors
    /// [`HostFault`] if the ring memory cannot be reached.
    fn read_ring(&mut self, ring: Ring, offset: u32, words: &mut [u64]) -> Result<(), HostFault>;

    /// The four words of the quantum at a byte offset. The header, its last word, is read first and
    /// like [`load_ring`](Self::load_ring) does, so that the others are at least as new.
    ///
    /// # Errors
    /// [`HostFault`] if the ring memory cannot be reached.
    fn load_quantum(&mut self, ring: Ring, offset: u32) -> Result<[u64; 4], HostFault> {
        /// Byte offset of the header.
        const HEADER: u32 = 24;
        let header = self.load_ring(ring, offset + HEADER)?;
        let mut words = [0; 4];
        self.read_ring(ring, offset, &mut words)?;
        // Uses the word that was tested: software does not modify a valid header, but it is not
        // trusted.
        words[3] = header;
        Ok(words)
    }

    /// Reads slot `slot` of the QP's inbound read queue (Q1), last written by
    /// [`store_read`](Self::store_read).
    ///
    /// # Errors
    /// [`HostFault`] if the backing cannot be reached.
    fn load_read(&mut self, slot: u16) -> Result<[u64; READ_ENTRY_WORDS], HostFault>;

    /// Writes slot `slot` of the QP's inbound read queue. The engine uses slots 0 to
    /// `2 * ird - 1`([`QpConfig::ird`](super::QpConfig::ird)), as Linux sizes Q1 (control-path
    /// 6.5).
    ///
    /// # Errors
    /// [`HostFault`] if the backing cannot be reached.
    fn store_read(&mut self, slot: u16, entry: [u64; READ_ENTRY_WORDS]) -> Result<(), HostFault>;

    /// Whether frequent cases may take a shorter path. By default they may not.
    fn takes_shortcuts(&self) -> bool {
        false
    }

    /// Keeps an entry until it completes. By default nothing is kept: the entry is read again.
    fn remember(&mut self, sent: Sent) {
        let _ = sent;
    }

    /// The entry at `pos`, if it is kept. The engine does not ask for entries before it again.
    fn recall(&mut self, pos: u64) -> Option<Sent> {
        let _ = pos;
        None
    }

    /// Checks an access of `len` bytes without making it.
    ///
    /// # Errors
    /// [`Fault`], as for the access itself.
    fn check(&mut self, access: Access, len: u32) -> Result<(), Fault>;

    /// Reads memory through an STag.
    ///
    /// # Errors
    /// [`Fault`]; `out` is unspecified then.
    fn read(&mut self, access: Access, out: &mut [u8]) -> Result<(), Fault>;

    /// Whether payload of several entries is worth being [read ahead](Self::read_ahead). By default
    /// it is not.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Reads `len` bytes now, which the calls of [`read`](Self::read) that follow want in pieces, as
    /// far as they may be read. The engine has seen the entries that name those pieces, and the
    /// bytes are kept until it calls [`forget_ahead`](Self::forget_ahead) or returns. By default
    /// does nothing.
    fn read_ahead(&mut self, access: Access, len: u32) {
        let _ = (access, len);
    }

    /// What was read ahead is not wanted any more. By default does nothing.
    fn forget_ahead(&mut self) {}

    /// Writes memory through an STag.
    ///
    /// # Errors
    /// [`Fault`]; part of the data may be written then.
    fn write(&mut self, access: Access, data: &[u8]) -> Result<(), Fault>;

    /// Invalidates an STag.
    ///
    /// # Errors
    /// [`Fault`] if the STag may not be invalidated that way.
    fn invalidate(&mut self, stag: u32, by: Invalidator) -> Result<(), Fault>;

    /// Executes [`Operation::BindWindow`] or [`Operation::FastRegister`]; no other operation is
    /// passed.
    ///
    /// # Errors
    /// [`Fault`] with the AE that the operation raises.
    fn local_operation(&mut self, operation: &Operation) -> Result<(), Fault>;

    /// Writes a completion to the send CQ.
    ///
    /// # Errors
    /// [`HostFault`] if the CQ cannot take it.
    fn complete_send(&mut self, completion: &SendCompletion) -> Result<(), HostFault>;

    /// Writes a completion to the receive CQ.
    ///
    /// # Errors
    /// [`HostFault`] if the CQ cannot take it.
    fn complete_receive(&mut self, completion: &ReceiveCompletion) -> Result<(), HostFault>;

    /// Reports an asynchronous event; the QP is already in [`Mode::Error`](super::Mode::Error).
    fn report(&mut self, event: AsyncEvent);

    /// Starts a frame. By default it is in memory of its own and uses nothing of an earlier one.
    ///
    /// # Errors
    /// As [`Frame::new`].
    fn start_frame(
        &mut self,
        path: &Path,
        headers: &Headers,
        payload_len: usize,
    ) -> Result<Frame, BuildError> {
        Frame::new(path, headers, payload_len)
    }

    /// Puts a frame (without FCS) on the wire.
    fn transmit(&mut self, frame: Vec<u8>);

    /// Reports ignored bits that software set in an entry. Called once per entry executed.
    fn lint(&mut self, ring: Ring, wqe_index: u16, lints: Lints);
}
