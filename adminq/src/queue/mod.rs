//! The AdminQ: one command at a time, and events (control-path 9.1).
//!
//! Commands are synchronous. In a bring-up each step needs the answer to the previous one, so
//! there is one command buffer, and a small ring. After a time-out the firmware may still write
//! to that buffer. No other command is sent until its reply has come, and the memory is freed
//! only when the queue is disabled with no command outstanding.

mod command;
mod events;
mod memory;
mod registers;
mod start;

pub(crate) use command::refused;

use e810_hal::{Ns, Platform, log_error, log_warn};

use crate::error::{Error, Result};
use crate::event::Faults;
use crate::limits::{ARQ_ENTRIES, ATQ_ENTRIES};
use crate::op::{QueueShutdown, Version};
use crate::opcode::Opcode;

pub use memory::DMA_BYTES;
use memory::Memory;
use registers::Queue;

/// What was counted since the queue was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counters {
    /// Commands sent.
    pub commands: u64,
    /// Commands the firmware refused.
    pub refused: u64,
    /// Refused commands whose refusal was no failure ([`AdminQ::attempt`]).
    pub tolerated: u64,
    /// Events taken.
    pub events: u64,
}

/// The AdminQ of a function.
///
/// Started by [`AdminQ::start`]. Dropping it leaks its memory, because the
/// firmware may still write there: call [`AdminQ::shutdown`], or
/// [`AdminQ::release_after_reset`].
#[derive(Debug)]
#[must_use = "dropping an AdminQ leaks its memory: call shutdown() or release_after_reset()"]
pub struct AdminQ<P: Platform> {
    platform: P,
    memory: Memory<P>,
    /// Next entry of the command ring.
    next: u16,
    /// The command that timed out, until its reply has come.
    open: Option<Opcode>,
    /// Since when the firmware has been busy for commands that wait for it: they share one time
    /// limit until it takes one of them.
    busy_since: Option<Ns>,
    /// Next entry of the event ring, and the head as last read.
    event: u16,
    event_head: u16,
    version: Version,
    counters: Counters,
}

impl<P: Platform> AdminQ<P> {
    /// The platform.
    #[must_use]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// What the firmware reported about itself at the start.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the queue is still the one that was programmed: a reset by
    /// another driver switches it off.
    ///
    /// # Errors
    /// [`Error::QueueOff`]; [`Error::Wait`] when the device is gone.
    pub fn check_alive(&self) -> Result<()> {
        for (queue, entries) in [(Queue::Atq, ATQ_ENTRIES), (Queue::Arq, ARQ_ENTRIES)] {
            let len = queue.len(&self.platform)?;
            if !Queue::is_on(len, entries) {
                return Err(Error::QueueOff {
                    queue: queue.name(),
                    len,
                });
            }
        }
        Ok(())
    }

    /// The fault flags of both queues. They are cleared, as in existing drivers, so that each is
    /// reported once.
    ///
    /// # Errors
    /// [`Error::Wait`] when the device is gone.
    pub fn take_faults(&mut self) -> Result<Faults> {
        let mut faults = 0;
        for queue in [Queue::Atq, Queue::Arq] {
            let len = queue.len(&self.platform)?;
            if Queue::faults(len) != 0 {
                log_warn!("{}: length register {:#x}", queue.name(), len);
                queue.clear_faults(&self.platform, len);
                faults |= Queue::faults(len);
            }
        }
        Ok(Faults::from_len(faults))
    }

    /// Tells the firmware that the driver leaves, switches both queues off and frees their
    /// memory. If a command is open, this looks for its reply once more; without the reply the
    /// memory is leaked.
    ///
    /// # Errors
    /// Why the memory could not be freed. If the firmware refuses the farewell this is only
    /// logged: the queues are off all the same.
    pub fn shutdown(mut self) -> Result<()> {
        let farewell = self.execute(&QueueShutdown { unloading: true });
        if let Err(error) = &farewell {
            log_warn!("the firmware did not take leave: {}", error);
        }
        let off = self.switch_off();
        let closed = match (off, farewell) {
            (Ok(()), Err(error)) if error.leaves_command_open() => Err(error),
            (off, _) => off,
        };
        self.free(closed)
    }

    /// Frees the memory after a reset that ended every command: switches the queues off without a
    /// command to the firmware. (A PF reset leaves the queues' registers alone, control-path
    /// 9.1.)
    ///
    /// # Errors
    /// [`Error::Wait`] when the device is gone; the memory is then leaked.
    pub fn release_after_reset(self) -> Result<()> {
        let off = self.switch_off();
        self.free(off)
    }

    fn switch_off(&self) -> Result<()> {
        Queue::Atq
            .switch_off(&self.platform)
            .and(Queue::Arq.switch_off(&self.platform))
    }

    fn free(self, closed: Result<()>) -> Result<()> {
        match closed {
            Ok(()) => self.memory.release(),
            Err(error) => log_error!("the memory of the AdminQ is leaked: {}", error),
        }
        closed
    }
}

/// An error about a command whose data does not fit the buffer.
const fn too_long(op: Opcode, len: usize) -> Error {
    Error::TooLong {
        op,
        len,
        room: crate::limits::BUFFER_BYTES,
    }
}
