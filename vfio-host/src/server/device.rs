//! What the messages of a user do to a served function.
//!
//! Nothing here is answered with an error: there are clients that wait for
//! ever on one. What cannot be done is counted, and what the device then
//! cannot reach is a finding of its own.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{Access, Vector};
use e810_sim::SimPlatform;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use super::config_space::{BAR3_LEN, ConfigSpace, Effect, PBA, Place};
use super::interrupts::Interrupts;
use super::mappings::Mappings;

/// What passed between the users of a function and its server.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) users: AtomicU64,
    pub(super) most_maps: AtomicU64,
    pub(super) refused_maps: AtomicU64,
    pub(super) refused_irqs: AtomicU64,
}

/// One served function.
#[derive(Debug)]
pub(super) struct Device {
    nic: SimPlatform,
    config: ConfigSpace,
    interrupts: Arc<Interrupts>,
    mappings: Mappings,
    counts: Arc<Counts>,
}

impl Device {
    pub(super) fn new(
        nic: SimPlatform,
        place: &Place,
        interrupts: Arc<Interrupts>,
        counts: Arc<Counts>,
    ) -> Self {
        // As after power-up.
        nic.set_bus_master(false);
        nic.power_up_msix();
        Self {
            config: ConfigSpace::new(place),
            nic,
            interrupts,
            mappings: Mappings::default(),
            counts,
        }
    }

    /// The user left, in order or not: the function is reset, then everything
    /// the user gave goes.
    pub(super) fn user_left(&mut self) {
        self.nic.abandon();
        self.interrupts.clear();
        self.mappings = Mappings::default();
        // As the kernel leaves a function that its user gives back.
        self.config.power_up();
        self.follow_command();
        self.counts.users.fetch_add(1, Ordering::Relaxed);
    }

    /// FLR through configuration space, which it clears as far as it has to; what the user gave to
    /// the server stays.
    fn function_level_reset(&mut self) {
        self.nic.function_level_reset();
        self.config.reset();
        self.follow_command();
        self.unmask_connected();
    }

    /// The MSI-X table as the user's connections say: on and off, masked and
    /// unmasked. The kernel does the same for a user of VFIO when it connects
    /// vectors, and restores it after a reset; the bits of the MSI-X capability
    /// in configuration space are only kept.
    fn unmask_connected(&self) {
        let vectors = e810_hal::Vectors::vector_count(&self.nic);
        for vector in (0..vectors).filter_map(Vector::new) {
            let connected = self.interrupts.is_connected(vector);
            self.nic.mask_vector(vector, !connected);
        }
        self.nic.set_msix(self.interrupts.is_enabled(), false);
    }

    /// Does what the command register says now. What was written to the
    /// registers before is done first.
    fn follow_command(&self) {
        self.nic.set_bus_master(self.config.bus_master());
    }

    /// Whether the region is memory that does not answer now.
    fn is_off(&self, region: u32) -> bool {
        let bars = [VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX];
        bars.contains(&region) && !self.config.memory_enabled()
    }

    fn show(&mut self, iova: u64, file: &File, offset: u64, bytes: u64, write: bool) -> bool {
        // SAFETY: the window is given to the function alone. It loses what
        // `release` is told to before that (in `dma_unmap`), and all of it before
        // the end of the mappings (in `user_left`); where it did not take the
        // window nobody has it, and `forget` ends this piece and no other.
        let window = unsafe { self.mappings.window(iova, file, offset, bytes, write) };
        let window = match window {
            Ok(window) => window,
            Err(error) => {
                log::warn!("{bytes:#x} bytes at IOVA {iova:#x} were not mapped: {error}");
                return false;
            }
        };
        let access = if write {
            Access::ReadWrite
        } else {
            Access::Read
        };
        let done = self.nic.attach_memory(iova, window, access);
        if !done {
            self.mappings.forget(iova);
        }
        done
    }
}

impl ServerBackend for Device {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match region {
            _ if self.is_off(region) => data.fill(0xff),
            VFIO_PCI_BAR0_REGION_INDEX => self.nic.bar0_read(offset, data),
            VFIO_PCI_CONFIG_REGION_INDEX => self.config.read(offset, data),
            VFIO_PCI_BAR3_REGION_INDEX => self.nic.bar3_read(offset, data),
            _ => data.fill(0xff),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        match region {
            _ if self.is_off(region) => {}
            VFIO_PCI_BAR0_REGION_INDEX => self.nic.bar0_write(offset, data),
            VFIO_PCI_CONFIG_REGION_INDEX => match self.config.write(offset, data) {
                Effect::None => self.follow_command(),
                Effect::Reset => self.function_level_reset(),
            },
            VFIO_PCI_BAR3_REGION_INDEX => self.nic.bar3_write(offset, data),
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        // Memory without a file (a ROM, another device's BAR) is nothing that
        // this device is told to reach.
        let Some(file) = fd else {
            log::debug!("{size:#x} bytes at IOVA {address:#x} have no file");
            return Ok(());
        };
        let write = flags.contains(DmaMapFlags::WRITE);
        if self.show(address, &file, offset, size, write) {
            let maps = self.mappings.pieces() as u64;
            self.counts.most_maps.fetch_max(maps, Ordering::Relaxed);
        } else {
            self.counts.refused_maps.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let (address, size) = if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            (0, u64::MAX)
        } else {
            (address, size)
        };
        self.nic.detach_memory(address, size);
        self.mappings.release(address, size);
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.nic.function_level_reset();
        self.config.stop_master();
        self.follow_command();
        self.unmask_connected();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        // The other kinds of interrupt are not there: nothing to connect.
        if index != VFIO_PCI_MSIX_IRQ_INDEX {
            return Ok(());
        }
        if self.interrupts.set(flags, start, count, fds) {
            self.unmask_connected();
        } else {
            log::warn!("SET_IRQS {flags:#x} for {count} vectors from {start} on means nothing");
            self.counts.refused_irqs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// BAR3 holds the table and, behind it, the pending bits, where the capability
/// says.
const _: () = assert!(PBA as u64 == e810_sim::msix::PBA && (PBA as u64) < BAR3_LEN);
