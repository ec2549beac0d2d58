//! Errors of a package file.

use super::Version;

/// A package file that cannot be used: what is wrong, and where. Offsets are in
/// bytes from the start of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PackageError {
    /// The file ends inside something.
    #[error(
        "the package file is cut short: {what} at offset {offset} needs {needed} bytes, {there} are there"
    )]
    Truncated {
        /// What ends too early.
        what: &'static str,
        /// Where it begins.
        offset: usize,
        /// Bytes it needs.
        needed: u64,
        /// Bytes that are left from `offset` on.
        there: usize,
    },
    /// The file is not a package of format 1.0.0.0.
    #[error("the file is not a DDP package of format 1.0.0.0 (it begins with {found})")]
    Format {
        /// The first four bytes.
        found: Version,
    },
    /// A count or a number is outside its range.
    #[error(
        "the package file is damaged: {what} at offset {offset} is {value}, allowed is {min} to {max}"
    )]
    Range {
        /// What it is.
        what: &'static str,
        /// Where it stands.
        offset: usize,
        /// Its value.
        value: u32,
        /// Smallest value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// There is no configuration segment for the E810.
    #[error(
        "the package file has no segment for the E810: use the ice package of this card family"
    )]
    NoSegment,
    /// The file is signed, but for other devices only.
    #[error("the package file has no signature for the E810: use an unmodified package file")]
    NoSignature,
    /// A signature names something that is not the E810's configuration.
    #[error(
        "the package file is damaged: the signature at offset {offset} is for segment {segment}, which is no E810 configuration"
    )]
    SignedSegment {
        /// Where the signing segment begins.
        offset: usize,
        /// The segment it names.
        segment: u32,
    },
    /// The file says nowhere which version it is.
    #[error("the package file does not say its version")]
    NoVersion,
    /// The package is of a version that this driver does not know.
    #[error(
        "the package has version {found}, this driver needs {needed}: use such a package",
        needed = "1.3"
    )]
    Version {
        /// Its version.
        found: Version,
    },
}
