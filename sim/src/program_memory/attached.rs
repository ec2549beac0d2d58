//! Memory of attached programs, which are other processes: each gives a descriptor of its own
//! `/proc/self/mem`. That works between users, and names the memory, not a process number that may
//! be another's tomorrow. Once the process is gone, nothing is read or written.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{PoisonError, RwLock};

use super::NotThere;

/// The memory of one program.
#[derive(Debug)]
pub(crate) struct AttachedMemory(RwLock<Option<File>>);

impl AttachedMemory {
    /// Lives as long as the simulator's process: mappings may name it for as long. It is a few
    /// words.
    pub(crate) fn leak(memory: File) -> &'static Self {
        Box::leak(Box::new(Self(RwLock::new(Some(memory)))))
    }

    /// The program is gone: its memory is not reached any more.
    pub(crate) fn end(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Copies memory of the program out.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), NotThere> {
        let memory = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let memory = memory.as_ref().ok_or(NotThere)?;
        memory.read_exact_at(into, address).map_err(|_| NotThere)
    }

    /// Copies into memory of the program. On an error part of it may have been written.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<(), NotThere> {
        let memory = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let memory = memory.as_ref().ok_or(NotThere)?;
        memory.write_all_at(from, address).map_err(|_| NotThere)
    }
}
