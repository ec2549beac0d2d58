//! Payload of attached programs that is read ahead: neighbours in one system call, which costs far
//! more than the bytes.
//!
//! Nothing is kept for longer than the engine serves one queue pair once: the program may change
//! its memory at any time after the completion of the request.

use super::target::Window;
use crate::program_memory::NotThere;

/// Bytes that are read ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Each with the place of its bytes.
    windows: Vec<(Window, usize)>,
    bytes: Vec<u8>,
}

impl Ahead {
    /// Reads a window now.
    pub(super) fn read(&mut self, window: Window) {
        let at = self.bytes.len();
        self.bytes.resize(at + window.len, 0);
        let room = self.bytes.get_mut(at..).unwrap_or_default();
        match window.memory.read(window.address, room) {
            Ok(()) => self.windows.push((window, at)),
            // The access itself finds out.
            Err(NotThere) => self.bytes.truncate(at),
        }
    }

    pub(super) fn forget(&mut self) {
        self.windows.clear();
        self.bytes.clear();
    }

    /// Copies from what was read ahead; false if that is not there.
    pub(super) fn copy(&self, wanted: &Window, into: &mut [u8]) -> bool {
        let bytes = self.windows.iter().find_map(|(window, at)| {
            let offset = window.offset_of(wanted)?;
            self.bytes.get(at + offset..)?.get(..into.len())
        });
        if let Some(bytes) = bytes {
            into.copy_from_slice(bytes);
        }
        bytes.is_some()
    }
}
