//! Buffers of a package: what is sent to the firmware, 4096 bytes each.

use super::PackageError;
use super::read::{at, in_range, slice};
use crate::bytes::{le16, le32};

/// Bytes of a buffer.
pub(super) const BYTES: usize = 4096;
/// First section type of buffers that are not for the firmware has this bit.
const METADATA: u32 = 1 << 31;
/// Bytes of the header and of a section entry.
const HEADER: usize = 4;
const SECTION: usize = 8;

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
        let count = le32(slice(inside, offset, 4u32, "number of buffers")?, 0);
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
            entries(buffer).map(move |entry| {
                let from = usize::from(entry.offset);
                let to = from.saturating_add(entry.size.into());
                (entry.kind, buffer.get(from..to).unwrap_or_default())
            })
        })
    }
}

/// An entry of a buffer's list of sections.
struct Entry {
    kind: u32,
    offset: u16,
    size: u16,
}

fn entries(buffer: &[u8]) -> impl Iterator<Item = Entry> + use<'_> {
    let list = buffer.get(HEADER..).unwrap_or_default();
    let count = usize::from(le16(buffer, 0));
    list.chunks_exact(SECTION).take(count).map(|entry| Entry {
        kind: le32(entry, 0),
        offset: le16(entry, 4),
        size: le16(entry, 6),
    })
}

fn is_metadata(buffer: &[u8]) -> bool {
    le32(buffer, HEADER) & METADATA != 0
}

/// The limits are those of `ice/ice_ddp.h`: a header and one section entry are
/// 12 bytes, and so much cannot be data.
fn check(buffer: &[u8], offset: usize) -> Result<(), PackageError> {
    let count = le16(buffer, 0).into();
    in_range("number of sections", offset, count, 1, 511)?;
    let end = le16(buffer, 2).into();
    in_range("end of the data in a buffer", at(offset, 2), end, 12, 4096)?;
    for (number, entry) in entries(buffer).enumerate() {
        let place = at(
            offset,
            HEADER.saturating_add(number.saturating_mul(SECTION)),
        );
        let from = u32::from(entry.offset);
        in_range("offset of a section", at(place, 4), from, 12, 4095)?;
        let most = 4096u32.saturating_sub(from);
        in_range(
            "size of a section",
            at(place, 6),
            entry.size.into(),
            1,
            most.min(4084),
        )?;
    }
    Ok(())
}
