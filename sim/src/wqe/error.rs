//! Reasons why an entry cannot be executed, and the AE that each raises.

use super::AeCode;
use super::inline::MAX_INLINE;

/// A queue entry that the device cannot execute.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WqeError {
    /// The opcode is not defined for GEN_2 (data-path 1.5).
    #[error("opcode {0:#04x} is not one of GEN_2's")]
    UnknownOpcode(u8),
    /// A fragment that ADDFRAGCNT counts does not carry the valid bit of this lap.
    #[error("fragment {index} does not carry the valid bit of this lap")]
    FragmentNotValid {
        /// Its number in the entry; the one in the first quantum is 0.
        index: u8,
    },
    /// The trailer of an inline quantum does not carry the valid bit of this lap.
    #[error("inline quantum {quantum} does not carry the valid bit of this lap")]
    InlineNotValid {
        /// Its number in the entry; the header is in quantum 0.
        quantum: u8,
    },
    /// More inline data than GEN_2 supports.
    #[error("{0} bytes of inline data; GEN_2 takes at most {MAX_INLINE}")]
    InlineTooLong(u8),
    /// ADDFRAGCNT needs more quanta than an entry has.
    #[error("ADDFRAGCNT {count} does not fit the {quanta} quanta of the entry")]
    TooManyFragments {
        /// ADDFRAGCNT.
        count: u8,
        /// Quanta of the longest entry allowed here.
        quanta: u8,
    },
    /// The entry crosses a chunk of eight quanta (data-path 1.1).
    #[error("an entry of {quanta} quanta at index {index} crosses a 256-byte chunk")]
    CrossesChunk {
        /// Ring index of the first quantum.
        index: u16,
        /// Length of the entry.
        quanta: u8,
    },
    /// Fewer words were given than the entry has.
    #[error("{given} words given for an entry of {needed}")]
    Short {
        /// Words given.
        given: usize,
        /// Words of the entry.
        needed: usize,
    },
}

impl WqeError {
    /// The AE that reports it. That the device checks valid bits and lengths in this way is
    /// \[inf wqe_checks\] (data-path 11).
    #[must_use]
    pub fn ae(self) -> AeCode {
        match self {
            Self::UnknownOpcode(_) => AeCode::WQE_UNEXPECTED_OPCODE,
            Self::FragmentNotValid { .. } | Self::InlineNotValid { .. } => {
                AeCode::WQE_INVALID_FRAG_DATA
            }
            Self::InlineTooLong(_)
            | Self::TooManyFragments { .. }
            | Self::CrossesChunk { .. }
            | Self::Short { .. } => AeCode::WQE_INVALID_PARAMETER,
        }
    }
}
