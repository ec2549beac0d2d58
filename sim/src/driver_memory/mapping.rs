//! Mappings of the driver's own memory, and the DMA segments they are split into.

use std::fs::File;

use e810_hal::{Access, DmaError, DmaSegment, Iova, Mapping, ProgramBytes, SharedBytes};

use super::{Allocation, DriverMemory};
use crate::iommu::{PAGE, Target, Window};
use crate::program_memory::AttachedMemory;

/// How the driver's mapped memory is split into DMA segments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DmaSegmentation {
    /// One segment, as with an IOMMU.
    Contiguous,
    /// One segment per page, in random order, as on a machine without an IOMMU.
    PerPage,
    /// Segments of one to four pages, in random order.
    Chunks,
    /// One segment for each aligned block of this many bytes (a power of two, at least a page), in
    /// random order. The offset in a block is the same for the device and the CPU, as with large
    /// pages and no IOMMU.
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
        let target = match self.checked_access {
            true => Target::Checked(memory),
            false => Target::Direct(memory),
        };
        self.map_target(target, access, self.segments)
    }

    /// Maps memory of an attached program, in one segment: how long it takes does not depend on how
    /// much it is, because all programs wait meanwhile.
    pub(crate) fn dma_map_program(
        &mut self,
        memory: ProgramBytes,
        access: Access,
    ) -> Result<Mapping, DmaError> {
        let ProgramBytes {
            program,
            address,
            len,
        } = memory;
        let memory = self.programs.get(&program);
        let Some(memory) = memory.filter(|memory| memory.reaches(address, len)) else {
            return Err(DmaError::NotAccessible {
                address,
                bytes: len,
                access,
            });
        };
        let window = Window {
            memory,
            address,
            len,
        };
        self.map_target(
            Target::Attached(window),
            access,
            DmaSegmentation::Contiguous,
        )
    }

    fn map_target(
        &mut self,
        memory: Target,
        access: Access,
        segmentation: DmaSegmentation,
    ) -> Result<Mapping, DmaError> {
        let (address, bytes) = (memory.address(), memory.len());
        if bytes == 0 || address.checked_add(bytes as u64).is_none() {
            return Err(DmaError::BadRange { address, bytes });
        }
        self.counts.map_requests += 1;
        if self.fails_now(Allocation::Map) {
            return Err(DmaError::Refused { address, bytes });
        }
        // Memory that is already mapped gets new IOVAs too. Sharing one mapping among all users of
        // the same addresses would be wrong: the mapping outlives the memory behind it, and a later
        // user of the addresses means other memory.
        let (block, most_blocks) = self.cut(segmentation);
        let mut segments: Vec<DmaSegment> = Vec::new();
        let mut done = 0;
        while done < bytes {
            let at = address + done as u64;
            let to_boundary = block - at % block;
            let blocks = most_blocks.map(|most| self.rng.below(most));
            let most = blocks.map_or(u64::MAX, |blocks| to_boundary + blocks * block);
            let len = ((bytes - done) as u64).min(most);
            let segment = self.map_segment(memory, done, len, block, access);
            let Some(iova) = segment else {
                self.unmap_segments(&segments);
                return Err(DmaError::OutOfMemory {
                    bytes,
                    align: PAGE as usize,
                });
            };
            segments.push(DmaSegment {
                iova: Iova(iova),
                bytes: len,
            });
            done += len as usize;
        }
        Ok(self.enter(segments))
    }

    /// Maps one segment of `memory`; returns its IOVA.
    fn map_segment(
        &mut self,
        memory: Target,
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

    /// Maps `memory` in one segment, at a page of its own.
    pub(crate) fn map_whole(
        &mut self,
        memory: SharedBytes,
        access: Access,
    ) -> Result<Mapping, DmaError> {
        let (address, bytes) = (memory.address(), memory.len());
        let place = self.iommu.place_in_page(bytes as u64, address % PAGE);
        let iova = place.ok_or(DmaError::NoAddresses { bytes })?;
        self.map_at(iova, memory, access)
    }

    /// A program's memory can be mapped from now on, as far as it lends it.
    pub(crate) fn attach_program(&mut self) -> u64 {
        self.last_program += 1;
        self.programs
            .insert(self.last_program, AttachedMemory::leak());
        self.last_program
    }

    /// The memory of an attached program.
    pub(crate) fn program(&self, program: u64) -> Option<&'static AttachedMemory> {
        self.programs.get(&program).copied()
    }

    /// An attached program lends all of its memory.
    pub(crate) fn lend_process(&mut self, program: u64, memory: File) {
        if let Some(program) = self.programs.get(&program) {
            program.lend_process(memory);
            self.has_far_programs = true;
        }
    }

    /// Whether there are programs whose memory takes a system call for each access.
    pub(crate) fn has_far_programs(&self) -> bool {
        self.has_far_programs
    }

    /// Its memory is not reached any more.
    pub(crate) fn detach_program(&mut self, program: u64) {
        if let Some(memory) = self.programs.remove(&program) {
            memory.end();
        }
        self.has_far_programs &= !self.programs.is_empty();
    }

    /// Maps `memory` at the caller's address, in one segment.
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

    fn enter(&mut self, segments: Vec<DmaSegment>) -> Mapping {
        let mapping = Mapping {
            id: self.next_mapping,
            segments: segments.len() as u32,
        };
        self.next_mapping += 1;
        self.counts.mappings += 1;
        self.counts.mapped_bytes += segments.iter().map(|segment| segment.bytes).sum::<u64>();
        self.mappings.insert(mapping.id, segments);
        mapping
    }

    /// Size of the blocks at which the next mapping is cut, and the most blocks in one segment;
    /// `None`: no limit.
    fn cut(&mut self, segmentation: DmaSegmentation) -> (u64, Option<u64>) {
        let segments = match segmentation {
            DmaSegmentation::Seeded => match self.rng.below(3) {
                0 => DmaSegmentation::Contiguous,
                1 => DmaSegmentation::PerPage,
                _ => DmaSegmentation::Chunks,
            },
            fixed => fixed,
        };
        match segments {
            DmaSegmentation::Contiguous | DmaSegmentation::Seeded => (PAGE, None),
            DmaSegmentation::PerPage => (PAGE, Some(1)),
            DmaSegmentation::Chunks => (PAGE, Some(4)),
            DmaSegmentation::Blocks(bytes) => (bytes.next_power_of_two().max(PAGE), Some(1)),
        }
    }

    pub(crate) fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        self.mappings.get(&mapping.id)?.get(index as usize).copied()
    }

    pub(crate) fn dma_unmap(&mut self, mapping: Mapping) {
        if let Some(segments) = self.mappings.remove(&mapping.id) {
            self.counts.mappings -= 1;
            self.counts.mapped_bytes -= segments.iter().map(|segment| segment.bytes).sum::<u64>();
            self.unmap_segments(&segments);
        }
    }

    fn unmap_segments(&mut self, segments: &[DmaSegment]) {
        for segment in segments {
            self.iommu.unmap(segment.iova.0);
        }
    }
}
