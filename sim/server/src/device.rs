//! The effect of vfio-user messages on a served function.
//!
//! No message here is answered with an error, because some clients would then wait for ever. A
//! failure is counted; what the device then cannot access is a finding of its own.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{Access, InterruptVectors as _, Vector};
use e810_sim::{RecordedCard, Sim, SimPlatform};
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX,
};

use crate::config_space::{BAR3_LEN, ConfigSpace, Effect, PBA, Place};
use crate::interrupts::Interrupts;
use crate::mappings::Mappings;
use crate::messages::{DmaMap, MAP_WRITE, SetIrqs};
use crate::protocol::Function;
use crate::quota::Quota;

/// Counters of what passed between the users of a function and its server.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) users: AtomicU64,
    pub(crate) most_maps: AtomicU64,
    pub(crate) refused_maps: AtomicU64,
    pub(crate) refused_irqs: AtomicU64,
    pub(crate) cut_files: AtomicU64,
    /// Limits the log lines about the users.
    pub(crate) quota: Quota,
}

/// One served function.
#[derive(Debug)]
pub struct Device {
    nic: SimPlatform,
    config: ConfigSpace,
    interrupts: Arc<Interrupts>,
    mappings: Mappings,
    counts: Arc<Counts>,
}

impl Device {
    /// Function `function` of `sim`, for users of it, and its interrupts.
    pub fn of(sim: &Sim, function: u8) -> (Self, Arc<Interrupts>) {
        let nic = sim.function(function);
        let interrupts = Arc::new(Interrupts::new(nic.vector_count()));
        let hook = Arc::clone(&interrupts);
        sim.set_interrupt_hook(function, Some(Box::new(move |vector| hook.fire(vector))));
        let place = Place {
            // One serial number for each card, made from its first address.
            card: sim.function(0).mac(),
            function,
            functions: sim.functions(),
            vectors: nic.vector_count(),
        };
        let recorded = sim.card().and_then(RecordedCard::config_space);
        let config = match recorded {
            Some(bytes) => ConfigSpace::recorded(&place, bytes),
            None => ConfigSpace::new(&place),
        };
        // The state after power-up.
        nic.set_bus_master(false);
        nic.power_up_msix();
        let this = Self {
            config,
            nic,
            interrupts: Arc::clone(&interrupts),
            mappings: Mappings::default(),
            counts: Arc::default(),
        };
        (this, interrupts)
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// A user came. It is disconnected if it cuts a file that it gave.
    pub(crate) fn user_came(&mut self, user: Arc<UnixStream>) {
        self.mappings = Mappings::of(user);
    }

    /// The user left, in order or not: the function is reset, then everything that the user gave is
    /// released.
    pub(crate) fn user_left(&mut self) {
        self.nic.abandon();
        self.interrupts.clear();
        if self.mappings.has_cut_file() {
            self.counts.cut_files.fetch_add(1, Ordering::Relaxed);
            self.counts.quota.line(|more| {
                log::warn!("a user cut a file that it had given, and was sent away{more}");
            });
        }
        self.mappings = Mappings::default();
        // As the kernel leaves a function that its user closes.
        self.config.power_up();
        self.follow_command();
        self.counts.users.fetch_add(1, Ordering::Relaxed);
    }

    /// FLR through configuration space, which it clears as far as required; what the user gave to
    /// the server stays.
    fn function_level_reset(&mut self) {
        self.nic.function_level_reset();
        self.config.reset();
        self.follow_command();
        self.unmask_connected();
    }

    /// Sets the MSI-X table according to the user's connections: on and off, masked and unmasked.
    /// The kernel does the same for a user of VFIO when it connects vectors, and restores it after
    /// a reset. The bits of the MSI-X capability in configuration space are only stored.
    fn unmask_connected(&self) {
        let vectors = self.nic.vector_count();
        for vector in (0..vectors).filter_map(Vector::new) {
            let connected = self.interrupts.is_connected(vector);
            self.nic.mask_vector(vector, !connected);
        }
        self.nic.set_msix(self.interrupts.is_enabled(), false);
    }

    /// Applies the current command register. Earlier register writes are carried out first.
    fn follow_command(&self) {
        self.nic.set_bus_master(self.config.bus_master());
    }

    /// Whether the region is memory that does not answer now.
    fn is_off(&self, region: u32) -> bool {
        let bars = [VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX];
        bars.contains(&region) && !self.config.memory_enabled()
    }

    fn show(&mut self, iova: u64, file: &File, offset: u64, bytes: u64, write: bool) -> bool {
        // SAFETY: only the function gets the window. It loses what `release` is passed before that
        // call (in `dma_unmap`), and all of it before the end of the mappings (in `user_left`). If
        // it did not accept the window, nobody has it, and `forget` ends this piece and no other.
        let window = unsafe { self.mappings.window(iova, file, offset, bytes, write) };
        let window = match window {
            Ok(window) => window,
            Err(error) => {
                self.counts.quota.line(|more| {
                    log::warn!("{bytes:#x} bytes at IOVA {iova:#x} were not mapped: {error}{more}");
                });
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

impl Function for Device {
    fn vectors(&self) -> u32 {
        self.nic.vector_count().into()
    }

    fn read(&mut self, region: u32, offset: u64, into: &mut [u8]) {
        match region {
            _ if self.is_off(region) => into.fill(0xff),
            VFIO_PCI_BAR0_REGION_INDEX => self.nic.bar0_read(offset, into),
            VFIO_PCI_CONFIG_REGION_INDEX => self.config.read(offset, into),
            VFIO_PCI_BAR3_REGION_INDEX => self.nic.bar3_read(offset, into),
            _ => into.fill(0xff),
        }
    }

    fn write(&mut self, region: u32, offset: u64, from: &[u8]) {
        match region {
            _ if self.is_off(region) => {}
            VFIO_PCI_BAR0_REGION_INDEX => {
                self.nic.bar0_write(offset, from);
                self.nic.execute();
            }
            VFIO_PCI_CONFIG_REGION_INDEX => match self.config.write(offset, from) {
                Effect::None => self.follow_command(),
                Effect::Reset => self.function_level_reset(),
            },
            VFIO_PCI_BAR3_REGION_INDEX => self.nic.bar3_write(offset, from),
            _ => {}
        }
    }

    fn map(&mut self, map: &DmaMap, file: Option<File>) {
        // The device gets no memory without a file (a ROM, another device's BAR).
        let Some(file) = file else {
            let (size, address) = (map.size, map.address);
            log::debug!("{size:#x} bytes at IOVA {address:#x} have no file");
            return;
        };
        let write = map.flags & MAP_WRITE != 0;
        if self.show(map.address, &file, map.offset, map.size, write) {
            let maps = self.mappings.pieces() as u64;
            self.counts.most_maps.fetch_max(maps, Ordering::Relaxed);
        } else {
            self.counts.refused_maps.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn unmap(&mut self, address: u64, size: u64) {
        let (address, size) = self.mappings.range(address, size);
        self.nic.detach_memory(address, size);
        self.mappings.release(address, size);
    }

    fn reset(&mut self) {
        self.nic.function_level_reset();
        self.config.stop_master();
        self.follow_command();
        self.unmask_connected();
    }

    fn set_irqs(&mut self, set: &SetIrqs, fds: Vec<File>) {
        // Other kinds of interrupt do not exist here: there is nothing to connect.
        if set.index != VFIO_PCI_MSIX_IRQ_INDEX {
            return;
        }
        let (flags, start, count) = (set.flags, set.start, set.count);
        if self.interrupts.set(flags, start, count, fds) {
            self.unmask_connected();
        } else {
            self.counts.quota.line(|more| {
                log::warn!(
                    "SET_IRQS {flags:#x} for {count} vectors from {start} on means nothing{more}"
                );
            });
            self.counts.refused_irqs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// BAR3 holds the table, followed by the pending bits, where the capability says.
const _: () = assert!(PBA as u64 == e810_sim::msix::PBA && (PBA as u64) < BAR3_LEN);
