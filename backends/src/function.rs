//! One PCI function on a host: opened, checked, reset, and released.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use e810_hal::pci_ids::PciIds;
use e810_hal::{DmaSegment, Iova, Ns, Vector};

use super::dma::{Block, Domain, Mapper};
use super::error::BackendError;
use super::memory::{HUGE_PAGE, SharedMemory};
use super::pool::Pool;
use super::transport::{Notice, Transport};
use super::vectors::{InterruptVectors, Waiter};
use crate::accept::Accept;
use crate::buffer::Buffer;

/// Offsets in configuration space, and bits there (PCI 3.0, PCI Express 4.0).
mod config {
    pub(super) const VENDOR: u16 = 0;
    pub(super) const COMMAND: u16 = 4;
    pub(super) const COMMAND_MEMORY: u16 = 1 << 1;
    pub(super) const COMMAND_MASTER: u16 = 1 << 2;
    pub(super) const EXTENDED: u16 = 0x100;
    pub(super) const SERIAL_NUMBER: u32 = 3;
}

/// How a function is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// DMA memory and large payload ([`Function::buffer`]) come from huge pages of 2 MiB, which
    /// have to be reserved.
    pub hugepages: bool,
    /// Which functions may be opened.
    pub accept: Accept,
}

/// The identity of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// PCI device id.
    pub device: u16,
    /// Intel's name for it.
    pub name: &'static str,
    /// Serial number, highest byte first; zero if there is none.
    pub serial: [u8; 8],
}

impl Identity {
    /// The Ethernet address from which the serial number was made: its first and last three bytes,
    /// if the two between them are FF. It belongs to function 0, because all functions of a card
    /// have one serial number (PCI Express).
    #[must_use]
    pub fn mac(&self) -> Option<[u8; 6]> {
        mac_of_serial(self.serial)
    }
}

/// The Ethernet address from which a serial number was made.
pub(crate) fn mac_of_serial(serial: [u8; 8]) -> Option<[u8; 6]> {
    let [a, b, c, 0xff, 0xff, d, e, f] = serial else {
        return None;
    };
    Some([a, b, c, d, e, f]).filter(|mac| *mac != [0; 6])
}

/// A function of a device as a platform: the `P` of the driver.
///
/// A clone is another handle on the same function. When the last one is dropped, the function is
/// reset and everything is unmapped.
pub struct Function<T: Transport> {
    /// Dropped before `inner`, which keeps the device open.
    pub(super) registers: T::Registers,
    pub(super) inner: Arc<Inner<T>>,
}

pub(super) struct Inner<T: Transport> {
    pub(super) pool: Mutex<Pool<Mapper<T>>>,
    pub(super) mappings: Mutex<Mappings<T>>,
    pub(super) payload: Mutex<BTreeMap<u64, Weak<SharedMemory>>>,
    /// First and last I/O address of each admitted program, by number.
    pub(super) programs: Mutex<BTreeMap<u64, (u64, u64)>>,
    pub(super) vectors: Mutex<InterruptVectors>,
    pub(super) waiter: Waiter,
    pub(super) start: Instant,
    /// Empty turns of loops since the last yield.
    pub(super) turns: AtomicU32,
    identity: Identity,
    /// This process owns the function: it resets it and lets it access memory.
    is_owned: bool,
    /// Payload comes from huge pages, too.
    hugepages: bool,
    pub(super) domain: Arc<Domain<T>>,
}

/// Callers' memory that is mapped.
#[derive(Debug)]
pub(super) struct Mappings<T: Transport> {
    pub(super) next: u64,
    /// The block keeps the memory mapped, unless another process has mapped it; the segment is the
    /// part that was requested.
    pub(super) live: HashMap<u64, (Option<Block<T>>, DmaSegment)>,
}

pub(super) fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    // What a panic leaves behind is still consistent enough to release.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Transport> Function<T> {
    /// Opens the function behind `transport`: checks what it is, resets it, and lets it access
    /// memory.
    ///
    /// # Errors
    /// [`BackendError`]: not an E810, no vectors, or the transport failed.
    pub fn open(transport: T, options: Options) -> Result<Self, BackendError> {
        let identity = identify(&transport, options.accept)?;
        if transport.properties().vectors == 0 {
            return Err(BackendError::Unfit {
                device: transport.name().to_owned(),
                what: "no MSI-X vectors: the driver needs at least one".to_owned(),
            });
        }
        // Whatever its last user left running stops here, before it can access our memory.
        transport.reset()?;
        set_command(&transport, config::COMMAND_MASTER | config::COMMAND_MEMORY)?;
        Self::new(transport, options, identity, true)
    }

    fn new(
        transport: T,
        options: Options,
        identity: Identity,
        is_owned: bool,
    ) -> Result<Self, BackendError> {
        let waiter = Waiter::new()
            .map_err(|cause| BackendError::system(transport.name(), "making a waiter", &cause))?;
        for notices in transport.notice_events() {
            waiter
                .watch_notices(notices)
                .map_err(|cause| BackendError::system(transport.name(), "watching it", &cause))?;
        }
        let registers = transport.registers();
        let domain = Arc::new(Domain::new(transport)?);
        let inner = Inner {
            pool: Mutex::new(Pool::new(Mapper {
                domain: Arc::clone(&domain),
                huge: options.hugepages,
            })),
            mappings: Mutex::new(Mappings {
                next: 1,
                live: HashMap::new(),
            }),
            payload: Mutex::default(),
            programs: Mutex::default(),
            vectors: Mutex::default(),
            waiter,
            start: Instant::now(),
            turns: AtomicU32::new(0),
            identity,
            is_owned,
            hugepages: options.hugepages,
            domain,
        };
        Ok(Self {
            registers,
            inner: Arc::new(inner),
        })
    }

    /// The function behind a transport that reaches one of another process: checks what it is, and
    /// changes nothing about it.
    ///
    /// # Errors
    /// [`BackendError`]: not an E810, or the transport failed.
    pub fn of_program(transport: T) -> Result<Self, BackendError> {
        let options = Options::default();
        let identity = identify(&transport, options.accept)?;
        Self::new(transport, options, identity, false)
    }

    /// The transport underneath.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.inner.domain.transport
    }

    /// The function's identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// Why registers read as all-ones, if the transport failed.
    #[must_use]
    pub fn failure(&self) -> Option<&BackendError> {
        self.transport().failure()
    }

    /// Checks that the device still answers. Doorbells are posted writes, and do not show it.
    ///
    /// # Errors
    /// Why it does not; [`Function::failure`] returns the same from then on.
    pub fn probe(&self) -> Result<(), BackendError> {
        self.transport().config_read(config::VENDOR, &mut [0; 4])
    }

    /// A notice of the kernel for the owner of the function, each returned once: call it a few
    /// times a second, and after [`Function::wait_vectors`].
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        self.transport().notice()
    }

    /// Sleeps until taken vectors fire, a notice comes, or `limit` has passed; appends those that
    /// fired to `fired`.
    ///
    /// Each event goes to one of the waiting threads.
    ///
    /// # Errors
    /// [`BackendError::System`].
    pub fn wait_vectors(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<(), BackendError> {
        let inner = &self.inner;
        let mut ready = Vec::new();
        let waited = inner
            .waiter
            .wait(Duration::from_nanos(limit.0), |vector| ready.push(vector));
        waited.map_err(|cause| {
            BackendError::system(self.transport().name(), "waiting for interrupts", &cause)
        })?;
        let vectors = lock(&inner.vectors);
        fired.extend(ready.into_iter().filter(|vector| vectors.is_taken(*vector)));
        Ok(())
    }

    /// Payload memory that [`e810_hal::DmaMap`] of this function can map: in huge pages if the
    /// function was opened with them and the memory fills half of one.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, BackendError> {
        let huge = self.inner.hugepages && bytes >= HUGE_PAGE / 2;
        let buffer = Buffer::with_pages(bytes, huge).map_err(|cause| {
            let during = match huge {
                true => "allocating payload in huge pages (raise vm.nr_hugepages)",
                false => "allocating payload",
            };
            BackendError::system(self.transport().name(), during, &cause)
        })?;
        let memory = buffer.memory();
        let mut payload = lock(&self.inner.payload);
        payload.retain(|_, memory| memory.strong_count() > 0);
        payload.insert(memory.address(), Arc::downgrade(memory));
        Ok(buffer)
    }

    /// The payload memory that holds `bytes` bytes at `address`.
    pub(super) fn payload_at(&self, address: u64, bytes: usize) -> Option<Arc<SharedMemory>> {
        let payload = lock(&self.inner.payload);
        let (start, memory) = payload.range(..=address).next_back()?;
        let memory = memory.upgrade()?;
        let end = (address - start).checked_add(bytes as u64)?;
        (end <= memory.len() as u64).then_some(memory)
    }
}

/// Checks the ids, which are read from the open function.
///
/// # Errors
/// [`BackendError`]: not an E810, or the transport failed.
pub fn identify<T: Transport>(transport: &T, accept: Accept) -> Result<Identity, BackendError> {
    let mut space = [0; PciIds::LEN];
    transport.config_read(config::VENDOR, &mut space)?;
    let ids = PciIds::of_config(space);
    let name = accept.check(transport.name(), ids)?;
    let word = |offset| {
        let mut bytes = [0; 4];
        transport.config_read(offset, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let serial = serial_number(word)?;
    Ok(Identity {
        device: ids.device,
        name,
        serial: serial.to_be_bytes(),
    })
}

/// Walks the extended capabilities to the serial number; 0 if there is none, or if the space has no
/// extended part (a function behind a bus without one).
pub(crate) fn serial_number(
    word: impl Fn(u16) -> Result<u32, BackendError>,
) -> Result<u64, BackendError> {
    /// More than fit: a broken device's list may be circular.
    const MOST: u32 = 64;
    let mut at = config::EXTENDED;
    for _ in 0..MOST {
        // ID [15:0], next [31:20]; the last has next 0, and a space without extended part reads as
        // zeros or ones.
        let header = match word(at) {
            Ok(header) => header,
            Err(error @ (BackendError::Closed { .. } | BackendError::NoAnswer { .. })) => {
                return Err(error);
            }
            Err(_) => break,
        };
        if header == 0 || header == u32::MAX {
            break;
        }
        if header & 0xffff == config::SERIAL_NUMBER {
            let (low, high) = (word(at + 4)?, word(at + 8)?);
            return Ok(u64::from(high) << 32 | u64::from(low));
        }
        at = (header >> 20) as u16 & !3;
        if !(config::EXTENDED..=0xff0).contains(&at) {
            break;
        }
    }
    Ok(0)
}

/// Sets `on` in the command register and clears the other of the two bits.
fn set_command<T: Transport>(transport: &T, on: u16) -> Result<(), BackendError> {
    let both = config::COMMAND_MASTER | config::COMMAND_MEMORY;
    let mut bytes = [0; 2];
    transport.config_read(config::COMMAND, &mut bytes)?;
    let command = u16::from_le_bytes(bytes) & !both | on;
    transport.config_write(config::COMMAND, &command.to_le_bytes())
}

/// Lets the function access no memory; its registers stay.
pub(crate) fn stop_dma<T: Transport>(transport: &T) -> Result<(), BackendError> {
    set_command(transport, config::COMMAND_MEMORY)
}

impl<T: Transport> Inner<T> {
    /// Stops everything that comes from the function: interrupts, then DMA, then whatever still
    /// runs. If a step fails, the others are still done; the first failure is returned.
    fn quiet(&self) -> Result<(), BackendError> {
        let transport = &self.domain.transport;
        let steps = [
            transport.disconnect_vectors(),
            stop_dma(transport),
            transport.reset(),
        ];
        steps.into_iter().collect()
    }
}

impl<T: Transport> Drop for Inner<T> {
    fn drop(&mut self) {
        // The fields unmap the blocks after this.
        if !self.is_owned {
            return;
        }
        // A failed transport was reported to the user, and
        // the device is gone with it.
        if self.domain.transport.failure().is_none()
            && let Err(error) = self.quiet()
        {
            log::warn!("the function was not closed cleanly: {error}");
        }
    }
}

impl<T: Transport> Clone for Function<T> {
    fn clone(&self) -> Self {
        Self {
            registers: self.registers.clone(),
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<T: Transport> fmt::Debug for Function<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("device", &self.transport().name())
            .field("identity", &self.inner.identity)
            .finish_non_exhaustive()
    }
}

/// The segment of a mapping: the caller's bytes inside their pages.
pub(super) const fn run(iova: u64, in_page: u64, bytes: u64) -> DmaSegment {
    DmaSegment {
        iova: Iova(iova + in_page),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks a space that is 0 except for `words`; accesses past its end fail.
    fn walk(words: &[(u16, u32)], end: u16) -> u64 {
        let word = |at: u16| {
            let value = words.iter().find(|(offset, _)| *offset == at);
            match value {
                _ if at >= end => Err(BackendError::Refused {
                    device: "fake".to_owned(),
                    during: "reading",
                    cause: "past the end".to_owned(),
                }),
                Some((_, value)) => Ok(*value),
                None => Ok(0),
            }
        };
        serial_number(word).unwrap()
    }

    #[test]
    fn the_serial_number_is_behind_other_capabilities() {
        // As on a card: AER, ARI, serial number.
        let words = [
            (0x100, 0x1482_0001),
            (0x148, 0x1501_000e),
            (0x150, 0x1a01_0003),
            (0x154, 0xff00_0007),
            (0x158, 0x02e8_10ff),
        ];
        assert_eq!(walk(&words, 0x1000), 0x02e8_10ff_ff00_0007);
        assert_eq!(walk(&words[..2], 0x1000), 0, "none");
    }

    #[test]
    fn lists_that_lead_nowhere_end() {
        let circle = [(0x100, 0x1481_0001), (0x148, 0x1001_000e)];
        assert_eq!(walk(&circle, 0x1000), 0);
        assert_eq!(walk(&[(0x100, 0x1001_0001)], 0x1000), 0, "to itself");
        for next in [0x004, 0x0ff, 0xffc, 0xffe] {
            assert_eq!(
                walk(&[(0x100, next << 20 | 0x1_0001)], 0x1000),
                0,
                "{next:#x}"
            );
        }
        assert_eq!(walk(&[(0x100, u32::MAX)], 0x1000), 0);
        assert_eq!(walk(&[], 0x100), 0, "256 bytes of space");
    }
}
