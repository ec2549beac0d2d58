//! One CEQ entry: which completion queue has something to poll.
//!
//! The device returns the context that CREATE_CQ was given (CQCTX, 63 bits). This driver puts the
//! CQ's id into the low 32 bits, as Linux 7.2 does, and the generation of its slot above. So an
//! entry for a destroyed CQ is recognised, and no pointer ever comes from memory that the device
//! writes.

/// Bit 63, the valid bit; CQCTX is the rest (control-path 7.1). How CQCTX is
/// split is ours, see the module.
const VALID: u64 = 1 << 63;

/// CQ id in an entry whose CQ was destroyed (control-path 7.2).
pub(crate) const SCRUBBED: u32 = u32::MAX;

/// A completion queue by id and generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CqRef {
    id: u32,
    generation: u32,
}

impl CqRef {
    /// Generations count modulo this: 31 bits of CQCTX are left beside the id.
    pub const GENERATIONS: u32 = 1 << 31;

    /// CQ `id` in the life `generation` of its slot, which is taken modulo
    /// [`GENERATIONS`](Self::GENERATIONS).
    #[must_use]
    pub const fn new(id: u32, generation: u32) -> Self {
        Self {
            id,
            generation: generation & (Self::GENERATIONS - 1),
        }
    }

    /// CQ id.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.id
    }

    /// Generation of the id's slot, below [`GENERATIONS`](Self::GENERATIONS).
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Whether this is the control QP's own completion queue, id 0
    /// (control-path 7.1).
    #[must_use]
    pub const fn is_ccq(self) -> bool {
        self.id == 0
    }

    /// CQCTX: the context to give CREATE_CQ for the CQ (control-path 4.8, q8; bit 63 is clear).
    #[must_use]
    pub const fn context(self) -> u64 {
        (self.generation as u64) << 32 | self.id as u64
    }

    /// The CQ that a context, or a CEQ entry, names; bit 63 is ignored.
    #[must_use]
    pub const fn from_context(context: u64) -> Self {
        Self::new(context as u32, (context >> 32) as u32)
    }
}

impl core::fmt::Display for CqRef {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CQ {}", self.id)
    }
}

/// Whether the entry is valid in a lap of this polarity.
#[inline(always)]
pub(crate) const fn is_valid(entry: u64, polarity: bool) -> bool {
    (entry & VALID != 0) == polarity
}

/// `entry` without its CQ, and with its valid bit kept.
pub(crate) const fn scrubbed(entry: u64) -> u64 {
    (entry & VALID) | SCRUBBED as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_context_names_its_cq_again(id: u32, generation: u32) {
            let cq = CqRef::new(id, generation);
            prop_assert_eq!(cq.context() >> 63, 0);
            prop_assert_eq!(cq.context() as u32, id);
            prop_assert_eq!(CqRef::from_context(cq.context()), cq);
            prop_assert_eq!(CqRef::from_context(cq.context() | 1 << 63), cq);
            prop_assert_eq!(cq.generation(), generation % CqRef::GENERATIONS);
        }
    }

    #[test]
    fn scrubbing_keeps_the_valid_bit_only() {
        assert_eq!(scrubbed(u64::MAX), 0x8000_0000_FFFF_FFFF);
        assert_eq!(scrubbed(0x1234), 0xFFFF_FFFF);
    }

    #[test]
    fn the_ccq_is_id_0() {
        assert!(CqRef::new(0, 5).is_ccq());
        assert!(!CqRef::new(1, 0).is_ccq());
        assert_eq!(CqRef::new(12, 3).to_string(), "CQ 12");
    }
}
