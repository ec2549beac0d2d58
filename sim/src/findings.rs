//! Findings: driver errors as the device and its IOMMU detect them.
//!
//! A driver test ends by asserting that [`Sim::findings`](crate::Sim::findings) is empty. A
//! **fault** is an operation that the device could not carry out. A **lint** is an operation that
//! the device carries out but that a driver should not request.

use std::collections::BTreeMap;
use std::fmt;

use e810_hal::Ns;

pub use crate::pe::Class;

/// Stable names of the findings that are recorded outside the protocol engine.
pub mod kind {
    /// The device accessed an IOVA that is not mapped.
    pub const DMA_UNMAPPED: &str = "dma-unmapped";
    /// The device accessed memory that has been unmapped.
    pub const DMA_FREED: &str = "dma-freed";
    /// The device accessed memory past the end of a mapping.
    pub const DMA_BOUNDS: &str = "dma-bounds";
    /// The device wrote to memory that was mapped read-only.
    pub const DMA_READ_ONLY: &str = "dma-read-only";
    /// A mapping overlaps another one, or its address is not valid.
    pub const DMA_OVERLAP: &str = "dma-overlap";
    /// A queue word at an address that is not a multiple of 8.
    pub const DMA_MISALIGNED: &str = "dma-misaligned";
    /// The driver requested work that needs DMA while Bus Master Enable was clear.
    pub const DMA_NO_MASTER: &str = "dma-no-bus-master";
    /// The driver requested work that sends an MSI-X message while Bus Master Enable was clear.
    pub const MSIX_NO_MASTER: &str = "msix-no-bus-master";
    /// Memory was freed that was not allocated, or twice, or with another size.
    pub const BAD_FREE: &str = "bad-free";
    /// Memory changed after it was freed.
    pub const USE_AFTER_FREE: &str = "use-after-free";
    /// An access to BAR0 at an offset without a known register.
    pub const REGISTER_UNKNOWN: &str = "register-unknown";
    /// A read of a register whose read value is not known.
    pub const REGISTER_WRITE_ONLY: &str = "register-write-only";
    /// A write to a register that the driver only reads.
    pub const REGISTER_READ_ONLY: &str = "register-read-only";
    /// A value with bits set that the register does not have.
    pub const REGISTER_BITS: &str = "register-bits";
    /// An access that is not 32 bits wide or not aligned to 4 bytes.
    pub const REGISTER_WIDTH: &str = "register-width";
    /// An access to BAR0 while the function is being reset.
    pub const REGISTER_IN_RESET: &str = "register-in-reset";
    /// A ring of the AdminQ that cannot be used: an index outside, or a queue that is off.
    pub const ADMINQ_RING: &str = "adminq-ring";
    /// A descriptor of the AdminQ whose flags and lengths do not fit together.
    pub const ADMINQ_DESCRIPTOR: &str = "adminq-descriptor";
    /// A command of the AdminQ names a VSI, node or queue that is not there.
    pub const ADMINQ_UNKNOWN_OBJECT: &str = "adminq-unknown-object";
    /// A command of the AdminQ removes an object that is in use.
    pub const ADMINQ_IN_USE: &str = "adminq-in-use";
    /// A tail of a LAN queue outside its ring.
    pub const LAN_RING: &str = "lan-ring";
    /// A packet of a LAN transmit queue that the device cannot send as its descriptors say.
    pub const LAN_PACKET: &str = "lan-packet";
    /// An interrupt cause names a vector that the function does not have.
    pub const VECTOR_RANGE: &str = "vector-range";
    /// A vector was freed that was not allocated.
    pub const VECTOR_FREE: &str = "vector-free";
    /// A freed vector fired: a cause is still routed to it.
    pub const VECTOR_FREED: &str = "vector-freed";
}

/// Findings kept as text; later ones are only counted.
const KEPT: usize = 1024;

/// One error of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Severity.
    pub class: Class,
    /// A stable short name, for example [`kind::DMA_UNMAPPED`].
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
    pub(crate) fn add(
        &mut self,
        time: Ns,
        function: u8,
        class: Class,
        kind: &'static str,
        text: String,
    ) {
        *self.counts.entry((function, kind)).or_default() += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Finding {
                class,
                kind,
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
            log.add(Ns(n), 1, Class::Lint, kind::REGISTER_BITS, String::new());
        }
        log.add(Ns(0), 0, Class::Fault, kind::DMA_FREED, "late".to_owned());
        assert_eq!(log.kept().len(), KEPT);
        assert_eq!(
            log.counts(),
            [
                (0, kind::DMA_FREED, 1),
                (1, kind::REGISTER_BITS, KEPT as u64 + 5)
            ]
        );
        assert_eq!(log.take().len(), KEPT);
        assert_eq!(log.counts(), []);
    }

    #[test]
    fn a_finding_reads_as_one_line() {
        let finding = Finding {
            class: Class::Fault,
            kind: kind::DMA_UNMAPPED,
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
