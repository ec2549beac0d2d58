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
    /// The head register is read only once all events of the previous reading are taken. The
    /// entry is armed again before this returns, so the returned event is a copy.
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
        // The head register first, then the entries that it covers.
        self.platform.from_device();
        let index = self.event;
        let descriptor = self.memory.read_arq(index);
        let cells = self.memory.buffer(Buffer::Event(index));
        // The length comes from the firmware: no more than the buffer is read.
        let len = usize::from(descriptor.datalen).min(BUFFER_BYTES);
        let event = Event::decode(&Answer::new(descriptor, cells, len));
        self.memory.arm_arq(index);
        // The entry must be in memory before the index is in the register.
        self.platform.to_device();
        Queue::Arq.set_tail(&self.platform, index);
        let next = index.wrapping_add(1);
        self.event = if next < ARQ_ENTRIES { next } else { 0 };
        self.counters.events = self.counters.events.wrapping_add(1);
        log_debug!("event {}", descriptor.opcode);
        Ok(Some(event))
    }
}
