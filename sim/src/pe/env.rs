//! Interface between the engine and its function.
//!
//! Implement [`Env`] to give an engine memory, registers, interrupts, a link and time.

use crate::findings::Kind;

/// A DMA access that the IOMMU (or the memory behind it) refused.
///
/// The implementation of [`Env`] records the finding, if there is one; the engine only reacts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} of {bytes} bytes at IOVA {iova:#x} refused: {reason}", if *.write { "DMA write" } else { "DMA read" })]
pub struct DmaFault {
    /// First byte of the access.
    pub iova: u64,
    /// Bytes of the access.
    pub bytes: usize,
    /// Whether it was a write.
    pub write: bool,
    /// Reason: "not mapped", "freed", "not writable", "misaligned", or that the program no longer
    /// has the memory …
    pub reason: &'static str,
}

/// Registers that the engine writes (or reads back) itself. The implementation of [`Env`] supplies
/// the index of the per-PF arrays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeReg {
    /// PFPE_CQPTAIL: WQTAIL \[10:0\], CQP_OP_ERR \[31\].
    CqpTail,
    /// PFPE_CCQPSTATUS: CCQP_DONE \[0\], HMC_PROFILE \[6:4\], RDMA_EN_VFS \[21:16\], CCQP_ERR
    /// \[31\].
    CcqpStatus,
    /// PFPE_CQPERRCODES: minor \[15:0\], major \[31:16\].
    CqpErrCodes,
    /// GLPE_CRITERR.
    CritErr,
    /// PFHMC_ERRORINFO.
    HmcErrorInfo,
    /// PFHMC_ERRORDATA.
    HmcErrorData,
    /// GLPE_PFAEQEDROPCNT of this PF (16 bit).
    AeqDropCount,
    /// GLPE_PFCEQEDROPCNT of this PF (16 bit).
    CeqDropCount,
    /// GLPE_PFCQEDROPCNT of this PF (16 bit).
    CqDropCount,
    /// GLPE_PFFLMXMITALLOCERR of this PF (16 bit): no transmit FIFO entry left.
    FlmXmitAllocErr,
    /// GLPE_PFFLMQ1ALLOCERR of this PF (16 bit): no inbound read (Q1) entry left.
    FlmQ1AllocErr,
    /// GLPE_PFFLMRRFALLOCERR of this PF (16 bit): no read response FIFO entry left.
    FlmRrfAllocErr,
}

/// Causes of PFINT_OICR that the engine sets; the discriminant is the bit number (control-path
/// 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OicrCause {
    /// HMC_ERR \[26\].
    HmcErr = 26,
    /// PE_PUSH \[27\].
    PePush = 27,
    /// PE_CRITERR \[28\].
    PeCritErr = 28,
}

/// Doorbells of the engine: a 32-bit write by the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Doorbell {
    /// PFPE_CQPDB: CQP SQ head \[10:0\].
    CqpDb,
    /// PFPE_CCQPHIGH: bits \[63:32\] of the host context address.
    CcqpHigh,
    /// PFPE_CCQPLOW: bits \[31:0\]; the write that starts create, or destroy when both halves are
    /// zero.
    CcqpLow,
    /// PFPE_CQPTAIL: the driver clears it before a CQP create; a device with a live CQP ignores it.
    CqpTail,
    /// PFPE_WQEALLOC: QP id \[17:0\], WQE_DESC_INDEX \[31:20\] (also offset 0 of the doorbell
    /// page).
    WqeAlloc,
    /// PFPE_CQARM: CQ id \[18:0\] (also offset 64 of the doorbell page).
    CqArm,
    /// PFPE_CQACK: CQ id \[18:0\].
    CqAck,
    /// PFPE_AEQALLOC: number of AEQEs consumed.
    AeqAlloc,
    /// PFHMC_PDINV: SD \[11:0\], PARTSEL \[15\], PD \[24:16\].
    PdInv,
}

/// A reset that reaches the PE. All of them forget the CQP, queues, contexts and SDs; the global
/// ones also clear what only a CORER clears (statistics).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResetKind {
    /// PF reset (PFGEN_CTRL.PFSWR, FLR).
    Pfr,
    /// CORER, GLOBR, EMPR or power-up.
    Core,
}

/// Events that [`Env::counted`] counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventCount {
    /// A request was accepted.
    Armed,
    /// A request was ignored: its sequence number was not new.
    ArmedAgain,
    /// A CEQE was written.
    Written,
    /// A request raised its event at once.
    AtOnce,
    /// Likewise, for a solicited completion.
    SolicitedAtOnce,
}

/// The environment of one engine.
///
/// All IOVAs are the function's own: the implementation translates them through the function's
/// IOMMU domain, and **records a finding for every access it refuses** before it returns a
/// [`DmaFault`].
pub trait Env {
    /// DMA read of `into.len()` bytes at any alignment; payload order is not defined.
    ///
    /// # Errors
    /// [`DmaFault`]; `into` is unspecified then.
    fn read(&mut self, iova: u64, into: &mut [u8]) -> Result<(), DmaFault>;

    /// Whether an access takes so long that neighbours are worth being
    /// [read ahead](Self::read_ahead). By default not.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Reads `bytes` bytes now that [`read`](Self::read) is about to want in pieces: those calls
    /// give what is there now, until [`forget_ahead`](Self::forget_ahead) or the next write. Fails
    /// silently. By default does nothing.
    fn read_ahead(&mut self, iova: u64, bytes: usize) {
        let _ = (iova, bytes);
    }

    /// What was read ahead is not wanted any more. By default does nothing.
    fn forget_ahead(&mut self) {}

    /// DMA write of `from.len()` bytes at any alignment; payload order is not defined.
    ///
    /// # Errors
    /// [`DmaFault`]; then nothing is written, except possibly the part in front of memory that the
    /// program no longer has.
    fn write(&mut self, iova: u64, from: &[u8]) -> Result<(), DmaFault>;

    /// Reads one 64-bit little-endian word with acquire order: the word that holds a valid bit.
    ///
    /// # Errors
    /// [`DmaFault`], also when `iova` is not 8-aligned.
    fn load(&mut self, iova: u64) -> Result<u64, DmaFault>;

    /// Reads consecutive 64-bit little-endian words, in order and each as [`load`](Self::load)
    /// does. By default one by one.
    ///
    /// # Errors
    /// [`DmaFault`], also when `iova` is not 8-aligned; `into` is unspecified then.
    fn load_words(&mut self, iova: u64, into: &mut [u64]) -> Result<(), DmaFault> {
        for (word, index) in into.iter_mut().zip(0..) {
            *word = self.load(iova.wrapping_add(8 * index))?;
        }
        Ok(())
    }

    /// Reads the four words of a queue entry, the last one first and all as [`load`](Self::load)
    /// does: when the valid bit in the last one is new, so are the others. By default one by
    /// one.
    ///
    /// # Errors
    /// [`DmaFault`], also when `iova` is not 8-aligned.
    fn load_quantum(&mut self, iova: u64) -> Result<[u64; 4], DmaFault> {
        let mut words = [0; 4];
        for (index, word) in words.iter_mut().enumerate().rev() {
            *word = self.load(iova.wrapping_add(8 * index as u64))?;
        }
        Ok(words)
    }

    /// Writes one 64-bit little-endian word with release order.
    ///
    /// # Errors
    /// [`DmaFault`], also when `iova` is not 8-aligned.
    fn store(&mut self, iova: u64, value: u64) -> Result<(), DmaFault>;

    /// Writes a queue entry as the card does: all words but `valid_word` first, `valid_word` last
    /// with release.
    ///
    /// # Errors
    /// [`DmaFault`]; nothing is written then.
    fn write_entry(&mut self, iova: u64, words: &[u64], valid_word: usize) -> Result<(), DmaFault>;

    /// A CEQE was written: raise the cause GLINT_CEQCTL(`ceq`).
    fn raise_ceq(&mut self, ceq: u16);

    /// An AEQE was written: raise the cause PFINT_AEQCTL.
    fn raise_aeq(&mut self);

    /// Sets one cause of PFINT_OICR.
    fn raise_oicr(&mut self, cause: OicrCause);

    /// Reads a register of the engine.
    fn register(&mut self, register: PeReg) -> u32;

    /// Writes a register of the engine.
    fn set_register(&mut self, register: PeReg, value: u32);

    /// Counts an executed CQP command. By default does nothing.
    fn executed(&mut self, opcode: u8) {
        let _ = opcode;
    }

    /// Counts a step of a completion queue's events. By default does nothing.
    fn counted(&mut self, what: EventCount) {
        let _ = what;
    }

    /// Whether the LAN side's scheduler knows the queue set (AQ 0x0C33, control-path 9.8). A QP
    /// bound to one that it does not know cannot send. By default true, as on a function whose LAN
    /// side is not modelled.
    fn has_queue_set(&self, handle: u16) -> bool {
        let _ = handle;
        true
    }

    /// Whether the switch knows the VSI (AQ 0x0210).
    fn has_vsi(&self, vsi: u16) -> bool {
        let _ = vsi;
        true
    }

    /// Whether the frame being received was sent by the engine of a function of this simulator, and
    /// is unmodified.
    fn sent_here(&self) -> bool {
        true
    }

    /// Number of mappings that were removed so far. While it is the same, an access that succeeded
    /// would succeed again. `None`, the default, if this is not known.
    fn mappings_removed(&self) -> Option<u64> {
        None
    }

    /// An empty buffer for a frame. By default a new one.
    fn frame_buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Puts one Ethernet frame (no FCS) on the wire.
    fn transmit(&mut self, frame: Vec<u8>);

    /// Nanoseconds since an arbitrary start.
    fn now(&self) -> u64;

    /// Records a finding; `text` has the details.
    fn finding(&mut self, kind: Kind, text: String);

    /// The next number of a seeded generator.
    fn random(&mut self) -> u64;
}
