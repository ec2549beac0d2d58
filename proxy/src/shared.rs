//! What the thread of a driver's messages and that of its interrupts share.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use e810_backends::host::clock::monotonic;
use e810_backends::observed::{DeviceMemory, Observer as _};
use e810_hal::{RegOffset, Vector};
use e810_trace::{Event, Recorder};

use crate::guard::{Guard, Stopped};

/// The recording, and the memory that it is read from. Its times are those of the machine's clock, so that
/// recordings of several functions have one order.
#[derive(Debug)]
pub(crate) struct Shared<W: Write> {
    recorder: Recorder<W>,
    pub(crate) memory: DeviceMemory,
    /// Not there if every command may pass.
    guard: Option<Mutex<Guard>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing half done that the next driver needs.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Write + Send + std::fmt::Debug> Shared<W> {
    pub(crate) fn new(recorder: Recorder<W>, allow_nvm: bool) -> Self {
        Self {
            recorder: recorder.with_clock(monotonic),
            memory: DeviceMemory::default(),
            guard: (!allow_nvm).then(Mutex::default),
        }
    }

    pub(crate) fn event(&self, event: Event) {
        self.recorder.event(monotonic(), event);
    }

    /// Before anybody finds an answer of the firmware.
    fn restore(&self) {
        if let Some(guard) = &self.guard {
            lock(guard).restore(&self.memory);
        }
    }

    /// Records what stands in queues and was not seen before.
    pub(crate) fn look(&self) {
        self.restore();
        self.recorder.look(monotonic(), &self.memory);
    }

    /// The driver has read a register.
    pub(crate) fn read(&self, offset: RegOffset, value: u32) {
        self.restore();
        self.recorder.read(monotonic(), &self.memory, offset, value);
    }

    /// The driver is about to write a register. Returns the commands that were stopped.
    pub(crate) fn write(&self, offset: RegOffset, value: u32) -> Vec<Stopped> {
        self.restore();
        self.recorder
            .write(monotonic(), &self.memory, offset, value);
        let Some(guard) = &self.guard else {
            return Vec::new();
        };
        let stopped = lock(guard).write(&self.memory, offset, value);
        for Stopped { opcode, index } in &stopped {
            self.event(Event::Note {
                text: format!(
                    "AdminQ command {opcode:#06x}, entry {index} of its queue, was not passed on: it writes to flash or to a module"
                ),
            });
        }
        stopped
    }

    /// The device has sent these interrupts.
    pub(crate) fn interrupts(&self, vectors: &[Vector]) {
        self.look();
        self.recorder.interrupts(monotonic(), vectors);
    }

    /// Memory is about to be taken from the device.
    pub(crate) fn unmapped(&self, at: e810_hal::Iova, bytes: u64) {
        self.recorder.unmapped(monotonic(), &self.memory, at, bytes);
    }

    /// The function has no queues any more.
    pub(crate) fn reset(&self, event: Event) {
        self.recorder.reset(monotonic(), &self.memory, event);
        if let Some(guard) = &self.guard {
            *lock(guard) = Guard::default();
        }
    }
}
