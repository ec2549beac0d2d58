//! What a driver's messages do to the function behind the proxy.

use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use e810_backends::{BackendError, Transport};
use e810_card::record::hex;
use e810_hal::{Bus, RegOffset, Vector};
use e810_sim_server::interrupts::Interrupts;
use e810_sim_server::messages::{DmaMap, SetIrqs};
use e810_sim_server::protocol::{Function, region_len};
use e810_sim_server::quota::Quota;
use e810_trace::Event;
use e810_trace::record::Hex;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};

use crate::memory::{Memory, mapped};
use crate::shared::Shared;
use crate::vectors::Vectors;

/// Offsets in configuration space, and bits there (PCI 3.0, PCI power management 1.2).
mod config {
    pub(super) const COMMAND: u16 = 0x04;
    pub(super) const MEMORY: u8 = 1 << 1;
    pub(super) const MASTER: u8 = 1 << 2;
    pub(super) const CAPABILITIES: u16 = 0x34;
    pub(super) const INTERRUPT_PIN: u64 = 0x3d;
    pub(super) const POWER_MANAGEMENT: u8 = 1;
    /// From the capability's start on.
    pub(super) const POWER_STATE: u16 = 4;
    pub(super) const STATES: u8 = 3;
    pub(super) const EXPRESS: u8 = 0x10;
    /// The high byte of its device control register, and the bit there that resets the function.
    pub(super) const CONTROL_HIGH: u16 = 9;
    pub(super) const FLR: u8 = 1 << 7;
}

/// The function, for one driver.
#[derive(Debug)]
pub struct Passing<T: Transport, W: Write> {
    transport: Arc<T>,
    registers: T::Registers,
    shared: Arc<Shared<W>>,
    vectors: Arc<Vectors>,
    memory: Memory,
    /// The region of the MSI-X table, which no driver reaches through VFIO: bytes without effect.
    table: Vec<u8>,
    /// The driver has accessed the function.
    has_begun: bool,
    /// Where the power state is.
    power_state: Option<u16>,
    /// Where the function is reset.
    control: Option<u16>,
    user: Arc<UnixStream>,
    /// Registers answer: memory space is on, and the function has power. Otherwise an access to a
    /// real BAR would end this process.
    is_on: bool,
    quota: Quota,
    /// Why the driver cannot go on.
    pub(crate) failed: Option<BackendError>,
}

impl<T: Transport, W: Write + Send + std::fmt::Debug> Passing<T, W> {
    /// The function, for the driver at the other end of `user`. Nothing is done to it before that
    /// driver accesses it.
    pub(crate) fn new(
        transport: Arc<T>,
        shared: Arc<Shared<W>>,
        vectors: Arc<Vectors>,
        user: Arc<UnixStream>,
    ) -> Self {
        Self {
            registers: transport.registers(),
            memory: Memory::of(user.clone()),
            table: table(transport.properties().vectors),
            has_begun: false,
            power_state: None,
            control: None,
            user,
            is_on: false,
            quota: Quota::default(),
            failed: None,
            transport,
            shared,
            vectors,
        }
    }

    /// Before the driver's first access: the function is as after power-up.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let begun = self.power_up();
        self.done(begun);
        self.shared.event(Event::User { is_there: true });
    }

    fn power_up(&mut self) -> Result<(), BackendError> {
        let find = |id| capability(&*self.transport, id);
        let [power, express] = [find(config::POWER_MANAGEMENT)?, find(config::EXPRESS)?];
        self.power_state = power.map(|at| at + config::POWER_STATE);
        self.control = express.map(|at| at + config::CONTROL_HIGH);
        self.quiet()?;
        self.vectors.connect(&*self.transport)
    }

    /// Stops what comes from the function, and resets it: as before its first driver.
    fn quiet(&mut self) -> Result<(), BackendError> {
        let mut command = [0; 2];
        self.transport.config_read(config::COMMAND, &mut command)?;
        command[0] &= !(config::MEMORY | config::MASTER);
        self.transport.config_write(config::COMMAND, &command)?;
        self.transport.reset()?;
        self.follow()
    }

    /// The driver is gone, in order or not.
    pub(crate) fn end(mut self) -> Result<(), BackendError> {
        if !self.has_begun {
            return Ok(());
        }
        self.shared.reset(Event::User { is_there: false });
        self.vectors.clear();
        if self.memory.has_cut_file() {
            log::warn!("the driver's process cut a file that it had given, and was sent away");
        }
        // Also where one of them fails. The memory is that of the driver's files: a device that still
        // reaches it harms nobody else.
        let steps = [
            self.transport.disconnect_vectors(),
            self.quiet(),
            self.memory
                .unmap(&*self.transport, &self.shared, 0, u64::MAX),
        ];
        steps.into_iter().collect()
    }

    /// A reset of the function: it has no queues, and no message waits.
    fn was_reset(&self) {
        self.shared.reset(Event::Reset);
        self.vectors.was_reset();
    }

    /// Learns from configuration space whether registers answer.
    fn follow(&mut self) -> Result<(), BackendError> {
        let byte = |at| {
            let mut byte = [0];
            self.transport.config_read(at, &mut byte)?;
            Ok::<u8, BackendError>(byte[0])
        };
        let state = match self.power_state {
            Some(at) => byte(at)? & config::STATES,
            None => 0,
        };
        self.is_on = byte(config::COMMAND)? & config::MEMORY != 0 && state == 0;
        Ok(())
    }

    /// Notes the first failure, and ends the connection by it.
    fn done(&mut self, result: Result<(), BackendError>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
            // It may have left.
            let _ = self.user.shutdown(Shutdown::Both);
        }
    }

    /// The register whose bytes an access is, and only these.
    fn register(offset: u64, bytes: usize) -> Option<RegOffset> {
        let offset = u32::try_from(offset).ok().and_then(RegOffset::try_new);
        offset.filter(|_| bytes == 4)
    }

    fn read_register(&self, offset: u64) -> u32 {
        let Some(offset) = Self::register(offset, 4) else {
            // Push pages, which nobody is offered here.
            return u32::MAX;
        };
        if !self.is_on {
            return u32::MAX;
        }
        let value = self.registers.read32(offset);
        self.shared.read(offset, value);
        value
    }

    fn config_read(&mut self, offset: u64, into: &mut [u8]) {
        let at = u16::try_from(offset).unwrap_or(u16::MAX);
        let read = self.transport.config_read(at, into);
        if let Err(error) = read {
            into.fill(0xff);
            // Some functions have no extended part.
            let quota = &self.quota;
            quota.line(|more| log::warn!("{error}{more}"));
        }
        // There are no INTx interrupts here: a virtual machine would ask for one.
        let pin = config::INTERRUPT_PIN.checked_sub(offset);
        let pin = pin.and_then(|index| usize::try_from(index).ok());
        if let Some(pin) = pin.and_then(|index| into.get_mut(index)) {
            *pin = 0;
        }
        self.shared.event(Event::ConfigRead {
            offset: Hex(offset),
            bytes: hex(into),
        });
    }

    fn config_write(&mut self, offset: u64, from: &[u8]) {
        self.shared.look();
        self.shared.event(Event::ConfigWrite {
            offset: Hex(offset),
            bytes: hex(from),
        });
        let at = u16::try_from(offset).unwrap_or(u16::MAX);
        let control = self.control.and_then(|control| control.checked_sub(at));
        let control = control.and_then(|index| from.get(usize::from(index)));
        if control.is_some_and(|byte| byte & config::FLR != 0) {
            self.was_reset();
        }
        let written = self.transport.config_write(at, from);
        let followed = written.and_then(|()| self.follow());
        self.done(followed);
    }
}

/// The region of an MSI-X table with all vectors masked, as after power-up (PCI 3.0, 6.8.2).
fn table(vectors: u16) -> Vec<u8> {
    const ENTRY: usize = 16;
    const CONTROL: usize = 12;
    let len = usize::try_from(region_len(VFIO_PCI_BAR3_REGION_INDEX)).unwrap_or(0);
    let mut table = vec![0; len];
    for entry in table.chunks_exact_mut(ENTRY).take(vectors.into()) {
        if let Some(byte) = entry.get_mut(CONTROL) {
            *byte = 1;
        }
    }
    table
}

/// Where the function has the capability `wanted`, if it has it.
fn capability<T: Transport>(transport: &T, wanted: u8) -> Result<Option<u16>, BackendError> {
    /// More than fit: a broken device's list may be circular.
    const MOST: usize = 48;
    let mut bytes = [0; 2];
    transport.config_read(config::CAPABILITIES, &mut bytes)?;
    let [mut at, _] = bytes;
    for _ in 0..MOST {
        at &= !3;
        if at == 0 {
            break;
        }
        transport.config_read(at.into(), &mut bytes)?;
        let [id, next] = bytes;
        if id == wanted {
            return Ok(Some(at.into()));
        }
        at = next;
    }
    Ok(None)
}

impl<T: Transport, W: Write + Send + std::fmt::Debug> Function for Passing<T, W> {
    fn vectors(&self) -> u32 {
        self.transport.properties().vectors.into()
    }

    fn read(&mut self, region: u32, offset: u64, into: &mut [u8]) {
        self.begin();
        match region {
            VFIO_PCI_BAR0_REGION_INDEX
                if into.len().is_multiple_of(4) && offset.is_multiple_of(4) =>
            {
                let mut at = offset;
                // A register of 64 bits is read from its low half on.
                for word in into.chunks_exact_mut(4) {
                    word.copy_from_slice(&self.read_register(at).to_le_bytes());
                    at += 4;
                }
            }
            VFIO_PCI_CONFIG_REGION_INDEX => self.config_read(offset, into),
            VFIO_PCI_BAR3_REGION_INDEX if self.is_on => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let there = self.table.get(start..).unwrap_or_default();
                for (to, from) in into.iter_mut().zip(there) {
                    *to = *from;
                }
            }
            _ => into.fill(0xff),
        }
    }

    fn write(&mut self, region: u32, offset: u64, from: &[u8]) {
        self.begin();
        match region {
            VFIO_PCI_BAR0_REGION_INDEX if self.is_on => {
                let register = Self::register(offset, from.len());
                if let (Some(register), Ok(value)) = (register, from.try_into()) {
                    let value = u32::from_le_bytes(value);
                    for stopped in self.shared.write(register, value) {
                        let opcode = stopped.opcode;
                        self.quota.line(|more| {
                            log::warn!(
                                "firmware command {opcode:#06x} was not passed on: it writes to flash or to a module{more}"
                            );
                        });
                    }
                    self.registers.write32(register, value);
                } else {
                    let bytes = from.len();
                    self.quota.line(|more| {
                        log::warn!("a write of {bytes} bytes at {offset:#x} of BAR0 is no register's, and was left out{more}");
                    });
                }
            }
            VFIO_PCI_CONFIG_REGION_INDEX => self.config_write(offset, from),
            VFIO_PCI_BAR3_REGION_INDEX if self.is_on => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let there = self.table.get_mut(start..).unwrap_or_default();
                for (to, from) in there.iter_mut().zip(from) {
                    *to = *from;
                }
            }
            _ => {}
        }
    }

    /// A write to a served function is a message that nobody answers. What is asked behind it is
    /// answered when the write is done.
    fn settle(&mut self) {
        if !self.transport.properties().maps_any_memory {
            let asked = self.transport.config_read(config::COMMAND, &mut [0; 2]);
            self.done(asked);
        }
    }

    fn map(&mut self, map: &DmaMap, file: Option<File>) {
        self.begin();
        let (bytes, iova) = (map.size, map.address);
        // The device gets no memory without a file (a ROM, another device's BAR).
        let Some(file) = file else {
            log::debug!("{bytes:#x} bytes at IOVA {iova:#x} have no file");
            return;
        };
        match self.memory.map(&*self.transport, &self.shared, map, &file) {
            Ok(()) => self.shared.event(mapped(map)),
            Err(error) => {
                self.shared.event(Event::Note {
                    text: format!("{bytes:#x} bytes at {iova:#x} were not mapped: {error}"),
                });
                self.quota.line(|more| {
                    log::warn!("{bytes:#x} bytes at IOVA {iova:#x} were not mapped: {error}{more}");
                });
            }
        }
    }

    fn unmap(&mut self, address: u64, size: u64) {
        self.begin();
        let unmapped = self
            .memory
            .unmap(&*self.transport, &self.shared, address, size);
        self.done(unmapped);
    }

    fn set_irqs(&mut self, set: &SetIrqs, fds: Vec<File>) {
        self.begin();
        // Other kinds of interrupt do not exist here: there is nothing to connect.
        if set.index != VFIO_PCI_MSIX_IRQ_INDEX {
            return;
        }
        let (flags, start, count) = (set.flags, set.start, set.count);
        let all = self.vectors() as usize;
        let mut given: Vec<bool> = vec![true; fds.len().min(count as usize).min(all)];
        // Without a descriptor a vector is disconnected; a count of 0 is all of them.
        let named = if count == 0 {
            all
        } else {
            all.min(count as usize)
        };
        given.resize(named, false);
        let is_trigger = flags & VFIO_IRQ_SET_DATA_EVENTFD == 0 && count > 0;
        let shared = self.shared.clone();
        let seen = |fired: &[Vector]| shared.interrupts(fired);
        let set = |connected: &Interrupts| connected.set(flags, start, count, fds);
        let changed = self.vectors.change(seen, set);
        if !changed.is_ok_and(|is_done| is_done) {
            self.quota.line(|more| {
                log::warn!(
                    "SET_IRQS {flags:#x} for {count} vectors from {start} on means nothing{more}"
                );
            });
            return;
        }
        // The driver may also make vectors fire by hand.
        if !is_trigger {
            self.shared.event(Event::Connected {
                first: start,
                vectors: given,
            });
        }
    }

    fn reset(&mut self) {
        self.begin();
        self.was_reset();
        let reset = self.transport.reset();
        let followed = reset.and_then(|()| self.follow());
        self.done(followed);
    }
}
