//! A device with an observer of its accesses: registers, memory of the device, barriers and
//! interrupts.
//!
//! It is a wrapper, so that no backend and no part of the core knows of it, and it costs nothing
//! where it is not used. All kinds of device are one type behind it: code that is generic over
//! [`HostDevice`] is compiled once more for it, not once for each kind.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use e810::Lan;
use e810_hal::{
    Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, HostMem, InterruptVectors, Iova,
    Ns, RawDma, RegOffset, Vector, forward,
};

use crate::buffer::{Buffer, Payload};
use crate::device::TransportInfo;
use crate::interrupts::Interrupts;
use crate::memory::SharedMemory;
use crate::{BackendError, HostDevice, Identity, Notice, Properties};

/// Called at every access, in the order of the accesses of a thread. `now` is the device's clock.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A register was read.
    fn read(&self, now: Ns, memory: &DeviceMemory, offset: RegOffset, value: u32);

    /// A register is about to be written.
    fn write(&self, now: Ns, memory: &DeviceMemory, offset: RegOffset, value: u32);

    /// Memory was allocated for the device.
    fn allocated(&self, now: Ns, at: Iova, bytes: usize);

    /// Memory of the device is about to be freed.
    fn freed(&self, now: Ns, memory: &DeviceMemory, at: Iova);

    /// The driver has found an entry that the device wrote, and is about to read it
    /// ([`Barrier::from_device`]).
    fn entries(&self, now: Ns, memory: &DeviceMemory);

    /// The driver takes these interrupts.
    fn interrupts(&self, now: Ns, vectors: &[Vector]);
}

/// The memory that a driver has allocated for its device, readable by the device's addresses.
///
/// Memory that was mapped for the device (payload) is not included, unless the driver is in another
/// process: of that, all memory is that the device sees.
#[derive(Debug, Default)]
pub struct DeviceMemory(Mutex<BTreeMap<u64, Block>>);

/// One allocation: its words and their number.
#[derive(Clone, Debug)]
struct Block {
    words: NonNull<AtomicU64>,
    len: usize,
    is_writable: bool,
    /// Where the words are, if nobody else keeps them.
    _own: Option<Arc<SharedMemory>>,
}

// SAFETY: the words are atomic. Readers hold the lock of the map that contains them, and they are
// removed from the map before they are freed.
unsafe impl Send for Block {}

impl DeviceMemory {
    fn blocks(&self) -> MutexGuard<'_, BTreeMap<u64, Block>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters memory that the device sees at `at`, a multiple of 8. What was entered at the same
    /// address is forgotten.
    ///
    /// # Safety
    /// Until [`DeviceMemory::remove`] of the same address, the `len` words are valid for reads, and
    /// for writes if `is_writable`; and nobody has a Rust reference to them, but to atomics of eight
    /// bytes.
    pub unsafe fn insert(
        &self,
        at: Iova,
        words: NonNull<AtomicU64>,
        len: usize,
        is_writable: bool,
    ) {
        let block = Block {
            words,
            len,
            is_writable,
            _own: None,
        };
        self.blocks().insert(at.0, block);
    }

    /// Enters `bytes` bytes of zeros, in whole pages, at `at`, a multiple of 8: memory of a driver that
    /// is none. Returns the file that they are in. It has only the pages that were written.
    ///
    /// # Errors
    /// There are no descriptors, addresses or memory.
    pub fn insert_zeros(&self, at: Iova, bytes: usize) -> io::Result<File> {
        let memory = Arc::new(SharedMemory::new(bytes, false)?);
        let file = File::from(memory.file().try_clone_to_owned()?);
        let block = Block {
            words: memory.start().cast(),
            len: memory.len() / 8,
            is_writable: true,
            _own: Some(memory),
        };
        self.blocks().insert(at.0, block);
        Ok(file)
    }

    /// Writes `bytes` from `at` on, as a driver would: those that are in one allocation. Returns how many
    /// these are.
    pub fn write(&self, at: Iova, bytes: &[u8]) -> usize {
        let blocks = self.blocks();
        let Some((start, block)) = blocks.range(..=at.0).next_back() else {
            return 0;
        };
        let first = usize::try_from(at.0 - start).unwrap_or(usize::MAX);
        let left = (block.len * 8).saturating_sub(first);
        let there = bytes.get(..left).unwrap_or(bytes);
        if !block.is_writable {
            return 0;
        }
        for (byte, at) in there.iter().zip(first..) {
            // SAFETY: as in `read`; the block is writable.
            let word = unsafe { block.words.add(at / 8).as_ref() };
            let shift = at % 8 * 8;
            let old = word.load(Ordering::Relaxed) & !(0xFF << shift);
            word.store(old | u64::from(*byte) << shift, Ordering::Relaxed);
        }
        there.len()
    }

    /// Forgets the memory that begins at `at`.
    pub fn remove(&self, at: Iova) {
        self.blocks().remove(&at.0);
    }

    /// Writes `word` to `at`, a multiple of 8, if `expected` stands there. Returns whether it did.
    pub fn replace(&self, at: Iova, expected: u64, word: u64) -> bool {
        let blocks = self.blocks();
        let Some((start, block)) = blocks.range(..=at.0).next_back() else {
            return false;
        };
        let index = usize::try_from((at.0 - start) / 8).unwrap_or(usize::MAX);
        if index >= block.len || !block.is_writable {
            return false;
        }
        // SAFETY: as in `read`; the block is writable.
        let shared = unsafe { block.words.add(index).as_ref() };
        let order = Ordering::Relaxed;
        shared
            .compare_exchange(expected, word, order, order)
            .is_ok()
    }

    /// Reads words from `at`, a multiple of 8, on: as many as are in one allocation and fit.
    /// Returns how many were read. The device may be writing there.
    pub fn read(&self, at: Iova, words: &mut [u64]) -> usize {
        let blocks = self.blocks();
        let Some((start, block)) = blocks.range(..=at.0).next_back() else {
            return 0;
        };
        let first = usize::try_from((at.0 - start) / 8).unwrap_or(usize::MAX);
        let left = block.len.saturating_sub(first);
        let (into, _) = words.split_at_mut(left.min(words.len()));
        for (word, index) in into.iter_mut().zip(first..) {
            // SAFETY: the block has `len` words, and `index` is below that. The map is locked, and
            // a block is in it only while it is allocated: it is removed before it is freed.
            let shared = unsafe { block.words.add(index).as_ref() };
            *word = shared.load(Ordering::Relaxed);
        }
        into.len()
    }

    /// The allocation that contains the byte at `at`: its first address and its size in bytes.
    #[must_use]
    pub fn block(&self, at: Iova) -> Option<(Iova, usize)> {
        let blocks = self.blocks();
        let (start, block) = blocks.range(..=at.0).next_back()?;
        let bytes = block.len * 8;
        (((at.0 - start) as usize) < bytes).then_some((Iova(*start), bytes))
    }
}

/// A device without `Clone`, so that its type can be erased.
trait AnyDevice:
    Bus
    + DmaAlloc
    + DmaMap
    + HostMem
    + Clock
    + Barrier
    + InterruptVectors
    + Payload
    + Interrupts
    + TransportInfo
    + Send
    + Sync
{
}

impl<D: HostDevice> AnyDevice for D {}

/// An observed device.
#[derive(Clone)]
pub struct Observed {
    device: Arc<dyn AnyDevice>,
    memory: Arc<DeviceMemory>,
    observer: Arc<dyn Observer>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("observer", &self.observer)
            .finish_non_exhaustive()
    }
}

impl Observed {
    /// Lets `observer` follow what is done with `device` through this handle and its clones.
    pub fn new<D: HostDevice>(device: D, observer: Arc<dyn Observer>) -> Self {
        Self {
            device: Arc::new(device),
            memory: Arc::default(),
            observer,
        }
    }

    fn inner(&self) -> &dyn AnyDevice {
        &*self.device
    }
}

impl Bus for Observed {
    fn read32(&self, off: RegOffset) -> u32 {
        let value = self.device.read32(off);
        self.observer.read(self.now(), &self.memory, off, value);
        value
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.observer.write(self.now(), &self.memory, off, value);
        self.device.write32(off, value);
    }
}

// SAFETY: every call is passed on unchanged to a platform that keeps the contract.
unsafe impl DmaAlloc for Observed {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let raw = self.device.dma_alloc(layout)?;
        let block = Block {
            words: raw.words,
            len: raw.len,
            is_writable: true,
            _own: None,
        };
        self.memory.blocks().insert(raw.iova.0, block);
        self.observer.allocated(self.now(), raw.iova, raw.len * 8);
        Ok(raw)
    }
    unsafe fn dma_free(&self, raw: RawDma) {
        self.observer.freed(self.now(), &self.memory, raw.iova);
        self.memory.blocks().remove(&raw.iova.0);
        // SAFETY: the caller's promise is about the same allocation, and the observer's copy of its
        // address was dropped.
        unsafe { self.device.dma_free(raw) }
    }
}

forward!([] Observed, inner: DmaMap, HostMem, Clock, InterruptVectors);

impl Barrier for Observed {
    fn to_device(&self) {
        self.device.to_device();
    }
    fn from_device(&self) {
        self.device.from_device();
        self.observer.entries(self.now(), &self.memory);
    }
    fn flush_wc(&self) {
        self.device.flush_wc();
    }
}

impl Interrupts for Observed {
    fn wait_fired(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<()> {
        let before = fired.len();
        self.device.wait_fired(limit, fired)?;
        match fired.get(before..) {
            None | Some([]) => {}
            Some(new) => self.observer.interrupts(self.now(), new),
        }
        Ok(())
    }
}

impl Payload for Observed {
    fn payload(&self, bytes: usize) -> Result<Buffer> {
        self.device.payload(bytes)
    }
}

impl TransportInfo for Observed {
    fn identity(&self) -> Option<Identity> {
        self.device.identity()
    }
    fn notice(&self) -> Option<(String, Notice)> {
        self.device.notice()
    }
    fn failure(&self) -> Option<&BackendError> {
        self.device.failure()
    }
    fn on_failure(&self, report: fn(&BackendError)) {
        self.device.on_failure(report);
    }
    fn probe(&self) -> Result<(), BackendError> {
        self.device.probe()
    }
    fn properties(&self) -> Option<&Properties> {
        self.device.properties()
    }
    fn config_space(&self) -> Option<Result<Vec<u8>, BackendError>> {
        self.device.config_space()
    }
    fn lan(&self, mac: Option<[u8; 6]>, vsi: Option<u16>, mtu: u16) -> Result<Lan> {
        self.device.lan(mac, vsi, mtu)
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use e810_hal::{DmaBuf, DmaWords};
    use e810_sim::Sim;

    use super::*;

    #[derive(Debug, Default)]
    struct Calls(Mutex<Vec<String>>);

    impl Calls {
        fn add(&self, call: String) {
            let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(call);
        }
    }

    impl Observer for Calls {
        fn read(&self, _: Ns, _: &DeviceMemory, offset: RegOffset, _: u32) {
            self.add(format!("read {offset}"));
        }
        fn write(&self, _: Ns, _: &DeviceMemory, offset: RegOffset, value: u32) {
            self.add(format!("write {offset} {value}"));
        }
        fn allocated(&self, _: Ns, _: Iova, bytes: usize) {
            self.add(format!("allocated {bytes}"));
        }
        fn freed(&self, _: Ns, memory: &DeviceMemory, at: Iova) {
            let mut words = [1; 4];
            let there = memory.read(at, &mut words);
            self.add(format!("freed {there} {words:?}"));
        }
        fn entries(&self, _: Ns, _: &DeviceMemory) {
            self.add("entries".to_owned());
        }
        fn interrupts(&self, _: Ns, vectors: &[Vector]) {
            self.add(format!("{vectors:?}"));
        }
    }

    #[test]
    fn memory_is_readable_while_it_is_allocated() {
        let sim = Sim::builder().build();
        let calls = Arc::new(Calls::default());
        let device = Observed::new(sim.function(0), calls.clone());
        let memory = device.memory.clone();
        let buffer = DmaBuf::new(device.clone(), DmaLayout::new(24, 4096)).unwrap();
        buffer.words()[1].store(7, Ordering::Relaxed);
        let at = buffer.iova();
        let mut words = [1; 4];
        let second = at.offset(8).unwrap();
        assert_eq!(memory.read(second, &mut words), 2);
        assert_eq!(words, [7, 0, 1, 1]);
        assert_eq!(memory.block(second), Some((at, 24)));
        assert_eq!(memory.block(at.offset(24).unwrap()), None);
        assert_eq!(memory.read(at.offset(24).unwrap(), &mut words), 0);
        buffer.release();
        assert_eq!(memory.read(at, &mut words), 0);
        let calls = calls.0.lock().unwrap();
        assert_eq!(*calls, ["allocated 24", "freed 3 [0, 7, 0, 1]"]);
    }

    #[test]
    fn calls_are_in_the_order_of_accesses() {
        let sim = Sim::builder().build();
        let calls = Arc::new(Calls::default());
        let device = Observed::new(sim.function(0), calls.clone());
        let off = RegOffset::try_new(0xb_6008).unwrap();
        device.read32(off);
        device.clone().write32(off, 3);
        device.from_device();
        device.to_device();
        let calls = calls.0.lock().unwrap();
        assert_eq!(*calls, ["read 0x0b6008", "write 0x0b6008 3", "entries"]);
    }
}
