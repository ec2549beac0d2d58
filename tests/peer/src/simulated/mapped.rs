//! Memory of the process that the device sees: one run, or pages in a list.

// UNSAFETY: gives the simulated device memory of the library's.

use std::ptr::{NonNull, with_exposed_provenance_mut};

use e810_cqp::hmc::{PbleList, PbleUse};
use e810_cqp::op::{Pages, QueueMemory};
use e810_hal::{Access, DmaMap, Iova, Mapping, SharedBytes};
use e810_sim::SimPlatform;

use super::Simulated;
use crate::kernel::{Answer, Errno, Purpose, Registration};

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// Registered memory.
#[derive(Debug)]
pub(super) struct Mapped {
    mapping: Mapping,
    /// First byte in this process, and how many.
    start: u64,
    length: u64,
    /// The device's addresses of its pages, in order.
    pages: Vec<u64>,
    /// The pages as the device reads them, unless they are one run.
    list: Option<PbleList<SimPlatform>>,
    /// Index of its key and its protection domain, for payload.
    pub(super) region: Option<(u32, u32)>,
}

impl Mapped {
    /// The page that an address of this process is in, counted from the first.
    fn page_of(&self, address: u64) -> usize {
        ((address - (self.start & !(PAGE - 1))) / PAGE) as usize
    }

    fn has(&self, address: u64) -> bool {
        (self.start..self.start + self.length).contains(&address)
    }

    /// The device's address of a byte.
    fn iova(&self, address: u64) -> Option<Iova> {
        let page = self.pages.get(self.page_of(address))?;
        Some(Iova(page + address % PAGE))
    }

    /// As a region's command names it.
    pub(super) fn region_pages(&self) -> Answer<Pages> {
        match &self.list {
            Some(list) => Ok(list.region()),
            None => {
                let first = self.pages.first().ok_or(Errno::INVALID)?;
                Ok(Pages::Contiguous(Iova(*first)))
            }
        }
    }

    /// A ring that starts at `address`, the first byte of a page.
    fn queue(&self, address: u64) -> Answer<QueueMemory> {
        match self.list.as_ref().map(PbleList::queue) {
            None => Ok(QueueMemory::Contiguous(
                self.iova(address).ok_or(Errno::MISSING)?,
            )),
            Some(Some(QueueMemory::Pbles(first))) => {
                Ok(QueueMemory::Pbles(first + self.page_of(address) as u32))
            }
            Some(_) => Err(Errno::INVALID),
        }
    }
}

impl Simulated {
    /// Maps the memory of a registration; several runs get a list of pages.
    pub(super) fn map(&mut self, registration: &Registration) -> Answer<Mapped> {
        let start = with_exposed_provenance_mut(registration.start as usize);
        let start = NonNull::new(start).ok_or(Errno::INVALID)?;
        // SAFETY: the library keeps the memory until it has deregistered it,
        // which unmaps it, and shows it to Rust only as atomics; what this
        // process registers itself is leaked. In virtual time the device runs on
        // the thread that calls the library, never meanwhile.
        let memory = unsafe { SharedBytes::new(start, registration.length) };
        let mapping = self
            .nic
            .dma_map(memory, Access::ReadWrite)
            .map_err(|_| Errno::EXHAUSTED)?;
        let mut pages = Vec::new();
        for run in 0..mapping.segments {
            let run = self.nic.dma_segment(&mapping, run).ok_or(Errno::INVALID)?;
            let first = run.iova.0 & !(PAGE - 1);
            pages.extend((first..run.iova.0 + run.bytes).step_by(PAGE as usize));
        }
        let mut mapped = Mapped {
            mapping,
            start: registration.start,
            length: registration.length as u64,
            pages,
            list: None,
            region: None,
        };
        if mapped.mapping.segments > 1 {
            match self.list(&mapped.pages, registration.purpose) {
                Ok(list) => mapped.list = Some(list),
                Err(error) => {
                    self.unmap(mapped);
                    return Err(error);
                }
            }
        }
        Ok(mapped)
    }

    fn list(&mut self, pages: &[u64], purpose: Purpose) -> Answer<PbleList<SimPlatform>> {
        let purpose = match purpose {
            Purpose::Payload => PbleUse::Region,
            Purpose::Qp { .. } | Purpose::Cq => PbleUse::Queue,
        };
        let Self { hmc, cqp, .. } = self;
        let list = hmc.allocate_pbles(cqp, pages.len() as u32, purpose);
        let list = list.map_err(|error| self.refused(error))?;
        let filled = self
            .hmc
            .fill_pbles(&list, pages.iter().map(|page| Iova(*page)));
        match filled {
            Ok(()) => Ok(list),
            Err(error) => {
                self.hmc.free_pbles(list);
                Err(self.refused(error))
            }
        }
    }

    /// Takes memory away from the device, which no longer names it.
    pub(super) fn unmap(&mut self, mapped: Mapped) {
        if let Some(list) = mapped.list {
            self.hmc.free_pbles(list);
        }
        self.nic.dma_unmap(mapped.mapping);
    }

    fn mapped_at(&self, address: u64) -> Answer<&Mapped> {
        let found = self.mapped.values().find(|one| one.has(address));
        found.ok_or(Errno::MISSING)
    }

    /// The address by which the device knows a byte that was registered.
    pub(super) fn iova(&self, address: u64) -> Answer<Iova> {
        let mapped = self.mapped_at(address)?;
        mapped.iova(address).ok_or(Errno::MISSING)
    }

    /// The memory of a ring that was registered.
    pub(super) fn ring(&self, address: u64) -> Answer<QueueMemory> {
        self.mapped_at(address)?.queue(address)
    }
}
