//! Counters of the traffic between a driver and its function.

/// Traffic of one function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stats {
    pub register_reads: u64,
    /// Register writes, doorbells included.
    pub register_writes: u64,
    /// Writes to PFPE_CQPDB, PFPE_WQEALLOC, PFPE_CQARM, PFPE_CQACK, PFPE_AEQALLOC and the doorbell
    /// page.
    pub doorbells: u64,
    /// CQP commands executed, successful or not.
    pub commands: u64,
    /// DMA reads executed.
    pub dma_reads: u64,
    pub dma_read_bytes: u64,
    /// DMA writes executed.
    pub dma_writes: u64,
    pub dma_write_bytes: u64,
    /// DMA accesses refused; each one is a finding.
    pub dma_faults: u64,
    /// DMA accesses and MSI-X messages that failed because Bus Master Enable was cleared while work
    /// was in progress; no findings.
    pub stopped: u64,
    /// DMA accesses that failed because the program no longer has the memory, with
    /// [`Builder::checked_access`](crate::Builder::checked_access); no findings.
    pub program_faults: u64,
    /// Frames put on the wire.
    pub frames_sent: u64,
    /// Frames received from the wire.
    pub frames_received: u64,
    /// Frames received from the wire that a LAN receive queue took.
    pub lan_frames_received: u64,
    /// Frames that no switch rule forwarded to the RDMA engine (no rule for the address, the VSI's
    /// filter is closed, or the card has no package) and that no LAN receive queue took.
    pub frames_filtered: u64,
    /// Frames from the function to its own address that the switch did not loop back because the
    /// VSI or the rule does not allow it. They are sent to the port.
    pub frames_not_looped: u64,
    /// MSI-X messages sent.
    pub interrupts: u64,
    /// Requests for an event of a completion queue (PFPE_CQARM with a new ARM_SEQ_NUM).
    pub arms: u64,
    /// Requests that were ignored: their ARM_SEQ_NUM was not new.
    pub arms_repeated: u64,
    /// Entries written to completion event queues.
    pub ceqes: u64,
    /// Events raised at once by a request, because there were completions that had not been polled.
    pub events_at_once: u64,
    /// The same, because of a solicited completion since the last event.
    pub solicited_at_once: u64,
}

/// Resets of one function so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ResetCounts {
    /// PF resets.
    pub pfr: u64,
    /// Core resets.
    pub corer: u64,
    /// Global resets.
    pub globr: u64,
    /// Firmware resets.
    pub empr: u64,
    /// Function-level resets, asked for through configuration space.
    pub flr: u64,
}
