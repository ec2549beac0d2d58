//! Segments of a package (control-path 9.10).

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::buffer::Buffers;
use super::read::{at, in_range, layout, slice};
use super::{PackageError, Version};

/// The beginning of a file; the segments' offsets follow.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FileHeader {
    format: [u8; 4],
    segments: U32,
}

/// The beginning of a segment.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    kind: U32,
    format: [u8; 4],
    size: U32,
    _name: [u8; 32],
}

/// Bytes of a segment's header.
const HEADER: usize = size_of::<Header>();
const _: () = assert!(HEADER == 44);
/// Upper limit of the segments of a file; real files have about ten.
const MOST_SEGMENTS: u32 = 256;

/// Segment type of the E810's configuration; signatures name it by the same number.
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
    let header = layout::<FileHeader>(file, 0, "header")?;
    let found = Version::from(header.format);
    if found != Version::new(1, 0, 0, 0) {
        return Err(PackageError::Format { found });
    }
    let count = header.segments.get();
    in_range("number of segments", 4, count, 1, MOST_SEGMENTS)?;
    Ok(count)
}

/// Segment `number`, which is below the count.
pub(super) fn segment(file: &[u8], number: u32) -> Result<Segment, PackageError> {
    let before = (number as usize).saturating_mul(size_of::<U32>());
    let place = at(size_of::<FileHeader>(), before);
    let start = layout::<U32>(file, place, "list of segments")?.get() as usize;
    let header = layout::<Header>(file, start, "header of a segment")?;
    let size = header.size.get();
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
        kind: header.kind.get(),
        format: header.format.into(),
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
        let count = layout::<U32>(inside, devices, "number of devices")?.get();
        let bytes = u64::from(count).saturating_mul(8);
        let table = slice(inside, at(devices, 4), bytes, "table of devices")?;
        let nvm = at(at(devices, 4), table.len());
        let count = layout::<U32>(inside, nvm, "number of NVM versions")?.get();
        let bytes = u64::from(count).saturating_mul(4);
        let table = slice(inside, at(nvm, 4), bytes, "table of NVM versions")?;
        Buffers::parse(file, at(at(nvm, 4), table.len()), self.end)
    }

    /// The version in a segment of type [`METADATA`].
    pub(super) fn file_version(&self, file: &[u8]) -> Result<Version, PackageError> {
        let inside = file.get(..self.end).unwrap_or(file);
        let version = layout::<[u8; 4]>(inside, at(self.start, HEADER), "version")?;
        Ok(Version::from(*version))
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

/// The fields after the header of a signature.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    /// Segment type of the device that it is for.
    device: U32,
    /// Type of the signature.
    kind: U32,
    /// Number of the segment that is signed.
    segment: U32,
    /// Its first signed buffer.
    first: U32,
    /// How many are signed.
    count: U32,
    flags: U32,
    _reserved: [U32; 10],
}

const _: () = assert!(size_of::<Fields>() == 64);

/// The signature in `signing`; `None` when it is for another device or of
/// another type. All of it is checked.
pub(super) fn signature<'a>(
    file: &'a [u8],
    segments: u32,
    signing: &Segment,
) -> Result<Option<Signature<'a>>, PackageError> {
    let inside = file.get(..signing.end).unwrap_or(file);
    let place = at(signing.start, HEADER);
    let fields = layout::<Fields>(inside, place, "fields of a signature")?;
    let own = Buffers::parse(file, at(place, size_of::<Fields>()), signing.end)?;
    if fields.device.get() != E810 || fields.kind.get() != RSA2K {
        return Ok(None);
    }
    let number = fields.segment.get();
    let (start, count) = (fields.first.get(), fields.count.get());
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
    let flags = fields.flags.get();
    Ok(Some(Signature {
        own,
        configuration,
        start,
        count,
        // Without bit 31 the field means nothing: an older file.
        last: flags >> 31 == 0 || flags & 1 != 0,
    }))
}
