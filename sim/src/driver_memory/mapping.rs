//! Mappings of the driver's own memory, and the DMA segments they are split into.

use e810_hal::{Access, DmaError, DmaSegment, Iova, Mapping, SharedBytes};

use super::{Allocation, DriverMemory};
use crate::iommu::PAGE;

/// How the driver's mapped memory is split into DMA segments (runs).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Runs {
    /// One run, as with an IOMMU.
    Contiguous,
    /// One run per page, in random order, as on a machine without an IOMMU.
    PerPage,
    /// Runs of one to four pages, in random order.
    Chunks,
    /// One run for each aligned block of this many bytes (a power of two of at least a page), in random order. The
    /// offset in a block is the same for the device as for the CPU, as with large pages and no IOMMU.
    Blocks(u64),
    /// One of the first three, drawn for each mapping.
    #[default]
    Seeded,
}

impl DriverMemory {
    pub(crate) fn dma_map(
        &mut self,
        memory: SharedBytes,
        access: Access,
    ) -> Result<Mapping, DmaError> {
        let (address, bytes) = (memory.address(), memory.len());
        if bytes == 0 || address.checked_add(bytes as u64).is_none() {
            return Err(DmaError::BadRange { address, bytes });
        }
        self.counts.map_requests += 1;
        if self.fails_now(Allocation::Map) {
            return Err(DmaError::Refused { address, bytes });
        }
        let mut runs: Vec<DmaSegment> = Vec::new();
        let (block, most_blocks) = self.cut();
        let mut done = 0;
        while done < bytes {
            let at = address + done as u64;
            let to_boundary = block - at % block;
            let blocks = most_blocks.map(|most| self.rng.below(most));
            let most = blocks.map_or(u64::MAX, |blocks| to_boundary + blocks * block);
            let len = ((bytes - done) as u64).min(most);
            let run = self.map_run(memory, done, len, block, access);
            let Some(iova) = run else {
                self.unmap_runs(&runs);
                return Err(DmaError::OutOfMemory {
                    bytes,
                    align: PAGE as usize,
                });
            };
            runs.push(DmaSegment {
                iova: Iova(iova),
                bytes: len,
            });
            done += len as usize;
        }
        Ok(self.enter(runs))
    }

    /// Maps one run of `memory`; returns its IOVA.
    fn map_run(
        &mut self,
        memory: SharedBytes,
        from: usize,
        len: u64,
        block: u64,
        access: Access,
    ) -> Option<u64> {
        let window = memory.window(from, len as usize).ok()?;
        let offset = window.address() % block;
        let iova = if block == PAGE {
            self.iommu.place_in_page(len, offset)?
        } else {
            self.iommu.place_aligned(offset + len, block)? + offset
        };
        self.iommu.map(iova, window, access).then_some(iova)
    }

    /// Maps `memory` at the caller's address, in one run.
    pub(crate) fn map_at(
        &mut self,
        iova: u64,
        memory: SharedBytes,
        access: Access,
    ) -> Result<Mapping, DmaError> {
        let (address, bytes) = (memory.address(), memory.len());
        if bytes == 0 || iova % PAGE != address % PAGE {
            return Err(DmaError::BadRange { address, bytes });
        }
        self.counts.map_requests += 1;
        if self.fails_now(Allocation::Map) || !self.iommu.map(iova, memory, access) {
            return Err(DmaError::Refused { address, bytes });
        }
        Ok(self.enter(vec![DmaSegment {
            iova: Iova(iova),
            bytes: bytes as u64,
        }]))
    }

    fn enter(&mut self, runs: Vec<DmaSegment>) -> Mapping {
        let mapping = Mapping {
            id: self.next_mapping,
            runs: runs.len() as u32,
        };
        self.next_mapping += 1;
        self.counts.mappings += 1;
        self.counts.mapped_bytes += runs.iter().map(|run| run.bytes).sum::<u64>();
        self.mappings.insert(mapping.id, runs);
        mapping
    }

    /// The blocks that the next mapping is cut at, and how many of them a run has at most; `None`: no limit.
    fn cut(&mut self) -> (u64, Option<u64>) {
        let runs = match self.runs {
            Runs::Seeded => match self.rng.below(3) {
                0 => Runs::Contiguous,
                1 => Runs::PerPage,
                _ => Runs::Chunks,
            },
            fixed => fixed,
        };
        match runs {
            Runs::Contiguous | Runs::Seeded => (PAGE, None),
            Runs::PerPage => (PAGE, Some(1)),
            Runs::Chunks => (PAGE, Some(4)),
            Runs::Blocks(bytes) => (bytes.next_power_of_two().max(PAGE), Some(1)),
        }
    }

    pub(crate) fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        self.mappings.get(&mapping.id)?.get(index as usize).copied()
    }

    pub(crate) fn dma_unmap(&mut self, mapping: Mapping) {
        if let Some(runs) = self.mappings.remove(&mapping.id) {
            self.counts.mappings -= 1;
            self.counts.mapped_bytes -= runs.iter().map(|run| run.bytes).sum::<u64>();
            self.unmap_runs(&runs);
        }
    }

    fn unmap_runs(&mut self, runs: &[DmaSegment]) {
        for run in runs {
            self.iommu.unmap(run.iova.0);
        }
    }
}
