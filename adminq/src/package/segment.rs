//! Segments of a package (control-path 9.10).

use super::buffer::Buffers;
use super::read::{at, in_range, slice};
use super::{PackageError, Version};
use crate::bytes::le32;

/// Bytes of a segment's header.
const HEADER: usize = 44;
/// Segments of a file at most; real files have about ten.
const MOST_SEGMENTS: u32 = 256;

/// Segment type of the E810's configuration, and the name that signatures know
/// it by.
pub(super) const E810: u32 = 0x10;
/// Segment type of the description of the whole file.
pub(super) const METADATA: u32 = 0x1;
/// Segment type of a signature.
pub(super) const SIGNING: u32 = 0x1001;
/// Signature type that the E810 wants: RSA-2048.
const RSA2K: u32 = 1;

/// A segment: type, format, and the range of the file that it fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) format: Version,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Number of segments of the file.
pub(super) fn count(file: &[u8]) -> Result<u32, PackageError> {
    let header = slice(file, 0, 8u32, "header")?;
    let found = Version::decode(header, 0);
    if found != Version::new(1, 0, 0, 0) {
        return Err(PackageError::Format { found });
    }
    let count = le32(header, 4);
    in_range("number of segments", 4, count, 1, MOST_SEGMENTS)?;
    Ok(count)
}

/// Segment `number`, which is below the count.
pub(super) fn segment(file: &[u8], number: u32) -> Result<Segment, PackageError> {
    let place = at(8, (number as usize).saturating_mul(4));
    let start = le32(slice(file, place, 4u32, "list of segments")?, 0) as usize;
    let header = slice(file, start, HEADER as u32, "header of a segment")?;
    let size = le32(header, 8);
    if (size as usize) < HEADER {
        in_range(
            "size of a segment",
            at(start, 8),
            size,
            HEADER as u32,
            u32::MAX,
        )?;
    }
    slice(file, start, size, "segment")?;
    Ok(Segment {
        kind: le32(header, 0),
        format: Version::decode(header, 4),
        start,
        end: at(start, size as usize),
    })
}

impl Segment {
    /// The buffers of a configuration segment: after its header come a table of
    /// devices and a table of NVM versions.
    pub(super) fn configuration<'a>(&self, file: &'a [u8]) -> Result<Buffers<'a>, PackageError> {
        let inside = file.get(..self.end).unwrap_or(file);
        let devices = at(self.start, HEADER);
        let count = le32(slice(inside, devices, 4u32, "number of devices")?, 0);
        let bytes = u64::from(count).saturating_mul(8);
        let table = slice(inside, at(devices, 4), bytes, "table of devices")?;
        let nvm = at(at(devices, 4), table.len());
        let count = le32(slice(inside, nvm, 4u32, "number of NVM versions")?, 0);
        let bytes = u64::from(count).saturating_mul(4);
        let table = slice(inside, at(nvm, 4), bytes, "table of NVM versions")?;
        Buffers::parse(file, at(at(nvm, 4), table.len()), self.end)
    }

    /// The version in a segment of type [`METADATA`].
    pub(super) fn file_version(&self, file: &[u8]) -> Result<Version, PackageError> {
        let inside = file.get(..self.end).unwrap_or(file);
        let bytes = slice(inside, at(self.start, HEADER), 4u32, "version")?;
        Ok(Version::decode(bytes, 0))
    }
}

/// A signature: its own buffers, and the range of configuration it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signature<'a> {
    pub(super) own: Buffers<'a>,
    pub(super) configuration: Buffers<'a>,
    pub(super) start: u32,
    pub(super) count: u32,
    /// The last buffer of the range ends a download.
    pub(super) last: bool,
}

/// Bytes of the fields after the header, with the reserved ones.
const FIELDS: usize = 64;

/// The signature in `signing`; `None` when it is for another device or of
/// another type. All of it is checked.
pub(super) fn signature<'a>(
    file: &'a [u8],
    segments: u32,
    signing: &Segment,
) -> Result<Option<Signature<'a>>, PackageError> {
    let inside = file.get(..signing.end).unwrap_or(file);
    let place = at(signing.start, HEADER);
    let fields = slice(inside, place, FIELDS as u32, "fields of a signature")?;
    let field = |number: usize| le32(fields, number.saturating_mul(4));
    let own = Buffers::parse(file, at(place, FIELDS), signing.end)?;
    if field(0) != E810 || field(1) != RSA2K {
        return Ok(None);
    }
    let (number, start, count, flags) = (field(2), field(3), field(4), field(5));
    let last = segments.saturating_sub(1);
    in_range("signed segment", at(place, 8), number, 0, last)?;
    let signed = segment(file, number)?;
    if signed.kind != E810 {
        return Err(PackageError::SignedSegment {
            offset: signing.start,
            segment: number,
        });
    }
    let configuration = signed.configuration(file)?;
    let all = configuration.count();
    in_range("first signed buffer", at(place, 12), start, 0, all)?;
    let left = all.saturating_sub(start);
    in_range("number of signed buffers", at(place, 16), count, 0, left)?;
    Ok(Some(Signature {
        own,
        configuration,
        start,
        count,
        // Without bit 31 the field means nothing: an older file.
        last: flags >> 31 == 0 || flags & 1 != 0,
    }))
}
