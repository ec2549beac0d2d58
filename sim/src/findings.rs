//! Findings: driver errors as the device and its IOMMU detect them.
//!
//! A driver test ends by asserting that [`Sim::findings`](crate::Sim::findings) is empty. A
//! **fault** is an operation that the device could not carry out. A **lint** is an operation that
//! the device carries out but that a driver should not request.

use std::collections::BTreeMap;
use std::fmt;

use e810_hal::Ns;

/// Severity of a finding; either fails a driver's test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// The device could not have done this: unmapped access, missing HMC backing, bad state,
    /// unknown opcode.
    Fault,
    /// The device does it, and a driver should not ask for it: undefined bits set, a doorbell for
    /// a queue that does not exist.
    Lint,
}

/// A rule that a driver can break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Stable: tests and reports name it.
    pub name: &'static str,
    /// Severity.
    pub class: Class,
    /// Sections of docs/reference that have the rule; `—`: it is none of the device's.
    pub source: &'static str,
    /// What the driver did.
    pub about: &'static str,
}

macro_rules! findings {
    ($(
        #[doc = $about:literal]
        $constant:ident: $class:ident, $name:literal, $source:literal;
    )+) => {
        /// Every kind of finding.
        pub mod kind {
            use super::{Class, Kind};

            $(
                #[doc = $about]
                pub const $constant: Kind = Kind {
                    name: $name,
                    class: Class::$class,
                    source: $source,
                    about: $about.trim_ascii(),
                };
            )+

            /// All of them.
            pub const ALL: &[Kind] = &[$($constant),+];
        }
    };
}

findings! {
    /// The device accessed an IOVA that is not mapped.
    DMA_UNMAPPED: Fault, "dma-unmapped", "—, IOMMU";
    /// The device accessed memory that has been unmapped.
    DMA_FREED: Fault, "dma-freed", "—, IOMMU";
    /// The device accessed memory past the end of a mapping.
    DMA_BOUNDS: Fault, "dma-bounds", "—, IOMMU";
    /// The device wrote to memory that was mapped read-only.
    DMA_READ_ONLY: Fault, "dma-read-only", "—, IOMMU";
    /// A mapping overlaps another one, or its address is not valid.
    DMA_OVERLAP: Fault, "dma-overlap", "—, IOMMU";
    /// The address of a queue word is not a multiple of 8.
    DMA_MISALIGNED: Fault, "dma-misaligned", "—, words of the Rust side";
    /// The driver requested work that needs DMA while Bus Master Enable was clear.
    DMA_NO_MASTER: Fault, "dma-no-bus-master", "—, PCIe";
    /// The driver requested work that sends an MSI-X message while Bus Master Enable was clear.
    MSIX_NO_MASTER: Fault, "msix-no-bus-master", "—, PCIe";
    /// Memory was freed that was not allocated, or twice, or with another size.
    BAD_FREE: Fault, "bad-free", "—, memory of the Rust side";
    /// Memory changed after it was freed.
    USE_AFTER_FREE: Fault, "use-after-free", "—, memory of the Rust side";
    /// The driver accessed an offset of BAR0 that has no known register.
    REGISTER_UNKNOWN: Lint, "register-unknown", "control-path 2";
    /// A read of a register whose read value is not known.
    REGISTER_WRITE_ONLY: Lint, "register-write-only", "control-path 2";
    /// A write to a register that the driver only reads.
    REGISTER_READ_ONLY: Lint, "register-read-only", "control-path 2";
    /// The driver wrote bits that the register does not have.
    REGISTER_BITS: Lint, "register-bits", "control-path 2";
    /// An access that is not 32 bits wide or not aligned to 4 bytes.
    REGISTER_WIDTH: Fault, "register-width", "control-path 1.2; PCIe";
    /// An access to BAR0 while the function is being reset.
    REGISTER_IN_RESET: Lint, "register-in-reset", "control-path 2.7";
    /// A PF reset was asked for while a reset of the card is announced.
    RESET_IN_RESET: Lint, "reset-in-reset", "control-path 9.2";
    /// A ring of the AdminQ cannot be used: an index is out of range, or the queue is off.
    ADMINQ_RING: Fault, "adminq-ring", "control-path 9.1";
    /// The flags of an AdminQ descriptor contradict its lengths.
    ADMINQ_DESCRIPTOR: Fault, "adminq-descriptor", "control-path 9.1";
    /// A command of the AdminQ has bits set that its format does not have, or that do not fit together.
    ADMINQ_BITS: Lint, "adminq-bits", "control-path 9.1, 9.4 to 9.10; lan-path 3, 7.4, 8, 9, 18";
    /// A command of the AdminQ has a value that its format, or this card, does not have.
    ADMINQ_PARAMETER: Fault, "adminq-parameter", "control-path 9.3 to 9.10";
    /// An AdminQ command names a VSI, node, queue or rate profile that does not exist.
    ADMINQ_UNKNOWN_OBJECT: Lint, "adminq-unknown-object", "control-path 9.6 to 9.8; lan-path 3";
    /// A command of the AdminQ removes an object that is in use.
    ADMINQ_IN_USE: Lint, "adminq-in-use", "control-path 9.7";
    /// A tail of a LAN queue outside its ring.
    LAN_RING: Fault, "lan-ring", "lan-path 3.4, 5.3";
    /// A packet of a LAN transmit queue that the device cannot send as its descriptors say.
    LAN_PACKET: Fault, "lan-packet", "lan-path 1.4, 4, 10";
    /// An interrupt cause or a register names a vector that the function does not have.
    VECTOR_RANGE: Fault, "vector-range", "control-path 2.4, 2.5";
    /// A vector was freed that was not allocated.
    VECTOR_FREE: Lint, "vector-free", "—, vectors of the Rust side";
    /// A freed vector fired: a cause is still routed to it.
    VECTOR_FREED: Lint, "vector-freed", "—, vectors of the Rust side";
    /// PFPE_CQPDB was written and there is no CQP.
    DOORBELL_CQP: Lint, "doorbell-cqp", "control-path 4.1";
    /// PFPE_WQEALLOC names a queue pair that never existed.
    DOORBELL_QP: Lint, "doorbell-qp", "control-path 5.1";
    /// PFPE_CQARM or PFPE_CQACK names a completion queue that never existed.
    DOORBELL_CQ: Lint, "doorbell-cq", "control-path 2.2";
    /// PFPE_AEQALLOC was written and there is no AEQ.
    DOORBELL_AEQ: Lint, "doorbell-aeq", "control-path 2.2";
    /// PFHMC_PDINV was written without PMSDPARTSEL.
    DOORBELL_PARTSEL: Lint, "doorbell-partsel", "control-path 6.6";
    /// The CQP's host context has undefined bits set.
    CQP_CONTEXT_BITS: Lint, "cqp-context-bits", "control-path 4.2";
    /// PFPE_CQPDB names an entry outside the CQP's ring.
    CQP_HEAD: Fault, "cqp-head", "control-path 4.1";
    /// A CQP WQE below the doorbell's index does not carry the valid bit of this lap.
    CQP_VALID: Fault, "cqp-valid", "control-path 4.1";
    /// A CQP WQE has bits set that its format does not have.
    CQP_BITS: Lint, "cqp-bits", "control-path 4.6 to 4.16";
    /// A CQP opcode that is unknown, or whose format is not in the sources.
    CQP_OPCODE: Fault, "cqp-opcode", "control-path 4.6, 12";
    /// A value of a CQP WQE, of a context or of a buffer is outside its range.
    CQP_PARAMETER: Fault, "cqp-parameter", "control-path 2.9, 3, 4, 5, 6, 7.7; data-path 4.2, 5, 6.3; vf-path 3.1";
    /// A CQP command names an object that does not exist, exists already, is in use or is in the wrong state.
    CQP_STATE: Fault, "cqp-state", "control-path 3.1, 4, 5.3, 6.4, 6.6, 9.8";
    /// A CQP command names an STag that is not allocated.
    CQP_STAG: Fault, "cqp-stag", "control-path 4.10";
    /// An object's backing in the host memory cache is not committed or not valid.
    HMC_BACKING: Fault, "hmc-backing", "control-path 6.6";
    /// A context in the host memory cache was changed by the driver.
    HMC_CONTEXT: Fault, "hmc-context", "control-path 5.1";
    /// SDCMD has undefined bits set.
    SD_BITS: Lint, "sd-bits", "control-path 6.6";
    /// UPDATE_PE_SDS gives a buffer with ENTRY_COUNT 0.
    SD_BUFFER: Lint, "sd-buffer", "control-path 6.6";
    /// The driver replaced the backing of a segment descriptor that was valid.
    SD_REPLACED: Lint, "sd-replaced", "control-path 6.6";
    /// The driver set a segment descriptor that the committed objects do not need.
    SD_UNUSED: Lint, "sd-unused", "control-path 6.6";
    /// The COMMIT_FPM_VAL buffer has undefined bits set.
    FPM_BITS: Lint, "fpm-bits", "control-path 6.4";
    /// The number of entries of a free list differs from the number of its object's blocks.
    FPM_FREE_LIST: Lint, "fpm-free-list", "control-path 6.5";
    /// A ring of a queue pair is not aligned to 256 bytes.
    QP_ALIGNMENT: Lint, "qp-alignment", "data-path 1.1";
    /// A queue pair names an ARP entry that is not valid.
    QP_ARP: Lint, "qp-arp", "control-path 5.5";
    /// A queue pair's host context has undefined bits set.
    QP_CONTEXT_BITS: Lint, "qp-context-bits", "control-path 5.2";
    /// A queue pair was destroyed while it could still work.
    QP_DESTROY_STATE: Lint, "qp-destroy-state", "control-path 5.5";
    /// A queue pair sends and its source MAC address was never marked valid.
    QP_MAC: Lint, "qp-mac", "control-path 4.7";
    /// A command names a shadow area that is not the one of the queue pair's creation.
    QP_OTHER_SHADOW: Lint, "qp-other-shadow", "control-path 4.7";
    /// A step to RTR or RTS leaves out fields that existing drivers always set.
    QP_PIECES: Lint, "qp-pieces", "control-path 5.5";
    /// A queue pair names a queue set that WORK_SCHED_NODE did not return.
    QP_QUEUE_SET: Lint, "qp-queue-set", "control-path 4.13";
    /// The driver suspended a queue pair that was suspended already.
    QP_SUSPEND: Lint, "qp-suspend", "control-path 4.12";
    /// MODIFY_QP has a TERMACT that its next state does not have.
    QP_TERMACT: Lint, "qp-termact", "control-path 4.7";
    /// A queue pair was given a queue set whose scheduler leaf is not enabled.
    QUEUE_SET_OFF: Lint, "queue-set-off", "control-path 4.13";
    /// The traffic class above a queue set is not that of its scheduler leaf.
    QUEUE_SET_CLASS: Lint, "queue-set-class", "control-path 4.13, 9.8";
    /// The driver deleted a scheduler leaf while a queue pair used it for sending.
    QUEUE_SET_USED: Lint, "queue-set-used", "control-path 4.13";
    /// A shadow area that is handed to the device is not zeroed.
    SHADOW_CONTENT: Lint, "shadow-content", "data-path 3; control-path 3.5";
    /// The memory of the CCQ, of a CEQ or of the AEQ is not zeroed when the queue is created.
    QUEUE_CONTENT: Lint, "queue-content", "control-path 3.5, 7.7";
    /// The driver acknowledged a completion queue that has no CEQE.
    CQ_ACK: Lint, "cq-ack", "control-path 7.1";
    /// An arm word has undefined bits set.
    CQ_ARM: Lint, "cq-arm", "data-path 4.6";
    /// Completion queue 0, the CCQ, has ENCEQEMASK set.
    CQ_CCQ: Lint, "cq-ccq", "control-path 4.8";
    /// A completion queue has CEQID without CEQIDVALID.
    CQ_CEQ: Lint, "cq-ceq", "control-path 4.8";
    /// DESTROY_CQ names a size or shadow area that is not the queue's.
    CQ_DESTROY: Lint, "cq-destroy", "control-path 4.8";
    /// The device had a completion for a queue that does not exist.
    CQ_MISSING: Fault, "cq-missing", "control-path 4.8";
    /// The consumer's index in the shadow area is not among the entries that are outstanding.
    CQ_SHADOW: Lint, "cq-shadow", "control-path 4.8";
    /// The shadow threshold of a completion queue does not fit its size.
    CQ_THRESHOLD: Lint, "cq-threshold", "control-path 4.8";
    /// An event is lost because the CEQ's entry cannot be written.
    CEQ_MEMORY: Fault, "ceq-memory", "control-path 7.1";
    /// All entries of a CEQ are unacknowledged.
    CEQ_OVERFLOW: Lint, "ceq-overflow", "control-path 7.1";
    /// PFPE_AEQALLOC returns more entries than were outstanding.
    AEQ_CREDIT: Fault, "aeq-credit", "control-path 7.3";
    /// The size in the destruction of a CEQ or of the AEQ is not that of its creation.
    EVENT_QUEUE_SIZE: Lint, "event-queue-size", "control-path 4.9";
    /// A queue was flushed again, with nothing posted since.
    FLUSH_AGAIN: Lint, "flush-again", "control-path 4.12; data-path 8.4";
    /// FLUSH_WQES asks for nothing.
    FLUSH_NOTHING: Lint, "flush-nothing", "control-path 4.12";
    /// A queue pair was flushed in a state in which it still works.
    FLUSH_STATE: Lint, "flush-state", "control-path 5.5";
    /// A region is longer than regions can be.
    STAG_BYTES: Lint, "stag-bytes", "data-path 5.1";
    /// An STag command sets HMCFNIDX, USEHMCFNIDX or USEPFRID.
    STAG_FUNCTION: Lint, "stag-function", "control-path 4.10";
    /// A region has a page address that is not aligned, or that its LPBLSIZE does not use.
    STAG_PAGE: Lint, "stag-page", "control-path 4.10; data-path 6.3";
    /// DEALLOC_STAG names a protection domain that is not the region's.
    STAG_PD: Lint, "stag-pd", "data-path 5.1";
    /// REMACCENABLED does not fit the rights.
    STAG_RIGHTS: Lint, "stag-rights", "data-path 6.2";
    /// An address handle names an ARP entry that is not valid.
    AH_ARP: Lint, "ah-arp", "data-path 7.1";
    /// A command names a queue set that is not the one of the group's creation.
    MCAST_QUEUE_SET: Lint, "mcast-queue-set", "control-path 4.14";
    /// The driver asked for a push page of a queue set that WORK_SCHED_NODE did not return.
    PUSH_QUEUE_SET: Lint, "push-queue-set", "control-path 4.16";
    /// UP_MAP has a priority above 7.
    UP_MAP: Lint, "up-map", "control-path 4.13";
    /// A request has bits set that its format does not have.
    WQE_BITS: Lint, "wqe-bits", "data-path 1.4, 1.6 to 1.8, 2, 3.2";
    /// A request that no driver may post: unknown opcode, a parameter or a fragment outside its range.
    WQE_MALFORMED: Fault, "wqe-malformed", "control-path 7.5; data-path 1, 5.1, 7.2";
    /// The engine was made to send a packet that no RoCEv2 engine sends.
    WIRE_BITS: Lint, "wire-bits", "—, InfiniBand";
}

/// Findings kept as text; later ones are only counted.
const KEPT: usize = 1024;

/// One error of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Severity.
    pub class: Class,
    /// A stable short name ([`Kind::name`]).
    pub kind: &'static str,
    /// The function concerned.
    pub function: u8,
    /// Human-readable details.
    pub text: String,
    /// Simulated time.
    pub time: Ns,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{} ns] function {}: {:?} {}: {}",
            self.time.0, self.function, self.class, self.kind, self.text
        )
    }
}

/// All findings of a simulator: the first ones in full, the rest as counts.
#[derive(Debug, Default)]
pub(crate) struct Log {
    kept: Vec<Finding>,
    counts: BTreeMap<(u8, &'static str), u64>,
}

impl Log {
    pub(crate) fn add(&mut self, time: Ns, function: u8, kind: Kind, text: String) {
        *self.counts.entry((function, kind.name)).or_default() += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Finding {
                class: kind.class,
                kind: kind.name,
                function,
                text,
                time,
            });
        }
    }

    /// Adds the findings of `other`, which were made meanwhile, and clears them there.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        if other.counts.is_empty() {
            return;
        }
        for (kind, count) in std::mem::take(&mut other.counts) {
            *self.counts.entry(kind).or_default() += count;
        }
        self.kept.append(&mut other.kept);
        self.kept.truncate(KEPT);
    }

    pub(crate) fn kept(&self) -> &[Finding] {
        &self.kept
    }

    pub(crate) fn counts(&self) -> Vec<(u8, &'static str, u64)> {
        self.counts
            .iter()
            .map(|(&(function, kind), &n)| (function, kind, n))
            .collect()
    }

    /// Returns and clears the findings so far.
    pub(crate) fn take(&mut self) -> Vec<Finding> {
        self.counts.clear();
        std::mem::take(&mut self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_bounded_and_counts_are_not() {
        let mut log = Log::default();
        for n in 0..(KEPT as u64 + 5) {
            log.add(Ns(n), 1, kind::REGISTER_BITS, String::new());
        }
        log.add(Ns(0), 0, kind::DMA_FREED, "late".to_owned());
        assert_eq!(log.kept().len(), KEPT);
        assert_eq!(
            log.counts(),
            [
                (0, kind::DMA_FREED.name, 1),
                (1, kind::REGISTER_BITS.name, KEPT as u64 + 5)
            ]
        );
        assert_eq!(log.take().len(), KEPT);
        assert_eq!(log.counts(), []);
    }

    #[test]
    fn a_finding_reads_as_one_line() {
        let finding = Finding {
            class: Class::Fault,
            kind: kind::DMA_UNMAPPED.name,
            function: 3,
            text: "read of 8 bytes at 0x1000".to_owned(),
            time: Ns(12),
        };
        assert_eq!(
            finding.to_string(),
            "[12 ns] function 3: Fault dma-unmapped: read of 8 bytes at 0x1000"
        );
    }
}
