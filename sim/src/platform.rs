//! [`SimPlatform`]: one simulated function as the platform that a driver runs on.

mod bar3;
mod config_space;
mod device_server;
mod vectors;

use crate::findings::{Kind, kind};
use std::fmt;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, DmaSegment, HostMem,
    Mapping, NoHostMemory, Ns, ProgramBytes, RawDma, RegOffset, SharedBytes, Vector,
};

use crate::function::{EngineEnv, FunctionState};
use crate::interrupt_lines::InterruptLines;
use crate::link::Mac;
use crate::machine::Machine;
use crate::program_memory;
use crate::regs;
use crate::runtime::{Mode, RuntimeOwner};

pub(crate) use vectors::HostVector;

/// A handle on one function of a [`Sim`](crate::Sim). A clone is another handle on the same
/// function.
///
/// The type is the same in virtual and in real time, and any thread may use it in both. In virtual
/// time the order of the threads' calls decides the run, so only a single thread gives a
/// reproducible run.
#[derive(Clone)]
pub struct SimPlatform {
    owner: Arc<RuntimeOwner>,
    function: u8,
}

/// Identifies the function: every object of a driver contains the simulator behind it.
impl fmt::Debug for SimPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimPlatform(function {})", self.function)
    }
}

impl SimPlatform {
    pub(crate) fn new(owner: Arc<RuntimeOwner>, function: u8) -> Self {
        Self { owner, function }
    }

    /// Does the pending work of the function on this thread, in real time. For a device server,
    /// whose client polls in another process. A driver in this process uses [`Clock::relax`].
    pub fn execute(&self) {
        self.owner.runtime.execute(self.function);
    }

    /// Writes a doorbell. The thread calls [`attend`](Self::attend) next, which does the work: nobody
    /// is woken for it.
    pub fn ring(&self, doorbell: RegOffset, value: u32) {
        self.owner.runtime.ring(self.function, doorbell, value);
    }

    /// Does pending work of the function on this thread, in real time. While this returns true, there
    /// may be more, and the thread calls it again soon.
    #[must_use]
    pub fn attend(&self) -> bool {
        self.owner.runtime.attend(self.function)
    }

    #[must_use]
    pub fn pf(&self) -> u8 {
        self.function
    }

    /// Ethernet address of this function.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.with(|env| env.state.mac)
    }

    /// Hardware number of this function's main VSI.
    #[must_use]
    pub fn vsi(&self) -> u16 {
        self.with(|env| env.state.identity.vsi)
    }

    /// How time passes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.owner.runtime.mode()
    }

    /// Returns and clears the pending interrupts, in the order of their vectors.
    #[must_use]
    pub fn take_interrupts(&self) -> Vec<Vector> {
        self.lines().take()
    }

    /// Like [`take_interrupts`](Self::take_interrupts), but waits for one, for `limit` at most. In
    /// virtual time, waiting is one step of the simulator.
    #[must_use]
    pub fn wait_interrupts(&self, limit: Ns) -> Vec<Vector> {
        match self.mode() {
            Mode::Real => self.lines().wait_any(Duration::from_nanos(limit.0)),
            Mode::Virtual => {
                let taken = self.take_interrupts();
                if !taken.is_empty() || limit == Ns(0) {
                    return taken;
                }
                self.relax();
                self.take_interrupts()
            }
        }
    }

    /// How often `vector` has fired.
    #[must_use]
    pub fn interrupt_count(&self, vector: Vector) -> u64 {
        self.lines().count(vector)
    }

    /// Waits until `vector` fires and takes that interrupt; false when `limit` has passed before.
    ///
    /// In virtual time, waiting makes time pass.
    #[must_use]
    pub fn wait_interrupt(&self, vector: Vector, limit: Ns) -> bool {
        match self.mode() {
            Mode::Real => self.lines().wait(vector, Duration::from_nanos(limit.0)),
            Mode::Virtual => {
                let start = self.now();
                loop {
                    if self.lines().take_one(vector) {
                        return true;
                    }
                    if self.now() - start >= limit {
                        return false;
                    }
                    self.relax();
                }
            }
        }
    }

    /// Makes `memory` visible to the device at an address that the caller chose: for a process that
    /// brings its own I/O address space. [`DmaMap::dma_unmap`] unmaps it.
    ///
    /// # Errors
    /// [`DmaError::BadRange`] for empty memory, or an address that has another offset in its page
    /// than the memory. [`DmaError::Refused`] when it overlaps an existing mapping or is closer
    /// than 4 KiB to one.
    pub fn map_at(
        &self,
        iova: u64,
        memory: SharedBytes,
        access: Access,
    ) -> Result<Mapping, DmaError> {
        self.with(|env| env.state.memory.map_at(iova, memory, access))
    }

    /// Makes `memory` visible to the device in one segment: for rings of a program in another
    /// process, which must be in one piece.
    ///
    /// # Errors
    /// As [`map_at`](Self::map_at); no address is left.
    pub fn map_whole(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        self.with(|env| env.state.memory.map_whole(memory, access))
    }

    /// From now on memory of another process can be mapped ([`DmaMap::dma_map_program`]) by the
    /// number that this returns, as far as that process lends it.
    #[must_use]
    pub fn attach_program(&self) -> u64 {
        self.with(|env| env.state.memory.attach_program())
    }

    /// The program lends all of its memory: `memory` is a descriptor of its `/proc/self/mem`.
    pub fn lend_process(&self, program: u64, memory: File) {
        self.with(|env| env.state.memory.lend_process(program, memory));
    }

    /// The program lends memory that both processes have: this process at `memory`, which stays
    /// valid until it is taken back or the program is gone, and the program at `address`.
    pub fn lend_at(&self, program: u64, address: u64, memory: SharedBytes) {
        if let Some(program) = self.with(|env| env.state.memory.program(program)) {
            program.lend(address, memory);
        }
    }

    /// The memory at that address is lent no more.
    pub fn take_back_at(&self, program: u64, address: u64) {
        if let Some(program) = self.with(|env| env.state.memory.program(program)) {
            program.take_back(address);
        }
    }

    /// The process is gone: the device reaches nothing of it any more. Mappings stay until they
    /// are unmapped.
    pub fn detach_program(&self, program: u64) {
        self.with(|env| env.state.memory.detach_program(program));
    }

    /// Reads `into.len()` bytes of BAR0, as a process that only knows offsets and lengths does.
    ///
    /// Registers are 32 bits wide: any other access is a finding and reads as all-ones. Exception:
    /// a counter of the LAN side, a pair of registers, may be read in one access.
    pub fn bar0_read(&self, offset: u64, into: &mut [u8]) {
        if let Some((low, high)) = regs::counter_at(offset).filter(|_| into.len() == 8) {
            let value = u64::from(self.read32(low)) | u64::from(self.read32(high)) << 32;
            into.copy_from_slice(&value.to_le_bytes());
            return;
        }
        match self.register_at(offset, into.len(), "read") {
            Some(off) => into.copy_from_slice(&self.read32(off).to_le_bytes()),
            None => into.fill(0xff),
        }
    }

    /// Writes bytes of BAR0; the rules are those of [`SimPlatform::bar0_read`]. A write of anything
    /// but a whole register is dropped.
    pub fn bar0_write(&self, offset: u64, from: &[u8]) {
        if let Some(off) = self.register_at(offset, from.len(), "write")
            && let Ok(value) = from.try_into()
        {
            self.write32(off, u32::from_le_bytes(value));
        }
    }

    fn register_at(&self, offset: u64, bytes: usize, what: &str) -> Option<RegOffset> {
        let off = u32::try_from(offset).ok().and_then(RegOffset::try_new);
        if bytes != 4 || off.is_none() {
            let text = format!("{what} of {bytes} bytes at {offset:#x} of BAR0");
            self.with(|env| env.found(kind::REGISTER_WIDTH, text));
            return None;
        }
        off
    }

    fn lines(&self) -> &InterruptLines {
        // `Sim::function` made sure that the function exists.
        match self.owner.runtime.lines.get(usize::from(self.function)) {
            Some(lines) => lines,
            None => unreachable!("a platform of a function that is not there"),
        }
    }

    /// Calls `f` with the function's environment.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut EngineEnv<'_>) -> R) -> R {
        self.owner.runtime.with_function(self.function, f)
    }

    /// Calls `f` with the machine and this function's index in it.
    pub(crate) fn with_machine<R>(&self, f: impl FnOnce(&mut Machine, usize) -> R) -> R {
        self.owner
            .runtime
            .with_machine(|machine| f(machine, usize::from(self.function)))
    }

    /// Calls `f` with the function's memory and a sink for findings.
    fn give_back(&self, f: impl FnOnce(&mut FunctionState, &mut Vec<(Kind, String)>)) {
        self.with(|env| {
            let mut findings = Vec::new();
            f(env.state, &mut findings);
            for (kind, text) in findings {
                env.found(kind, text);
            }
        });
    }
}

impl Bus for SimPlatform {
    fn read32(&self, off: RegOffset) -> u32 {
        self.owner.runtime.read32(self.function, off)
    }

    fn write32(&self, off: RegOffset, value: u32) {
        self.owner.runtime.write32(self.function, off, value);
    }
}

// SAFETY: `Memory` gives out zeroed blocks of its own, aligned to at least 8, that it holds by
// pointer and touches only atomically; they stay valid until `dma_free` (or for ever), and the
// range is mapped for reading and writing before the block is handed out. `dma_free` unmaps first,
// under the lock that every device access takes.
unsafe impl DmaAlloc for SimPlatform {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        self.with(|env| env.state.memory.dma_alloc(layout))
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        self.give_back(|state, findings| {
            state
                .memory
                .dma_free(raw, &mut |kind, text| findings.push((kind, text)));
        });
    }
}

// SAFETY: every run is a window of the caller's memory, mapped byte for byte in order; `dma_unmap`
// removes all of them under the lock that every device access takes.
unsafe impl DmaMap for SimPlatform {
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        if self.with(|env| env.state.memory.checks_access()) {
            // Not with the function locked: the pages may have to be read from a file.
            program_memory::check(memory, access)?;
        }
        self.with(|env| env.state.memory.dma_map(memory, access))
    }

    fn dma_map_program(&self, memory: ProgramBytes, access: Access) -> Result<Mapping, DmaError> {
        self.with(|env| env.state.memory.dma_map_program(memory, access))
    }

    fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        self.with(|env| env.state.memory.dma_segment(mapping, index))
    }

    fn dma_unmap(&self, mapping: Mapping) {
        self.with(|env| env.state.memory.dma_unmap(mapping));
    }
}

// SAFETY: blocks as for `DmaAlloc`, without a mapping.
unsafe impl HostMem for SimPlatform {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        self.with(|env| env.state.memory.host_alloc(words))
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        self.give_back(|state, findings| {
            state
                .memory
                .host_free(memory, words, &mut |kind, text| findings.push((kind, text)));
        });
    }
}

impl Clock for SimPlatform {
    fn now(&self) -> Ns {
        self.owner.runtime.now_of(self.function)
    }

    fn delay(&self, time: Ns) {
        self.owner.runtime.delay(self.function, time);
    }

    fn relax(&self) {
        self.owner.runtime.relax(self.function);
    }
}

impl Barrier for SimPlatform {}

#[cfg(test)]
mod tests;
