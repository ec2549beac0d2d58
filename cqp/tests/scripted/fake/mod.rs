//! A platform in plain memory with a device that does as its script says.
//!
//! The device decodes what it needs with its own few lines, written from the
//! tables: the send queue in laps, the CCQ, the FPM buffers, the segments. It
//! complains (`Device::complaints`) when the driver does something a device
//! could not serve.

mod device;
mod memory;

use std::cell::{Ref, RefCell, RefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use e810_hal::bus::{Bus, PfId, RegOffset, Vector};
use e810_hal::bytes::SharedBytes;
use e810_hal::map::{Access, DmaMap, DmaSegment, Mapping};
use e810_hal::{
    Barrier, Clock, DmaAlloc, DmaError, DmaLayout, HostMem, InterruptVectors, NoHostMemory, Ns,
    RawDma,
};

pub(crate) use device::{Device, Script};
use memory::Memory;

/// PF of the tests.
pub(crate) const PF: u16 = 3;

pub(crate) fn pf() -> PfId {
    PfId::new(PF).unwrap()
}

struct Inner {
    device: RefCell<Device>,
    memory: RefCell<Memory>,
    now: RefCell<u64>,
}

/// A handle on the machine.
#[derive(Clone)]
pub(crate) struct Fake(Rc<Inner>);

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

impl Fake {
    pub(crate) fn new(script: Script) -> Self {
        Self(Rc::new(Inner {
            device: RefCell::new(Device::new(script)),
            memory: RefCell::default(),
            now: RefCell::new(0),
        }))
    }

    pub(crate) fn device_mut(&self) -> RefMut<'_, Device> {
        self.0.device.borrow_mut()
    }

    pub(crate) fn device(&self) -> Ref<'_, Device> {
        self.0.device.borrow()
    }

    /// DMA and host allocations that are alive.
    pub(crate) fn alive(&self) -> (usize, usize) {
        let memory = self.0.memory.borrow();
        (memory.dma_alive(), memory.host_alive())
    }

    /// Allocations made so far, DMA and host together.
    pub(crate) fn allocations(&self) -> usize {
        self.0.memory.borrow().made
    }

    /// Lets allocation number `n` from now on fail (0: the next), once.
    pub(crate) fn fail_allocation(&self, n: usize) {
        let mut memory = self.0.memory.borrow_mut();
        memory.fail_at = Some(memory.made + n);
    }

    /// Lets every DMA allocation of at least `bytes` fail.
    pub(crate) fn refuse_from(&self, bytes: usize) {
        self.0.memory.borrow_mut().refuse_from = bytes;
    }

    /// A word of DMA memory, as the device reads it.
    pub(crate) fn word(&self, iova: u64) -> Option<u64> {
        self.0.memory.borrow().load(iova)
    }

    fn step(&self) {
        let memory = self.0.memory.borrow();
        self.0.device.borrow_mut().step(&memory);
    }

    /// Lets the device work, with memory to look at.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Device, &Memory) -> T) -> T {
        act(&mut self.0.device.borrow_mut(), &self.0.memory.borrow())
    }

    /// Asserts that nothing is leaked and that the device had no complaint.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.alive(), (0, 0), "leaked allocations");
        let complaints = &self.device().complaints;
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

impl Bus for Fake {
    fn read32(&self, off: RegOffset) -> u32 {
        self.0.device.borrow_mut().read(off)
    }

    fn write32(&self, off: RegOffset, value: u32) {
        {
            let memory = self.0.memory.borrow();
            self.0.device.borrow_mut().write(off, value, &memory);
        }
    }
}

impl Barrier for Fake {
    fn to_device(&self) {
        self.0.device.borrow_mut().ordered = true;
    }
}

impl Clock for Fake {
    fn now(&self) -> Ns {
        Ns(*self.0.now.borrow())
    }

    fn delay(&self, time: Ns) {
        // A delay may take longer than asked: under Miri, fewer turns reach a
        // limit.
        *self.0.now.borrow_mut() += time.0 * if cfg!(miri) { 50 } else { 1 };
        self.step();
    }

    fn relax(&self) {
        *self.0.now.borrow_mut() += 100;
        self.step();
    }
}

// SAFETY: `Memory` gives fresh zeroed blocks, aligned in their IOVA, that live
// until they are freed; nothing else refers to them.
unsafe impl DmaAlloc for Fake {
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
        self.0.memory.borrow_mut().dma_free(&raw);
    }
}

// SAFETY: as above.
unsafe impl HostMem for Fake {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        let mut memory = self.0.memory.borrow_mut();
        memory.host_alloc(words).ok_or(NoHostMemory { words })
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, _: usize) {
        self.0.memory.borrow_mut().host_free(memory);
    }
}

// SAFETY: nothing is ever mapped.
unsafe impl DmaMap for Fake {
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

impl InterruptVectors for Fake {
    fn vector_count(&self) -> u16 {
        0
    }
    fn vector_alloc(&self) -> Option<Vector> {
        None
    }
    fn vector_free(&self, _: Vector) {}
}
