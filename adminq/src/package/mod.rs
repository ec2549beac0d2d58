//! The DDP package, which configures the card's parser for its protocols, RoCEv2 among
//! them (control-path 9.10).
//!
//! [`Package::parse`] checks the whole file before anything is sent; [`load`] downloads it,
//! or finds that another function of the card already did.

mod buffer;
mod error;
mod load;
mod read;
mod segment;

use core::fmt;

use crate::bytes::array;
use buffer::Buffers;
use segment::Segment;

pub use error::PackageError;
pub use load::{LoadFailed, Loaded, LoadedBy, load};

/// A version of a package or of its format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Version {
    /// Major.
    pub major: u8,
    /// Minor.
    pub minor: u8,
    /// Update.
    pub update: u8,
    /// Draft.
    pub draft: u8,
}

impl Version {
    /// A version.
    #[must_use]
    pub const fn new(major: u8, minor: u8, update: u8, draft: u8) -> Self {
        Self {
            major,
            minor,
            update,
            draft,
        }
    }

    /// The four bytes at `at`; zeros outside.
    pub(crate) fn decode(bytes: &[u8], at: usize) -> Self {
        array(bytes, at).unwrap_or_default().into()
    }

    /// Whether this driver works with a package of this version.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        self.major == 1 && self.minor == 3
    }
}

impl From<[u8; 4]> for Version {
    fn from([major, minor, update, draft]: [u8; 4]) -> Self {
        Self::new(major, minor, update, draft)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            update,
            draft,
        } = self;
        write!(f, "{major}.{minor}.{update}.{draft}")
    }
}

/// Section types of the RDMA engine's packet profiles (`ICE_SID_XLT0_PE` to
/// `ICE_SID_CDID_REDIR_PE`).
const RDMA_SECTIONS: core::ops::RangeInclusive<u32> = 80..=88;
/// Section type of the package's own description.
const DESCRIPTION: u32 = 1;

/// A package file that was checked from end to end.
#[derive(Clone, Copy, Debug)]
pub struct Package<'a> {
    file: &'a [u8],
    segments: u32,
    version: Version,
    format: Version,
    configuration: Buffers<'a>,
    signed: bool,
    rdma: bool,
}

/// A step of a download.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// A buffer of 4096 bytes.
    Buffer(&'a [u8]),
    /// The previous buffer was the last of a download.
    Last,
}

impl<'a> Package<'a> {
    /// Checks `file`: all its segments, tables, buffers and signatures that concern the E810.
    ///
    /// # Errors
    /// What is wrong, and at which offset.
    pub fn parse(file: &'a [u8]) -> Result<Self, PackageError> {
        let segments = segment::count(file)?;
        let mut ours: Option<Segment> = None;
        let mut described = None;
        for number in 0..segments {
            let segment = segment::segment(file, number)?;
            match segment.kind {
                segment::E810 if ours.is_none() => ours = Some(segment),
                segment::METADATA if described.is_none() => {
                    described = Some(segment.file_version(file)?);
                }
                _ => {}
            }
        }
        let ours = ours.ok_or(PackageError::NoSegment)?;
        let configuration = ours.configuration(file)?;
        let mut package = Self {
            file,
            segments,
            version: Version::default(),
            format: ours.format,
            configuration,
            signed: false,
            rdma: configuration
                .sections()
                .any(|(kind, _)| RDMA_SECTIONS.contains(&kind)),
        };
        package.check_signatures()?;
        // The segment describes itself; the whole file's version is second best.
        package.version = configuration
            .sections()
            .find(|(kind, section)| *kind == DESCRIPTION && section.len() >= 4)
            .map(|(_, section)| Version::decode(section, 0))
            .or(described)
            .ok_or(PackageError::NoVersion)?;
        if !package.version.is_supported() {
            return Err(PackageError::Version {
                found: package.version,
            });
        }
        Ok(package)
    }

    fn check_signatures(&mut self) -> Result<(), PackageError> {
        let (mut signatures, mut for_us) = (0u32, 0u32);
        for number in 0..self.segments {
            let segment = segment::segment(self.file, number)?;
            if segment.kind == segment::SIGNING {
                signatures = signatures.saturating_add(1);
                if segment::signature(self.file, self.segments, &segment)?.is_some() {
                    for_us = for_us.saturating_add(1);
                }
            }
        }
        if signatures > 0 && for_us == 0 {
            return Err(PackageError::NoSignature);
        }
        self.signed = signatures > 0;
        Ok(())
    }

    /// Its version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Format of the E810's segment: the firmware must know it.
    #[must_use]
    pub const fn format(&self) -> Version {
        self.format
    }

    /// Whether it is signed.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.signed
    }

    /// Whether it holds packet profiles of the RDMA engine.
    #[must_use]
    pub const fn has_rdma(&self) -> bool {
        self.rdma
    }

    /// Goes through a download step by step.
    ///
    /// # Errors
    /// What `visit` reports.
    pub fn walk<E>(&self, mut visit: impl FnMut(Step<'a>) -> Result<(), E>) -> Result<(), E>
    where
        E: From<PackageError>,
    {
        let mut send = |buffers: &Buffers<'a>, start, count, last| {
            for buffer in buffers.for_firmware(start, count) {
                visit(Step::Buffer(buffer))?;
            }
            if last { visit(Step::Last) } else { Ok(()) }
        };
        if !self.signed {
            let all = self.configuration;
            return send(&all, 0, all.count(), true);
        }
        for number in 0..self.segments {
            let segment = segment::segment(self.file, number)?;
            if segment.kind != segment::SIGNING {
                continue;
            }
            if let Some(it) = segment::signature(self.file, self.segments, &segment)? {
                send(&it.own, 0, it.own.count(), false)?;
                send(&it.configuration, it.start, it.count, it.last)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
