//! The driver's platform on one function of this machine: seven traits.

use core::hint::spin_loop;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use e810_hal::{
    Access, Bar0, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, DmaSegment, HostMem,
    InterruptVectors, Iova, Mapping, NoHostMemory, Ns, RawDma, RegOffset, SharedBytes, Vector,
};

use crate::boot::MEMORY_END;
use crate::interrupts::{FIRST, Lines};
use crate::machine::{Function, LINES_EACH, Machine, MachineError};
use crate::pool::PAGE;

/// A function and the machine it is in. Not for several threads: it cannot be
/// shared with them.
#[derive(Clone, Copy, Debug)]
pub struct Metal<'m> {
    machine: &'m Machine,
    function: &'m Function,
}

impl<'m> Metal<'m> {
    /// The platform for `function`.
    #[must_use]
    pub const fn new(machine: &'m Machine, function: &'m Function) -> Self {
        Self { machine, function }
    }

    /// Memory for messages, which stays the caller's for good.
    ///
    /// # Errors
    /// [`MachineError::NoMemory`].
    pub fn payload(&self, bytes: usize) -> Result<SharedBytes, MachineError> {
        let memory = self.machine.pool.keep(bytes);
        let memory = memory.ok_or(MachineError::NoMemory { bytes })?;
        // SAFETY: whole pages, taken for good, and nothing else refers to them.
        Ok(unsafe { SharedBytes::new(memory, bytes) })
    }

    /// The machine.
    #[must_use]
    pub const fn machine(&self) -> &'m Machine {
        self.machine
    }

    /// The interrupt lines of this function.
    #[must_use]
    pub const fn lines(&self) -> Lines {
        Lines::range(self.function.first_line, LINES_EACH)
    }

    /// Whether `vector` is among the `fired` lines.
    #[must_use]
    pub fn has_fired(&self, fired: Lines, vector: Vector) -> bool {
        fired.has(self.line(vector))
    }

    /// `vector_alloc` gives out numbers below `LINES_EACH`.
    fn line(&self, vector: Vector) -> u8 {
        self.function.first_line + vector.get() as u8
    }
}

impl Bus for Metal<'_> {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        Bar0::read32(&self.function.registers, off)
    }
    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        Bar0::write32(&self.function.registers, off, value);
    }
}

// SAFETY: the pool gives zeroed pages that are nobody else's, aligned as asked;
// write-back memory is coherent on x86, and without an IOMMU the device reaches
// all of it, each byte at its own address. So nothing is taken from it in
// `dma_free`: the caller has stopped the device (contract). A clone is the same
// machine's.
unsafe impl DmaAlloc for Metal<'_> {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let (bytes, align) = (layout.bytes(), layout.align());
        let memory = self.machine.pool.take(bytes, align);
        let memory = memory.ok_or(DmaError::OutOfMemory { bytes, align })?;
        Ok(RawDma {
            iova: Iova(memory.addr().get() as u64),
            words: memory.cast(),
            len: bytes / 8,
        })
    }
    unsafe fn dma_free(&self, raw: RawDma) {
        // SAFETY: the caller's promise.
        unsafe { self.machine.pool.give(raw.words.cast(), raw.len * 8) };
    }
}

// SAFETY: without an IOMMU there is nothing to map, nor to take away: the one run
// is the memory itself, and that the device keeps to it, and lets go of it when it
// is told, is up to the device (contract).
unsafe impl DmaMap for Metal<'_> {
    fn dma_map(&self, memory: SharedBytes, _: Access) -> Result<Mapping, DmaError> {
        let (address, bytes) = (memory.address(), memory.len());
        let end = address.checked_add(bytes as u64);
        let end = end.filter(|end| *end > address);
        match end.ok_or(DmaError::BadRange { address, bytes })? {
            // Address and length fit 32 bits each: a handle that says it all.
            ..=MEMORY_END => Ok(Mapping {
                id: address << 32 | bytes as u64,
                segments: 1,
            }),
            _ => Err(DmaError::Refused { address, bytes }),
        }
    }
    fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        (index == 0).then_some(DmaSegment {
            iova: Iova(mapping.id >> 32),
            bytes: mapping.id & 0xffff_ffff,
        })
    }
    fn dma_unmap(&self, _: Mapping) {}
}

// SAFETY: pages of the pool, zeroed, nobody else's. The device is never told
// where they are.
unsafe impl HostMem for Metal<'_> {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        let bytes = words.checked_mul(8).ok_or(NoHostMemory { words })?;
        let memory = self.machine.pool.take(bytes, PAGE);
        Ok(memory.ok_or(NoHostMemory { words })?.cast())
    }
    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        // SAFETY: the caller's promise; as many bytes as were taken.
        unsafe { self.machine.pool.give(memory.cast(), words * 8) };
    }
}

impl Clock for Metal<'_> {
    fn now(&self) -> Ns {
        self.machine.now()
    }
    fn delay(&self, time: Ns) {
        let end = self.now() + time;
        while self.now() < end {
            spin_loop();
        }
    }
    fn relax(&self) {
        spin_loop();
    }
}

/// The processor's own are all that this machine needs.
impl Barrier for Metal<'_> {}

impl InterruptVectors for Metal<'_> {
    fn vector_count(&self) -> u16 {
        self.function.msix.entries().min(LINES_EACH.into())
    }
    fn vector_alloc(&self) -> Option<Vector> {
        let taken = self.function.vectors.get();
        let number = taken.trailing_ones() as u16;
        let vector = Vector::new(number).filter(|_| number < self.vector_count())?;
        let (address, data) = (
            self.machine.apic.message_address(),
            FIRST + self.line(vector),
        );
        // SAFETY: the address is the local APIC's, which this program has, and the
        // data one of its lines, for which there is a handler.
        let connected = unsafe { self.function.msix.connect(vector, address, data.into()) };
        connected.ok()?;
        self.function.vectors.set(taken | 1 << number);
        Some(vector)
    }
    fn vector_free(&self, vector: Vector) {
        // Only what was given out comes back, so the table has it.
        let _ = self.function.msix.mask(vector);
        let taken = self.function.vectors.get();
        self.function.vectors.set(taken & !(1 << vector.get()));
    }
}
