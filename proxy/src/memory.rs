//! Memory of the driver that the device sees, at the addresses that the driver gave.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use e810_backends::{BackendError, DmaRegion, Transport};
use e810_hal::{Access, Iova};
use e810_sim_server::mappings::Mappings;
use e810_sim_server::messages::{DmaMap, MAP_WRITE};
use e810_trace::Event;

use crate::shared::Shared;

/// Why the device does not get a piece of memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMapped {
    #[error("only whole pages of {0} bytes can be mapped")]
    Parts(u64),
    #[error("part of it is mapped already")]
    Twice,
    #[error("the IOMMU of this machine reserves part of it; its ranges are {0:x?}")]
    Reserved(Vec<(u64, u64)>),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Device(#[from] BackendError),
}

/// The pieces of one driver.
#[derive(Debug)]
pub(crate) struct Memory {
    mappings: Mappings,
    /// What the transport has mapped: address and bytes.
    pieces: BTreeMap<u64, u64>,
}

impl Memory {
    pub(crate) fn of(user: Arc<UnixStream>) -> Self {
        Self {
            mappings: Mappings::of(user),
            pieces: BTreeMap::new(),
        }
    }

    /// Pieces, address and bytes, that have a byte of the `bytes` at `iova`.
    fn overlapping(&self, iova: u64, bytes: u64) -> Vec<(u64, u64)> {
        let below = self.pieces.range(..iova.saturating_add(bytes)).rev();
        let below = below.map(|(start, bytes)| (*start, *bytes));
        below
            .take_while(|(start, bytes)| start.saturating_add(*bytes) > iova)
            .collect()
    }

    /// Lets the device see the part of `file` that `map` names.
    pub(crate) fn map<T: Transport, W: Write + Send + std::fmt::Debug>(
        &mut self,
        transport: &T,
        shared: &Shared<W>,
        map: &DmaMap,
        file: &File,
    ) -> Result<(), NotMapped> {
        let (iova, bytes, offset) = (map.address, map.size, map.offset);
        let properties = transport.properties();
        let page = properties.page.max(8);
        if bytes == 0 || !iova.is_multiple_of(page) || !bytes.is_multiple_of(page) {
            return Err(NotMapped::Parts(page));
        }
        if !self.overlapping(iova, bytes).is_empty() {
            return Err(NotMapped::Twice);
        }
        // Only ranges of a real IOMMU bind. Those of a served function are this project's choice.
        let last = iova.saturating_add(bytes.saturating_sub(1));
        let ranges = &properties.iova_ranges;
        let fits = |(first, end): &(u64, u64)| *first <= iova && last <= *end;
        if properties.maps_any_memory && !ranges.iter().any(fits) {
            return Err(NotMapped::Reserved(ranges.clone()));
        }
        let is_writable = map.flags & MAP_WRITE != 0;
        // SAFETY: the transport and `shared` lose it in `unmap`, before it is released; if the
        // transport did not take it, nobody has it.
        let window = unsafe { self.mappings.window(iova, file, offset, bytes, is_writable) }?;
        let region = DmaRegion {
            iova,
            bytes,
            address: window.as_ptr(),
            file: Some((file.as_fd(), offset)),
            access: if is_writable {
                Access::ReadWrite
            } else {
                Access::Read
            },
        };
        // SAFETY: as above.
        if let Err(error) = unsafe { transport.map(&region) } {
            self.mappings.forget(iova);
            return Err(error.into());
        }
        self.pieces.insert(iova, bytes);
        let words = window.as_ptr().cast();
        let len = usize::try_from(bytes / 8).unwrap_or(0);
        // SAFETY: mapped until `unmap`, which removes it first; only atomics are used on it.
        unsafe { shared.memory.insert(Iova(iova), words, len, is_writable) };
        Ok(())
    }

    /// Takes all pieces from the device that overlap `bytes` bytes at `iova`: drivers and virtual
    /// machines take whole pieces, as VFIO demands.
    pub(crate) fn unmap<T: Transport, W: Write + Send + std::fmt::Debug>(
        &mut self,
        transport: &T,
        shared: &Shared<W>,
        iova: u64,
        bytes: u64,
    ) -> Result<(), BackendError> {
        for (start, bytes) in self.overlapping(iova, bytes) {
            shared.unmapped(Iova(start), bytes);
            shared.memory.remove(Iova(start));
            transport.unmap(start, bytes)?;
            self.pieces.remove(&start);
            self.mappings.release(start, bytes);
        }
        Ok(())
    }

    /// Whether a file was cut: it has zeros now.
    pub(crate) fn has_cut_file(&self) -> bool {
        self.mappings.has_cut_file()
    }
}

/// The line of a map.
pub(crate) fn mapped(map: &DmaMap) -> Event {
    let (at, bytes) = (map.address, map.size);
    Event::Mapped {
        at: e810_trace::record::Hex(at),
        bytes,
        is_writable: map.flags & MAP_WRITE != 0,
    }
}
