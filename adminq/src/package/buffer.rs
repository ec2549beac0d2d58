//! Buffers of a package: what is sent to the firmware, 4096 bytes each.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::PackageError;
use super::read::{at, in_range, layout, slice};

/// Bytes of a buffer.
pub(super) const BYTES: usize = 4096;
/// This bit in the type of the first section marks buffers that are not for the firmware.
const METADATA: u32 = 1 << 31;
/// The beginning of a buffer; entries of sections follow.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    /// Sections of the buffer.
    sections: U16,
    /// Where its data end.
    end: U16,
}

/// An entry of a buffer's list of sections.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    kind: U32,
    offset: U16,
    size: U16,
}

/// A table of buffers, all checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Buffers<'a> {
    /// The table at `offset` of the file, which must end within `end`: a count,
    /// then buffers.
    pub(super) fn parse(file: &'a [u8], offset: usize, end: usize) -> Result<Self, PackageError> {
        let inside = file.get(..end).unwrap_or(file);
        let count = layout::<U32>(inside, offset, "number of buffers")?.get();
        let first = at(offset, 4);
        let needed = u64::from(count).saturating_mul(BYTES as u64);
        let bytes = slice(inside, first, needed, "table of buffers")?;
        let buffers = Self { bytes, count };
        for (number, buffer) in buffers.all().enumerate() {
            check(buffer, at(first, number.saturating_mul(BYTES)))?;
        }
        Ok(buffers)
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks_exact(BYTES)
    }

    /// The buffers from `start` on, `count` of them, up to the first that is
    /// not for the firmware.
    pub(super) fn for_firmware(
        &self,
        start: u32,
        count: u32,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.all()
            .skip(start as usize)
            .take(count as usize)
            .take_while(|buffer| !is_metadata(buffer))
    }

    /// All sections: type, and the bytes.
    pub(super) fn sections(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        self.all().flat_map(|buffer| {
            entries(buffer).iter().map(move |entry| {
                let from = usize::from(entry.offset.get());
                let to = from.saturating_add(entry.size.get().into());
                (entry.kind.get(), buffer.get(from..to).unwrap_or_default())
            })
        })
    }
}

/// The entries that a buffer claims, as far as there is room for them.
fn entries(buffer: &[u8]) -> &[Entry] {
    let Ok((header, list)) = Header::ref_from_prefix(buffer) else {
        return &[];
    };
    let room = list.len() / size_of::<Entry>();
    let count = usize::from(header.sections.get()).min(room);
    <[Entry]>::ref_from_prefix_with_elems(list, count).map_or(&[], |(entries, _)| entries)
}

/// Whether a buffer is not for the firmware, which the type of its first section says.
fn is_metadata(buffer: &[u8]) -> bool {
    let first = buffer.get(size_of::<Header>()..);
    first
        .and_then(|list| U32::read_from_prefix(list).ok())
        .is_some_and(|(kind, _)| kind.get() & METADATA != 0)
}

/// The limits are those of `ice/ice_ddp.h`: a header and one section entry are
/// 12 bytes, and so much cannot be data.
fn check(buffer: &[u8], offset: usize) -> Result<(), PackageError> {
    let header = layout::<Header>(buffer, 0, "header of a buffer")?;
    let count = header.sections.get().into();
    in_range("number of sections", offset, count, 1, 511)?;
    let end = header.end.get().into();
    in_range("end of the data in a buffer", at(offset, 2), end, 12, 4096)?;
    for (number, entry) in entries(buffer).iter().enumerate() {
        let before = number.saturating_mul(size_of::<Entry>());
        let place = at(at(offset, size_of::<Header>()), before);
        let from = u32::from(entry.offset.get());
        in_range("offset of a section", at(place, 4), from, 12, 4095)?;
        let most = 4096u32.saturating_sub(from).min(4084);
        let size = entry.size.get().into();
        in_range("size of a section", at(place, 6), size, 1, most)?;
    }
    Ok(())
}
