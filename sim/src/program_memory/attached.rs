//! Memory of attached programs, which are other processes.
//!
//! A program lends files that both processes have mapped: those are accessed directly. For the rest
//! of its memory it gives a descriptor of its own `/proc/self/mem`. That works between users, and
//! names the memory, not a process number that may be another's tomorrow. Once the process is gone,
//! nothing is read or written.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use e810_hal::SharedBytes;

use super::NotThere;

/// The memory of one program.
#[derive(Debug, Default)]
pub(crate) struct AttachedMemory(RwLock<Reached>);

/// What is reached of it, by the program's addresses.
#[derive(Debug, Default)]
struct Reached {
    lent: BTreeMap<u64, SharedBytes>,
    process: Option<File>,
}

impl Reached {
    /// The lent memory behind `bytes` bytes, if it is in one file.
    fn lent(&self, address: u64, bytes: usize) -> Option<SharedBytes> {
        let (start, file) = self.lent.range(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        file.window(offset, bytes).ok()
    }
}

impl AttachedMemory {
    /// Lives as long as the simulator's process: mappings may name it for as long. It is a few
    /// words.
    pub(crate) fn leak() -> &'static Self {
        Box::leak(Box::default())
    }

    fn reached(&self) -> RwLockReadGuard<'_, Reached> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Reached> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of the process is reached.
    pub(crate) fn lend_process(&self, memory: File) {
        self.change().process = Some(memory);
    }

    /// `memory` is at `address` in the program. It stays valid until it is taken back.
    pub(crate) fn lend(&self, address: u64, memory: SharedBytes) {
        self.change().lent.insert(address, memory);
    }

    /// What is at `address` is lent no more: when this returns, nobody accesses it.
    pub(crate) fn take_back(&self, address: u64) {
        self.change().lent.remove(&address);
    }

    /// The program is gone: its memory is not reached any more.
    pub(crate) fn end(&self) {
        *self.change() = Reached::default();
    }

    /// Whether the device may reach this memory.
    pub(crate) fn reaches(&self, address: u64, bytes: usize) -> bool {
        let reached = self.reached();
        reached.process.is_some() || reached.lent(address, bytes).is_some()
    }

    /// Whether each access is a system call.
    pub(crate) fn is_far(&self, address: u64, bytes: usize) -> bool {
        self.reached().lent(address, bytes).is_none()
    }

    /// Copies memory of the program out.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotThere> {
        let reached = self.reached();
        if let Some(lent) = reached.lent(address, into.len()) {
            return lent.read(0, into).map_err(|_| NotThere);
        }
        let process = reached.process.as_ref().ok_or(NotThere)?;
        process.read_exact_at(into, address).map_err(|_| NotThere)
    }

    /// Copies into memory of the program. On an error part of it may have been written.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<(), NotThere> {
        let reached = self.reached();
        if let Some(lent) = reached.lent(address, from.len()) {
            return lent.write(0, from).map_err(|_| NotThere);
        }
        let process = reached.process.as_ref().ok_or(NotThere)?;
        process.write_all_at(from, address).map_err(|_| NotThere)
    }
}
