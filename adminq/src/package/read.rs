//! Bounds-checked reads of an untrusted file; errors name the offset.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::PackageError;

/// `offset + more`; a sum that does not fit is outside of any file.
pub(super) const fn at(offset: usize, more: usize) -> usize {
    offset.saturating_add(more)
}

/// The `len` bytes at `offset`; errors name them `what`.
pub(super) fn slice<'a>(
    file: &'a [u8],
    offset: usize,
    len: impl Into<u64>,
    what: &'static str,
) -> Result<&'a [u8], PackageError> {
    let needed = len.into();
    let rest = file.get(offset..).unwrap_or_default();
    usize::try_from(needed)
        .ok()
        .and_then(|len| rest.get(..len))
        .ok_or(PackageError::Truncated {
            what,
            offset,
            needed,
            there: rest.len(),
        })
}

/// The structure at `offset`, in place, without copying a byte; errors name it `what`.
pub(super) fn layout<'a, T>(
    file: &'a [u8],
    offset: usize,
    what: &'static str,
) -> Result<&'a T, PackageError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let bytes = slice(file, offset, size_of::<T>() as u64, what)?;
    // As long as it has to be, and of no alignment: never refused.
    T::ref_from_bytes(bytes).map_err(|_| PackageError::Truncated {
        what,
        offset,
        needed: size_of::<T>() as u64,
        there: bytes.len(),
    })
}

/// Refuses a `value` outside of `min..=max`.
pub(super) fn in_range(
    what: &'static str,
    offset: usize,
    value: u32,
    min: u32,
    max: u32,
) -> Result<(), PackageError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(PackageError::Range {
        what,
        offset,
        value,
        min,
        max,
    })
}
