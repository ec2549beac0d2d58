//! A platform in plain memory for tests of the crates above (feature `testing`).
//!
//! [`FakePlatform`] implements every platform trait; what its registers do, and what
//! happens as time passes, is a [`FakeDevice`] of the test. Memory is blocks with a gap
//! behind each, so that what runs over its end is found. Time passes only with `delay` and
//! `relax`.
//!
//! No crate that is shipped enables the feature: only dev-dependencies do, and a test holds
//! that. It uses `std`.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod memory;

use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::string::String;
use std::sync::atomic::AtomicU64;

use crate::bus::{Bus, RegOffset, Vector};
use crate::bytes::SharedBytes;
use crate::map::{Access, DmaMap, DmaSegment, Mapping};
use crate::{
    Barrier, Clock, DmaAlloc, DmaError, DmaLayout, HostMem, InterruptVectors, NoHostMemory, Ns,
    RawDma,
};

pub use memory::FakeMemory;

/// What a test's device does.
pub trait FakeDevice {
    /// How much longer than asked a delay takes: more than 1 where turns are slow.
    const DELAY_FACTOR: u64 = 1;

    /// The value of a register.
    fn read(&mut self, off: RegOffset) -> u32;

    /// A register is written, at `now` (ns).
    fn write(&mut self, off: RegOffset, value: u32, memory: &FakeMemory, now: u64);

    /// Time has passed, to `now` (ns).
    fn step(&mut self, memory: &FakeMemory, now: u64);

    /// The driver has ordered memory before what comes next ([`Barrier::to_device`]).
    fn ordered(&mut self);

    /// Whether DMA memory may be freed now: not while the device uses a queue.
    fn may_free(&self) -> bool {
        true
    }

    /// What the driver did that a device could not serve.
    fn complaints(&self) -> &[String];
}

struct Inner<D> {
    device: RefCell<D>,
    memory: RefCell<FakeMemory>,
    now: RefCell<u64>,
}

/// A handle on the platform; clones are handles on the same.
pub struct FakePlatform<D>(Rc<Inner<D>>);

impl<D> Clone for FakePlatform<D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<D> fmt::Debug for FakePlatform<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakePlatform")
    }
}

impl<D: Default> Default for FakePlatform<D> {
    fn default() -> Self {
        Self::new(D::default())
    }
}

impl<D> FakePlatform<D> {
    /// A platform with this device.
    pub fn new(device: D) -> Self {
        Self(Rc::new(Inner {
            device: RefCell::new(device),
            memory: RefCell::default(),
            now: RefCell::new(0),
        }))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> Ref<'_, D> {
        self.0.device.borrow()
    }

    /// The device, to change it.
    #[must_use]
    pub fn device_mut(&self) -> RefMut<'_, D> {
        self.0.device.borrow_mut()
    }

    /// Has the device do something with the memory.
    pub fn with<T>(&self, act: impl FnOnce(&mut D, &FakeMemory) -> T) -> T {
        act(&mut self.0.device.borrow_mut(), &self.0.memory.borrow())
    }

    /// DMA and host allocations that are alive.
    #[must_use]
    pub fn alive(&self) -> (usize, usize) {
        let memory = self.0.memory.borrow();
        (memory.dma_alive(), memory.host_alive())
    }

    /// Allocations made so far, DMA and host together.
    #[must_use]
    pub fn allocations(&self) -> usize {
        self.0.memory.borrow().made
    }

    /// Makes allocation number `n` from now on fail (0: the next), once.
    pub fn fail_allocation(&self, n: usize) {
        let mut memory = self.0.memory.borrow_mut();
        memory.fail_at = Some(memory.made + n);
    }

    /// Makes every DMA allocation of at least `bytes` fail.
    pub fn refuse_from(&self, bytes: usize) {
        self.0.memory.borrow_mut().refuse_from = bytes;
    }

    /// A word of DMA memory, as the device reads it.
    #[must_use]
    pub fn word(&self, iova: u64) -> Option<u64> {
        self.0.memory.borrow().load(iova)
    }
}

impl<D: FakeDevice> FakePlatform<D> {
    /// Asserts that nothing is leaked and that the device had no complaint.
    ///
    /// # Panics
    /// Otherwise.
    pub fn assert_clean(&self) {
        assert_eq!(self.alive(), (0, 0), "leaked allocations");
        let device = self.device();
        let complaints = device.complaints();
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    fn pass(&self, time: u64) {
        *self.0.now.borrow_mut() += time;
        let now = *self.0.now.borrow();
        self.with(|device, memory| device.step(memory, now));
    }
}

impl<D: FakeDevice> Bus for FakePlatform<D> {
    fn read32(&self, off: RegOffset) -> u32 {
        self.device_mut().read(off)
    }

    fn write32(&self, off: RegOffset, value: u32) {
        let now = *self.0.now.borrow();
        self.with(|device, memory| device.write(off, value, memory, now));
    }
}

impl<D: FakeDevice> Barrier for FakePlatform<D> {
    fn to_device(&self) {
        self.device_mut().ordered();
    }
}

impl<D: FakeDevice> Clock for FakePlatform<D> {
    fn now(&self) -> Ns {
        Ns(*self.0.now.borrow())
    }

    fn delay(&self, time: Ns) {
        self.pass(time.0 * D::DELAY_FACTOR);
    }

    fn relax(&self) {
        self.pass(100);
    }
}

// SAFETY: `FakeMemory` gives fresh zeroed blocks, aligned in their IOVA, that live
// until they are freed; nothing else refers to them.
unsafe impl<D: FakeDevice> DmaAlloc for FakePlatform<D> {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let mut memory = self.0.memory.borrow_mut();
        memory
            .dma_alloc(layout.bytes(), layout.align())
            .ok_or(DmaError::OutOfMemory {
                bytes: layout.bytes(),
                align: layout.align(),
            })
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        assert!(
            self.device().may_free(),
            "memory of a queue that is on was freed"
        );
        self.0.memory.borrow_mut().dma_free(&raw);
    }
}

// SAFETY: as above.
unsafe impl<D: FakeDevice> HostMem for FakePlatform<D> {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        let mut memory = self.0.memory.borrow_mut();
        memory.host_alloc(words).ok_or(NoHostMemory { words })
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, _: usize) {
        self.0.memory.borrow_mut().host_free(memory);
    }
}

// SAFETY: nothing is ever mapped.
unsafe impl<D: FakeDevice> DmaMap for FakePlatform<D> {
    fn dma_map(&self, memory: SharedBytes, _: Access) -> Result<Mapping, DmaError> {
        Err(DmaError::Refused {
            address: memory.address(),
            bytes: memory.len(),
        })
    }
    fn dma_segment(&self, _: &Mapping, _: u32) -> Option<DmaSegment> {
        None
    }
    fn dma_unmap(&self, _: Mapping) {}
}

impl<D: FakeDevice> InterruptVectors for FakePlatform<D> {
    fn vector_count(&self) -> u16 {
        0
    }
    fn vector_alloc(&self) -> Option<Vector> {
        None
    }
    fn vector_free(&self, _: Vector) {}
}
