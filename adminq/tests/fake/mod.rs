//! A platform in plain memory with a firmware that does as its script says.
//!
//! The firmware decodes descriptors and buffers with its own few lines, written
//! from the tables. It complains (`Firmware::complaints`) when the driver does
//! something a device could not serve.

#![allow(
    dead_code,
    unused_imports,
    clippy::allow_attributes,
    reason = "each test binary uses its own part of the fake"
)]

mod firmware;
mod memory;
mod state;

use std::cell::{RefCell, RefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use e810_hal::bus::{Bus, RegOffset, Vector};
use e810_hal::bytes::SharedBytes;
use e810_hal::map::{Access, DmaMap, DmaSegment, Mapping};
use e810_hal::{
    Barrier, Clock, DmaAlloc, DmaError, DmaLayout, HostMem, InterruptVectors, NoHostMemory, Ns,
    RawDma,
};

pub(crate) use firmware::{Fault, Firmware};
use memory::Memory;
pub(crate) use state::Reply;

struct Inner {
    firmware: RefCell<Firmware>,
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
    pub(crate) fn new() -> Self {
        Self(Rc::new(Inner {
            firmware: RefCell::default(),
            memory: RefCell::default(),
            now: RefCell::new(0),
        }))
    }

    pub(crate) fn firmware(&self) -> RefMut<'_, Firmware> {
        self.0.firmware.borrow_mut()
    }

    /// Lets the firmware report an event; whether there was an entry for it.
    pub(crate) fn event(&self, opcode: u16, flags: u16, datalen: u16, data: &[u8]) -> bool {
        let memory = self.0.memory.borrow();
        let mut firmware = self.0.firmware.borrow_mut();
        firmware.event(&memory, opcode, flags, datalen, data)
    }

    /// DMA allocations that are alive.
    pub(crate) fn alive(&self) -> usize {
        self.0.memory.borrow().dma_alive()
    }

    /// Lets the next allocation fail.
    pub(crate) fn fail_allocation(&self) {
        let mut memory = self.0.memory.borrow_mut();
        memory.fail_at = Some(memory.made);
    }

    pub(crate) fn opcodes(&self) -> Vec<u16> {
        let firmware = self.0.firmware.borrow();
        firmware.taken.iter().map(|taken| taken.opcode).collect()
    }

    /// Asserts that nothing is leaked and that the firmware had no complaint.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.alive(), 0, "leaked allocations");
        let complaints = &self.0.firmware.borrow().complaints;
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    fn step(&self) {
        let memory = self.0.memory.borrow();
        let now = *self.0.now.borrow();
        self.0.firmware.borrow_mut().step(&memory, now);
    }
}

impl Bus for Fake {
    fn read32(&self, off: RegOffset) -> u32 {
        self.0.firmware.borrow_mut().read(off)
    }

    fn write32(&self, off: RegOffset, value: u32) {
        let now = *self.0.now.borrow();
        self.0.firmware.borrow_mut().write(off, value, now);
    }
}

impl Barrier for Fake {
    fn to_device(&self) {
        self.0.firmware.borrow_mut().ordered = true;
    }
}

impl Clock for Fake {
    fn now(&self) -> Ns {
        Ns(*self.0.now.borrow())
    }

    fn delay(&self, time: Ns) {
        *self.0.now.borrow_mut() += time.0;
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
        let on = self.0.firmware.borrow().queues_on();
        assert!(!on, "memory of a queue that is on was freed");
        self.0.memory.borrow_mut().dma_free(&raw);
    }
}

// SAFETY: nothing is ever given.
unsafe impl HostMem for Fake {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        Err(NoHostMemory { words })
    }

    unsafe fn host_free(&self, _: NonNull<AtomicU64>, _: usize) {}
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
