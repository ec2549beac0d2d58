//! Reads events from the receive queue.

use e810_hal::{Platform, log_debug};

use super::AdminQ;
use super::memory::Buffer;
use super::registers::Queue;
use crate::answer::Answer;
use crate::error::Result;
use crate::event::Event;
use crate::limits::{ARQ_ENTRIES, BUFFER_BYTES};

impl<P: Platform> AdminQ<P> {
    /// The next event, if there is one. Does not wait.
    ///
    /// The head register is read only when all events up to the last reading
    /// are taken. The entry is armed again before this returns, so what is given
    /// is a copy.
    ///
    /// # Errors
    /// [`Error::BadHead`](crate::Error::BadHead), [`Error::Wait`](crate::Error::Wait)
    /// when the device is gone.
    pub fn poll_event(&mut self) -> Result<Option<Event>> {
        if self.event == self.event_head {
            self.event_head = Queue::Arq.head(&self.platform, ARQ_ENTRIES)?;
            if self.event == self.event_head {
                return Ok(None);
            }
        }
        // The head register before the entries it speaks of.
        self.platform.from_device();
        let index = self.event;
        let descriptor = self.memory.read_arq(index);
        let cells = self.memory.buffer(Buffer::Event(index));
        // The length is the firmware's word: no more than the buffer is read.
        let len = usize::from(descriptor.datalen).min(BUFFER_BYTES);
        let event = Event::decode(&Answer::new(descriptor, cells, len));
        self.memory.arm_arq(index);
        // The entry in memory before the index in the register.
        self.platform.to_device();
        Queue::Arq.set_tail(&self.platform, index);
        let next = index.wrapping_add(1);
        self.event = if next < ARQ_ENTRIES { next } else { 0 };
        self.counters.events = self.counters.events.wrapping_add(1);
        log_debug!("event {}", descriptor.opcode);
        Ok(Some(event))
    }
}
